// What is done to the runtime, a WebAssembly module, function by function: each is counted, or only some are kept.

const CODE = 10; // the section that holds the bodies of functions
const NOTHING = Buffer.from([3, 0, 0, 0x0b]); // a body of three bytes: no variables, `unreachable`, end

/** Only the functions that `kept` names are left; who calls another one gets an error ("unreachable"). */
export function without(module, kept) {
  return changed(module, (body, number) => (kept.has(number) ? body : NOTHING));
}

/** Every function first writes a 1 into the shared memory, at `start` and its number. */
export function marking(module, start) {
  return changed(module, (body, number) => {
    const reader = new Reader(body);
    reader.number(); // the size
    const from = reader.at;
    for (let groups = reader.number(); groups > 0; groups--) {
      reader.number(); // so many variables
      reader.at++; // of this type
    }
    // i32.const start + number, i32.const 1, i32.store8
    const mark = Buffer.from([0x41, ...signed(start + number), 0x41, 1, 0x3a, 0, 0]);
    const content = Buffer.concat([body.subarray(from, reader.at), mark, body.subarray(reader.at)]);
    return Buffer.concat([unsigned(content.length), content]);
  });
}

function changed(module, change) {
  const reader = new Reader(module);
  reader.at = 8; // after the name of the format and its version
  const parts = [module.subarray(0, 8)];
  while (reader.at < module.length) {
    const start = reader.at;
    const section = module[reader.at++];
    const end = reader.number() + reader.at;
    if (section !== CODE) parts.push(module.subarray(start, end));
    else {
      const bodies = [];
      const count = reader.number();
      for (let number = 0; number < count; number++) {
        const from = reader.at;
        reader.at = reader.number() + reader.at;
        bodies.push(change(module.subarray(from, reader.at), number));
      }
      const content = Buffer.concat([unsigned(count), ...bodies]);
      parts.push(Buffer.from([CODE]), unsigned(content.length), content);
    }
    reader.at = end;
  }
  return Buffer.concat(parts);
}

class Reader {
  at = 0;

  constructor(bytes) {
    this.bytes = bytes;
  }

  /** An unsigned LEB128. */
  number() {
    for (let value = 0, shift = 0; ; shift += 7) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * 2 ** shift;
      if (byte < 128) return value;
    }
  }
}

function unsigned(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value & 127) | 128);
  return Buffer.from([...bytes, value]);
}

function signed(value) {
  const bytes = [];
  for (; value > 63; value >>= 7) bytes.push((value & 127) | 128); // never negative here
  return [...bytes, value];
}

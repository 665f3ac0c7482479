import assert from "node:assert/strict";
import { test } from "node:test";
import { marking, without } from "../wasm.mjs";

// Two functions that give 1 and 2, exported as "a" and "b", and a memory "m".
const MODULE = Buffer.from([
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
  ...[1, 5, 1, 0x60, 0, 1, 0x7f],
  ...[3, 3, 2, 0, 0],
  ...[5, 3, 1, 0, 1],
  ...[7, 13, 3, 1, 0x61, 0, 0, 1, 0x62, 0, 1, 1, 0x6d, 2, 0],
  ...[10, 13, 2, 4, 0, 0x41, 1, 0x0b, 6, 1, 1, 0x7e, 0x41, 2, 0x0b],
]);

interface Exports {
  a: () => number;
  b: () => number;
  m: WebAssembly.Memory;
}

async function instance(module: Buffer): Promise<Exports> {
  return (await WebAssembly.instantiate(new Uint8Array(module))).instance.exports as unknown as Exports;
}

test("functions that are not kept can be called no more", async () => {
  const { a, b } = await instance(without(MODULE, new Set([1])));
  assert.equal(b(), 2);
  assert.throws(a, WebAssembly.RuntimeError);
  assert.deepEqual(without(MODULE, new Set([0, 1])), MODULE);
});

test("functions that ran are marked", async () => {
  const { a, b, m } = await instance(marking(MODULE, 1000));
  const marks = new Uint8Array(m.buffer, 1000, 2);
  assert.equal(b(), 2);
  assert.deepEqual([...marks], [0, 1]);
  assert.equal(a(), 1);
  assert.deepEqual([...marks], [1, 1]);
});

// From lines and vectors to a ranking, and how it differs from another. Pure functions.

const TOP = 10; // results that are shown and compared
const MOST_LINES = 10000;
const SMALL_BATCH = 64; // texts at a time, so that progress is seen and others get their turn

// One text per line, without the empty ones.
const linesOf = text => text.split(/\r\n|[\n\r]/).map(line => line.trim()).filter(Boolean);

// Texts in the order given, in as many requests as the server's limits ask for.
function batched(texts, limits) {
  const found = [], most = Math.min(SMALL_BATCH, limits.inputs);
  let batch = [], characters = 0, bytes = 0;
  for (const text of texts) {
    const size = new TextEncoder().encode(JSON.stringify(text)).length + 1;
    const full = batch.length === most || characters + text.length > limits.characters || bytes + size > limits.bytes - 512;
    if (batch.length && full) {
      found.push(batch);
      [batch, characters, bytes] = [[], 0, 0];
    }
    batch.push(text);
    characters += text.length;
    bytes += size;
  }
  return batch.length ? [...found, batch] : found;
}

// What base64 says as float32, the lowest byte first.
const decoded = base64 => new Float32Array(Uint8Array.from(atob(base64), letter => letter.charCodeAt(0)).buffer);

function dot(one, other, dims) {
  let sum = 0;
  for (let at = 0; at < dims; at++) sum += one[at] * other[at];
  return sum;
}

// Cosines of the first dims: those of a shorter vector are the first of the longer one, brought to length 1 again.
function cosines(query, documents, dims) {
  const length = Math.sqrt(dot(query, query, dims)) || 1;
  return documents.map(one => dot(query, one, dims) / (length * (Math.sqrt(dot(one, one, dims)) || 1)));
}

// Documents from best to worst; of equals, the one that comes first.
const order = scores => scores.map((_, index) => index).sort((a, b) => scores[b] - scores[a] || a - b);

// For each document, its rank: 0 for the best.
function ranks(sorted) {
  const found = new Array(sorted.length);
  sorted.forEach((document, rank) => { found[document] = rank; });
  return found;
}

// How the first of one order stand in another.
function compared(sorted, whole, most = TOP) {
  const count = Math.min(most, sorted.length), here = ranks(sorted), there = ranks(whole);
  const shown = sorted.slice(0, count), wanted = whole.slice(0, count);
  return {
    count,
    there,
    shared: shown.filter(document => there[document] < count).length,
    inPlace: shown.filter((document, rank) => there[document] === rank).length,
    missed: wanted.filter(document => here[document] >= count).map(document => ({ document, rank: here[document] })),
  };
}

// Where the slider of dims stops: 8, 12, 16, 24, 32, 48 and so on, and all of them.
function dimStops(full) {
  const found = [];
  for (let size = 8; size < full; size *= 2) found.push(size, 1.5 * size);
  return [...new Set([...(full < 8 ? [1] : []), ...found.filter(size => size < full), full])];
}

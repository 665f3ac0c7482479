import assert from "node:assert/strict";
import { test } from "node:test";
import * as ort from "onnxruntime-web/wasm";
import { batches, Encoder } from "../src/encoder.ts";
import { builtIn } from "./web_folder.ts";

ort.env.wasm.numThreads = 1;
const { manifest, files, asked } = builtIn(1);
const encoder = new Encoder(manifest, files);

test("only the blocks of a depth are fetched, and each of them once", async () => {
  await encoder.encode(["a ristretto"], { layers: 0 });
  assert.deepEqual(asked.toSorted(), ["model/embeddings.onnx.packed", "model/exit_0.onnx.packed", "model/tokenizer.json.packed"]);
  await encoder.encode(["a ristretto"], { layers: 1 });
  assert.deepEqual(asked.slice(3).toSorted(), ["model/exit_1.onnx.packed", "model/layer_1.onnx.packed"]);
});

test("vectors have unit length, as many dims as asked for, and do not depend on their neighbours", async () => {
  const texts = ["a ristretto", "", "a very long coffee ".repeat(100)];
  const { data, count, dims } = await encoder.encode(texts, { layers: 1, dims: 64 });
  assert.deepEqual([count, dims, data.length], [3, 64, 192]);
  for (const [row, text] of texts.entries()) {
    const alone = (await encoder.encode([text], { layers: 1, dims: 64 })).data;
    const own = data.subarray(row * 64, row * 64 + 64);
    const cosine = own.reduce((sum, value, at) => sum + value * alone[at]!, 0);
    assert.ok(Math.abs(Math.hypot(...own) - 1) < 1e-5 && cosine > 0.999, `${row}: ${cosine}`);
  }
  assert.equal((await encoder.encode([])).count, 0);
});

test("texts are truncated to what the model takes, and lone surrogates replaced", async () => {
  const [long, broken, replaced] = await encoder.tokens(["word ".repeat(2000), "x\ud83d", "x\ufffd"]);
  assert.equal(long!.length, 256);
  assert.deepEqual(broken, replaced);
});

test("what cannot be encoded is refused in one sentence", async () => {
  await assert.rejects(encoder.encode(["a"], { layers: 2 }), /layers 2 cannot be used; this model takes a whole number from 0 to 1/);
  await assert.rejects(encoder.encode(["a"], { dims: 0 }), /dims 0 cannot be used; this model takes a whole number from 1 to 384/);
  await assert.rejects(encoder.encode("a" as never), /must be a list of strings, not string; wrap it/);
  await assert.rejects(encoder.encode(["a", 1 as never]), /text 1 is of type number/);
  await assert.rejects(encoder.encode(["a"], { prompt: "query" }), /there is no prompt "query"; this model has none/);
});

test("batches hold every text once, within the limit of tokens", () => {
  const ids = [3, 1, 9, 4, 4].map((length) => new Array<number>(length).fill(0));
  const made = [...batches(ids, 8)];
  assert.deepEqual(made.flat().toSorted(), [0, 1, 2, 3, 4]);
  assert.deepEqual(made, [[2], [3, 4], [0, 1]]);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { best, differing, SearchIndex } from "../src/search_index.ts";
import { BASE, listingOf, packed, sourceOf } from "./web_folder.ts";

const SPACE = { depths: ["a", "b"], tokenizer: "t" };

function made(asked: string[] = []): Promise<SearchIndex> {
  const vectors = Int8Array.from([127, 0, 0, 127, 90, 90, 0, 0]);
  const contents = new Map([
    ["vectors.i8.packed", packed(new Uint8Array(vectors.buffer))],
    ["texts_0.json.packed", packed('[["x","east"],["y","north"]]')],
    ["texts_1.json.packed", packed('[["z","between"],["o","nowhere"]]')],
  ]);
  const description = { schema: 1, kind: "web-index", cut: "1x2", count: 4, texts_per_file: 2, space: SPACE, ...listingOf(contents) };
  return SearchIndex.open(JSON.stringify(description), `${BASE}index.json`, SPACE, sourceOf(contents, asked));
}

test("the nearest texts are found, best first, and only their files are fetched", async () => {
  const asked: string[] = [];
  const index = await made(asked);
  const [first] = await index.nearest(Float32Array.from([0, 1]), 1);
  assert.deepEqual([first!.id, first!.text], ["y", "north"]);
  assert.deepEqual(asked, ["vectors.i8.packed", "texts_0.json.packed"]);
  const all = await index.nearest(Float32Array.from([0, 1]), 10);
  assert.deepEqual(all.map((hit) => hit.id), ["y", "z", "x", "o"]);
  assert.ok(Math.abs(all[1]!.score - Math.SQRT1_2) < 1e-6 && all[3]!.score === 0);
});

test("fewer dims are compared at their own length", async () => {
  const [first, second] = await (await made()).nearest(Float32Array.from([1]), 2);
  assert.deepEqual([first!.id, first!.score, second!.id, second!.score], ["x", 1, "z", 1]);
});

test("of equal scores, those that come first are kept", () => {
  assert.deepEqual(best(Float32Array.from([1, 3, 3, 2, 3]), 2), [1, 2]);
});

test("an index of another model, and what is asked of it wrongly, is refused", async () => {
  assert.equal(differing(SPACE, { depths: ["a"], tokenizer: "t" }), null);
  assert.equal(differing(SPACE, { depths: ["a", "c"], tokenizer: "t" }), "its weights");
  assert.equal(differing(SPACE, { depths: ["a", "b"], tokenizer: "u" }), "its tokenizer");
  const source = sourceOf(new Map());
  await assert.rejects(SearchIndex.open('{"kind":"index"}', "i", SPACE, source), /is not an index of schema 1 for the web/);
  const other = JSON.stringify({ schema: 1, kind: "web-index", cut: "1x2", space: { depths: ["x"], tokenizer: "t" } });
  await assert.rejects(SearchIndex.open(other, "i", SPACE, source), /was made by another model \(its weights differs\)/);
  const index = await made();
  await assert.rejects(index.nearest(new Float32Array(3), 1), /has 3 dims and the index 2/);
  await assert.rejects(index.nearest(new Float32Array(2), 0), /k 0 cannot be used/);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { Files, type Source } from "../src/files.ts";
import { parseManifest } from "../src/manifest.ts";
import { BASE, listingOf, packed, sourceOf } from "./web_folder.ts";

test("a file is fetched, checked and unpacked", async () => {
  const contents = new Map([["a.json.packed", packed("[1]")]]);
  const told: string[] = [];
  const files = new Files(BASE, listingOf(contents), sourceOf(contents), ({ path, bytes }) => told.push(`${path} ${bytes}`));
  assert.equal(await files.text("a.json.packed"), "[1]");
  assert.deepEqual(told, [`a.json.packed ${contents.get("a.json.packed")!.length}`]);
});

test("a file that is not what was exported is refused", async () => {
  const listed = new Map([["a.packed", packed("right")]]);
  const files = new Files(BASE, listingOf(listed), sourceOf(new Map([["a.packed", packed("wrong")]])));
  await assert.rejects(files.read("a.packed"), /a\.packed is not the file that was exported .* upload the folder again/);
});

test("a file that was kept and is damaged is fetched afresh, and only what is right is kept", async () => {
  const right = packed("right");
  const listed = listingOf(new Map([["a.packed", right]]));
  const kept: Uint8Array[] = [];
  const source: Source = async (_address, _version, afresh = false) => {
    const content = new Uint8Array(afresh ? right : packed("damaged"));
    return { content, fetched: afresh, keep: async () => void kept.push(content) };
  };
  assert.equal(await new Files(BASE, listed, source).text("a.packed"), "right");
  assert.deepEqual(kept.map((one) => Buffer.from(one)), [Buffer.from(right)]);
});

test("a file that is not listed is refused without asking for it", async () => {
  const asked: string[] = [];
  const files = new Files(BASE, { files: {}, sha256: {} }, sourceOf(new Map(), asked));
  await assert.rejects(files.read("b"), /lists no b; export the model again/);
  assert.deepEqual(asked, []);
});

test("what is not a manifest of a web folder is refused", () => {
  assert.throws(() => parseManifest("<html>", "x/demitasse.json"), /is not a JSON object; is this the address/);
  assert.throws(() => parseManifest('{"kind":"blocks","schema":1}', "x"), /its kind is "blocks"\); write one with demitasse export/);
  assert.throws(() => parseManifest('{"kind":"web","schema":2}', "x"), /has schema 2, and this demitasse reads schema 1/);
  assert.throws(() => parseManifest('{"kind":"web","schema":1,"full":"6"}', "x"), /has the cut "6"/);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { normalized, split } from "../src/bert.ts";

test("texts are normalized as Python's BertNormalizer does", () => {
  const usual = { clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true };
  assert.equal(normalized("Café\u0000\u200b\tΟΔΟΣ", usual), "cafe οδοσ");
  assert.equal(normalized("𠮷x", usual), " 𠮷 x");
  assert.equal(normalized("É", { ...usual, lowercase: false }), "É");
  assert.equal(normalized("É", { ...usual, strip_accents: false }), "é");
  assert.equal(normalized("\tx", { ...usual, clean_text: false }), "\tx");
});

test("words and punctuation are split, and every punctuation mark is a word", () => {
  assert.deepEqual(split(" don't stop…  "), ["don", "'", "t", "stop", "…"]);
  assert.deepEqual(split(""), []);
});

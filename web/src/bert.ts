// How the tokenizers of the BERT family normalize and split, exactly as Python's do.
//
// @huggingface/tokenizers has both steps, but with the Unicode of the browser, with the rule for a sigma at the end of a
// word, and without Chinese characters beyond the first plane: other tokens for about 54,000 characters. Its vocabulary,
// special tokens and pieces of words are used as they are.

import { CHINESE, CLEANED_SPACE, CONTROL, MARK, PUNCTUATION, SPACE } from "./bert_classes.ts";

/** The settings of a `BertNormalizer` in a tokenizer.json. */
export interface BertSettings {
  clean_text?: boolean;
  handle_chinese_chars?: boolean;
  strip_accents?: boolean | null;
  lowercase?: boolean;
}

const control = new RegExp(`[${CONTROL}]`, "gu");
const cleanedSpace = new RegExp(`[${CLEANED_SPACE}]`, "gu");
const chinese = new RegExp(`[${CHINESE}]`, "gu");
const mark = new RegExp(`[${MARK}]`, "gu");
const word = new RegExp(`[^${SPACE}${PUNCTUATION}]+|[${PUNCTUATION}]`, "gu");

/** The text as the words of the vocabulary are written. */
export function normalized(text: string, settings: BertSettings): string {
  if (settings.clean_text ?? true) text = text.replace(control, "").replace(cleanedSpace, " ");
  if (settings.handle_chinese_chars ?? true) text = text.replace(chinese, " $& ");
  const lowercase = settings.lowercase ?? true;
  if (settings.strip_accents ?? lowercase) text = text.normalize("NFD").replace(mark, "");
  // One character at a time: in a whole word, a sigma at its end would become another letter.
  if (lowercase) text = text.replace(/\P{ASCII}/gu, (one) => one.toLowerCase()).replace(/[A-Z]+/g, (some) => some.toLowerCase());
  return text;
}

/** The words and the punctuation of a text, in order. */
export function split(text: string): string[] {
  return text.match(word) ?? [];
}

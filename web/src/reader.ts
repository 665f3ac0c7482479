// From texts to token ids, as the model's own tokenizer in Python gives them.

import { Tokenizer } from "@huggingface/tokenizers";
import { type BertSettings, normalized, split } from "./bert.ts";
import { DemitasseError, reason } from "./errors.ts";
import type { Reading } from "./manifest.ts";

interface TokenizerFile {
  truncation?: { direction?: string } | null;
  normalizer?: ({ type?: string } & BertSettings) | null;
  pre_tokenizer?: { type?: string } | null;
}

export class Reader {
  private readonly tokenizer: Tokenizer;
  private readonly before: number[];
  private readonly after: number[];
  private readonly fromLeft: boolean;

  constructor(
    json: string,
    readonly settings: Reading,
  ) {
    const file = JSON.parse(json) as TokenizerFile;
    try {
      this.tokenizer = new Tokenizer(file, {});
    } catch (problem) {
      throw new DemitasseError(`the model's tokenizer cannot be used in JavaScript (${reason(problem)})`);
    }
    const { normalizer, pre_tokenizer } = file;
    if (normalizer?.type === "BertNormalizer") this.tokenizer.normalizer = ((text: string) => normalized(text, normalizer)) as never;
    if (pre_tokenizer?.type === "BertPreTokenizer") this.tokenizer.pre_tokenizer = split as never;
    this.fromLeft = file.truncation?.direction === "Left";
    // One ordinary word shows where the special tokens go.
    const inner = this.idsOf("a");
    const whole = this.tokenizer.encode("a").ids;
    const start = whole.findIndex((_, at) => inner.every((id, index) => whole[at + index] === id));
    this.before = whole.slice(0, start);
    this.after = whole.slice(start + inner.length);
  }

  /** The text that is put before every text: the prompt of that name; without a name, the default. */
  prompt(name: string | undefined): string {
    const { prompts, default_prompt } = this.settings;
    const chosen = name ?? default_prompt;
    if (chosen === null || chosen === undefined) return "";
    const text = prompts[chosen];
    if (text === undefined) {
      const known = Object.keys(prompts).join(", ");
      throw new DemitasseError(`there is no prompt ${JSON.stringify(chosen)}; this model has ${known || "none"}`);
    }
    return text;
  }

  /** The token ids of a text with its special tokens, truncated to what the model takes. */
  read(text: string, prompt = ""): number[] {
    const { before, after } = this;
    const room = Math.max(0, this.settings.max_tokens - before.length - after.length);
    const inner = this.idsOf(this.prepared(prompt + text));
    const kept = this.fromLeft ? inner.slice(Math.max(0, inner.length - room)) : inner.slice(0, room);
    const ids = [...before, ...kept, ...after];
    // A tokenizer without special tokens gives none for an empty text, but the model needs at least one.
    return ids.length ? ids : [this.settings.empty_id];
  }

  /** How many leading tokens of a text the prompt takes, for pooling that leaves them out. */
  promptTokens(prompt: string): number {
    return prompt ? this.read("", prompt).length - this.after.length : 0;
  }

  private idsOf(text: string): number[] {
    const ids = this.tokenizer.encode(text, { add_special_tokens: false }).ids as (number | undefined)[];
    if (ids.includes(undefined)) throw new DemitasseError("the model's tokenizer has no token for a word; its kind cannot be used in JavaScript");
    return ids as number[];
  }

  private prepared(text: string): string {
    // Half a surrogate pair has no UTF-8 form, and becomes what Python makes of it.
    const whole = text.replace(/\p{Surrogate}/gu, "\ufffd");
    return this.settings.lowercase ? whole.toLowerCase() : whole;
  }
}

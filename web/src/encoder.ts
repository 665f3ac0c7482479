// From texts to vectors: blocks of the model, fetched and opened as far as the depth asks for them.

import * as ort from "onnxruntime-web/wasm";
import { DemitasseError, reason } from "./errors.ts";
import type { Files } from "./files.ts";
import type { Manifest } from "./manifest.ts";
import { Reader } from "./reader.ts";

/** How texts are encoded: how deep, how wide, and the name of a prompt, if the model has some. */
export interface EncodeOptions {
  layers?: number;
  dims?: number;
  prompt?: string;
}

/** Unit-length vectors, one after the other. */
export interface Vectors {
  data: Float32Array<ArrayBuffer>;
  count: number;
  dims: number;
}

/** What onnxruntime refused. The small runtime refuses models that need what was left out of it; the whole one may not. */
export class RuntimeFailure extends DemitasseError {}

type Values = Record<string, ort.Tensor>;

const TOKENS = 2048; // of a batch, padding included
const TOKENIZER = "model/tokenizer.json.packed";

export class Encoder {
  private readonly open = new Map<string, Promise<ort.InferenceSession>>();
  private readonly contents = new Map<string, Promise<Uint8Array>>(); // of blocks that are not open yet
  private reader: Promise<Reader> | undefined;

  constructor(
    readonly manifest: Manifest,
    private readonly files: Files,
  ) {}

  /** Fetch what so many layers need, before there is a runtime to open it. */
  async fetch(layers: number | undefined): Promise<void> {
    const depth = this.checked({ layers }).layers;
    await Promise.all([this.readerOnce(), ...blocksOf(depth).map((name) => this.content(name))]);
  }

  /** Fetch and open what so many layers need. */
  async prepare(layers: number | undefined): Promise<void> {
    const depth = this.checked({ layers }).layers;
    await Promise.all([this.readerOnce(), ...blocksOf(depth).map((name) => this.session(name))]);
  }

  /** The bytes that are sent to run so many layers: blocks and tokenizer, packed. */
  bytes(layers: number): number {
    return this.files.bytesOf([TOKENIZER, ...blocksOf(layers).map(pathOf)]);
  }

  /** The token ids of each text. */
  async tokens(texts: readonly string[], prompt?: string): Promise<number[][]> {
    const reader = await this.readerOnce();
    const prefix = reader.prompt(prompt);
    return checkedTexts(texts).map((text) => reader.read(text, prefix));
  }

  /** The vectors of texts. */
  async encode(texts: readonly string[], options: EncodeOptions = {}): Promise<Vectors> {
    const { layers, dims } = this.checked(options);
    const [reader] = await Promise.all([this.readerOnce(), this.prepare(layers)]);
    const prefix = reader.prompt(options.prompt);
    const ids = checkedTexts(texts).map((text) => reader.read(text, prefix));
    const left = this.manifest.pooling.include_prompt ? 0 : reader.promptTokens(prefix);
    const data = new Float32Array(ids.length * dims);
    for (const batch of batches(ids)) {
      const { embedding, width } = await this.run(batch.map((index) => ids[index]!), layers, left);
      batch.forEach((index, row) => put(data.subarray(index * dims, (index + 1) * dims), embedding.subarray(row * width)));
    }
    return { data, count: ids.length, dims };
  }

  private async run(ids: number[][], layers: number, promptTokens: number): Promise<{ embedding: Float32Array; width: number }> {
    let values = inputs(ids, this.manifest.reader.pad_id, promptTokens);
    for (const name of blocksOf(layers)) {
      const given = await this.runBlock(name, values);
      values = { ...values, ...given };
      if (given.next_hidden) values.hidden = given.next_hidden;
    }
    const { embedding } = values;
    const width = embedding?.dims[1] ?? 0;
    if (!embedding || width < this.manifest.full.dims) {
      throw new DemitasseError(`exit_${layers} of ${this.files.base} gives no embedding of ${this.manifest.full.dims} dims; export the model again`);
    }
    return { embedding: embedding.data as Float32Array, width };
  }

  private async runBlock(name: string, values: Values): Promise<Values> {
    const session = await this.session(name);
    const feeds: Values = {};
    for (const input of session.inputNames) {
      const value = values[input];
      if (!value) throw new DemitasseError(`${name} of ${this.files.base} wants ${input}, which nothing gives; export the model again`);
      feeds[input] = value;
    }
    try {
      return (await session.run(feeds)) as Values;
    } catch (problem) {
      throw new RuntimeFailure(`${name} of ${this.files.base} cannot be run (${reason(problem)}); give fewer or shorter texts, or export the model again`);
    }
  }

  private session(name: string): Promise<ort.InferenceSession> {
    return once(this.open, name, async () => {
      const content = await this.content(name);
      this.contents.delete(name);
      try {
        // As in Python: blocks are exported as they should run, and fusions would only cost time.
        return await ort.InferenceSession.create(content, { graphOptimizationLevel: "disabled", executionProviders: ["wasm"] });
      } catch (problem) {
        throw new RuntimeFailure(`${pathOf(name)} of ${this.files.base} cannot be opened (${reason(problem)}); export the model again`);
      }
    });
  }

  private content(name: string): Promise<Uint8Array> {
    return once(this.contents, name, () => this.files.read(pathOf(name)));
  }

  private readerOnce(): Promise<Reader> {
    this.reader ??= this.files.text(TOKENIZER).then((json) => new Reader(json, this.manifest.reader));
    this.reader.catch(() => (this.reader = undefined)); // the next call may have a connection
    return this.reader;
  }

  private checked({ layers, dims }: EncodeOptions): { layers: number; dims: number } {
    const { full } = this.manifest;
    const cut = { layers: layers ?? full.layers, dims: dims ?? full.dims };
    if (!Number.isInteger(cut.layers) || cut.layers < 0 || cut.layers > full.layers) {
      throw new DemitasseError(`layers ${String(layers)} cannot be used; this model takes a whole number from 0 to ${full.layers}`);
    }
    if (!Number.isInteger(cut.dims) || cut.dims < 1 || cut.dims > full.dims) {
      throw new DemitasseError(`dims ${String(dims)} cannot be used; this model takes a whole number from 1 to ${full.dims}`);
    }
    return cut;
  }
}

/** The blocks that run one after another for so many layers. */
export function blocksOf(layers: number): string[] {
  return ["embeddings", ...Array.from({ length: layers }, (_, index) => `layer_${index + 1}`), `exit_${layers}`];
}

function pathOf(block: string): string {
  return `model/${block}.onnx.packed`;
}

function checkedTexts(texts: readonly string[]): readonly string[] {
  if (!Array.isArray(texts)) throw new DemitasseError(`texts must be a list of strings, not ${typeof texts}; wrap it: [text]`);
  const wrong = texts.findIndex((text) => typeof text !== "string");
  if (wrong >= 0) throw new DemitasseError(`text ${wrong} is of type ${typeof texts[wrong]}; every text must be a string`);
  return texts;
}

/** The indices of texts in batches of similar lengths, longest first, each within a limit of tokens. */
export function* batches(ids: number[][], limit = TOKENS): Generator<number[]> {
  const order = ids.map((_, index) => index).sort((one, other) => ids[other]!.length - ids[one]!.length || one - other);
  for (let start = 0; start < order.length; ) {
    const size = Math.max(1, Math.floor(limit / ids[order[start]!]!.length));
    yield order.slice(start, start + size);
    start += size;
  }
}

function inputs(ids: number[][], padding: number, promptTokens: number): Values {
  const width = Math.max(...ids.map((one) => one.length));
  const shape = [ids.length, width];
  const tokens = new BigInt64Array(ids.length * width).fill(BigInt(padding));
  const mask = new BigInt64Array(tokens.length);
  const pooled = new BigInt64Array(tokens.length);
  ids.forEach((own, row) =>
    own.forEach((id, column) => {
      const at = row * width + column;
      tokens[at] = BigInt(id);
      mask[at] = 1n;
      if (column >= promptTokens) pooled[at] = 1n;
    }),
  );
  const tensor = (data: BigInt64Array) => new ort.Tensor("int64", data, shape);
  return { input_ids: tensor(tokens), attention_mask: tensor(mask), pooled_mask: tensor(pooled) };
}

/** The first numbers of an embedding, at unit length. */
function put(target: Float32Array, embedding: Float32Array): void {
  let squares = 0;
  for (let at = 0; at < target.length; at++) squares += embedding[at]! * embedding[at]!;
  const length = Math.sqrt(squares) || 1;
  if (!Number.isFinite(length)) throw new DemitasseError("a vector is not finite, so the model's weights are damaged; export it again");
  for (let at = 0; at < target.length; at++) target[at] = embedding[at]! / length;
}

/** What `make` gives for a key, made once; what failed is made again the next time. */
function once<Value>(known: Map<string, Promise<Value>>, key: string, make: () => Promise<Value>): Promise<Value> {
  const found = known.get(key);
  if (found) return found;
  const made = make();
  known.set(key, made);
  made.catch(() => known.delete(key));
  return made;
}

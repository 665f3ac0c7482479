// An index that the server made, searched here: every int8 vector is compared in full with a query of any depth.

import { DemitasseError } from "./errors.ts";
import { Files, type Source, type Told } from "./files.ts";
import { cutOf, type Listing, parsed, type Space } from "./manifest.ts";

/** A text that was found. */
export interface Hit {
  id: string;
  score: number;
  text: string;
}

interface Description extends Listing {
  cut: { layers: number; dims: number };
  count: number;
  texts_per_file: number;
  space: Space;
}

const VECTORS = "vectors.i8.packed";

export class SearchIndex {
  private readonly texts = new Map<number, Promise<[string, string][]>>();
  private readonly scales = new Map<number, Float32Array>();

  private constructor(
    readonly description: Description,
    private readonly files: Files,
    private readonly vectors: Int8Array,
  ) {}

  /** The index described by `content`, the JSON at `address`; its vectors are fetched, its texts when they are found. */
  static async open(content: string, address: string, space: Space, source: Source, told?: Told): Promise<SearchIndex> {
    const fields = parsed(content, address);
    if (fields.kind !== "web-index" || fields.schema !== 1) {
      throw new DemitasseError(`${address} is not an index of schema 1 for the web; write one with demitasse export --format web --index`);
    }
    const description = { ...fields, cut: cutOf(fields.cut, address) } as unknown as Description;
    const difference = differing(description.space, space);
    if (difference) {
      throw new DemitasseError(`${address} was made by another model (${difference} differs), so its vectors cannot be compared; export both together`);
    }
    const files = new Files(new URL(".", address).href, description, source, told);
    const vectors = await files.read(VECTORS);
    if (vectors.length !== description.count * description.cut.dims) {
      throw new DemitasseError(`${address} has vectors of ${vectors.length} bytes and should have ${description.count * description.cut.dims}; export it again`);
    }
    return new SearchIndex(description, files, new Int8Array(vectors.buffer));
  }

  /** The `k` texts nearest to a unit-length vector of as many first dims as it has, best first. */
  async nearest(query: Float32Array, k: number): Promise<Hit[]> {
    const { count, cut, texts_per_file: size } = this.description;
    if (query.length > cut.dims) {
      throw new DemitasseError(`the query has ${query.length} dims and the index ${cut.dims}; ask for at most ${cut.dims} dims`);
    }
    if (!Number.isInteger(k) || k < 1) throw new DemitasseError(`k ${String(k)} cannot be used; ask for a whole number from 1`);
    const scores = cosines(this.vectors, count, cut.dims, query, this.scalesOf(query.length));
    return Promise.all(
      best(scores, k).map(async (place) => {
        const [id, text] = (await this.textsAt(Math.floor(place / size)))[place % size]!;
        return { id, score: scores[place]!, text };
      }),
    );
  }

  /** Fetch all texts, so that a search needs no connection. */
  async keep(): Promise<void> {
    const { count, texts_per_file: size } = this.description;
    await Promise.all(Array.from({ length: Math.ceil(count / size) }, (_, file) => this.textsAt(file)));
  }

  private textsAt(file: number): Promise<[string, string][]> {
    let texts = this.texts.get(file);
    if (!texts) {
      texts = this.files.text(`texts_${file}.json.packed`).then((json) => JSON.parse(json) as [string, string][]);
      texts.catch(() => this.texts.delete(file));
      this.texts.set(file, texts);
    }
    return texts;
  }

  private scalesOf(dims: number): Float32Array {
    let scales = this.scales.get(dims);
    if (!scales) {
      scales = scalesOf(this.vectors, this.description.count, this.description.cut.dims, dims);
      this.scales.set(dims, scales);
    }
    return scales;
  }
}

/** What makes two spaces not comparable; `null` if they are, at the deepest depth that both have. */
export function differing(one: Space, other: Space): string | null {
  const deepest = Math.min(one.depths.length, other.depths.length) - 1;
  if (deepest < 0 || one.depths[deepest] !== other.depths[deepest]) return "its weights";
  return one.tokenizer === other.tokenizer ? null : "its tokenizer";
}

/** 1 / length of the first `dims` of each vector; 1 for zeros, whose cosines are 0. */
export function scalesOf(vectors: Int8Array, count: number, width: number, dims: number): Float32Array {
  const scales = new Float32Array(count);
  for (let row = 0, start = 0; row < count; row++, start += width) {
    let squares = 0;
    for (let at = start; at < start + dims; at++) squares += vectors[at]! * vectors[at]!;
    scales[row] = 1 / Math.sqrt(Math.max(squares, 1));
  }
  return scales;
}

/** The cosine of a query with every vector. */
export function cosines(vectors: Int8Array, count: number, width: number, query: Float32Array, scales: Float32Array): Float32Array {
  const scores = new Float32Array(count);
  const dims = query.length;
  for (let row = 0, start = 0; row < count; row++, start += width) {
    let product = 0;
    for (let at = 0; at < dims; at++) product += query[at]! * vectors[start + at]!;
    scores[row] = product * scales[row]!;
  }
  return scores;
}

/** The places of the `k` best scores, best first; of equal ones, those that come first. */
export function best(scores: Float32Array, k: number): number[] {
  const found: number[] = [];
  for (let place = 0; place < scores.length; place++) {
    const score = scores[place]!;
    if (found.length === k && !(score > scores[found[k - 1]!]!)) continue;
    let at = found.length;
    while (at > 0 && score > scores[found[at - 1]!]!) at--;
    found.splice(at, 0, place);
    if (found.length > k) found.pop();
  }
  return found;
}

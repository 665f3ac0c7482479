// demitasse in a browser.
//
//     import { load } from "./runtime/demitasse.js";
//     const model = await load("./", { layers: 1 });
//     const [vector] = await model.encode(["a text"], { layers: 1, dims: 128 });
//     const index = await model.openIndex();
//     const hits = await model.search(index, "a question", 10, { layers: 3 });

import type { EncodeOptions, Vectors } from "./encoder.ts";
import { DemitasseError } from "./errors.ts";
import type { Answer, FileRead, IndexInfo, ModelInfo, Request } from "./messages.ts";
import type { Hit } from "./search_index.ts";

export { DemitasseError };
export type { EncodeOptions, FileRead, Hit, IndexInfo, ModelInfo };

export interface LoadOptions {
  /** How many layers to fetch and open at once; default: all. Deeper ones are fetched when they are asked for. */
  layers?: number;
  /** At most so many threads, where the page is isolated from other origins; default: up to 4. */
  threads?: number;
  /** Called for every file that is read. */
  onFile?: (read: FileRead) => void;
  /** Called with the number of bytes whenever some arrive over the network. */
  onBytes?: (bytes: number) => void;
}

/** The model in a folder that `demitasse export --format web` wrote, running in a worker of its own. */
export async function load(url: string, options: LoadOptions = {}): Promise<Model> {
  const channel = new Channel(options);
  try {
    const address = new URL(url, globalThis.location.href).href;
    const info = (await channel.ask({ method: "load", url: address, layers: options.layers, threads: options.threads, whole: false })) as ModelInfo;
    return new Model(channel, info);
  } catch (problem) {
    channel.close();
    throw problem;
  }
}

export class Model {
  constructor(
    private readonly channel: Channel,
    readonly info: ModelInfo,
  ) {}

  /** Fetch and open what so many layers need. */
  async prepare(layers: number): Promise<void> {
    await this.channel.ask({ method: "prepare", layers });
  }

  /** A unit-length vector for each text. */
  async encode(texts: readonly string[], options: EncodeOptions = {}): Promise<Float32Array[]> {
    const { data, count, dims } = (await this.channel.ask({ method: "encode", texts, options })) as Vectors;
    return Array.from({ length: count }, (_, index) => data.subarray(index * dims, (index + 1) * dims));
  }

  /** The token ids of each text. */
  async tokens(texts: readonly string[], options: Pick<EncodeOptions, "prompt"> = {}): Promise<number[][]> {
    return (await this.channel.ask({ method: "tokens", texts, options })) as number[][];
  }

  /** The index in a folder; without an address, the one beside the model. */
  async openIndex(url?: string): Promise<IndexInfo> {
    const address = url === undefined ? undefined : new URL(url, globalThis.location.href).href;
    return (await this.channel.ask({ method: "openIndex", url: address })) as IndexInfo;
  }

  /** Fetch all texts of an index, so that it can be searched without a connection. */
  async keep(index: IndexInfo): Promise<void> {
    await this.channel.ask({ method: "keepIndex", index: index.index });
  }

  /** The `k` texts of an index that are nearest to a query, best first. */
  async search(index: IndexInfo, query: string, k = 10, options: EncodeOptions = {}): Promise<Hit[]> {
    return (await this.channel.ask({ method: "search", index: index.index, query, k, options })) as Hit[];
  }

  /** End the worker; the model cannot be used after that. */
  close(): void {
    this.channel.close();
  }
}

interface Asked {
  request: Request;
  resolve: (result: unknown) => void;
  reject: (problem: Error) => void;
}

class Channel {
  private worker = this.started();
  // What a worker has not answered, and what it answered and another one would have to be asked, too.
  private readonly asked = new Map<number, Asked>();
  private last = 0;
  private ended: DemitasseError | undefined;

  constructor(private readonly options: LoadOptions) {}

  ask(request: Request): Promise<unknown> {
    if (this.ended) return Promise.reject(this.ended);
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      this.asked.set(id, { request, resolve, reject });
      this.worker.postMessage({ ...request, id });
    });
  }

  private started(): Worker {
    const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module", name: "demitasse" });
    worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      if (worker !== this.worker) return; // it was told to stop
      if ("read" in data) this.options.onFile?.(data.read);
      else if ("received" in data) this.options.onBytes?.(data.received);
      else if ("failed" in data) this.startAgain();
      else this.settle(data);
    };
    worker.onerror = (event) => this.end(`the worker of demitasse failed (${event.message ?? "it could not be loaded"}); load the page again`);
    return worker;
  }

  /** With the whole runtime, and as if it had been so from the beginning. */
  private startAgain(): void {
    this.worker.terminate();
    this.worker = this.started();
    for (const [id, { request }] of this.asked) this.worker.postMessage({ ...request, id, whole: true });
  }

  private settle(answer: { id: number; result: unknown } | { id: number; error: string }): void {
    const { request, resolve, reject } = this.asked.get(answer.id)!;
    const lasts = request.method === "load" || request.method === "openIndex";
    if ("error" in answer || !lasts) this.asked.delete(answer.id);
    if ("error" in answer) reject(new DemitasseError(answer.error));
    else resolve(answer.result);
  }

  close(): void {
    this.end("the model was closed; load it again");
  }

  private end(why: string): void {
    this.worker.terminate();
    this.ended = new DemitasseError(why);
    for (const { reject } of this.asked.values()) reject(this.ended);
    this.asked.clear();
  }
}

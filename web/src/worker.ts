// The worker: everything that takes time happens here, so that the page stays responsive.

import * as ort from "onnxruntime-web/wasm";
import { browserSource, forget } from "./browser_source.ts";
import { Encoder, RuntimeFailure } from "./encoder.ts";
import { DemitasseError, reason } from "./errors.ts";
import { Files, type Source, type Told } from "./files.ts";
import { INDEX, MANIFEST, parseManifest } from "./manifest.ts";
import type { Answer, IndexInfo, LoadRequest, ModelInfo, Request } from "./messages.ts";
import { SearchIndex } from "./search_index.ts";

const WHOLE = "runtime/ort-wasm-simd-threaded.wasm.packed";
const SMALL = "runtime/ort-wasm-small.wasm.packed"; // the functions of it that blocks of a BERT need
const GLUE = "runtime/ort-wasm-simd-threaded.mjs";
const OWN = ["model/", "runtime/", "index/"]; // folders whose files the manifest lists
const MOST_THREADS = 4; // small matrices gain nothing from more

interface Loaded {
  encoder: Encoder;
  files: Files;
  info: ModelInfo;
}

// Promises, since the page may ask for more before these are there.
let model: Promise<Loaded> | undefined;
const indexes = new Map<number, Promise<SearchIndex>>(); // by the id of the request that opened it
let whole = false;

const told: Told = (read) => answer({ read });
const source: Source = (address, version, afresh = false) => browserSource(address, version, afresh, (received) => answer({ received }));

async function load({ url, layers, threads }: LoadRequest): Promise<Loaded> {
  const base = new URL(url.endsWith("/") ? url : `${url}/`, self.location.href).href;
  const address = new URL(MANIFEST, base).href;
  const { content, fetched, keep } = await source(address, null);
  told({ path: MANIFEST, bytes: content.length, fetched });
  const manifest = parseManifest(new TextDecoder().decode(content), address);
  await keep();
  const files = new Files(base, manifest, source, told);
  const runtime = whole || !files.has(SMALL) ? WHOLE : SMALL;
  // Threads share memory, which browsers allow only on pages that are isolated from other origins.
  const most = self.crossOriginIsolated ? Math.min(MOST_THREADS, navigator.hardwareConcurrency || 1) : 1;
  ort.env.wasm.numThreads = Math.max(1, Math.min(threads ?? most, most));
  ort.env.wasm.wasmPaths = { mjs: new URL(`${GLUE}?v=${manifest.sha256[GLUE]?.slice(0, 16) ?? ""}`, base).href };
  ort.env.logLevel = "error";
  const encoder = new Encoder(manifest, files);
  // The runtime and the blocks come at the same time; a session waits for the runtime by itself.
  const [binary] = await Promise.all([files.read(runtime), encoder.fetch(layers)]);
  ort.env.wasm.wasmBinary = binary.buffer;
  await encoder.prepare(layers);
  void forget(OWN.map((folder) => base + folder), Object.values(manifest.sha256).map((hash) => hash.slice(0, 16)));
  const info = {
    full: manifest.full,
    precision: manifest.precision,
    fingerprint: manifest.fingerprint,
    bytes: Array.from({ length: manifest.full.layers + 1 }, (_, depth) => encoder.bytes(depth)),
    runtimeBytes: files.bytesOf([runtime, GLUE]),
    threads: ort.env.wasm.numThreads,
  };
  return { encoder, files, info };
}

async function openIndex(url: string | undefined): Promise<SearchIndex> {
  const { encoder, files } = await loaded();
  const own = url === undefined;
  const address = own ? new URL(INDEX, files.base).href : new URL("index.json", new URL(url.endsWith("/") ? url : `${url}/`, self.location.href)).href;
  if (own && !files.has(INDEX)) {
    throw new DemitasseError(`${files.base} has no index; write one with demitasse export --format web --index FOLDER, or give its address`);
  }
  if (own) return SearchIndex.open(await files.text(INDEX), address, encoder.manifest.space, source, told);
  const { content, keep } = await source(address, null);
  const index = await SearchIndex.open(new TextDecoder().decode(content), address, encoder.manifest.space, source, told);
  await keep();
  return index;
}

async function answered(id: number, request: Request): Promise<unknown> {
  switch (request.method) {
    case "load":
      whole = request.whole;
      model = load(request);
      return (await model).info;
    case "prepare":
      return (await loaded()).encoder.prepare(request.layers);
    case "encode":
      return (await loaded()).encoder.encode(request.texts, request.options);
    case "tokens":
      return (await loaded()).encoder.tokens(request.texts, request.options.prompt);
    case "openIndex": {
      const opened = openIndex(request.url);
      indexes.set(id, opened);
      const { count, cut } = (await opened).description;
      return { index: id, count, cut } satisfies IndexInfo;
    }
    case "keepIndex":
      return (await indexes.get(request.index)!).keep();
    case "search": {
      const index = await indexes.get(request.index)!;
      const options = { ...request.options, dims: request.options.dims ?? index.description.cut.dims };
      const { encoder } = await loaded();
      return index.nearest((await encoder.encode([request.query], options)).data, request.k);
    }
  }
}

function loaded(): Promise<Loaded> {
  if (!model) throw new DemitasseError("no model is loaded; call load first");
  return model;
}

function answer(message: Answer): void {
  self.postMessage(message);
}

self.onmessage = (event: MessageEvent<Request & { id: number }>) => {
  const { id } = event.data;
  answered(id, event.data).then(
    (result) => answer({ id, result }),
    (problem: unknown) => answer(problem instanceof RuntimeFailure && !whole ? { failed: true } : { id, error: reason(problem) }),
  );
};

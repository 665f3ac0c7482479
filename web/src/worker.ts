// The worker: everything that takes time happens here, so that the page stays responsive.

import * as ort from "onnxruntime-web/wasm";
import { browserSource, forget } from "./browser_source.ts";
import { Encoder } from "./encoder.ts";
import { DemitasseError, reason } from "./errors.ts";
import { Files, type Told } from "./files.ts";
import { INDEX, MANIFEST, parseManifest } from "./manifest.ts";
import type { Answer, IndexInfo, LoadRequest, ModelInfo, Request } from "./messages.ts";
import { SearchIndex } from "./search_index.ts";

const RUNTIME = "runtime/ort-wasm-simd-threaded.wasm.packed";
const GLUE = "runtime/ort-wasm-simd-threaded.mjs";
const MOST_THREADS = 4; // small matrices gain nothing from more

let encoder: Encoder | undefined;
let files: Files | undefined;
const indexes: SearchIndex[] = [];

const told: Told = (read) => answer({ read });

async function load({ url, layers, threads }: LoadRequest): Promise<ModelInfo> {
  const base = new URL(url.endsWith("/") ? url : `${url}/`, self.location.href).href;
  const address = new URL(MANIFEST, base).href;
  const { content, fetched } = await browserSource(address, null);
  told({ path: MANIFEST, bytes: content.length, fetched });
  const manifest = parseManifest(new TextDecoder().decode(content), address);
  files = new Files(base, manifest, browserSource, told);
  // Threads share memory, which browsers allow only on pages that are isolated from other origins.
  const most = self.crossOriginIsolated ? Math.min(MOST_THREADS, navigator.hardwareConcurrency || 1) : 1;
  ort.env.wasm.numThreads = Math.max(1, Math.min(threads ?? most, most));
  ort.env.wasm.wasmPaths = { mjs: new URL(`${GLUE}?v=${manifest.sha256[GLUE]?.slice(0, 16) ?? ""}`, base).href };
  ort.env.logLevel = "error";
  const made = new Encoder(manifest, files);
  // The runtime and the blocks come at the same time; a session waits for the runtime by itself.
  const [runtime] = await Promise.all([files.read(RUNTIME), made.fetch(layers)]);
  ort.env.wasm.wasmBinary = runtime.buffer;
  encoder = made;
  await made.prepare(layers);
  void forget(base, Object.values(manifest.sha256).map((hash) => hash.slice(0, 16)));
  return {
    full: manifest.full,
    precision: manifest.precision,
    fingerprint: manifest.fingerprint,
    bytes: Array.from({ length: manifest.full.layers + 1 }, (_, depth) => made.bytes(depth)),
    runtimeBytes: files.bytesOf([RUNTIME, GLUE]),
    threads: ort.env.wasm.numThreads,
  };
}

async function openIndex(url: string | undefined): Promise<IndexInfo> {
  const model = loaded();
  const own = url === undefined;
  const address = own ? new URL(INDEX, files!.base).href : new URL("index.json", new URL(url.endsWith("/") ? url : `${url}/`, self.location.href)).href;
  if (own && !files!.has(INDEX)) {
    throw new DemitasseError(`${files!.base} has no index; write one with demitasse export --format web --index FOLDER, or give its address`);
  }
  const text = own ? await files!.text(INDEX) : new TextDecoder().decode((await browserSource(address, null)).content);
  const index = await SearchIndex.open(text, address, model.manifest.space, browserSource, told);
  return { index: indexes.push(index) - 1, count: index.description.count, cut: index.description.cut };
}

async function answered(request: Request): Promise<unknown> {
  switch (request.method) {
    case "load":
      return load(request);
    case "prepare":
      return loaded().prepare(request.layers);
    case "encode":
      return loaded().encode(request.texts, request.options);
    case "tokens":
      return loaded().tokens(request.texts, request.options.prompt);
    case "openIndex":
      return openIndex(request.url);
    case "keepIndex":
      return indexes[request.index]!.keep();
    case "search": {
      const index = indexes[request.index]!;
      const options = { ...request.options, dims: request.options.dims ?? index.description.cut.dims };
      return index.nearest((await loaded().encode([request.query], options)).data, request.k);
    }
  }
}

function loaded(): Encoder {
  if (!encoder) throw new DemitasseError("no model is loaded; call load first");
  return encoder;
}

function answer(message: Answer): void {
  self.postMessage(message);
}

self.onmessage = (event: MessageEvent<Request & { id: number }>) => {
  const { id } = event.data;
  answered(event.data).then(
    (result) => answer({ id, result }),
    (problem: unknown) => answer({ id, error: reason(problem) }),
  );
};

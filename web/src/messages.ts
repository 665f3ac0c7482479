// What the page and the worker say to each other.

import type { EncodeOptions } from "./encoder.ts";

export interface LoadRequest {
  method: "load";
  url: string;
  layers: number | undefined;
  threads: number | undefined;
  /** Whether to use all of onnxruntime, and not only the functions that blocks of a BERT need. */
  whole: boolean;
}
export type Request =
  | LoadRequest
  | { method: "prepare"; layers: number }
  | { method: "encode" | "tokens"; texts: readonly string[]; options: EncodeOptions }
  | { method: "openIndex"; url: string | undefined }
  | { method: "keepIndex"; index: number } // the id of the request that opened it
  | { method: "search"; index: number; query: string; k: number; options: EncodeOptions };

/** A file that was read: its path, its bytes as sent, and whether the network sent them now. */
export interface FileRead {
  path: string;
  bytes: number;
  fetched: boolean;
}

/** What a model is: its largest cut, and the bytes that each depth needs. */
export interface ModelInfo {
  full: { layers: number; dims: number };
  precision: string;
  fingerprint: string;
  bytes: number[];
  runtimeBytes: number;
  threads: number;
}

export interface IndexInfo {
  index: number;
  count: number;
  cut: { layers: number; dims: number };
}

/** `failed`: the runtime refuses, and its worker with it; with the whole runtime, it may do. */
export type Answer =
  | { failed: true }
  | { id: number; result: unknown }
  | { id: number; error: string }
  | { read: FileRead }
  | { received: number };

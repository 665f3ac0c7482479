// A web folder in memory, made of the model that ships with demitasse.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { Files, type Source } from "../src/files.ts";
import type { Listing, Manifest } from "../src/manifest.ts";

const model = join(process.cwd(), "../src/demitasse/assets/model");
export const BASE = "https://example.org/site/";

export function sha256(content: Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}

export function listingOf(contents: Map<string, Uint8Array>): Listing {
  return {
    files: Object.fromEntries([...contents].map(([path, content]) => [path, content.length])),
    sha256: Object.fromEntries([...contents].map(([path, content]) => [path, sha256(content)])),
  };
}

/** Serves contents by their path below `base`, and remembers what was asked for. */
export function sourceOf(contents: Map<string, Uint8Array>, asked: string[] = [], base = BASE): Source {
  return async (address) => {
    const path = address.slice(base.length);
    asked.push(path);
    const content = contents.get(path);
    if (!content) throw new Error(`404 ${address}`);
    return { content: new Uint8Array(content), fetched: true, keep: async () => {} };
  };
}

export function packed(content: string | Uint8Array): Uint8Array {
  return gzipSync(content, { level: 1 });
}

/** The built-in model with so many layers: its manifest, its files, and what has been asked for. */
export function builtIn(layers: number): { manifest: Manifest; files: Files; asked: string[] } {
  const blocks = ["embeddings", ...Array.from({ length: layers }, (_, index) => `layer_${index + 1}`)];
  const exits = Array.from({ length: layers + 1 }, (_, depth) => `exit_${depth}`);
  const names = ["tokenizer.json", ...[...blocks, ...exits].map((name) => `${name}.onnx`)];
  const contents = new Map(names.map((name) => [`model/${name}.packed`, packed(readFileSync(join(model, name)))]));
  const fields = JSON.parse(readFileSync(join(model, "demitasse.json"), "utf8")) as Manifest;
  const listing = listingOf(contents);
  const manifest = { ...fields, ...listing, full: { layers, dims: 384 }, space: { depths: ["0", "1"], tokenizer: "t" } };
  const asked: string[] = [];
  return { manifest, files: new Files(BASE, manifest, sourceOf(contents, asked)), asked };
}

// `demitasse.json` of a folder that `demitasse export --format web` wrote: what the folder holds and what it must hash to.

import { DemitasseError } from "./errors.ts";

export const MANIFEST = "demitasse.json";
export const INDEX = "index/index.json";
const SCHEMA = 1;

/** How texts are read. */
export interface Reading {
  max_tokens: number;
  prompts: Record<string, string>;
  default_prompt: string | null;
  lowercase: boolean;
  pad_id: number;
  empty_id: number;
}

/** Which vectors may be compared: a fingerprint for each depth, and one of how texts become tokens. */
export interface Space {
  depths: string[];
  tokenizer: string;
}

/** The size and the hash of each file, by its path in the folder. */
export interface Listing {
  files: Record<string, number>;
  sha256: Record<string, string>;
}

export interface Manifest extends Listing {
  fingerprint: string;
  precision: string;
  full: { layers: number; dims: number };
  pooling: { include_prompt: boolean };
  reader: Reading;
  space: Space;
}

/** The manifest in a JSON text; one that is something else is refused. */
export function parseManifest(text: string, where: string): Manifest {
  const fields = parsed(text, where);
  if (fields.kind !== "web") {
    throw new DemitasseError(
      `${where} is not the manifest of a web folder (its kind is ${JSON.stringify(fields.kind ?? null)}); write one with demitasse export --format web`,
    );
  }
  if (fields.schema !== SCHEMA) {
    throw new DemitasseError(
      `${where} has schema ${JSON.stringify(fields.schema ?? null)}, and this demitasse reads schema ${SCHEMA}; export the model again`,
    );
  }
  return { ...fields, full: cutOf(fields.full, where) } as unknown as Manifest;
}

export function parsed(text: string, where: string): Record<string, unknown> {
  try {
    const fields: unknown = JSON.parse(text);
    if (typeof fields === "object" && fields !== null && !Array.isArray(fields)) return fields as Record<string, unknown>;
  } catch {
    // told below
  }
  throw new DemitasseError(`${where} is not a JSON object; is this the address of a web folder?`);
}

/** A cut as it is written, such as 6x384. */
export function cutOf(text: unknown, where: string): { layers: number; dims: number } {
  const match = /^(\d{1,5})x(\d{1,6})$/.exec(String(text));
  if (!match) throw new DemitasseError(`${where} has the cut ${JSON.stringify(text ?? null)}; export the model again`);
  return { layers: Number(match[1]), dims: Number(match[2]) };
}

// The files of a web folder: fetched when they are first needed, checked by their hashes, kept by the browser.

import { DemitasseError, reason } from "./errors.ts";
import type { Listing } from "./manifest.ts";

/** Gives the bytes at an address; `version` changes with their content, so that nothing old is served. `afresh`: those of
 * the network, whatever was kept on the way. */
export type Source = (address: string, version: string | null, afresh?: boolean) => Promise<Fetched>;

export interface Fetched {
  content: Uint8Array<ArrayBuffer>;
  /** Whether the bytes came over the network now. */
  fetched: boolean;
  /** Keep them, once they are known to be right, for when there is no connection. */
  keep: () => Promise<void>;
}

/** Called for every file that was read: its path, its size as sent, and whether the network sent it now. */
export type Told = (file: { path: string; bytes: number; fetched: boolean }) => void;

const PACKED = ".packed"; // gzip; with a name of its own, since servers unpack what is called .gz

export class Files {
  constructor(
    readonly base: string,
    private readonly listing: Listing,
    private readonly source: Source,
    private readonly told: Told = () => {},
  ) {}

  has(path: string): boolean {
    return Object.hasOwn(this.listing.files, path);
  }

  /** The sizes, as sent, of files that the folder has. */
  bytesOf(paths: string[]): number {
    return paths.reduce((sum, path) => sum + (this.listing.files[path] ?? 0), 0);
  }

  /** The content of a file that is what the manifest says, unpacked. */
  async read(path: string): Promise<Uint8Array<ArrayBuffer>> {
    const hash = this.listing.sha256[path];
    if (hash === undefined) throw new DemitasseError(`${this.base} lists no ${path}; export the model again`);
    const address = new URL(path, this.base).href;
    const version = hash.slice(0, 16);
    let found = await this.source(address, version);
    let right = (await sha256(found.content)) === hash;
    if (!right) {
      found = await this.source(address, version, true); // what was kept may be damaged, and what is sent be right
      right = (await sha256(found.content)) === hash;
    }
    const { content, fetched } = found;
    if (!right) {
      throw new DemitasseError(
        `${address} is not the file that was exported (${content.length} bytes of ${this.listing.files[path]}, and another sha256); upload the folder again`,
      );
    }
    await found.keep();
    this.told({ path, bytes: content.length, fetched });
    return path.endsWith(PACKED) ? unpacked(content, address) : content;
  }

  async text(path: string): Promise<string> {
    return new TextDecoder().decode(await this.read(path));
  }
}

async function sha256(content: Uint8Array<ArrayBuffer>): Promise<string> {
  if (!globalThis.crypto?.subtle) {
    throw new DemitasseError(
      "this page is neither at https: nor at localhost, so the browser does not let it check hashes; serve it by https",
    );
  }
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function unpacked(content: Uint8Array<ArrayBuffer>, address: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    const stream = new Blob([content]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch (problem) {
    throw new DemitasseError(`${address} cannot be unpacked (${reason(problem)}); export the model again`);
  }
}

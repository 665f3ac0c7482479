// Where a browser gets files from: its Cache Storage, which also works offline, else the network.

import { DemitasseError, reason } from "./errors.ts";
import type { Fetched } from "./files.ts";

const KEPT = "demitasse-files";

/** The bytes at an address; those without a version are asked for every time, and kept for when there is no network. */
export async function browserSource(address: string, version: string | null): Promise<Fetched> {
  const versioned = new URL(address);
  if (version !== null) versioned.searchParams.set("v", version);
  const kept = await storage();
  const known = await kept?.match(versioned.href);
  if (known && version !== null) return { content: await bytes(known), fetched: false };
  let response: Response;
  try {
    response = await fetch(versioned, version === null ? { cache: "no-cache" } : {});
  } catch (problem) {
    if (known) return { content: await bytes(known), fetched: false };
    throw new DemitasseError(`${address} cannot be fetched (${reason(problem)}); check the address and the connection`);
  }
  if (!response.ok) {
    throw new DemitasseError(`${address} answers ${response.status} ${response.statusText}; check the address, or upload the folder again`);
  }
  const content = await bytes(response);
  try {
    await kept?.put(versioned.href, new Response(content));
  } catch {
    // No room on the device: everything works, but is fetched again next time.
  }
  return { content, fetched: true };
}

/** Take out what is no longer listed, so that old models do not fill the device. */
export async function forget(base: string, versions: Iterable<string>): Promise<void> {
  const kept = await storage();
  const current = new Set(versions);
  for (const request of (await kept?.keys()) ?? []) {
    const version = new URL(request.url).searchParams.get("v");
    if (request.url.startsWith(base) && version !== null && !current.has(version)) await kept?.delete(request);
  }
}

async function storage(): Promise<Cache | undefined> {
  try {
    return await globalThis.caches?.open(KEPT);
  } catch {
    return undefined; // private windows and plain http: have none
  }
}

async function bytes(response: Response): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await response.arrayBuffer());
}

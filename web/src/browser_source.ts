// Where a browser gets files from: its Cache Storage, which also works offline, else the network.

import { DemitasseError, reason } from "./errors.ts";
import type { Fetched } from "./files.ts";

const KEPT = "demitasse-files";

/** The bytes at an address. Those without a version are asked for every time; what was kept is for when there is no network. */
export async function browserSource(
  address: string,
  version: string | null,
  afresh: boolean,
  received: (bytes: number) => void,
): Promise<Fetched> {
  const versioned = new URL(address);
  if (version !== null) versioned.searchParams.set("v", version);
  const kept = await storage();
  const known = afresh ? undefined : await kept?.match(versioned.href);
  if (known && version !== null) return asKept(known);
  let response: Response;
  let content: Uint8Array<ArrayBuffer>;
  try {
    response = await fetch(versioned, { cache: afresh ? "reload" : version === null ? "no-cache" : "default" });
    content = await bytes(new Response(response.body?.pipeThrough(counted(received))));
  } catch (problem) {
    if (known) return asKept(known);
    throw new DemitasseError(`${address} cannot be fetched (${reason(problem)}); check the address and the connection`);
  }
  if (!response.ok) {
    throw new DemitasseError(`${address} answers ${response.status} ${response.statusText}; check the address, or upload the folder again`);
  }
  const keep = async (): Promise<void> => {
    try {
      await kept?.put(versioned.href, new Response(content));
    } catch {
      // No room on the device: everything works, but is fetched again next time.
    }
  };
  return { content, fetched: true, keep };
}

async function asKept(known: Response): Promise<Fetched> {
  return { content: await bytes(known), fetched: false, keep: async () => {} };
}

/** Take out what is below some addresses and no longer listed, so that old models do not fill the device. */
export async function forget(bases: string[], versions: Iterable<string>): Promise<void> {
  const kept = await storage();
  const current = new Set(versions);
  for (const request of (await kept?.keys()) ?? []) {
    const version = new URL(request.url).searchParams.get("v");
    if (bases.some((base) => request.url.startsWith(base)) && version !== null && !current.has(version)) await kept?.delete(request);
  }
}

async function storage(): Promise<Cache | undefined> {
  try {
    return await globalThis.caches?.open(KEPT);
  } catch {
    return undefined; // private windows and plain http: have none
  }
}

/** Passes chunks on and tells their sizes. */
function counted(tell: (bytes: number) => void): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  return new TransformStream({
    transform(chunk, controller) {
      tell(chunk.length);
      controller.enqueue(chunk);
    },
  });
}

async function bytes(response: Response): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await response.arrayBuffer());
}

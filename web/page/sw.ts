// The service worker: keeps the page itself, so that it opens without a connection. Blocks, runtime and index are kept by
// demitasse, which checks their hashes. Pages that are isolated from other origins may use threads, and a host of static
// files need not know the headers for that: they are added here.

const worker = self as unknown as ServiceWorkerGlobalScope;
const KEPT = "demitasse-page";
const SHELL = [
  "./",
  "index.html",
  "page.css",
  "page.js",
  "app.webmanifest",
  "icon.svg",
  "icon-192.png",
  "icon-512.png",
  "runtime/demitasse.js",
  "runtime/worker.js",
  "runtime/ort-wasm-simd-threaded.mjs",
].map((name) => new URL(name, worker.registration.scope).href);

worker.addEventListener("install", (event) => {
  event.waitUntil(caches.open(KEPT).then((cache) => cache.addAll(SHELL)).then(() => worker.skipWaiting()));
});

worker.addEventListener("activate", (event) => event.waitUntil(worker.clients.claim()));

worker.addEventListener("fetch", (event) => {
  const address = new URL(event.request.url);
  address.search = address.hash = "";
  if (event.request.method === "GET" && SHELL.includes(address.href)) event.respondWith(answered(event.request, address.href));
});

/** The newest file if there is a connection, else the one that was kept. */
async function answered(request: Request, name: string): Promise<Response> {
  const cache = await caches.open(KEPT);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put(name, response.clone());
    return isolated(response);
  } catch {
    const kept = await cache.match(name);
    return kept ? isolated(kept) : Response.error();
  }
}

function isolated(response: Response): Response {
  if (response.type === "opaqueredirect" || response.status === 0 || response.status === 304) return response;
  const headers = new Headers(response.headers);
  headers.set("Cross-Origin-Opener-Policy", "same-origin");
  headers.set("Cross-Origin-Embedder-Policy", "require-corp");
  headers.set("Cross-Origin-Resource-Policy", "same-origin");
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}

// Talking to the server: requests with the key where it needs one, refusals as one sentence, the stream of its load.

// Behind a proxy the page may live under a path of its own, with a slash at the end or without.
const BASE = new URL(location.pathname.replace(/\/?$/, "/"), location.origin);
const KEY = `demitasse key of ${BASE.pathname}`;
const keys = {
  get: () => sessionStorage.getItem(KEY),
  set: key => sessionStorage.setItem(KEY, key),
  forget: () => sessionStorage.removeItem(KEY),
};

// A reply that is not what was asked for: the server's own sentence, and when to come back if it says so.
class Refused extends Error {
  constructor(status, sentence, seconds = null) {
    super(sentence);
    Object.assign(this, { status, seconds });
  }
}

async function ask(path, { body, accept = "application/json", signal } = {}) {
  const headers = { accept }, key = keys.get();
  if (key) headers.authorization = `Bearer ${key}`;
  if (body) headers["content-type"] = "application/json";
  let reply;
  try {
    const asked = { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal };
    reply = await fetch(new URL(path, BASE), { ...asked, cache: "no-store", credentials: "same-origin" });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Refused(0, "the server does not answer; see whether it is still running");
  }
  if (!reply.ok) throw await refusal(reply);
  return reply;
}

async function refusal(reply) {
  const after = Number(reply.headers.get("retry-after-ms")) / 1000 || Number(reply.headers.get("retry-after")) || null;
  try {
    return new Refused(reply.status, (await reply.json()).error.message, after);
  } catch {
    return new Refused(reply.status, reply.statusText || "the answer cannot be read; a proxy may have sent it", after);
  }
}

// The first model of the list is the one that is served, whole.
const servedModel = async () => (await (await ask("v1/models")).json()).data[0];

const TIMES = ["x-inference-time", "x-tokenization-time", "x-queue-time", "x-total-time"];

// The vectors of texts, the cut that was used for them, and the milliseconds that each step took.
async function embed(texts, { cut, kind, atLeast, signal }) {
  const body = { input: texts, layers: cut.layers, dimensions: cut.dims, input_type: kind, encoding_format: "base64" };
  if (atLeast !== undefined) body.min_layers = atLeast;
  const started = performance.now();
  const reply = await ask("v1/embeddings", { body, signal });
  const { data } = await reply.json();
  const [layers, dims] = reply.headers.get("x-demitasse-cut").split("x").map(Number);
  return {
    vectors: data.map(one => decoded(one.embedding)),
    cut: { layers, dims },
    times: [...TIMES.map(name => Number(reply.headers.get(name))), performance.now() - started],
  };
}

// Every load that the server sends, until it ends the stream or the signal does. EventSource could send no key.
async function watch(seen, signal) {
  const reply = await ask("load", { accept: "text/event-stream", signal });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const event of events) seen(JSON.parse(event.replace(/^data: /, "")));
  }
}

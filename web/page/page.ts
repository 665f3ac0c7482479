// The page: a query, a slider for layers, and what each depth costs and finds.

import { type Hit, type IndexInfo, load, type Model } from "../src/index.ts";

const SHOWN = 10;
const FIRST_LAYERS = 1;

function part<Kind extends HTMLElement = HTMLElement>(id: string): Kind {
  return document.getElementById(id) as Kind;
}

const query = part<HTMLInputElement>("query");
const layers = part<HTMLInputElement>("layers");
const compare = part<HTMLInputElement>("compare");
let fetched = 0;
let asked = 0;
let again = (): void => {}; // until there is a model

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

function onBytes(bytes: number): void {
  fetched += bytes;
  part("fetched").textContent = megabytes(fetched);
}

function say(text: string, wrong = false): void {
  const status = part("status");
  status.textContent = text;
  status.classList.toggle("wrong", wrong);
  document.body.classList.toggle("busy", text.endsWith("…"));
}

function describe(model: Model): void {
  const depth = Number(layers.value);
  const { full, bytes } = model.info;
  part("depth").textContent = `${depth} of ${full.layers}`;
  part("size").textContent = `${megabytes(bytes[depth]!)} of blocks and tokenizer; all ${full.layers} layers: ${megabytes(bytes[full.layers]!)}`;
  layers.setAttribute("aria-valuetext", `${depth} of ${full.layers} layers, ${megabytes(bytes[depth]!)}`);
}

function show(hits: Hit[], whole: Hit[] | null): void {
  const ranks = new Map(whole?.map((hit, index) => [hit.id, index + 1]));
  const there = (id: string): string => {
    const rank = ranks.get(id);
    return rank === undefined ? `not in the full model’s ${SHOWN}` : `${ordinal(rank)} with the full model`;
  };
  const cosine = (hit: Hit): string => `cosine ${hit.score.toFixed(3)}`;
  part("results").replaceChildren(...hits.map((hit) => shown(hit, whole === null ? cosine(hit) : `${cosine(hit)} · ${there(hit.id)}`)));
  const own = new Set(hits.map((hit) => hit.id));
  const missing = whole?.filter((hit) => !own.has(hit.id)) ?? [];
  part("missing").replaceChildren(...missing.map((hit) => shown(hit, `${cosine(hit)} · ${there(hit.id)}`)));
  part("missed").hidden = missing.length === 0;
  part("same").textContent = whole === null ? "–" : `${hits.length - missing.length} of ${hits.length}`;
}

function shown(hit: Hit, noted: string): HTMLLIElement {
  const item = document.createElement("li");
  const text = document.createElement("p");
  text.textContent = hit.text;
  const note = document.createElement("p");
  note.className = "note";
  note.textContent = noted;
  item.append(text, note);
  return item;
}

function ordinal(rank: number): string {
  return `${rank}${["st", "nd", "rd"][rank - 1] ?? "th"}`;
}

async function search(model: Model, index: IndexInfo): Promise<void> {
  const own = ++asked; // of several that overlap, only the last is shown
  const depth = Number(layers.value);
  describe(model);
  try {
    say("Fetching layers …");
    await model.prepare(depth);
    say("Searching …");
    const began = performance.now();
    const hits = await model.search(index, query.value, SHOWN, { layers: depth });
    const taken = performance.now() - began;
    const whole = compare.checked ? await model.search(index, query.value, SHOWN, { layers: model.info.full.layers }) : null;
    if (own !== asked) return;
    part("time").textContent = `${taken.toFixed(taken < 10 ? 1 : 0)} ms`;
    show(hits, whole);
    say(`${hits.length} results with ${depth} of ${model.info.full.layers} layers.`);
  } catch (problem) {
    if (own === asked) say((problem as Error).message, true);
  }
}

async function start(): Promise<void> {
  const model = await load("./", { layers: FIRST_LAYERS, onBytes });
  const { full, bytes, precision, runtimeBytes, threads } = model.info;
  layers.max = String(full.layers);
  layers.value = String(Math.min(FIRST_LAYERS, full.layers));
  part("depths").replaceChildren(...bytes.map((_, depth) => new Option(String(depth), String(depth))));
  part("all").textContent = `(runs all ${full.layers} layers too)`;
  say("Fetching the index …");
  const index = await model.openIndex();
  await model.keep(index);
  part("count").textContent = `${index.count.toLocaleString("en")} texts, indexed at ${index.cut.layers} layers`;
  part("facts").textContent =
    `${precision} blocks of ${full.layers} layers and ${full.dims} dims; runtime ${megabytes(runtimeBytes)}; ` +
    `${threads} ${threads === 1 ? "thread" : "threads"}.`;
  again = () => void search(model, index);
  layers.disabled = compare.disabled = false;
  layers.addEventListener("input", () => describe(model));
  for (const control of [layers, compare]) control.addEventListener("change", again);
  await search(model, index);
  document.documentElement.dataset.ready = "true";
}

part("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  again();
});
// First, so that what the page fetches is kept; it also isolates the page, which lets the model use threads next time.
navigator.serviceWorker?.register("sw.js").catch(() => {});
start().catch((problem: Error) => say(problem.message, true));

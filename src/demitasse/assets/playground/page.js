// The page: documents, a query and a cut; whatever changes, the ranking is made again from vectors that are kept.

const data = JSON.parse(byId("data").textContent);
const EXAMPLES = ["a short strong coffee", "a long queue of cars", "how do I open a bank account", "plants that need water"];
const WAITS = { query: 150, dials: 60, texts: 500, partial: 120 }; // milliseconds
const MOST_QUERIES = 200; // of which the vectors are kept
const FRESH = 10000; // milliseconds: a query is asked again after that, so that the times shown are those of now
const view = { full: null, name: "", stops: [1], wholeDocuments: true, result: null };
const queries = new Map(); // by cut and text
let running = new AbortController(), soon = 0;

/* ---- documents ---- */

// Vectors of all dims, by layers and text: fewer dims are the first of them, and a line that stays is not sent again.
const documents = {
  texts: [],
  vectors: new Map(),
  turn: Promise.resolve(),
  set(texts) {
    this.texts = texts;
    const kept = new Set(texts);
    for (const known of this.vectors.values()) for (const text of known.keys()) if (!kept.has(text)) known.delete(text);
  },
  // One batch at a time. What a newer query overtakes ends after its batch, which is kept: it would be sent again.
  async at(layers, signal) {
    const before = this.turn;
    let end;
    this.turn = new Promise(done => { end = done; });
    await before;
    try {
      return await this.filled(layers, signal);
    } finally {
      end();
    }
  },
  async filled(layers, signal) {
    if (!this.vectors.has(layers)) this.vectors.set(layers, new Map());
    const known = this.vectors.get(layers), texts = this.texts;
    const missing = [...new Set(texts)].filter(text => !known.has(text));
    let done = 0;
    for (const batch of batched(missing, data.limits)) {
      signal.throwIfAborted();
      progress(done, missing.length, layers);
      const { vectors } = await embed(batch, { cut: { layers, dims: view.full.dims }, kind: "document" });
      batch.forEach((text, place) => known.set(text, vectors[place]));
      done += batch.length;
    }
    signal.throwIfAborted();
    progress(1, 1, layers);
    return texts.map(text => known.get(text));
  },
};

function progress(done, of, layers) {
  byId("progress").hidden = done === of;
  byId("progress-bar").value = done / of;
  byId("progress-said").textContent = `${grouped(done)} of ${grouped(of)} embedded at ${counted(layers, "layer")}`;
}

function readTexts() {
  const lines = linesOf(byId("texts").value), texts = lines.slice(0, MOST_LINES);
  const isSample = texts.join("\n") === data.sample.join("\n");
  documents.set(texts);
  byId("documents-note").textContent = lines.length > MOST_LINES
    ? `${grouped(lines.length)} lines; the first ${grouped(MOST_LINES)} are searched.`
    : `${isSample ? `${grouped(texts.length)} sentences that ship with demitasse; replace them with your own` : counted(texts.length, "line")}. One text per line.`;
  byId("examples").hidden = !isSample;
}

function fillTexts(texts) {
  byId("texts").value = texts.join("\n");
  readTexts();
  search();
}

/* ---- the query ---- */

const chosenCut = () => ({ layers: Number(byId("layers").value), dims: view.stops[Number(byId("dims").value)] });

// The vector of a query. With --shed a busy server may use fewer layers than `atLeast` says, if it says nothing.
async function asQuery(text, cut, signal, atLeast) {
  const name = `${cutName(cut)} ${text}`;
  const known = queries.get(name), now = performance.now();
  if (known && now - known.at < FRESH) return known;
  const { vectors: [vector], ...rest } = await embed([text], { cut, kind: "query", atLeast, signal });
  const made = { vector, at: now, ...rest };
  if (queries.size >= MOST_QUERIES) queries.clear();
  if (cutName(made.cut) === cutName(cut)) queries.set(name, made);
  return made;
}

// Now, or after a pause in typing; what is still being asked for an older query is cancelled.
function search(wait = 0) {
  running.abort();
  running = new AbortController();
  const { signal } = running;
  clearTimeout(soon);
  drawDials();
  if (!view.full) return;
  const text = byId("query").value.trim();
  if (!text || !documents.texts.length) {
    progress(1, 1, 0);
    drawNothing(text);
    return;
  }
  soon = setTimeout(async () => {
    byId("found").setAttribute("aria-busy", "true");
    try {
      await find(text, chosenCut(), signal);
      drawProblem(null);
    } catch (problem) {
      if (!signal.aborted) refused(problem, () => search());
    }
    if (!signal.aborted) byId("found").removeAttribute("aria-busy");
  }, wait);
}

async function find(text, asked, signal) {
  const { full } = view, texts = documents.texts;
  const deep = await documents.at(full.layers, signal);
  const mine = await asQuery(text, asked, signal);
  const those = view.wholeDocuments ? deep : await documents.at(asked.layers, signal);
  const isWhole = cutName(mine.cut) === cutName(full);
  const wholeComes = isWhole ? Promise.resolve(mine) : asQuery(text, full, signal, full.layers);
  const scores = cosines(mine.vector, those, mine.cut.dims), sorted = order(scores);
  const draw = whole => {
    if (signal.aborted) return;
    const compare = whole && compared(sorted, isWhole ? sorted : order(cosines(whole.vector, deep, full.dims)));
    drawResult({ text, texts, asked, mine, whole, scores, sorted, compare, isWhole });
  };
  // The ranking need not wait for what it is compared with.
  const early = setTimeout(() => draw(null), WAITS.partial);
  try {
    draw(await wholeComes);
  } finally {
    clearTimeout(early);
  }
}

/* ---- drawing ---- */

function drawDials() {
  if (!view.full) return;
  const { full } = view, cut = chosenCut();
  for (const [name, value] of Object.entries(cut)) {
    byId(`${name}-said`).textContent = value === full[name] ? `all ${value}` : `${value} of ${full[name]}`;
    byId(name).setAttribute("aria-valuetext", `${value} of ${full[name]} ${name}`);
  }
  byId("depth-note").textContent = view.wholeDocuments
    ? "A shallow query searches a deep index: the documents were embedded once and stay as they are."
    : "The documents are embedded again for each number of layers, and then kept.";
  byId("cut").textContent = cutName(cut);
  const bytes = 4 * cut.dims, count = documents.texts.length;
  const index = bytes * count < 1e6 ? `${grouped((bytes * count) / 1e3)} kB` : `${grouped((bytes * count) / 1e6, 1)} MB`;
  byId("bytes").textContent = `A vector takes ${grouped(bytes)} bytes as float32${cut.dims < full.dims ? `, ${percent(cut.dims / full.dims)} of a full one` : ""}` +
    `${count ? `; ${count === 1 ? "the document" : `all ${grouped(count)} documents`}, ${index}` : ""}.`;
  byId("command").textContent = command(cut);
}

// What to type for the same query; the key is left to the shell.
function command(cut) {
  const body = { model: `${view.name}:${cutName(cut)}`, input: byId("query").value.trim() || "a query", input_type: "query" };
  const key = keys.get() ? ' -H "authorization: Bearer $DEMITASSE_API_KEY"' : "";
  const quoted = JSON.stringify(body).replaceAll("'", "'\\''");
  return `curl ${new URL("v1/embeddings", BASE)} -H 'content-type: application/json'${key} -d '${quoted}'`;
}

function drawNothing(text) {
  drawHits([]);
  drawMissed([], 0, []);
  drawDots({ count: 0, shown: [] });
  byId("page").classList.remove("stale");
  byId("found").removeAttribute("aria-busy");
  byId("empty").textContent = documents.texts.length ? "Type a query to search the documents." : "Paste lines into the documents, or use the sample, to have something to search.";
  byId("empty").hidden = false;
  byId("agreement").textContent = text ? "" : "Type a query, then move the sliders and watch what the full model would have said.";
  byId("shed").hidden = true;
  byId("said").textContent = "";
  byId("times").hidden = true;
}

function drawResult({ text, texts, asked, mine, whole, scores, sorted, compare, isWhole }) {
  const hits = sorted.slice(0, TOP).map(document => ({ document, text: texts[document], score: scores[document], there: compare?.there[document] }));
  byId("empty").hidden = true;
  byId("page").classList.remove("stale");
  drawHits(hits);
  byId("cut").textContent = cutName(mine.cut);
  byId("times-cut").textContent = cutName(mine.cut);
  byId("times").hidden = false;
  drawTimes(mine.times, whole?.times);
  const fewer = mine.cut.layers < asked.layers;
  byId("shed").hidden = !fewer;
  if (fewer) byId("shed").textContent = `The server is busy: this query got ${mine.cut.layers} of the ${asked.layers} layers it asked for.`;
  if (!compare) return;
  drawMissed(compare.missed.map(one => ({ ...one, there: compare.there[one.document] })), compare.count, texts);
  const shown = sorted.slice(0, compare.count), words = agreement({ ...compare, same: isWhole });
  drawDots({ ...compare, shown });
  byId("agreement").textContent = words;
  byId("said").textContent = `${counted(hits.length, "result")} at ${cutName(mine.cut)} for ${text}. ${words} First: ${hits[0].text}`;
}

/* ---- what goes wrong ---- */

function drawProblem(problem, again) {
  if (!problem) {
    byId("problem").replaceChildren();
    return;
  }
  const sentence = html("p", {}, problem.status ? html("strong", {}, `${problem.status} `) : null, `${problem.message}.`);
  const button = html("button", { type: "button", onclick: again }, "Try again");
  byId("problem").replaceChildren(...(again ? [sentence, button] : [sentence]));
}

function refused(problem, again) {
  if (!(problem instanceof Refused)) console.error(problem);
  progress(1, 1, 0);
  byId("page").classList.add("stale");
  if (problem.status === 401) askForKey(problem);
  else drawProblem(problem, again);
}

// Without a key nothing was said wrongly yet; with one, the server's sentence about it is shown.
function askForKey(problem) {
  drawProblem(keys.get() ? problem : null);
  keys.forget();
  byId("page").classList.add("closed");
  byId("key-form").hidden = false;
  byId("forget").hidden = true;
  byId("model").textContent = "This server needs a key";
  byId("key").focus();
}

/* ---- everything together ---- */

async function start() {
  try {
    open(await servedModel());
  } catch (problem) {
    refused(problem, start);
    if (problem.status === 503) setTimeout(start, 1000 * (problem.seconds || 2)); // the model is being loaded
  }
}

function open(model) {
  const first = !view.full, had = document.activeElement === byId("key");
  drawProblem(null);
  byId("page").classList.remove("closed");
  byId("key-form").hidden = true;
  byId("forget").hidden = !keys.get();
  byId("model").textContent = view.name = model.id;
  document.title = `${model.id}: playground`;
  byId("summary").replaceChildren(
    `${counted(model.layers, "layer")}, ${counted(model.dimensions, "dim")}, texts of up to ${grouped(model.max_tokens)} tokens. Every request chooses how much of it to use. `,
    html("a", { href: new URL("docs", BASE) }, "The API"));
  if (first) {
    view.full = { layers: model.layers, dims: model.dimensions };
    setDials(model.offers.layers.minimum);
    followLoad(view.full);
  }
  if (had) byId("query").focus();
  search();
}

function setDials(least) {
  const { full } = view;
  view.stops = dimStops(full.dims);
  const dials = {
    layers: { min: least, max: full.layers, value: Math.ceil(full.layers / 2), ends: [least, full.layers] },
    dims: { min: 0, max: view.stops.length - 1, value: view.stops.findLastIndex(dims => dims <= full.dims / 3), ends: [view.stops[0], full.dims] },
  };
  for (const [name, { min, max, value, ends }] of Object.entries(dials)) {
    Object.assign(byId(name), { min, max, value: Math.max(value, min), disabled: false });
    [byId(`${name}-least`).textContent, byId(`${name}-most`).textContent] = ends.map(String);
  }
  byId("query").disabled = false;
  picker(byId("depth"), "depth", [["all", `all ${full.layers}`], ["same", "as many as the query"]], "all", value => {
    view.wholeDocuments = value === "all";
    search();
  });
}

function listen() {
  byId("ask").addEventListener("submit", event => { event.preventDefault(); search(); });
  byId("query").addEventListener("input", () => search(WAITS.query));
  for (const name of ["layers", "dims"]) byId(name).addEventListener("input", () => search(WAITS.dials));
  byId("texts").addEventListener("input", () => { readTexts(); search(WAITS.texts); });
  byId("sample").addEventListener("click", () => fillTexts(data.sample));
  byId("clear").addEventListener("click", () => { fillTexts([]); byId("texts").focus(); });
  byId("copy-command").addEventListener("click", event => copy(event.currentTarget, byId("command").textContent));
  byId("key-form").addEventListener("submit", event => {
    event.preventDefault();
    keys.set(byId("key").value.trim());
    byId("key").value = "";
    start();
  });
  byId("forget").addEventListener("click", () => { keys.forget(); location.reload(); });
  byId("examples").querySelector("span").replaceChildren(...EXAMPLES.map(example =>
    html("button", { type: "button", onclick: () => { byId("query").value = example; search(); } }, example)));
}

listen();
byId("texts").value = data.sample.join("\n");
readTexts();
drawNothing("");
start();

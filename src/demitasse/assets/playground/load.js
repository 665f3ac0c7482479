// The server's load: numbers twice a second over one stream, drawn small.

const SAMPLES = 120; // a minute of them
const ASK_EVERY = 2000; // milliseconds, where the stream is refused
const LONGEST_PAUSE = 30000;
const past = []; // loads, the newest last, each with the time it came
let watching = new AbortController();

// How much a counter grew per second; a server that was started again begins at 0.
function growth(counter) {
  return past.map((one, at) => {
    const before = past[at - 1];
    return before ? (1000 * Math.max(0, one[counter] - before[counter])) / Math.max(1, one.at - before.at) : 0;
  });
}
const mean = values => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);

const TILES = [
  { id: "waiting", label: "requests waiting", line: () => past.map(one => one.queue_requests), said: one => grouped(one.queue_requests) },
  { id: "rate", label: "requests per second", line: () => growth("requests_total"), said: () => figures(mean(growth("requests_total").slice(-6))) },
  { id: "allowed", label: "layers allowed now", line: () => past.map(one => one.allowed_layers), most: full => full.layers, said: (one, full) => `${one.allowed_layers} of ${full.layers}` },
  { id: "shed", label: "layers shed", line: () => growth("shed_layers_total"), said: one => grouped(one.shed_layers_total) },
];

function drawTiles() {
  byId("tiles").replaceChildren(...TILES.map(tile => html("div", { class: "tile", id: `tile-${tile.id}` },
    html("strong", {}, "–"), html("span", {}, tile.label),
    svg("svg", { viewBox: `0 0 ${SAMPLES - 1} 24`, preserveAspectRatio: "none", "aria-hidden": "true" }, svg("path", {})))));
}

function drawLoad(full) {
  const now = past[past.length - 1];
  for (const tile of TILES) {
    const box = byId(`tile-${tile.id}`), values = tile.line();
    box.querySelector("strong").textContent = tile.said(now, full);
    const most = Math.max(1, tile.most ? tile.most(full) : 0, ...values);
    const at = values.map((value, place) => `${SAMPLES - values.length + place},${(23 - (22 * value) / most).toFixed(1)}`);
    box.querySelector("path").setAttribute("d", `M${at.join("L")}`);
    box.classList.toggle("still", values.every(value => value === 0));
  }
  byId("tile-allowed").classList.toggle("fewer", now.allowed_layers < full.layers);
  drawDepths(now.inputs_by_layers, full);
  const workers = now.ready === 1 ? "1 worker" : `${now.ready} workers`;
  byId("load-more").textContent = `${workers} ready, ${grouped(now.running_batches)} computing; ` +
    `${counted(now.shed_requests_total, "request")} shed, ${grouped(now.refused_total)} turned away since the start.`;
}

// How many texts were embedded at each depth, as columns.
function drawDepths(counts, full) {
  const depths = Array.from({ length: full.layers + 1 }, (_, layers) => counts[layers] || 0), most = Math.max(1, ...depths);
  const sparse = full.layers > 12 ? Math.ceil(full.layers / 12) : 1;
  byId("depths").replaceChildren(
    html("p", { class: "unseen" }, `Texts embedded so far: ${depths.map((count, layers) => `${grouped(count)} at ${layers}`).join(", ")} layers.`),
    html("div", { class: "bars", "aria-hidden": "true" }, ...depths.map((count, layers) => {
      const bar = html("i", {});
      bar.style.height = `${Math.max(count ? 4 : 1, (40 * count) / most)}px`;
      return html("div", { title: `${grouped(count)} texts at ${layers} layers`, class: count ? null : "none" }, bar, layers % sparse ? "" : String(layers));
    })),
    html("p", { class: "note", "aria-hidden": "true" }, "texts embedded, by layers used"));
}

function seenLoad(load, full) {
  past.push({ ...load, at: performance.now() });
  if (past.length > SAMPLES) past.shift();
  drawLoad(full);
}

const pause = milliseconds => new Promise(done => { setTimeout(done, milliseconds); });
const inSight = () => new Promise(done => {
  if (!document.hidden) done();
  else document.addEventListener("visibilitychange", done, { once: true });
});
// A page that nobody looks at gives its place to another: the server lets only a few watch.
document.addEventListener("visibilitychange", () => { if (document.hidden) watching.abort(); });

// Where too many are watching already, ask now and then instead; after a while, try the stream again.
async function askNowAndThen(full) {
  for (let count = 0; count < 15 && !document.hidden; count++) {
    seenLoad(await (await ask("load")).json(), full);
    await pause(ASK_EVERY);
  }
}

async function followLoad(full) {
  const note = words => { byId("load-note").textContent = words; };
  drawTiles();
  for (let wait = 1000; ; wait = Math.min(2 * wait, LONGEST_PAUSE)) {
    await inSight();
    watching = new AbortController();
    try {
      await watch(load => { note("live"); wait = 1000; seenLoad(load, full); }, watching.signal);
    } catch (problem) {
      if (watching.signal.aborted) continue;
      if (problem.status === 503) {
        note(`asked every ${ASK_EVERY / 1000} seconds: ${problem.message.split(";")[0]}`);
        await askNowAndThen(full).catch(() => {});
        continue;
      }
    }
    note("no connection; trying again");
    await pause(wait);
  }
}

// What was found, drawn: rows that keep their place in the document and move when the ranking does.

const still = matchMedia("(prefers-reduced-motion: reduce)");
const STEPS = ["model", "tokenizer", "queue", "server, in all", "as seen from here"];
const counted = (number, what) => `${grouped(number)} ${what}${number === 1 ? "" : "s"}`;
const cutName = cut => `${cut.layers}x${cut.dims}`;

// The rank in the full model, and by how much this one differs.
function place(rank, there) {
  if (there === undefined) return html("span", { class: "place" }, "…");
  const moved = there - rank, far = Math.abs(moved);
  const [kind, sign, words] = moved === 0 ? ["same", "=", "the same place"]
    : moved > 0 ? ["up", `▲ ${far}`, `${far} higher here`] : ["down", `▼ ${far}`, `${far} lower here`];
  return html("span", { class: `place ${kind}` },
    html("span", { class: "unseen" }, `${there + 1} in the full model, ${words}`),
    html("span", { "aria-hidden": "true" }, String(there + 1)), html("b", { "aria-hidden": "true" }, sign));
}

function fill(row, rank, hit, best) {
  const bar = html("i", { "aria-hidden": "true" });
  bar.style.width = `${Math.max(0, Math.min(100, (100 * hit.score) / Math.max(best, 1e-9)))}%`;
  row.replaceChildren(
    html("span", { class: "rank" }, String(rank + 1)),
    html("span", { class: "text" }, hit.text, bar),
    html("span", { class: "score" }, html("span", { class: "unseen" }, "cosine "), hit.score.toFixed(3)),
    place(rank, hit.there));
}

// Rows that stay are moved from where they were, unless the reader wants things to stand still.
function drawHits(hits) {
  const list = byId("hits"), before = new Map([...list.children].map(row => [row.dataset.document, row]));
  const from = new Map([...before].map(([document, row]) => [document, row.getBoundingClientRect().top]));
  const rows = hits.map((hit, rank) => {
    const row = before.get(String(hit.document)) || html("li", { "data-document": hit.document });
    fill(row, rank, hit, hits[0].score);
    return row;
  });
  list.replaceChildren(...rows);
  byId("heads").hidden = !hits.length;
  if (still.matches) return;
  for (const row of rows) {
    const moved = (from.get(row.dataset.document) ?? row.getBoundingClientRect().top) - row.getBoundingClientRect().top;
    if (moved) row.animate([{ transform: `translateY(${moved}px)` }, { transform: "none" }], { duration: 220, easing: "ease-out" });
  }
}

function drawMissed(missed, count, texts) {
  byId("missed").hidden = !missed.length;
  byId("missed-of").textContent = count;
  byId("missed-hits").replaceChildren(...missed.map(({ document, rank, there }) =>
    html("li", {}, html("span", { class: "text" }, texts[document]),
      html("span", { class: "place" }, `${there + 1} there, ${rank + 1} here`))));
}

// One sentence about how far the two rankings agree, and a dot for each result.
function agreement(result) {
  const { count, shared, inPlace } = result;
  if (result.same) return "This is the full model.";
  const kept = shared === count ? `The ${count === 1 ? "first is" : `first ${count} are`} the full model’s` : `${shared} of the top ${count} are the full model’s`;
  return `${kept}${inPlace === count ? ", in the same order" : count > 1 ? `; ${inPlace === 0 ? "none" : inPlace} in the same place` : ""}.`;
}
function drawDots(result) {
  byId("dots-key").hidden = !result.count;
  const kind = (document, rank) => (result.there[document] === rank ? "same" : result.there[document] < result.count ? "near" : "out");
  byId("dots").replaceChildren(...result.shown.map((document, rank) => html("i", { class: kind(document, rank) })));
}

function drawTimes(mine, whole) {
  const said = (times, step) => (times ? times[step].toFixed(times[step] < 100 ? 1 : 0) : "…");
  byId("times").tBodies[0].replaceChildren(...STEPS.map((step, at) =>
    html("tr", {}, html("th", { scope: "row" }, step), html("td", {}, said(mine, at)), html("td", {}, said(whole, at)))));
}

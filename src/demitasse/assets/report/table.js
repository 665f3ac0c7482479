// The table of all numbers, sorted by any column and copied as tab-separated values; and how they were measured.

const COLUMNS = [
  { id: "cut", label: "cut", by: row => row.layers * 1e6 + row.dims, said: row => row.cut, copied: row => row.cut },
  { id: "name", label: "model", word: true, by: row => row.name || "", said: (row, name) => (name ? shortened(cleared(name), 22) : ""), copied: (row, name) => name || data.profile.model },
  { id: "precision", label: "precision", word: true, by: row => row.precision, said: row => row.precision },
  { id: "stored", label: "vectors", word: true, by: row => row.vector_bytes / row.dims, said: row => row.vectors, copied: row => row.vectors },
  { id: "quality", label: "quality", by: row => row.quality, said: row => points(row.quality), high: true },
  { id: "share", label: "of full", by: row => row.quality / view.full.quality, said: row => (inShare ? percent(row.quality / view.full.quality) : ""), high: true },
  { id: "p50", label: "p50 ms", by: row => row.p50_ms, said: row => grouped(row.p50_ms, 2) },
  { id: "latency", label: "p95 ms", by: row => row.p95_ms, said: row => grouped(row.p95_ms, 2) },
  { id: "speed", label: "texts/s", by: row => row.texts_per_second, said: row => grouped(row.texts_per_second), high: true },
  { id: "noise", label: "± time", by: row => row.noise, said: row => percent(row.noise) },
  { id: "vectors", label: "bytes/vector", by: row => row.vector_bytes, said: row => grouped(row.vector_bytes) },
  { id: "model", label: "model MB", by: row => row.model_mb, said: row => grouped(row.model_mb, 1) },
];

// The model of a row matters only if there are several.
const shownColumns = () => COLUMNS.filter(column => column.id !== "name" || view.series.length);

function tableRows() {
  const { column, down } = view.sort, by = COLUMNS.find(one => one.id === column).by;
  const wanted = { all: () => true, front: row => view.front.has(row) || row === view.best.row, fits: row => view.fits.has(row) }[view.shown];
  const ours = view.rows.filter(wanted).map(row => ({ row, name: null }));
  const others = view.series.flatMap(one => one.rows.map(row => ({ row, name: one.name })));
  const less = (a, b) => (by(a.row) < by(b.row) ? -1 : by(a.row) > by(b.row) ? 1 : b.row.quality - a.row.quality);
  return [...ours, ...others].sort((a, b) => (down ? less(b, a) : less(a, b)));
}

function table() {
  const columns = shownColumns();
  const heading = column => html("th", { scope: "col", class: column.word ? "word" : null, "aria-sort": view.sort.column === column.id ? (view.sort.down ? "descending" : "ascending") : null },
    html("button", { type: "button", onclick: () => sortBy(column) }, column.label));
  const line = ({ row, name }) => {
    const kind = [row === view.best.row && "best", !name && !view.fits.has(row) && "out"].filter(Boolean).join(" ");
    return html("tr", { class: kind || null },
      ...columns.map(column => html("td", { class: column.word ? "word" : null }, column.said(row, name), column.id === "cut" ? html("small", {}, name ? shortened(cleared(name), 22) : `${row.precision}, ${row.vectors}`) : null)));
  };
  byId("rows").replaceChildren(
    html("thead", {}, html("tr", {}, ...columns.map(heading))),
    html("tbody", {}, ...tableRows().map(line)));
}

function sortBy(column) {
  const again = view.sort.column === column.id;
  view.sort = { column: column.id, down: again ? !view.sort.down : Boolean(column.high) };
  table();
  byId("rows").querySelectorAll("th button")[shownColumns().indexOf(column)].focus();
}

// The full numbers, not the rounded ones.
function asText() {
  const clean = value => String(value).replace(/[\t\r\n]+/g, " ");
  const heads = shownColumns().map(column => column.label);
  const lines = tableRows().map(({ row, name }) => shownColumns().map(column => clean((column.copied || column.by)(row, name))));
  return [heads, ...lines].map(line => line.join("\t")).join("\n") + "\n";
}

function method() {
  const noises = rows.map(row => row.noise).sort((a, b) => a - b), noise = noises[Math.floor(noises.length / 2)], worst = noises[noises.length - 1];
  const error = view.error > 0
    ? ` The full model has ${points(view.full.quality)} ± ${points(view.error)} (95%, from resampling): smaller differences between models may be chance; cuts of one model are compared on the same texts, so less of their difference is chance.`
    : "";
  const paragraphs = [
    `Quality is ${view.measure}, times 100.${error}`,
    `Latency is for one text at a time: half of the texts finish within p50, 95 of 100 within p95. Texts/s is for batches of ${data.profile.batch}. Between rounds, the times of a row differ by about ${percent(noise)}${worst > 1.5 * noise ? ` (at worst ${percent(worst)})` : ""}; smaller differences mean nothing. All dims at one depth share a timing, since what fewer dims save is too little to measure beside the layers.`,
    "Model MB is the size of the weights that a cut loads. Vectors are stored as float32 (4 bytes per dim), float16 (2), int8 (1) or binary (one bit), and quality is measured on vectors stored that way. A row is on the front if no other is at least as good in quality, p95, texts/s, model MB and bytes per vector, and better in one of them.",
    ...data.series.filter(one => one.note).map(one => `${one.name}: ${one.note}.`),
  ];
  byId("words").replaceChildren(...paragraphs.map(text => html("p", {}, text)));
  const facts = data.facts.flatMap(([label, value]) => [html("dt", {}, label), html("dd", {}, value)]);
  byId("facts").replaceChildren(...facts);
}

/* ---- everything together ---- */

const controls = CONTROLS.map(control);

function update(typing) {
  view.best = choose(view.rows, view.budget, view.full.quality);
  view.fits = new Set(view.rows.filter(row => !broken(view.budget, row, view.full.quality).length));
  if (view.followed) ({ precision: view.precision, vectors: view.vectors } = view.best.row);
  for (const one of controls) one.refresh(typing);
  pick(byId("prefer"), view.budget.prefer || "");
  pick(byId("precision"), view.precision);
  pick(byId("vectors"), view.vectors);
  tip.hide();
  answer();
  places = chart(view);
  heat(view);
  table();
  corpus();
}

function start() {
  const { profile } = data;
  byId("model").textContent = profile.model;
  byId("summary").textContent = `${grouped(rows.length)} ways to run it, up to ${view.full.cut} (layers x dims), each measured: ${view.measure}${data.where ? `; timed on ${data.where}` : ""}.`;
  byId("limits").replaceChildren(...controls.map(one => one.box));
  const bar = html("div", { class: "pick" });
  picker(bar, "prefer", PREFERENCES, "", value => set("prefer", value));
  byId("prefer").append(bar);
  byId("clear").addEventListener("click", () => { view.budget = {}; update(); });
  picker(byId("axis"), "axis", Object.entries(MEASURES).slice(1).map(([axis, one]) => [axis, one.label]), view.axis, value => { view.axis = value; update(); });
  for (const name of ["precision", "vectors"]) {
    picker(byId(name), name, kinds(name).map(kind => [kind, kind]), null, value => { view[name] = value; view.followed = false; update(); });
    byId(name).hidden = byId(name).previousElementSibling.hidden = kinds(name).length < 2;
  }
  picker(byId("shown"), "shown", [["front", "front"], ["fits", "within the budget"], ["all", "all"]], view.shown, value => { view.shown = value; table(); });
  for (const name of ["corpus-texts", "corpus-price"]) byId(name).addEventListener("input", corpus);
  byId("copy-table").addEventListener("click", event => copy(event.currentTarget, asText()));
  method();
  update();
  listen();
  let wide = byId("chart").clientWidth;
  new ResizeObserver(() => {
    if (byId("chart").clientWidth === wide) return;
    wide = byId("chart").clientWidth;
    places = chart(view);
  }).observe(byId("chart").parentNode);
}

start();

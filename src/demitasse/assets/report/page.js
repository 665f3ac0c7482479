// The page: a budget, the row it leads to, the figures and the table, all redrawn from one view when it changes.

const data = JSON.parse(byId("data").textContent);
const asRow = entry => {
  const [layers, dims] = entry.cut.split("x").map(Number);
  return { ...entry, layers, dims };
};
const rows = data.profile.rows.map(asRow);
const kinds = name => [...new Set(rows.map(row => row[name]))];
const view = {
  rows,
  series: data.series.map(one => ({ ...one, rows: one.rows.map(asRow) })),
  full: rows[data.full],
  error: data.profile.quality_error,
  measure: data.profile.measure,
  front: new Set(front(rows)),
  budget: rows[data.full].quality > 0 ? { quality: 0.97 } : {},
  axis: "latency",
  precision: null,
  vectors: null,
  followed: true, // the map shows the precision and vectors of the chosen row until others are picked
  shown: "front",
  sort: { column: "quality", down: true },
};
const inShare = view.full.quality > 0; // no share can be taken of a quality below 0
let places = { spots: [], walk: [] };

/* ---- the budget ---- */

const CONTROLS = [
  { limit: "quality", label: "Quality", unit: inShare ? "% of full" : "points" },
  { limit: "latency_ms", label: "p95 latency", unit: "ms" },
  { limit: "texts_per_second", label: "Throughput", unit: "texts/s" },
  { limit: "vector_bytes", label: "Vector", unit: "bytes" },
  { limit: "model_mb", label: "Model", unit: "MB" },
];
const PREFERENCES = [["", "automatic"], ["quality", "quality"], ["latency", "latency"], ["vectors", "small vectors"], ["model", "a small model"]];
// A typed number as a limit: a quality up to 1 is a share, above 1 it is points.
const byHand = (limit, value) => {
  if (!(value > 0) || (limit === "quality" && !inShare && value <= 1)) return null;
  return limit === "quality" && inShare ? Number((Math.min(value, 100) / 100).toPrecision(12)) : value;
};
const shownAs = (limit, value) => (limit === "quality" && inShare ? Number((100 * value).toPrecision(12)) : value);

// The numbers that a slider stops at: round ones, and those at which another row fits.
function stops(limit) {
  const values = [...new Set(rows.map(VALUE[limit]))].sort((a, b) => a - b);
  if (limit === "vector_bytes") return values;
  if (limit === "quality" && inShare) {
    const low = Math.max(1, Math.floor((100 * values[0]) / view.full.quality)), found = [];
    for (let share = low; share <= 100; share += share >= 80 ? 0.5 : 1) found.push(share);
    return found;
  }
  const [low, high] = [values[0], values[values.length - 1]], found = new Set();
  for (let power = -4; power < 9; power++)
    for (const step of [1, 1.5, 2, 3, 4, 5, 6, 8]) found.add(Number((step * 10 ** power).toPrecision(2)));
  const least = AT_LEAST.includes(limit);
  for (const value of values) found.add(rounded(value, least));
  const all = [...found].sort((a, b) => a - b);
  return all.filter((value, place) => (all[place + 1] ?? Infinity) > low && (all[place - 1] ?? 0) < high);
}
// To three figures, rounded so that the row still fits.
function rounded(value, down) {
  const unit = 10 ** (Math.floor(Math.log10(Math.max(value, 1e-9))) - 2);
  return Number(((down ? Math.floor : Math.ceil)(value / unit - (down ? -1e-9 : 1e-9)) * unit).toPrecision(3));
}

// At its loose end a slider sets no limit: the right end for a maximum, the left end for a minimum.
function control({ limit, label, unit }) {
  const least = AT_LEAST.includes(limit), found = stops(limit), last = found.length;
  const slider = html("input", {
    type: "range", min: 0, max: last, step: 1, id: `slide-${limit}`, "aria-label": `${label}, ${least ? "at least" : "at most"}`,
    oninput: () => {
      const at = Number(slider.value) - (least ? 1 : 0);
      set(limit, found[at] === undefined ? null : byHand(limit, found[at]));
    },
  });
  const field = html("input", {
    type: "number", min: 0, step: "any", id: `type-${limit}`, placeholder: "any", inputmode: "decimal",
    oninput: () => set(limit, byHand(limit, Number(field.value)), field),
  });
  const box = html("div", { class: "limit", id: `limit-${limit}` },
    html("label", { for: `type-${limit}` }, label, " ", html("small", {}, least ? "at least" : "at most")),
    html("div", { class: "field" }, field, html("span", {}, unit)), slider);
  const refresh = (typing) => {
    const value = view.budget[limit] ?? null, shown = value === null ? null : shownAs(limit, value);
    if (typing !== field) field.value = shown === null ? "" : String(shown);
    const near = shown === null ? null : found.reduce((a, b, place) => (Math.abs(b - shown) < Math.abs(found[a] - shown) ? place : a), 0);
    slider.value = near === null ? (least ? 0 : last) : near + (least ? 1 : 0);
    slider.setAttribute("aria-valuetext", shown === null ? "any" : `${plain(shown)} ${unit}`);
    box.classList.toggle("off", value === null);
    box.classList.toggle("binds", view.best.broken.includes(limit));
  };
  return { box, refresh };
}

function set(name, value, typing) {
  const { [name]: _, ...rest } = view.budget;
  view.budget = value === null || value === "" ? rest : { ...rest, [name]: value };
  update(typing);
}

/* ---- the answer ---- */

const WORDS = {
  latency_ms: value => `p95 latency of at most ${plain(value)} ms`,
  texts_per_second: value => `at least ${plain(value)} texts/s`,
  vector_bytes: value => `at most ${plain(value)} bytes per vector`,
  model_mb: value => `a model of at most ${plain(value)} MB`,
  quality: value => value <= 1 ? `at least ${plain(100 * value)}% of the full quality` : `a quality of at least ${plain(value)}`,
};
const said = limit => WORDS[limit](view.budget[limit]);
const FOR = { quality: "the best quality", latency: "the lowest latency", vectors: "the smallest vectors", model: "the smallest model" };

function answer() {
  byId("preferred").textContent = view.budget.prefer ? "" : `Automatic: ${FOR[preferred(view.budget)]}, since ${preferred(view.budget) === "quality" ? "a cost is limited" : "no cost is limited"}.`;
  const { row, broken: beyond } = view.best, limits = limitsOf(view.budget), first = FOR[preferred(view.budget)];
  const fits = view.rows.filter(one => view.fits.has(one)).length;
  const parts = [];
  if (beyond.length) {
    const others = limits.length > beyond.length ? " within the other limits" : "";
    parts.push(html("p", { class: "none" }, `Nothing measured has ${beyond.map(said).join(" and ")}${others}.`));
    parts.push(html("p", { class: "asked" }, "The nearest is"));
  } else {
    const asked = limits.length ? `Within the budget, ${first}` : `No limits: ${first}`;
    parts.push(html("p", { class: "asked" }, `${asked} (${grouped(fits)} of ${grouped(rows.length)} fit)`));
  }
  parts.push(html("p", { class: "cut", id: "cut" }, row.cut));
  parts.push(html("p", { class: "kind" }, `${counted(row.layers, "layer")}, ${counted(row.dims, "dim")}; ${row.precision} model, ${row.vectors} vectors`));
  const brief = beyond.length ? "is the nearest; nothing fits" : `${row.precision}, ${row.vectors}: ${points(row.quality)} at ${figures(row.p95_ms)} ms`;
  byId("said").textContent = `${row.cut} ${brief}`;
  byId("now").replaceChildren(html("strong", {}, row.cut), brief);
  parts.push(html("dl", { class: "stats" }, ...Object.keys(MEASURES).map(axis => stat(axis, row))));
  parts.push(...beside(row, beyond));
  if (beyond.length) parts.push(html("p", { class: "allow" }, loosened(row, beyond)));
  else parts.push(html("div", { class: "use" }, ...uses(row)));
  byId("answer").replaceChildren(...parts);
}
const counted = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;

// A button that loosens the limits until the nearest row fits.
function loosened(row, beyond) {
  const wider = Object.fromEntries(beyond.map(limit => [limit, enough(view.budget, limit, row, view.full.quality)]));
  const allow = () => {
    view.budget = { ...view.budget, ...wider };
    update();
    byId(`type-${beyond[0]}`).focus(); // the button that was pressed is gone
  };
  return html("button", { type: "button", id: "allow", onclick: allow }, `Allow ${beyond.map(limit => WORDS[limit](wider[limit])).join(" and ")}`);
}

// A number, how it compares with the full model, and where it lies among all rows: better to the right.
function stat(axis, row) {
  const measure = MEASURES[axis], value = measure.value(row), full = measure.value(view.full);
  const ratio = value / full, same = value === full;
  const held = {
    quality: () => inShare ? `${percent(ratio)} of full` : "",
    latency: () => `${times(1 / ratio)} as fast as the full model`,
    speed: () => `${times(ratio)} the full model`,
    vectors: () => `${percent(ratio)} of full`,
    model: () => `${percent(ratio)} of full`,
  }[axis]();
  return html("div", {},
    html("dt", {}, measure.label),
    html("dd", { class: "value" }, measure.said(value) + measure.unit),
    html("dd", { class: "beside" }, html("span", {}, same ? "same as the full model" : held), strip(axis, row)));
}
function strip(axis, row) {
  const at = one => (axis === "quality" ? COST[axis](one) : Math.log(Math.abs(COST[axis](one))) * Math.sign(COST[axis](one)));
  const costs = view.rows.map(at), least = Math.min(...costs), most = Math.max(...costs);
  const left = one => `left:${(most > least ? (100 * (most - at(one))) / (most - least) : 100).toFixed(2)}%`;
  const marks = [...new Set(view.rows.map(left))].map(style => html("b", { style }));
  return html("i", { "aria-hidden": "true" }, ...marks, html("b", { class: "full", style: left(view.full) }), html("b", { class: "here", style: left(row) }));
}

// How near the limits are, and what a little more or less would get.
function beside(row, beyond) {
  const { latency_ms: most, texts_per_second: least } = view.budget, lines = [];
  const close = (most != null && row.p95_ms * (1 + row.noise) > most) || (least != null && row.texts_per_second * (1 - row.noise) < least);
  if (close && !beyond.length) lines.push(html("p", { class: "near" }, `The limit is within the noise of its timing (± ${percent(row.noise)}): measure again to be sure.`));
  if (beyond.length || !limitsOf(view.budget).length) return lines;
  const { cheaper, better } = neighbours(view.rows, view.budget, row, view.full.quality);
  for (const [word, one] of [["Cheaper", cheaper], ["Better", better]])
    if (one) lines.push(html("p", { class: "near" }, `${word}: ${one.cut} ${one.precision}, ${one.vectors} vectors: ${points(one.quality)}, ${figures(one.p95_ms)} ms, ${grouped(one.vector_bytes)} B, ${figures(one.model_mb)} MB.`));
  return lines;
}

// What to type for a row, as in deploy.py: shell commands, the last of which encodes; and the Python.
function commands(row) {
  const { shell, python, formats } = data.use, format = formats[row.precision];
  const kept = row.vectors === "float32" ? "" : ` --vectors ${row.vectors}`;
  const named = format ? " --model small" : shell && ` --model ${shell}`, cut = format ? "" : ` --cut ${row.cut}`;
  const call = `dt.load(${format ? "'small'" : python})${format ? "" : `.cut(${row.layers}, ${row.dims})`}.encode(texts)`;
  return {
    shell: [
      ...(format ? [`demitasse export ${shell} --cut ${row.cut} --format ${format} --out small`] : []),
      `demitasse encode${named}${cut}${kept} --input texts.txt --output vectors.npy`,
    ],
    python: row.vectors === "float32" ? call : `dt.store(${call}, "${row.vectors}")`,
  };
}
function uses(row) {
  const { shell, python } = commands(row), words = ["Write this cut once", "Encode with it"].slice(-shell.length);
  const lines = shell.map((text, number) => [words[number], text, number === shell.length - 1 ? "command" : null]);
  lines.push(["In Python", `import demitasse as dt\nvectors = ${python}`, "python"]);
  return lines.map(([what, text, id]) => {
    const button = html("button", { type: "button", "aria-label": `Copy: ${what}`, onclick: () => copy(button, text) }, "Copy");
    const parts = text.split(/( +|\n+)/).map(part => (part.trim() ? html("span", {}, part) : part)); // no break within a word
    return html("div", { class: "line" }, html("p", {}, what), button, html("pre", { id }, ...parts));
  });
}

/* ---- the numbers of one row, beside the pointer ---- */

function details(row, series) {
  const line = (label, value) => html("tr", {}, html("td", {}, label), html("td", {}, value));
  const beyond = series ? [] : broken(view.budget, row, view.full.quality);
  const share = inShare ? ` (${percent(row.quality / view.full.quality)})` : "";
  return [
    html("strong", {}, series ? series.name : row.cut),
    `${series ? `${row.cut}, ` : ""}${row.precision}, ${row.vectors} vectors`,
    html("table", {},
      line("quality", points(row.quality) + share),
      line("p50 / p95", `${figures(row.p50_ms)} / ${figures(row.p95_ms)} ms`),
      line(`texts/s, ${data.profile.batch} at once`, figures(row.texts_per_second)),
      line("timing noise", `± ${percent(row.noise)}`),
      line("model", `${figures(row.model_mb)} MB`),
      line("vector", `${grouped(row.vector_bytes)} bytes`)),
    beyond.length ? html("em", {}, `outside the budget: ${beyond.map(said).join(", ")}`) : "",
    view.front.has(row) && !series ? html("em", {}, "no other row is better overall") : "",
    series?.note ? html("em", {}, series.note) : "",
  ];
}

function listen() {
  const box = byId("chart");
  let walked = -1;
  const point = (spot) => {
    const ring = box.querySelector(".hover"), frame = box.getBoundingClientRect();
    ring.setAttribute("cx", spot.at[0]);
    ring.setAttribute("cy", spot.at[1]);
    ring.setAttribute("visibility", "visible");
    tip.show(details(spot.row, spot.series), frame.left + spot.at[0], frame.top + spot.at[1]);
  };
  const leave = () => {
    box.querySelector(".hover").setAttribute("visibility", "hidden");
    tip.hide();
  };
  const near = event => {
    const frame = box.getBoundingClientRect(), [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    const far = spot => Math.hypot(spot.at[0] - x, spot.at[1] - y) - (view.fits.has(spot.row) || spot.series ? 1 : 0);
    const spot = places.spots.reduce((a, b) => (far(b) < far(a) ? b : a));
    far(spot) < 40 ? point(spot) : leave();
  };
  box.addEventListener("pointermove", near);
  box.addEventListener("pointerdown", near);
  box.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") leave(); });
  box.addEventListener("blur", leave);
  box.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (event.key === "Escape") return leave();
    if (step === undefined) return;
    event.preventDefault();
    walked = walked < 0 ? (step > 0 ? 0 : places.walk.length - 1) : (walked + step + places.walk.length) % places.walk.length;
    point(places.walk[walked]);
  });

  const map = byId("heat");
  const cell = event => event.target.closest("td");
  const show = event => {
    const found = cell(event);
    if (!found?.row) return tip.hide();
    const frame = found.getBoundingClientRect();
    tip.show(details(found.row), frame.left + frame.width / 2, frame.top + frame.height / 2);
  };
  for (const name of ["pointerover", "pointerdown", "focusin"]) map.addEventListener(name, show);
  map.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") tip.hide(); });
  map.addEventListener("focusout", () => tip.hide());
  map.addEventListener("keydown", event => {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [0, 0];
    if (event.key === "Escape") return tip.hide();
    const here = cell(event);
    if (!here || (!down && !right)) return;
    event.preventDefault();
    const next = here.parentNode.parentNode.rows[here.parentNode.rowIndex - 2 + down]?.cells[here.cellIndex + right];
    if (!next?.row) return;
    here.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  addEventListener("scroll", () => tip.hide(), { passive: true });
}

// The two figures: quality over a cost, with the front; quality of every cut by layers and dims.

const fronts = {}; // for each cost, computed once
const OTHERS = ["#b05494", "#927000", "#4d6fd1", "#6b6b6b"];

function chart(view) {
  const box = byId("chart"), measure = MEASURES[view.axis];
  const wide = box.clientWidth || 640, narrow = wide < 480;
  const high = Math.round(Math.max(300, Math.min(460, wide * 0.62)));
  const area = { left: 40, right: wide - (narrow ? 14 : 22), top: 30, bottom: high - 44 };
  const all = [...view.rows, ...view.series.flatMap(one => one.rows)];
  const x = logScale(all.map(measure.value), area.left, area.right, view.axis === "speed");
  const best = (fronts[view.axis] ??= front(view.rows, ["quality", view.axis]));
  // Rows far below the front are not drawn; the table has them.
  const seen = [...best, view.best.row, ...view.series.flatMap(one => one.rows)].map(row => row.quality);
  const floor = Math.min(...seen) - Math.max(0.5 * (Math.max(...seen) - Math.min(...seen)), 1);
  const ours = view.rows.filter(row => row.quality >= floor).sort((a, b) => view.fits.has(a) - view.fits.has(b));
  const y = scale([...ours.map(row => row.quality), ...seen], area.bottom, area.top);
  const place = row => [x.at(measure.value(row)), y.at(row.quality)];
  const drawn = [...frame(area, x, y, measure), ...limits(view, area, x, y, measure)];
  best.sort((a, b) => place(a)[0] - place(b)[0]);
  drawn.push(svg("path", { class: "front", d: steps(best.map(place), view.axis === "speed") }));
  for (const row of ours) drawn.push(pointOf(view, row, place(row)));
  const spots = ours.map(row => ({ row, at: place(row), series: null }));
  view.series.forEach((one, number) => {
    const color = OTHERS[number % OTHERS.length], at = one.rows.map(place).sort((a, b) => a[0] - b[0]);
    if (at.length > 1) drawn.push(svg("path", { class: "other-front", stroke: color, d: steps(at, view.axis === "speed") }));
    one.rows.forEach(row => {
      drawn.push(mark("other", 4, place(row), { class: "mark", style: `color:${color}` }));
      spots.push({ row, at: place(row), series: one });
    });
  });
  const chosen = place(view.best.row);
  drawn.push(svg("circle", { class: "ring", cx: chosen[0], cy: chosen[1], r: 8.5 }));
  drawn.push(...names(view, best, place, area, measure));
  drawn.push(svg("circle", { class: "hover", r: 7, visibility: "hidden" }));
  box.setAttribute("viewBox", `0 0 ${wide} ${high}`);
  box.style.height = `${high}px`;
  box.setAttribute("aria-label", `Quality over ${measure.label}; the arrow keys step along the best rows, from ` +
    `${best.length ? `${best[0].cut} to ${best[best.length - 1].cut}` : "none"}. The table below has every number.`);
  box.replaceChildren(...drawn);
  chartKey(view, view.rows.length - ours.length);
  return { spots, walk: [...best.map(row => ({ row, at: place(row), series: null })), ...spots.filter(one => one.series)] };
}

function logScale(values, from, to) {
  let [low, high] = [Math.log(Math.min(...values)), Math.log(Math.max(...values))];
  const room = Math.max(0.06 * (high - low), 0.08);
  [low, high] = [low - room, high + room];
  const at = value => from + ((Math.log(value) - low) / (high - low)) * (to - from);
  // The finest ticks whose labels do not touch.
  const most = Math.max(2, Math.floor((to - from) / 52));
  let ticks = [];
  for (const ladder of [[1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9], [1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    ticks = [];
    for (let power = -6; power < 12; power++)
      for (const step of ladder) {
        const value = Number((step * 10 ** power).toPrecision(3));
        if (Math.log(value) >= low && Math.log(value) <= high) ticks.push(value);
      }
    if (ticks.length <= most && closest(ticks.map(at)) >= 36) break;
  }
  return { at, ticks };
}

const closest = places => Math.min(...places.slice(1).map((place, before) => Math.abs(place - places[before])));

function scale(values, from, to) {
  let [low, high] = [Math.min(...values), Math.max(...values)];
  const room = Math.max(0.06 * (high - low), 0.2);
  [low, high] = [low - room, high + room];
  const raw = (high - low) / 6, unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(times => times * unit).find(size => size >= raw);
  const ticks = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) ticks.push(Number(value.toFixed(6)));
  return { at: value => from + ((value - low) / (high - low)) * (to - from), ticks, digits: step < 1 ? 1 : 0 };
}

function frame(area, x, y, measure) {
  const drawn = [];
  for (const tick of y.ticks) {
    drawn.push(svg("line", { class: "grid", x1: area.left, x2: area.right, y1: y.at(tick), y2: y.at(tick) }));
    drawn.push(svg("text", { x: area.left - 8, y: y.at(tick) + 4, "text-anchor": "end" }, tick.toFixed(y.digits)));
  }
  drawn.push(svg("line", { class: "axis", x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom }));
  for (const tick of x.ticks) {
    drawn.push(svg("line", { class: "axis", x1: x.at(tick), x2: x.at(tick), y1: area.bottom, y2: area.bottom + 4 }));
    drawn.push(svg("text", { x: x.at(tick), y: area.bottom + 18, "text-anchor": "middle" }, plain(tick)));
  }
  const title = `${measure.label}${measure.unit && measure.unit !== " B" ? `,${measure.unit}` : ""}`;
  drawn.push(svg("text", { x: area.right, y: area.bottom + 37, "text-anchor": "end" },
    measure.limit === "texts_per_second" ? `${title} (more is better →)` : `${title} (← less is better)`));
  drawn.push(svg("text", { x: area.left - 34, y: area.top - 12 }, "quality ↑"));
  return drawn;
}

// The limits of the budget are lines; the full model's quality with its error is a band.
function limits(view, area, x, y, measure) {
  const drawn = [], full = view.full.quality, within = (value, low, high) => Math.max(low, Math.min(high, value));
  if (view.error > 0) {
    const [top, bottom] = [full + view.error, full - view.error].map(one => within(y.at(one), area.top, area.bottom));
    drawn.push(svg("rect", { class: "error", x: area.left, width: area.right - area.left, y: top, height: bottom - top }));
  }
  const wanted = view.budget[measure.limit], at = wanted == null ? null : x.at(wanted);
  if (at !== null && at > area.left && at < area.right) {
    drawn.push(svg("line", { class: "limit-line", x1: at, x2: at, y1: area.top, y2: area.bottom }));
    const end = at > (area.left + area.right) / 2;
    drawn.push(svg("text", { class: "limit-name", x: at + (end ? -5 : 5), y: area.bottom - 6, "text-anchor": end ? "end" : "start" },
      `${AT_LEAST.includes(measure.limit) ? "at least" : "at most"} ${plain(wanted)}`));
  }
  const least = view.budget.quality == null ? null : y.at(allowed(view.budget, "quality", full));
  if (least !== null && least > area.top && least < area.bottom) {
    drawn.push(svg("line", { class: "limit-line", x1: area.left, x2: area.right, y1: least, y2: least }));
    const name = view.budget.quality <= 1 ? `at least ${plain(100 * view.budget.quality)}% of full` : `at least ${plain(view.budget.quality)}`;
    drawn.push(svg("text", { class: "limit-name", x: area.left + 6, y: least - 5 }, name));
    area.taken = { x: area.left, y: least - 17, w: 7.2 * name.length, h: 15 };
  }
  return drawn;
}

// A front is a staircase: between two of its rows, the cheaper one is all there is.
function steps(at, rightward) {
  return at.map(([x, y], place) => (place === 0 ? `M${x},${y}` : rightward ? `V${y}H${x}` : `H${x}V${y}`)).join("");
}

function pointOf(view, row, at) {
  const hollow = row.vectors === "float32" ? "" : " hollow", out = view.fits.has(row) ? "" : " out";
  const group = svg("g", { class: row.precision + out });
  group.append(mark(row.precision, hollow ? 2.9 : 3.4, at, { class: `mark${hollow}` }));
  return group;
}

// Names beside points, the chosen row first. A name goes where it hides least, and is left out if it would touch another.
function names(view, best, place, area) {
  const taken = [], drawn = [], dots = [...view.rows, ...view.series.flatMap(one => one.rows)].map(place);
  const add = (text, at, kind) => {
    const wide = (kind === "name best" ? 9 : 7.2) * text.length;
    const boxes = [[-11 - wide, -6], [11, 15], [-wide / 2, -13], [11, -6], [-11 - wide, 15], [-wide / 2, 23]]
      .map(([dx, dy]) => ({ x: at[0] + dx, y: at[1] + dy - 11, w: wide, h: 14 }))
      .filter(box => box.x >= area.left && box.x + wide <= area.right + 18 && box.y >= area.top - 12 && box.y + 14 <= area.bottom)
      .filter(box => !taken.some(one => box.x < one.x + one.w && one.x < box.x + box.w && box.y < one.y + one.h && one.y < box.y + box.h))
      .map(box => ({ ...box, hides: dots.filter(([x, y]) => x > box.x - 3 && x < box.x + box.w + 3 && y > box.y - 2 && y < box.y + box.h + 3).length }));
    if (!boxes.length) return;
    const found = boxes.reduce((a, b) => (b.hides < a.hides ? b : a));
    if (found.hides > 3 && kind === "name") return;
    taken.push(found);
    drawn.push(svg("text", { class: kind, x: found.x, y: found.y + 11 }, text));
  };
  const chosen = place(view.best.row), said = new Set([view.best.row.cut]);
  taken.push({ x: chosen[0] - 9, y: chosen[1] - 9, w: 18, h: 18 }, ...(area.taken ? [area.taken] : []));
  add(view.best.row.cut, chosen, "name best");
  for (const one of view.series) {
    const last = one.rows.reduce((a, b) => (b.quality > a.quality ? b : a));
    add(shortened(cleared(one.name), 26), place(last), "name other");
  }
  for (const row of [...best].reverse()) {
    if (!said.has(row.cut)) add(row.cut, place(row), "name");
    said.add(row.cut);
  }
  return drawn;
}

function chartKey(view, below) {
  const precisions = [...new Set(view.rows.map(row => row.precision))];
  const parts = precisions.map(name =>
    keyed(name, svg("g", { class: name }, mark(name, 3.6, [0, 0], { class: "mark" }))));
  if (view.rows.some(row => row.vectors !== "float32"))
    parts.push(keyed("vectors smaller than float32", mark(precisions[0], 3.4, [0, 0], { class: "mark hollow" })));
  view.series.forEach((one, number) => {
    const color = OTHERS[number % OTHERS.length];
    parts.push(keyed(one.name, mark("other", 3.6, [0, 0], { class: "mark", style: `color:${color}` })));
  });
  parts.push(keyed("the front: no row is better on both", svg("path", { d: "M-6,4H0V-4H6", fill: "none", stroke: "currentColor" })));
  if (limitsOf(view.budget).length) parts.push(html("span", {}, "Pale: outside the budget."));
  if (view.error > 0) parts.push(html("span", {}, `Band: the full model’s quality ± ${points(view.error)}.`));
  if (below) parts.push(html("span", {}, `${grouped(below)} of ${grouped(view.rows.length)} rows are below the chart.`));
  byId("chart-key").replaceChildren(...parts);
}

function heat(view) {
  const rows = view.rows.filter(row => row.precision === view.precision && row.vectors === view.vectors);
  const layers = [...new Set(view.rows.map(row => row.layers))].sort((a, b) => b - a);
  const dims = [...new Set(view.rows.map(row => row.dims))].sort((a, b) => a - b);
  const qualities = rows.map(row => row.quality), least = Math.min(...qualities), most = Math.max(...qualities);
  const cell = (layer, width) => {
    const row = rows.find(one => one.layers === layer && one.dims === width);
    if (!row) return html("td", { class: "empty" });
    const t = most > least ? (row.quality - least) / (most - least) : 1;
    const kind = [t > 0.51 && "more", t > 0.66 && "most", !view.fits.has(row) && "out", row === view.best.row && "best"];
    const made = html("td", { class: kind.filter(Boolean).join(" "), style: `--t:${(100 * t).toFixed(1)}%`, tabindex: -1 }, points(row.quality));
    made.row = row;
    return made;
  };
  byId("heat").closest(".figures").classList.toggle("many", layers.length > 12);
  byId("heat").replaceChildren(
    html("thead", {},
      html("tr", {}, html("th", { class: "corner" }), html("th", { class: "over", colspan: dims.length, scope: "colgroup" }, "dims")),
      html("tr", {}, html("th", { scope: "col" }, "layers"), ...dims.map(width => html("th", { scope: "col" }, String(width))))),
    html("tbody", {}, ...layers.map(layer =>
      html("tr", {}, html("th", { scope: "row" }, String(layer)), ...dims.map(width => cell(layer, width))))));
  const cells = [...byId("heat").querySelectorAll("td:not(.empty)")];
  const first = cells.find(one => one.row === view.best.row) || cells[0];
  if (first) first.tabIndex = 0;
  byId("heat-key").replaceChildren(
    html("span", { class: "ramp" }, points(least), html("i", {}), points(most)),
    html("span", {}, `${view.precision} model, ${view.vectors} vectors; ${view.measure}.`),
    limitsOf(view.budget).length ? html("span", {}, "Small: outside the budget.") : "");
}

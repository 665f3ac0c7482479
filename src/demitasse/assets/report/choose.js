// The choice of a row for a budget: the same as budget.py and Profile.front, to the last digit.

const PREFER = ["quality", "latency", "vectors", "model"];
const ORDER = ["latency", "vectors", "model", "speed", "quality"];
const COSTS = ["latency_ms", "texts_per_second", "vector_bytes", "model_mb"];
const LIMITS = [...COSTS, "quality"];
const AT_LEAST = ["texts_per_second", "quality"];
const AXES = ["quality", "latency", "speed", "vectors", "model"];
const VALUE = {
  latency_ms: row => row.p95_ms,
  texts_per_second: row => row.texts_per_second,
  vector_bytes: row => row.vector_bytes,
  model_mb: row => row.model_mb,
  quality: row => row.quality,
};
const LIMITED = { latency_ms: "latency", texts_per_second: "speed", vector_bytes: "vectors", model_mb: "model", quality: "latency" };
// The value of a row on an axis, such that lower is better.
const COST = {
  quality: row => -row.quality,
  latency: row => row.p95_ms,
  speed: row => -row.texts_per_second,
  vectors: row => row.vector_bytes,
  model: row => row.model_mb,
};

function limitsOf(budget) {
  return LIMITS.filter(limit => budget[limit] != null);
}

function preferred(budget) {
  return budget.prefer || (COSTS.some(limit => budget[limit] != null) ? "quality" : "latency");
}

// The value of a limit, with a share of the full model's quality turned into points.
function allowed(budget, limit, fullQuality) {
  const value = budget[limit];
  return limit === "quality" && value <= 1 ? value * fullQuality : value;
}

function excess(budget, row, limit, fullQuality) {
  const most = allowed(budget, limit, fullQuality), value = VALUE[limit](row);
  return Math.max(0, (AT_LEAST.includes(limit) ? most - value : value - most) / most);
}

function broken(budget, row, fullQuality) {
  return limitsOf(budget).filter(limit => excess(budget, row, limit, fullQuality) > 0);
}

// The best of the rows, and the limits it breaks: none, unless nothing fits; then it is the nearest row.
function choose(rows, budget, fullQuality) {
  const best = least(rows, row => {
    const beyond = broken(budget, row, fullQuality);
    let far = 0;
    for (const limit of beyond) far += excess(budget, row, limit, fullQuality);
    return [beyond.length, far, ...costs(row, preferred(budget))];
  });
  const beyond = broken(budget, best, fullQuality);
  if (preferred(budget) !== "latency" || beyond.length) return { row: best, broken: beyond };
  const fitting = rows.filter(row => !broken(budget, row, fullQuality).length);
  // Fewer layers are faster, even where noise hides it.
  const tied = asFast(asFast(fitting, row => row.p95_ms), row => row.p50_ms);
  const beaten = row => fitting.some(other => dominates(costs(other), costs(row)));
  const key = row => [parseInt(row.cut, 10), ...costs(row, "vectors", "model")];
  return { row: least(tied.filter(row => !beaten(row)), key) || best, broken: [] };
}

// The rows whose time differs from the shortest by less than the noise of the two.
function asFast(rows, time) {
  const fastest = least(rows, row => [time(row)]);
  return rows.filter(row => time(row) <= time(fastest) * (1 + Math.max(row.noise, fastest.noise)));
}

function dominates(ours, theirs) {
  return ours.every((cost, axis) => cost <= theirs[axis]) && ours.some((cost, axis) => cost < theirs[axis]);
}

// Whether a row costs less than another; a latency that is lower by less than the noise does not.
function costsLess(row, other, axis) {
  const noise = axis === "latency" ? Math.max(row.noise, other.noise) : 0;
  return COST[axis](row) * (1 + noise) < COST[axis](other);
}

// A limit that the row is within: rounded towards looser, so that it really fits.
function enough(budget, limit, row, fullQuality) {
  const value = VALUE[limit](row);
  if (limit === "latency_ms" || limit === "model_mb") return Math.ceil(100 * value) / 100;
  if (limit === "quality") return budget.quality <= 1 ? Math.floor((1000 * value) / fullQuality) / 1000 : Math.floor(10 * value) / 10;
  return limit === "texts_per_second" ? Math.floor(value) : value;
}

// The best of the rows that cost less, and the cheapest of those that are better; null if there is none.
function neighbours(rows, budget, best, fullQuality) {
  const axis = preferred(budget) === "quality" ? LIMITED[limitsOf(budget)[0] || "latency_ms"] : preferred(budget);
  const lifted = limit => limit === "quality" || LIMITED[limit] === axis;
  const open = rows.filter(row => broken(budget, row, fullQuality).every(lifted));
  return {
    cheaper: least(open.filter(row => costsLess(row, best, axis)), row => costs(row, "quality", axis)),
    better: least(open.filter(row => row.quality > best.quality), row => costs(row, axis, "quality")),
  };
}

// The costs on all axes, the first ones first: a sort key.
function costs(row, ...first) {
  return [...first, ...ORDER.filter(axis => !first.includes(axis))].map(axis => COST[axis](row));
}

// The first row with the smallest key; null if there are no rows.
function least(rows, key) {
  let best = null, low = null;
  for (const row of rows) {
    const here = key(row);
    if (best === null || before(here, low)) [best, low] = [row, here];
  }
  return best;
}

function before(a, b) {
  for (let place = 0; place < a.length; place++) if (a[place] !== b[place]) return a[place] < b[place];
  return false;
}

// The rows that no other row dominates on the axes.
function front(rows, axes = AXES) {
  const stands = rows.map(row => axes.map(axis => COST[axis](row)));
  return rows.filter((row, place) => !stands.some(theirs => dominates(theirs, stands[place])));
}

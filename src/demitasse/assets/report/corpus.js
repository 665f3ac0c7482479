// What embedding a corpus costs at each cut on the front: the same as corpus_cost.py.

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const HOUR = 3600;

// Nobody waits for a single text of a corpus, so the front is that of quality, speed and size of vectors.
function corpusCosts(rows, texts, price) {
  const stored = rows.filter(row => row.vectors === "int8");
  return front(stored.length ? stored : rows, ["quality", "speed", "vectors"])
    .sort((a, b) => b.texts_per_second - a.texts_per_second)
    .map(row => {
      const hours = texts / row.texts_per_second / HOUR;
      return { row, hours, vectors: texts * row.vector_bytes, index: texts * data.index_bytes[row.dims], money: price > 0 ? hours * price : null };
    });
}

function inBytes(count) {
  let size = count, unit = 0;
  while (size >= 1000 && unit + 1 < UNITS.length) [size, unit] = [size / 1000, unit + 1];
  return `${Number(size.toPrecision(3))} ${UNITS[unit]}`;
}
const inHours = hours => (hours >= 10 ? grouped(hours, 1) : String(Number(hours.toPrecision(2))));

function corpus() {
  const texts = Math.floor(Number(byId("corpus-texts").value)), price = Number(byId("corpus-price").value);
  const valid = texts >= 1 && Number.isFinite(texts);
  const costs = valid ? corpusCosts(view.rows, texts, price) : [];
  const heads = ["cut", "precision", "vectors", "quality", "texts/s", "hours", "vectors take", "index takes", ...(price > 0 ? ["price"] : [])];
  const line = ({ row, hours, vectors, index, money }) => html("tr", { class: row === view.best.row ? "best" : null },
    ...[row.cut, row.precision, row.vectors].map((text, place) => html("td", { class: place ? "word" : null }, text)),
    ...[points(row.quality), grouped(row.texts_per_second), inHours(hours), inBytes(vectors), inBytes(index), ...(money === null ? [] : [grouped(money, 2)])].map(text => html("td", {}, text)));
  byId("costs").replaceChildren(
    html("thead", {}, html("tr", {}, ...heads.map((text, place) => html("th", { scope: "col", class: place === 1 || place === 2 ? "word" : null }, text)))),
    html("tbody", {}, ...costs.map(line)));
  byId("corpus-note").textContent = valid
    ? `Hours of this machine for ${grouped(texts)} texts, at the rate of batches of ${data.profile.batch} of the texts that were timed. With texts of your own: demitasse plan profile.json --count ${texts} --sample texts.txt.`
    : "Type how many texts the corpus has, such as 1000000 or 1e9.";
}

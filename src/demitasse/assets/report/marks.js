// Small helpers for all parts of the page: elements, formatted numbers, marks.

const SVG = "http://www.w3.org/2000/svg";

function element(space, tag, attributes = {}, ...children) {
  const made = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter(child => child !== null));
  return made;
}
const html = (tag, attributes, ...children) => element(null, tag, attributes, ...children);
const svg = (tag, attributes, ...children) => element(SVG, tag, attributes, ...children);
const byId = id => document.getElementById(id);

const grouped = (value, digits = 0) =>
  value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
// Three significant figures.
const figures = value => {
  const digits = value > 0 ? Math.max(0, Math.min(3, 2 - Math.floor(Math.log10(value)))) : 0;
  return grouped(value, digits);
};
const plain = value => grouped(value, 3).replace(/\.?0+$/, "");
const points = value => value.toFixed(1);
const percent = value => `${(100 * value).toFixed(1)}%`;
const times = value => `${value >= 9.95 ? grouped(value) : value.toFixed(1)}×`;
const cleared = name => name.replace(/[/\\]+$/, "").split(/[/\\]/).pop() || name;
const shortened = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

// What is shown of a row and how; the chart and the answer use this.
const MEASURES = {
  quality: { label: "quality", unit: "", value: row => row.quality, said: points },
  latency: { label: "p95 latency", unit: " ms", value: row => row.p95_ms, said: figures, limit: "latency_ms" },
  speed: { label: "texts/s", unit: "", value: row => row.texts_per_second, said: figures, limit: "texts_per_second" },
  vectors: { label: "bytes per vector", unit: " B", value: row => row.vector_bytes, said: grouped, limit: "vector_bytes" },
  model: { label: "model", unit: " MB", value: row => row.model_mb, said: figures, limit: "model_mb" },
};

// A shape for each precision, so that they can be told apart without colour.
const SHAPES = {
  fp32: r => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0z`,
  fp16: r => `M0,${-1.3 * r}L${1.2 * r},${0.9 * r}H${-1.2 * r}z`,
  bf16: r => `M0,${1.3 * r}L${1.2 * r},${-0.9 * r}H${-1.2 * r}z`,
  int8: r => `M${-0.9 * r},${-0.9 * r}h${1.8 * r}v${1.8 * r}h${-1.8 * r}z`,
  other: r => `M0,${-1.45 * r}L${1.45 * r},0L0,${1.45 * r}L${-1.45 * r},0z`,
};

function mark(shape, size, place, attributes = {}) {
  return svg("path", { d: SHAPES[shape](size), transform: `translate(${place[0]},${place[1]})`, ...attributes });
}

function keyed(text, ...drawn) {
  return html("span", {}, svg("svg", { viewBox: "-6 -6 12 12", "aria-hidden": "true" }, ...drawn), text);
}

// One of several, as radio buttons that look like one bar.
function picker(box, name, choices, chosen, changed) {
  box.replaceChildren(
    ...choices.map(([value, label]) =>
      html("label", {},
        html("input", { type: "radio", name, value, checked: value === chosen ? "" : null, onchange: () => changed(value) }),
        html("span", {}, label)))
  );
}
function pick(box, value) {
  for (const input of box.querySelectorAll("input")) input.checked = input.value === value;
}

async function copy(button, text) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copiedByHand(text);
  }
  const label = button.dataset.label || (button.dataset.label = button.textContent);
  button.textContent = done ? "Copied" : "Select it by hand";
  setTimeout(() => { button.textContent = label; }, 1600);
}
// For browsers that do not let a page opened from a file use the clipboard.
function copiedByHand(text) {
  const area = html("textarea", { style: "position:fixed;opacity:0" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

// The box beside the pointer; screen readers read it too, since it is a status.
const tip = {
  show(content, x, y) {
    const box = byId("tip");
    box.replaceChildren(...content);
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect(), gap = 14;
    const right = x + gap + width + 8 <= innerWidth;
    const left = right ? x + gap : Math.max(8, Math.min(x - gap - width, innerWidth - width - 8));
    const below = y + gap + height + 8 <= innerHeight;
    box.style.left = `${left}px`;
    box.style.top = `${below ? y + gap : Math.max(8, y - gap - height)}px`;
  },
  hide() { byId("tip").hidden = true; },
};

// The marks of the figures, what is shown of a row, and the box beside the pointer.

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

"use strict";
// Small helpers for all pages: elements, formatted numbers, one of several, copying.

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
// For browsers that do not let a page from a file, or from plain HTTP, use the clipboard.
function copiedByHand(text) {
  const area = html("textarea", {});
  area.style.cssText = "position:fixed;opacity:0"; // as an attribute, a page that allows no inline styles would drop it
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

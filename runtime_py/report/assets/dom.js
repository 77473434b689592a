// Elements, numbers as text, and moving among the parts of a drawing by keyboard. Text only ever enters as text nodes.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

function decimals(value, digits) {
  return Math.max(0, digits - String(Math.trunc(Math.abs(value))).length);
}

function number(value, digits = 3) {
  if (value === 0) return "0";
  const places = decimals(value, digits);
  return value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
}

const TIMES = [["s", 1e6], ["ms", 1e3], ["µs", 1], ["ns", 1e-3]];

// Microseconds as text; `like` sets the unit, so that a column has one.
function time(us, like = us, digits = 3) {
  const [unit, size] = TIMES.find(([, least]) => Math.abs(like) >= least) || TIMES[2];
  return `${number(us / size, digits)} ${unit}`;
}

// A sum of times: 0 is nothing but rows that the clock could not see.
const spent = (us) => us ? time(us) : "too short";

function bytes(count) {
  const units = ["B", "kB", "MB", "GB"];
  let at = 0;
  while (count >= 1000 && at < 3) { count /= 1000; at += 1; }
  return `${at === 0 ? count : number(count)} ${units[at]}`;
}

function percent(share) {
  if (share === null) return "";
  return share > 0 && share < 0.0005 ? "<0.1 %" : `${(100 * share).toFixed(1)} %`;
}

const plural = (count, noun) => `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;

// As much of a text as fits: about 6.6 px a letter at 12 px.
function clip(text, width) {
  const letters = Math.floor(width / 6.6);
  if (text.length <= letters) return text;
  return letters < 3 ? "" : `${text.slice(0, letters - 1)}…`;
}

// The parts of a drawing: one stop of the tab key, arrows move inside. Listeners stand on the drawing, as it can have
// thousands of parts. `next(index, key)` gives the index to go to; `enter` is told of focus and pointer, `open` of a
// click and of Enter, `key` of other keys.
function wire(drawing, nodes, { next, enter, open = () => {}, leave = () => {}, key = () => false, start = 0 }) {
  const places = new Map(nodes.map((node, index) => [node, index]));
  const placeOf = (event) => places.get(event.target.closest("[tabindex]"));
  let current = Math.max(0, Math.min(start, nodes.length - 1));
  nodes.forEach((node, index) => node.setAttribute("tabindex", index === current ? 0 : -1));
  drawing.addEventListener("focusin", (event) => {
    const index = placeOf(event);
    if (index === undefined) return;
    nodes[current].setAttribute("tabindex", -1);
    nodes[index].setAttribute("tabindex", 0);
    current = index;
    enter(index);
  });
  drawing.addEventListener("mouseover", (event) => { const index = placeOf(event); if (index !== undefined) enter(index); });
  drawing.addEventListener("mouseleave", () => leave());
  drawing.addEventListener("click", (event) => { const index = placeOf(event); if (index !== undefined) open(index, false); });
  drawing.addEventListener("keydown", (event) => {
    const index = placeOf(event);
    if (index === undefined) return;
    const target = next(index, event.key);
    if (nodes[target]) nodes[target].focus();
    else if (event.key === "Enter" || event.key === " ") open(index, true);
    else if (!key(index, event.key)) return;
    event.preventDefault();
  });
}

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 20, PageUp: -20 };
const inOrder = (count) => (index, key) => {
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  return key in STEPS ? Math.max(0, Math.min(count - 1, index + STEPS[key])) : undefined;
};

// Calls draw(width) with the next frame and whenever the width changes; a hidden element has none and waits. Nothing
// asks for a width earlier: that would lay out the whole page once for each drawing.
function whenSized(element, draw) {
  let last = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width > 0 && width !== last) { last = width; draw(width); }
  }).observe(element);
}

// Start: the theme, the first profile, the others when their tab is opened, and the links between the views.

const reports = JSON.parse(document.getElementById("data").textContent);
const panels = [...document.querySelectorAll(".panel")];
const filters = [];

// The charts below the table are drawn one at a time once the page can be used; printing does not wait for them.
let waiting = [];
function later(name, draw, part) {
  if (part(name)) waiting.push(draw);
}
function drawNext() {
  const draw = waiting.shift();
  if (draw) draw();
  if (waiting.length) setTimeout(drawNext);
  // Drawings appear with the next frame; a page in the background has none and is ready when it comes up.
  else requestAnimationFrame(() => setTimeout(() => { document.documentElement.dataset.ready = "all"; }));
}
window.addEventListener("beforeprint", () => { while (waiting.length) drawNext(); });

function show(index) {
  panels.forEach((panel, at) => { panel.hidden = at !== index; });
  document.querySelectorAll(".bar nav a").forEach((link) => {
    const name = link.dataset.section;
    if (name !== "summary") link.href = `#${name}-${index}`;
  });
  if (filters[index] === undefined) start(index);
}

function start(index) {
  const panel = panels[index], report = reports[index], rows = readRows(report);
  const part = (name) => panel.querySelector(`[data-part="${name}"]`);
  filters[index] = part("operators") ? makeOperators(part("operators"), report, rows) : () => {};
  const filter = (text, kind) => filters[index](text, kind);
  later("modules", () => makeModules(part("modules"), report, rows, filter), part);
  later("roofline", () => makeRoofline(part("roofline"), report, rows, filter), part);
  later("arena", () => makeArena(part("arena"), report, rows), part);
  panel.addEventListener("click", (event) => {
    const button = event.target.closest("[data-filter]");
    if (button) filter(button.dataset.filter, button.dataset.kind);
  });
  document.documentElement.dataset.ready = "table";
  setTimeout(drawNext);
}

document.querySelectorAll('[data-chart="latency"]').forEach((chart) => drawLatency(chart, reports[chart.dataset.report].latency));
const tabs = [...document.querySelectorAll('[role="tab"]')];
const strips = document.querySelector('[data-chart="strips"]');
if (strips) drawStrips(strips, reports, tabs.map((tab) => tab.textContent));

function pick(index) {
  tabs.forEach((tab, at) => {
    tab.setAttribute("aria-selected", String(at === index));
    tab.setAttribute("tabindex", at === index ? 0 : -1);
  });
  show(index);
}
tabs.forEach((tab, index) => {
  tab.addEventListener("click", () => pick(index));
  tab.addEventListener("keydown", (event) => {
    const to = { ArrowRight: (index + 1) % tabs.length, ArrowLeft: (index + tabs.length - 1) % tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    pick(to);
    tabs[to].focus();
  });
});

const theme = document.getElementById("theme"), system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
function paint() {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
}
// A page opened from a file may have no storage: the choice then lasts as long as the page.
function remember(value) {
  try {
    if (value === undefined) return localStorage.getItem("edgex-theme");
    localStorage.setItem("edgex-theme", value);
  } catch (refused) { /* not remembered */ }
  return null;
}
const chosen = remember();
if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  remember(document.documentElement.dataset.theme);
  paint();
});
system.addEventListener("change", paint);
theme.hidden = false;
paint();
show(0);

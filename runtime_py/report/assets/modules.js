// The modules as an icicle: a module stands over its submodules and, last, its own operators; as wide as its time.

const ROW = 26;

// [name, total, own, rows, submodules] as linked objects.
function readModules(report, rows) {
  const grow = ([name, total, own, at, children], parent, path) => {
    const node = { name, total, own, parent, path, children: [], outside: 0, count: at.length };
    node.children = children.map((child) => grow(child, node, path === null ? child[0] : `${path}.${child[0]}`));
    const leaves = at.map((index) => ({ row: rows[index], name: rows[index].type, total: rows[index].us || 0, parent: node, children: [],
      outside: rows[index].kind === "fallback" ? rows[index].us || 0 : 0, count: 1 }));
    node.modules = node.children;
    node.children = [...node.children, ...leaves];
    node.count = leaves.length + node.modules.reduce((sum, child) => sum + child.count, 0);
    node.outside = node.children.reduce((sum, child) => sum + child.outside, 0);
    return node;
  };
  const root = grow(report.modules, null, null);
  root.name = report.name;
  return root;
}

function makeModules(container, report, rows, filter) {
  const root = readModules(report, rows);
  const unknown = report.unmapped.reduce((sum, at) => sum + (rows[at].us || 0), 0);
  let zoom = root, focused = null, width = 0;
  const chart = h("div", { class: "chart" });
  const crumbs = h("div", { class: "crumbs" });
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  const table = makeTable("What the chosen module holds", [
    { title: "Inside", value: (node) => node.name,
      cell: (node) => node.row ? node.name : h("button", { type: "button", class: "link", onclick: () => go(node) }, node.name) },
    { title: "Operators", numeric: true, wide: true, value: (node) => node.count, cell: (node) => node.count.toLocaleString("en-US") },
    { title: "Total", numeric: true, value: (node) => node.total, cell: (node) => timeOf(node) },
    { title: "Self", numeric: true, value: (node) => node.row ? null : node.own, cell: (node) => node.row || !node.own ? "" : time(node.own) },
    { title: "Outside the delegate", numeric: true, wide: true, value: (node) => node.outside || null, cell: (node) => node.outside ? time(node.outside) : "" },
    { title: "Share", numeric: true, value: (node) => node.total, cell: (node) => portion(zoom.total ? node.total / zoom.total : 0, node.row ? node.row.kind : "compute", report.total ? node.total / report.total : 0) },
  ], { sort: 2 });

  const timeOf = (node) => node.row ? timeText(report, node.row.us) : spent(node.total);
  const label = (node) => node.row
    ? `${node.name}${node.row.module ? ` in ${node.row.module}` : ""}` : (node.path === null ? node.name : node.path);
  function describe(node) {
    focused = node;
    const parts = [h("b", {}, label(node)), ` ${timeOf(node)}, ${percent(report.total ? node.total / report.total : 0)} of the run`];
    if (!node.row) parts.push(h("span", {}, `  · ${plural(node.count, "operator")} · self ${node.own ? time(node.own) : "none"}`));
    if (node.row && node.row.source) parts.push(h("span", {}, `  · ${node.row.source}`));
    if (node.outside) parts.push(h("span", {}, `  · ${time(node.outside)} outside ${report.delegate || "any delegate"}`));
    readout.replaceChildren(...parts);
  }

  function go(node, refocus = false) {
    zoom = node;
    const path = [];
    for (let at = node; at; at = at.parent) path.unshift(at);
    crumbs.replaceChildren(...path.map((at) => h("button", { type: "button", class: "link", onclick: () => go(at) }, at.name)),
      h("button", { type: "button", class: "quiet", style: "margin-left:auto", onclick: () => filter(node.path || "") }, "Show its operators"));
    table.show(node.children);
    describe(node);
    draw(refocus);
  }

  // Where everything that is wide enough to see stands: [node, x, width, level].
  function place() {
    const placed = [], up = [];
    for (let at = zoom.parent; at; at = at.parent) up.unshift(at);
    up.forEach((node, level) => placed.push({ node, x: 0, width, level, up: true }));
    const whole = zoom === root ? root.total + unknown : zoom.total;
    const visit = (node, x, level) => {
      const span = whole ? node.total / whole * width : width;
      if (span < 1) return;
      placed.push({ node, x, width: span, level });
      for (const child of node.children) { visit(child, x, level + 1); x += whole ? child.total / whole * width : 0; }
    };
    visit(zoom, 0, up.length);
    if (zoom === root && unknown) {
      const name = report.unmapped.every((at) => rows[at].kind === "overhead" || !rows[at].us) ? "between operators" : "not traced to a module";
      const node = { name, total: unknown, own: unknown, path: name, children: [], modules: [], outside: 0, count: report.unmapped.length, parent: null, unknown: true };
      const x = root.total / whole * width;
      if (width - x >= 1.5) placed.push({ node, x, width: width - x, level: 0 });
    }
    return placed;
  }

  function draw(refocus) {
    if (!width) return;
    const placed = place(), depth = 1 + Math.max(...placed.map((entry) => entry.level));
    const nodes = placed.map(({ node, x, width: span, level, up }) => {
      const kind = node.row ? `op k-${node.row.kind}` : node.unknown ? "unknown" : `m${level % 2 ? " odd" : ""}${up ? " up" : ""}`;
      const thin = span < 4 ? " thin" : "";
      const group = s("g", { class: `node ${kind}${thin}`, role: "treeitem", "aria-level": level + 1, transform: `translate(${x.toFixed(2)} ${level * ROW})`,
        "aria-label": `${label(node)}: ${timeOf(node)}, ${percent(report.total ? node.total / report.total : 0)}` },
        s("rect", { class: "base", width: Math.max(0.5, span), height: ROW - 1, rx: 2 }),
        !node.row && node.outside && span > 3 ? s("rect", { class: "k-fallback", y: ROW - 4, height: 3, width: Math.max(1, node.outside / node.total * span) }) : null,
        span < 26 ? null : s("text", { x: 6, y: 17 }, clip(node.name, span - 10)));
      return group;
    });
    const index = new Map(placed.map((entry, at) => [entry.node, at]));
    const next = (at, key) => {
      const { node, level } = placed[at];
      if (key === "ArrowUp") return index.get(node.parent);
      if (key === "ArrowDown") {
        const seen = node.children.filter((child) => index.has(child)).sort((a, b) => b.total - a.total);
        return seen.length ? index.get(seen[0]) : undefined;
      }
      if (key === "ArrowLeft" || key === "ArrowRight") {
        const row = placed.map((entry, place) => [entry, place]).filter(([entry]) => entry.level === level).sort(([a], [b]) => a.x - b.x);
        const here = row.findIndex(([, place]) => place === at);
        return (row[here + (key === "ArrowRight" ? 1 : -1)] || [])[1];
      }
      return key === "Home" ? index.get(zoom) : undefined;
    };
    const height = depth * ROW, start = index.get(focused) ?? index.get(zoom);
    const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "tree",
      "aria-label": "Modules by time. Arrows move, Enter zooms in, Escape zooms out." }, nodes);
    wire(svg, nodes, { next, start, enter: (at) => describe(placed[at].node), open: (at, byKey) => open(placed[at].node, byKey),
      key: (at, key) => { if (key !== "Escape" || !zoom.parent) return false; go(zoom.parent, true); return true; } });
    chart.replaceChildren(svg);
    if (refocus) nodes[start].focus();
  }

  function open(node, refocus = false) {
    if (node.unknown) return;
    if (node.row) filter(node.row.name);
    else go(node === zoom && node.parent ? node.parent : node, refocus);
  }

  container.append(h("p", { class: "lead" }, "As wide as their time, submodules and operators below their module. Choose one to zoom in; the orange edge is its part outside the delegate."
    + (report.unmapped_text ? ` ${report.unmapped_text}` : "")),
    crumbs, chart, readout, table.element);
  whenSized(chart, (size) => { width = size; draw(false); });
  go(root);
}

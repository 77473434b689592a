// The operators as a table: filtered by words, kind and delegate, one by one or by type.

const KINDS = ["compute", "fallback", "layout", "cast", "overhead"];

// Rows as objects, from the columns of the data.
function readRows(report) {
  const text = (name, at) => { const index = report.texts[name][at]; return index < 0 ? null : report.strings[index]; };
  return report.us.map((us, at) => {
    const row = { at, us, share: us === null || !report.total ? null : us / report.total, kind: KINDS[report.kind[at]],
      count: report.count[at], flops: report.flops[at], bytes: report.bytes[at], gflops: report.gflops[at],
      gbps: report.gbps[at], roof: report.roof[at] };
    for (const name of Object.keys(report.texts)) row[name] = text(name, at);
    row.words = [row.name, row.type, row.modules, row.sources, row.operators, row.delegate].join(" ").toLowerCase();
    return row;
  });
}

const kindLabel = (report, kind) => kind === "fallback" ? `outside ${report.delegate || "any delegate"}` : kind === "overhead" ? "between operators" : kind;

// The part of the machine's ceiling that an operator reaches; what it computes in may have none.
function ceilingText(report, row) {
  if (!report.ceilings || !row.flops || !row.computes) return null;
  const rate = report.ceilings.gflops[row.computes];
  if (rate === undefined) return `no ceiling measured for ${row.computes}`;
  return row.roof === null ? null : `${(100 * row.roof).toFixed(0)} % of the ceilings (${row.computes}: ${number(rate)} GFLOP/s)`;
}
// A row without a time is one that the engine's clock could not see.
const timeText = (report, us) => us !== null ? time(us) : report.resolution ? `< ${time(report.resolution, report.resolution, 1)}` : "unknown";

function describeRow(report, row) {
  const pairs = [
    ["name", row.name], ["ATen operators", row.operators], ["ran on", row.delegate],
    ["kind", kindLabel(report, row.kind)], ["modules", row.modules], ["source", row.sources],
    ["traced by", { exact: "the engine's own identifier", aligned: "aligning the delegate's graph with its events",
      delegate: "the delegate only: the module is not known", none: "nothing: the place is not known" }[row.confidence]],
    ["runs per inference", String(row.count)], ["inputs and weights", row.inputs], ["outputs", row.outputs],
    ["operations", row.flops === null ? null : row.flops.toLocaleString("en-US")],
    ["least bytes moved", row.bytes === null ? null : bytes(row.bytes)],
    ["computes in", row.computes], ["reaches", ceilingText(report, row)],
    ["bandwidth", row.gbps === null ? null : `${number(row.gbps)} GB/s`],
    ["position in the run", `${row.at + 1} of ${report.us.length}`]];
  return h("dl", {}, pairs.filter(([, value]) => value !== null && value !== "").map(([name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

// Three rows or more of one type, module, line and kind as one: a recurrence has an operator of each kind a step.
function joinAlike(rows) {
  const groups = new Map();
  for (const row of rows) {
    const key = [row.type, row.module, row.source, row.kind, row.delegate, row.confidence].join("\n");
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  const sum = (values) => values.some((value) => value === null) ? null : values.reduce((all, value) => all + value, 0);
  const join = (alike) => {
    const us = alike.some((row) => row.us !== null) ? alike.reduce((all, row) => all + (row.us || 0), 0) : null;
    const rated = alike.every((row) => row.gflops !== null && row.us !== null);
    return { ...alike[0], alike, us, share: us === null ? null : alike.reduce((all, row) => all + (row.share || 0), 0),
      flops: sum(alike.map((row) => row.flops)), gflops: rated ? sum(alike.map((row) => row.flops)) / us / 1e3 : null, roof: null };
  };
  return [...groups.values()].flatMap((alike) => alike.length < 3 ? alike : [join(alike)]);
}

function describeAlike(report, row) {
  const all = [...row.alike].sort((a, b) => (b.us || 0) - (a.us || 0)), shown = all.slice(0, 24);
  return h("dl", {}, shown.map((one) => h("div", {}, h("dt", {}, one.name), h("dd", {}, timeText(report, one.us)))),
    all.length > shown.length ? h("div", {}, h("dt", {}, `${all.length - shown.length} more`), h("dd", {}, "One by one shows them")) : null);
}

function makeOperators(container, report, rows) {
  const most = Math.max(...rows.map((row) => row.share || 0), 1e-9);
  const kind = h("select", { class: "field", "aria-label": "Kind of work" }, h("option", { value: "" }, "every kind"),
    KINDS.filter((name) => rows.some((row) => row.kind === name)).map((name) => h("option", { value: name }, kindLabel(report, name))));
  const delegates = [...new Set(rows.map((row) => row.delegate))];
  const delegate = h("select", { class: "field", "aria-label": "Who ran it" }, h("option", { value: "" }, "every delegate"),
    delegates.map((name) => h("option", { value: name }, name)));
  const words = h("input", { class: "field", type: "search", placeholder: "Filter: conv, layers.0, model.py:31 …",
    "aria-label": "Filter operators by name, module, source line or delegate" });
  const found = h("p", { class: "found", role: "status" });

  const single = makeTable("Operators of one run", [
    { title: "Operator", value: (row) => row.type, cell: (row) => [row.alike ? `${row.type} · ${row.alike.length} alike` : row.count > 1 ? `${row.type} × ${row.count}` : row.type,
      h("small", { class: "narrow" }, [row.module || null, row.source].filter(Boolean).join(" · "))] },
    { title: "Module", wide: true, value: (row) => row.module,
      cell: (row) => row.module === null ? h("span", { class: "fine" }, row.kind === "compute" || row.kind === "fallback" ? "unknown" : "") : h("code", {}, row.module || "(the model itself)") },
    { title: "Source", wide: true, tight: true, value: (row) => row.source, cell: (row) => row.source === null ? "" : h("code", {}, row.source) },
    { title: "Kind", wide: true, value: (row) => row.kind, cell: (row) => h("span", { class: "kind" }, h("i", { class: `swatch k-${row.kind}` }), row.kind === "fallback" ? "outside" : row.kind === "overhead" ? "between" : row.kind) },
    { title: "Time", numeric: true, value: (row) => row.us, cell: (row) => timeText(report, row.us) },
    { title: "Share", numeric: true, wide: true, value: (row) => row.share, cell: (row) => row.share === null ? "" : portion(row.share / most, row.kind, row.share) },
    { title: "GFLOP/s", numeric: true, wide: true, value: (row) => row.gflops, cell: (row) => row.gflops === null ? "" : number(row.gflops) },
    { title: "Of ceiling", numeric: true, value: (row) => row.roof, cell: (row) => row.roof === null ? "" : row.roof < 0.005 ? "<1 %" : `${(100 * row.roof).toFixed(0)} %` },
  ], { sort: 4, detail: (row) => row.alike ? describeAlike(report, row) : describeRow(report, row) });

  const grouped = makeTable("Types of operators", [
    { title: "Type", value: (group) => group.type, cell: (group) => group.type },
    { title: "Ran on", wide: true, value: (group) => group.delegate, cell: (group) => group.delegate },
    { title: "Operators", numeric: true, value: (group) => group.rows.length, cell: (group) => group.rows.length.toLocaleString("en-US") },
    { title: "Time", numeric: true, value: (group) => group.us, cell: (group) => spent(group.us) },
    { title: "Share", numeric: true, value: (group) => group.share, cell: (group) => portion(group.share, group.kind, group.share) },
  ], { sort: 3 });

  const ways = ["Grouped", "One by one", "By type"].map((name) =>
    h("button", { type: "button", onclick: () => choose(name) }, name));
  const holder = h("div");
  let way = "Grouped";

  function choose(name) {
    way = name;
    for (const button of ways) button.setAttribute("aria-pressed", String(button.textContent === way));
    update();
  }

  function update() {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = rows.filter((row) => wanted.every((word) => row.words.includes(word))
      && (!kind.value || row.kind === kind.value) && (!delegate.value || row.delegate === delegate.value));
    const total = kept.reduce((sum, row) => sum + (row.us || 0), 0);
    found.textContent = `${kept.length === rows.length ? "" : `${kept.length.toLocaleString("en-US")} of `}${plural(rows.length, "operator")}`
      + ` · ${kept.length ? spent(total) : "nothing"} · ${percent(report.total ? total / report.total : 0)}`;
    if (way === "By type") {
      const groups = new Map();
      for (const row of kept) {
        const key = `${row.type}\n${row.delegate}`;
        if (!groups.has(key)) groups.set(key, { type: row.type, delegate: row.delegate, kind: row.kind, rows: [], us: 0 });
        const group = groups.get(key);
        group.rows.push(row);
        group.us += row.us || 0;
      }
      grouped.show([...groups.values()].map((group) => ({ ...group, share: report.total ? group.us / report.total : 0 })));
    } else single.show(way === "Grouped" ? joinAlike(kept) : kept);
    holder.replaceChildren(way === "By type" ? grouped.element : single.element);
  }

  words.addEventListener("input", update);
  kind.addEventListener("change", update);
  delegate.addEventListener("change", update);
  container.append(h("div", { class: "controls" }, words, kind, delegates.length > 1 ? delegate : null,
    h("span", { class: "segment", role: "group", "aria-label": "Show" }, ways)), found, holder);
  choose("Grouped");

  return (text, kindName = "") => {
    words.value = text;
    kind.value = kindName;
    delegate.value = "";
    choose("One by one");
    container.closest("section").scrollIntoView();
    words.focus({ preventScroll: true });
  };
}

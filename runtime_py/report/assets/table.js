// A table that sorts by its headers, shows the first rows, and opens details below a row.

const FIRST_ROWS = 30, MANY_ROWS = 60;

// columns: {title, numeric, wide, value(row), cell(row)}; null values stand last whichever way it is sorted.
function makeTable(caption, columns, { sort = 0, descending = true, detail = null } = {}) {
  let rows = [], all = false, by = sort, down = descending;
  const body = h("tbody");
  const heads = columns.map((column, index) => h("th",
    { scope: "col", class: [column.numeric ? "n" : "", column.wide ? "wide" : ""].join(" ").trim() || null },
    h("button", { type: "button", onclick: () => {
      down = by === index ? !down : Boolean(column.numeric);
      by = index;
      draw();
    } }, column.title)));
  const more = h("button", { type: "button", class: "quiet more", onclick: () => { all = true; draw(); } });
  const table = h("table", { class: "grid" }, h("caption", { class: "visually-hidden" }, caption),
    h("thead", {}, h("tr", {}, heads)), body);

  function compare(a, b) {
    const x = columns[by].value(a), y = columns[by].value(b);
    if (x === y) return 0;
    if (x === null) return 1;
    if (y === null) return -1;
    const order = typeof x === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return down ? -order : order;
  }

  function drawRow(row) {
    const cells = columns.map((column) => h("td",
      { class: [column.numeric ? "n" : "", column.wide ? "wide" : "", column.tight ? "tight" : ""].join(" ").trim() || null },
      column.cell(row)));
    const line = h("tr", {}, cells);
    if (detail === null) return line;
    const opener = h("button", { type: "button", class: "opens", "aria-expanded": "false" }, ...cells[0].childNodes);
    opener.addEventListener("click", () => {
      const open = opener.getAttribute("aria-expanded") === "true";
      opener.setAttribute("aria-expanded", String(!open));
      if (open) line.nextSibling.remove();
      else line.after(h("tr", { class: "detail" }, h("td", { colspan: columns.length }, detail(row))));
    });
    cells[0].replaceChildren(opener);
    return line;
  }

  function draw() {
    heads.forEach((head, index) => {
      if (index === by) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const sorted = [...rows].sort(compare);
    const limit = all || sorted.length <= MANY_ROWS ? sorted.length : FIRST_ROWS;
    body.replaceChildren(...sorted.slice(0, limit).map(drawRow));
    more.hidden = sorted.length <= limit;
    more.textContent = `Show all ${sorted.length.toLocaleString("en-US")}`;
  }

  return {
    element: h("div", {}, h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: 0 }, table), more),
    show(these) { rows = these; draw(); },
  };
}

// A bar and its figure; figures are equally wide, so that bars stand below each other.
const portion = (width, kind, share) => [meter(width, kind), h("span", { class: "portion" }, percent(share))];

const meter = (share, kind) => h("span", { class: "meter", "aria-hidden": "true" },
  h("i", { class: `k-${kind}`, style: `width:${(100 * share).toFixed(2)}%` }));

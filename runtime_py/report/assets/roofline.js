// Operators against the ceilings of the machine, on logarithmic axes: operations a byte across, operations a second up.

function makeRoofline(container, report, rows, filter) {
  const ceilings = report.ceilings;
  const points = rows.filter((row) => row.flops && row.bytes && row.us && row.gflops)
    .map((row) => ({ row, intensity: row.flops / row.bytes })).sort((a, b) => a.intensity - b.intensity || b.row.us - a.row.us);
  const covered = points.reduce((sum, { row }) => sum + row.us, 0);
  const over = points.filter(({ row }) => row.roof !== null && row.roof > 1);
  container.append(h("p", { class: "lead" }, `Each circle is an operator, or several alike, as large as its time; the lines are what this machine did at best with ${plural(ceilings.threads, "thread")}: the slope in moving bytes, the flat ones in computing with a type of number. `
    + `${points.length.toLocaleString("en-US")} of ${plural(rows.length, "operator")}, ${percent(report.total ? covered / report.total : 0)} of the time, have all figures.`));
  if (over.length) container.append(h("p", { class: "note" }, `${plural(over.length, "operator")} above a ceiling: the ceiling was measured too low or the count of operations is wrong. Do not use these fractions.`));
  const bare = [...new Set(points.map(({ row }) => row.computes))].filter((dtype) => dtype && !(dtype in ceilings.gflops));
  if (bare.length) container.append(h("p", { class: "note" }, `No ceiling was measured for ${bare.join(", ")}: its operators stand beside the lines of other types.`));
  if (!points.length) return;
  const chart = h("div", { class: "chart" });
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  container.append(chart, readout);
  const dtypes = new Set(points.map(({ row }) => row.computes)), known = Object.entries(ceilings.gflops);
  const own = known.filter(([dtype]) => dtypes.has(dtype)), peaks = own.length ? own : known;
  const topRate = Math.max(...peaks.map(([, rate]) => rate), ...points.map(({ row }) => row.gflops));
  const log = Math.log10, best = Math.max(...peaks.map(([, rate]) => rate)), ridge = best / ceilings.gbps;
  const xs = [Math.floor(log(points[0].intensity)), Math.ceil(log(Math.max(points[points.length - 1].intensity, ridge * 1.5)))];
  const ys = [Math.floor(log(Math.min(...points.map(({ row }) => row.gflops), ...peaks.map(([, rate]) => rate)))), log(topRate) + 0.2];
  const least = Math.min(...points.map(({ row }) => row.us)), greatest = Math.max(...points.map(({ row }) => row.us));

  function describe({ row, intensity, more }) {
    readout.replaceChildren(h("b", {}, row.type), ` ${time(row.us)}`, h("span", {},
      `${row.module ? `  · ${row.module}` : ""}${row.source ? `  · ${row.source}` : ""}`
      + `  · ${number(row.gflops)} GFLOP/s at ${number(intensity)} operations a byte`
      + (ceilingText(report, row) === null ? "" : `  · ${ceilingText(report, row)}`)
      + (more ? `  · ${plural(more, "shorter one")} at the same place` : "")));
  }

  whenSized(chart, (width) => {
    const height = Math.min(440, Math.max(280, width * 0.5)), left = 52, right = width - 12, top = 14, floor = height - 44;
    const x = (value) => left + (log(value) - xs[0]) / (xs[1] - xs[0]) * (right - left);
    const y = (value) => floor - (log(value) - ys[0]) / (ys[1] - ys[0]) * (floor - top);
    const powers = (low, high) => Array.from({ length: Math.floor(high) - Math.ceil(low) + 1 }, (_, at) => Math.ceil(low) + at);
    const plain = (power) => power < 0 ? (10 ** power).toFixed(-power) : (10 ** power).toLocaleString("en-US");
    const grid = [
      ...powers(...xs).map((p) => s("g", {}, s("line", { class: "axis", x1: x(10 ** p), x2: x(10 ** p), y1: top, y2: floor }),
        s("text", { x: x(10 ** p), y: floor + 18, "text-anchor": "middle" }, plain(p)))),
      ...powers(...ys).map((p) => s("g", {}, s("line", { class: "axis", x1: left, x2: right, y1: y(10 ** p), y2: y(10 ** p) }),
        s("text", { x: left - 8, y: y(10 ** p) + 4, "text-anchor": "end" }, plain(p))))];
    // The slope starts where it enters the drawing, from the left or from below.
    const enter = Math.max(10 ** xs[0], 10 ** ys[0] / ceilings.gbps);
    const angle = -Math.atan2(y(ceilings.gbps * enter) - y(ceilings.gbps * enter * 10), x(enter * 10) - x(enter)) * 180 / Math.PI;
    const along = Math.sqrt(enter * ridge);
    const roofs = [
      s("path", { class: "roof", d: `M${x(enter)} ${y(ceilings.gbps * enter)}L${x(ridge)} ${y(best)}` }),
      s("text", { transform: `translate(${x(along)} ${y(ceilings.gbps * along) - 8}) rotate(${angle})`, "text-anchor": "middle" }, `${number(ceilings.gbps)} GB/s`),
      ...peaks.flatMap(([dtype, rate]) => [
        s("path", { class: "roof", d: `M${x(Math.max(rate / ceilings.gbps, 10 ** xs[0]))} ${y(rate)}H${right}` }),
        s("text", { x: right, y: y(rate) - 7, "text-anchor": "end" }, clip(`${dtype} ${number(rate)} GFLOP/s`, right - left))])];
    const radius = (us) => 2.5 + 8.5 * Math.sqrt(greatest > least ? (us - least) / (greatest - least) : 1);
    // Circles that would cover each other become one, that of the longest: a large model repeats its operators.
    const places = new Map();
    for (const point of points) {
      const key = `${Math.round(x(point.intensity) / 3)} ${Math.round(y(point.row.gflops) / 3)} ${point.row.kind}`;
      const there = places.get(key);
      const longest = there && there.row.us >= point.row.us ? there : point;
      places.set(key, { ...longest, more: there ? there.more + 1 : 0 });
    }
    const drawn = [...places.values()];
    const dots = drawn.map((point) => s("circle", { class: `dot k-${point.row.kind}`, role: "img", cx: x(point.intensity).toFixed(1), cy: y(point.row.gflops).toFixed(1),
      r: radius(point.row.us).toFixed(1), "aria-label": `${point.row.type}: ${number(point.row.gflops)} GFLOP/s at ${number(point.intensity)} operations a byte` }));
    const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": "Roofline. Arrows move from operator to operator." },
      grid, roofs, dots,
      s("text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, "operations a byte"),
      s("text", { transform: `translate(12 ${(top + floor) / 2}) rotate(-90)`, "text-anchor": "middle" }, "GFLOP/s"));
    wire(svg, dots, { next: inOrder(dots.length), enter: (at) => describe(drawn[at]), open: (at) => filter(drawn[at].row.name) });
    chart.replaceChildren(svg);
  });
  describe(points.reduce((longest, point) => point.row.us > longest.row.us ? point : longest));
}

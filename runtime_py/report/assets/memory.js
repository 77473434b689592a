// The planned arena: values where they lie, for as long as they are kept, and the bytes in use along the run.

function makeArena(container, report, rows) {
  const { spans, live } = report.arena;
  const extent = Math.max(...spans.map(([, offset, size]) => offset + size)), steps = live.length;
  const peak = live.indexOf(Math.max(...live));
  const chart = h("div", { class: "chart" });
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  container.append(h("p", { class: "lead" }, "Operators from left to right, addresses upwards. The line is what is in use at the same time: where it is low, the plan has room."), chart, readout);
  const near = (at) => rows[at] ? ` at ${rows[at].type}${rows[at].module ? ` in ${rows[at].module}` : ""}` : "";
  const rest = () => readout.replaceChildren(h("b", {}, `${bytes(live[peak])} in use`), ` at operator ${peak + 1} of ${steps}`, h("span", {}, near(peak).replace(" at ", "  · ")));
  function describe([name, offset, size, first, last]) {
    readout.replaceChildren(h("b", {}, report.strings[name]), ` ${bytes(size)} from address ${offset.toLocaleString("en-US")}`,
      h("span", {}, `  · kept for operators ${first + 1} to ${last + 1}${near(first)}`));
  }

  whenSized(chart, (width) => {
    const height = 240, left = 64, right = width - 8, top = 10, floor = height - 30;
    const x = (at) => left + at / steps * (right - left), y = (size) => floor - size / extent * (floor - top);
    const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => s("g", {},
      s("line", { class: "axis", x1: left, x2: right, y1: y(part * extent), y2: y(part * extent) }),
      s("text", { x: left - 8, y: y(part * extent) + 4, "text-anchor": "end" }, bytes(Math.round(part * extent)))));
    const numbers = niceTicks(1, steps, width / 110).filter((at) => Number.isInteger(at)).map((at) =>
      s("text", { x: x(at - 0.5), y: floor + 18, "text-anchor": "middle" }, at.toLocaleString("en-US")));
    const nodes = spans.map((span) => s("rect", { class: "span", role: "img", x: x(span[3]).toFixed(2), y: y(span[1] + span[2]).toFixed(2),
      width: Math.max(0.8, x(span[4] + 1) - x(span[3])).toFixed(2), height: Math.max(0.8, span[2] / extent * (floor - top)).toFixed(2),
      "aria-label": `${report.strings[span[0]]}: ${bytes(span[2])}` }));
    // More operators than the eye can part: the highest of each few pixels.
    const group = Math.max(1, Math.ceil(steps / (right - left) * 4));
    const level = Array.from({ length: Math.ceil(steps / group) }, (_, at) => {
      const size = Math.max(...live.slice(at * group, (at + 1) * group));
      return `${at ? "L" : "M"}${x(at * group).toFixed(1)} ${y(size).toFixed(1)}H${x(Math.min(steps, (at + 1) * group)).toFixed(1)}`;
    }).join("");
    const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": "Planned arena. Arrows move from value to value." },
      ticks, nodes, s("path", { class: "level", d: level }), numbers);
    wire(svg, nodes, { next: inOrder(nodes.length), enter: (at) => describe(spans[at]), leave: rest });
    chart.replaceChildren(svg);
  });
  rest();
}

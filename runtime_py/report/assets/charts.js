// Axes, and the drawings of latency: a histogram of one profile, strips of several on one scale.

function niceTicks(low, high, most) {
  const rough = (high - low) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-6; at += step) ticks.push(at);
  return ticks;
}

function timeAxis(low, high, x, y, width) {
  const [unit, size] = TIMES.find(([, least]) => high >= least) || TIMES[3];
  const ticks = niceTicks(low / size, high / size, width / 90);
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
  const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return s("g", {}, s("line", { class: "axis", x1: x(low), x2: x(high), y1: y, y2: y }), ticks.map((tick) => s("g", {},
    s("line", { class: "axis", x1: x(tick * size), x2: x(tick * size), y1: y, y2: y + 4 }),
    s("text", { x: x(tick * size), y: y + 18, "text-anchor": x(tick * size) < 20 ? "start" : "middle" }, `${tick.toFixed(places)} ${unit}`))));
}

function drawLatency(container, latency) {
  whenSized(container, (width) => {
    const height = 190, top = 34, floor = height - 28;
    const low = latency.low, high = latency.high > low ? latency.high : low * 1.01 + 1e-3;
    const x = (us) => 8 + (us - low) / (high - low) * (width - 30);
    const peak = Math.max(...latency.bins);
    const step = (x(high) - x(low)) / latency.bins.length;
    const bars = latency.bins.map((count, index) => count === 0 ? null : s("rect", {
      class: "bin", x: x(low) + index * step + 0.5, width: Math.max(0.6, step - 1),
      y: floor - count / peak * (floor - top), height: count / peak * (floor - top) }));
    // Labels from the left to the right; one that would overlap the one before is left out, its line stays.
    const marks = [["median", latency.median], ["p90", latency.p90], ["p95", latency.p95], ["p99", latency.p99]]
      .filter(([, us]) => us !== null && us <= high);
    let free = -Infinity;
    const lines = marks.map(([name, us]) => {
      const at = x(us), half = name === "median" ? 55 : 13, place = Math.min(Math.max(at, half), width - half);
      const shown = place - half > free;
      if (shown) free = place + half + 10;
      return s("g", {},
        s("line", { class: name === "median" ? "mark" : "tick", x1: at, x2: at, y1: top - 8, y2: floor }),
        shown ? s("text", { class: name === "median" ? "strong" : null, x: place, y: top - 14, "text-anchor": "middle" },
          name === "median" ? `median ${latency.headline}` : name) : null);
    });
    const interval = latency.interval;
    const band = interval === null ? null : s("rect", { class: "band", x: x(interval[0]), y: top - 8,
      width: Math.max(2, x(interval[1]) - x(interval[0])), height: floor - top + 8 });
    const words = `Histogram: ${time(low)} to ${time(high)}, median ${latency.headline}`;
    const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": words },
      band, bars, lines, timeAxis(low, high, x, floor, width));
    const beyond = latency.beyond >= 0.0005
      ? h("p", { class: "fine" }, `${percent(latency.beyond)} of the samples are slower than shown, up to ${time(latency.slowest)}.`) : null;
    container.replaceChildren(...[svg, beyond].filter(Boolean));
  });
}

function drawStrips(container, reports, names) {
  whenSized(container, (width) => {
    const rowHeight = 46, height = rowHeight * reports.length + 26;
    const high = 1.04 * Math.max(...reports.flatMap(({ latency: l }) => [l.median, l.p95, ...(l.interval || [])]));
    const x = (us) => 2 + us / high * (width - 34);
    const strips = reports.map(({ latency }, index) => {
      const y = rowHeight * index + 30, end = latency.p95 === null ? latency.median : latency.p95;
      const interval = latency.interval || [latency.median, latency.median];
      return s("g", {},
        s("text", { x: 2, y: y - 13 }, s("tspan", { class: "strong" }, clip(names[index], width - 90)), `  ${latency.headline}`),
        s("rect", { class: "body", x: 2, width: Math.max(1, x(latency.median) - 2), y: y - 6, height: 12, rx: 2 }),
        s("line", { class: "whisker", x1: x(latency.low), x2: x(end), y1: y, y2: y }),
        s("line", { class: "whisker", x1: x(end), x2: x(end), y1: y - 5, y2: y + 5 }),
        s("rect", { class: "band", x: x(interval[0]), width: Math.max(2, x(interval[1]) - x(interval[0])), y: y - 8, height: 16 }),
        s("line", { class: "mark", x1: x(latency.median), x2: x(latency.median), y1: y - 8, y2: y + 8 }));
    });
    container.replaceChildren(s("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img",
      "aria-label": "Latency of the profiles on one scale" }, strips, timeAxis(0, high, x, height - 24, width)));
  });
}

"use strict";
// The interactive pane: draws one figure at a time from the JSON block, with zoom and read-off.
// The same description and the same rules for units and ticks as the static drawings.
(() => {
  const source = document.getElementById("figures");
  const pane = document.querySelector(".pane");
  const figures = source ? JSON.parse(source.textContent) : [];
  if (!pane || figures.length === 0) return;

  // Cells come as distances and counts in one flat list.
  for (const m of figures.flatMap((f) => f.series.map((s) => s.mark)).filter((m) => m.kind === "density")) {
    let index = 0;
    m.cells = Array.from({ length: m.cells.length / 2 }, (_, k) => [index += m.cells[2 * k], m.cells[2 * k + 1]]);
  }

  const SVG = "http://www.w3.org/2000/svg";
  const W = 1000, PLOT_H = 380, LINE = 20;
  const TIME = [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]];
  const ELAPSED = [["ms", 1e6], ["s", 1e9], ["min", 60e9], ["h", 3600e9]];
  // Blue and sky change places on dark, where the darker blue would sink in.
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const [BLUE, SKY] = dark ? ["#56b4e9", "#0072b2"] : ["#0072b2", "#56b4e9"];
  const RUNS = [BLUE, "#d55e00", "#009e73", "#cc79a7", "#e69f00", SKY, "currentColor"];
  const DASHES = ["", "7 3", "2 2.5", "9 3 2 3", "14 4"];
  const TONES = { data: BLUE, cumulative: "currentColor", fit: "currentColor", bound: "#009e73", harm: "#d55e00" };

  // ---- numbers -------------------------------------------------------------------------------

  const group = (text) => {
    const [, sign, whole, rest] = /^(-?)(\d+)(.*)$/.exec(text) || [null, "", text, ""];
    const digits = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole;
    return sign + digits + rest;
  };
  const minus = (text) => text.replace(/-/g, "−");
  const short = (v) => (v === 0 ? "0" : String(+v.toFixed(6)));

  function value(unit, v) {
    if (unit === "time" || unit === "elapsed") {
      if (Math.abs(v) < 1000) return minus(`${v.toFixed(0)} ns`);
      const [name, size] = TIME.findLast((u) => Math.abs(v) >= u[1]);
      const whole = Math.floor(Math.log10(Math.abs(v / size))) + 1;
      return minus(`${(v / size).toFixed(Math.max(4 - whole, 0))} ${name}`);
    }
    if (unit === "share") return `${+(v * 100).toPrecision(3)} %`;
    if (unit === "count") return minus(group(v.toFixed(0)));
    return minus(String(+v.toPrecision(4)));
  }

  // A time with the digits that matter at the axis' resolution.
  function fine(axis, v) {
    if (axis.unit !== "time" || axis.scale !== "linear" || originOf(axis) === 0) return value(axis.unit, v);
    return minus(`${(v / 1e9).toFixed(9)} s`);
  }

  function originOf(axis) {
    if (axis.unit !== "time" || axis.scale !== "linear") return 0;
    const span = axis.hi - axis.lo;
    if (Math.max(Math.abs(axis.lo), Math.abs(axis.hi)) < 400 * span) return 0;
    const grain = 10 ** Math.ceil(Math.log10(span));
    return Math.floor(axis.lo / grain) * grain;
  }

  function named(axis) {
    const origin = originOf(axis);
    const size = Math.max(Math.abs(axis.lo - origin), Math.abs(axis.hi - origin));
    const pick = (units, least) => units.findLast((u) => size >= least * u[1]) || units[0];
    switch (axis.unit) {
      case "time": return pick(TIME, 1);
      case "elapsed": return pick(ELAPSED, 3);
      case "share": return ["%", 0.01];
      default: return ["", 1];
    }
  }

  function title(axis) {
    const origin = originOf(axis);
    const above = origin === 0 ? "" : ` − ${minus(String(+(origin / 1e9).toFixed(9)))} s`;
    const timed = axis.unit === "time" || axis.unit === "elapsed";
    const unit = axis.unit === "share" ? "%" : timed && axis.scale === "linear" ? named(axis)[0] : "";
    return axis.quantity + above + (unit ? ` (${unit})` : "");
  }

  function ticks(axis, most) {
    if (axis.names?.length) return axis.names.map((label, at) => ({ at, label })).filter((t) => t.at >= axis.lo && t.at <= axis.hi);
    return axis.scale === "log" ? logTicks(axis, most) : linearTicks(axis, most);
  }

  function linearTicks(axis, most) {
    const [, size] = named(axis), origin = originOf(axis);
    const lo = (axis.lo - origin) / size, hi = (axis.hi - origin) / size;
    let least = (hi - lo) / most;
    if (axis.unit === "count") least = Math.max(least, 1);
    const power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least * 0.999999) || 10 * power;
    const decimals = Math.min(Math.max(-Math.floor(Math.log10(step) + 1e-9), 0), 12);
    const out = [];
    for (let k = Math.ceil(lo / step - 1e-6); k <= hi / step + 1e-6 && out.length < 100; k++) {
      const text = (k * step).toFixed(decimals);
      out.push({ at: k * step * size + origin, label: minus(group(+text === 0 ? "0" : text)) });
    }
    return out;
  }

  function logTicks(axis, most) {
    const decades = Math.log10(axis.hi / axis.lo);
    const within = decades <= 1.5 ? [1, 2, 5] : [1];
    const every = Math.max(Math.ceil(decades / most), 1);
    const out = [];
    for (let e = Math.floor(Math.log10(axis.lo)); e <= Math.ceil(Math.log10(axis.hi)); e++) {
      if (((e % every) + every) % every !== 0) continue;
      for (const m of within) {
        const at = m * 10 ** e;
        if (at < axis.lo * 0.999999 || at > axis.hi * 1.000001) continue;
        out.push({ at, label: logLabel(axis, at) });
      }
    }
    return out;
  }

  function logLabel(axis, v) {
    if (axis.unit === "time" || axis.unit === "elapsed") {
      const [name, size] = TIME.findLast((u) => v >= 0.999 * u[1]) || TIME[0];
      return `${group(short(v / size))} ${name}`;
    }
    return axis.unit === "share" ? short(v * 100) : group(short(v));
  }

  const position = (axis, v) => axis.scale === "log"
    ? Math.log(Math.max(v, 1e-300) / axis.lo) / Math.log(axis.hi / axis.lo)
    : (v - axis.lo) / (axis.hi - axis.lo);
  const valueAt = (axis, p) => axis.scale === "log"
    ? axis.lo * (axis.hi / axis.lo) ** p
    : axis.lo + p * (axis.hi - axis.lo);

  // ---- state ---------------------------------------------------------------------------------

  const plot = pane.querySelector(".plot");
  const readout = pane.querySelector(".readout");
  const about = pane.querySelector(".about");
  const buttons = [...pane.querySelectorAll("button[data-figure]")];
  let figure, x, y, hidden, area, dragging = null;

  function choose(id) {
    figure = figures.find((f) => f.id === id) || figures[0];
    hidden = new Set();
    about.textContent = figure.about;
    for (const b of buttons) b.setAttribute("aria-pressed", String(b.dataset.figure === figure.id));
    plot.setAttribute("aria-label", `${figure.title}. ${figure.subtitle}. Plus and minus zoom, arrows move, zero resets.`);
    reset();
  }

  function reset() {
    x = { ...figure.x };
    y = { ...figure.y };
    draw();
    readout.textContent = figure.notes.join(" ");
  }

  const full = () => x.lo === figure.x.lo && x.hi === figure.x.hi;

  // ---- drawing -------------------------------------------------------------------------------

  function node(parent, name, attributes, text) {
    const n = document.createElementNS(SVG, name);
    for (const [k, v] of Object.entries(attributes)) n.setAttribute(k, v);
    if (text !== undefined) n.textContent = text;
    parent.appendChild(n);
    return n;
  }

  const colour = (tone) => (typeof tone === "object" ? RUNS[tone.run % RUNS.length] : TONES[tone]);
  const dash = (s) => {
    if (s.mark.kind === "line" && s.mark.dashed) return "7 4";
    return typeof s.tone === "object" ? DASHES[s.tone.run % DASHES.length] : "";
  };
  const n1 = (v) => +v.toFixed(1);
  const inRows = () => figure.series.map((s) => s.mark).find((m) => ["spread", "means", "histograms"].includes(m.kind));
  const rows = () => inRows()?.rows;
  const rowHeight = () => (inRows()?.kind === "histograms" ? 96 : 52);
  const measure = (text, size) => text.length * size * 0.6;

  function draw() {
    const svg = document.createElementNS(SVG, "svg");
    let top = 30;
    node(svg, "text", { x: 12, y: 24, "font-size": 18, fill: "currentColor" }, figure.title);
    top += LINE;
    node(svg, "text", { x: 12, y: top - 4, "font-size": 13, fill: "currentColor", "fill-opacity": 0.75 }, figure.subtitle);
    top = legend(svg, top + LINE);
    const names = rows();
    const left = names ? ticksOfRows(names) : ticks(y, 7);
    const right = figure.right ? ticks(figure.right, 7) : [];
    const widest = (list) => Math.max(0, ...list.map((t) => measure(t.label, 13)));
    const x0 = 12 + (names ? 0 : 24) + widest(left) + 10;
    const x1 = W - (figure.right ? widest(right) + 46 : 30);
    const side = figure.overflow && full() ? 70 : 0;
    const rug = figure.series.some((s) => s.mark.kind === "rug") ? 26 : 0;
    const h = names ? Math.max(names.length * rowHeight() + 16, 120) : PLOT_H;
    area = { x: x0, y: top + 6, w: x1 - x0 - side, h: h - rug, side, rug };
    const foot = area.y + h;
    svg.setAttribute("viewBox", `0 0 ${W} ${foot + 52}`);
    svg.setAttribute("font-family", "DejaVu Sans,Verdana,sans-serif");

    const grid = { stroke: "currentColor", "stroke-opacity": 0.13 };
    const label = { "font-size": 13, fill: "currentColor", "fill-opacity": 0.8 };
    for (const t of left) {
      const at = names ? area.y + t.at : py(y, t.at);
      if (!names) node(svg, "path", { d: `M${x0} ${n1(at)}H${x1}`, ...grid });
      node(svg, "text", { x: x0 - 8, y: n1(at + 4), "text-anchor": "end", ...label }, t.label);
    }
    for (const t of right) {
      node(svg, "text", { x: x1 + 8, y: n1(py(figure.right, t.at) + 4), ...label }, t.label);
    }
    for (const t of ticks(x, 8)) {
      const at = n1(px(t.at));
      node(svg, "path", { d: `M${at} ${area.y}V${foot + 4}`, ...grid });
      node(svg, "text", { x: at, y: foot + 19, "text-anchor": "middle", ...label }, t.label);
    }
    node(svg, "path", { d: `M${x0} ${area.y}V${foot}H${x1}`, fill: "none", stroke: "currentColor", "stroke-opacity": 0.6 });
    const middle = area.y + area.h / 2;
    node(svg, "text", { x: area.x + area.w / 2, y: foot + 41, "text-anchor": "middle", "font-size": 13.5, fill: "currentColor" }, title(x));
    const upright = (text, at) => node(svg, "text", {
      transform: `translate(${at} ${middle})rotate(-90)`, "text-anchor": "middle", "font-size": 13.5, fill: "currentColor",
    }, text);
    if (!names) upright(title(y), 22);
    if (figure.right) upright(title(figure.right), W - 12);

    const clip = node(svg, "clipPath", { id: "pane-clip" });
    node(clip, "rect", { x: x0, y: area.y, width: x1 - x0, height: h });
    const data = node(svg, "g", { "clip-path": "url(#pane-clip)", class: "data" });
    figure.series.forEach((s, i) => { if (!hidden.has(i)) series(data, s); });
    if (side) overflow(svg, foot);
    node(svg, "rect", { class: "area", x: area.x, y: area.y, width: area.w, height: h, fill: "#000", "fill-opacity": 0 });
    node(svg, "rect", { class: "band", y: area.y, height: h, x: 0, width: 0, fill: "currentColor", "fill-opacity": 0.15 });
    plot.replaceChildren(svg);
  }

  const px = (v) => area.x + Math.min(Math.max(position(x, v), -5), 6) * area.w;
  const py = (axis, v) => area.y + area.h - Math.min(Math.max(position(axis, v), -5), 6) * area.h;
  const axisOf = (s) => (s.on_right && figure.right ? figure.right : y);
  const rowMiddle = (i) => 8 + rowHeight() * (i + 0.5);
  const ticksOfRows = (names) => names.map((r, i) => ({ at: rowMiddle(i), label: r.name.length > 26 ? `${r.name.slice(0, 25)}…` : r.name }));

  function legend(svg, top) {
    let at = 12;
    let drawn = false;
    figure.series.forEach((s, i) => {
      if (!s.name) return;
      const needs = 34 + measure(s.name, 13) + 18;
      if (drawn && at + needs > W - 12) { at = 12; top += LINE; }
      const key = node(svg, "g", { class: hidden.has(i) ? "key off" : "key", "data-series": i });
      const line = ["line", "step"].includes(s.mark.kind);
      node(key, "rect", { x: at, y: top - 13, width: needs - 8, height: 18, fill: "#000", "fill-opacity": 0 });
      if (line) node(key, "path", { d: `M${at} ${top - 4}h26`, stroke: colour(s.tone), "stroke-width": 2, "stroke-dasharray": dash(s) });
      else node(key, "rect", { x: at, y: top - 10, width: 26, height: 11, fill: colour(s.tone), "fill-opacity": 0.75 });
      node(key, "text", { x: at + 33, y: top, "font-size": 13, fill: "currentColor" }, s.name);
      at += needs;
      drawn = true;
    });
    return drawn ? top + 6 : top - LINE + 4;
  }

  function series(g, s) {
    const axis = axisOf(s), c = colour(s.tone), m = s.mark;
    const lines = (points) => "M" + points.map((p) => `${n1(px(p[0]))} ${n1(py(axis, p[1]))}`).join("L");
    switch (m.kind) {
      case "bars": {
        const d = m.heights.map((h, i) => (h > 0 ? bar(axis, m.start + i * m.width, m.start + (i + 1) * m.width, h, 0.5, 1) : "")).join("");
        node(g, "path", { d, fill: c, "fill-opacity": 0.72 });
        break;
      }
      case "stems": {
        const half = x.scale === "log" ? 0 : 0.36;
        const d = m.points.map(([at, h]) => bar(axis, at - half, at + half, h, 0, 3)).join("");
        node(g, "path", { d, fill: c, "fill-opacity": 0.8 });
        break;
      }
      case "line":
        node(g, "path", { d: lines(m.points), fill: "none", stroke: c, "stroke-width": 2, "stroke-dasharray": dash(s) });
        break;
      case "step": {
        const corners = m.points.flatMap((p, i) => (i ? [[p[0], m.points[i - 1][1]], p] : [p]));
        node(g, "path", { d: lines(corners), fill: "none", stroke: c, "stroke-width": 2, "stroke-dasharray": dash(s) });
        break;
      }
      case "points": {
        const d = m.points.filter((p) => p[0] >= x.lo && p[0] <= x.hi).map((p) => `M${n1(px(p[0]))} ${n1(py(axis, p[1]))}h0`).join("");
        const wide = m.points.length < 40 ? 6 : 3.2;
        node(g, "path", { d, stroke: c, "stroke-opacity": 0.65, "stroke-width": wide, "stroke-linecap": "round" });
        break;
      }
      case "density": density(g, m, axis, c); break;
      case "rug": {
        const foot = area.y + area.h + area.rug;
        const most = Math.max(...m.stretches.map((t) => t[2]));
        const d = m.stretches.map(([from, to, share]) => {
          const a = px(from), w = Math.max(px(to) - a, 1.4), h = (area.rug - 4) * Math.max(share / most, 0.2);
          return `M${n1(a)} ${foot}h${n1(w)}v${n1(-h)}h${n1(-w)}z`;
        }).join("");
        node(g, "path", { d, fill: c });
        break;
      }
      case "rule": {
        const at = n1(px(m.at));
        node(g, "path", { d: `M${at} ${area.y}V${area.y + area.h}`, stroke: c, "stroke-width": 1.6, "stroke-dasharray": "2 3" });
        const end = at > area.x + area.w / 2;
        node(g, "text", { x: at + (end ? -6 : 6), y: area.y + area.h - 8, "text-anchor": end ? "end" : "start", "font-size": 13, fill: "currentColor" }, m.label);
        break;
      }
      case "spread": m.rows.forEach((r, i) => spread(g, r, i)); break;
      case "bounds":
        m.points.forEach((b) => {
          const at = n1(px(b.at)), [low, mid, high] = [b.low, b.value, b.high].map((v) => n1(py(axis, v)));
          node(g, "path", { d: `M${at} ${low}V${high}M${at - 4} ${low}h8M${at - 4} ${high}h8`, fill: "none", stroke: c, "stroke-width": 1.6 });
          node(g, "path", { d: `M${at} ${mid}h0`, stroke: c, "stroke-width": 7, "stroke-linecap": "round" });
        });
        break;
      case "columns": {
        const d = m.bars.map((b) => bar(axis, b.at - m.width / 2, b.at + m.width / 2, b.value, 0.5, 1)).join("");
        node(g, "path", { d, fill: c, "fill-opacity": 0.72 });
        m.bars.filter((b) => b.low < b.high).forEach((b) => {
          const at = n1(px(b.at)), [low, high] = [b.low, b.high].map((v) => n1(py(axis, v)));
          node(g, "path", { d: `M${at} ${low}V${high}M${at - 4} ${low}h8M${at - 4} ${high}h8`, fill: "none", stroke: "currentColor", "stroke-width": 1.6 });
        });
        break;
      }
      case "means":
        m.rows.forEach((r, i) => {
          const at = area.y + rowMiddle(i), ink = RUNS[i % RUNS.length];
          if (r.interval) {
            const [low, high] = r.interval.map((v) => n1(px(v)));
            node(g, "path", { d: `M${low} ${at}H${high}M${low} ${at - 7}v14M${high} ${at - 7}v14`, fill: "none", stroke: ink, "stroke-width": 1.8 });
          }
          node(g, "path", { d: `M${n1(px(r.value))} ${at}h0`, stroke: ink, "stroke-width": 9, "stroke-linecap": "round" });
        });
        break;
      case "histograms":
        m.rows.forEach((r, i) => {
          const foot = area.y + rowMiddle(i) + rowHeight() / 2 - 5, most = Math.max(...r.heights, 1), ink = RUNS[i % RUNS.length];
          const d = r.heights.map((n, k) => {
            const from = px(m.start + k * m.width), w = Math.max(px(m.start + (k + 1) * m.width) - from - 0.7, 1), h = Math.max(n / most * (rowHeight() - 14), 1);
            return n > 0 ? `M${n1(from)} ${n1(foot)}v${n1(-h)}h${n1(w)}v${n1(h)}z` : "";
          }).join("");
          node(g, "path", { d, fill: ink, "fill-opacity": 0.8 });
          node(g, "path", { d: `M${area.x} ${foot}h${area.w}`, stroke: ink, "stroke-opacity": 0.6 });
        });
        break;
    }
  }

  function bar(axis, from, to, height, gap, least) {
    const foot = area.y + area.h;
    let a = px(from), w = px(to) - a;
    if (w > 4) { a += gap; w -= 2 * gap; }
    if (w < least) { a += (w - least) / 2; w = least; }
    const top = Math.min(py(axis, height), foot - 1);
    return `M${n1(a)} ${n1(top)}h${+w.toFixed(2)}V${foot}h${+(-w).toFixed(2)}z`;
  }

  function density(g, m, axis, c) {
    const most = m.cells.reduce((a, cell) => Math.max(a, cell[1]), 1);
    const shades = Array.from({ length: 10 }, () => []);
    for (const [index, count] of m.cells) {
      const column = Math.floor(index / m.rows), row = index % m.rows;
      const left = m.x0 + column * m.dx, low = m.y0 + row * m.dy;
      if (left > x.hi || left + m.dx < x.lo) continue;
      const a = px(left), b = px(left + m.dx), t = py(axis, low + m.dy), f = py(axis, low);
      const share = most > 1 ? Math.log1p(count) / Math.log1p(most) : 1;
      shades[Math.min(Math.floor(share * 10), 9)].push(`M${n1(a)} ${n1(t)}H${n1(Math.max(b, a + 1))}V${n1(Math.max(f, t + 1))}H${n1(a)}z`);
    }
    shades.forEach((d, k) => { if (d.length) node(g, "path", { d: d.join(""), fill: c, "fill-opacity": 0.28 + 0.072 * (k + 1) }); });
  }

  function spread(g, r, i) {
    const c = RUNS[i % RUNS.length], mid = area.y + rowMiddle(i);
    const [min, median, p90, p99, max] = r.at.map(px);
    node(g, "path", { d: `M${n1(min)} ${mid}H${n1(max)}`, stroke: c, "stroke-width": 1.5 });
    node(g, "rect", { x: n1(min), y: mid - 13, width: n1(Math.max(p90 - min, 1)), height: 26, fill: c, "fill-opacity": 0.45 });
    for (const [at, half, w] of [[median, 13, 3], [p99, 9, 2], [max, 5, 1.5]]) {
      node(g, "path", { d: `M${n1(at)} ${mid - half}v${2 * half}`, stroke: c, "stroke-width": w });
    }
  }

  function overflow(svg, foot) {
    const at = area.x + area.w, base = area.y + area.h;
    const h = Math.min(Math.max(position(y, figure.overflow.count), 0), 1) * area.h;
    const top = base - Math.min(Math.max(h, 2), area.h - 20);
    node(svg, "path", { d: `M${at + 6} ${area.y}V${foot}`, stroke: "currentColor", "stroke-opacity": 0.6, "stroke-dasharray": "2 3" });
    node(svg, "rect", { x: at + 24, y: n1(top), width: 26, height: n1(base - top), fill: TONES.harm, "fill-opacity": 0.75 });
    const text = { "text-anchor": "middle", "font-size": 13, fill: "currentColor" };
    node(svg, "text", { x: at + 37, y: n1(top - 5), ...text }, `+${group(String(figure.overflow.count))}`);
    node(svg, "text", { x: at + 37, y: foot + 19, ...text }, "beyond");
  }

  // ---- reading off ---------------------------------------------------------------------------

  function read(s, vx, at) {
    const m = s.mark, axis = axisOf(s), name = s.name ? `${s.name.replace(/ \((left|right|right axis)\)$/, "")}: ` : "";
    switch (m.kind) {
      case "bars": {
        const i = Math.floor((vx - m.start) / m.width);
        if (i < 0 || i >= m.heights.length) return null;
        const from = m.start + i * m.width;
        return `${fine(x, from)} to ${fine(x, from + m.width)}: ${value(y.unit, m.heights[i])} ${figure.y.quantity.split(",")[0]}`;
      }
      case "stems": {
        const p = nearest(m.points, (q) => Math.abs(px(q[0]) - at.x));
        return p ? `${value("count", p[0])}: ${value(y.unit, p[1])} ${figure.y.quantity.split(",")[0]}` : null;
      }
      case "line": {
        const k = m.points.findIndex((p) => p[0] >= vx);
        if (k < 1) return null;
        const [a, b] = [m.points[k - 1], m.points[k]];
        const v = a[1] + (b[0] > a[0] ? (b[1] - a[1]) * (vx - a[0]) / (b[0] - a[0]) : 0);
        return name + fine(axis, v);
      }
      case "step": {
        const p = m.points.findLast((q) => q[0] <= vx);
        return p ? name + fine(axis, p[1]) : null;
      }
      case "points": {
        const p = nearest(m.points, (q) => Math.hypot(px(q[0]) - at.x, py(axis, q[1]) - at.y), 14);
        return p ? `${name}${fine(x, p[0])}, ${fine(axis, p[1])}` : null;
      }
      case "density": {
        const column = Math.floor((vx - m.x0) / m.dx), row = Math.floor((valueAt(axis, (area.y + area.h - at.y) / area.h) - m.y0) / m.dy);
        if (column < 0 || column >= m.columns || row < 0 || row >= m.rows) return null;
        const cell = m.cells.find((c) => c[0] === column * m.rows + row);
        return cell ? `${value("count", cell[1])} packets between ${fine(axis, m.y0 + row * m.dy)} and ${fine(axis, m.y0 + (row + 1) * m.dy)}` : null;
      }
      case "rug": {
        const t = m.stretches.find(([from, to]) => Math.abs(px((from + to) / 2) - at.x) < 4 || (vx >= from && vx <= to));
        return t ? `${value("share", t[2])} lost here` : null;
      }
      case "spread": {
        const r = m.rows[nearestIndex(m.rows, (_, i) => Math.abs(area.y + rowMiddle(i) - at.y))];
        const [min, median, p90, p99, max] = r.at.map((v) => value("time", v));
        return `${r.name}: minimum ${min}, median ${median}, 90 % ${p90}, 99 % ${p99}, maximum ${max}`;
      }
      case "bounds": {
        const b = nearest(m.points, (q) => Math.hypot(px(q.at) - at.x, py(axis, q.value) - at.y), 14);
        return b ? `${name}${fine(x, b.at)}: ${fine(axis, b.value)}, between ${fine(axis, b.low)} and ${fine(axis, b.high)}` : null;
      }
      case "columns": {
        const b = m.bars.find((q) => Math.abs(q.at - vx) <= m.width / 2);
        return b ? `${name}${fine(axis, b.value)}, between ${fine(axis, b.low)} and ${fine(axis, b.high)}` : null;
      }
      case "means": {
        const r = m.rows[nearestIndex(m.rows, (_, i) => Math.abs(area.y + rowMiddle(i) - at.y))];
        return r.name + (r.interval ? `, between ${fine(x, r.interval[0])} and ${fine(x, r.interval[1])}` : "");
      }
      case "histograms": {
        const r = m.rows[nearestIndex(m.rows, (_, i) => Math.abs(area.y + rowMiddle(i) - at.y))];
        const k = Math.floor((vx - m.start) / m.width);
        return k in r.heights ? `${r.name}: ${value("count", r.heights[k])} packets from ${fine(x, m.start + k * m.width)} to ${fine(x, m.start + (k + 1) * m.width)}` : null;
      }
      default: return null;
    }
  }

  function nearestIndex(list, distance, within = Infinity) {
    let best = -1, least = within;
    list.forEach((item, i) => { const d = distance(item, i); if (d <= least) { best = i; least = d; } });
    return best;
  }
  const nearest = (list, distance, within) => list[nearestIndex(list, distance, within)];

  function where(event) {
    const svg = plot.querySelector("svg"), box = svg.getBoundingClientRect();
    const view = svg.viewBox.baseVal;
    return { x: (event.clientX - box.left) * view.width / box.width, y: (event.clientY - box.top) * view.height / box.height };
  }
  const inside = (at) => at.x >= area.x && at.x <= area.x + area.w && at.y >= area.y && at.y <= area.y + area.h + area.rug;

  function hover(event) {
    const at = where(event);
    if (dragging) { band(at); return; }
    if (!inside(at)) { readout.textContent = figure.notes.join(" "); return; }
    const vx = valueAt(x, (at.x - area.x) / area.w);
    const found = figure.series.filter((_, i) => !hidden.has(i)).map((s) => read(s, vx, at)).filter(Boolean);
    const bars = figure.series.some((s) => ["bars", "stems", "spread", "columns", "means", "histograms"].includes(s.mark.kind));
    readout.textContent = [...(bars ? [] : [`${figure.x.quantity} ${fine(x, vx)}`]), ...found].join(" · ");
  }

  // ---- zooming -------------------------------------------------------------------------------

  function zoom(axis, home, from, to) {
    const [a, b] = [valueAt(axis, from), valueAt(axis, to)];
    const lo = Math.max(a, home.lo), hi = Math.min(b, home.hi);
    // Below a millionth of the whole there is nothing more to see, and numbers run out of digits.
    if (hi - lo > (home.hi - home.lo) * 1e-6) { axis.lo = lo; axis.hi = hi; }
  }
  const around = (p, factor) => [p - p * factor, p + (1 - p) * factor];

  function band(at) {
    const rect = plot.querySelector(".band");
    const to = Math.min(Math.max(at.x, area.x), area.x + area.w);
    rect.setAttribute("x", Math.min(dragging.x, to));
    rect.setAttribute("width", Math.abs(to - dragging.x));
  }

  plot.addEventListener("pointerdown", (event) => {
    const at = where(event);
    if (event.button === 0 && inside(at)) { dragging = at; plot.setPointerCapture?.(event.pointerId); }
  });
  plot.addEventListener("pointermove", hover);
  plot.addEventListener("pointerleave", () => { if (!dragging) readout.textContent = figure.notes.join(" "); });
  plot.addEventListener("pointercancel", () => { dragging = null; draw(); });
  plot.addEventListener("pointerup", (event) => {
    if (!dragging) return;
    const to = where(event), from = dragging;
    dragging = null;
    if (Math.abs(to.x - from.x) > 6) {
      const p = [from.x, to.x].map((v) => Math.min(Math.max((v - area.x) / area.w, 0), 1)).sort((a, b) => a - b);
      zoom(x, figure.x, p[0], p[1]);
    }
    draw();
  });
  plot.addEventListener("dblclick", reset);
  plot.addEventListener("wheel", (event) => {
    const at = where(event);
    if (!inside(at)) return;
    event.preventDefault();
    const factor = event.deltaY < 0 ? 0.8 : 1.25;
    if (event.shiftKey) zoom(y, figure.y, ...around((area.y + area.h - at.y) / area.h, factor));
    else zoom(x, figure.x, ...around((at.x - area.x) / area.w, factor));
    draw();
  }, { passive: false });
  plot.addEventListener("keydown", (event) => {
    const span = { "+": [0.1, 0.9], "=": [0.1, 0.9], "-": [-0.125, 1.125] }[event.key];
    const move = { ArrowLeft: -0.1, ArrowRight: 0.1 }[event.key];
    if (event.key === "0") reset();
    else if (span) zoom(x, figure.x, ...span);
    else if (move) {
      const fits = move < 0 ? valueAt(x, move) >= figure.x.lo : valueAt(x, 1 + move) <= figure.x.hi;
      if (fits) zoom(x, figure.x, move, 1 + move);
    } else return;
    event.preventDefault();
    draw();
  });
  plot.addEventListener("click", (event) => {
    const key = event.target.closest?.(".key");
    if (!key) return;
    const i = Number(key.dataset.series);
    if (!hidden.delete(i)) hidden.add(i);
    draw();
  });
  for (const b of buttons) b.addEventListener("click", () => choose(b.dataset.figure));

  document.documentElement.classList.add("live");
  pane.hidden = false;
  choose(figures[0].id);
})();

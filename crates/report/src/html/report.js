"use strict";
// Draws the figures from the JSON block behind tabs, with zoom and cursor values.
// Units and ticks follow the same rules as the static drawings.
(() => {
  const source = document.getElementById("figures");
  const figures = source ? JSON.parse(source.textContent) : [];
  if (figures.length === 0) return;

  // Cells are encoded as distances and counts in one flat list.
  for (const m of figures.flatMap((f) => f.series.map((s) => s.mark)).filter((m) => m.kind === "density")) {
    let index = 0;
    m.cells = Array.from({ length: m.cells.length / 2 }, (_, k) => [index += m.cells[2 * k], m.cells[2 * k + 1]]);
  }

  const SVG = "http://www.w3.org/2000/svg";
  // Height of the strip that marks the losses of one series.
  const RUG = 24;
  const TIME = [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]];
  const ELAPSED = [["ms", 1e6], ["s", 1e9], ["min", 60e9], ["h", 3600e9]];
  // Blue and sky are swapped on dark backgrounds, where the darker blue has too little contrast.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const DASHES = ["", "7 3", "2 2.5", "9 3 2 3", "14 4"];
  let RUNS, TONES;
  function chooseColours() {
    const [blue, sky] = dark.matches ? ["#56b4e9", "#0072b2"] : ["#0072b2", "#56b4e9"];
    RUNS = [blue, "#d55e00", "#009e73", "#cc79a7", "#e69f00", sky, "currentColor"];
    TONES = { data: blue, cumulative: "currentColor", fit: "currentColor", bound: "#009e73", harm: "#d55e00" };
  }
  chooseColours();

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

  // Formats a time with the digits that are significant at the axis' resolution.
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

  function node(parent, name, attributes, text) {
    const n = document.createElementNS(SVG, name);
    for (const [k, v] of Object.entries(attributes)) n.setAttribute(k, v);
    if (text !== undefined) n.textContent = text;
    parent.appendChild(n);
    return n;
  }

  function element(parent, name, attributes, text) {
    const n = document.createElement(name);
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
  const measure = (text, size) => text.length * size * 0.6;
  const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

  // ---- files ---------------------------------------------------------------------------------

  function save(blob, name) {
    const a = document.createElement("a");
    a.href = URL.createObjectURL(blob);
    a.download = name;
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 10000);
  }

  // Exports the static drawing as a file: dark on white.
  function drawing(host) {
    const svg = host.querySelector(".static svg").cloneNode(true);
    svg.style.color = "#1b1f24";
    const paper = document.createElementNS(SVG, "rect");
    paper.setAttribute("width", "100%");
    paper.setAttribute("height", "100%");
    paper.setAttribute("fill", "#fff");
    svg.insertBefore(paper, svg.firstChild);
    return { text: new XMLSerializer().serializeToString(svg), width: svg.viewBox.baseVal.width, height: svg.viewBox.baseVal.height };
  }

  function savePicture(host, id) {
    const { text, width, height } = drawing(host);
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [2 * width, 2 * height];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => blob && save(blob, `${id}.png`), "image/png");
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  }

  const BASE = { time: "ns", elapsed: "ns", share: "ratio", count: "count", plain: "" };
  const withUnit = (axis) => axis.quantity + (BASE[axis.unit] ? ` (${BASE[axis.unit]})` : "");

  // One row per value, in base units. Names may come from untrusted peers: escape those that a spreadsheet would read as a formula.
  function table(f) {
    const cell = (v) => {
      const text = typeof v === "string" && /^[=+\-@\t\r]/.test(v) ? `'${v}` : String(v ?? "");
      return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
    };
    const lines = [["series", "mark", withUnit(f.x), "to", "value", "value low", "value high", "value is", "label"]];
    for (const s of f.series) {
      const m = s.mark, is = withUnit(s.on_right && f.right ? f.right : f.y);
      const add = (x, to, value, low, high, label, name = s.name) => lines.push([name, m.kind, x, to, value, low, high, is, label]);
      switch (m.kind) {
        case "bars": m.heights.forEach((h, i) => add(m.start + i * m.width, m.start + (i + 1) * m.width, h)); break;
        case "stems": case "line": case "step": case "points": m.points.forEach((p) => add(p[0], "", p[1])); break;
        case "density": m.cells.forEach(([index, count]) => {
          const column = Math.floor(index / m.rows), row = index % m.rows;
          add(m.x0 + column * m.dx, m.x0 + (column + 1) * m.dx, "", m.y0 + row * m.dy, m.y0 + (row + 1) * m.dy, `${count} packets`);
        }); break;
        case "rug": m.stretches.forEach(([from, to, share]) => add(from, to, "", "", "", `${share} lost`)); break;
        case "band": add(m.from, m.to, "", "", "", m.label); break;
        case "rule": add(m.at, "", "", "", "", m.label); break;
        case "spread": m.rows.forEach((r) => ["minimum", "median", "90 %", "99 %", "maximum"].forEach((l, i) => add(r.at[i], "", "", "", "", l, r.name))); break;
        case "bounds": m.points.forEach((b) => add(b.at, "", b.value, b.low, b.high)); break;
        case "columns": m.bars.forEach((b) => add(b.at, "", b.value, b.low, b.high)); break;
        case "means": m.rows.forEach((r) => add(r.value, "", "", r.interval?.[0], r.interval?.[1], "mean", r.name)); break;
        case "histograms": m.rows.forEach((r) => r.heights.forEach((h, i) => add(m.start + i * m.width, m.start + (i + 1) * m.width, h, "", "", "", r.name))); break;
      }
    }
    if (f.overflow) lines.push(["", "beyond", f.x.hi, "", f.overflow.count, "", "", withUnit(f.y), `until ${f.overflow.until}`]);
    return lines.map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
  }

  // ---- a figure ------------------------------------------------------------------------------

  function viewer(figure, host) {
    const id = host.id.replace(/^figure-/, "");
    const level = host.closest(".plots") ? "h3" : "h2";
    const box = document.createElement("div");
    box.className = "view";
    host.insertBefore(box, host.firstChild);
    const head = element(box, "div", { class: "head" });
    element(head, level, {}, figure.title);
    const tools = element(head, "div", { class: "tools" });
    element(tools, "a", { href: `#${host.id}`, "aria-label": `Link to ${figure.title}` }, "link");
    const tool = (text, act) => {
      const b = element(tools, "button", { type: "button", "data-save": text, "aria-label": `${figure.title} as ${text}` }, text);
      b.addEventListener("click", act);
    };
    tool("SVG", () => save(new Blob([drawing(host).text], { type: "image/svg+xml" }), `${id}.svg`));
    tool("PNG", () => savePicture(host, id));
    tool("CSV", () => save(new Blob([table(figure)], { type: "text/csv" }), `${id}.csv`));
    element(box, "p", { class: "subtitle" }, figure.subtitle);
    const keys = element(box, "div", { class: "keys" });
    const plot = element(box, "div", { class: "plot", tabindex: "0", role: "group", "aria-label": `${figure.title}. ${figure.subtitle}. Plus and minus zoom, arrows move, zero resets.` });
    const readout = element(box, "p", { class: "readout", "aria-live": "polite" });
    const hidden = new Set();
    let W = 0, x = { ...figure.x }, y = { ...figure.y }, area, dragging = null;
    const rugs = figure.series.filter((s) => s.mark.kind === "rug");
    readout.textContent = figure.notes.join(" ");

    function reset() {
      x = { ...figure.x };
      y = { ...figure.y };
      draw();
      readout.textContent = figure.notes.join(" ");
    }

    const full = () => x.lo === figure.x.lo && x.hi === figure.x.hi;

    // ---- drawing -------------------------------------------------------------------------------

    const inRows = () => figure.series.map((s) => s.mark).find((m) => ["spread", "means", "histograms"].includes(m.kind));
    const rows = () => inRows()?.rows;
    const rowHeight = () => (inRows()?.kind === "histograms" ? 96 : 52);

    function draw() {
      W = Math.max(plot.clientWidth, 280);
      const svg = document.createElementNS(SVG, "svg");
      legend();
      const names = rows();
      const left = names ? ticksOfRows(names) : ticks(y, 7);
      const right = figure.right ? ticks(figure.right, 7) : [];
      const widest = (list) => Math.max(0, ...list.map((t) => measure(t.label, 13)));
      // Titles of the vertical axes are above them; the second is below the first if they do not fit in one row.
      const titles = [names ? "" : title(y), figure.right ? title(figure.right) : ""].map((t) => shortened(t, Math.floor((W - 12) / 7.8)));
      const beside = measure(titles[0], 13) + measure(titles[1], 13) < W - 30;
      const top = names ? 4 : titles[1] && !beside ? 44 : 26;
      const x0 = 4 + widest(left) + 10;
      const x1 = W - (figure.right ? widest(right) + 14 : 26);
      const side = figure.overflow && full() ? 60 : 0;
      const small = host.classList.contains("lead");
      const height = (W < 600 ? 230 : small ? 250 : 340) + RUG * rugs.length;
      const h = names ? Math.max(names.length * rowHeight() + 16, 120) : height;
      area = { x: x0, y: top, w: x1 - x0 - side, h: h - RUG * rugs.length, side, rug: RUG * rugs.length };
      const foot = area.y + h;
      svg.setAttribute("viewBox", `0 0 ${W} ${foot + 46}`);
      svg.setAttribute("font-family", "DejaVu Sans,Verdana,sans-serif");
      svg.setAttribute("aria-hidden", "true");

      const grid = { stroke: "currentColor", "stroke-opacity": 0.13 };
      const label = { "font-size": 13, fill: "currentColor", "fill-opacity": 0.8 };
      const name = { "font-size": 13, fill: "currentColor" };
      if (titles[0]) node(svg, "text", { x: 4, y: 15, ...name }, titles[0]);
      if (titles[1]) node(svg, "text", { x: W - 4, y: beside ? 15 : 33, "text-anchor": "end", ...name }, titles[1]);
      for (const t of left) {
        const at = names ? area.y + t.at : py(y, t.at);
        if (!names) node(svg, "path", { d: `M${x0} ${n1(at)}H${x1}`, ...grid });
        node(svg, "text", { x: x0 - 8, y: n1(at + 4), "text-anchor": "end", ...label }, t.label);
      }
      for (const t of right) {
        node(svg, "text", { x: x1 + 8, y: n1(py(figure.right, t.at) + 4), ...label }, t.label);
      }
      for (const t of fitting(x)) {
        const at = n1(px(t.at));
        node(svg, "path", { d: `M${at} ${area.y}V${foot + 4}`, ...grid });
        node(svg, "text", { x: at, y: foot + 19, "text-anchor": "middle", ...label }, t.label);
      }
      node(svg, "path", { d: `M${x0} ${area.y}V${foot}H${x1}`, fill: "none", stroke: "currentColor", "stroke-opacity": 0.6 });
      const most = Math.floor((W - 12) / 7.8), below = shortened(title(x), most), half = measure(below, 13) / 2;
      const middle = Math.min(Math.max(area.x + area.w / 2, half + 6), W - half - 6);
      node(svg, "text", { x: middle, y: foot + 40, "text-anchor": "middle", ...name }, below);

      const clip = node(svg, "clipPath", { id: `clip-${id}` });
      node(clip, "rect", { x: x0, y: area.y, width: x1 - x0, height: h });
      const data = node(svg, "g", { "clip-path": `url(#clip-${id})`, class: "data" });
      figure.series.forEach((s, i) => { if (!hidden.has(i)) series(data, s); });
      if (side) overflow(svg, foot);
      node(svg, "rect", { class: "area", x: area.x, y: area.y, width: area.w, height: h, fill: "#000", "fill-opacity": 0 });
      node(svg, "rect", { class: "band", y: area.y, height: h, x: 0, width: 0, fill: "currentColor", "fill-opacity": 0.15 });
      plot.replaceChildren(svg);
    }

    // Chooses ticks whose labels do not overlap.
    function fitting(axis) {
      if (axis.names?.length) {
        const most = Math.max(Math.floor(area.w / axis.names.length / 8), 3);
        return ticks(axis, 8).map((t) => ({ at: t.at, label: shortened(t.label, most) }));
      }
      for (let most = 8; most >= 2; most--) {
        const list = ticks(axis, most);
        const apart = (t, k) => !k || px(t.at) - px(list[k - 1].at) > (measure(t.label, 13) + measure(list[k - 1].label, 13)) / 2 + 10;
        if (list.every(apart)) return list;
      }
      return ticks(axis, 2).slice(0, 1);
    }

    const px = (v) => area.x + Math.min(Math.max(position(x, v), -5), 6) * area.w;
    const py = (axis, v) => area.y + area.h - Math.min(Math.max(position(axis, v), -5), 6) * area.h;
    const axisOf = (s) => (s.on_right && figure.right ? figure.right : y);
    const rowMiddle = (i) => 8 + rowHeight() * (i + 0.5);
    const ticksOfRows = (names) => names.map((r, i) => ({ at: rowMiddle(i), label: shortened(r.name, W < 600 ? 13 : 26) }));

    // The legend: buttons that hide their series.
    function legend() {
      const named = figure.series.map((s, i) => [s, i]).filter(([s]) => s.name);
      if (keys.childElementCount === 0) {
        for (const [s, i] of named) {
          const key = element(keys, "button", { type: "button", class: "key", "data-series": i });
          node(key, "svg", { width: 26, height: 12, "aria-hidden": "true" });
          element(key, "span", {}, s.name);
        }
      }
      for (const key of keys.children) {
        const i = Number(key.dataset.series), s = figure.series[i], svg = key.firstChild;
        key.classList.toggle("off", hidden.has(i));
        key.setAttribute("aria-pressed", String(!hidden.has(i)));
        svg.replaceChildren();
        if (["line", "step"].includes(s.mark.kind)) node(svg, "path", { d: "M0 6h26", stroke: colour(s.tone), "stroke-width": 2, "stroke-dasharray": dash(s) });
        else if (s.mark.kind === "points") node(svg, "path", { d: "M5 6h0M13 6h0M21 6h0", stroke: colour(s.tone), "stroke-width": 5, "stroke-linecap": "round" });
        else if (s.mark.kind === "rug") node(svg, "path", { d: "M7 1v10M13 1v10M20 1v10", stroke: colour(s.tone), "stroke-width": 2 });
        else node(svg, "rect", { y: 1, width: 26, height: 10, fill: colour(s.tone), "fill-opacity": 0.75 });
      }
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
          const foot = area.y + area.h + RUG * (rugs.indexOf(s) + 1);
          const most = Math.max(...m.stretches.map((t) => t[2]));
          const d = m.stretches.map(([from, to, share]) => {
            const a = px(from), w = Math.max(px(to) - a, 1.4), h = (RUG - 4) * Math.max(share / most, 0.2);
            return `M${n1(a)} ${foot}h${n1(w)}v${n1(-h)}h${n1(-w)}z`;
          }).join("");
          node(g, "path", { d, fill: c });
          break;
        }
        case "band": {
          const [a, b] = [Math.max(m.from, x.lo), Math.min(m.to, x.hi)].map(px);
          if (b <= a) break;
          node(g, "rect", { x: n1(a), y: area.y, width: n1(b - a), height: area.h, fill: c, "fill-opacity": 0.09 });
          node(g, "text", { x: n1((a + b) / 2), y: area.y + 14, "text-anchor": "middle", "font-size": 13, fill: "currentColor" }, m.label);
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
      node(svg, "rect", { x: at + 20, y: n1(top), width: 26, height: n1(base - top), fill: TONES.harm, "fill-opacity": 0.75 });
      const text = { "text-anchor": "middle", "font-size": 13, fill: "currentColor" };
      node(svg, "text", { x: at + 33, y: n1(top - 5), ...text }, `+${group(String(figure.overflow.count))}`);
      node(svg, "text", { x: at + 33, y: foot + 19, ...text }, "beyond");
    }

    // ---- cursor values --------------------------------------------------------------------------

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
          return t ? `${s.name}: ${value("share", t[2])} of the packets here` : null;
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
      // Limit the zoom to a millionth of the range, where numbers run out of digits.
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
      // The wheel scrolls the page; it zooms a figure only if that has the focus.
      const at = where(event);
      if (!inside(at) || (!event.ctrlKey && document.activeElement !== plot)) return;
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
    keys.addEventListener("click", (event) => {
      const key = event.target.closest(".key");
      if (!key) return;
      const i = Number(key.dataset.series);
      if (!hidden.delete(i)) hidden.add(i);
      draw();
    });
    // Draw figures when they become visible, and again when the width or the colours change.
    const show = (again) => { if (plot.clientWidth > 0 && (again || W !== Math.max(plot.clientWidth, 280))) draw(); };
    return { host, show };
  }

  // ---- the page ------------------------------------------------------------------------------

  document.documentElement.classList.add("live");
  const anchor = (id) => `figure-${id.replace(/[^0-9A-Za-z]/g, "-")}`;
  const viewers = figures.map((f) => [f, document.getElementById(anchor(f.id))]).filter(([, host]) => host).map(([f, host]) => viewer(f, host));
  const showAll = (again) => viewers.forEach((v) => v.show(again));

  const pane = document.querySelector(".pane");
  const placed = [...document.querySelectorAll("#drawn > [data-tab]")];
  const tabs = pane ? [...pane.querySelectorAll("[role=tab]")] : [];
  const ways = pane ? [...pane.querySelectorAll("button[data-group]")] : [];
  const pick = pane?.querySelector("select");
  let tab = placed[0]?.dataset.tab, way = placed[0]?.dataset.group;

  function choose() {
    for (const t of tabs) {
      const chosen = t.dataset.tab === tab;
      t.setAttribute("aria-selected", String(chosen));
      t.tabIndex = chosen ? 0 : -1;
    }
    for (const w of ways) w.setAttribute("aria-pressed", String(w.dataset.group === way));
    if (pick) pick.value = tab;
    for (const p of placed) {
      const off = p.dataset.tab !== tab || p.dataset.group !== way;
      p.classList.toggle("off", off);
      if (p.className.includes("none")) p.hidden = off;
    }
    if (tabs.length) document.getElementById("drawn").setAttribute("aria-labelledby", `tab-${tab}`);
    showAll(false);
  }

  // Opens the tab of the figure, or the fold, that the address names.
  function follow() {
    const target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    if (target.tagName === "DETAILS") target.open = true;
    if (target.dataset.tab) ({ tab, group: way } = target.dataset);
    choose();
    target.scrollIntoView();
  }

  tabs.forEach((t, k) => {
    t.addEventListener("click", () => { tab = t.dataset.tab; choose(); });
    t.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: k - 1, ArrowRight: k + 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = tabs[(to + tabs.length) % tabs.length];
      tab = next.dataset.tab;
      choose();
      next.focus();
    });
  });
  for (const w of ways) w.addEventListener("click", () => { way = w.dataset.group; choose(); });
  pick?.addEventListener("change", () => { tab = pick.value; choose(); });
  dark.addEventListener("change", () => { chooseColours(); showAll(true); });
  addEventListener("resize", () => showAll(false));
  addEventListener("hashchange", follow);

  if (pane) {
    pane.hidden = false;
    document.querySelector(".help").hidden = false;
    if (tabs.length) document.getElementById("drawn").setAttribute("role", "tabpanel");
  }
  choose();
  follow();
})();

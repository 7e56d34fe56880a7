// Added to a page by its test: uses every control and writes errors, or `ok`, into the document.
(() => {
  const root = document.documentElement, wrong = window.__wrong;
  const phone = matchMedia("(max-width: 40rem)").matches;
  // Files are stored in memory and pictures are encoded synchronously, so that everything is done when the page has loaded.
  const saved = [];
  const parts = new Map(), made = window.Blob;
  window.Blob = function (list, options) { const blob = new made(list, options); parts.set(blob, list); return blob; };
  URL.createObjectURL = (blob) => { saved.push({ blob }); return "about:blank"; };
  HTMLAnchorElement.prototype.click = function () { saved.at(-1).name = this.download; };
  HTMLCanvasElement.prototype.toBlob = function (done, type) { done(new Blob([atob(this.toDataURL(type).split(",")[1])], { type })); };
  const hosts = [...document.querySelectorAll("figure[id]")];
  const bad = /NaN|Infinity|undefined/;

  function look(text) {
    if (root.scrollWidth > innerWidth) wrong.push(`${text}: the page is wider than the window: ${root.scrollWidth}`);
    for (const e of document.querySelectorAll("body *")) {
      if (e.closest(".static, script, style") || !e.checkVisibility()) continue;
      if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
      const size = parseFloat(getComputedStyle(e).fontSize);
      if (size < 12) wrong.push(`${text}: ${e.tagName} "${e.textContent.slice(0, 20)}" has ${size} px`);
    }
  }

  for (const host of hosts) {
    const id = host.id, plot = host.querySelector(".plot");
    // The address opens the figure's tab.
    location.hash = `#${id}`;
    dispatchEvent(new Event("hashchange"));
    if (!host.checkVisibility()) { wrong.push(`${id}: the address does not show it`); continue; }
    if (host.dataset.tab && document.querySelector("[role=tab]")) {
      const chosen = document.querySelectorAll("[role=tab][aria-selected=true]");
      if (chosen.length !== 1 || chosen[0].dataset.tab !== host.dataset.tab) wrong.push(`${id}: its tab is not marked`);
      if (document.querySelector(".pick select").value !== host.dataset.tab) wrong.push(`${id}: its name in the list is not chosen`);
    }
    const event = (type, at) => plot.dispatchEvent(new PointerEvent(type, { bubbles: true, button: 0, pointerId: 1, clientX: at.x, clientY: at.y }));
    plot.setPointerCapture = () => {};
    const readout = () => host.querySelector(".readout").textContent;
    const check = (what) => {
      const svg = plot.querySelector("svg");
      if (!svg || bad.test(svg.outerHTML)) wrong.push(`${id}: ${what}: bad drawing`);
      if (!svg?.querySelector(".data").childElementCount) wrong.push(`${id}: ${what}: nothing drawn`);
    };
    check("shown");
    for (const text of plot.querySelectorAll("text")) {
      const r = text.getBoundingClientRect(), p = plot.getBoundingClientRect();
      if (r.left < p.left - 1 || r.right > p.right + 1) wrong.push(`${id}: "${text.textContent}" is cut off: ${r.left - p.left} to ${r.right - p.left} of ${p.width}`);
    }
    const box = () => plot.querySelector(".area").getBoundingClientRect();
    const point = (fx, fy) => { const r = box(); return { x: r.left + fx * r.width, y: r.top + fy * r.height }; };
    for (let k = 0; k <= 20; k++) { event("pointermove", point(k / 20, 1 - k / 21)); if (bad.test(readout())) wrong.push(`${id}: readout ${readout()}`); }
    const before = plot.querySelector("svg").outerHTML;
    event("pointerdown", point(0.1, 0.5)); event("pointermove", point(0.4, 0.5)); event("pointerup", point(0.4, 0.5));
    check("zoomed");
    if (before === plot.querySelector("svg").outerHTML) wrong.push(`${id}: zoom did nothing`);
    plot.focus();
    plot.dispatchEvent(new WheelEvent("wheel", { bubbles: true, cancelable: true, deltaY: -1, clientX: point(0.5, 0.5).x, clientY: point(0.5, 0.5).y }));
    for (const key of ["+", "-", "ArrowLeft", "ArrowRight"]) plot.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    check("moved");
    plot.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
    if (before !== plot.querySelector("svg").outerHTML) wrong.push(`${id}: reset did not restore`);
    const key = host.querySelector(".key");
    if (key) {
      key.click();
      if (key.getAttribute("aria-pressed") !== "false" || before === plot.querySelector("svg").outerHTML) wrong.push(`${id}: hiding did nothing`);
      key.click();
      if (before !== plot.querySelector("svg").outerHTML) wrong.push(`${id}: showing again did not restore`);
    }
    for (const kind of ["SVG", "CSV"]) {
      host.querySelector(`[data-save=${kind}]`).click();
      const { blob, name } = saved.pop() ?? {};
      if (name !== `${id.replace("figure-", "")}.${kind.toLowerCase()}`) { wrong.push(`${id}: ${kind} was not saved: ${name}`); continue; }
      const text = parts.get(blob).join("");
      if (bad.test(text)) wrong.push(`${id}: ${kind} has undefined values`);
      if (kind === "SVG" && new DOMParser().parseFromString(text, "image/svg+xml").querySelector("parsererror")) wrong.push(`${id}: no SVG`);
      const rows = text.trim().split("\r\n");
      if (kind === "CSV" && (rows.length < 2 || rows.some((r) => r.replace(/"[^"]*"/g, "").split(",").length !== 9))) wrong.push(`${id}: CSV has ${rows.length} rows`);
    }
  }
  // Pictures are read before the page counts as loaded.
  for (const host of hosts) host.querySelector("[data-save=PNG]").click();

  // Use every tab by mouse and by keyboard, in every direction.
  const tabs = [...document.querySelectorAll("[role=tab]")], ways = [...document.querySelectorAll("button[data-group]")];
  for (const way of ways.length ? ways : [null]) {
    way?.click();
    for (const tab of tabs) {
      tab.click();
      const shown = [...document.querySelectorAll("#drawn > *")].filter((e) => e.checkVisibility());
      if (!shown.length) wrong.push(`${way?.textContent}, ${tab.textContent}: nothing is shown or said`);
      if (shown.some((e) => e.dataset.tab !== tab.dataset.tab || (way && e.dataset.group !== way.dataset.group))) wrong.push(`${tab.textContent}: shows others`);
      look(tab.textContent);
    }
  }
  if (tabs.length) {
    tabs.at(-1).click();
    tabs.at(-1).dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    if (tabs[0].getAttribute("aria-selected") !== "true") wrong.push("arrows do not change the tab");
    const list = document.querySelector(".pick");
    if (list.checkVisibility() !== phone || document.querySelector(".tabs").checkVisibility() === phone) wrong.push("tabs on a screen, a list on a phone");
  }
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  look("unfolded");
  addEventListener("load", () => {
    for (const host of hosts) {
      const png = saved.find((s) => s.name === `${host.id.replace("figure-", "")}.png`);
      const bytes = png ? parts.get(png.blob)[0] : "";
      if (!bytes.startsWith("\x89PNG") || bytes.length < 2000) wrong.push(`${host.id}: no PNG: ${bytes.length} bytes`);
    }
    root.dataset.scheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    root.dataset.driven = wrong.length ? wrong.slice(0, 12).join(" | ") : `ok ${hosts.length}`;
  });
})();

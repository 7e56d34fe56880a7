// The page of a path: the browser's time zone, zooming, and export as a picture. The page is complete without this script.
(() => {
  "use strict";
  const home = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  for (const select of document.querySelectorAll("form[data-zone] select[name=zone]")) {
    if (![...select.options].some((option) => option.value === home)) select.add(new Option(home, home));
  }
  const known = () => document.cookie.split("; ").find((pair) => pair.startsWith("jitlat-zone="));
  const remember = (zone) => {
    document.cookie = `jitlat-zone=${encodeURIComponent(zone)}; path=/; SameSite=Strict; max-age=31536000`;
  };
  const form = document.querySelector("form[data-zone]");
  if (form) {
    form.addEventListener("submit", () => {
      remember(form.elements.zone.value);
      // Empty fields are left out of the address.
      for (const field of form.elements) if (field.value === "" && field.name) field.disabled = true;
    });
    if (!known()) {
      remember(home);
      // Reload only if the cookie was stored; otherwise the page would reload forever.
      const chosen = new URLSearchParams(location.search).has("zone");
      if (known() && home !== form.dataset.zone && !chosen) location.reload();
    }
  }

  for (const hidden of document.querySelectorAll("[data-png], [data-with-script], [data-print]")) hidden.hidden = false;
  new MutationObserver(() => {
    for (const hidden of document.querySelectorAll("[data-png][hidden], [data-with-script][hidden]")) hidden.hidden = false;
  }).observe(document.body, { childList: true, subtree: true });

  // Times on the axis.
  const scale = (svg) => {
    const [from, to, left, right] = ["from", "to", "left", "right"].map((name) => Number(svg.dataset[name]));
    const box = svg.getBoundingClientRect();
    const unit = box.width / svg.viewBox.baseVal.width;
    const inside = (x) => Math.min(right, Math.max(left, (x - box.left) / unit));
    return { from, to, inside, at: (x) => from + (to - from) * ((inside(x) - left) / (right - left)) };
  };
  // The drawing for this width of the window.
  const shown = (parent) => [...parent.querySelectorAll("svg.chart")].find((svg) => svg.getClientRects().length > 0);
  const iso = (ms) => new Date(ms).toISOString().slice(0, 19) + "Z";
  const show = (drawn, from, to) => {
    const least = 1000;
    if (to - from < least) to = from + least;
    location.href = `${drawn.dataset.zoom}&from=${iso(Math.floor(from / 1000) * 1000)}&to=${iso(Math.ceil(to / 1000) * 1000)}`;
  };

  // Drag to zoom; a click still follows the link of the period.
  let drag = null;
  document.addEventListener("pointerdown", (event) => {
    const svg = event.target.closest && event.target.closest(".drawn[data-zoom] svg");
    if (svg && event.button === 0 && event.pointerType !== "touch") drag = { svg, x: event.clientX, rect: null };
  });
  document.addEventListener("pointermove", (event) => {
    if (!drag || Math.abs(event.clientX - drag.x) < 6) return;
    const { svg } = drag;
    const { inside } = scale(svg);
    if (!drag.rect) {
      drag.rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      drag.rect.setAttribute("class", "chosen");
      drag.rect.setAttribute("y", "0");
      drag.rect.setAttribute("height", svg.dataset.bottom);
      svg.append(drag.rect);
    }
    const ends = [inside(drag.x), inside(event.clientX)].sort((a, b) => a - b);
    drag.rect.setAttribute("x", ends[0]);
    drag.rect.setAttribute("width", ends[1] - ends[0]);
  });
  document.addEventListener("pointerup", (event) => {
    const last = drag;
    drag = null;
    if (!last || !last.rect) return;
    last.rect.remove();
    const { at } = scale(last.svg);
    const ends = [at(last.x), at(event.clientX)].sort((a, b) => a - b);
    show(last.svg.closest(".drawn"), ends[0], ends[1]);
    const stop = (click) => click.preventDefault();
    addEventListener("click", stop, { capture: true, once: true });
    setTimeout(() => removeEventListener("click", stop, { capture: true }), 0);
  });
  // The browser's own dragging of links would end a drag.
  document.addEventListener("dragstart", (event) => {
    if (event.target.closest && event.target.closest(".drawn[data-zoom]")) event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    const drawn = event.target.closest && event.target.closest(".drawn[data-zoom]");
    const svg = drawn && shown(drawn);
    if (!svg || event.ctrlKey || event.altKey || event.metaKey) return;
    const { from, to } = scale(svg);
    const quarter = (to - from) / 4;
    const moves = { "+": [1, -1], "-": [-2, 2], ArrowLeft: [-2, -2], ArrowRight: [2, 2] };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    show(drawn, from + move[0] * quarter, to + move[1] * quarter);
  });

  // The drawing as a picture: its styles become attributes, because a picture has no style sheet.
  const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "font-family"];
  const picture = async (svg, name) => {
    const copy = svg.cloneNode(true);
    const [styled, plain] = [svg, copy].map((root) => [root, ...root.querySelectorAll("*")]);
    styled.forEach((element, k) => {
      const style = getComputedStyle(element);
      for (const property of STYLES) plain[k].setAttribute(property, style.getPropertyValue(property));
      if (style.textAnchor === "end") plain[k].setAttribute("text-anchor", "end");
    });
    const { width, height } = svg.viewBox.baseVal;
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    const image = new Image();
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(copy));
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 2 * width;
    canvas.height = 2 * height;
    const context = canvas.getContext("2d");
    context.fillStyle = getComputedStyle(document.body).backgroundColor;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    const link = document.createElement("a");
    link.href = canvas.toDataURL("image/png");
    link.download = name;
    link.click();
    document.documentElement.dataset.png = `${canvas.width}x${canvas.height}`;
  };
  document.addEventListener("click", (event) => {
    const target = event.target.closest && event.target.closest("[data-png], [data-link], [data-print]");
    if (!target) return;
    if (target.dataset.print !== undefined) { print(); return; }
    if (target.dataset.png !== undefined) {
      const svg = shown(target.closest("figure"));
      picture(svg, target.dataset.png).catch(() => { target.textContent = "PNG failed"; });
    } else if (navigator.clipboard) {
      navigator.clipboard.writeText(target.href).then(() => { target.textContent = "Link copied"; }, () => {});
    }
  });
})();

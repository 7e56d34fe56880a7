// Uses the control of a path's page that the fragment of the address names. The test sees the requests that follow.
{
  const root = document.documentElement;
  window.__wrong = [];
  addEventListener("error", (event) => __wrong.push(event.message));
  addEventListener("securitypolicyviolation", (event) => __wrong.push(`fetches ${event.blockedURI}`));
  if (location.hash === "#zone") {
    Intl.DateTimeFormat.prototype.resolvedOptions = () => ({ timeZone: "Asia/Kolkata" });
  }
  const svg = () => [...document.querySelectorAll("svg.chart")].find((one) => one.getClientRects().length > 0);
  const press = (key) => {
    const drawn = document.querySelector(".drawn");
    drawn.focus();
    root.dataset.focus = document.activeElement === drawn;
    drawn.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  };
  const pointer = (name, x) => {
    const box = svg().getBoundingClientRect();
    const at = { clientX: box.left + box.width * x, clientY: box.top + 60 };
    svg().dispatchEvent(new PointerEvent(name, { bubbles: true, button: 0, pointerType: "mouse", ...at }));
  };
  const controls = {
    "#in": () => press("+"),
    "#out": () => press("-"),
    "#earlier": () => press("ArrowLeft"),
    "#later": () => press("ArrowRight"),
    "#drag": () => {
      pointer("pointerdown", 0.4);
      pointer("pointermove", 0.5);
      root.dataset.chosen = document.querySelectorAll("rect.chosen").length;
      pointer("pointermove", 0.6);
      pointer("pointerup", 0.6);
    },
    "#click": () => svg().querySelector("a").dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true })),
    "#show": () => {
      const form = document.querySelector("form[data-zone]");
      form.elements.week.checked = true;
      form.elements.src2.value = "10.0.0.1";
      form.elements.dst2.value = "10.0.0.2";
      form.requestSubmit();
    },
    "#png": () => document.querySelector("[data-png]").click(),
  };
  addEventListener("load", () => {
    if (svg()) {
      root.dataset.from = svg().dataset.from;
      root.dataset.to = svg().dataset.to;
    }
    const control = controls[location.hash];
    if (control) control();
    setTimeout(() => { root.dataset.errors = __wrong.join("; ") || "none"; }, 500);
  });
}

// Fills the form that the fragment of the address names, with the keyboard's means alone: fields, and the key Enter, which submits.
{
  const root = document.documentElement;
  window.__wrong = [];
  addEventListener("error", (event) => __wrong.push(event.message));
  addEventListener("securitypolicyviolation", (event) => __wrong.push(`fetches ${event.blockedURI}`));
  const fill = (form, values) => {
    for (const [name, value] of Object.entries(values)) {
      const field = form.elements[name];
      field.focus();
      if (document.activeElement !== field) __wrong.push(`${name} cannot be reached`);
      if (field.type === "checkbox") field.checked = true;
      else field.value = value;
    }
    form.requestSubmit();
  };
  const of = (action) => [...document.forms].find((form) => new URL(form.action).pathname.startsWith(action));
  const nextMonth = new Date(Date.now() + 30 * 86400e3).toISOString().slice(0, 10);
  const forms = {
    "#acknowledge": () => fill(of("/alerts/1"), { by: "ann", note: "cable ordered" }),
    "#silence": () => fill(of("/alerts"), { by: "ann", for: "3h", note: "new cables", host: "10.0.0.1", from: `${nextMonth}T10:00` }),
    "#now": () => fill([...document.forms].find((form) => form.elements.for), { by: "ann", for: "3h", host: "rome", from: "" }),
    "#end": () => fill(of("/alerts/silences/1/end"), {}),
    "#host": () => fill(of("/run"), { host: "new.example" }),
    "#compare": () => fill(of("/compare"), { src: "10.0.0.1", dst: "10.0.0.2", from: "2026-01-01T00:00:00" }),
    "#report": () => fill(of("/sla"), { month: "2026-10", open: "8", close: "18", workdays: "1" }),
  };
  addEventListener("load", () => {
    const use = forms[location.hash];
    if (use) use();
    setTimeout(() => { root.dataset.errors = __wrong.join("; ") || "none"; }, 300);
  });
}

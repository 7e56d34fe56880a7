// Updates the page when a test is added to the archive. The page is complete without this script.
(() => {
  "use strict";
  const live = document.getElementById("live");
  const parts = document.querySelectorAll("[data-live]");
  if (!live || !parts.length || !window.EventSource) return;
  let loading = false, again = false, over = false;

  async function load() {
    if (loading) { again = true; return; }
    loading = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (!answer.ok) throw new Error(String(answer.status));
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const focused = document.activeElement && document.activeElement.getAttribute("href");
      for (const part of document.querySelectorAll("[data-live]")) {
        const now = page.querySelector(`[data-live="${part.dataset.live}"]`);
        // Unchanged parts stay, with their focus and scroll position.
        if (!now || now.isEqualNode(part)) continue;
        const at = [...part.querySelectorAll(".drawn")].map((drawn) => drawn.scrollLeft);
        part.replaceWith(document.adoptNode(now));
        now.querySelectorAll(".drawn").forEach((drawn, k) => { if (at[k] !== undefined) drawn.scrollLeft = at[k]; });
      }
      if (focused && document.activeElement === document.body) {
        const same = [...document.querySelectorAll("a[href]")].find((a) => a.getAttribute("href") === focused);
        if (same) same.focus();
      }
      live.textContent = over ? "the test has ended" : `updated ${new Date().toISOString().slice(11, 19)}`;
    } catch (e) {
      live.textContent = "update failed";
    }
    loading = false;
    if (again) { again = false; setTimeout(load, over ? 0 : 1000); }
  }

  // A running test has its own events until it is over.
  const own = document.querySelector("[data-events]");
  live.textContent = "connecting";
  const events = new EventSource(own ? own.dataset.events : "/api/v1/events");
  events.addEventListener("open", () => { live.textContent = "live"; });
  events.addEventListener("tests", load);
  events.addEventListener("run", (event) => {
    over = ["ended", "failed"].includes(JSON.parse(event.data).state);
    if (over) events.close();
    load();
  });
  events.addEventListener("error", () => { live.textContent = "no connection"; });

  // A selection takes effect at once and is stored in the address.
  for (const form of document.querySelectorAll("[data-choose]")) {
    form.addEventListener("change", () => {
      history.replaceState(null, "", `${form.getAttribute("action")}?${new URLSearchParams(new FormData(form))}`);
      load();
    });
  }
  // Ages grow even without new tests.
  setInterval(() => { if (!document.hidden) load(); }, 60000);
})();

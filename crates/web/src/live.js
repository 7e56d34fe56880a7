// Loads what is new into the page when a test entered the archive. Everything can be read without it.
(() => {
  "use strict";
  const live = document.getElementById("live");
  const parts = document.querySelectorAll("[data-live]");
  if (!live || !parts.length || !window.EventSource) return;
  let loading = false, again = false;

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
        if (now) part.replaceWith(document.adoptNode(now));
      }
      if (focused && document.activeElement === document.body) {
        const same = [...document.querySelectorAll("a[href]")].find((a) => a.getAttribute("href") === focused);
        if (same) same.focus();
      }
      live.textContent = `updated ${new Date().toISOString().slice(11, 19)}`;
    } catch (e) {
      live.textContent = "not up to date";
    }
    loading = false;
    if (again) { again = false; setTimeout(load, 1000); }
  }

  live.textContent = "connecting";
  const events = new EventSource("/api/v1/events");
  events.addEventListener("open", () => { live.textContent = "live"; });
  events.addEventListener("tests", load);
  events.addEventListener("error", () => { live.textContent = "no connection"; });
  // Ages grow without any test.
  setInterval(() => { if (!document.hidden) load(); }, 60000);
})();

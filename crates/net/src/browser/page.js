"use strict";
// Starts the worker that measures, shows its progress, and opens the report.
const PERIOD = 20;
const BYTES = 80;
const element = (id) => document.getElementById(id);
let worker = null;

element("server").textContent = location.host;

function show(text) {
  element("state").textContent = text;
}

function milliseconds(value) {
  return value === null ? "-" : `${value.toPrecision(3)} ms`;
}

function end(text) {
  worker?.terminate();
  worker = null;
  element("start").disabled = false;
  element("stop").hidden = true;
  show(text);
}

function progress({ sent, packets, answered, last, median, p99 }) {
  element("progress").value = sent / packets;
  element("last").textContent = milliseconds(last);
  element("median").textContent = milliseconds(median);
  element("p99").textContent = milliseconds(p99);
  element("answers").textContent = `${answered} of ${sent}`;
}

function begin(seconds) {
  worker = new Worker("/worker.js");
  worker.onerror = () => end("The measurement could not start: the browser refused its script. Reload the page, then try again.");
  worker.onmessage = ({ data }) => {
    if (data.clock !== undefined) {
      const steps = data.clock < 0 ? "has unknown steps" : `has steps of ${Math.max(1, Math.round(data.clock * 1000))} µs`;
      element("clock").textContent = steps;
    } else if (data.progress) {
      progress(data.progress);
    } else if (data.reporting) {
      show("All requests are sent; the server is making the report.");
    } else if (data.report) {
      end("Opening the report.");
      location.assign(data.report);
    } else if (data.failed) {
      end(`The measurement failed: ${data.failed}`);
    }
  };
  worker.postMessage({ begin: { packets: (seconds * 1000) / PERIOD, period_ms: PERIOD, bytes: BYTES } });
  element("start").disabled = true;
  element("stop").hidden = false;
  element("running").hidden = false;
  element("stop").focus();
  show("Measuring.");
}

element("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!worker) begin(Number(new FormData(event.target).get("seconds")));
});
element("stop").addEventListener("click", () => {
  worker?.postMessage({ stop: true });
  element("start").focus();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) worker?.postMessage({ hidden: true });
});
// A page that the browser shows again from its cache has no running measurement.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) end("");
});

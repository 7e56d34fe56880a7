"use strict";
// Measures round trips over a WebSocket. It runs in a worker, because drawing the page would delay the times that are read here.
const SUBPROTOCOL = "jitlat-browser-1";
/** Time to wait for the last answers, in ms. */
const TIMEOUT = 2000;
/** Time between two messages to the page, in ms. */
const SHOWN_EVERY = 200;

let hidden = false;
let stop = () => {};

onmessage = ({ data }) => {
  if (data.begin) measure(data.begin);
  if (data.stop) stop();
  if (data.hidden) hidden = true;
};

/** Returns the smallest step of the clock within 20 ms, in ms; -1 if it did not advance. */
function clockStep() {
  let smallest = -1;
  const end = performance.now() + 20;
  let last = performance.now();
  for (let tries = 0; tries < 1e6 && last < end; tries += 1) {
    const now = performance.now();
    if (now > last && (smallest < 0 || now - last < smallest)) smallest = now - last;
    last = now;
  }
  return smallest;
}

function measure(plan) {
  const resolution = clockStep();
  postMessage({ clock: resolution });
  const url = new URL("/test", location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(url, SUBPROTOCOL);
  socket.binaryType = "arraybuffer";
  const request = new Uint8Array(plan.bytes);
  const number = new DataView(request.buffer);
  const sent = [];
  const returned = [];
  const answers = [];
  let start = 0;
  let due = 0;
  let timer = 0;
  let stopped = false;
  let reported = false;
  let over = false;

  function fail(why) {
    if (over) return;
    over = true;
    clearTimeout(timer);
    postMessage({ failed: why });
  }

  function report() {
    if (reported) return;
    reported = true;
    clearTimeout(timer);
    clearInterval(shown);
    progress();
    const round = (ms) => Math.round(ms * 1e4) / 1e4;
    const row = (at, seq) => [seq, round(at), returned[seq] === undefined ? null : round(returned[seq])];
    socket.send(JSON.stringify({ rows: sent.map(row), resolution_ms: resolution, hidden, stopped }));
    postMessage({ reporting: true });
  }

  function next() {
    const now = performance.now() - start;
    number.setUint32(0, sent.length);
    sent.push(now);
    socket.send(request);
    if (sent.length === plan.packets || stopped) {
      timer = setTimeout(report, TIMEOUT);
    } else {
      // Overdue requests are not sent in one burst, because the requests of a burst would delay each other.
      due = Math.max(due + plan.period_ms, now);
      timer = setTimeout(next, Math.max(0, due - (performance.now() - start)));
    }
  }

  stop = () => {
    if (reported) return fail("it was stopped before the report was ready.");
    if (start === 0) return fail("it was stopped before the first request.");
    stopped = true;
    clearTimeout(timer);
    timer = setTimeout(report, answers.length < sent.length ? TIMEOUT : 0);
  };

  function progress() {
    const sorted = Float64Array.from(answers).sort();
    const at = (share) => (sorted.length === 0 ? null : sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]);
    const last = answers.length === 0 ? null : answers[answers.length - 1];
    const { packets } = plan;
    postMessage({ progress: { sent: sent.length, packets, answered: answers.length, last, median: at(0.5), p99: at(0.99) } });
  }
  const shown = setInterval(() => start > 0 && progress(), SHOWN_EVERY);

  socket.onopen = () => socket.send(JSON.stringify(plan));
  socket.onmessage = ({ data }) => {
    const now = performance.now() - start;
    if (typeof data !== "string") {
      const seq = new DataView(data).getUint32(0);
      if (reported || returned[seq] !== undefined || sent[seq] === undefined) return;
      returned[seq] = now;
      answers.push(now - sent[seq]);
      const done = stopped || sent.length === plan.packets;
      if (done && answers.length === sent.length) report();
      return;
    }
    const message = JSON.parse(data);
    if (message.ready) {
      start = performance.now();
      next();
    } else if (message.report) {
      over = true;
      postMessage({ report: message.report });
    }
  };
  socket.onclose = ({ reason }) => {
    clearInterval(shown);
    fail(`${reason || "the server closed the connection, or cannot be reached; it may have too many visitors"}.`);
  };
}

//! [`WatchedRun`]: what is known of a test under way, as those see it who watch.

use super::feed::{LiveRun, RunStatus};
use jitlat_core::live::{FigureSource, LivePhase, LiveState, StreamState, summary};
use jitlat_core::observer::Event;
use jitlat_core::summary::Summary;
use jitlat_core::twoway::{RecordView, project};
use jitlat_core::{PacketRecord, SteadyTime};
use jitlat_report::figure::{Figure, LIVE_PLOTS, LivePlot, LiveStream, Trace};
use serde::Serialize;

/// What is known of a test.
#[derive(Debug)]
pub struct WatchedRun {
    pub state: LiveState,
    /// Of each stream the packets that arrived here, for figures; `None` before the first.
    traces: Vec<Option<Box<Trace>>>,
}

impl WatchedRun {
    pub fn new(host: &str) -> WatchedRun {
        WatchedRun { state: LiveState::new(host).judged_by(jitlat_verdict::judge()), traces: Vec::new() }
    }

    pub fn event(&mut self, event: &Event<'_>, now: SteadyTime) {
        match *event {
            Event::Started(sessions) => self.traces = sessions.iter().map(|_| None).collect(),
            Event::Arrived { stream, records } => self.arrived(stream, records),
            Event::Records { stream, records, .. } => {
                // What the far host has said of it so far gives way to the packets themselves.
                if let Some((state, None)) = self.state.streams.get_mut(stream).zip(self.traces.get(stream)) {
                    let mut fresh = StreamState::new(&state.session, now);
                    fresh.progress = state.progress;
                    *state = fresh;
                }
                self.arrived(stream, records);
                return self.state.event(&Event::Arrived { stream, records }, now);
            }
            _ => {}
        }
        self.state.event(event, now);
    }

    fn arrived(&mut self, stream: usize, records: &[PacketRecord]) {
        let Some((trace, state)) = self.traces.get_mut(stream).zip(self.state.streams.get(stream)) else {
            return;
        };
        let trace = trace.get_or_insert_with(|| Box::new(Trace::new(&state.session)));
        let two_way = state.is_two_way();
        for record in records {
            let one_way = if two_way { project(record, RecordView::RoundTrip) } else { Some(*record) };
            let Some(record) = one_way.filter(|r| r.seq >= 0 && r.flags.is_clean()) else { continue };
            if let (Some(sent), Some(delay), Ok(seq)) =
                (record.sent(), record.delay(), u32::try_from(record.seq))
            {
                trace.accept(seq, sent.0, delay.0);
            }
        }
    }

    /// The analysis so far of each stream whose packets arrive here.
    pub fn summaries(&self) -> Vec<Option<Summary>> {
        self.state.streams.iter().map(|s| s.analysis().map(summary)).collect()
    }

    /// The figures of a plot.
    pub fn figures(&self, plot: &LivePlot) -> Vec<Figure> {
        let summaries = self.summaries();
        let streams: Vec<LiveStream<'_>> = (self.state.streams.iter().zip(&self.traces).zip(&summaries))
            .map(|((state, trace), summary)| LiveStream {
                label: state.label(),
                state,
                seen: summary.as_ref().zip(trace.as_deref()),
            })
            .collect();
        (plot.draw)(&streams)
    }
}

/// The plot of a name; the first for none.
pub fn plot(name: Option<&str>) -> Option<&'static LivePlot> {
    match name {
        None => LIVE_PLOTS.first(),
        Some(name) => LIVE_PLOTS.iter().find(|plot| plot.id == name),
    }
}

/// A test, now.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunNow {
    /// Its name in addresses.
    pub id: String,
    /// The far host.
    pub host: String,
    /// What it is, in words.
    pub about: String,
    /// When it was asked for, ns since 1970.
    pub created_ns: i64,
    /// How far it is.
    pub state: RunState,
    /// What is being done, or why there is no result, in a sentence.
    pub said: String,
    /// When it starts, ns since 1970; null once it has.
    pub starts_ns: Option<i64>,
    /// Seconds since its streams began; null before.
    pub elapsed_s: Option<f64>,
    /// Seconds that they take in all.
    pub duration_s: f64,
    /// The share of its packets that are sent or received; null before.
    pub done: Option<f64>,
    /// Its streams; empty before they begin.
    pub streams: Vec<RunStream>,
    /// Once it has ended, the tests of the archive that have its results.
    pub tests: Vec<String>,
}

/// How far a test is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// It waits for its time.
    Waiting,
    /// The far host is called, or the clocks are measured.
    Preparing,
    /// Packets fly.
    Running,
    /// Packets have been sent, and results are fetched and kept.
    Collecting,
    /// It is in the archive.
    Ended,
    /// There is no result.
    Failed,
}

/// A stream of a test under way. Figures are of what has arrived so far, and null before anything has.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunStream {
    /// `to server`, `from server`, `round trip`.
    pub name: &'static str,
    /// Packets to be sent in all.
    pub packets: u32,
    /// Packets sent so far; null if the far host sends.
    pub sent: Option<u32>,
    /// Packets received so far; null if the far host receives and has not said how many.
    pub received: Option<u64>,
    /// Packets missing below the highest number received; some may still arrive.
    pub missing: Option<u64>,
    /// Missing of those sent as far as is known.
    pub loss: Option<f64>,
    /// Smallest delay, ns.
    pub delay_min_ns: Option<i64>,
    /// Median delay, ns.
    pub delay_median_ns: Option<i64>,
    /// 99th percentile of the delay, ns.
    pub delay_p99_ns: Option<i64>,
    /// Whether delays contain the difference of the two hosts' clocks, because it is not known well enough.
    pub raw: bool,
    /// Inter-arrival jitter of RFC 3550, ns.
    pub jitter_ns: Option<i64>,
    /// Whether the figures are what the far host reports, once a second.
    pub reported: bool,
    /// Seconds for which nothing has been received, if that is long.
    pub silence_s: Option<f64>,
    /// The answer so far, in a sentence; null where packets do not arrive here.
    pub answer: Option<String>,
    /// How bad that is: good, fair, poor, bad or unknown.
    pub severity: Option<&'static str>,
}

impl RunStream {
    fn new(state: &StreamState, summary: Option<&Summary>, now: SteadyTime) -> RunStream {
        let (figures, shift, progress) = (state.figures(), state.shift(), &state.progress);
        let delay = |of: Option<i64>| of.map(|delay| delay.saturating_sub(shift));
        let answer = summary.and_then(|summary| summary.answer.as_ref());
        RunStream {
            name: state.label(),
            packets: progress.packets,
            sent: (state.is_two_way() || !state.is_received()).then_some(progress.sent),
            received: figures.map(|f| f.received),
            missing: figures.map(|f| f.missing),
            loss: figures.and_then(|f| f.loss_pct()).map(|percent| percent / 100.0),
            delay_min_ns: delay(figures.and_then(|f| f.fastest())),
            delay_median_ns: delay(figures.and_then(|f| f.median())),
            delay_p99_ns: delay(figures.and_then(|f| f.p99())),
            raw: !state.is_two_way() && shift == 0,
            jitter_ns: figures.and_then(|f| f.jitter).map(|jitter| jitter.0),
            reported: state.known() != FigureSource::Here,
            silence_s: state.silence(now),
            answer: answer.map(|answer| answer.headline.clone()),
            severity: answer.map(|answer| answer.severity.name()),
        }
    }
}

impl RunNow {
    /// What is known of `run`.
    pub fn of(run: &LiveRun) -> RunNow {
        let status = run.status();
        let watched = run.look();
        let (live, now) = (&watched.state, run.now());
        let over = matches!(status, RunStatus::Ended(_) | RunStatus::Failed(_));
        let (state, said) = said(&status, &live.phase);
        let summaries = watched.summaries();
        let streams: Vec<RunStream> = (live.streams.iter().zip(&summaries))
            .map(|(stream, summary)| RunStream {
                silence_s: stream.silence(now).filter(|_| !over),
                ..RunStream::new(stream, summary.as_ref(), now)
            })
            .collect();
        let progress = || live.streams.iter().map(|s| &s.progress);
        let all: u64 = progress().map(|p| u64::from(p.packets)).sum();
        let done: u64 = progress().map(|p| u64::from(p.sent.max(p.received))).sum();
        RunNow {
            id: run.id.clone(),
            host: run.wish.host.clone(),
            about: run.planned.about.clone(),
            created_ns: run.created_ns,
            state,
            said,
            starts_ns: match status {
                RunStatus::Waiting(at) => Some(at),
                _ => None,
            },
            elapsed_s: live.elapsed(now),
            duration_s: run.planned.duration_ns as f64 / 1e9,
            done: (all > 0).then(|| (done as f64 / all as f64).min(1.0)),
            streams,
            tests: match &status {
                RunStatus::Ended(tests) => tests.iter().map(ToString::to_string).collect(),
                _ => Vec::new(),
            },
        }
    }
}

fn said(status: &RunStatus, phase: &LivePhase) -> (RunState, String) {
    let text = |state, text: &str| (state, text.to_owned());
    match (status, phase) {
        (RunStatus::Asked, _) => text(RunState::Waiting, "It is about to start."),
        (RunStatus::Waiting(_), _) => text(
            RunState::Waiting,
            "It starts in the next gap of the timetable, in which it disturbs no other test.",
        ),
        (RunStatus::Failed(why), _) => (RunState::Failed, why.clone()),
        (RunStatus::Ended(_), _) => text(RunState::Ended, "It has ended; the report is in the archive."),
        (_, LivePhase::Waiting) => text(RunState::Preparing, "It starts."),
        (_, LivePhase::Connecting(address, false)) => (RunState::Preparing, format!("{address} is called.")),
        (_, LivePhase::Connecting(address, true)) => {
            (RunState::Preparing, format!("{address} has not answered yet; it is still called."))
        }
        (_, LivePhase::Probing(done, of)) => {
            (RunState::Preparing, format!("The clocks are compared: {done} of {of} probes are answered."))
        }
        (_, LivePhase::Running) => text(RunState::Running, "Packets are sent."),
        (_, LivePhase::Collecting(done, of)) => {
            (RunState::Collecting, format!("Results are fetched from the far host: {done} of {of}."))
        }
        (_, LivePhase::Over | LivePhase::Failed(_)) => {
            text(RunState::Collecting, "The result is put into the archive.")
        }
    }
}

//! [`WatchedRun`]: state of a running test as shown to its watchers.

use super::feed::{LiveRun, RunStatus};
use jitlat_core::live::{FigureSource, LivePhase, LiveState, StreamState, summary};
use jitlat_core::observer::Event;
use jitlat_core::summary::Summary;
use jitlat_core::twoway::{RecordView, project};
use jitlat_core::{PacketRecord, SteadyTime};
use jitlat_report::figure::{Figure, LIVE_PLOTS, LivePlot, LiveStream, Trace};
use serde::Serialize;

/// State of a running test.
#[derive(Debug)]
pub struct WatchedRun {
    pub state: LiveState,
    /// Packets of each stream that arrived at this host, for figures; `None` before the first packet.
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
                // From now on, the packets themselves replace the far host's reports.
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

    /// Returns the analysis so far of each stream; `None` for a stream whose packets do not arrive at this host.
    pub fn summaries(&self) -> Vec<Option<Summary>> {
        self.state.streams.iter().map(|s| s.analysis().map(summary)).collect()
    }

    /// Returns the figures of a plot.
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

/// Returns the plot with the id `name`, or the first plot if no name is given; `None` if the id is unknown.
pub fn plot(name: Option<&str>) -> Option<&'static LivePlot> {
    match name {
        None => LIVE_PLOTS.first(),
        Some(name) => LIVE_PLOTS.iter().find(|plot| plot.id == name),
    }
}

/// Current state of a test.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunNow {
    /// Id of the test, as in addresses.
    pub id: String,
    /// Name of the far host.
    pub host: String,
    /// Description of the test.
    pub about: String,
    /// Time of the request, ns since 1970.
    pub created_ns: i64,
    /// Progress of the test.
    pub state: RunState,
    /// Current activity, or the reason why there is no result, as a sentence.
    pub said: String,
    /// Time at which the test will start, ns since 1970; null once it has started.
    pub starts_ns: Option<i64>,
    /// Seconds since the streams started; null before.
    pub elapsed_s: Option<f64>,
    /// Duration of the streams in seconds.
    pub duration_s: f64,
    /// Share of the test's packets that are sent or received; null before it starts.
    pub done: Option<f64>,
    /// Streams of the test; empty before they start.
    pub streams: Vec<RunStream>,
    /// Test numbers of the results in the archive; empty before the test has ended.
    pub tests: Vec<String>,
}

/// Progress of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Waiting for its start.
    Waiting,
    /// Connecting to the far host, or measuring the clocks.
    Preparing,
    /// Sending packets.
    Running,
    /// All packets were sent; results are fetched and stored.
    Collecting,
    /// Ended; its results are in the archive.
    Ended,
    /// Ended without a result.
    Failed,
}

/// A stream of a running test. Figures describe the packets so far, and are null before the first.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunStream {
    /// `up` (to the far host), `down` (from the far host) or `round trip`.
    pub name: &'static str,
    /// Total number of packets to be sent.
    pub packets: u32,
    /// Number of packets sent so far; null if the far host sends.
    pub sent: Option<u32>,
    /// Number of packets received so far; null if the far host receives and has not reported it.
    pub received: Option<u64>,
    /// Number of packets missing below the highest number received; some may still arrive.
    pub missing: Option<u64>,
    /// Share of packets lost, among those known to be received or lost.
    pub loss: Option<f64>,
    /// Smallest delay, ns.
    pub delay_min_ns: Option<i64>,
    /// Median delay, ns.
    pub delay_median_ns: Option<i64>,
    /// 99th percentile of the delay, ns.
    pub delay_p99_ns: Option<i64>,
    /// True if delays include the clock offset between the two hosts, because it is not known precisely enough.
    pub raw: bool,
    /// Inter-arrival jitter of RFC 3550, ns.
    pub jitter_ns: Option<i64>,
    /// True if the figures are reported by the far host, once per second.
    pub reported: bool,
    /// Seconds since the last arrival; null if it is recent.
    pub silence_s: Option<f64>,
    /// Verdict so far, as a sentence; null if packets do not arrive at this host.
    pub answer: Option<String>,
    /// Severity of the verdict: good, fair, poor, bad or unknown.
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
    /// Returns the current state of `run`.
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
            host: run.wanted_test.host.clone(),
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
        (RunStatus::Asked, _) => text(RunState::Waiting, "About to start."),
        (RunStatus::Waiting(_), _) => text(
            RunState::Waiting,
            "Waiting for the next gap in the timetable, where it disturbs no other test.",
        ),
        (RunStatus::Failed(why), _) => (RunState::Failed, why.clone()),
        (RunStatus::Ended(_), _) => text(RunState::Ended, "Ended; the report is in the archive."),
        (RunStatus::UnderLoad, LivePhase::Running) => text(RunState::Running, "Sending packets under load."),
        (RunStatus::UnderLoad, LivePhase::Over) => {
            text(RunState::Preparing, "Measured idle. The load is starting, or the result is being stored.")
        }
        (_, LivePhase::Waiting) => text(RunState::Preparing, "Starting."),
        (_, LivePhase::Connecting(address, false)) => {
            (RunState::Preparing, format!("Connecting to {address}."))
        }
        (_, LivePhase::Connecting(address, true)) => {
            (RunState::Preparing, format!("Connecting to {address}: no answer yet."))
        }
        (_, LivePhase::Probing(done, of)) => {
            (RunState::Preparing, format!("Comparing the clocks: {done} of {of} probes answered."))
        }
        (_, LivePhase::Running) => text(RunState::Running, "Sending packets."),
        (_, LivePhase::Collecting(done, of)) => {
            (RunState::Collecting, format!("Fetching results from the far host: {done} of {of}."))
        }
        (_, LivePhase::Over | LivePhase::Failed(_)) => {
            text(RunState::Collecting, "Storing the result in the archive.")
        }
    }
}

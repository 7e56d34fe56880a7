//! [`LiveState`]: everything that a live view displays about one test, updated by events. Pure: time is an argument.

use super::stream::StreamState;
use crate::SteadyTime;
use crate::evidence::SharedJudge;
use crate::observer::Event;

/// Phase of a test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LivePhase {
    /// The test has not begun.
    #[default]
    Waiting,
    /// Connecting to this address; the flag is true after 2 s without an answer.
    Connecting(String, bool),
    /// Measuring the clock offset: number of probes answered, and number of all probes.
    Probing(u32, u32),
    /// Packets are being sent.
    Running,
    /// Collecting results: number of records so far, and number of all records.
    Collecting(u64, u64),
    /// The test has ended.
    Over,
    /// The test failed for this reason.
    Failed(String),
}

/// Live state of a test.
#[derive(Clone, Debug, Default)]
pub struct LiveState {
    /// Name of the far host or of the log.
    pub name: String,
    /// Current phase.
    pub phase: LivePhase,
    /// Streams, in the order of the sessions.
    pub streams: Vec<StreamState>,
    /// Time at which the streams began; `None` before they begin.
    pub begun: Option<SteadyTime>,
    /// Time at which the end of the streams was noticed; `None` until then.
    pub ended: Option<SteadyTime>,
    /// Judge of the packets received so far; `None` = no verdict.
    judge: Option<SharedJudge>,
}

impl LiveState {
    /// Creates the state of a test with the host `name`, or of a log with this name.
    pub fn new(name: impl Into<String>) -> LiveState {
        LiveState { name: name.into(), ..LiveState::default() }
    }

    /// Sets the judge of the packets received so far.
    pub fn judged_by(mut self, judge: SharedJudge) -> LiveState {
        self.judge = Some(judge);
        self
    }

    /// Updates the state with an event that happened at `now`.
    pub fn event(&mut self, event: &Event<'_>, now: SteadyTime) {
        match *event {
            Event::Connecting(address) => self.phase = LivePhase::Connecting(address.to_string(), false),
            Event::Unanswered(address) => self.phase = LivePhase::Connecting(address.to_string(), true),
            Event::Probing { done, of } => self.phase = LivePhase::Probing(done, of),
            Event::Started(sessions) => {
                self.phase = LivePhase::Running;
                self.begun.get_or_insert(now);
                let begun = |session| {
                    let mut stream = StreamState::new(session, now);
                    stream.judge.clone_from(&self.judge);
                    stream
                };
                self.streams = sessions.iter().map(begun).collect();
            }
            Event::Progress(progress) => {
                for (stream, progress) in self.streams.iter_mut().zip(progress) {
                    stream.progress = *progress;
                }
            }
            Event::Arrived { stream, records } => {
                if let Some(stream) = self.streams.get_mut(stream) {
                    stream.arrived(records, now);
                }
            }
            Event::Missed { stream, packets } => {
                if let Some(stream) = self.streams.get_mut(stream) {
                    stream.overlooked += packets;
                }
            }
            Event::FarReceived { stream, so_far } => {
                if let Some(stream) = self.streams.get_mut(stream) {
                    stream.far_received(so_far, now);
                }
            }
            Event::Collecting { done, of, .. } => {
                self.ended.get_or_insert(now);
                self.phase = LivePhase::Collecting(done, of);
            }
            Event::Concluding(sessions) | Event::Finished(sessions) => {
                self.ended.get_or_insert(now);
                if matches!(event, Event::Finished(_)) {
                    self.phase = LivePhase::Over;
                }
                for (stream, session) in self.streams.iter_mut().zip(sessions) {
                    stream.session = session.clone();
                }
            }
            _ => {}
        }
    }

    /// Returns the time from the start of the streams to their end, or to `now` while they run, in seconds; `None`
    /// before they begin.
    pub fn elapsed(&self, now: SteadyTime) -> Option<f64> {
        let end = self.ended.unwrap_or(now);
        Some((end - self.begun?).0.max(0) as f64 / 1e9)
    }

    /// Returns the time covered by the streams so far, in ns; at least one second.
    pub fn end(&self, now: SteadyTime) -> i64 {
        let covered = self.streams.iter().map(|stream| stream.history.end()).max().unwrap_or(0);
        let elapsed = match (self.begun, self.ended) {
            (Some(begun), None) => (now - begun).0,
            _ => 0,
        };
        covered.max(elapsed).max(1_000_000_000)
    }

    /// Returns the planned duration of the streams, in ns; `None` if it depends on the path.
    pub fn planned(&self) -> Option<i64> {
        let planned = |s: &StreamState| s.session.period_known.then(|| s.session.spec.duration().0);
        self.streams.iter().map(planned).collect::<Option<Vec<i64>>>()?.into_iter().max()
    }
}

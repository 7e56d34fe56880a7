//! [`LiveState`]: everything shown of one test, fed by its events. Pure: time is an argument.

use super::stream::StreamState;
use crate::SteadyTime;
use crate::evidence::SharedJudge;
use crate::observer::Event;

/// How far a test is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LivePhase {
    /// Nothing has happened.
    #[default]
    Waiting,
    /// The far host is called, at this address; true: for long.
    Connecting(String, bool),
    /// The clocks are measured: probes answered, and of how many.
    Probing(u32, u32),
    /// Packets fly.
    Running,
    /// The results are collected: so many, of how many.
    Collecting(u64, u64),
    /// It has ended.
    Over,
    /// It failed, for this reason.
    Failed(String),
}

/// What is known of a test.
#[derive(Clone, Debug, Default)]
pub struct LiveState {
    /// The far host, or the log.
    pub name: String,
    /// How far it is.
    pub phase: LivePhase,
    /// Streams in the order of the sessions.
    pub streams: Vec<StreamState>,
    /// When the streams began; `None` before.
    pub begun: Option<SteadyTime>,
    /// When their end was noticed; `None` before.
    pub ended: Option<SteadyTime>,
    /// Judges what has arrived so far; `None`: nobody does.
    judge: Option<SharedJudge>,
}

impl LiveState {
    /// Of a test of the host `name`, or of a log of this name.
    pub fn new(name: impl Into<String>) -> LiveState {
        LiveState { name: name.into(), ..LiveState::default() }
    }

    /// The same, with an answer of `judge` on what has arrived so far.
    pub fn judged_by(mut self, judge: SharedJudge) -> LiveState {
        self.judge = Some(judge);
        self
    }

    /// What happened at `now`.
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

    /// Seconds since the streams began, until they ended or `now`.
    pub fn elapsed(&self, now: SteadyTime) -> Option<f64> {
        let end = self.ended.unwrap_or(now);
        Some((end - self.begun?).0.max(0) as f64 / 1e9)
    }

    /// The time that its streams cover so far, ns, at least one second.
    pub fn end(&self, now: SteadyTime) -> i64 {
        let covered = self.streams.iter().map(|stream| stream.history.end()).max().unwrap_or(0);
        let elapsed = match (self.begun, self.ended) {
            (Some(begun), None) => (now - begun).0,
            _ => 0,
        };
        covered.max(elapsed).max(1_000_000_000)
    }

    /// Of how long the streams are to take, ns; `None` if that depends on the path.
    pub fn planned(&self) -> Option<i64> {
        let planned = |s: &StreamState| s.session.period_known.then(|| s.session.spec.duration().0);
        self.streams.iter().map(planned).collect::<Option<Vec<i64>>>()?.into_iter().max()
    }
}

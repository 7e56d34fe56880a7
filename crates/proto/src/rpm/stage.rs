//! [`LoadStage`]: adds load and probes until goodput and responsiveness are stable.

use super::score::{ForeignTimes, TrimmedMeans, is_stable};
use super::{LoadDirections, PAIR_BYTES, RpmParameters};
use jitlat_core::time::SECOND;
use jitlat_core::{Direction, Span, SteadyTime};
use std::collections::VecDeque;

/// Maximum number of probes of one kind without an answer; further ones are skipped. With a queue of a second on the
/// path, a hundred handshakes would wait in it.
const MAX_OUTSTANDING: u32 = 50;
/// Number of probes in succession whose failure ends the stage.
const MAX_FAILURES: u32 = 10;
/// Least number of probes per second, also on paths of which they use more than their share.
const MIN_PROBE_RATE: f64 = 2.0;

/// Kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// A request on a connection of its own.
    Foreign,
    /// A request on a load-generating connection, which the driver chooses at random.
    Own,
}

/// Request to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageCommand {
    /// Open a load-generating connection in this direction.
    Connect(Direction),
    /// Send a probe.
    Probe(ProbeKind),
}

/// Times of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeTimes {
    /// Times of a foreign probe.
    Foreign(ForeignTimes),
    /// Time from the request to the end of the answer.
    Own(Span),
}

impl ProbeTimes {
    /// Returns the kind of the probe.
    pub fn kind(&self) -> ProbeKind {
        match self {
            ProbeTimes::Foreign(_) => ProbeKind::Foreign,
            ProbeTimes::Own(_) => ProbeKind::Own,
        }
    }
}

/// A probe that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnsweredProbe {
    /// Time at which the probe began.
    pub began: SteadyTime,
    /// Time at which its answer was complete.
    pub ended: SteadyTime,
    /// Times of its parts.
    pub times: ProbeTimes,
}

/// Reliability of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Too few intervals for a test of stability.
    Low,
    /// Enough intervals, but not stable.
    Medium,
    /// Stable.
    High,
}

impl Confidence {
    fn of(stable: bool, values: usize, enough: usize) -> Confidence {
        match (stable, values >= enough) {
            (true, _) => Confidence::High,
            (false, true) => Confidence::Medium,
            (false, false) => Confidence::Low,
        }
    }

    /// Returns the name in lowercase.
    pub fn name(self) -> &'static str {
        match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }
}

/// End of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageEnd {
    /// Goodput and responsiveness were stable.
    Stable,
    /// The time limit was reached first.
    TimeLimit,
    /// The user ended the stage.
    Interrupted,
    /// A connection failed, with the reason.
    Failed(String),
}

/// Goodput in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goodput {
    /// Direction.
    pub direction: Direction,
    /// Bits per second in the interval.
    pub bps: f64,
    /// Bits per second in the moving average.
    pub average_bps: f64,
    /// Number of load-generating connections at the end of the interval.
    pub connections: usize,
}

/// One interval of a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageInterval {
    /// Start, since the start of the stage.
    pub start: Span,
    /// Duration.
    pub duration: Span,
    /// Goodput in each direction of the load.
    pub goodput: Vec<Goodput>,
    /// True if goodput is stable at the end of the interval.
    pub saturated: bool,
    /// Round trips per minute, from the probes of the moving window; `None` without probes of both kinds.
    pub rpm: Option<f64>,
}

/// Number of probes of one kind by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeCounts {
    /// Number of probes sent.
    pub sent: u32,
    /// Number of probes answered.
    pub answered: u32,
    /// Number of probes that failed.
    pub failed: u32,
    /// Number of probes that were not sent because too many others had no answer yet.
    pub skipped: u32,
}

impl ProbeCounts {
    /// Number of probes that have neither been answered nor failed.
    pub fn outstanding(&self) -> u32 {
        self.sent.saturating_sub(self.answered + self.failed)
    }
}

/// Result of a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageOutcome {
    /// Directions of the load.
    pub load: LoadDirections,
    /// Time at which the stage began.
    pub began: SteadyTime,
    /// Duration.
    pub duration: Span,
    /// End of the stage.
    pub end: StageEnd,
    /// Trimmed means of the probes that count, those that began at or after `counted_from`.
    pub means: TrimmedMeans,
    /// Start of the window of probes that count.
    pub counted_from: SteadyTime,
    /// Goodput at the end.
    pub goodput: Vec<Goodput>,
    /// Reliability of the goodput.
    pub goodput_confidence: Confidence,
    /// Reliability of the responsiveness.
    pub confidence: Confidence,
    /// All intervals.
    pub intervals: Vec<StageInterval>,
    /// All probes that were answered, in the order of their ends.
    pub probes: Vec<AnsweredProbe>,
    /// Foreign probes by outcome.
    pub foreign: ProbeCounts,
    /// Self probes by outcome.
    pub own: ProbeCounts,
}

impl StageOutcome {
    /// Returns round trips per minute; `None` without probes of both kinds.
    pub fn rpm(&self) -> Option<f64> {
        self.means.rpm()
    }
}

/// Load in one direction.
#[derive(Clone, Debug)]
struct DirectionLoad {
    direction: Direction,
    /// Number of connections requested from the driver.
    connections: usize,
    /// Bytes transferred until the end of the last interval.
    total: u64,
    /// Bytes transferred in each interval.
    bytes: Vec<u64>,
    /// Moving average at the end of each interval, in bits per second.
    averages: Vec<f64>,
}

/// A stage: load in one direction or both, with probes.
#[derive(Clone, Debug)]
pub struct LoadStage {
    parameters: RpmParameters,
    load: LoadDirections,
    began: SteadyTime,
    interval_began: SteadyTime,
    interval_ends: SteadyTime,
    next_probe: SteadyTime,
    next_kind: ProbeKind,
    is_connected: bool,
    loads: Vec<DirectionLoad>,
    durations: Vec<Span>,
    intervals: Vec<StageInterval>,
    saturated_at: Option<SteadyTime>,
    /// Round trips per minute after goodput became stable, by interval.
    values: Vec<f64>,
    window_from: SteadyTime,
    probes: Vec<AnsweredProbe>,
    foreign: ProbeCounts,
    own: ProbeCounts,
    failures: u32,
    commands: VecDeque<StageCommand>,
    end: Option<(SteadyTime, StageEnd)>,
}

impl LoadStage {
    /// Begins a stage at `now`. Parameters below their limits are raised to them.
    pub fn new(given: RpmParameters, load: LoadDirections, now: SteadyTime) -> LoadStage {
        let parameters = RpmParameters {
            interval: given.interval.max(Span::millis(100)),
            averaged: given.averaged.max(1),
            initial_connections: given.initial_connections.max(1),
            max_connections: given.max_connections.max(1),
            probes_per_second: given.probes_per_second.max(1),
            ..given
        };
        let loads = load.directions().iter().map(|&direction| DirectionLoad {
            direction,
            connections: 0,
            total: 0,
            bytes: Vec::new(),
            averages: Vec::new(),
        });
        let mut stage = LoadStage {
            load,
            began: now,
            interval_began: now,
            interval_ends: now + parameters.interval,
            next_probe: now,
            next_kind: ProbeKind::Foreign,
            is_connected: false,
            loads: loads.collect(),
            durations: Vec::new(),
            intervals: Vec::new(),
            saturated_at: None,
            values: Vec::new(),
            window_from: now,
            probes: Vec::new(),
            foreign: ProbeCounts::default(),
            own: ProbeCounts::default(),
            failures: 0,
            commands: VecDeque::new(),
            end: None,
            parameters,
        };
        stage.add_connections(parameters.initial_connections);
        stage
    }

    /// Returns the next request to the driver. After the end there are none.
    pub fn poll_command(&mut self) -> Option<StageCommand> {
        self.commands.pop_front()
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) must be called; `None` after the end.
    pub fn poll_timeout(&self) -> Option<SteadyTime> {
        let probe = if self.is_connected { self.next_probe } else { self.interval_ends };
        self.end.is_none().then(|| probe.min(self.interval_ends).min(self.ends_by()))
    }

    /// True after the end.
    pub fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Returns the number of load-generating connections requested so far, in both directions.
    pub fn connections(&self) -> usize {
        self.loads.iter().map(|load| load.connections).sum()
    }

    /// Returns the last complete interval; `None` during the first.
    pub fn last_interval(&self) -> Option<&StageInterval> {
        self.intervals.last()
    }

    /// Records that a load-generating connection transfers data, so that there can be self probes.
    pub fn handle_connected(&mut self, now: SteadyTime) {
        if !self.is_connected {
            self.is_connected = true;
            self.next_probe = now;
        }
    }

    /// Records a probe that was answered.
    pub fn handle_probe(&mut self, probe: AnsweredProbe) {
        if self.end.is_none() {
            self.failures = 0;
            self.counts(probe.times.kind()).answered += 1;
            self.probes.push(probe);
        }
    }

    /// Records a probe that failed. Several in succession end the stage.
    pub fn handle_failed_probe(&mut self, kind: ProbeKind, why: &str, now: SteadyTime) {
        if self.end.is_none() {
            self.failures += 1;
            self.counts(kind).failed += 1;
            if self.failures >= MAX_FAILURES {
                self.finish(now, StageEnd::Failed(why.to_owned()));
            }
        }
    }

    /// Records that a load-generating connection failed, which ends the stage.
    pub fn handle_failed_load(&mut self, why: &str, now: SteadyTime) {
        self.finish(now, StageEnd::Failed(why.to_owned()));
    }

    /// Ends the stage early.
    pub fn interrupt(&mut self, now: SteadyTime) {
        self.finish(now, StageEnd::Interrupted);
    }

    /// Advances to `now`. `transferred` is the number of bytes that all load-generating connections have transferred
    /// since the start of the stage, [by direction](Direction): up, down.
    pub fn handle_timeout(&mut self, now: SteadyTime, transferred: [u64; 2]) {
        if self.end.is_none() && now >= self.interval_ends {
            self.end_interval(now, transferred);
        }
        if self.end.is_none() && now >= self.ends_by() {
            self.finish(now, StageEnd::TimeLimit);
        }
        if self.end.is_none() && self.is_connected && now >= self.next_probe {
            self.send_probe(now, transferred);
        }
    }

    /// Returns the result at the end of the stage.
    pub fn outcome(mut self, now: SteadyTime) -> StageOutcome {
        let (ended, end) = self.end.take().unwrap_or((now, StageEnd::Interrupted));
        let enough = self.parameters.averaged;
        let goodput = self.intervals.last().map(|interval| interval.goodput.clone()).unwrap_or_default();
        StageOutcome {
            load: self.load,
            began: self.began,
            duration: ended - self.began,
            means: self.means(self.window_from),
            counted_from: self.window_from,
            goodput,
            goodput_confidence: Confidence::of(self.saturated_at.is_some(), self.intervals.len(), enough),
            confidence: Confidence::of(end == StageEnd::Stable, self.values.len(), enough),
            intervals: self.intervals,
            probes: self.probes,
            foreign: self.foreign,
            own: self.own,
            end,
        }
    }

    fn ends_by(&self) -> SteadyTime {
        self.began + self.parameters.time_limit
    }

    fn finish(&mut self, now: SteadyTime, end: StageEnd) {
        if self.end.is_none() {
            self.end = Some((now, end));
            self.commands.clear();
        }
    }

    fn counts(&mut self, kind: ProbeKind) -> &mut ProbeCounts {
        match kind {
            ProbeKind::Foreign => &mut self.foreign,
            ProbeKind::Own => &mut self.own,
        }
    }

    fn add_connections(&mut self, connections: usize) {
        for load in &mut self.loads {
            for _ in 0..connections.min(self.parameters.max_connections - load.connections) {
                load.connections += 1;
                self.commands.push_back(StageCommand::Connect(load.direction));
            }
        }
    }

    fn end_interval(&mut self, now: SteadyTime, transferred: [u64; 2]) {
        let (start, duration) = (self.interval_began - self.began, now - self.interval_began);
        let averaged = self.parameters.averaged;
        self.durations.push(duration);
        let window: Span = self.durations.iter().rev().take(averaged).copied().fold(Span::ZERO, |a, b| a + b);
        let rate = |bytes: u64, time: Span| bytes as f64 * 8.0 / time.as_seconds();
        let mut goodput = Vec::new();
        for load in &mut self.loads {
            let total = transferred[load.direction as usize];
            let bytes = total.saturating_sub(load.total);
            load.total = total;
            load.bytes.push(bytes);
            let average_bps = rate(load.bytes.iter().rev().take(averaged).sum(), window);
            load.averages.push(average_bps);
            goodput.push(Goodput {
                direction: load.direction,
                bps: rate(bytes, duration),
                average_bps,
                connections: load.connections,
            });
        }
        let was_saturated = self.saturated_at;
        let tolerance = self.parameters.tolerance;
        if was_saturated.is_none() && self.loads.iter().all(|l| is_stable(&l.averages, averaged, tolerance)) {
            self.saturated_at = Some(now);
        }
        // Probes of the last intervals, and none from before goodput was stable.
        self.window_from = (now - window).max(was_saturated.unwrap_or(self.began));
        let rpm = self.means(self.window_from).rpm();
        let saturated = self.saturated_at.is_some();
        self.intervals.push(StageInterval { start, duration, goodput, saturated, rpm });
        self.interval_began = now;
        while self.interval_ends <= now {
            self.interval_ends = self.interval_ends + self.parameters.interval;
        }
        if was_saturated.is_some() {
            self.values.extend(rpm);
            if is_stable(&self.values, averaged, tolerance) {
                return self.finish(now, StageEnd::Stable);
            }
        }
        self.add_connections(self.parameters.added_connections);
    }

    /// Returns the trimmed means of the probes that began at or after `from`.
    fn means(&self, from: SteadyTime) -> TrimmedMeans {
        let (mut foreign, mut own) = (Vec::new(), Vec::new());
        for probe in self.probes.iter().filter(|probe| probe.began >= from) {
            match probe.times {
                ProbeTimes::Foreign(times) => foreign.push(times),
                ProbeTimes::Own(time) => own.push(time),
            }
        }
        TrimmedMeans::of(&foreign, &own)
    }

    fn send_probe(&mut self, now: SteadyTime, transferred: [u64; 2]) {
        let kind = self.next_kind;
        let counts = self.counts(kind);
        if counts.outstanding() < MAX_OUTSTANDING {
            counts.sent += 1;
            self.commands.push_back(StageCommand::Probe(kind));
        } else {
            counts.skipped += 1;
        }
        self.next_kind = match kind {
            ProbeKind::Foreign => ProbeKind::Own,
            ProbeKind::Own => ProbeKind::Foreign,
        };
        let gap = Span((SECOND as f64 / self.probe_rate(now, transferred)) as i64);
        // After a stall of this host, missed probes are not sent in a burst.
        self.next_probe = (self.next_probe + gap).max(now);
    }

    /// Returns the number of probes per second that stay within their share of the goodput.
    fn probe_rate(&self, now: SteadyTime, transferred: [u64; 2]) -> f64 {
        let of = |load: &DirectionLoad| match (load.bytes.last(), self.durations.last()) {
            (Some(bytes), Some(duration)) => *bytes as f64 / duration.as_seconds(),
            _ => transferred[load.direction as usize] as f64 / (now - self.began).as_seconds().max(0.1),
        };
        let goodput = self.loads.iter().map(of).fold(f64::INFINITY, f64::min);
        let within_share = 2.0 * self.parameters.probe_share * goodput / PAIR_BYTES;
        within_share.max(MIN_PROBE_RATE).min(self.parameters.probes_per_second.into())
    }
}

#[cfg(test)]
mod tests;

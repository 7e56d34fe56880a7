//! Stages on a simulated link in virtual time: a bottleneck whose queue the load fills.

use super::*;

const BEGAN: SteadyTime = SteadyTime(5 * SECOND);

/// A bottleneck with a queue. Each load-generating connection keeps `window` bytes in flight.
struct Link {
    /// Bytes per second at a time since the start of the stage.
    rate: fn(Span) -> f64,
    /// Capacity of the queue, in bytes.
    queue: f64,
    /// Round trip without a queue.
    base: Span,
    window: f64,
}

impl Link {
    /// Returns the round trip with `connections` that fill the link, at this time.
    fn round_trip(&self, connections: usize, at: Span) -> Span {
        let rate = (self.rate)(at);
        let waiting =
            (connections as f64 * self.window - rate * self.base.as_seconds()).clamp(0.0, self.queue);
        self.base + Span((waiting / rate * 1e9) as i64)
    }

    fn goodput(&self, connections: usize, at: Span) -> f64 {
        let of_windows = connections as f64 * self.window / self.base.as_seconds();
        of_windows.min((self.rate)(at))
    }

    /// Runs a stage on this link.
    fn measure(&self, parameters: RpmParameters, load: LoadDirections) -> StageOutcome {
        let mut stage = LoadStage::new(parameters, load, BEGAN);
        let mut now = BEGAN;
        let mut bytes = [0.0; 2];
        let mut answers: Vec<AnsweredProbe> = Vec::new();
        while let Some(due) = stage.poll_timeout() {
            let answered = answers.iter().map(|probe| probe.ended).min();
            let next = answered.map_or(due, |at| at.min(due)).max(now);
            let connections = stage.connections() / load.directions().len();
            for direction in load.directions() {
                bytes[*direction as usize] +=
                    self.goodput(connections, now - BEGAN) * (next - now).as_seconds();
            }
            now = next;
            answers.retain(|probe| {
                let is_due = probe.ended <= now;
                if is_due {
                    stage.handle_probe(*probe);
                }
                !is_due
            });
            stage.handle_timeout(now, bytes.map(|b| b as u64));
            while let Some(command) = stage.poll_command() {
                match command {
                    StageCommand::Connect(_) => stage.handle_connected(now),
                    StageCommand::Probe(kind) => answers.push(self.probe(kind, connections, now)),
                }
            }
            assert!(now - BEGAN <= parameters.time_limit, "a stage ends in time");
        }
        stage.outcome(now)
    }

    fn probe(&self, kind: ProbeKind, connections: usize, began: SteadyTime) -> AnsweredProbe {
        let trip = |at: SteadyTime| self.round_trip(connections, at - BEGAN);
        match kind {
            ProbeKind::Own => {
                let time = trip(began);
                AnsweredProbe { began, ended: began + time, times: ProbeTimes::Own(time) }
            }
            ProbeKind::Foreign => {
                let tcp = trip(began);
                let tls = trip(began + tcp);
                let http = trip(began + tcp + tls);
                let times = ForeignTimes { tcp, tls: Some(tls), http };
                AnsweredProbe { began, ended: began + tcp + tls + http, times: ProbeTimes::Foreign(times) }
            }
        }
    }
}

fn parameters() -> RpmParameters {
    RpmParameters { time_limit: Span::seconds(60), ..RpmParameters::default() }
}

fn steady_rate(_: Span) -> f64 {
    2_500_000.0
}

#[test]
fn a_full_queue_determines_the_result() {
    // 20 Mbit/s, 20 ms, and a queue of 200 ms, which the load has filled long before the end.
    let link = Link { rate: steady_rate, queue: 500_000.0, base: Span::millis(20), window: 256e3 };
    for load in [LoadDirections::Down, LoadDirections::Up, LoadDirections::Both] {
        let outcome = link.measure(parameters(), load);
        assert_eq!(outcome.end, StageEnd::Stable, "{load:?}");
        assert_eq!((outcome.confidence, outcome.goodput_confidence), (Confidence::High, Confidence::High));
        let (rpm, expected) = (outcome.rpm().unwrap(), 60_000.0 / 220.0);
        assert!((rpm / expected - 1.0).abs() < 0.01, "{load:?}: {rpm}, and the queue allows {expected}");
        for goodput in &outcome.goodput {
            assert!((goodput.average_bps / 20e6 - 1.0).abs() < 0.01, "{goodput:?}");
        }
        assert_eq!(outcome.goodput.len(), load.directions().len());
    }
}

#[test]
fn a_link_without_a_queue_is_as_responsive_as_idle() {
    let link = Link { rate: steady_rate, queue: 0.0, base: Span::millis(30), window: 256e3 };
    let outcome = link.measure(parameters(), LoadDirections::Down);
    assert_eq!(outcome.means.rpm(), Some(2000.0));
    // Goodput is stable at the end of the fourth interval, responsiveness four intervals later.
    assert_eq!(outcome.intervals.len(), 8);
    assert_eq!(outcome.duration, Span::seconds(8));
    assert_eq!(outcome.intervals.iter().position(|i| i.saturated), Some(3));
    let connections: Vec<usize> = outcome.intervals.iter().map(|i| i.goodput[0].connections).collect();
    assert_eq!(connections, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(outcome.probes.iter().all(|p| p.ended <= BEGAN + Span::seconds(8)));
    assert!(outcome.counted_from >= BEGAN + Span::seconds(4), "{:?}", outcome.counted_from);
}

#[test]
fn a_link_that_needs_many_connections_is_filled_first() {
    // One connection carries an eighth of the rate.
    let link = Link { rate: steady_rate, queue: 125_000.0, base: Span::millis(100), window: 31_250.0 };
    let outcome = link.measure(parameters(), LoadDirections::Down);
    let saturated = outcome.intervals.iter().position(|i| i.saturated).unwrap();
    assert!(outcome.intervals[saturated].goodput[0].connections >= 8, "{saturated}");
    assert!((outcome.goodput[0].average_bps / 20e6 - 1.0).abs() < 0.05, "{:?}", outcome.goodput);
    let short = RpmParameters { max_connections: 2, ..parameters() };
    let outcome = link.measure(short, LoadDirections::Down);
    assert_eq!(outcome.goodput[0].connections, 2);
    assert!((outcome.goodput[0].average_bps / 5e6 - 1.0).abs() < 0.01, "{:?}", outcome.goodput);
}

#[test]
fn an_unstable_link_has_a_result_of_less_confidence() {
    fn changing(at: Span) -> f64 {
        if at.0 / SECOND % 6 < 3 { 2_500_000.0 } else { 500_000.0 }
    }
    let link = Link { rate: changing, queue: 100_000.0, base: Span::millis(20), window: 256e3 };
    let parameters = RpmParameters { time_limit: Span::millis(20_500), ..RpmParameters::default() };
    let outcome = link.measure(parameters, LoadDirections::Down);
    assert_eq!(outcome.end, StageEnd::TimeLimit);
    assert_eq!((outcome.goodput_confidence, outcome.confidence), (Confidence::Medium, Confidence::Low));
    assert!(outcome.rpm().is_some_and(|rpm| (100.0..3000.0).contains(&rpm)), "{:?}", outcome.rpm());
    let short = RpmParameters { time_limit: Span::millis(2500), ..RpmParameters::default() };
    let outcome = link.measure(short, LoadDirections::Down);
    assert_eq!((outcome.goodput_confidence, outcome.intervals.len()), (Confidence::Low, 2));
}

#[test]
fn probes_stay_within_their_share_of_a_slow_link() {
    fn slow(_: Span) -> f64 {
        125_000.0
    }
    let link = Link { rate: slow, queue: 20_000.0, base: Span::millis(20), window: 64e3 };
    let outcome = link.measure(parameters(), LoadDirections::Down);
    let per_second = f64::from(outcome.foreign.sent + outcome.own.sent) / outcome.duration.as_seconds();
    // 5 % of 1 Mbit/s are 1.04 pairs per second.
    assert!((1.5..=2.1).contains(&per_second), "{per_second}");
    let fast = Link { rate: |_| 125e6, ..link };
    let outcome = fast.measure(parameters(), LoadDirections::Down);
    let per_second = f64::from(outcome.foreign.sent + outcome.own.sent) / outcome.duration.as_seconds();
    assert!((90.0..=101.0).contains(&per_second), "{per_second}");
    assert!(outcome.foreign.sent.abs_diff(outcome.own.sent) <= 1);
}

#[test]
fn failures_end_a_stage_and_single_ones_do_not() {
    let mut stage = LoadStage::new(parameters(), LoadDirections::Up, BEGAN);
    stage.handle_connected(BEGAN);
    for _ in 0..MAX_FAILURES - 1 {
        stage.handle_failed_probe(ProbeKind::Foreign, "refused", BEGAN);
    }
    let time = Span::millis(10);
    stage.handle_probe(AnsweredProbe { began: BEGAN, ended: BEGAN + time, times: ProbeTimes::Own(time) });
    for _ in 0..MAX_FAILURES - 1 {
        stage.handle_failed_probe(ProbeKind::Own, "refused", BEGAN);
    }
    assert!(!stage.has_ended());
    stage.handle_failed_probe(ProbeKind::Own, "the last", BEGAN);
    assert!(stage.has_ended() && stage.poll_command().is_none() && stage.poll_timeout().is_none());
    let outcome = stage.outcome(BEGAN);
    assert_eq!((outcome.end, outcome.means.rpm()), (StageEnd::Failed("the last".to_owned()), None));

    let mut stage = LoadStage::new(parameters(), LoadDirections::Up, BEGAN);
    stage.handle_failed_load("reset", BEGAN + Span::seconds(1));
    stage.interrupt(BEGAN + Span::seconds(2));
    assert_eq!(stage.outcome(BEGAN).end, StageEnd::Failed("reset".to_owned()));
}

#[test]
fn a_path_that_answers_nothing_ends_at_the_limit_with_few_probes_in_flight() {
    let mut stage = LoadStage::new(parameters(), LoadDirections::Down, BEGAN);
    stage.handle_connected(BEGAN);
    let mut now = BEGAN;
    while let Some(due) = stage.poll_timeout() {
        now = due;
        let seconds = (now - BEGAN).as_seconds();
        stage.handle_timeout(now, [0, (seconds * 125e6) as u64]);
        while stage.poll_command().is_some() {}
    }
    let outcome = stage.outcome(now);
    assert_eq!((outcome.end.clone(), outcome.duration), (StageEnd::TimeLimit, Span::seconds(60)));
    assert_eq!((outcome.foreign.sent, outcome.own.sent), (MAX_OUTSTANDING, MAX_OUTSTANDING));
    assert!(outcome.foreign.skipped > 1000 && outcome.rpm().is_none());
}

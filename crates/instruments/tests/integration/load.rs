//! Delay that a load adds, in virtual time: the same trial on perfect clocks is the truth.

use jitlat_core::load::{LoadStream, TestLoad, TestPhase};
use jitlat_core::{Direction, Schedule, Span, TestSpec, Transport, WallTime};
use jitlat_impair::{Clock, Competition, CrossTraffic, PathModel, RateBottleneck, Trial};
use jitlat_instruments::Analysed;
use jitlat_instruments::load::phases::{LoadPhase, PhaseStream};

/// A phase that begins `at` s after the first one, through a bottleneck of 8 Mbit/s with a queue of 100 ms, with or without
/// a TCP connection next to it. The server's clock is 3 s and 20 ppm ahead.
fn phase(direction: Direction, at: i64, loaded: bool, perfect: bool) -> LoadPhase {
    let period = Span::millis(20);
    let spec = TestSpec::new(direction, Transport::Udp, 500, 80, period, Schedule::Periodic).unwrap();
    let mut trial = Trial::new(spec, 5);
    trial.epoch = WallTime(trial.epoch.0 + at * 1_000_000_000);
    trial.probes = 8;
    if !perfect {
        let drifted = Span(at * 20_000);
        trial.server.clock =
            Clock { offset: Span::seconds(3) + drifted, skew_ppb: 20_000, shifts: Vec::new() };
    }
    let path = PathModel {
        delay: Span::millis(12),
        rate: Some(RateBottleneck { bits: 8_000_000, queue: 100_000 }),
        ..PathModel::default()
    };
    (trial.up, trial.down) = (path.clone(), path);
    let load = CrossTraffic::Greedy { rtt: Span::millis(24) };
    let length = Span::seconds(20);
    if loaded {
        let to = if direction == Direction::Up { &mut trial.up } else { &mut trial.down };
        to.competition.push(Competition { from: Span::seconds(-5), length, load });
    }
    let outcome = trial.run();
    let mut analyzer = jitlat_core::Analyzer::new(&outcome.session, &jitlat_verdict::options());
    analyzer.push_all(&outcome.records);
    let (summary, samples) = analyzer.finish_with_samples(&outcome.session);
    LoadPhase { analysed: Analysed { session: outcome.session, summary, samples }, records: outcome.records }
}

#[test]
fn added_delay_is_the_true_one_whatever_the_clocks_say() {
    for direction in Direction::BOTH {
        let stream = LoadStream {
            load: "tcp".into(),
            direction,
            offered_bps: None,
            received_bps: Some(7e6),
            filled: Some(true),
            sent: 5000,
            loss: None,
            failure: None,
        };
        let load = TestLoad { phase: TestPhase::Loaded, streams: vec![stream], throughput: Vec::new() };
        let of = |perfect| {
            let (idle, loaded) = (phase(direction, 0, false, perfect), phase(direction, 25, true, perfect));
            let delays = [&idle, &loaded].map(|p| p.analysed.samples.delay.clone());
            (PhaseStream::new(idle, loaded, &load), delays)
        };
        let mean = |delays: &[i64]| delays.iter().map(|d| *d as f64).sum::<f64>() / delays.len() as f64;
        let (_, [idle, loaded]) = of(true);
        let truth = mean(&loaded) - mean(&idle);
        let (measured, _) = of(false);
        let added = measured.effect.added.unwrap();
        let off = (added.mean_ns - truth).abs();
        assert!(truth > 20e6, "{direction:?}: a standing queue, {truth}");
        assert!(off <= added.clock_error_ns + 1000.0 && off < 1e6, "{direction:?}: {added:?}, true {truth}");
        // Each phase by its own smallest delay, as before, is far off: no packet passes an empty queue.
        let least = |delays: &[i64]| delays.iter().copied().min().unwrap() as f64;
        let jitter = (mean(&loaded) - least(&loaded)) - (mean(&idle) - least(&idle));
        assert!(truth - jitter > 3e6, "{direction:?}: {jitter} against {truth}");
    }
}

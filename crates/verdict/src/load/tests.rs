use super::*;
use crate::options;
use jitlat_core::analysis::Analyzer;
use jitlat_core::clock::ClockProbe;
use jitlat_core::load::{LoadStream, TestPhase};
use jitlat_core::session::Ending;
use jitlat_core::summary::Level;
use jitlat_core::{Direction, PacketRecord, Schedule, Session, Span, TestSpec, Transport, WallTime};

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;

type Measured = (Session, Summary, Samples);

/// A phase of 500 packets, one every 20 ms from `begin` ns on, whose delays in ns are those of `delay`.
fn phase(begin: i64, delay: impl Fn(i64) -> i64) -> Measured {
    phase_with(begin, 0, delay)
}

/// Like [`phase`], where the clock of the server is ahead by `offset` at first.
fn phase_with(begin: i64, offset: i64, delay: impl Fn(i64) -> i64) -> Measured {
    let period = Span::millis(20);
    let spec = TestSpec::new(Direction::Up, Transport::Udp, 500, 80, period, Schedule::Periodic).unwrap();
    let at = |ns: i64| WallTime(1_700_000_000 * SECOND + begin + ns);
    let probe = |ns: i64| ClockProbe {
        sent: at(ns),
        arrived: at(ns + 10 * MS + offset),
        answered: at(ns + 10 * MS + offset),
        returned: at(ns + 20 * MS),
    };
    let session = Session {
        created: Some(at(-SECOND)),
        sent: Some(500),
        ending: Ending::Complete,
        probes: vec![probe(-900 * MS), probe(-800 * MS), probe(11 * SECOND)],
        ..Session::new(spec)
    };
    let mut analyzer = Analyzer::new(&session, &options());
    let record = |k: i64| PacketRecord::one_way(k, at(k * 20 * MS), at(k * 20 * MS + offset + delay(k)));
    analyzer.push_all(&(0..500).map(record).collect::<Vec<_>>());
    let (summary, samples) = analyzer.finish_with_samples(&session);
    (session, summary, samples)
}

fn stream(received_bps: f64, filled: bool) -> LoadStream {
    LoadStream {
        load: "tcp".into(),
        direction: Direction::Up,
        offered_bps: None,
        received_bps: Some(received_bps),
        filled: Some(filled),
        sent: 1000,
        loss: None,
        failure: None,
    }
}

fn load(streams: Vec<LoadStream>) -> TestLoad {
    TestLoad { phase: TestPhase::Loaded, streams, throughput: Vec::new() }
}

fn effect(idle: &Measured, loaded: &Measured, load: &TestLoad) -> LoadEffect {
    let [idle, loaded] =
        [idle, loaded].map(|(session, summary, samples)| PhaseTest { session, summary, samples });
    LoadEffect::of(idle, loaded, load)
}

/// Delay of a quiet path, with a little noise.
fn quiet(k: i64) -> i64 {
    10 * MS + k * 7919 % 97 * 1000
}

#[test]
fn a_standing_queue_is_added_delay_although_no_packet_passes_without_it() {
    let loaded = phase(25 * SECOND, |k| quiet(k) + 30 * MS + k * 31 % 50 * MS / 10);
    let of = effect(&phase(0, quiet), &loaded, &load(vec![stream(9e6, true)]));
    let added = of.added.unwrap();
    assert!(
        (added.mean_ns - 32.45e6).abs() < 0.1e6 && (added.median_ns - 32.45e6).abs() < 0.2e6,
        "{added:?}"
    );
    assert!(added.clock_error_ns < 3e6, "{added:?}");
    assert_eq!((of.state, of.grade.unwrap().grade), (LoadState::Filled, BufferbloatGrade::B));
    assert_eq!(
        headline(&of, false, None),
        (Level::Note, "Under load: delay +32.5 ms mean, +34.8 ms p99: bufferbloat grade B.".to_owned())
    );
    assert_eq!(headline(&of, true, Some(Direction::Down)).1.split(' ').next(), Some("Down"));
}

#[test]
fn a_provider_is_told_of_poor_grades_and_of_no_others() {
    let of = |added: i64| {
        let loaded = phase(25 * SECOND, move |k| quiet(k) + added * MS + k * 31 % 50 * MS / 10);
        effect(&phase(0, quiet), &loaded, &load(vec![stream(9e6, true)]))
    };
    let (fair, poor) = (of(40), of(150));
    assert_eq!(for_provider(&[(None, &fair, Some(9e6))]), None);
    let up = (Some(Direction::Up), &poor, Some(9e6));
    let text = for_provider(&[up, (Some(Direction::Down), &fair, None)]).unwrap();
    assert_eq!(
        text,
        "Tell your provider: a full line adds +152 ms up at 9.00 Mbps; its queue needs management (CAKE, fq_codel or PIE)."
    );
    let both = for_provider(&[up, (Some(Direction::Down), &poor, None)]).unwrap();
    assert!(both.contains("+152 ms up at 9.00 Mbps and +152 ms down; "), "{both}");
    // A queue in this host is not the provider's.
    let own = AddedQueue { mean_ns: 5e8, median_ns: 5e8, p99_ns: 5e8 };
    let added = poor.added.map(|added| AddedDelay { own_queue: Some(own), ..added });
    assert_eq!(for_provider(&[(None, &LoadEffect { added, ..poor.clone() }, None)]), None);
}

#[test]
fn the_clock_estimate_under_load_is_not_used() {
    // Under load the requests of the probes wait for 60 ms: the estimate is wrong by 30 ms.
    let (idle, mut loaded) =
        (phase_with(0, 77 * MS, quiet), phase_with(25 * SECOND, 77 * MS, |k| quiet(k) + 60 * MS));
    let clock = &mut loaded.1.clock;
    (clock.correction_ns, clock.bound_ns) = (Some(107 * MS), Some(40e6));
    clock.interval_ns = Some([67 * MS, 147 * MS]);
    let added = effect(&idle, &loaded, &load(vec![stream(9e6, true)])).added.unwrap();
    assert!((added.median_ns - 60e6).abs() < 0.1e6, "{added:?}");
}

#[test]
fn clocks_that_drift_are_followed_and_their_error_is_stated() {
    // 40 ppm: 0.4 ms in each phase, and 1 ms from one to the other.
    let drift = |begin: i64| move |k: i64| quiet(k) + (begin + k * 20 * MS) / 25_000;
    let (idle, loaded) = (phase(0, drift(0)), phase(25 * SECOND, drift(25 * SECOND)));
    let added = effect(&idle, &loaded, &load(vec![stream(9e6, true)])).added.unwrap();
    assert!(added.median_ns.abs() <= added.clock_error_ns, "{added:?}");
    assert!((added.drift_ns - 1e6).abs() < 0.2e6 && added.clock_error_ns < 1e6, "{added:?}");
}

#[test]
fn a_clock_that_was_set_between_the_phases_gives_no_grade_of_the_step() {
    let (idle, loaded) = (phase_with(0, 0, quiet), phase_with(25 * SECOND, 700 * MS, |k| quiet(k) + 40 * MS));
    let of = effect(&idle, &loaded, &load(vec![stream(9e6, true)]));
    let added = of.added.unwrap();
    assert!((added.median_ns - 40e6).abs() <= added.clock_error_ns, "{added:?}");
    assert!(added.clock_error_ns >= 10e6, "both estimates are as good as their probes: {added:?}");
}

#[test]
fn a_load_that_did_not_load_is_named_and_gives_no_grade() {
    let (idle, loaded) = (phase(0, quiet), phase(25 * SECOND, quiet));
    let of = |stream: LoadStream| effect(&idle, &loaded, &load(vec![stream]));
    let failed = LoadStream { failure: Some("gone".into()), ..stream(9e6, true) };
    let unknown = LoadStream { received_bps: None, filled: None, ..stream(0.0, false) };
    let down = LoadStream { direction: Direction::Down, ..stream(9e6, true) };
    for (load, state, said) in [
        (stream(0.0, true), LoadState::Nothing, "nothing of the load arrived"),
        (failed, LoadState::EndedEarly, "the load ended before the test"),
        (down, LoadState::OtherDirection, "the load was in the other direction"),
    ] {
        let of = of(load);
        assert_eq!((of.state, of.grade, of.added), (state, None, None));
        let (level, text) = headline(&of, false, None);
        assert!(level == Level::Note && text.contains(said) && text.len() < 78, "{text}");
        assert!(of.no_grade.is_some());
    }
    for (load, state) in [(unknown, LoadState::Unknown), (stream(1e6, false), LoadState::NotFilled)] {
        let of = of(load);
        assert_eq!((of.state, of.grade), (state, None));
        let (_, text) = headline(&of, false, None);
        assert!(!text.contains("grade") && ungraded(&of).is_some_and(|why| why.contains("load")), "{text}");
    }
}

#[test]
fn grades_are_those_of_their_source() {
    let names = [0.0, 4.9, 5.0, 29.9, 30.0, 59.9, 60.0, 199.9, 200.0, 399.9, 400.0, 5000.0];
    let names = names.map(|ms| BufferbloatGrade::of(ms * 1e6).name());
    assert_eq!(names, ["A+", "A+", "A", "A", "B", "B", "C", "C", "D", "D", "F", "F"]);
    assert_eq!(BufferbloatGrade::of(-3e6).name(), "A+");
    assert_eq!(serde_json::to_value(BufferbloatGrade::APlus).unwrap(), "A+");
}

fn decided(text: &str, effects: &[(Option<Direction>, &LoadEffect)]) -> LoadDecision {
    text.parse::<LoadCondition>().unwrap().decide(effects)
}

#[test]
fn conditions_hold_for_grades_and_added_delays_of_each_direction() {
    let loaded = |ms: i64| phase(25 * SECOND, move |k| quiet(k) + ms * MS);
    let filled = load(vec![stream(9e6, true)]);
    let [b, c] = [45, 90].map(|ms| effect(&phase(0, quiet), &loaded(ms), &filled));
    let both = [(Some(Direction::Up), &c), (Some(Direction::Down), &b)];
    let violated = |text: &str| LoadDecision::Violated(text.to_owned());
    assert_eq!(decided("load.grade>B", &both), violated("load.grade>B (up-load.grade is C)"));
    assert_eq!(decided("load.grade>=C", &both[..1]), violated("load.grade>=C (load.grade is C)"));
    assert_eq!(decided("load.grade>C", &both), LoadDecision::Met);
    assert_eq!(decided("down-load.grade>B", &both), LoadDecision::Met);
    assert_eq!(decided("down-load.grade>=B", &both), violated("down-load.grade>=B (down-load.grade is B)"));
    assert_eq!(
        decided("load.added-mean > 50ms", &both),
        violated("load.added-mean > 50ms (up-load.added-mean is 90.00 ms)")
    );
    assert_eq!(decided("load.added-median>91ms", &both), LoadDecision::Met);
    assert_eq!(
        decided("down-load.added-p99<46ms", &both),
        violated("down-load.added-p99<46ms (down-load.added-p99 is 45.00 ms)")
    );
    let LoadDecision::Undecided(why) = decided("up-load.grade>B", &[(None, &c)]) else { panic!() };
    assert_eq!(why, "up-load.grade>B cannot be decided: a round trip has both directions");
    let LoadDecision::Undecided(why) = decided("load.grade>B", &[]) else { panic!() };
    assert_eq!(why, "load.grade>B cannot be decided: the test had no load");
}

#[test]
fn a_condition_without_a_direction_is_about_the_directions_that_had_a_load() {
    let loaded = phase(25 * SECOND, |k| quiet(k) + 10 * MS);
    let a = effect(&phase(0, quiet), &loaded, &load(vec![stream(9e6, true)]));
    let down = LoadStream { direction: Direction::Down, ..stream(9e6, true) };
    let other = effect(&phase(0, quiet), &loaded, &load(vec![down]));
    let both = [(Some(Direction::Up), &other), (Some(Direction::Down), &a)];
    assert_eq!(decided("load.grade>A", &both), LoadDecision::Met);
    let LoadDecision::Undecided(why) = decided("up-load.grade>A", &both) else { panic!() };
    assert!(why.ends_with("the load was in the other direction"), "{why}");
    // A load that did not fill the path has an added delay, but no grade.
    let part = effect(&phase(0, quiet), &loaded, &load(vec![stream(1e6, false)]));
    assert_eq!(decided("load.added-p99>30ms", &[(None, &part)]), LoadDecision::Met);
    let LoadDecision::Undecided(why) = decided("load.grade>B", &[(None, &part)]) else { panic!() };
    assert!(why.contains("all of the load arrived"), "{why}");
}

#[test]
fn conditions_on_a_load_are_parsed_exactly() {
    for about_load in ["load.grade>B", " up-load.added-mean>1ms", "load.speed>1"] {
        assert!(LoadCondition::is_meant(about_load), "{about_load}");
    }
    for other in ["loss>1%", "up-loss>1%", "host>=fair"] {
        assert!(!LoadCondition::is_meant(other), "{other}");
    }
    for bad in [
        "load.grade",
        "load.grade>F",
        "load.grade<B",
        "load.grade>=A+",
        "load.grade>E",
        "load.grade>",
        "load.added>1ms",
        "load.added-p99>fast",
        "load.added-p99",
        "load.speed>1",
    ] {
        assert!(bad.parse::<LoadCondition>().is_err(), "{bad}");
    }
}

//! Confusion matrix of paths that treat marks (ECN) in different ways. Each test sends all four marks; it is simulated, saved as a
//! log, read back and judged.

use super::context::Draw;
use jitlat_core::answer::CauseId;
use jitlat_core::{Direction, Ecn, EcnMarking, Schedule, Span, TestSpec, Transport};
use jitlat_impair::{
    Answering, Aqm, Competition, CrossTraffic, DUALPI2_TARGET, EcnRule, Jitter, PathModel, RateBottleneck,
    Trial,
};
use jitlat_store::log::LogWriter;
use std::collections::BTreeMap;
use std::ops::Range;

/// A way in which a path treats marks: its name, the cause that must be found, and a function that draws one.
type Behaviour = (&'static str, Option<CauseId>, fn(&mut Draw, &mut PathModel));

const BEHAVIOURS: [Behaviour; 6] = [
    ("clean", None, clean),
    ("bleached", Some(CauseId::EcnBleached), bleached),
    ("re-marked", Some(CauseId::EcnRemarked), remarked),
    ("ECT dropped", Some(CauseId::EctDropped), dropped),
    ("one queue that marks", Some(CauseId::EcnMarked), single_queue),
    ("dual queue", Some(CauseId::DualQueue), dual_queue),
];

/// Kinds of cause that marks show.
const BY_MARKS: [CauseId; 6] = [
    CauseId::EcnBleached,
    CauseId::EcnRemarked,
    CauseId::CeErased,
    CauseId::EctDropped,
    CauseId::EcnMarked,
    CauseId::DualQueue,
];

/// Smallest share of the tests of a behaviour whose cause must be named correctly.
const MIN_RIGHT: f64 = 0.95;
const PACKETS: u64 = 2000;
const PERIOD: Span = Span::millis(10);

/// Draws a path without effects on marks; half of these paths have a queue that other traffic fills.
fn clean(draw: &mut Draw, path: &mut PathModel) {
    if draw.unit() < 0.5 {
        queue(draw, path);
    }
}

/// Adds a queue without management, and TCP traffic that fills it for most of the test.
fn queue(draw: &mut Draw, path: &mut PathModel) {
    let bits = draw.between(4e6, 50e6) as u64;
    let room = draw.between(0.02, 0.15) * bits as f64 / 8.0;
    path.rate = Some(RateBottleneck { bits, queue: (room as u64).max(20_000) });
    let rtt = Span(draw.between(10e6, 60e6) as i64);
    let from = Span(draw.between(0.0, 4e9) as i64);
    let load = CrossTraffic::Greedy { rtt };
    path.competition.push(Competition { from, length: Span::seconds(16), load });
}

fn rule(from: &[Ecn], to: Option<Ecn>, share: f64) -> EcnRule {
    EcnRule { from: from.to_vec(), to, share }
}

/// Draws the share of packets that a rule affects: all in half of the tests, otherwise 5 to 95 %.
fn share(draw: &mut Draw) -> f64 {
    if draw.unit() < 0.5 { 1.0 } else { draw.between(0.05, 0.95) }
}

fn bleached(draw: &mut Draw, path: &mut PathModel) {
    clean(draw, path);
    let from: &[Ecn] = match draw.unit() {
        ..0.5 => &[Ecn::Ect0, Ecn::Ect1, Ecn::Ce],
        ..0.75 => &[Ecn::Ect1],
        _ => &[Ecn::Ect0],
    };
    path.ecn.push(rule(from, Some(Ecn::NotEct), share(draw)));
}

fn remarked(draw: &mut Draw, path: &mut PathModel) {
    clean(draw, path);
    let (from, to) = match draw.unit() {
        ..0.4 => (Ecn::Ect1, Ecn::Ect0),
        ..0.7 => (Ecn::Ect0, Ecn::Ect1),
        _ => (Ecn::NotEct, Ecn::Ect0),
    };
    path.ecn.push(rule(&[from], Some(to), share(draw)));
}

fn dropped(draw: &mut Draw, path: &mut PathModel) {
    let from: &[Ecn] = if draw.unit() < 0.5 { &[Ecn::Ect0, Ecn::Ect1, Ecn::Ce] } else { &[Ecn::Ect1] };
    path.ecn.push(rule(from, None, share(draw).max(0.1)));
}

fn single_queue(draw: &mut Draw, path: &mut PathModel) {
    queue(draw, path);
    let threshold = Span(draw.between(1e6, 5e6) as i64);
    let codel =
        Aqm::Codel { target: Span::millis(5), interval: Span::millis(100), threshold: Some(threshold) };
    path.aqm = Some(if draw.unit() < 0.5 { codel } else { Aqm::Step { threshold } });
}

fn dual_queue(draw: &mut Draw, path: &mut PathModel) {
    queue(draw, path);
    path.aqm = Some(Aqm::DualPi2 { target: DUALPI2_TARGET });
}

/// Returns the kinds of cause that the marks of a test show.
fn named(behaviour: usize, seed: u64) -> Vec<CauseId> {
    let draw = &mut Draw::new(seed, 1000 + behaviour as u64);
    let mut path = PathModel {
        delay: Span(draw.between(1e6, 60e6) as i64),
        jitter: Jitter::Exponential { mean: Span(draw.between(0.02e6, 2e6) as i64) },
        in_order: true,
        ..PathModel::default()
    };
    (BEHAVIOURS[behaviour].2)(draw, &mut path);
    let spec = TestSpec::new(Direction::Up, Transport::Udp, PACKETS, 80, PERIOD, Schedule::Periodic);
    let mut spec = spec.expect("it is possible");
    spec.marking = EcnMarking::Both { seed };
    let two_way = seed.is_multiple_of(3);
    let mut trial = Trial { probes: 5, up: path, ..Trial::new(spec, seed) };
    trial.down.delay = trial.up.delay;
    trial.answering = two_way.then(|| Answering {
        protocol: "stamp".to_owned(),
        far_clock: true,
        counts: seed.is_multiple_of(2),
        processing: Span::micros(30),
    });
    let outcome = trial.run();
    let mut log = if two_way {
        LogWriter::two_way_marked(Vec::new())
    } else {
        LogWriter::new(Vec::new(), Default::default())
    };
    log.begin(&outcome.session);
    outcome.records.iter().for_each(|record| log.record(record));
    log.finish(&outcome.session);
    let (log, result) = log.close();
    result.expect("memory does not run out");
    let answer = super::judge("marks", log).expect("there is a verdict");
    let by_marks = answer.causes.iter().filter(|cause| BY_MARKS.contains(&cause.id));
    let mut found: Vec<CauseId> = by_marks
        .inspect(|cause| {
            let direction = (two_way && cause.id != CauseId::EctDropped).then_some(Direction::Up);
            assert_eq!(cause.direction, direction, "{seed}: {}", cause.because);
        })
        .map(|cause| cause.id)
        .collect();
    found.dedup();
    found
}

/// Scores all behaviours over these seeds, and checks that enough causes are named correctly.
fn run(seeds: Range<u64>) {
    println!("| path | tests | right | also or instead |\n|---|---|---|---|");
    let mut poor = Vec::new();
    for (k, (name, expected, _)) in BEHAVIOURS.iter().enumerate() {
        let mut wrong: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for seed in seeds.clone() {
            let found = named(k, seed);
            if found != Vec::from_iter(*expected) {
                let names: Vec<&str> = found.iter().map(|id| id.name()).collect();
                wrong
                    .entry(if names.is_empty() { "nothing".to_owned() } else { names.join(" ") })
                    .or_default()
                    .push(seed);
            }
        }
        let all = seeds.end - seeds.start;
        let right = all - wrong.values().map(|seeds| seeds.len() as u64).sum::<u64>();
        let others: Vec<String> =
            wrong.iter().map(|(names, seeds)| format!("{names} {}", seeds.len())).collect();
        println!("| {name} | {all} | {right} | {} |", others.join(", "));
        if (right as f64) < MIN_RIGHT * all as f64 {
            poor.push(format!("{name}: {right} of {all}; {wrong:?}"));
        }
    }
    assert!(poor.is_empty(), "{}", poor.join("\n"));
}

#[test]
fn treatment_of_marks_is_named_right() {
    run(0..12);
}

/// Scores 200 seeds, or JITLAT_VARIANTS, from JITLAT_FIRST on, and prints the table of the documentation.
#[test]
#[ignore = "minutes; run by `just verdicts`"]
fn marks_confusion_matrix() {
    let number =
        |name: &str, usual: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let first = number("JITLAT_FIRST", 0);
    run(first..first + number("JITLAT_VARIANTS", 200));
}

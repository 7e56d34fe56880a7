//! Confusion matrix of the verdict: tests with known faults are simulated, saved as logs, read back and judged; the
//! reported causes are compared with the true ones.
//!
//! `just verdicts` runs all of it and prints the tables of `docs/metrics/verdict.md`; `cargo test` runs a sample.

mod clock_steps;
mod context;
mod hosts;
mod judgements;
mod losses;
mod marks;
mod matrix;
mod paths;
mod saved;
mod sentences;
mod unusual;
mod variant;

use context::Draw;
use jitlat_core::answer::Answer;
use jitlat_core::{Analyzer, Options};
use jitlat_store::log::LogReader;
use matrix::{Matrix, Score};
use std::io::Cursor;
use std::ops::Range;
use variant::Variant;

/// A kind of test: its name, and a function that draws one.
type Family = (&'static str, fn(&mut Draw) -> Variant);

/// All kinds of tests.
const FAMILIES: [Family; 48] = [
    ("clean", paths::clean),
    ("nearly clean", paths::nearly_clean),
    ("outage", paths::outage),
    ("outages", paths::outages),
    ("queue: upload", paths::upload),
    ("queue: flood", paths::flood),
    ("queue: saw", paths::sawtooth),
    ("queue: tide", paths::tide),
    ("queue: overload", paths::overload),
    ("random loss", paths::random_loss),
    ("random loss, a while", paths::random_loss_for_a_while),
    ("bursty loss", paths::bursty_loss),
    ("policing", paths::policing),
    ("reordering", paths::reordering),
    ("two routes", paths::two_routes),
    ("duplication", paths::duplication),
    ("route change", paths::route_change),
    ("size dependent", paths::size_dependent),
    ("TCP", paths::tcp),
    ("mixture", paths::mixture),
    ("sender stall", hosts::sender_stall),
    ("receiver stall", hosts::receiver_stall),
    ("clock step", hosts::clock_step),
    ("clock skew", hosts::clock_skew),
    ("local queue", hosts::local_queue),
    ("send failure", hosts::send_failure),
    ("incomplete log", hosts::incomplete),
    ("queue throughout", hosts::queue_throughout),
    ("few packets", hosts::few),
    ("nothing arrives", hosts::nothing),
    ("clean, wide jitter", paths::wide_jitter),
    ("clean, sliding slots", unusual::sliding_slots),
    ("sender stalls, any size", unusual::sender_stalls),
    ("receiver stalls, any size", unusual::receiver_stalls),
    ("receiver stalls, short", unusual::short_receiver_stalls),
    ("sender's clock, any step", unusual::sender_clock),
    ("receiver's clock, any step", unusual::receiver_clock),
    ("short queues", unusual::short_queues),
    ("hand-over", unusual::hand_over),
    ("clock skew, radio", unusual::radio_skew),
    ("Gilbert-Elliott", losses::gilbert_elliott),
    ("periodic loss", losses::periodic),
    ("few gaps", losses::gaps),
    ("loss ramp", losses::ramp),
    ("loss in spells", losses::spells),
    ("clock adjusted", unusual::clock_adjusted),
    ("route change and drift", unusual::route_and_drift),
    ("periodic among others", losses::periodic_among_others),
];

/// Returns the verdict on a log.
fn judge(name: &str, log: Vec<u8>) -> Option<Answer> {
    judge_with(name, log, &jitlat_verdict::options())
}

fn judge_with(name: &str, log: Vec<u8>, options: &Options) -> Option<Answer> {
    let mut reader = LogReader::from_reader(name, Box::new(Cursor::new(log))).expect("it is a log");
    let mut analyzer = Analyzer::new(reader.session(), options);
    let mut failure = None;
    reader.records(&mut failure).for_each(|record| analyzer.push(&record));
    assert!(failure.is_none(), "{failure:?}");
    analyzer.finish(reader.session()).answer
}

/// Scores every family over these seeds.
fn run(all: Range<u64>) -> Matrix {
    let wanted = std::env::var("JITLAT_FAMILY").ok();
    let single = std::env::var("JITLAT_SEED").ok().and_then(|s| s.parse::<u64>().ok());
    let mut matrix = Matrix::default();
    for (family, (name, draw)) in (0..).zip(FAMILIES) {
        if wanted.as_deref().is_some_and(|w| !w.split(';').any(|w| name.starts_with(w))) {
            continue;
        }
        let seeds: Vec<u64> = single.map_or(all.clone().collect(), |s| vec![s]);
        let halves: Vec<Vec<u64>> =
            (0..2).map(|k| seeds.iter().copied().filter(|s| s % 2 == k).collect()).collect();
        let scores: Vec<Score> = std::thread::scope(|scope| {
            let threads: Vec<_> = halves
                .iter()
                .map(|seeds| {
                    scope.spawn(move || {
                        let of = |seed: &u64| {
                            let variant = draw(&mut Draw::new(*seed, family));
                            let log = variant.log();
                            if let (Some(_), Ok(path)) = (single, std::env::var("JITLAT_SAVE")) {
                                std::fs::write(path, &log).unwrap();
                            }
                            Score::new(*seed, &variant, judge(variant.name(), log))
                        };
                        seeds.iter().map(of).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
        });
        matrix.add(name, scores);
    }
    matrix
}

/// A sample of every family: enough to notice a regression.
#[test]
fn causes_are_named_right() {
    let matrix = run(0..5);
    println!("{matrix}");
    matrix.check();
}

/// Scores all seeds, and prints the tables of the documentation.
#[test]
#[ignore = "minutes; run by `just verdicts`"]
fn confusion_matrix() {
    let variants = std::env::var("JITLAT_VARIANTS").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let first = std::env::var("JITLAT_FIRST").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let matrix = run(first..first + variants);
    println!("{matrix}");
    if std::env::var_os("JITLAT_FAMILY").is_none() {
        matrix.check();
    }
}

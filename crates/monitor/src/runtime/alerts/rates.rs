//! Measures the false-alarm rates of `changed` and `worse` on paths that do not change, and their detection times on paths that
//! do. Results in virtual time go into an archive and are judged as in a monitor. `just alert-rates` makes the table of
//! docs/guide/monitoring.md; `cargo test` runs a small part.

use super::compare::Comparer;
use super::judge::result_of;
use crate::alert::{AlertEvent, AlertMachine};
use crate::file::read;
use crate::runtime::fake::Simple;
use jitlat_archive::Archive;
use jitlat_core::time::StampSource;
use jitlat_core::{Direction, Schedule, Span, TestSpec, Transport, WallTime};
use jitlat_impair::{Clock, Jitter, PathModel, Trial, TrialOutcome};
use jitlat_store::log::{LogVersion, LogWriter};
use std::collections::BTreeMap;

/// Time between two tests of a path.
const EVERY: Span = Span::seconds(600);
/// Number of earlier tests, with which the judged ones are compared.
const BEFORE: u64 = 24;
/// Number of tests after the change.
const AFTER: u64 = 12;

const FILE: &str = "host = [{ name = \"a\", address = \"192.0.2.1\" }, { name = \"b\", address = \"192.0.2.2\" }]\n\
                    [[test]]\nname = \"t\"\nevery = \"10min\"\nfor = \"10s\"\nclient = \"first\"\n\
                    [[alert]]\nname = \"changed\"\nif = \"changed\"\n[[alert]]\nname = \"worse\"\nif = \"worse\"\n\
                    [[alert]]\nname = \"changed 3 of 5\"\nif = \"changed\"\nof = \"3 of 5\"\n\
                    [[alert]]\nname = \"worse 3 of 5\"\nif = \"worse\"\nof = \"3 of 5\"\n";

/// Simulated path: delay, and distribution and approximate spread of its jitter.
struct Path {
    name: &'static str,
    delay: Span,
    law: Vec<Jitter>,
    spread: Span,
}

fn paths() -> Vec<Path> {
    let spikes = |share, max| Jitter::Spikes { share, max };
    let of = |name, delay, law, spread| Path { name, delay, law, spread };
    let log_normal = |median, sigma| Jitter::LogNormal { median, sigma };
    vec![
        of(
            "LAN",
            Span::micros(300),
            vec![Jitter::Exponential { mean: Span::micros(30) }, spikes(0.001, Span::millis(2))],
            Span::micros(40),
        ),
        of(
            "WAN",
            Span::millis(40),
            vec![log_normal(Span::micros(500), 0.6), spikes(0.001, Span::millis(20))],
            Span::micros(500),
        ),
        of(
            "ADSL",
            Span::millis(12),
            vec![Jitter::Uniform { max: Span::millis(2) }, Jitter::Slots { every: Span::micros(250) }],
            Span::millis(1),
        ),
        of(
            "Wi-Fi",
            Span::millis(3),
            vec![log_normal(Span::millis(1), 0.8), spikes(0.004, Span::millis(35))],
            Span::millis(2),
        ),
        of(
            "mobile",
            Span::millis(30),
            vec![
                Jitter::Uniform { max: Span::millis(5) },
                spikes(0.08, Span::millis(8)),
                Jitter::Slots { every: Span::millis(5) },
            ],
            Span::millis(4),
        ),
    ]
}

impl Path {
    /// Creates the log of test `k`. `more` is the mean of an additional, exponentially distributed jitter, as a
    /// multiple of the path's spread.
    fn log(&self, k: u64, more: f64) -> Vec<u8> {
        let spec =
            TestSpec::new(Direction::Up, Transport::Udp, 500, 160, Span::millis(20), Schedule::Periodic)
                .unwrap();
        let mut trial = Trial::new(spec, k + 1);
        trial.epoch = WallTime(1_767_225_600_000_000_000) + EVERY.times(k as i64);
        trial.probes = 8;
        // Even disciplined clocks have another offset in each test.
        trial.server.clock =
            Clock { offset: Span::micros(20 + (k as i64 * 37) % 100), skew_ppb: 0, shifts: Vec::new() };
        let mut law = self.law.clone();
        if more > 0.0 {
            law.push(Jitter::Exponential { mean: Span((self.spread.0 as f64 * more) as i64) });
        }
        for config in [&mut trial.up, &mut trial.down] {
            *config = PathModel {
                delay: self.delay,
                jitter: Jitter::Sum(law.clone()),
                in_order: true,
                ..PathModel::default()
            };
        }
        for host in [&mut trial.client, &mut trial.server] {
            host.wake = Jitter::LogNormal { median: Span::micros(20), sigma: 0.8 };
            host.reading = Jitter::LogNormal { median: Span::micros(6), sigma: 0.6 };
            host.stamps = StampSource::Kernel;
        }
        let TrialOutcome { mut session, records, .. } = trial.run();
        session.created = Some(trial.epoch);
        let mut writer = LogWriter::new(Vec::new(), LogVersion::V3);
        writer.begin(&session);
        records.iter().for_each(|record| writer.record(record));
        writer.finish(&session);
        writer.close().0
    }
}

/// Results for a path.
#[derive(Debug, Default)]
struct Rates {
    judged: u64,
    /// Number of alerts of each rule while nothing had changed.
    false_alarms: BTreeMap<String, u64>,
    /// Number of tests from the change until each rule first fired; a rule that did not fire is absent.
    found_after: BTreeMap<String, u64>,
}

fn rates(path: &Path, unchanged: u64, more: f64) -> Rates {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    let model = read(FILE, &Simple).unwrap();
    let start = WallTime(1_767_225_600_000_000_000);
    let mut machine = AlertMachine::new(&model, "a", &BTreeMap::new(), start);
    let (mut comparer, mut rates, mut judged) = (Comparer::default(), Rates::default(), 0);
    let changes_at = BEFORE + unchanged;
    for k in 0..changes_at + AFTER {
        let log = folder.path().join("log");
        std::fs::write(&log, path.log(k, if k >= changes_at { more } else { 0.0 })).unwrap();
        let tags = [("test", "t"), ("client", "a"), ("server", "b")];
        archive.add(&log, &tags.map(|(key, value)| (key.to_owned(), value.to_owned()))).unwrap();
        for entered in archive.entered_after(judged, 9).unwrap() {
            judged = entered.number;
            let mut result = result_of(&entered).unwrap();
            if k >= BEFORE {
                for against in machine.comparisons(&result) {
                    let compared = comparer.compare(&archive, &entered, against);
                    result.compared.extend(compared.map(|compared| (against, compared)));
                }
                rates.judged += u64::from(k < changes_at);
            }
            machine.judge(&result, start + EVERY.times(k as i64 + 1));
        }
        for change in machine.take().changes.into_iter().filter(|change| change.event != AlertEvent::Resolved)
        {
            let rule = change.subject.rule;
            if k < changes_at {
                *rates.false_alarms.entry(rule).or_default() += 1;
            } else {
                rates.found_after.entry(rule).or_insert(k - changes_at + 1);
            }
        }
    }
    rates
}

#[test]
fn a_path_that_does_not_change_is_quiet_and_one_that_does_is_found() {
    is_quiet_until_it_changes("WAN", 12);
}

/// Checks that only a change of the path causes an alert, although the packets of each test meet the time slots of a
/// mobile network at a different phase.
#[test]
fn what_tests_differ_by_among_themselves_is_no_change() {
    is_quiet_until_it_changes("mobile", 12);
}

fn is_quiet_until_it_changes(path: &str, unchanged: u64) {
    let path = paths().into_iter().find(|known| known.name == path).unwrap();
    let rates = rates(&path, unchanged, 2.0);
    assert_eq!(rates.judged, unchanged);
    assert!(rates.false_alarms.is_empty(), "{rates:?}");
    assert!(rates.found_after.get("worse 3 of 5").is_some_and(|tests| *tests <= 5), "{rates:?}");
}

/// Runs `JITLAT_TESTS` tests of each path.
#[test]
#[ignore = "takes minutes: just alert-rates"]
#[expect(clippy::print_stdout, reason = "a table for people")]
fn table() {
    let tests = std::env::var("JITLAT_TESTS").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    println!(
        "| path | tests | `changed` | `worse` | `changed` 3 of 5 | `worse` 3 of 5 | + 50 % | + 100 % | + 200 % |"
    );
    let run = |path: &Path| {
        let mut cells = vec![path.name.to_owned(), tests.to_string()];
        let first = rates(path, tests, 0.5);
        for rule in ["changed", "worse", "changed 3 of 5", "worse 3 of 5"] {
            let n = first.false_alarms.get(rule).copied().unwrap_or(0);
            cells.push(format!("{n} ({:.1} %)", 100.0 * n as f64 / first.judged as f64));
        }
        let others = [1.0, 2.0].map(|more| rates(path, 6, more));
        for found in [&first, &others[0], &others[1]] {
            let after = found.found_after.get("worse 3 of 5");
            cells.push(after.map_or_else(|| "no".to_owned(), |n| format!("{n} tests")));
        }
        format!("| {} |", cells.join(" | "))
    };
    let lines = std::thread::scope(|scope| {
        let threads: Vec<_> = paths().into_iter().map(|path| scope.spawn(move || run(&path))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    lines.iter().for_each(|line| println!("{line}"));
}

//! Figures that are reported after a clock was set: they exclude the step, in every kind of test and in constant memory.

use jitlat_core::answer::{CauseId, JitterWithoutStep};
use jitlat_core::time::StampSource;
use jitlat_core::{Analyzer, Direction, Options, Schedule, Span, Summary, TestSpec, Transport, WallTime};
use jitlat_impair::{Answering, ClockChange, Jitter, PathModel, Trial};

/// Simulates 3000 packets, one every 10 ms, over a path with at most 3 ms of jitter. The server's clock is set forward
/// by 1 s at 3.2 s.
fn trial(two_way: bool) -> Trial {
    let spec = TestSpec::new(Direction::Up, Transport::Udp, 3000, 160, Span::millis(10), Schedule::Periodic)
        .unwrap();
    let mut trial = Trial::new(spec, 7);
    trial.epoch = WallTime(1_700_000_000_000_000_000);
    let jitter = Jitter::Uniform { max: Span::millis(3) };
    for path in [&mut trial.up, &mut trial.down] {
        *path = PathModel {
            delay: Span::millis(20),
            jitter: jitter.clone(),
            in_order: true,
            ..PathModel::default()
        };
    }
    for host in [&mut trial.client, &mut trial.server] {
        host.stamps = StampSource::Kernel;
    }
    trial.server.clock.shifts.push(ClockChange {
        at: Span::millis(3200),
        by: Span::millis(1000),
        over: Span::ZERO,
    });
    if two_way {
        trial.answering = Some(Answering {
            protocol: "stamp".to_owned(),
            far_clock: true,
            counts: true,
            processing: Span::micros(20),
        });
    } else {
        trial.probes = 8;
    }
    trial
}

fn summary(two_way: bool, streaming: bool) -> Summary {
    let outcome = trial(two_way).run();
    let options = Options { streaming, ..jitlat_verdict::options() };
    let mut analyzer = Analyzer::new(&outcome.session, &options);
    outcome.records.iter().for_each(|record| analyzer.push(record));
    analyzer.finish(&outcome.session)
}

fn check(without: Option<&JitterWithoutStep>, what: &str) {
    let without = without.unwrap_or_else(|| panic!("{what}: the step is not excluded"));
    assert_eq!(without.steps, 1, "{what}: {without:?}");
    assert!((without.at_ns - 3_200_000_000).abs() < 50_000_000, "{what}: {without:?}");
    let ascending = [without.p50_ns, without.p95_ns, without.p99_ns, without.p999_ns, without.max_ns];
    assert!(ascending.is_sorted(), "{what}: {without:?}");
    assert!((2_500_000..4_000_000).contains(&without.p99_ns), "{what}: {without:?}");
}

#[test]
fn jitter_is_reported_without_the_step() {
    for streaming in [false, true] {
        let one_way = summary(false, streaming);
        let answer = one_way.answer.as_ref().unwrap();
        assert!(answer.names(CauseId::ClockStep), "{answer:?}");
        check(answer.without_clock_step.as_ref(), "one way");
        // The defined metric includes the step.
        assert!(one_way.pdv.max.unwrap() > 900_000_000);
        let jitter = one_way.verdicts.iter().find(|verdict| verdict.code == "jitter").unwrap();
        assert!(jitter.text.starts_with("Jitter without the clock step at 3.2 s: "), "{}", jitter.text);
        let two_way = summary(true, streaming);
        assert_eq!(two_way.answer.as_ref().unwrap().without_clock_step, None, "one clock stamps round trips");
        let figures = two_way.two_way.as_ref().unwrap();
        for (way, name) in [(&figures.up, "up"), (&figures.down, "down")] {
            check(way.as_ref().unwrap().without_clock_step.as_ref(), name);
        }
    }
}

#[test]
fn without_a_step_nothing_is_excluded() {
    let mut trial = trial(false);
    trial.server.clock.shifts.clear();
    let outcome = trial.run();
    let summary = jitlat_verdict::analyze(&outcome.session, outcome.records);
    assert_eq!(summary.answer.unwrap().without_clock_step, None);
}

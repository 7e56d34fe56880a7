//! Ladder of one-way delays: the verdict and the profiles of spotless paths that differ only in their length.

use jitlat_core::answer::{Answer, Severity};
use jitlat_core::{PacketRecord, Session, Span, TestSpec, WallTime};
use std::fmt::Write;

/// One-way delays, in ms.
const STEPS: [i64; 13] = [10, 20, 50, 75, 100, 150, 200, 250, 300, 400, 500, 1000, 2000];
const PACKETS: i64 = 3000;

/// Judges a path of this length, in ms: nothing lost, jitter of at most 0.2 ms. `known`: one clock stamps both ends.
fn judged(ms: i64, known: bool) -> Answer {
    let mut session = Session::new(TestSpec::default());
    if known {
        let host = Some("192.0.2.1".parse().unwrap());
        (session.src, session.dst) = (host, host);
    }
    session.sent = Some(PACKETS as u32);
    let sent = |seq: i64| WallTime(1_790_000_000_000_000_000 + seq * 20_000_000);
    let delay = |seq: i64| Span(ms * 1_000_000 + seq * 7919 % 200 * 1000);
    let records = (0..PACKETS).map(|seq| PacketRecord::one_way(seq, sent(seq), sent(seq) + delay(seq)));
    jitlat_verdict::analyze(&session, records).answer.unwrap()
}

fn table() -> String {
    let names = ["voice", "video", "gaming", "cloud-desktop", "telemetry", "v2x"];
    let mut text =
        format!("| one-way delay | verdict | {} |\n|---|---|{}\n", names.join(" | "), "---|".repeat(6));
    let mut before: Option<Answer> = None;
    for ms in STEPS {
        let answer = judged(ms, true);
        let grades = names.map(|name| answer.profiles[name].severity.name());
        let delay = if ms < 1000 { format!("{ms} ms") } else { format!("{} s", ms / 1000) };
        writeln!(text, "| {delay} | {} | {} |", answer.severity.name(), grades.join(" | ")).unwrap();
        if let Some(before) = before {
            assert!(answer.severity >= before.severity, "{ms} ms: {}", answer.headline);
            let worse = |name: &&str| answer.profiles[*name].severity >= before.profiles[*name].severity;
            assert!(names.iter().all(worse), "{ms} ms: {:?}", answer.profiles);
        }
        // The limit that was exceeded is named.
        let worse = answer.profiles.values().filter(|suits| suits.severity > Severity::Good);
        worse.for_each(|suits| assert!(suits.because.contains("limit"), "{ms} ms: {}", suits.because));
        before = Some(answer);
    }
    text
}

#[test]
fn the_ladder_of_delays_is_that_of_the_documentation() {
    let table = table();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics/verdict.md");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(&table), "docs/metrics/verdict.md lacks:\n{table}");
}

#[test]
fn a_delay_that_no_clock_bounds_is_unknown_to_each_profile() {
    for ms in STEPS {
        let answer = judged(ms, false);
        assert_eq!(answer.severity, Severity::Good);
        assert!(answer.headline.contains("the delay is unknown"), "{}", answer.headline);
        let unknown = answer.profiles.values().all(|suits| suits.severity == Severity::Unknown);
        assert!(unknown && !answer.profiles.is_empty(), "{ms} ms: {:?}", answer.profiles);
    }
}

#[test]
fn long_delays_are_named_in_the_headline() {
    for (ms, size) in [(300, "300 ms"), (1000, "1.0 s"), (2000, "2.0 s")] {
        let answer = judged(ms, true);
        assert!(
            answer.headline.contains("one way") && answer.severity > Severity::Good,
            "{size}: {}",
            answer.headline
        );
    }
}

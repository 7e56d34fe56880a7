use super::*;
use crate::testing::{MS, SYNCHRONISED, answer, first};
use jitlat_core::answer::Severity;
use jitlat_core::metrics::schedule_error::ScheduleError;
use jitlat_core::session::{Ending, Session};
use jitlat_core::spec::TestSpec;
use jitlat_core::summary::StampCounts;
use jitlat_core::twoway::TwoWayFigures;
use jitlat_core::{Analyzer, PacketRecord, WallTime};

fn summary(delay: impl Fn(i64) -> Option<i64>) -> Summary {
    let session = Session {
        sent: Some(1000),
        declared: Some(1000),
        ending: Ending::Complete,
        ..Session::new(TestSpec::default())
    };
    let mut analyzer = Analyzer::new(&session, &crate::options());
    for seq in 0..1000 {
        if let Some(d) = delay(seq) {
            analyzer.push(&PacketRecord::one_way(
                seq,
                WallTime(seq * 20_000_000),
                WallTime(seq * 20_000_000 + d),
            ));
        }
    }
    analyzer.finish(&session)
}

fn opinion(delay: impl Fn(i64) -> Option<i64>) -> Opinion {
    Opinion::of(&summary(delay))
}

#[test]
fn a_jitter_that_is_not_the_buffers_has_a_note() {
    let noise = |seq: i64| 5_000_000 + seq * 7919 % 100_000;
    assert_eq!(jitter_note(&summary(|seq| Some(noise(seq)))), None);
    let longer = summary(|seq| Some(noise(seq) + if seq < 600 { 0 } else { 12 * MS }));
    let note = jitter_note(&longer).unwrap();
    assert_eq!(note, "the jitter includes the change of the delay; the buffer does not");
    // A queue is part of both.
    let queue = summary(|seq| Some(noise(seq) + (60 * MS - (seq - 500).abs() * MS / 2).max(0)));
    assert_eq!(jitter_note(&queue), None);
}

#[test]
fn a_quiet_path_is_good() {
    let quiet = opinion(|seq| Some(5_000_000 + seq * 7919 % 1000));
    assert!(quiet.headline.starts_with("Good: nothing is wrong"), "{}", quiet.headline);
    assert!(quiet.findings.iter().all(|f| f.level <= Level::Note), "{:?}", quiet.findings);
    assert!(quiet.belief.iter().any(|b| b.contains("the clock offset is unknown")));
}

#[test]
fn the_worst_finding_comes_first_and_names_the_reason() {
    let lossy = opinion(|seq| (seq % 50 > 9).then_some(5_000_000 + seq * 7919 % 1000));
    assert_eq!(lossy.level, Level::Bad);
    assert_eq!(lossy.findings[0].code, "loss");
    assert!(
        lossy.headline.starts_with("Bad: 20 % of packets lost at regular intervals, every 1.0 s"),
        "{}",
        lossy.headline
    );
    assert!(lossy.findings.windows(2).all(|w| w[0].level >= w[1].level));
}

#[test]
fn nothing_received_is_no_verdict_on_quality() {
    let none = opinion(|_| None);
    assert_eq!(none.level, Level::Bad);
    assert!(none.headline.starts_with("Bad: nothing arrived"), "{}", none.headline);
}

#[test]
fn without_an_answer_the_worst_finding_speaks() {
    let of = |verdicts: Vec<Verdict>, answered: bool| {
        let answer = answered.then(|| answer(Severity::Poor, vec![]));
        let opinion = Opinion::of(&Summary { verdicts, answer, ..Summary::default() });
        (opinion.level, opinion.headline)
    };
    assert_eq!(of(vec![], false), (Level::Note, "Nothing is known about this path.".into()));
    let good = Verdict::new("loss", Level::Good, "fine");
    let bad = Verdict::new("jitter", Level::Bad, "wide");
    assert_eq!(of(vec![good.clone(), bad], false), (Level::Bad, "wide".into()));
    assert_eq!(of(vec![good], true).0, Level::Poor);
}

fn belief_of(change: impl FnOnce(&mut Summary)) -> Vec<String> {
    let mut s = Summary::default();
    change(&mut s);
    belief(&s)
}

#[test]
fn clocks_say_what_to_believe_of_a_delay() {
    let of = |change: fn(&mut Summary)| belief_of(change).remove(0);
    assert!(
        of(|s| s.two_way = Some(Box::new(TwoWayFigures::default())))
            .starts_with("Round trips: one clock stamps both ends")
    );
    let known = of(|s| (s.clock.offset_ns, s.clock.bound_ns) = (Some(-3000), Some(500.0)));
    assert!(
        known.starts_with("Delay: the clock offset was -3.00 us (server - client), known to +/- 500 ns."),
        "{known}"
    );
    assert!(of(|s| s.clock.offset_ns = Some(5)).starts_with("Delay: the clock offset was about 5 ns"));
    let synchronised = of(|s| {
        (s.clock.client.after, s.clock.server.after) = (Some(SYNCHRONISED), Some(SYNCHRONISED));
    });
    assert!(synchronised.starts_with("Delay: both kernels report synchronised clocks"));
    assert!(of(|_| ()).starts_with("Delay: the clock offset is unknown"));
}

#[test]
fn the_senders_error_is_measured_against_the_jitter() {
    let of = |error: i64| {
        let s = Summary {
            schedule_error: Some(ScheduleError { p99: error, ..ScheduleError::default() }),
            pdv: jitlat_core::summary::Distribution {
                percentiles: jitlat_core::distribution::Percentiles(vec![(Percent(99_000), Some(1000))]),
                ..Default::default()
            },
            ..Summary::default()
        };
        sender(&s).unwrap()
    };
    let ends = |word: &str| first(1..=5000, |error| !of(error).contains(word));
    assert_eq!(ends("which is small compared with"), 101);
    let from = |word: &str| first(1..=5000, |error| of(error).contains(word));
    assert_eq!(from("larger than"), 2001);
    assert!(
        of(500).contains("which is not negligible compared with") && of(501).contains("about as large as")
    );
    assert!(of(2000).contains("about as large as"));
    assert_eq!(sender(&Summary::default()), None);
}

#[test]
fn the_sources_of_stamps_are_named() {
    let of = |sent: [u64; 4], arrived: [u64; 4]| {
        let coverage = |[user, kernel, hardware, wire]: [u64; 4]| Coverage { user, kernel, hardware, wire };
        let stamps_of =
            StampCounts { sent: coverage(sent), arrived: coverage(arrived), ..StampCounts::default() };
        stamps(&Summary { stamps: stamps_of, ..Summary::default() })
    };
    let apart = "the hosts' own scheduling is not part of the figures.";
    let part = "the hosts' own scheduling is part of the figures, usually about 10 us.";
    assert_eq!(of([0; 4], [0; 4]), format!("Stamps: none on sending, none on arrival; {apart}"));
    assert_eq!(
        of([0, 1, 0, 0], [0, 0, 2, 3]),
        format!("Stamps: kernel on sending, hardware and capture on arrival; {apart}")
    );
    assert_eq!(
        of([1, 0, 0, 0], [0, 1, 0, 0]),
        format!("Stamps: user-space on sending, kernel on arrival; {part}")
    );
    assert_eq!(
        of([0, 1, 0, 0], [5, 1, 0, 0]),
        format!("Stamps: kernel on sending, user-space and kernel on arrival; {part}")
    );
}

#[test]
fn a_sample_resolves_so_much() {
    let of = |n: u64| {
        sample(&{
            let mut s = Summary::default();
            (s.counts.unique_valid, s.header.proto) = (n, Transport::Udp.number());
            s
        })
    };
    let table = [
        (2, ", too few for the 99th percentile"),
        (99, ", too few for the 99th percentile"),
        (100, " resolve the 99th percentile, but no higher one"),
        (999, " resolve the 99th percentile, but no higher one"),
        (1000, " resolve the 99.9th percentile, but do not bound it from above"),
        (3699, " resolve the 99.9th percentile, but do not bound it from above"),
        (3700, " resolve the 99.9th percentile and bound it from both sides"),
    ];
    for (n, finest) in table {
        assert_eq!(of(n).unwrap(), format!("Sample: {n} packets{finest}."));
    }
    assert_eq!(of(0), None);
    let mut s = Summary::default();
    (s.counts.unique_valid, s.header.proto, s.inference.t_valid) = (5, Transport::Tcp.number(), Some(false));
    let text = sample(&s).unwrap();
    assert!(
        text.contains("neighbouring packets are correlated") && text.contains("TCP hides loss"),
        "{text}"
    );
    (s.counts.unique_valid, s.inference.p99.effective_n) = (1000, Some(61.4));
    let text = sample(&s).unwrap();
    assert!(
        text.starts_with(
            "Sample: 1000 packets, as precise as 61 independent ones because neighbours are correlated, too few \
             for the 99th percentile. TCP"
        ),
        "{text}"
    );
    s.inference.p99.effective_n = Some(400.0);
    let text = sample(&s).unwrap();
    assert!(text.contains("are correlated, resolve the 99th percentile, but no higher one."), "{text}");
}

#[test]
fn what_is_known_is_said_in_order() {
    let lines = belief_of(|s| {
        s.counts.unique_valid = 10;
        s.schedule_error = Some(ScheduleError { p99: MS, ..ScheduleError::default() });
        s.pdv.percentiles.0 = vec![(Percent(99_000), Some(1000))];
    });
    let kinds: Vec<&str> = lines.iter().map(|l| l.split(':').next().unwrap()).collect();
    assert_eq!(kinds, ["Delay", "Sender", "Stamps", "Sample"]);
}

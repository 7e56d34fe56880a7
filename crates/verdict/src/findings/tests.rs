use super::*;
use crate::testing::{MS, answer, cause, first};
use jitlat_core::answer::{Cause, Severity, Suitability};
use jitlat_core::clock::SyncState;
use jitlat_core::metrics::clock::Corrected;
use jitlat_core::metrics::dejitter::{Dejitter, DejitterPoint};
use jitlat_core::metrics::objectives::Y1541;
use jitlat_core::metrics::regression::Trend;
use jitlat_core::session::Session;
use jitlat_core::spec::TestSpec;
use jitlat_core::summary::PathSegment;
use jitlat_core::{PacketRecord, Span, WallTime, analyze};

/// Findings of a test over a path of `delay` ns, between clocks whose offset is known to `bound` ns.
fn of_path(delay: i64, bound: i64) -> Vec<Verdict> {
    let session = Session {
        classic_offset: Some(Span(0)),
        classic_rtt: Some(Span(2 * bound)),
        ..Session::new(TestSpec::default())
    };
    let record = |seq: i64| {
        let sent = seq * 20_000_000;
        PacketRecord::one_way(seq, WallTime(sent), WallTime(sent + delay + seq * 7919 % 1000))
    };
    analyze(&session, (0..1000).map(record), &crate::options()).verdicts
}

#[test]
fn a_summary_says_how_long_packets_take_and_what_class_that_is() {
    let of = |code: &str, found: &[Verdict]| found.iter().find(|v| v.code == code).cloned().unwrap();
    let near = of_path(5_000_000, 800);
    let delay = of("delay", &near);
    assert_eq!(delay.level, Level::Good);
    let text = "One-way delay averages 5.00 ms after correction of the clocks, +/- 800 ns at most.";
    assert_eq!(delay.text, text);
    let class = of("class", &near);
    assert_eq!(class.level, Level::Good);
    assert!(class.text.starts_with("Meets ITU-T Y.1541 class 6 (interactive"), "{}", class.text);
    let far = of_path(410_000_000, 800);
    assert_eq!(of("delay", &far).level, Level::Poor);
    assert!(of("delay", &far).text.ends_with("from mouth to ear."));
    assert_eq!(of("class", &far).level, Level::Note);
}

/// Findings of an empty summary after `change`.
fn found(change: impl FnOnce(&mut Summary)) -> Vec<Verdict> {
    let mut s = Summary::default();
    (s.counts.unique_valid, s.counts.sent, s.reordering.observable) = (1000, 1000, true);
    change(&mut s);
    findings(&s)
}

/// Returns the level and the text of the only finding.
fn one(change: impl FnOnce(&mut Summary)) -> (Level, String) {
    let [v] = found(change).try_into().unwrap();
    (v.level, v.text)
}

#[test]
fn nothing_usable_is_the_only_finding() {
    let none = one(|s| (s.counts.unique_valid, s.loss.ratio) = (0, Some(0.5)));
    assert_eq!(none, (Level::Bad, "Nothing usable arrived.".to_owned()));
    assert_eq!(found(|_| ()), []);
}

#[test]
fn no_loss_is_good_where_it_promises_5_percent() {
    let of = |bound: f64| {
        one(|s| (s.loss.ratio, s.loss.rule_of_three, s.counts.sent) = (Some(0.0), Some(bound), 60))
    };
    let few = "No loss, but only 60 packets: loss of up to 6.0 % is possible.";
    assert_eq!(of(0.06), (Level::Note, few.to_owned()));
    assert_eq!(
        of(0.05),
        (Level::Good, "No loss in 60 packets: below 5.0 % with 95 % confidence.".to_owned())
    );
}

#[test]
fn losses_are_said_with_their_pattern() {
    let of = |pattern, outages: Vec<u64>| {
        one(|s| {
            (s.loss.ratio, s.counts.lost, s.loss.pattern) = (Some(0.05), 50, pattern);
            s.loss.run_length_hist = [(1, 20), (7, 2)].into();
            s.loss.gilbert.mean_burst = Some(2.5);
            let causes = outages.iter().map(|count| Cause { count: *count, ..cause(CauseId::Outage) });
            let others = [Cause { count: 9, ..cause(CauseId::Queue) }];
            s.answer = Some(answer(Severity::Bad, causes.chain(others).collect()));
        })
    };
    let table = [
        (
            Some(LossPattern::Bursty),
            "in bursts of 2.5 packets on average and 7 at most: concealment and single-packet repair do not cover \
             that",
        ),
        (Some(LossPattern::Random), "in isolated losses"),
        (Some(LossPattern::AntiClustered), "more evenly spread than random loss"),
        (Some(LossPattern::Insufficient), "at most 7 in a row: too few to tell bursts from isolated losses"),
        (None, "at most 7 in a row: too few to tell bursts from isolated losses"),
    ];
    for (pattern, text) in table {
        assert_eq!(of(pattern, vec![]), (Level::Poor, format!("5.0 % of packets were lost, {text}.")));
    }
    // The far host reports counts only.
    let counted = one(|s| (s.loss.ratio, s.counts.lost) = (Some(0.05), 50));
    assert_eq!(counted.1, "5.0 % of packets were lost.");
    let random = Some(LossPattern::Random);
    assert!(of(random, vec![1]).1.ends_with("lost, most of them in one outage."));
    assert!(of(random, vec![1, 3]).1.ends_with("lost, most of them in 4 outages."));
    assert_eq!(found(|s| (s.loss.ratio, s.counts.lost, s.reordering.observable) = (Some(0.1), 5, false)), []);
}

#[test]
fn jitter_is_judged_as_a_wait() {
    let of = |ns: i64| {
        one(|s| {
            s.pdv.percentiles.0 = vec![(Percent(99_900), Some(ns))];
            s.pdv.median = Some(1e6);
        })
    };
    assert_eq!(first(0..=500 * MS, |ns| of(ns).0 > Level::Good), 50 * MS + 1);
    assert_eq!(
        of(7 * MS).1,
        "Jitter: half of the packets arrive within 1.00 ms of the fastest, 99.9 % within 7.00 ms."
    );
}

#[test]
fn jitter_across_a_jump_is_that_between_jumps() {
    let of = |id: Option<CauseId>| {
        one(|s| {
            s.pdv.percentiles.0 = vec![(Percent(99_900), Some(400 * MS))];
            let part = |pdv_p999| PathSegment { pdv_p999, ..PathSegment::default() };
            s.segments = vec![part(2 * MS), part(3 * MS)];
            s.answer = id.map(|id| answer(Severity::Bad, vec![cause(id)]));
        })
    };
    let within = "Jitter: 99.9 % of the packets arrive within 3.00 ms of the fastest between two changes of the smallest delay, 400 ms over the whole test.";
    for id in [None, Some(CauseId::RouteChange), Some(CauseId::ClockStep)] {
        assert_eq!(of(id), (Level::Good, within.to_owned()));
    }
    assert_eq!(of(Some(CauseId::Queue)).0, Level::Bad);
}

#[test]
fn overtaken_packets_are_poor_above_1_percent() {
    let of = |parts: i64| one(|s| s.reordering.ratio = Some(parts as f64 / 1e4));
    assert_eq!(of(5), (Level::Note, "0.05 % of packets were reordered.".to_owned()));
    assert_eq!(first(1..=1000, |parts| of(parts).0 == Level::Poor), 101);
    assert_eq!(found(|s| s.reordering.ratio = Some(0.0)), []);
    assert_eq!(found(|s| (s.reordering.ratio, s.reordering.observable) = (Some(0.1), false)), []);
}

#[test]
fn a_trend_is_said_where_there_is_no_answer() {
    let of = |verdict, answered: bool| {
        found(|s| {
            s.trend = Some(Trend { verdict, because: "why".into(), ..Trend::default() });
            s.answer = answered.then(|| answer(Severity::Bad, vec![]));
        })
    };
    let table = [
        (TrendVerdict::Overload, Level::Bad, "Delay keeps rising: the path carries less than is sent (why)."),
        (TrendVerdict::Draining, Level::Note, "Delay falls throughout: a queue was emptying (why)."),
        (TrendVerdict::Skew, Level::Note, "The two clocks run at different rates (why)."),
        (TrendVerdict::Undecided, Level::Note, "Delay changes over the test without a single reason (why)."),
    ];
    for (verdict, level, text) in table {
        assert_eq!(of(verdict, false), [Verdict::new("trend", level, text)]);
        assert_eq!(of(verdict, true), []);
    }
    assert_eq!(of(TrendVerdict::None, false), []);
}

#[test]
fn no_finding_is_graver_than_the_answer() {
    let of = |severity| {
        one(|s| {
            s.pdv.percentiles.0 = vec![(Percent(99_900), Some(900 * MS))];
            s.answer = Some(answer(severity, vec![]));
        })
        .0
    };
    use Severity::{Bad, Fair, Good, Poor};
    assert_eq!([Good, Fair, Poor, Bad].map(of), [Level::Note, Level::Note, Level::Poor, Level::Bad]);
}

fn dejitter(mos: f64) -> Dejitter {
    Dejitter {
        codec: "G.711 with concealment".into(),
        best_buffer_ms: Some(20.0),
        curve: [(10.0, 1.0), (20.0, mos)]
            .map(|(buffer_ms, mos)| DejitterPoint { buffer_ms, mos, ..Default::default() })
            .into(),
        buffer_for_1pct_late_ns: Some(20 * MS),
        ..Dejitter::default()
    }
}

#[test]
fn a_buffer_is_rated_by_its_opinion_score() {
    let of = |hundredths: i64| one(|s| s.dejitter = Some(dejitter(hundredths as f64 / 100.0)));
    let border = |level: Level| 1 - first(-450..=-100, |x| of(-x).0 >= level);
    assert_eq!([Level::Note, Level::Poor, Level::Bad].map(border), [400, 360, 260]);
    assert_eq!(of(410).1, "With a play-out buffer of 20.0 ms speech is rated MOS 4.10 (G.711).");
}

#[test]
fn the_buffer_is_that_of_the_answer_where_there_is_one() {
    let of = |id| {
        found(|s| {
            s.dejitter = Some(dejitter(1.0));
            let mut given = answer(Severity::Bad, vec![cause(id)]);
            let voice = Suitability {
                severity: Severity::Good,
                mos: Some(4.3),
                missing: 0.0,
                delay_ns: None,
                buffer_ns: Some(5 * MS),
                because: String::new(),
                limits: None,
            };
            given.profiles.insert("voice".into(), voice);
            s.answer = Some(given);
        })
        .remove(0)
        .text
    };
    let text = "With a play-out buffer of 5.00 ms speech is rated MOS 4.30 (G.711)";
    assert_eq!(of(CauseId::Queue), format!("{text}."));
    assert_eq!(of(CauseId::Outage), format!("{text}, not counting outages."));
}

#[test]
fn a_delay_is_good_below_150_ms_and_poor_from_400_ms_on() {
    let corrected = |ms: i64, min| {
        found(|s| {
            s.latency.mean = Some(1e6);
            s.latency_corrected = Some(Corrected {
                mean: Some(ms as f64 * 1e6),
                min: Some(min),
                bound_ns: Some(5.0),
                ..Corrected::default()
            });
        })
    };
    let level = |ms: i64| corrected(ms, 0)[0].level;
    assert_eq!(first(0..=1000, |ms| level(ms) > Level::Good), 150);
    assert_eq!(first(0..=1000, |ms| level(ms) > Level::Note), 400);
    assert_eq!(
        corrected(149, 0)[0].text,
        "One-way delay averages 149 ms after correction of the clocks, +/- 5 ns at most."
    );
    assert!(corrected(150, 0)[0].text.ends_with("Conversation suffers above 150 ms from mouth to ear."));
    assert_eq!(corrected(5, -6), [], "not where the correction is impossible");
}

#[test]
fn kernels_vouch_for_a_delay() {
    let synchronised = found(|s| {
        s.latency.mean = Some(5e6);
        let state = SyncState {
            synchronised: true,
            offset: Span(0),
            estimated_error: Span(0),
            maximum_error: Span(700),
            frequency_ppb: 0,
        };
        (s.clock.client.after, s.clock.server.after) = (Some(state), Some(state));
    });
    let text = "One-way delay averages 5.00 ms, +/- 1.40 us according to both kernels' clocks.";
    assert_eq!(synchronised, [Verdict::new("delay", Level::Good, text)]);
    assert_eq!(found(|s| s.latency.mean = Some(5e6)), []);
}

#[test]
fn a_class_is_real_time_data_or_none() {
    let of = |class, sample_sufficient, delay_trusted| {
        one(|s| s.objectives = Some(Y1541 { class, sample_sufficient, delay_trusted, ..Y1541::default() }))
    };
    for class in [0, 1, 6, 7] {
        assert_eq!(
            of(class, true, true),
            (Level::Good, format!("Meets ITU-T Y.1541 class {class} (interactive real-time)."))
        );
    }
    for class in 2..=4 {
        let text = format!("Meets ITU-T Y.1541 class {class} only: data, not interactive voice or video.");
        assert_eq!(of(class, true, true), (Level::Note, text));
    }
    let none = "Meets no ITU-T Y.1541 class with bounds, only the unspecified class 5.";
    assert_eq!(of(5, true, true), (Level::Note, none.to_owned()));
    assert!(
        of(0, false, false).1.ends_with(
            "; too few packets to prove its loss bound; its delay bound rests on unverified clocks."
        )
    );
}

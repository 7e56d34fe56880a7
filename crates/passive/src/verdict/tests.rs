use super::*;
use crate::testing::first;
use crate::{LinkType, MatchCounts, PairEstimator, Sides, SpreadFigures};
use jitlat_core::time::{SECOND, Span, WallTime};

const FULL: IdentityFields = IdentityFields::Full { addresses: true, ports: true, ident: true };

fn spread(min: i64, max: i64) -> Option<SpreadFigures> {
    let middle = (min + max) / 2;
    Some(SpreadFigures {
        count: 9,
        min,
        p05: min,
        p25: min,
        median: middle,
        mean: middle as f64,
        p75: max,
        p95: max,
        p99: max,
        max,
    })
}

fn plan() -> MatchPlan {
    MatchPlan {
        sides: Default::default(),
        fields: FULL,
        offset: Span::ZERO,
        common: 100,
        direction_assumed: false,
        inside: [false; 2],
    }
}

/// 1000 packets in each direction, all recognised at both points.
fn sound() -> PassiveResult {
    let counts =
        MatchCounts { seen_at_reference: 1000, seen_at_monitor: 1000, matched: 1000, ..Default::default() };
    let mut summary = PairEstimator::new(Span::seconds(1), None).summary_of([counts; 2]);
    summary.pairs = 900;
    (summary.out.delay_raw_ns, summary.back.delay_raw_ns) = (spread(5, 9), spread(5, 9));
    let facts = CaptureFacts { frames: 1000, packets: 1000, ours: 1000, ..CaptureFacts::default() };
    PassiveResult {
        plan: plan(),
        addresses_given: false,
        identity: IdentityRule { fields: FULL, available: 256 },
        window: Span::seconds(5),
        captures: [facts.clone(), facts],
        summary,
        sizes: vec![],
        clock_steps: Vec::new(),
        flows: None,
    }
}

fn notes(change: impl FnOnce(&mut PassiveResult)) -> Vec<String> {
    let mut result = sound();
    change(&mut result);
    result.notes()
}

/// Returns the only note.
fn note(change: impl FnOnce(&mut PassiveResult)) -> String {
    let [note] = notes(change).try_into().unwrap();
    note
}

/// Returns the first number for which there is a note with this text.
fn from(text: &str, most: i64, set: impl Fn(&mut PassiveResult, u64)) -> i64 {
    first(0..=most, |x| notes(|r| set(r, x as u64)).iter().any(|n| n.contains(text)))
}

#[test]
fn nothing_is_said_of_sound_captures() {
    assert_eq!(notes(|_| ()), [""; 0]);
    assert!(sound().is_measured());
}

#[test]
fn one_packet_either_way_is_a_measurement() {
    let measured = |out, back| {
        let mut r = sound();
        (r.summary.out.counts.matched, r.summary.back.counts.matched) = (out, back);
        r.is_measured()
    };
    assert_eq!([measured(0, 0), measured(1, 0), measured(0, 1)], [false, true, true]);
}

#[test]
fn packets_between_other_addresses_are_mentioned_where_they_are_many() {
    let elsewhere = |r: &mut PassiveResult, x| r.captures[1].elsewhere = x;
    assert_eq!(from("are between other addresses", 1000, elsewhere), 201);
    assert!(note(|r| elsewhere(r, 250)).starts_with("monitor: 25 % of the packets"));
    assert!(note(|r| r.captures[0].elsewhere = 300).starts_with("reference: 30 %"));
    let given = |r: &mut PassiveResult| (r.captures[1].elsewhere, r.addresses_given) = (900, true);
    assert_eq!(notes(given), [""; 0]);
    let nothing = |r: &mut PassiveResult| (r.captures[0].packets, r.captures[0].elsewhere) = (0, 0);
    assert_eq!(notes(nothing), [""; 0]);
}

#[test]
fn names_that_repeat_are_mentioned_from_one_percent() {
    let ambiguous = |r: &mut PassiveResult, x| r.summary.out.counts.ambiguous = x;
    assert_eq!(from("as ambiguous", 1000, ambiguous), 41);
    let both = |r: &mut PassiveResult, x| {
        ambiguous(r, x);
        r.summary.back.counts.ambiguous = 20;
    };
    assert_eq!(from("as ambiguous", 1000, both), 21);
    let text = note(|r| ambiguous(r, 100));
    assert!(text.starts_with("2.5 % of the sightings") && text.ends_with("(tcpdump -s 0)"), "{text}");
    let masked = note(|r| {
        ambiguous(r, 100);
        r.identity.fields = IdentityFields::Mask(3135);
    });
    assert!(masked.ends_with("(tcpdump -s 0), or leave out the mask"), "{masked}");
}

#[test]
fn sightings_that_were_given_up_are_mentioned() {
    assert_eq!(from("were given up", 9, |r, x| r.summary.back.counts.given_up = x), 1);
}

/// Adds `n` sightings without a partner.
fn alone(r: &mut PassiveResult, n: u64) {
    r.summary.out.counts.seen_at_reference += n;
}

#[test]
fn sightings_without_a_partner_are_mentioned_where_they_are_many() {
    // A share x of 4000 + x.
    assert_eq!(from("have no partner", 9000, alone), 1715);
    assert!(note(|r| alone(r, 4000)).starts_with("50 % of the sightings have no partner"));
    let repeated = notes(|r| {
        alone(r, 4000);
        r.summary.out.counts.ambiguous = 81;
    });
    assert!(repeated.len() == 1 && repeated[0].contains("as ambiguous"), "{repeated:?}");
}

#[test]
fn packets_longer_than_frames_at_one_point_are_offload() {
    let long = |at: usize| {
        move |r: &mut PassiveResult, x| {
            alone(r, x);
            (r.captures[at].long, r.captures[at].longest) = (5, 9000);
        }
    };
    assert_eq!(from("segmented them", 1000, long(0)), 41);
    assert!(
        note(|r| long(0)(r, 100)).starts_with("reference: 5 packets of up to 9000 bytes, captured before")
    );
    assert!(note(|r| long(1)(r, 100)).starts_with("monitor: 5 packets of up to 9000 bytes"));
    let same = |r: &mut PassiveResult| {
        long(0)(r, 50);
        long(1)(r, 50);
    };
    assert_eq!(notes(same), [""; 0]);
}

#[test]
fn a_mask_of_header_fields_rests_on_the_identification() {
    let without = |mask| {
        move |r: &mut PassiveResult, x| {
            r.identity.fields = IdentityFields::Mask(mask);
            r.captures[0].unidentified = x;
        }
    };
    assert_eq!(from("no IP identification, which mask", 2000, without(63)), 201);
    let both = |r: &mut PassiveResult, x| {
        without(63)(r, x);
        r.captures[1].unidentified = 100;
    };
    assert_eq!(from("no IP identification, which mask", 2000, both), 101);
    assert!(
        note(|r| without(63)(r, 500))
            .starts_with("25 % of the packets have no IP identification, which mask 63 needs")
    );
    assert_eq!(notes(|r| without(64)(r, 500)), [""; 0]);
    assert_eq!(notes(|r| r.captures[0].unidentified = 500), [""; 0]);
}

#[test]
fn what_keeps_packets_or_pairs_from_being_found_is_said() {
    let unmatched = |common| {
        note(|r| {
            for direction in [&mut r.summary.out, &mut r.summary.back] {
                direction.counts = MatchCounts::default();
            }
            (r.plan.common, r.summary.pairs) = (common, 0);
        })
    };
    assert_eq!(
        unmatched(0),
        "no packet was matched within 5 s; the captures have no packet in common under this rule"
    );
    assert_eq!(unmatched(1), "no packet was matched within 5 s; try a larger -d or another -o");
    assert!(note(|r| r.summary.pairs = 0).starts_with("no pairs: a pair is an OUT packet"));
}

#[test]
fn the_same_times_at_both_points_are_one_capture_twice() {
    let same = |out: (i64, i64), back: (i64, i64)| {
        move |r: &mut PassiveResult| {
            (r.summary.out.delay_raw_ns, r.summary.back.delay_raw_ns) =
                (spread(out.0, out.1), spread(back.0, back.1));
        }
    };
    assert!(note(same((0, 0), (0, 0))).contains("the same capture twice"));
    for (out, back) in [((0, 1), (0, 0)), ((-1, 0), (0, 0)), ((0, 0), (0, 1)), ((0, 0), (5, 9))] {
        assert_eq!(notes(same(out, back)), [""; 0], "{out:?} {back:?}");
    }
    let few = |r: &mut PassiveResult, matched| {
        same((0, 0), (0, 0))(r);
        r.summary.out.counts = MatchCounts {
            matched,
            seen_at_reference: matched,
            seen_at_monitor: matched,
            ..Default::default()
        };
        r.summary.back.counts = MatchCounts::default();
        r.summary.back.delay_raw_ns = None;
    };
    assert_eq!(from("the same capture twice", 100, few), 11);
}

#[test]
fn a_negative_round_trip_shows_a_clock_that_was_set() {
    assert_eq!(notes(|r| r.summary.rtt_ns = spread(0, 5)), [""; 0]);
    assert!(note(|r| r.summary.rtt_ns = spread(-1, 5)).contains("a clock was set during the capture"));
}

#[test]
fn what_a_capture_lacks_is_said_with_its_point() {
    type Set = fn(&mut CaptureFacts, u64);
    let faults: [(&str, i64, Set); 6] = [
        ("captured too short", 1, |f, x| f.too_short = x),
        ("cut before the end of the headers", 11, |f, x| f.truncated = x),
        ("malformed packet", 1, |f, x| f.malformed = x),
        ("the capture dropped", 1, |f, x| f.drops = x),
        ("out of order in the file", 1, |f, x| f.disordered = x),
        ("more than once", 1, |f, x| f.recording.copies = x),
    ];
    for (text, border, set) in faults {
        assert_eq!(from(text, 100, |r, x| set(&mut r.captures[1], x)), border, "{text}");
        let text = note(|r| set(&mut r.captures[0], 42));
        assert!(text.starts_with("reference: ") && text.contains("42"), "{text}");
    }
    let unknown = |r: &mut PassiveResult| r.captures[1].unknown_link = Some((LinkType(105), 3));
    assert_eq!(note(unknown), "monitor: 3 frames of link type 105, which is not supported");
    assert_eq!(note(|r| r.captures[0].notes.push("a: cut".into())), "a: cut");
}

#[test]
fn the_rule_of_names_is_described_by_its_fields() {
    let of = |addresses, ports, ident| {
        describe_identity(&IdentityRule {
            fields: IdentityFields::Full { addresses, ports, ident },
            available: 9,
        })
    };
    let rest = "length, protocol fields and payload";
    assert_eq!(of(true, true, true), format!("addresses, ports, identification, {rest}"));
    assert_eq!(of(false, true, true), format!("ports, identification, {rest} (addresses are translated)"));
    assert_eq!(
        of(false, false, false),
        format!("{rest} (addresses and ports are translated) (the identification is rewritten on the path)")
    );
    let mask = IdentityRule { fields: IdentityFields::Mask(63), available: 9 };
    assert_eq!(describe_identity(&mask), "the fields of mask 63");
}

#[test]
fn of_many_prefixes_the_first_four_are_listed() {
    let prefixes: Vec<Prefix> = (1..=6).map(|n| format!("10.{n}.0.0/16").parse().unwrap()).collect();
    assert_eq!(list_prefixes(&prefixes[..1]), "10.1.0.0/16");
    assert_eq!(list_prefixes(&prefixes[..4]), "10.1.0.0/16, 10.2.0.0/16, 10.3.0.0/16, 10.4.0.0/16");
    assert!(list_prefixes(&prefixes).ends_with("10.4.0.0/16, and 2 more"));
}

fn captured(from: i64, to: i64) -> CaptureFacts {
    let span = Some((WallTime(from * SECOND), WallTime(to * SECOND)));
    CaptureFacts { frames: 7, packets: 5, span, ..CaptureFacts::default() }
}

#[test]
fn captures_that_cannot_be_matched_are_compared_in_time() {
    let explained = |a, b| explain_no_match(&[a, b], None);
    let apart = |a, b| explained(a, b).into_iter().find(|n| n.contains("do not overlap"));
    let gap =
        "the captures do not overlap in time: they are 10.0 s apart, unless a clock is wrong by that much";
    assert_eq!(apart(captured(0, 10), captured(20, 30)).as_deref(), Some(gap));
    assert_eq!(apart(captured(20, 30), captured(0, 10)).as_deref(), Some(gap));
    assert_eq!(apart(captured(0, 10), captured(10, 30)), None);
    assert_eq!(apart(captured(10, 30), captured(0, 10)), None);
    let notes = explained(captured(0, 10), CaptureFacts { malformed: 3, ..CaptureFacts::default() });
    assert_eq!(
        notes,
        [
            "reference: 7 frames, 5 IP packets, Thu Jan 1 00:00:00 UTC 1970 to Thu Jan 1 00:00:10 UTC 1970",
            "monitor: no packets",
            "monitor: 3 malformed packets skipped",
        ]
    );
}

#[test]
fn offload_at_one_point_alone_may_be_why_nothing_matches() {
    let long = |n| CaptureFacts { long: n, longest: 9000, ..captured(0, 10) };
    let text = |a, b| explain_no_match(&[long(a), long(b)], None).split_off(2);
    assert_eq!((text(0, 0), text(2, 3)), (vec![], vec![]));
    assert!(text(2, 0)[0].starts_with("reference: 2 packets of up to 9000"));
    assert!(text(0, 1)[0].starts_with("monitor: 1 packet of up to 9000"));
}

#[test]
fn the_addresses_of_what_is_common_are_named() {
    let sides =
        |a: &str, b: &str| Sides { reference: vec![a.parse().unwrap()], monitor: vec![b.parse().unwrap()] };
    let plan = MatchPlan { sides: [sides("10.0.0.1", "10.0.0.2"), sides("10.0.0.3", "10.0.0.4")], ..plan() };
    let notes = explain_no_match(&[captured(0, 10), captured(0, 10)], Some(&plan));
    assert_eq!(
        notes[2],
        "the common packets are between 10.0.0.1 and 10.0.0.4; leave out -a and -A to have the addresses found"
    );
}

#[test]
fn with_offload_losses_are_unknown() {
    let mut r = sound();
    assert_eq!((r.offload(), r.explain_offload()), (None, None));
    (r.captures[1].long, r.captures[1].longest) = (500, 64_000);
    r.summary.out.counts.matched = 500;
    let text = r.explain_offload().unwrap();
    let begins = "Segmentation offload at the monitor point (500 packets of up to 64000 bytes): ";
    assert!(text.starts_with(begins) && text.contains("losses are unknown"), "{text}");
}

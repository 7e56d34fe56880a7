//! Analyses that are split anywhere, saved, read and merged give the result of a single analysis; arbitrary bytes give
//! an error.

use crate::common;
use crate::stream;
use crate::stream::{PERIOD, session};
use jitlat_core::analysis::PACKET_BYTES;
use jitlat_core::record::Moment;
use jitlat_core::scalars::{ExactNumber, Selector, selectors};
use jitlat_core::session::Ending;
use jitlat_core::state::{self, Merged, SavedAnalysis};
use jitlat_core::twoway::TwoWay;
use jitlat_core::{
    Flags, Options, PacketRecord, Session, Span, Stamp, StampSource, Summary, WallTime, analyze,
};
use proptest::prelude::*;
use serde_json::Value;

fn options() -> Options {
    Options { interval: Some(Span(100 * PERIOD)), unconditional: true, ..jitlat_verdict::options() }
}

/// Random rows with additional values: a time to live, a payload that changes, times in the hosts.
fn rows() -> impl Strategy<Value = (u64, Vec<PacketRecord>)> {
    (stream::rows(), 0i64..400).prop_map(|((n, mut rows), changes)| {
        for row in &mut rows {
            row.set_ttl(Some(57));
            row.set_size(Some(if row.seq < changes { 80 } else { 81 + (row.seq % 3) as u16 }));
            row.set_receive_lag((row.seq % 9 == 0).then_some(Span(11_000_000 + row.seq)));
            row.set_send_lag(Some(Span(if row.seq % 11 == 0 { 2_000_000 } else { 7000 })));
        }
        (n, rows)
    })
}

fn of(session: &Session, rows: &[PacketRecord]) -> SavedAnalysis {
    let mut state = SavedAnalysis::new(session.clone(), &options());
    rows.iter().for_each(|row| state.push(row));
    state
}

fn again(state: &SavedAnalysis) -> SavedAnalysis {
    SavedAnalysis::load(&state.save().unwrap(), &options()).unwrap()
}

fn json(state: SavedAnalysis) -> Value {
    serde_json::to_value(state.finish()).unwrap()
}

fn with_id(session: Session, id: &str) -> Session {
    Session { id: Some(id.to_owned()), ..session }
}

/// Converts the rows of a one-way test to those of a round-trip test: every third packet is answered late.
fn round_trips(n: u64, rows: &[PacketRecord]) -> (Session, Vec<PacketRecord>) {
    let facts = TwoWay { protocol: "stamp".into(), far_clock: true, ..TwoWay::default() };
    let session = Session { two_way: Some(Box::new(facts)), ..session(n) };
    let answered = |row: &PacketRecord| {
        let mut record = *row;
        let arrived = row.arrived().unwrap();
        let took = if row.seq % 3 == 0 { 90_000 } else { 20_000 };
        let at = |ns| Stamp { at: WallTime(ns), source: StampSource::User };
        record.set(Moment::Answered, at(arrived.0 + took));
        record.set(Moment::Returned, at(arrived.0 + took + 400_000 + row.seq % 5));
        record
    };
    (session, rows.iter().map(answered).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_test_cut_anywhere_is_the_whole((n, rows) in rows(), cuts in prop::collection::vec(0usize..260, 1..4)) {
        let session = with_id(session(n), "cut");
        let mut places: Vec<usize> = cuts.iter().map(|c| (*c).min(rows.len())).collect();
        places.extend([0, rows.len()]);
        places.sort_unstable();
        let mut parts = places.windows(2).map(|w| again(&of(&session, &rows[w[0]..w[1]])));
        let mut merged = parts.next().unwrap();
        for part in parts {
            prop_assert_eq!(merged.merge(part).unwrap(), Merged::Continued);
        }
        prop_assert_eq!(json(again(&merged)), json(of(&session, &rows)));
    }

    #[test]
    fn round_trips_cut_anywhere_are_the_whole((n, rows) in rows(), cut in 0usize..260) {
        let (session, rows) = round_trips(n, &rows);
        let session = with_id(session, "cut");
        let (first, second) = rows.split_at(cut.min(rows.len()));
        let mut merged = again(&of(&session, first));
        merged.merge(again(&of(&session, second))).unwrap();
        prop_assert_eq!(json(again(&merged)), json(of(&session, &rows)));
    }

    #[test]
    fn a_state_that_was_read_back_goes_on((n, rows) in rows(), cut in 0usize..260) {
        let session = with_id(session(n), "cut");
        let (first, second) = rows.split_at(cut.min(rows.len()));
        let mut state = again(&of(&session, first));
        second.iter().for_each(|row| state.push(row));
        prop_assert_eq!(json(state), json(of(&session, &rows)));
    }

    #[test]
    fn in_constant_memory_the_parts_of_a_test_are_the_whole(
        (n, rows) in rows(),
        two_way in any::<bool>(),
        cuts in prop::collection::vec(0usize..260, 1..4),
    ) {
        let (session, rows) = if two_way { round_trips(n, &rows) } else { (session(n), rows) };
        let session = with_id(session, "cut");
        let streaming = Options { streaming: true, ..options() };
        let mut whole = SavedAnalysis::new(session.clone(), &streaming);
        rows.iter().for_each(|row| whole.push(row));
        let mut places: Vec<usize> = cuts.iter().map(|c| (*c).min(rows.len())).collect();
        places.extend([0, rows.len()]);
        places.sort_unstable();
        let begun = Session { ending: Ending::Interrupted, ..session.clone() };
        let mut parts = SavedAnalysis::new(begun.clone(), &streaming);
        for part in places.windows(2) {
            parts = again(&parts);
            parts.resume(begun.clone()).unwrap();
            rows[part[0]..part[1]].iter().for_each(|row| parts.push(row));
        }
        // Facts that only the last part contains.
        parts.resume(session).unwrap();
        prop_assert_eq!(json(parts).to_string(), json(whole).to_string());
    }

    #[test]
    fn short_parts_analysed_apart_in_constant_memory_are_the_whole(
        (n, rows) in rows(),
        two_way in any::<bool>(),
        cut in 0usize..260,
        exact in any::<[bool; 2]>(),
    ) {
        let (session, rows) = if two_way { round_trips(n, &rows) } else { (session(n), rows) };
        let session = with_id(session, "cut");
        let (first, second) = rows.split_at(cut.min(rows.len()));
        let of = |exact: bool, rows: &[PacketRecord]| if exact { of(&session, rows) } else { streaming(&session, rows) };
        // It suffices that one of them is in constant memory.
        let mut merged = of(exact[0] && !exact[1], first);
        merged.merge(of(exact[1], second)).unwrap();
        prop_assert_eq!(json(again(&merged)).to_string(), json(streaming(&session, &rows)).to_string());
    }

    #[test]
    fn beyond_its_memory_a_test_goes_on_in_constant_memory(
        (n, rows) in rows(),
        packets in 0u64..200,
        stored in 0usize..260,
    ) {
        let session = session(n);
        let small = Options { memory: packets * PACKET_BYTES, ..options() };
        let mut state = SavedAnalysis::new(session.clone(), &small);
        for (k, row) in rows.iter().enumerate() {
            state.push(row);
            if k == stored {
                state = SavedAnalysis::load(&state.save().unwrap(), &small).unwrap();
            }
        }
        let exact = of(&session, &rows);
        let fits = exact.clone().finish().counts.unique_valid <= packets;
        prop_assert_eq!(state.keeps_packets(), fits);
        let whole = if fits { exact } else { streaming(&session, &rows) };
        prop_assert_eq!(json(state).to_string(), json(whole).to_string());
    }

    /// Each analysis keeps all packets, some, or none in memory.
    #[test]
    fn the_bytes_of_a_state_do_not_tell_how_its_rows_came(
        (n, rows) in rows(),
        two_way in any::<bool>(),
        packets in prop_oneof![0u64..200, Just(1000)],
        streaming in prop::bool::weighted(0.2),
        parts in prop::collection::vec((0usize..260, any::<bool>(), any::<bool>()), 1..6),
    ) {
        let (session, rows) = if two_way { round_trips(n, &rows) } else { (session(n), rows) };
        let session = with_id(session, "cut");
        let options = Options { memory: packets * PACKET_BYTES, streaming, ..options() };
        let mut whole = SavedAnalysis::new(session.clone(), &options);
        rows.iter().for_each(|row| whole.push(row));
        let bytes = whole.save().unwrap();
        let (mut pushed, mut merged) = (SavedAnalysis::new(session.clone(), &options), SavedAnalysis::new(session.clone(), &options));
        let mut rest = &rows[..];
        for (length, at_once, stored) in parts.into_iter().chain([(rows.len(), true, true)]) {
            let (part, later) = rest.split_at(length.min(rest.len()));
            rest = later;
            let mut apart = SavedAnalysis::new(session.clone(), &options);
            for state in [&mut pushed, &mut apart] {
                if at_once { state.push_all(part) } else { part.iter().for_each(|row| state.push(row)) }
                if stored {
                    *state = SavedAnalysis::load(&state.save().unwrap(), &options).unwrap();
                }
            }
            merged.merge(apart).unwrap();
        }
        prop_assert!(pushed.save().unwrap() == bytes, "pushed");
        // In constant memory a merged result is within an error of the whole.
        if whole.keeps_packets() {
            prop_assert!(merged.save().unwrap() == bytes, "merged");
        }
    }

    #[test]
    fn changed_bytes_of_an_analysis_in_constant_memory_are_an_error_or_a_state(
        step in 1i64..900,
        changes in prop::collection::vec(change(), 1..3),
    ) {
        let (session, rows) = long(5600, step, 100);
        let [earlier, state, later] = [&rows[..400], &rows[400..5000], &rows[5000..]].map(|r| streaming(&session, r));
        let bytes = state.save().unwrap();
        let mut body = bytes[bytes.len() - body_length(&bytes)..].to_vec();
        changes.into_iter().for_each(|change| apply(change, &mut body));
        if let Ok(mut state) = SavedAnalysis::load(&state::seal(&body), &options()) {
            let [mut before, after] = [&earlier, &later].map(SavedAnalysis::clone);
            let _ = before.continue_with(state.clone());
            before.continue_with(after).ok();
            let _ = serde_json::to_string(&before.finish());
            rows[..1000].iter().for_each(|row| state.push(row));
            let _ = state.clone().continue_with(state.clone());
            let _ = serde_json::to_string(&state.finish());
        }
    }

    #[test]
    fn several_tests_are_one_after_another((n, a) in rows(), (m, b) in rows()) {
        let (first, second) = (with_id(session(n), "one"), with_id(session(m), "two"));
        let parts = [of(&first, &a).finish(), of(&second, &b).finish()];
        let mut united = again(&of(&first, &a));
        prop_assert_eq!(united.merge(again(&of(&second, &b))).unwrap(), Merged::United);
        let both = again(&united).finish();
        let sum = |count: fn(&Summary) -> u64| count(&parts[0]) + count(&parts[1]);
        prop_assert_eq!(both.counts.sent, sum(|s| s.counts.sent));
        prop_assert_eq!(both.counts.unique_valid, sum(|s| s.counts.unique_valid));
        prop_assert_eq!(both.counts.duplicate, sum(|s| s.counts.duplicate));
        prop_assert_eq!(both.counts.invalid, sum(|s| s.counts.invalid));
        prop_assert_eq!(both.counts.lost, sum(|s| s.counts.lost));
        prop_assert_eq!(both.counts.out_of_sequence, sum(|s| s.counts.out_of_sequence));
        let minima = parts.iter().filter_map(|s| s.latency.min);
        prop_assert_eq!(both.latency.min, minima.min());
        // The only additional value is that of the pair of packets across the border.
        let seam = both.ipdv.defined - sum(|s| s.ipdv.defined);
        prop_assert!(seam <= 1);
        prop_assert_eq!(both.session.tags["tests"].as_str(), "2");
    }

    #[test]
    fn changed_bytes_are_an_error((n, rows) in rows(), at in any::<prop::sample::Index>(), flip in 1u8..=255) {
        let mut bytes = of(&session(n), &rows).save().unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(SavedAnalysis::load(&bytes, &options()).is_err());
        prop_assert!(SavedAnalysis::load(&bytes[..at], &options()).is_err());
    }

    #[test]
    fn bytes_made_by_an_enemy_are_an_error_or_a_state(
        (n, rows) in rows(),
        two_way in any::<bool>(),
        streaming in any::<bool>(),
        changes in prop::collection::vec(change(), 1..6),
    ) {
        let (session, rows) = if two_way { round_trips(n, &rows) } else { (session(n), rows) };
        let mut state = SavedAnalysis::new(session, &Options { streaming, ..options() });
        rows.iter().for_each(|row| state.push(row));
        let bytes = state.save().unwrap();
        // Changes bytes after the first line and the checksum, and computes the checksum again, as an attacker
        // would.
        let mut body = bytes[bytes.len() - body_length(&bytes)..].to_vec();
        changes.into_iter().for_each(|change| apply(change, &mut body));
        if let Ok(state) = SavedAnalysis::load(&state::seal(&body), &options()) {
            let mut twice = state.clone();
            let _ = twice.merge(state.clone());
            let _ = twice.continue_with(state.clone());
            let _ = twice.save();
            // An analysis in constant memory is not merged, but continued.
            rows.iter().for_each(|row| twice.push(row));
            let _ = serde_json::to_string(&twice.finish());
            let _ = state.finish();
        }
    }
}

/// Collects the numbers and other values in which two objects differ, by path.
fn differences(path: &str, a: &Value, b: &Value, found: &mut Vec<(String, Value, Value)>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let of =
                    |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or_default();
                differences(&format!("{path}.{key}"), &of(a), &of(b), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).for_each(|(a, b)| differences(path, a, b, found));
        }
        _ if a != b => found.push((path.to_owned(), a.clone(), b.clone())),
        _ => {}
    }
}

/// Analyses `rows` in constant memory, with a file in between.
fn streaming(session: &Session, rows: &[PacketRecord]) -> SavedAnalysis {
    let mut state = SavedAnalysis::new(session.clone(), &Options { streaming: true, ..options() });
    rows.iter().for_each(|row| state.push(row));
    again(&state)
}

/// Merges `parts` one after another, each after it was saved and loaded.
fn merged(parts: Vec<SavedAnalysis>) -> SavedAnalysis {
    let mut parts = parts.into_iter();
    let mut merged = parts.next().unwrap();
    for part in parts {
        assert_eq!(merged.merge(part).unwrap(), Merged::Continued);
        merged = again(&merged);
    }
    merged
}

/// Checks that the merged `parts` equal the whole, except for percentiles, which may differ by a bucket, and the
/// last digits of running filters; and that docs/metrics lists the figures that differ.
fn assert_whole(session: &Session, rows: &[PacketRecord], parts: Vec<SavedAnalysis>, absent: &[&str]) {
    let whole = streaming(session, rows);
    let merged = merged(parts);
    let mut found = Vec::new();
    differences("", &json(merged.clone()), &json(whole.clone()), &mut found);
    for (path, a, b) in found {
        let approximate = [
            ".latency.",
            ".latency_corrected.",
            ".pdv.",
            ".schedule_error.",
            ".dejitter.",
            ".objectives.",
            ".noise.",
        ];
        let filtered = [".mapdv2", ".rfc3550_jitter."];
        let within =
            |limit: f64| a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| (a - b).abs() <= limit * b.abs());
        let counts = path.contains(".histogram.") || path.contains(".curve.");
        let expected = path.starts_with(".display.")
            || [".verdicts.text", ".warnings.text"].contains(&&*path)
            || approximate.iter().any(|p| path.starts_with(p)) && (within(2.1 / 1024.0) || counts)
            || filtered.iter().any(|p| path.starts_with(p)) && within(1e-12)
            || absent.iter().any(|p| path.starts_with(p)) && a.is_null();
        assert!(expected, "{path}: {a} instead of {b}");
    }
    let docs = std::fs::read_to_string(common::testdata("../docs/metrics/README.md")).unwrap();
    let (_, section) = docs.split_once("*In constant memory*").expect("a paragraph about constant memory");
    let section = section.split("\n## ").next().unwrap();
    let (merged, whole) = (merged.finish(), whole.finish());
    let differ =
        |s: &Selector| s.of(&merged) != s.of(&whole) && !section.contains(&format!("`{}`", s.scalar.key));
    let missing: Vec<&str> = selectors().filter(differ).map(|s| s.scalar.key).collect();
    assert!(missing.is_empty(), "docs/metrics does not list {missing:?}");
}

fn split(session: &Session, rows: &[PacketRecord], cuts: &[usize]) -> Vec<SavedAnalysis> {
    let mut places = vec![0];
    places.extend(cuts);
    places.push(rows.len());
    places.windows(2).map(|part| streaming(session, &rows[part[0]..part[1]])).collect()
}

#[test]
fn parts_analysed_apart_in_constant_memory_are_the_whole() {
    let (session, rows) = long(30_000, 1, 100);
    for cuts in [&[15_000][..], &[9_000, 20_000], &[100, 200, 4_000], &[0], &[3, 28_000]] {
        assert_whole(&session, &rows, split(&session, &rows, cuts), &[]);
    }
    // The later parts are merged first.
    let [a, b, c] = split(&session, &rows, &[9_000, 20_000]).try_into().unwrap();
    let nested = vec![a, merged(vec![b, c])];
    let warnings = json(merged(nested.clone()))["warnings"].to_string();
    assert!(warnings.contains("percentiles may be up to 3/1024 too high"), "{warnings}");
    assert_whole(&session, &rows, nested, &[]);
    // Packets so late that the bounded reorder density never has the same expectation again.
    let (session, rows) = long(30_000, 1, 150);
    assert_whole(&session, &rows, split(&session, &rows, &[15_000]), &[".reordering.rd_fd_dt128"]);
}

#[test]
fn what_is_kept_of_all_packets_goes_into_constant_memory() {
    let (session, rows) = long(30_000, 1, 100);
    let (a, b) = rows.split_at(14_000);
    for parts in [
        vec![streaming(&session, a), of(&session, b)],
        vec![of(&session, a), streaming(&session, b)],
        vec![of(&session, &a[..100]), streaming(&session, &a[100..]), of(&session, b)],
    ] {
        assert_whole(&session, &rows, parts, &[]);
    }
}

#[test]
fn parts_that_do_not_follow_each_other_in_constant_memory_are_refused() {
    let (session, rows) = long(30_000, 1, 100);
    let (a, b) = rows.split_at(14_000);
    let [mut first, second] = [a, b].map(|rows| streaming(&session, rows));
    let error = second.clone().merge(first.clone()).unwrap_err();
    assert!(error.to_string().contains("overlap by more than"), "{error}");
    let before = json(first.clone());
    assert!(first.merge(first.clone()).is_err());
    assert_eq!(json(first.clone()), before);
    // More sequence numbers than are stored.
    let (session, rows) = long(30_000, 200, 100);
    let [mut first, second] = [&rows[..1000], &rows[1000..]].map(|rows| streaming(&session, rows));
    let error = first.merge(second).unwrap_err();
    assert!(error.to_string().contains("two million"), "{error}");
    // The first part may have any length. Parts of several stretches have no common verdict.
    assert_whole(&session, &rows, split(&session, &rows, &[24_000]), &[".answer"]);
}

/// Changes a byte, or replaces a number (a one-byte MessagePack number, or the number after a marker).
fn change() -> impl Strategy<Value = (prop::sample::Index, u8, Option<u32>)> {
    (any::<prop::sample::Index>(), any::<u8>(), prop::option::weighted(0.8, 0u32..=64))
}

fn apply((at, value, bits): (prop::sample::Index, u8, Option<u32>), body: &mut Vec<u8>) {
    let at = at.index(body.len());
    let Some(bits) = bits else {
        body[at] = value;
        return;
    };
    let number = u64::MAX.checked_shr(64 - bits).unwrap_or(0).to_be_bytes();
    let is_number = |b: &u8| *b < 0x80 || matches!(b, 0xcb..=0xd3);
    let Some(at) = (at..body.len()).find(|at| is_number(&body[*at])) else { return };
    let length = match body[at] {
        0xcc | 0xd0 => 1,
        0xcd | 0xd1 => 2,
        0xce | 0xd2 => 4,
        0xcb | 0xcf | 0xd3 => 8,
        _ => 0,
    };
    let end = (at + 1 + length).min(body.len());
    body.splice(at..end, [if value < 128 { 0xcf } else { 0xd3 }].into_iter().chain(number));
}

/// A long test with loss, copies, anomalies and packets late by up to `most` periods. Numbers increase by
/// `step`: with a large step the analysis must forget the first ones.
fn long(packets: i64, step: i64, most: u64) -> (Session, Vec<PacketRecord>) {
    let session = with_id(session((packets * step) as u64), "long");
    let mut rows = Vec::new();
    let mut state = 7u64;
    let mut random = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % n) as i64
    };
    for k in 0..packets {
        let sent = 1_700_000_000_000_000_000 + k * PERIOD + random(50_000);
        let late = if random(50) == 0 { random(most) * PERIOD } else { 0 };
        let arrived = sent + 5_000_000 + random(3_000_000) + random(8) * random(8) * 400_000 + late;
        let mut record = PacketRecord::one_way(k * step, WallTime(sent), WallTime(arrived));
        if random(40) == 0 || (k / 500) % 9 == 3 && random(2) == 0 {
            continue;
        }
        record.flags = Flags(u16::from(random(300) == 0));
        record.set_receive_lag((random(9) == 0).then_some(Span(11_000_000 + k)));
        rows.push((arrived, record));
        if random(60) == 0 {
            let again = arrived + random(90) * PERIOD;
            rows.push((again, PacketRecord::one_way(k * step, WallTime(sent), WallTime(again))));
        }
    }
    rows.sort_by_key(|row| row.0);
    (session, rows.into_iter().map(|row| row.1).collect())
}

#[test]
fn a_long_analysis_in_constant_memory_goes_on_where_it_was_saved() {
    let streaming = Options { streaming: true, ..options() };
    for step in [1, 700] {
        let (session, rows) = long(20_000, step, 150);
        let mut whole = SavedAnalysis::new(session.clone(), &streaming);
        rows.iter().for_each(|row| whole.push(row));
        let mut parts = SavedAnalysis::new(session.clone(), &streaming);
        for part in rows.chunks(1777) {
            let bytes = parts.save().unwrap();
            assert!(bytes.len() < 1_000_000, "{}", bytes.len());
            parts = SavedAnalysis::load(&bytes, &streaming).unwrap();
            parts.resume(session.clone()).unwrap();
            part.iter().for_each(|row| parts.push(row));
        }
        assert_eq!(json(again(&parts)).to_string(), json(whole).to_string());
    }
}

fn body_length(bytes: &[u8]) -> usize {
    bytes.len() - bytes.iter().position(|b| *b == b'\n').unwrap() - 1 - 8
}

#[test]
fn every_figure_of_a_cut_test_is_that_of_the_whole() {
    let mut compared = 0;
    for name in ["a_loopback_v1.log", "b_wan_lossy_v1.log", "c_unsync_v2.log", "d_edge_small_v1.log"] {
        let (session, rows) = common::golden_log(name);
        let whole = of(&session, &rows).finish();
        for cut in [1, rows.len() / 3, rows.len() - 1] {
            let mut merged = again(&of(&session, &rows[..cut]));
            assert_eq!(merged.merge(again(&of(&session, &rows[cut..]))).unwrap(), Merged::Continued);
            let merged = merged.finish();
            for selector in selectors() {
                let [a, b] = [&merged, &whole].map(|s| selector.of(s));
                assert_eq!(a, b, "{name} cut at {cut}: {}", selector.column());
                compared += u64::from(a.is_some());
            }
            assert_eq!(merged, whole, "{name} cut at {cut}");
        }
    }
    assert!(compared > 500, "{compared}");
}

/// The list "Merging" of docs/metrics: figures of two merged tests that differ from those of the tests' own
/// packets, because they involve packets on both sides of the border.
#[test]
fn what_depends_on_the_seam_is_documented() {
    // A test merged with itself: every figure that is a share, a mean, a percentile or an extreme stays the
    // same.
    let (session, rows) = common::golden_log("b_wan_lossy_v1.log");
    let one = of(&session, &rows).finish();
    let mut united = of(&with_id(session.clone(), "one"), &rows);
    united.merge(of(&with_id(session, "two"), &rows)).unwrap();
    let both = united.finish();
    let docs = std::fs::read_to_string(common::testdata("../docs/metrics/README.md")).unwrap();
    let (_, section) = docs.split_once("## Merging").expect("a section about merging");
    let section = section.split("\n## ").next().unwrap();
    let listed = |key: &str| section.contains(&format!("`{key}`"));
    let number = |n: Option<ExactNumber>| n.map(ExactNumber::as_f64);
    let mut missing = Vec::new();
    for selector in selectors() {
        let key = selector.column();
        let (Some(a), Some(b)) = (number(selector.of(&one)), number(selector.of(&both))) else { continue };
        // Counts of packets double.
        let stays = (a - b).abs() <= 1e-9 * a.abs().max(1.0) || (2.0 * a - b).abs() <= 1e-9 * a.abs();
        if !stays && !listed(selector.scalar.key) {
            missing.push(format!("{key}: {a} of one test, {b} of it twice"));
        }
    }
    assert!(missing.is_empty(), "docs/metrics does not say so of {missing:#?}");
}

#[test]
fn tests_follow_each_other_without_a_gap() {
    let path = |seq: i64, from: i64| {
        PacketRecord::one_way(
            seq,
            WallTime(from + seq * PERIOD),
            WallTime(from + seq * PERIOD + 1_000_000 + seq % 5),
        )
    };
    let named = |id: &str| Session { ending: Ending::Complete, ..with_id(session(100), id) };
    let test = |id, from: i64, lost: std::ops::Range<i64>| {
        let rows: Vec<_> = (0..100).filter(|seq| !lost.contains(seq)).map(|seq| path(seq, from)).collect();
        of(&named(id), &rows)
    };
    // The tests are a day apart; the first loses its last five packets, the second its first three.
    let mut both = test("one", 0, 95..100);
    both.merge(test("two", 86_400_000_000_000, 0..3)).unwrap();
    both.merge(test("three", -9_000_000_000, 50..51)).unwrap();
    assert_eq!(both.session().tags, [("tests".to_owned(), "3".to_owned())]);
    let s = both.finish();
    assert_eq!((s.counts.sent, s.counts.lost, s.loss.first_runs), (300, 9, vec![[95, 8], [250, 1]]));
    assert_eq!(s.schedule_error.unwrap().max, 0);
    assert_eq!(s.stalls, of(&named("one"), &[]).finish().stalls);
    assert_eq!(s.periods.tx.unwrap().period_ns, PERIOD as f64);
}

#[test]
fn different_clocks_are_brought_together() {
    let test = |id: &str, offset: i64| {
        let session = Session {
            classic_offset: Some(Span(offset)),
            classic_rtt: Some(Span(1000)),
            ..with_id(session(50), id)
        };
        let rows: Vec<_> = (0..50)
            .map(|seq| {
                let sent = seq * PERIOD;
                PacketRecord::one_way(seq, WallTime(sent), WallTime(sent + offset + 2_000_000))
            })
            .collect();
        of(&session, &rows)
    };
    let mut both = test("one", 5_000_000_000);
    both.merge(test("two", -7_000_000_000)).unwrap();
    let s = both.finish();
    assert_eq!(s.pdv.max, Some(0));
    assert_eq!(s.latency_corrected.unwrap().mean, Some(2_000_000.0));
}

#[test]
fn tests_that_have_nothing_in_common_stay_apart() {
    let (one_way, records) = common::golden_log("b_wan_lossy_v1.log");
    let (two_way, answered) = round_trips(100, &records[..50]);
    let state = of(&with_id(one_way.clone(), "one"), &records);
    let mut changed = state.clone();
    let error = changed.merge(of(&with_id(two_way, "two"), &answered)).unwrap_err();
    assert!(error.to_string().contains("protocols differ"), "{error}");
    assert_eq!(json(changed), json(state.clone()));
    let error = streaming(&one_way, &records).unite_with(state.clone()).unwrap_err();
    assert!(error.to_string().contains("only parts of the same test"), "{error}");
    let other = state.clone().resume(with_id(session(100), "two")).unwrap_err();
    assert!(other.to_string().contains("belongs to another test"), "{other}");
}

#[test]
fn what_is_no_state_is_said_to_be_none() {
    let error =
        |bytes: &[u8]| SavedAnalysis::load(bytes, &jitlat_verdict::options()).unwrap_err().to_string();
    assert!(error(b"").contains("not a saved analysis"));
    assert!(error(b"# Sun Mar 13 07:06:40 UTC 2011\n").contains("not a saved analysis"));
    assert!(error(b"# jitlat state 7\nabc").contains("has version 7"));
    assert!(error(b"# jitlat state 1\nabc").contains("damaged"));
    assert!(error(&state::seal(b"")).contains("cannot be the state of an analysis"));
    let empty = analyze(&session(5), [], &jitlat_verdict::options());
    assert_eq!(
        SavedAnalysis::load(&of(&session(5), &[]).save().unwrap(), &jitlat_verdict::options())
            .unwrap()
            .finish(),
        empty
    );
}

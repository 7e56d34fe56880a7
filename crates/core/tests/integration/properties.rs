//! Properties of the whole analysis: which changes of the input must not affect which results.

use crate::common;
use crate::stream::{PERIOD, rows, session};
use jitlat_core::{Analyzer, Flags, Options, PacketRecord, Span, Summary, WallTime, analyze};
use proptest::prelude::*;
use serde_json::Value;

fn shifted(rows: &[PacketRecord], sender: i64, receiver: i64) -> Vec<PacketRecord> {
    let shift = |r: &PacketRecord| {
        let (sent, arrived) = (r.sent().unwrap().0 + sender, r.arrived().unwrap().0 + receiver);
        let mut record = PacketRecord::one_way(r.seq, WallTime(sent), WallTime(arrived));
        record.flags = r.flags;
        record
    };
    rows.iter().map(shift).collect()
}

/// Returns the parts of a summary that a constant clock offset must not change.
fn offset_free(summary: &Summary) -> Value {
    let mut value = serde_json::to_value(summary).unwrap();
    for absolute in [
        "latency",
        "latency_corrected",
        "regression_arrival",
        "regression_send",
        "skew_hull",
        "inference",
        "objectives",
        "display",
        "warnings",
        "dejitter",
        "intended_latency",
        "segments",
        "schedule_error",
        "header",
        "stalls",
        "trend",
        "verdicts",
    ] {
        value.as_object_mut().unwrap().remove(absolute);
    }
    value
}

/// Compares `a` and `b`, numbers to a relative 10⁻⁹.
fn alike(path: &str, a: &Value, b: &Value) -> Result<(), String> {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            a.iter().try_for_each(|(k, v)| alike(&format!("{path}.{k}"), v, &b[k]))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).try_for_each(|(a, b)| alike(path, a, b))
        }
        (Value::Number(x), Value::Number(y)) => {
            let (x, y) = (x.as_f64().unwrap(), y.as_f64().unwrap());
            if (x - y).abs() <= 1e-9 * x.abs().max(1.0) {
                Ok(())
            } else {
                Err(format!("{path}: {a} and {b}"))
            }
        }
        _ if a == b => Ok(()),
        _ => Err(format!("{path}: {a} and {b}")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A summary of another version may lack keys or have additional ones; one of this version is read back
    /// completely.
    #[test]
    fn a_summary_reads_itself_back((n, rows) in rows()) {
        let options = Options { interval: Some(Span(40 * PERIOD)), comparable: true, unconditional: true, bootstrap: Some(1), gilbert_elliott: true, ..Options::default() };
        let summary = analyze(&session(n), rows.iter().copied(), &options);
        let text = serde_json::to_string(&summary).unwrap();
        let read: Summary = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(serde_json::to_string(&read).unwrap(), text);
        prop_assert_eq!(read, summary);
    }

    #[test]
    fn counts_add_up((n, rows) in rows()) {
        let s = analyze(&session(n), rows.iter().copied(), &Options::default());
        let c = &s.counts;
        prop_assert_eq!(c.received, rows.len() as u64);
        prop_assert_eq!(c.received, c.unique_valid + c.duplicate + c.invalid);
        prop_assert_eq!(c.lost, c.sent - c.unique_valid);
        prop_assert_eq!(s.loss.run_length_hist.iter().map(|(len, runs)| len * runs).sum::<u64>(), c.lost);
        prop_assert_eq!(s.ipdv.defined + s.ipdv.undefined, c.sent - 1);
        prop_assert_eq!(s.reordering.rd_fd.values().sum::<u64>(), c.unique_valid);
        prop_assert_eq!(s.latency.stddev, s.pdv.stddev);
        if let Some(h) = &s.latency.histogram {
            prop_assert_eq!(h.counts.iter().sum::<u64>() + h.overflow, c.unique_valid);
        }
    }

    #[test]
    fn a_clock_offset_changes_only_absolute_delay((n, rows) in rows(), offset in -1_000_000_000i64..1_000_000_000) {
        let plain = analyze(&session(n), rows.iter().copied(), &Options::default());
        let moved = shifted(&rows, 0, offset * 1_000_000_000);
        let moved = analyze(&session(n), moved, &Options::default());
        alike("", &offset_free(&plain), &offset_free(&moved)).map_err(TestCaseError::fail)?;
        let slope = |s: &Summary| s.regression_send.map(|r| r.m);
        if let (Some(a), Some(b)) = (slope(&plain), slope(&moved)) {
            prop_assert!((a - b).abs() <= 1e-9 * a.abs().max(1e-9), "{} {}", a, b);
        }
        let alpha = |s: &Summary| s.skew_hull.as_ref().map(|h| (h.alpha, h.edge[0][0]));
        prop_assert_eq!(alpha(&plain), alpha(&moved));
        prop_assert_eq!(plain.trend.as_ref().map(|t| t.verdict), moved.trend.as_ref().map(|t| t.verdict));
        prop_assert_eq!(&plain.stalls.receiver_suspects, &moved.stalls.receiver_suspects);
    }

    #[test]
    fn both_clocks_moved_together_change_nothing_but_dates((n, rows) in rows(), years in -30i64..30) {
        let by = years * 365 * 86_400 * 1_000_000_000;
        let s = |rows: Vec<PacketRecord>| {
            let mut value = serde_json::to_value(analyze(&session(n), rows, &Options::default())).unwrap();
            value["schedule_error"].as_object_mut().map(|e| e.remove("anchor_ns"));
            value
        };
        alike("", &s(rows.clone()), &s(shifted(&rows, by, by))).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn streaming_is_within_its_stated_error((n, rows) in rows()) {
        let exact = analyze(&session(n), rows.iter().copied(), &Options::default());
        let options = Options { streaming: true, ..Options::default() };
        let stream = analyze(&session(n), rows.iter().copied(), &options);
        prop_assert_eq!(&exact.counts, &stream.counts);
        prop_assert_eq!(&exact.loss, &stream.loss);
        prop_assert_eq!(&exact.rfc3550_jitter, &stream.rfc3550_jitter);
        prop_assert_eq!(&exact.mapdv2, &stream.mapdv2);
        prop_assert_eq!(&exact.periods, &stream.periods);
        prop_assert_eq!(&exact.regression_send, &stream.regression_send);
        prop_assert_eq!(&exact.duplicates.run_length_hist, &stream.duplicates.run_length_hist);
        prop_assert_eq!(&exact.duplicates.arrival_count_hist, &stream.duplicates.arrival_count_hist);
        let r = |s: &Summary| {
            let r = &s.reordering;
            (r.extent_hist.clone(), r.n_reordered.clone(), r.gaps.clone(), r.rd_fd_dt128.clone(), r.rbd_fb_bt128.clone())
        };
        prop_assert_eq!(r(&exact), r(&stream));
        prop_assert_eq!((exact.ipdv.mean, exact.ipdv.stddev, exact.ipdv.mean_abs), (stream.ipdv.mean, stream.ipdv.stddev, stream.ipdv.mean_abs));
        prop_assert_eq!((exact.latency.mean, exact.latency.stddev), (stream.latency.mean, stream.latency.stddev));
        for ((p, x), (_, y)) in exact.pdv.percentiles.0.iter().zip(&stream.pdv.percentiles.0) {
            let (Some(x), Some(y)) = (x, y) else { prop_assert_eq!(x, y); continue };
            prop_assert!(y >= x && y - x <= x / 1024 + 1, "{} {} {}", p, x, y);
        }
        if let (Some(a), Some(b)) = (&exact.skew_hull, &stream.skew_hull) {
            prop_assert!((a.alpha - b.alpha).abs() < 1e-12);
            prop_assert!((a.residual_max_ns - b.residual_max_ns).abs() < 1.0);
            prop_assert!((a.residual_mean_ns - b.residual_mean_ns).abs() < 1.0);
        }
    }

    #[test]
    fn nothing_in_a_log_makes_it_panic(
        n in 1u64..u64::from(u32::MAX) / 2,
        fields in prop::collection::vec((any::<i64>(), any::<i64>(), any::<i64>(), any::<u16>()), 0..40),
        streaming in any::<bool>(),
        interval in prop::option::of(1i64..i64::MAX),
    ) {
        let options = Options { streaming, interval: interval.map(Span), wait: Some(Span(5)), bootstrap: Some(1), gilbert_elliott: true, ..Options::default() };
        let mut session = session(n);
        session.sent = None;
        let mut analyzer = Analyzer::new(&session, &options);
        for (k, (seq, sent, arrived, flags)) in fields.into_iter().enumerate() {
            // Half of the numbers are in range, and half of the flags are clean.
            let seq = if k % 2 == 0 { seq.rem_euclid(n as i64) } else { seq };
            let mut record = PacketRecord::one_way(seq, WallTime(sent), WallTime(arrived));
            record.flags = Flags(if k % 4 < 3 { 0 } else { flags });
            analyzer.push(&record);
        }
        let summary = analyzer.finish(&session);
        prop_assert!(serde_json::to_string(&summary).is_ok());
    }
}

#[test]
fn a_golden_log_in_constant_memory() {
    for name in ["a_loopback_v1.log", "b_wan_lossy_v1.log", "c_unsync_v2.log", "d_edge_small_v1.log"] {
        let (session, rows) = common::golden_log(name);
        let exact = analyze(&session, rows.iter().copied(), &Options::default());
        let options = Options { streaming: true, ..Options::default() };
        let stream = analyze(&session, rows, &options);
        assert_eq!((&exact.counts, &exact.loss), (&stream.counts, &stream.loss), "{name}");
        // The first 1024 delays are stored exactly.
        assert_eq!(stream.latency.approx, exact.counts.unique_valid > 1024, "{name}");
        assert!(!exact.latency.approx);
    }
}

#[test]
fn a_long_stream_in_constant_memory_keeps_its_losses() {
    // More pages than are stored, and a packet whose number is already forgotten.
    let n = 2_300_000u64;
    let options = Options { streaming: true, ..Options::default() };
    let session = session(n);
    let mut analyzer = Analyzer::new(&session, &options);
    let (mut lost, mut runs) = (0, 0);
    for seq in 0..n as i64 {
        if seq % 1000 < seq / 1000 % 4 {
            lost += 1;
            runs += u64::from(seq % 1000 == 0);
            continue;
        }
        analyzer.push(&PacketRecord::one_way(seq, WallTime(seq * PERIOD), WallTime(seq * PERIOD + 7)));
    }
    analyzer.push(&PacketRecord::one_way(1000, WallTime(0), WallTime(n as i64 * PERIOD)));
    let s = analyzer.finish(&session);
    assert_eq!((s.counts.lost, s.loss.periods, s.counts.invalid), (lost, runs, 1));
    assert_eq!(s.counts.received, s.counts.unique_valid + s.counts.duplicate + s.counts.invalid);
}

#[test]
fn other_objects_are_not_summaries() {
    for text in ["{}", r#"{"counts":{}}"#, r#"{"header":{},"counts":{},"latency":7,"pdv":{}}"#] {
        assert!(serde_json::from_str::<Summary>(text).is_err(), "{text}");
    }
    let old = r#"{"header":{},"counts":{"sent":3},"latency":{},"pdv":{},"unknown":1,"two_way":{"protocol":"icmp"}}"#;
    let summary: Summary = serde_json::from_str(old).unwrap();
    assert!(summary.counts.sent == 3 && summary.is_round_trip() && summary.direction().is_none());
}

//! Compares the list of figures with summaries and with the documentation.

use crate::common;
use jitlat_core::answer::CauseId;
use jitlat_core::record::Moment;
use jitlat_core::scalars::{
    Applies, Better, ExactNumber, SCALARS, Scalar, ScalarSource, ScalarUnit, selectors,
};
use jitlat_core::{
    Direction, PacketRecord, Schedule, Session, Span, Stamp, StampSource, Summary, TestSpec, Transport,
    WallTime, analyze,
};

fn golden(name: &str) -> Summary {
    let (session, rows) = common::golden_log(name);
    analyze(&session, rows, &jitlat_verdict::options())
}

/// Returns the row of docs/metrics for a figure: its key, tests, unit, better values, description and clause.
fn row(figure: &Scalar) -> String {
    let Applies { one_way, round_trips, directions, passive } = figure.applies;
    let kinds = [(one_way, "1"), (round_trips, "2"), (directions, "w"), (passive, "p")];
    let kinds: String = kinds.iter().filter(|k| k.0).map(|k| k.1).collect();
    let unit = match figure.unit {
        ScalarUnit::Time => "ns",
        ScalarUnit::Share => "share",
        ScalarUnit::Packets => "packets",
        ScalarUnit::Count | ScalarUnit::Plain { .. } => "",
        ScalarUnit::PacketRate => "packets/s",
        ScalarUnit::BitRate => "bit/s",
        ScalarUnit::Ppm => "ppm",
        ScalarUnit::Bytes => "bytes",
    };
    let better = match figure.better {
        Better::Lower => "less",
        Better::Higher => "more",
        Better::Neither => "",
    };
    format!("| `{}` | {kinds} | {unit} | {better} | {} | {} |", figure.key, figure.about, figure.source)
}

#[test]
fn each_figure_has_its_row_in_the_documentation() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics/README.md");
    let text = std::fs::read_to_string(path).unwrap();
    let missing: Vec<String> =
        SCALARS.iter().map(row).filter(|row| !text.lines().any(|l| l == row)).collect();
    assert!(missing.is_empty(), "docs/metrics/README.md lacks:\n{}", missing.join("\n"));
    let keys = |line: &str| line.strip_prefix("| `").and_then(|l| Some(l.split_once("` | ")?.0.to_owned()));
    let table = text.split("## Every scalar").nth(1).unwrap().split("\n## ").next().unwrap();
    for key in table.lines().filter_map(keys) {
        assert!(Scalar::named(&key).is_some(), "docs/metrics/README.md has {key}, which is no figure");
    }
}

#[test]
fn figures_are_found_where_they_apply() {
    let summary = golden("b_wan_lossy_v1.log");
    let known = |key: &str| Scalar::named(key).unwrap().of(&summary).map(ExactNumber::as_f64);
    assert_eq!(known("sent"), Some(summary.counts.sent as f64));
    assert_eq!(known("loss"), summary.loss.ratio);
    assert_eq!(known("mos"), summary.best_mos());
    assert_eq!(known("mapdv2"), summary.mapdv2);
    assert_eq!(known("buffer"), summary.dejitter.as_ref().unwrap().buffer_for_1pct_late_ns.map(|x| x as f64));
    assert_eq!(known("pdv-p99.9"), summary.pdv.percentiles.0[7].1.map(|x| x as f64));
    for selector in selectors() {
        let there = selector.of(&summary).is_some();
        assert!(!there || selector.scalar.applies.one_way && selector.direction.is_none(), "{selector}");
    }
    assert!(ScalarSource::of(&summary, Some(Direction::Up)).is_none(), "a one-way test has no ways");
    let defined = SCALARS.iter().filter(|f| f.of(&summary).is_some()).count();
    assert!(defined > 100, "{defined}");
}

/// Packets 10 us apart that the receiver read from its socket about once per millisecond: their stamps are the
/// kernel's, and no host stalled.
#[test]
fn what_a_receiver_waits_on_purpose_is_no_stall() {
    let spec = TestSpec::new(Direction::Up, Transport::Udp, 20_000, 80, Span::micros(10), Schedule::Periodic)
        .unwrap();
    let session = Session { read_pause: Some(Span::micros(900)), ..Session::new(spec) };
    let of = |longest: i64| {
        let records = (0..20_000).map(|seq| {
            let sent = WallTime(1_763_697_000_000_000_000 + seq * 10_000);
            let mut record = PacketRecord::one_way(seq, sent, sent + Span::micros(50));
            let kernel = |at| Stamp { at, source: StampSource::Kernel };
            record.set(Moment::Sent, kernel(sent));
            record.set(Moment::Arrived, kernel(sent + Span::micros(50)));
            // Packets of the same millisecond are read together.
            record.set_receive_lag(Some(Span(longest - seq % 100 * 10_000)));
            record
        });
        analyze(&session, records, &jitlat_verdict::options())
    };
    let usual = of(1_000_000);
    assert_eq!((usual.stalls.receiver_waits, usual.stalls.without), (0, None));
    assert_eq!(usual.stamps.receive_pause_ns, Some(900_000));
    assert!(!usual.answer.as_ref().unwrap().names(CauseId::ReceiverStall));
    // Packets that are read later by half a period count as waiting.
    assert_eq!(of(1_015_001).stalls.receiver_waits, 400);
}

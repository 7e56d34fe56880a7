//! The list of figures compared with summaries and with the documentation.

mod common;

use jitlat_core::figures::{Applies, Better, FIGURES, Figure, FigureSource, Number, Unit, selectors};
use jitlat_core::{Direction, Options, Summary, analyze};

fn golden(name: &str) -> Summary {
    let (session, rows) = common::golden_log(name);
    analyze(&session, rows, &Options::default())
}

/// The line of docs/metrics that a figure must have: its key, where it applies, its unit, which way is better, what
/// it is and the clause.
fn row(figure: &Figure) -> String {
    let Applies { one_way, round_trips, ways, passive } = figure.applies;
    let kinds = [(one_way, "1"), (round_trips, "2"), (ways, "w"), (passive, "p")];
    let kinds: String = kinds.iter().filter(|k| k.0).map(|k| k.1).collect();
    let unit = match figure.unit {
        Unit::Time => "ns",
        Unit::Share => "share",
        Unit::Packets => "packets",
        Unit::Count | Unit::Plain { .. } => "",
        Unit::PacketRate => "packets/s",
        Unit::BitRate => "bit/s",
        Unit::Ppm => "ppm",
        Unit::Bytes => "bytes",
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
        FIGURES.iter().map(row).filter(|row| !text.lines().any(|l| l == row)).collect();
    assert!(missing.is_empty(), "docs/metrics/README.md lacks:\n{}", missing.join("\n"));
    let keys = |line: &str| line.strip_prefix("| `").and_then(|l| Some(l.split_once("` | ")?.0.to_owned()));
    let table = text.split("## Every scalar").nth(1).unwrap().split("\n## ").next().unwrap();
    for key in table.lines().filter_map(keys) {
        assert!(Figure::named(&key).is_some(), "docs/metrics/README.md has {key}, which is no figure");
    }
}

#[test]
fn figures_are_found_where_they_apply() {
    let summary = golden("b_wan_lossy_v1.log");
    let known = |key: &str| Figure::named(key).unwrap().of(&summary).map(Number::as_f64);
    assert_eq!(known("sent"), Some(summary.counts.sent as f64));
    assert_eq!(known("loss"), summary.loss.ratio);
    assert_eq!(known("mos"), summary.best_mos());
    assert_eq!(known("mapdv2"), summary.mapdv2);
    assert_eq!(known("buffer"), summary.dejitter.as_ref().unwrap().buffer_for_1pct_late_ns.map(|x| x as f64));
    assert_eq!(known("pdv-p99.9"), summary.pdv.percentiles.0[7].1.map(|x| x as f64));
    for selector in selectors() {
        let there = selector.of(&summary).is_some();
        assert!(!there || selector.figure.applies.one_way && selector.way.is_none(), "{selector}");
    }
    assert!(FigureSource::of(&summary, Some(Direction::Up)).is_none(), "a one-way test has no ways");
    let defined = FIGURES.iter().filter(|f| f.of(&summary).is_some()).count();
    assert!(defined > 100, "{defined}");
}

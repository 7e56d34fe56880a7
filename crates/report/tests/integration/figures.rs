//! Figures: their contents, a layout without collisions, and unchanged snapshots.

use crate::common;
use crate::common::{GOLDEN, Measured, everything, figures, golden, made_up, run};
use jitlat_core::distribution::sample::Sample;
use jitlat_core::{PacketRecord, Session, TestSpec, WallTime};
use jitlat_report::PictureFormat;
use jitlat_report::draw::{self, Drawing, Shape, layout};
use jitlat_report::figure::{self, AxisScale, AxisUnit, ComparedRun, DrawnRun, Figure, Mark};
use jitlat_report::html::{self, HtmlReport, ReportPart};

/// Checks that text is not clipped and does not overlap other text.
fn assert_readable(name: &str, drawing: &Drawing) {
    let boxes: Vec<_> = drawing
        .labels
        .iter()
        .filter_map(|s| match s {
            Shape::Text(t) => Some((t.text.clone(), t.bounds())),
            _ => None,
        })
        .collect();
    for (i, (text, a)) in boxes.iter().enumerate() {
        let inside = a.x >= 0.0 && a.y >= 0.0 && a.x + a.w <= drawing.width && a.y + a.h <= drawing.height;
        assert!(inside, "{name}: {text:?} is clipped: {a:?} in {} × {}", drawing.width, drawing.height);
        for (other, b) in &boxes[i + 1..] {
            let apart = a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y;
            assert!(apart, "{name}: {text:?} overlaps {other:?}");
        }
    }
}

#[test]
fn no_words_are_clipped_or_overlap() {
    for (name, figure) in everything() {
        assert_readable(&name, &layout(&figure));
    }
}

#[test]
fn words_of_any_length_are_wrapped_or_cut() {
    let long =
        "a name as long as that of a user who names every run after its whole command line may give it "
            .repeat(3);
    let m = golden("b_wan_lossy_v1");
    let other = golden("d_edge_small_v1");
    for mut figure in figure::of_run(&DrawnRun { label: &long, ..run(&m) }) {
        figure.notes.push(long.replace(' ', "_"));
        assert_readable(&figure.id, &layout(&figure));
    }
    for figure in
        figure::of_runs(&[ComparedRun::new(&long, &m.summary), ComparedRun::new("b", &other.summary)])
    {
        assert_readable(&figure.id, &layout(&figure));
    }
}

#[test]
fn every_figure_says_what_where_when_how_many_and_in_which_unit() {
    for (name, figure) in everything() {
        let drawn = draw::svg(&figure);
        let legend: String = figure.legend().map(|s| s.name.clone()).collect();
        let numbers = format!("{} {legend}", figure.subtitle);
        let counts = numbers.contains("n = ");
        assert!(counts && !figure.title.is_empty(), "{name}: {numbers}");
        // Simulated runs have no known place and time.
        if !name.starts_with("made up") {
            assert!(figure.measured.contains(" to ") && figure.measured.contains(" UTC "), "{name}");
            let address = figure.measured.split(' ').find(|word| word.contains('.')).unwrap();
            assert!(drawn.contains(address), "{name}: {address} is not drawn");
        }
        for axis in [Some(&figure.x), Some(&figure.y), figure.right.as_ref()].into_iter().flatten() {
            let timed = matches!(axis.unit, AxisUnit::Time | AxisUnit::Elapsed) && axis.names.is_empty();
            let unit = axis.unit_name().map(str::to_owned).or(axis.ticks(6).first().map(|t| t.label.clone()));
            let has = |unit: String| ["ns", "µs", "ms", "s", "min", "h"].iter().any(|of| unit.ends_with(of));
            assert!(!timed || unit.is_some_and(has), "{name}: {axis:?}");
        }
    }
}

/// Creates a run with these delays, ns.
fn delays(of: impl Iterator<Item = i64>) -> Measured {
    let records: Vec<PacketRecord> = of
        .zip(0..)
        .map(|(delay, k)| PacketRecord::one_way(k, WallTime(k * 1_000_000), WallTime(k * 1_000_000 + delay)))
        .collect();
    Measured::new(Session::new(TestSpec::default()), records)
}

#[test]
fn a_log_axis_hides_little_of_a_run() {
    let wide = delays((0..1000).map(|k| 5_000_000 + k * 300_000));
    let runs = [
        // Most packets far below the 99th percentile; most at the smallest delay; over six decades.
        delays((0..1000).map(|k| if k % 40 == 0 { 2_000_000 + k } else { 1_000_000 + k % 7 * 100 })),
        delays((0..1000).map(|k| if k % 10 == 0 { 1_000_000 + k * 100 } else { 1_000_000 })),
        delays((0..1000).map(|k| 1_000_000 + 10f64.powf(k as f64 / 166.0) as i64)),
    ];
    let mut logarithmic = 0;
    let mut check = |name: &str, figure: &Figure| {
        let is_log = |axis: &figure::Axis| axis.scale == AxisScale::Log;
        logarithmic += u32::from(is_log(&figure.x) || is_log(&figure.y));
        for series in &figure.series {
            let y = figure.right.as_ref().filter(|_| series.on_right).unwrap_or(&figure.y);
            let outside = |points: &[(f64, f64)]| {
                let hidden = |p: &&(f64, f64)| {
                    is_log(&figure.x) && p.0 < figure.x.lo || is_log(y) && p.1 < y.lo * 0.999_999
                };
                points.iter().filter(hidden).count()
            };
            match &series.mark {
                // A cumulative share that starts with the values before the axis.
                Mark::Line { points, .. } | Mark::Step { points }
                    if y.unit == AxisUnit::Share && !is_log(y) =>
                {
                    let before = points.iter().filter(|p| is_log(&figure.x) && p.0 < figure.x.lo);
                    let hidden = before.map(|p| p.1).fold(0.0, f64::max);
                    assert!(hidden <= 0.1, "{name}: {} hides {hidden} of {}", figure.id, series.name);
                }
                Mark::Line { points, .. } | Mark::Step { points } | Mark::Stems { points } => {
                    assert_eq!(outside(points), 0, "{name}: {}", figure.id);
                }
                Mark::Bars { heights, .. } => {
                    let low = heights.iter().filter(|h| **h > 0.0 && is_log(y) && **h < y.lo).count();
                    assert_eq!(low, 0, "{name}: {}", figure.id);
                }
                _ => {}
            }
        }
    };
    for (k, run) in runs.iter().enumerate() {
        let compared = [ComparedRun::new("wide", &wide.summary), ComparedRun::new("other", &run.summary)];
        let samples: Vec<_> = [&wide, run].map(exact_samples).into();
        let exactly: Vec<ComparedRun<'_>> = compared
            .iter()
            .zip(&samples)
            .map(|(run, [latency, pdv])| ComparedRun { samples: Some((latency, pdv)), ..*run })
            .collect();
        for figure in figure::of_runs(&compared).iter().chain(&figure::of_runs(&exactly)) {
            check(&format!("run {k}"), figure);
        }
    }
    for (name, figure) in everything() {
        check(&name, &figure);
    }
    assert!(logarithmic > 5, "{logarithmic} figures have such an axis");
}

/// Returns the delays of a run, and those above its smallest.
fn exact_samples(m: &Measured) -> [Sample; 2] {
    let least = m.samples.delay.iter().copied().min().unwrap();
    [0, least].map(|by| Sample::new(m.samples.delay.iter().map(move |delay| delay - by)))
}

#[test]
fn a_card_can_be_read_without_its_page() {
    let card = |runs: &[(&str, &Measured)]| {
        let parts: Vec<ReportPart<'_>> = runs
            .iter()
            .map(|(label, m)| ReportPart {
                label,
                session: Some(&m.session),
                summary: &m.summary,
                trace: Some(&m.trace),
            })
            .collect();
        html::first_screen(&HtmlReport {
            section: None,
            parts: &parts,
            corrected: false,
            command: None,
            program: "jitlat 0",
            written: None,
        })
        .expect("there are runs")
    };
    let said = |drawing: &Drawing| {
        let texts = drawing.labels.iter().filter_map(|s| match s {
            Shape::Text(t) => Some(t.text.clone()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    };
    for name in GOLDEN {
        let m = golden(name);
        let first = card(&[("", &m)]);
        let drawing = draw::card(&first);
        assert_readable(name, &drawing);
        insta::assert_snapshot!(format!("{name}-card"), said(&drawing));
    }
    let (a, b) = (golden("b_wan_lossy_v1"), golden("d_edge_small_v1"));
    let long = "a name as long as that of a user who names every run after its whole command line ".repeat(3);
    let runs: Vec<(&str, &Measured)> =
        (0..30).map(|k| (long.as_str(), if k % 2 == 0 { &a } else { &b })).collect();
    for runs in [&runs[..2], &runs[..]] {
        let drawing = draw::card(&card(runs));
        assert_readable("long names", &drawing);
    }
    // As in a log that was not renamed to its final name: a whole one without rows would be loss.
    let begun = jitlat_core::Session { truncated: true, ..golden("a_loopback_v1").session };
    let empty = Measured::new(begun, []);
    let first = card(&[("", &empty)]);
    assert!(first.figure.is_none() && first.leads[0].1.contains("no packets are known"), "{:?}", first.leads);
    assert_readable("nothing received", &draw::card(&first));
    let names: Vec<_> =
        draw::card_files(&first, &PictureFormat::ALL).map(|file| file.expect("it is drawn").0).collect();
    assert_eq!(names, ["card.svg", "card.png", "card.pdf", "card.eps"]);
}

#[test]
fn histograms_account_for_every_packet() {
    for (name, figure) in everything() {
        let bars = figure.series.iter().find_map(|s| match &s.mark {
            Mark::Bars { heights, .. } => Some(heights.iter().sum::<f64>() as u64),
            _ => None,
        });
        let Some(drawn) = bars else { continue };
        let n: String =
            figure.subtitle.split_once("n = ").unwrap().1.chars().filter(|c| *c != '\u{202f}').collect();
        let n: u64 = n.split(' ').next().unwrap().parse().unwrap();
        let beyond = figure.overflow.as_ref().map_or(0, |o| o.count);
        assert_eq!(drawn + beyond, n, "{name}");
    }
}

#[test]
fn the_cumulative_line_ends_where_the_histogram_does() {
    let m = golden("b_wan_lossy_v1");
    let jitter = figures(&m).into_iter().find(|f| f.id == "jitter").unwrap();
    let Mark::Line { points, .. } = &jitter.series[1].mark else { panic!("{:?}", jitter.series[1]) };
    assert!((points.last().unwrap().1 - 1427.0 / 1441.0).abs() < 1e-12, "14 of 1441 lie beyond");
    assert_eq!(jitter.overflow.as_ref().unwrap().count, 14);
}

#[test]
fn late_loss_on_the_buffer_curve_is_exact() {
    let m = golden("b_wan_lossy_v1");
    let figure = figures(&m).into_iter().find(|f| f.id == "dejitter").unwrap();
    let Mark::Step { points } = &figure.series[0].mark else { panic!() };
    // At each buffer size of the analysis' own curve the step line must have the same loss, in the resolution of its steps.
    for p in m.summary.dejitter.as_ref().unwrap().curve.iter().filter(|p| p.buffer_ms <= 200.0) {
        let at = p.buffer_ms * 1e6;
        let value = points.iter().take_while(|q| q.0 <= at).last().unwrap().1;
        let after = points.iter().find(|q| q.0 > at).map_or(value, |q| q.1);
        let expected = p.total_loss as f64 / 1500.0;
        assert!(
            after <= expected + 1e-9 && expected <= value + 1e-9,
            "{} ms: {after} {expected} {value}",
            p.buffer_ms
        );
    }
}

#[test]
fn figures_appear_only_where_there_is_something_to_show() {
    let ids = |name| figures(&golden(name)).into_iter().map(|f| f.id).collect::<Vec<_>>();
    let has = |list: &[String], id: &str| list.iter().any(|i| i == id);
    let clean = ids("a_loopback_v1");
    let lossy = ids("b_wan_lossy_v1");
    for id in ["loss-lengths", "duplication-lengths", "reorder-density"] {
        assert!(!has(&clean, id) && has(&lossy, id), "{id}");
    }
}

#[test]
fn many_packets_make_a_small_file() {
    let m = made_up(100_000);
    for figure in figures(&m) {
        let svg = draw::svg(&figure);
        assert!(svg.len() < 120_000, "{}: {} bytes", figure.id, svg.len());
        if figure.id == "burstiness" {
            assert!(figure.subtitle.contains("drawn as density"), "{}", figure.subtitle);
        }
    }
}

#[test]
fn a_png_is_drawn_in_the_size_asked_for() {
    let figure = &figures(&golden("a_loopback_v1"))[0];
    let png = draw::png(figure, 2.0).unwrap();
    assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
    assert_eq!(u32::from_be_bytes(png[16..20].try_into().unwrap()), 1520);
    assert!(draw::png(figure, 0.0).is_err() && draw::png(figure, f32::NAN).is_err());
}

#[test]
fn every_figure_has_a_file_of_its_own_in_each_format() {
    let figures = figures(&golden("b_wan_lossy_v1"));
    let names: Vec<String> = draw::files(&figures, &PictureFormat::ALL).map(|f| f.unwrap().0).collect();
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!((names.len(), distinct.len()), (figures.len() * 4, figures.len() * 4));
    for format in PictureFormat::ALL {
        assert!(names.contains(&format!("jitter.{format}")), "{format}");
    }
    let only: Vec<String> = draw::files(&figures[..1], &[PictureFormat::Eps]).map(|f| f.unwrap().0).collect();
    assert_eq!(only, ["jitter.eps"]);
}

#[test]
fn golden_figures_are_unchanged() {
    for name in GOLDEN {
        for figure in figures(&golden(name)) {
            // Line by line, so that a difference is readable.
            let svg = draw::svg(&figure).replace("><", ">\n<");
            insta::assert_snapshot!(format!("{name}-{}", figure.id), svg);
        }
    }
}

#[test]
fn each_quantity_of_the_interface_that_changes_is_drawn_with_the_delay() {
    let walk = common::walk();
    let figures = common::figures(&walk);
    let of_interface: Vec<&Figure> = figures.iter().filter(|f| f.id.starts_with("interface-")).collect();
    // The walk has no errors and drops.
    let ids: Vec<&str> = of_interface.iter().map(|f| f.id.as_str()).collect();
    assert_eq!(ids, ["interface-retries", "interface-signal", "interface-rate"]);
    for figure in of_interface {
        let right: Vec<_> = figure.series.iter().filter(|series| series.on_right).collect();
        let [series] = right[..] else { panic!("{}: {} series on the right", figure.id, right.len()) };
        let axis = figure.right.as_ref().unwrap();
        let (Mark::Line { points, .. } | Mark::Step { points }) = &series.mark else {
            panic!("{:?}", series.mark)
        };
        assert!(points.len() >= 115, "{}: {}", figure.id, points.len());
        assert!(
            points
                .iter()
                .all(|(x, y)| (figure.x.lo..=figure.x.hi).contains(x) && (axis.lo..=axis.hi).contains(y))
        );
    }
    let retries = figures.iter().find(|f| f.id == "interface-retries").unwrap();
    let Mark::Step { points } = &retries.series[1].mark else { panic!("{retries:?}") };
    // The strongest signal is at the start, the weakest after 55 s.
    let near = |second: f64| {
        points.iter().min_by(|a, b| (a.0 - second * 1e9).abs().total_cmp(&(b.0 - second * 1e9).abs()))
    };
    assert!(near(54.0).unwrap().1 > 20.0 * near(5.0).unwrap().1.max(1.0), "{points:?}");
    assert!(common::figures(&common::made_up(3000)).iter().all(|f| !f.id.starts_with("interface-")));
}

#[test]
fn the_pictures_of_the_guide_are_current() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/figures");
    for (name, figure) in common::pictures() {
        let path = dir.join(&name).with_extension("svg");
        let kept = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(kept == draw::svg(&figure), "{name} has changed: run the example `gallery` of jitlat-report");
    }
}

mod any_log {
    use super::*;
    use jitlat_core::record::{Flags, PacketRecord};
    use jitlat_core::session::Session;
    use jitlat_core::spec::{Direction, Schedule, TestSpec, Transport};
    use jitlat_core::time::{Span, WallTime};
    use jitlat_report::html::{HtmlReport, ReportPart, page};
    use proptest::prelude::*;

    /// Generates times from ordinary to absurd.
    fn time() -> impl Strategy<Value = i64> {
        prop_oneof![4 => 0i64..10_000_000_000, 2 => -1000i64..1000, 1 => any::<i64>()]
    }

    fn records() -> impl Strategy<Value = Vec<PacketRecord>> {
        let row = (-2i64..40, time(), time(), prop_oneof![9 => Just(0u16), 1 => Just(1)]);
        let record = row.prop_map(|(seq, sent, arrived, flags)| {
            let mut record = PacketRecord::one_way(seq, WallTime(sent), WallTime(arrived));
            record.flags = Flags(flags);
            record
        });
        prop::collection::vec(record, 0..30)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn is_drawn_readably_or_not_at_all(records in records(), period in 1i64..1 << 40, tcp: bool) {
            let transport = if tcp { Transport::Tcp } else { Transport::Udp };
            let spec = TestSpec::new(Direction::Up, transport, 32, 80, Span(period), Schedule::Periodic).unwrap();
            let m = Measured::new(Session::new(spec), records);
            for figure in figures(&m) {
                assert_readable(&figure.id, &layout(&figure));
                let svg = draw::svg(&figure);
                prop_assert!(!svg.contains("NaN") && !svg.contains("inf\"") && !svg.contains("inf "), "{}", figure.id);
                prop_assert!(draw::png(&figure, 0.3).is_ok());
                let drawing = layout(&figure);
                prop_assert!(draw::encode(&drawing, PictureFormat::Pdf).is_ok());
                let eps = String::from_utf8(draw::encode(&drawing, PictureFormat::Eps).unwrap()).unwrap();
                prop_assert!(!eps.contains("NaN") && !eps.contains("inf "), "{}", figure.id);
            }
            let part = ReportPart { label: "", session: Some(&m.session), summary: &m.summary, trace: Some(&m.trace) };
            let html = page(&HtmlReport {
                section: None,
                parts: &[part],
                corrected: false,
                command: None,
                program: "jitlat",
                written: None,
            });
            prop_assert!(!html.contains("NaN"));
        }
    }
}

/// Returns the latency at which the axis of a figure begins.
fn position(figure: &Figure) -> f64 {
    match &figure.series[0].mark {
        Mark::Bars { start, .. } => *start,
        Mark::Points { points } => points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_figure_of_latency_is_corrected_or_says_that_it_is_not() {
    let m = golden("c_unsync_v2");
    let off = m.summary.clock.correction_ns.unwrap() as f64;
    let corrected = figure::of_run(&DrawnRun { corrected: true, ..run(&m) });
    let mut latencies = 0;
    for (raw, corrected) in figures(&m).iter().zip(&corrected) {
        assert_eq!(raw.id, corrected.id);
        if !["latency", "latency-full", "burstiness"].contains(&raw.id.as_str()) {
            assert_eq!(raw, corrected, "{} does not depend on the clocks", raw.id);
            continue;
        }
        latencies += 1;
        assert!((position(raw) - position(corrected) - off).abs() < 1.0, "{}", raw.id);
        let says = |figure: &Figure, what: &str| figure.notes.iter().any(|n| n.contains(what));
        assert!(says(raw, "not corrected") && !says(corrected, "not corrected"), "{}", raw.id);
        assert!(says(corrected, "Corrected by the estimated clock offset"), "{}", raw.id);
        let axes = |f: &Figure| format!("{} {}", f.x.quantity, f.y.quantity);
        assert!(axes(raw).contains("not corrected") && axes(corrected).contains("latency, corrected"));
    }
    assert_eq!(latencies, 3);

    let other = golden("b_wan_lossy_v1");
    let compared = |wanted| {
        let one =
            |name, m: &'static Measured| ComparedRun::new(name, &m.summary).corrected(wanted, &m.summary);
        let (a, b) = (Box::leak(Box::new(golden("c_unsync_v2"))), Box::leak(Box::new(golden("c_unsync_v2"))));
        figure::of_runs(&[one("a", a), one("b", b)])
    };
    for (raw, corrected) in compared(false).iter().zip(&compared(true)) {
        assert_eq!(raw.x == corrected.x, raw.id.contains("jitter"), "{}", raw.id);
    }
    // Without knowledge about the clocks nothing can be corrected, and the figure says so.
    let unknown = figure::of_run(&DrawnRun { corrected: true, ..run(&other) });
    let latency = unknown.iter().find(|f| f.id == "latency").unwrap();
    assert!(latency.notes.iter().any(|n| n.contains("not corrected")));
}

#[test]
fn each_score_has_a_figure_with_the_points_from_which_it_follows() {
    let m = golden("a_loopback_v1");
    let drawn = figures(&m);
    let scores = &m.summary.answer.as_ref().unwrap().qoo.as_ref().unwrap().profiles;
    let scored: Vec<&String> =
        scores.iter().filter(|(_, of)| of.score.is_some()).map(|(name, _)| name).collect();
    let shown = drawn.iter().filter(|figure| figure.id.starts_with("qoo-")).count();
    assert!(shown > 0 && shown == scored.len(), "{scored:?}");
    let voice = drawn.iter().find(|figure| figure.id == "qoo-voice").unwrap();
    let point = |name: &str| {
        let series = voice.series.iter().find(|series| series.name.starts_with(name)).unwrap();
        match &series.mark {
            Mark::Points { points } => points[0],
            mark => panic!("{mark:?}"),
        }
    };
    let term = &scores["voice"].delay[0];
    assert_eq!(point("optimal"), (term.optimal_ns, 0.98));
    assert_eq!(point("unacceptable"), (term.unacceptable_ns, 0.98));
    let (measured, share) = point("measured");
    assert_eq!((measured, share), (term.measured_ns, 0.98));
    // The curve passes the measured point.
    let Mark::Line { points: curve, .. } = &voice.series[0].mark else { panic!() };
    let k = curve.iter().position(|(_, reached)| *reached >= share).unwrap();
    let width = curve[1].0 - curve[0].0;
    assert!(
        (curve[k].0 - measured).abs() <= 2.0 * width.max(curve[2].0 - curve[1].0),
        "{} {measured}",
        curve[k].0
    );
    assert!(voice.x.lo <= 0.0 && voice.x.hi > term.unacceptable_ns);
    // A test without scores has no such figure.
    let lossy = golden("d_edge_small_v1");
    assert!(figures(&lossy).iter().all(|figure| !figure.id.starts_with("qoo-")));
}

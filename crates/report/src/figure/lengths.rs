//! Histograms of integers: lengths of loss bursts and of runs of duplicates, and distances of reordered packets.

use super::{Axis, AxisUnit, DrawnRun, Figure, Mark, MarkSeries, Tone, group_thousands, value_label};
use std::collections::BTreeMap;

/// Length above which the axis is logarithmic.
const LINEAR_TO: f64 = 64.0;

/// Draws the loss-length histogram of DRDC TM 2011-047; `None` without loss.
pub fn losses(run: &DrawnRun<'_>) -> Option<Figure> {
    let (loss, counts) = (&run.summary.loss, &run.summary.counts);
    let bars = points(&loss.run_length_hist)?;
    let mut figure = stems(
        "loss-lengths",
        run.titled("Loss burst lengths"),
        "consecutive packets lost",
        "runs",
        Tone::Harm,
        bars.clone(),
    );
    figure.subtitle = format!(
        "n = {} lost of {} packets ({}) in {} bursts",
        group_thousands(&counts.lost.to_string()),
        group_thousands(&counts.sent.to_string()),
        value_label(AxisUnit::Share, counts.lost as f64 / counts.sent.max(1) as f64),
        group_thousands(&loss.periods.to_string()),
    );
    figure.about =
        "Clustering of losses. Isolated losses can be concealed, or repaired with a little redundancy; \
                    bursts longer than a codec or a code can bridge are audible and visible."
            .into();
    figure.series[0].name = "bursts observed".into();
    let independent = if_independent(counts.sent, counts.lost, &bars);
    if independent.len() > 1 {
        let most = independent.iter().chain(&bars).map(|p| p.1).fold(0.0, f64::max);
        let least = bars.iter().map(|b| b.1).fold(f64::INFINITY, f64::min);
        figure.y = Axis::counts("runs", least, most);
        let mark = Mark::Line { points: independent, dashed: true };
        figure.series.push(MarkSeries::new("expected if losses were independent", Tone::Fit, mark));
    }
    if let Some(ms) = longest_outage(run) {
        figure.notes.push(ms);
    }
    Some(figure)
}

/// Expected number of loss bursts of each length if packets were lost independently with the same probability.
fn if_independent(sent: u64, lost: u64, bars: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let longest = bars.last().map_or(0.0, |b| b.0);
    let p = lost as f64 / sent.max(1) as f64;
    let expected = |k: f64| (k, sent as f64 * p.powf(k) * (1.0 - p).powi(2));
    let visible = |e: &(f64, f64)| e.1 >= 0.02;
    (1..=200)
        .map(f64::from)
        .take_while(|k| *k <= longest.max(2.0))
        .map(expected)
        .take_while(visible)
        .collect()
}

fn longest_outage(run: &DrawnRun<'_>) -> Option<String> {
    let longest = run.summary.loss.run_length_hist.keys().next_back()?;
    let period = run.summary.periods.target?.period_ns;
    Some(format!(
        "The longest burst, {} packet{}, is an outage of {}.",
        group_thousands(&longest.to_string()),
        if *longest == 1 { "" } else { "s" },
        value_label(AxisUnit::Time, *longest as f64 * period)
    ))
}

/// Draws the duplication-length histogram of DRDC TM 2011-047; `None` without duplicates.
pub fn duplicates(run: &DrawnRun<'_>) -> Option<Figure> {
    let bars = points(&run.summary.duplicates.run_length_hist)?;
    let mut figure = stems(
        "duplication-lengths",
        run.titled("Duplication lengths"),
        "consecutive packets duplicated",
        "runs",
        Tone::Data,
        bars,
    );
    figure.subtitle = format!(
        "n = {} duplicate copies of {} packets",
        group_thousands(&run.summary.counts.duplicate.to_string()),
        group_thousands(&run.summary.counts.unique_valid.to_string()),
    );
    figure.about = "Duplicates come from retransmitting links and from loops while routes change. Many \
                    consecutive ones suggest a loop or a mirrored path, single ones a radio link."
        .into();
    Some(figure)
}

/// Draws the out-of-sequence plot of DRDC TM 2011-047: reorder density of RFC 5236; `None` without reordering.
pub fn reordering(run: &DrawnRun<'_>) -> Option<Figure> {
    let r = &run.summary.reordering;
    if !r.observable || r.reordered == 0 {
        return None;
    }
    let bars: Vec<(f64, f64)> = r.rd_fd.iter().map(|(d, n)| (*d as f64, *n as f64)).collect();
    let (first, last) = (bars.first()?.0, bars.last()?.0);
    let most = bars.iter().map(|b| b.1).fold(0.0, f64::max);
    let mut figure = stems(
        "reorder-density",
        run.titled("Reorder density (RFC 5236)"),
        "displacement in packets: early < 0 < late",
        "packets",
        Tone::Data,
        bars,
    );
    figure.x =
        Axis::linear("displacement in packets: early < 0 < late", AxisUnit::Count, first - 0.6, last + 0.6);
    figure.y = Axis::counts("packets", 1.0, most);
    figure.subtitle = format!(
        "n = {} packets, {} of them reordered ({})",
        group_thousands(&run.summary.counts.unique_valid.to_string()),
        group_thousands(&r.reordered.to_string()),
        value_label(AxisUnit::Share, r.ratio.unwrap_or(0.0)),
    );
    figure.about = "Distance of packets from their original position. The largest displacement to the right is \
                    the number of packets that a receiver must hold to restore the order; TCP takes a packet that \
                    is three or more late for lost."
        .into();
    Some(figure)
}

fn points(histogram: &BTreeMap<u64, u64>) -> Option<Vec<(f64, f64)>> {
    let points: Vec<_> = histogram.iter().map(|(k, n)| (*k as f64, *n as f64)).collect();
    (!points.is_empty()).then_some(points)
}

fn stems(id: &str, title: String, x: &str, y: &str, tone: Tone, bars: Vec<(f64, f64)>) -> Figure {
    let (first, last) = (bars.first().map_or(0.0, |b| b.0), bars.last().map_or(1.0, |b| b.0));
    let most = bars.iter().map(|b| b.1).fold(0.0, f64::max);
    let least = bars.iter().map(|b| b.1).fold(f64::INFINITY, f64::min);
    let axis = match last > LINEAR_TO {
        true => Axis::log(format!("{x}, log scale"), AxisUnit::Count, (first * 0.8).max(0.8), last * 1.25),
        false => Axis::linear(x, AxisUnit::Count, 0.4, last.max(4.0) + 0.6),
    };
    Figure {
        id: id.into(),
        title,
        subtitle: String::new(),
        measured: String::new(),
        about: String::new(),
        x: axis,
        y: Axis::counts(y, least.min(most), most),
        right: None,
        series: vec![MarkSeries::new("", tone, Mark::Stems { points: bars })],
        overflow: None,
        notes: Vec::new(),
    }
}

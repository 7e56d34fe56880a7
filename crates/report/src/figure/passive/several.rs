//! Several captures of a path in common figures, one curve per capture.

use super::parts::{blank, least, margins, n, quantile, steps};
use super::range;
use super::run::PassiveRun;
use crate::figure::axis::{Axis, AxisUnit};
use crate::figure::measured::{label_measured, measured_of_several};
use crate::figure::parts::{Figure, Mark, MarkSeries, Tone};
use crate::figure::series::drawn;
use jitlat_passive::SizeFigures;

/// Returns figures with one curve per run of `runs`, which are pairs of name and run; empty if fewer
/// than two runs have pairs.
pub fn of_captures(runs: &[(&str, PassiveRun<'_>)]) -> Vec<Figure> {
    let runs: Vec<_> = runs.iter().filter(|(_, run)| run.trace.pairs.n() > 0).copied().collect();
    if runs.len() < 2 {
        return Vec::new();
    }
    let mut figures: Vec<Figure> =
        [courses(&runs), cdfs(&runs), sizes(&runs)].into_iter().flatten().collect();
    let periods = runs[0].1.periods;
    figures.iter_mut().for_each(|f| range::mark(f, periods));
    let measured = measured_of_several(runs.iter().map(|(name, run)| (*name, run.measured())));
    label_measured(&mut figures, &measured);
    figures
}

type NamedRun<'a> = (&'a str, PassiveRun<'a>);

/// Returns the range that includes `f` of every run.
fn span(runs: &[NamedRun<'_>], f: impl Fn(&PassiveRun<'_>) -> (f64, f64)) -> (f64, f64) {
    let all = runs.iter().map(|(_, run)| f(run));
    all.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), (c, d)| (a.min(c), b.max(d)))
}

fn counts(runs: &[NamedRun<'_>]) -> String {
    let one = |(name, run): &NamedRun<'_>| format!("{name}: n = {}", n(run.trace.pairs.n()));
    runs.iter().map(one).collect::<Vec<_>>().join(" · ")
}

/// Draws the round trips of each run over the time since its first pair.
fn courses(runs: &[NamedRun<'_>]) -> Option<Figure> {
    let (from, to) = span(runs, |run| run.trace.times().unwrap_or((f64::INFINITY, f64::NEG_INFINITY)));
    let (low, high) = span(runs, |run| (least(&run.trace.pairs), quantile(&run.trace.pairs, 1.0)));
    let (lo, hi) = margins(low, high);
    let mut f = blank(
        "captures-rtt",
        "Round trips over time, side by side",
        Axis::linear("time since the first pair of each", AxisUnit::Elapsed, from, to),
        Axis::linear("round-trip time", AxisUnit::Time, lo, hi),
    );
    f.subtitle = counts(runs);
    f.about = "The same path at different times, or with different settings: what changed, and when.".into();
    for ((name, run), k) in runs.iter().zip(0u8..) {
        let (mark, _) = drawn(&run.trace.rtt, 0.0)?;
        f.series.push(MarkSeries::new(*name, Tone::Run(k), mark));
        f.notes.extend(run.trace.left_out_note().map(|note| format!("{name}: {note}")));
    }
    Some(f)
}

/// Draws cumulative distributions of the round trips.
fn cdfs(runs: &[NamedRun<'_>]) -> Option<Figure> {
    let (low, high) = span(runs, |run| (least(&run.trace.pairs), quantile(&run.trace.pairs, 0.99)));
    let mut f = blank(
        "captures-rtt-cdf",
        "Round trips, cumulative distributions side by side",
        Axis::linear("round-trip time", AxisUnit::Time, low, high + (high - low) * 0.02),
        Axis::linear("no slower", AxisUnit::Share, 0.0, 1.0),
    );
    f.subtitle = counts(runs);
    f.about = "Curves further left are faster; steeper curves have less jitter.".into();
    f.notes.push("The axis ends at the largest 99th percentile.".into());
    for ((name, run), k) in runs.iter().zip(0u8..) {
        let mut points = vec![(least(&run.trace.pairs), 0.0)];
        points.extend(steps(&run.trace.pairs));
        f.series.push(MarkSeries::new(*name, Tone::Run(k), Mark::Step { points }));
    }
    Some(f)
}

/// Draws the smallest round trip by packet size; `None` unless a run has several sizes.
fn sizes(runs: &[NamedRun<'_>]) -> Option<Figure> {
    let equal = |run: &PassiveRun<'_>| -> Vec<(f64, f64)> {
        let same = |s: &&SizeFigures| s.out_length == s.in_length;
        run.sizes.iter().filter(same).map(|s| (f64::from(s.out_length), s.min_rtt_ns as f64)).collect()
    };
    let curves: Vec<_> = runs.iter().map(|(name, run)| (*name, equal(run))).collect();
    if curves.iter().all(|(_, points)| points.len() < 2) {
        return None;
    }
    let all = || curves.iter().flat_map(|(_, points)| points);
    let range = |f: fn(&(f64, f64)) -> f64| {
        all().map(f).fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)))
    };
    let (from, to) = range(|p| p.0);
    let (low, high) = range(|p| p.1);
    let ((from, to), (lo, hi)) = (margins(from, to), margins(low, high));
    let mut f = blank(
        "captures-rtt-by-size",
        "Smallest round trip by packet size, side by side",
        Axis::linear("IP packet (bytes), equal in both directions", AxisUnit::Plain, from, to),
        Axis::linear("round-trip time", AxisUnit::Time, lo, hi),
    );
    f.subtitle = counts(runs);
    f.about =
        "Steps of 48 bytes are ATM cells. The size at which a step begins shows the number of bytes that \
               are added to a packet, which differs between encapsulations."
            .into();
    for ((name, points), k) in curves.into_iter().zip(0u8..) {
        f.series.push(MarkSeries::new(
            name,
            Tone::Run(k),
            Mark::Line { points: points.clone(), dashed: false },
        ));
        f.series.push(MarkSeries::new("", Tone::Run(k), Mark::Points { points }));
    }
    Some(f)
}

//! Quality of Outcome figures: the distribution of delay with the requirements of a profile.

use super::histogram::rebinned;
use super::{Axis, AxisUnit, DrawnRun, Figure, Mark, MarkSeries, Tone, Trace, group_thousands, value_label};
use crate::text::outcome;
use jitlat_core::metrics::qoo::{DelayTerm, OutcomeScore};

/// Maximum number of points of the distribution.
const POINTS: usize = 100;

/// Draws one figure for each profile that has a score.
pub fn of_profiles(run: &DrawnRun<'_>) -> Vec<Figure> {
    let scores = run.summary.answer.as_ref().and_then(|answer| answer.qoo.as_ref());
    let profiles = scores.map(outcome::in_order).unwrap_or_default();
    profiles.into_iter().filter_map(|(name, of)| of_profile(run, name, of)).collect()
}

/// Draws the distribution of delay with the optimal, the unacceptable and the measured delay at each percentile of the
/// profile; `None` without a score or without packets.
fn of_profile(run: &DrawnRun<'_>, name: &str, of: &OutcomeScore) -> Option<Figure> {
    let score = outcome::score(of).ok()?;
    let trace = run.trace.filter(|trace| trace.n() > 0)?;
    let correction = if run.is_round_trip() { 0.0 } else { correction(trace, of.delay.first()?) };
    let (min, max) = (run.summary.latency.min? as f64, run.summary.latency.max? as f64);
    let corrected = |raw: f64| raw - correction;
    let worst = of.delay.iter().map(|term| term.unacceptable_ns.max(term.measured_ns)).fold(0.0, f64::max);
    let end = 1.05 * worst;
    let bars = rebinned(&trace.delays, min, max.min(end + correction).max(min), POINTS);
    let n = trace.n() as f64;
    let mut sum = bars.before as f64;
    // Few digits: a page has this curve once for each profile.
    let point = |raw: f64, sum: f64| (corrected(raw).round(), (1e4 * sum / n).round() / 1e4);
    let mut points = vec![point(min, 0.0)];
    for (height, k) in bars.heights.iter().zip(1u32..) {
        sum += height;
        let next = point(bars.start + bars.width * f64::from(k), sum);
        // A level part has two points.
        if let [.., before, last] = &mut points[..]
            && before.1 == next.1
            && last.1 == next.1
        {
            *last = next;
        } else {
            points.push(next);
        }
    }
    let curve = format!("share of packets (n = {})", group_thousands(&trace.n().to_string()));
    let mut series = vec![MarkSeries::new(curve, Tone::Cumulative, Mark::Line { points, dashed: false })];
    let share = |percentile: f64| percentile / 100.0;
    for term in &of.delay {
        let at = share(term.percentile);
        let scale = vec![(term.optimal_ns, at), (term.unacceptable_ns, at)];
        series.push(MarkSeries::new("", Tone::Fit, Mark::Line { points: scale, dashed: true }));
        let [low, high] = term.ci95_ns.unwrap_or([term.measured_ns; 2]);
        let interval = vec![(low, at), (high, at)];
        series.push(MarkSeries::new("", Tone::Data, Mark::Line { points: interval, dashed: false }));
    }
    let mut marked = |name: &str, tone: Tone, ns: &dyn Fn(&DelayTerm) -> f64| {
        let points = of.delay.iter().map(|term| (ns(term), share(term.percentile))).collect();
        series.push(MarkSeries::new(name, tone, Mark::Points { points }));
    };
    marked("optimal: 100", Tone::Bound, &|term| term.optimal_ns);
    marked("unacceptable: 0", Tone::Harm, &|term| term.unacceptable_ns);
    marked("measured, with interval", Tone::Data, &|term| term.measured_ns);
    let mut notes: Vec<String> = of
        .delay
        .iter()
        .map(|term| {
            format!(
                "{} % of the packets within {}: {:.0} on the scale from {} (100) to {} (0).",
                term.percentile,
                value_label(AxisUnit::Time, term.measured_ns),
                term.score,
                value_label(AxisUnit::Time, term.optimal_ns),
                value_label(AxisUnit::Time, term.unacceptable_ns)
            )
        })
        .collect();
    let percent = |share: f64| outcome::percent(share);
    notes.extend(of.loss.as_ref().map(|term| {
        format!(
            "{} lost: {:.0} on the scale from {} (100) to {} (0).",
            percent(term.measured),
            term.score,
            percent(term.optimal),
            percent(term.unacceptable)
        )
    }));
    notes.push(
        "The lowest of these is the score. Packets that a host delayed are in the curve, but do not count."
            .into(),
    );
    Some(Figure {
        id: format!("qoo-{}", name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect::<String>()),
        title: run.titled(&format!("Quality of Outcome for {name}")),
        subtitle: format!("score {score}"),
        measured: String::new(),
        about: "Where the curve passes a percentile left of the optimal point, delay costs nothing; right of the \
                unacceptable one, the application cannot be used."
            .into(),
        x: Axis::linear(if run.is_round_trip() { "round trip" } else { "one-way delay" }, AxisUnit::Time, corrected(min).min(0.0), end),
        y: Axis::linear("cumulative share of packets", AxisUnit::Share, 0.0, 1.0),
        right: None,
        series,
        overflow: None,
        notes,
    })
}

/// Returns the value that the score subtracts from each delay, in ns: the difference between a percentile of the
/// packets' delays and the measured delay of the score at this percentile. Scores may use a better estimate of the
/// clock offset than the report.
fn correction(trace: &Trace, term: &DelayTerm) -> f64 {
    let (origin, cell, counts) = trace.delays.marginal();
    let wanted = (term.percentile / 100.0 * trace.n() as f64).ceil() as u64;
    let mut sum = 0;
    let at = counts.iter().position(|count| {
        sum += count;
        sum >= wanted
    });
    origin + cell * (at.unwrap_or_default() as f64 + 0.5) - term.measured_ns
}

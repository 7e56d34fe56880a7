//! Cumulative distributions of the round trips.

use super::parts::{blank, least, n, quantile, steps};
use super::run::PassiveRun;
use crate::figure::axis::{Axis, AxisUnit};
use crate::figure::grid::PointGrid;
use crate::figure::parts::{Figure, Mark, MarkSeries, Tone};

/// Draws the cumulative share of round trips: per pair, per unit of time, and of ping. `None` without pairs.
pub(super) fn cdf(run: &PassiveRun<'_>) -> Option<Figure> {
    let trace = run.trace;
    if trace.pairs.n() == 0 {
        return None;
    }
    let mut instants = trace.instants.clone();
    if let Some((_, v)) = trace.resampler.last() {
        instants.add(0, v);
    }
    let pings = trace.pings().map(|(source, _, tally)| ((source.label(), tally), 2 + source as u8));
    let shown: Vec<_> = [(("per pair", &trace.pairs), 0), (("per unit of time", &instants), 1)]
        .into_iter()
        .chain(pings)
        .collect();
    let low = shown.iter().map(|((_, g), _)| least(g)).fold(f64::INFINITY, f64::min);
    let p99 = |g: &PointGrid| quantile(g, 0.99);
    let high = shown.iter().map(|((_, g), _)| p99(g)).fold(f64::NEG_INFINITY, f64::max);
    let nearest = shown.iter().map(|((_, g), _)| p99(g)).fold(f64::INFINITY, f64::min);
    // The round trips of ping in another traffic class may be a hundred times longer.
    let ratio = low > 0.0 && high / nearest > 25.0;
    let x = match ratio {
        true => Axis::log("round-trip time, log scale", AxisUnit::Time, low * 0.9, high * 1.1),
        false => Axis::linear("round-trip time", AxisUnit::Time, low, high + (high - low) * 0.02),
    };
    let mut f = blank(
        "rtt-cdf",
        "Round trips, cumulative distributions",
        x,
        Axis::linear("no slower", AxisUnit::Share, 0.0, 1.0),
    );
    f.subtitle = shown
        .iter()
        .map(|((name, g), _)| format!("{name}: n = {}", n(g.n())))
        .collect::<Vec<_>>()
        .join(" · ");
    f.about =
        "Per pair: round trips that the application's packets had, so busy times count more. Per unit of \
               time: round trips that a regular probe would measure, to be compared with ping."
            .into();
    f.notes.push("The axis ends at the largest 99th percentile.".into());
    f.notes.extend(trace.left_out_note());
    f.series = shown
        .into_iter()
        .map(|((name, g), k)| {
            let mut points = vec![(least(g), 0.0)];
            points.extend(steps(g));
            MarkSeries::new(name, Tone::Run(k), Mark::Step { points })
        })
        .collect();
    Some(f)
}

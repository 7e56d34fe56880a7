//! Figure of the rate of pairs over time.

use super::parts::{blank, time};
use super::run::PassiveRun;
use super::trace::PassiveTrace;
use crate::figure::axis::{Axis, AxisUnit};
use crate::figure::parts::{Figure, Mark, MarkSeries, Tone};

/// Number of bins in the moving average of the pair rate.
const AVERAGED_BINS: usize = 10;

/// Draws the number of pairs per second over time; `None` if the capture is too short.
pub(super) fn rate(run: &PassiveRun<'_>) -> Option<Figure> {
    let trace = run.trace;
    let width = trace.rate.width() as f64;
    let per_second = 1e9 / width;
    let mut points: Vec<_> = trace.rate.all().map(|(x, c)| (x, c.unwrap_or(0) as f64 * per_second)).collect();
    if points.len() < 3 {
        return None;
    }
    // Omit the last bin: it is incomplete and would look like a drop.
    points.pop();
    let end = points.last()?.0 + width;
    let mut sum = 0.0;
    let average: Vec<_> = points
        .iter()
        .enumerate()
        .map(|(i, (x, r))| {
            sum += r;
            if i >= AVERAGED_BINS {
                sum -= points[i - AVERAGED_BINS].1;
            }
            (x + width, sum / (i + 1).min(AVERAGED_BINS) as f64)
        })
        .collect();
    points.push((end, points.last()?.1));
    let most = points.iter().map(|p| p.1).fold(0.0, f64::max);
    let mut f = blank(
        "pair-rate",
        "Pair rate",
        Axis::linear("time since the first pair", AxisUnit::Elapsed, 0.0, end),
        Axis::linear("pairs per second", AxisUnit::Plain, 0.0, (most * 1.06).max(1.0)),
    );
    f.subtitle =
        format!("counted every {}; moving average of {}", time(width), time(width * AVERAGED_BINS as f64));
    f.about = "Rate at which the two directions alternate, which follows the rate of the application's packets. \
               Long round trips at a high rate are caused by the application's own queue; at a low rate, by other \
               traffic. If the ratio of pair rate to packet rate is steady (one half if directions alternate \
               strictly), the pair rate represents the packet rate."
        .into();
    f.series.push(MarkSeries::new("pairs per second", Tone::Data, Mark::Step { points }));
    let ratios = ratios(trace);
    if !ratios.is_empty() {
        let most = ratios.iter().map(|p| p.1).fold(0.5, f64::max);
        f.right = Some(Axis::linear("pairs per packet", AxisUnit::Plain, 0.0, most * 1.06));
        let name = "pair rate over packet rate (right)";
        f.series.push(
            MarkSeries::new(name, Tone::Bound, Mark::Line { points: ratios, dashed: false }).on_right(),
        );
    }
    f.series.push(MarkSeries::new("moving average", Tone::Fit, Mark::Line { points: average, dashed: true }));
    Some(f)
}

/// Returns pairs per matched packet of both directions, at the middle of every bin with packets; empty if pairs and
/// packets are counted in bins of different length.
fn ratios(trace: &PassiveTrace) -> Vec<(f64, f64)> {
    if trace.rate.width() != trace.packets.width() {
        return Vec::new();
    }
    let middle = trace.rate.width() as f64 / 2.0;
    // Omit the last bin, which is incomplete.
    let whole = trace.rate.all().count().saturating_sub(1);
    let both = trace.packets.all().take(whole).zip(trace.rate.all().map(|(_, pairs)| pairs));
    both.filter_map(|((x, packets), pairs)| {
        let packets = packets.filter(|n| *n > 0)?;
        Some((x + middle, pairs.unwrap_or(0) as f64 / packets as f64))
    })
    .collect()
}

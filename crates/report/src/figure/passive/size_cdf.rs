//! Cumulative distributions of round trips, one per packet size.

use super::parts::{blank, n};
use super::run::PassiveRun;
use crate::figure::axis::{Axis, AxisUnit};
use crate::figure::parts::{Figure, Mark, MarkSeries, Tone};
use jitlat_passive::SizeFigures;

/// Maximum number of curves. Sizes with the most pairs are drawn.
const MAX_CURVES: usize = 8;
/// Minimum number of pairs for a curve.
const MIN_PAIRS_PER_SIZE: u64 = 10;

/// Draws the cumulative share of round trips by packet size; `None` if all packets have one size.
pub(super) fn size_cdf(run: &PassiveRun<'_>) -> Option<Figure> {
    let mut sizes: Vec<&SizeFigures> = run.sizes.iter().filter(|s| s.pairs >= MIN_PAIRS_PER_SIZE).collect();
    sizes.sort_by_key(|s| std::cmp::Reverse(s.pairs));
    let others = sizes.split_off(sizes.len().min(MAX_CURVES)).len();
    sizes.sort_by_key(|s| (s.out_length, s.in_length));
    if sizes.len() < 2 {
        return None;
    }
    let at = |s: &SizeFigures, percent: usize| s.percentiles.get(2 * percent).copied().unwrap_or(0) as f64;
    let low = sizes.iter().map(|s| at(s, 0)).fold(f64::INFINITY, f64::min);
    let high = sizes.iter().map(|s| at(s, 99)).fold(f64::NEG_INFINITY, f64::max);
    let mut f = blank(
        "rtt-cdf-by-size",
        "Round trips by packet size, cumulative distributions",
        Axis::linear("round-trip time", AxisUnit::Time, low, high + (high - low) * 0.02),
        Axis::linear("no slower", AxisUnit::Share, 0.0, 1.0),
    );
    let pairs: u64 = sizes.iter().map(|s| s.pairs).sum();
    f.subtitle = format!("n = {} pairs of {} sizes", n(pairs), sizes.len());
    f.about =
        "Each packet size has its own serialisation delay, which shifts its curve; curves have the same \
               shape if nothing else depends on size."
            .into();
    f.notes.push("The axis ends at the largest 99th percentile.".into());
    if run.trace.left_out > 0 {
        f.notes.push("All pairs, including those outside the range of other figures.".into());
    }
    if others > 0 {
        f.notes.push(format!("{others} further sizes, of fewer pairs, are not drawn."));
    }
    for (s, k) in sizes.into_iter().zip(0u8..) {
        let name = match s.out_length == s.in_length {
            true => format!("{} bytes", s.out_length),
            false => format!("{} out, {} in", s.out_length, s.in_length),
        };
        let last = s.percentiles.len().saturating_sub(1).max(1) as f64;
        let points = s.percentiles.iter().enumerate().map(|(i, v)| (*v as f64, i as f64 / last)).collect();
        f.series.push(MarkSeries::new(name, Tone::Run(k), Mark::Line { points, dashed: false }));
    }
    Some(f)
}

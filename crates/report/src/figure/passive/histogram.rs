//! Histogram of the round trips.

use super::parts::{blank, least, n, quantile, time};
use super::round_trips::band_note;
use super::run::PassiveRun;
use crate::figure::axis::{Axis, AxisUnit};
use crate::figure::histogram::rebinned;
use crate::figure::parts::{Figure, Mark, MarkSeries, Tone};

/// Number of bars. There are many, so that bands are visible.
const BARS: usize = 240;

/// Draws the number of pairs by round trip; `None` without pairs.
pub(super) fn histogram(run: &PassiveRun<'_>) -> Option<Figure> {
    let (trace, levels) = (run.trace, run.levels);
    if trace.pairs.n() == 0 {
        return None;
    }
    let (low, high) = (least(&trace.pairs), quantile(&trace.pairs, 0.995));
    let bars = rebinned(&trace.pairs, low, high, BARS);
    let most = bars.heights.iter().copied().fold(0.0, f64::max);
    let mut f = blank(
        "rtt-histogram",
        "Round trips, histogram",
        Axis::linear("round-trip time", AxisUnit::Time, bars.start, bars.end()),
        Axis::linear("pairs", AxisUnit::Count, 0.0, (most * 1.06).max(1.0)),
    );
    let inside: f64 = bars.heights.iter().sum();
    let beyond = trace.pairs.n().saturating_sub(inside as u64);
    f.subtitle = format!("n = {} pairs · {} per bar", n(trace.pairs.n()), time(bars.width));
    f.about =
        "Peaks at equal distances are waits for whole packets or ATM cells; a single peak is a path without \
         queueing."
            .into();
    if beyond > 0 {
        let most = time(quantile(&trace.pairs, 1.0));
        f.notes.push(format!("The axis ends at 99.5 %; {} pairs lie beyond, up to {most}.", n(beyond)));
    }
    f.notes.extend(levels.iter().map(band_note));
    f.notes.extend(trace.left_out_note());
    let mark = Mark::Bars { start: bars.start, width: bars.width, heights: bars.heights };
    f.series.push(MarkSeries::new("pairs per bar", Tone::Data, mark));
    Some(f)
}

//! Round trips over time, with the bands found in them.

use super::parts::{blank, least, margins, n, quantile, time};
use super::run::PassiveRun;
use super::trace::PassiveTrace;
use crate::figure::axis::{Axis, AxisUnit};
use crate::figure::parts::{Figure, Mark, MarkSeries, Tone};
use crate::figure::series::drawn;
use jitlat_passive::BandSpacing;

/// Numbers of bands for which marks are drawn: one mark shows no distance, and too many merge.
const MARKED_BANDS: std::ops::RangeInclusive<usize> = 2..=40;
/// Width of the margins for marks of bands, as a fraction of the time axis.
const BAND_MARGIN: f64 = 0.03;

/// Draws round trips over time, with their bands; `None` without pairs.
pub(super) fn round_trips(run: &PassiveRun<'_>) -> Option<Figure> {
    let (trace, levels) = (run.trace, run.levels);
    let (mark, how) = drawn(&trace.rtt, 0.0)?;
    let (from, to) = trace.times()?;
    let (low, high) = (least(&trace.pairs), quantile(&trace.pairs, 1.0));
    let (lo, hi) = margins(low, high);
    let mut f = blank(
        "rtt",
        "Round trip over time",
        Axis::linear("time since the first pair", AxisUnit::Elapsed, from, to),
        Axis::linear("round-trip time", AxisUnit::Time, lo, hi),
    );
    f.subtitle = format!("n = {} synthetic pairs{}", n(trace.pairs.n()), how.replace("packets", "pairs"));
    f.about =
        "Round trips of the application's own packets. Horizontal bands, one packet apart, are packets \
               queued before a slow link; a sawtooth is TCP filling that queue; gaps are times when the \
               application sent nothing."
            .into();
    mark_bands(&mut f, run, (from, to), (low, high));
    f.notes.extend(levels.iter().map(band_note));
    let queue = run.result.and_then(|r| r.summary.queue.as_ref());
    f.notes.extend(queue.map(|queue| format!("Queue: {queue}.")));
    f.notes.extend(trace.left_out_note());
    f.series.push(MarkSeries::new("pairs", Tone::Data, mark));
    Some(f)
}

/// Marks the bands in margins, because lines across the data would hide the dots: the widest bands on the left, the next
/// ones on the right. Widens the time axis for the marks.
fn mark_bands(f: &mut Figure, run: &PassiveRun<'_>, (from, to): (f64, f64), (low, high): (f64, f64)) {
    let mut marked = Vec::new();
    for level in run.levels.iter().filter(|l| !l.of_differences) {
        let q = level.spacing_ns;
        let first = band_phase(run.trace, q, low);
        let count = ((high - first) / q + 0.25).floor().max(0.0) as usize + 1;
        if MARKED_BANDS.contains(&count) {
            marked.push((q, first, count));
        }
    }
    let margin = (to - from).max(1.0) * BAND_MARGIN;
    let sides = [("left", from - margin, from - 0.2 * margin), ("right", to + 0.2 * margin, to + margin)];
    for (&(q, first, count), (side, start, end)) in marked.iter().zip(sides) {
        for k in 0..count {
            let y = first + q * k as f64;
            let name = if k == 0 { format!("bands, {} apart ({side})", time(q)) } else { String::new() };
            let line = Mark::Line { points: vec![(start, y), (end, y)], dashed: false };
            f.series.push(MarkSeries::new(name, Tone::Bound, line));
        }
        (f.x.lo, f.x.hi) = (f.x.lo.min(start), f.x.hi.max(end));
    }
}

pub(super) fn band_note(l: &BandSpacing) -> String {
    let what = if l.of_differences {
        "Neighbouring round trips mostly differ by"
    } else {
        "The distance between bands is"
    };
    let fine = l.steps_per_coarser.map_or(String::new(), |k| format!(", {k} of which make one coarser step"));
    let why = if l.explained.is_empty() { String::new() } else { format!(": {}", l.explained.join("; ")) };
    format!("{what} {}{fine}{why}.", time(l.spacing_ns))
}

/// Returns the lowest band at or above `low`: the phase that most values have.
fn band_phase(trace: &PassiveTrace, q: f64, low: f64) -> f64 {
    let (start, width, counts) = trace.pairs.marginal();
    let (mut c, mut s) = (0.0, 0.0);
    for (k, n) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
        let (sin, cos) = (std::f64::consts::TAU * (start + width * (k as f64 + 0.5)) / q).sin_cos();
        c += *n as f64 * cos;
        s += *n as f64 * sin;
    }
    let phase = s.atan2(c) / std::f64::consts::TAU * q;
    phase + ((low - 0.25 * q - phase) / q).ceil() * q
}

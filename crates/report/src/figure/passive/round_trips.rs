//! Round trips over time, with the bands found in them.

use super::parts::{blank, least, margins, n, quantile, time};
use super::run::PassiveRun;
use super::trace::PassiveTrace;
use crate::figure::axis::{Axis, AxisUnit};
use crate::figure::parts::{Figure, Mark, MarkSeries, Tone};
use crate::figure::series::drawn;
use jitlat_passive::BandSpacing;

/// Maximum number of bands drawn as lines.
const MAX_BAND_LINES: usize = 40;

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
    // Bands that the link explains are more certain than others.
    let bands = || levels.iter().filter(|l| !l.of_differences);
    if let Some(level) = bands().find(|l| !l.explained.is_empty()).or_else(|| bands().next()) {
        let q = level.spacing_ns;
        let first = band_phase(trace, q, low);
        let lines = ((high - first) / q + 0.25).floor().max(0.0) as usize + 1;
        if lines <= MAX_BAND_LINES {
            for k in 0..lines {
                let y = first + q * k as f64;
                let name = if k == 0 { format!("bands, {} apart", time(q)) } else { String::new() };
                f.series.push(MarkSeries::new(
                    name,
                    Tone::Bound,
                    Mark::Line { points: vec![(from, y), (to, y)], dashed: true },
                ));
            }
        }
    }
    f.notes.extend(levels.iter().map(band_note));
    f.notes.extend(trace.left_out_note());
    f.series.push(MarkSeries::new("pairs", Tone::Data, mark));
    Some(f)
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

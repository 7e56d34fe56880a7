//! Round trips over time, compared with ping.

use super::parts::{blank, least, margins, n, quantile};
use super::run::PassiveRun;
use crate::figure::axis::{Axis, AxisUnit};
use crate::figure::parts::{Figure, MarkSeries, Tone};
use crate::figure::series::drawn;

/// Draws round trips over time with those of ping; `None` without ping.
pub(super) fn compared_with_ping(run: &PassiveRun<'_>) -> Option<Figure> {
    let trace = run.trace;
    let (spp, how) = drawn(&trace.rtt, 0.0)?;
    let (from, to) = trace.times()?;
    trace.pings().next()?;
    let tallies = || trace.pings().map(|(_, _, tally)| tally).chain([&trace.pairs]);
    let low = tallies().map(least).fold(f64::INFINITY, f64::min);
    let high = tallies().map(|g| quantile(g, 1.0)).fold(f64::NEG_INFINITY, f64::max);
    let (lo, hi) = margins(low, high);
    let mut f = blank(
        "rtt-ping",
        "Round trip over time, with ping",
        Axis::linear("time since the first packet", AxisUnit::Elapsed, from, to),
        Axis::linear("round-trip time", AxisUnit::Time, lo, hi),
    );
    let counts: String =
        trace.pings().map(|(source, _, tally)| format!(", {}: {}", source.label(), n(tally.n()))).collect();
    f.subtitle = format!("{} pairs{}{counts}", n(trace.pairs.n()), how.replace("packets", "pairs"));
    f.about =
        "Round trips of the application and of ping. They differ if the network treats the two differently, \
               or if ping's packets wait in another queue."
            .into();
    f.series.push(MarkSeries::new("pairs", Tone::Data, spp));
    for (source, cloud, _) in trace.pings() {
        let (mark, _) = drawn(cloud, 0.0)?;
        f.series.push(MarkSeries::new(source.label(), Tone::Run(1 + source as u8), mark));
    }
    Some(f)
}

//! Cumulative distribution of packet size at both points.

use super::parts::{blank, n};
use super::run::PassiveRun;
use crate::figure::axis::{Axis, AxisUnit};
use crate::figure::parts::{Figure, Mark, MarkSeries, Tone};
use jitlat_passive::pipeline::LengthCounts;

/// Draws the cumulative share of packets by length at each point; `None` if all packets have the same size.
pub(super) fn captured_sizes(run: &PassiveRun<'_>) -> Option<Figure> {
    let points = run.captured?;
    let curves = points.map(LengthCounts::cumulative);
    let ends = |k: usize| curves[k].first().zip(curves[k].last()).map(|(a, b)| (a.0, b.0));
    let (a, b) = (ends(0)?, ends(1)?);
    let (shortest, longest) = (a.0.min(b.0), a.1.max(b.1));
    if shortest == longest {
        return None;
    }
    let margin = f64::from(longest - shortest) * 0.04;
    let from = (f64::from(shortest) - margin).max(0.0);
    let mut f = blank(
        "packet-sizes",
        "Packet sizes, cumulative distribution",
        Axis::linear("IP packet (bytes)", AxisUnit::Plain, from, f64::from(longest) + margin),
        Axis::linear("no longer", AxisUnit::Share, 0.0, 1.0),
    );
    let [reference, monitor] = points.map(|lengths| n(lengths.total()));
    f.subtitle = format!("{reference} packets at the reference, {monitor} at the monitor, both directions");
    f.about =
        "Bulk data has two sizes: full packets in one direction, acknowledgements in the other. If the two \
               points differ, packets of that size were lost, or merged by offloading at one of them."
            .into();
    let names = ["at the reference", "at the monitor"];
    for ((curve, name), k) in curves.into_iter().zip(names).zip(0u8..) {
        let foot = (from, 0.0);
        let rest = curve.into_iter().map(|(length, share)| (f64::from(length), share));
        let mut points: Vec<(f64, f64)> = [foot].into_iter().chain(rest).collect();
        points.push((f64::from(longest) + margin, 1.0));
        f.series.push(MarkSeries::new(name, Tone::Run(k), Mark::Step { points }));
    }
    Some(f)
}

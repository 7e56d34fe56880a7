//! Delay variation of both directions.

use super::parts::{blank, time};
use super::run::PassiveRun;
use crate::figure::axis::{Axis, AxisUnit};
use crate::figure::parts::{Figure, Mark, MarkSeries, Tone};
use crate::figure::stretches::TimeBins;
use jitlat_core::spec::Direction;

/// Draws the delay of each direction above its smallest delay.
pub(super) fn variation(run: &PassiveRun<'_>) -> Option<Figure> {
    let trace = run.trace;
    let mut series = Vec::new();
    let (mut end, mut most) = (0.0f64, 0.0f64);
    for (direction, name) in [(Direction::Up, "OUT"), (Direction::Down, "IN")] {
        let (stretches, Some(least)) =
            (&trace.variation[direction as usize], trace.least[direction as usize])
        else {
            continue;
        };
        let points: Vec<(f64, f64)> =
            stretches.values().into_iter().map(|(x, v)| (x, v.saturating_sub(least) as f64)).collect();
        for p in &points {
            (end, most) = (end.max(p.0), most.max(p.1));
        }
        series.push(MarkSeries::new(name, Tone::Run(direction as u8), Mark::Line { points, dashed: false }));
    }
    if series.is_empty() || end <= 0.0 {
        return None;
    }
    let width = trace.variation.iter().map(TimeBins::width).max().unwrap_or(1) as f64;
    let mut f = blank(
        "variation",
        "One-way delay variation, both directions",
        Axis::linear("time since the first packet", AxisUnit::Elapsed, 0.0, end),
        Axis::linear("delay above the smallest", AxisUnit::Time, 0.0, (most * 1.06).max(1000.0)),
    );
    f.subtitle = format!("all matched packets, not only pairs; the largest of every {}", time(width));
    f.about = "Direction that causes the delay: its line rises if its queue fills. Independent of the clock \
               offset; a steady slope in both directions, up in one and down in the other, is clock skew."
        .into();
    f.series = series;
    Some(f)
}

//! Parts shared by the figures of captures.

use crate::figure::axis::{Axis, AxisUnit, group_thousands, value_label};
use crate::figure::grid::PointGrid;
use crate::figure::parts::Figure;

pub(super) fn n(count: u64) -> String {
    group_thousands(&count.to_string())
}

pub(super) fn time(ns: f64) -> String {
    value_label(AxisUnit::Time, ns)
}

/// Returns a quantile of the distribution that the cells of `grid` count, interpolated between their lower
/// edges.
pub(super) fn quantile(grid: &PointGrid, share: f64) -> f64 {
    let (start, width, counts) = grid.marginal();
    let rank = share * grid.n() as f64;
    let mut seen = 0.0;
    for (k, c) in counts.iter().enumerate() {
        seen += *c as f64;
        if seen >= rank {
            return start + width * k as f64;
        }
    }
    start + width * counts.len() as f64
}

pub(super) fn least(grid: &PointGrid) -> f64 {
    quantile(grid, 0.0f64.max(0.5 / grid.n().max(1) as f64))
}

pub(super) fn blank(id: &str, title: &str, x: Axis, y: Axis) -> Figure {
    Figure {
        id: id.into(),
        title: title.into(),
        subtitle: String::new(),
        measured: String::new(),
        about: String::new(),
        x,
        y,
        right: None,
        series: Vec::new(),
        overflow: None,
        notes: Vec::new(),
    }
}

pub(super) fn margins(low: f64, high: f64) -> (f64, f64) {
    let m = (high - low).max(1.0) * 0.04;
    (low - m, high + m)
}

pub(super) fn steps(grid: &PointGrid) -> Vec<(f64, f64)> {
    let (start, width, counts) = grid.marginal();
    let total = grid.n().max(1) as f64;
    let merge = counts.len().div_ceil(2000).max(1);
    let mut sum = 0u64;
    let mut points = Vec::new();
    for (k, chunk) in counts.chunks(merge).enumerate() {
        let here: u64 = chunk.iter().sum();
        if here > 0 {
            sum += here;
            points.push((start + width * (k * merge) as f64, sum as f64 / total));
        }
    }
    points
}

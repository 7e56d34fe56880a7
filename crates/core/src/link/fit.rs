//! [`LinkFit`]: the kind of link that best explains the round trips of a sweep over packet sizes.

use super::encapsulation::{CELL_BYTES, Encapsulation};
use crate::metrics::bands::fit_line;
use crate::metrics::stat::t_quantile;
use serde::Serialize;

/// Properties of a link, estimated from a sweep over packet sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkFit {
    /// Part of the round trip that does not depend on size, in ns. If there are steps, it excludes whole cells of
    /// overhead, which follow from the encapsulation.
    pub fixed_ns: f64,
    /// Increase of the round trip, in ns: per cell if there are steps, otherwise per byte.
    pub slope_ns: f64,
    /// Bytes per step (48 on ATM), and the overhead modulo that number that fits best; `None` if there are no steps.
    pub steps: Option<(u64, u64)>,
    /// Overheads modulo the step that cannot be distinguished from the best one, which is included; ascending. There
    /// are several if too few sizes were measured, or the round trips are too inexact. Empty if there are no steps.
    pub overheads: Vec<u64>,
    /// True if ATM cells were assumed rather than detected: the sizes are too few or too far apart to show steps, but
    /// cells explain the times far better than a straight line.
    pub cells_assumed: bool,
    /// True if the sizes are too few or too far apart to show steps.
    pub coarse: bool,
    /// Root mean square of the residuals, in ns.
    pub residual_ns: f64,
    /// ATM encapsulations whose overhead is among `overheads`; empty if the steps are not ATM cells.
    pub encapsulations: Vec<String>,
    /// Rate of both directions in series, 1/(1/up + 1/down), in bits per second.
    pub series_rate: f64,
    /// 95 % interval of `series_rate`, in bits per second (Student's, of the slope); `None` if there are too few sizes, or
    /// if the slope may be 0.
    pub series_rate_ci95: Option<[f64; 2]>,
}

/// Significance level of steps: they are accepted if [`chance`] returns a smaller probability.
const MAX_CHANCE: f64 = 1e-3;

/// Limit below which a sum of squares is a rounding error, in ns².
const ROUNDING: f64 = 1e-9;

/// Root mean square of the residuals, as a fraction of the height of a step, up to which an overhead is not excluded:
/// other small parts of the round trip, for example those of further links, depend on the size, too.
const MIN_TELLING: f64 = 0.02;

/// Factor by which the sum of squared residuals of a straight line must exceed that of ATM cells for cells to be
/// assumed.
const MIN_CELL_IMPROVEMENT: f64 = 25.0;

/// Fits points (IP length, smallest round trip in ns). The result is a staircase of at least three steps if it fits
/// significantly better than a straight line (F test, p < 10⁻³). If the sizes are too few or too far apart for steps,
/// the result is ATM cells if they leave a far smaller residual. Otherwise it is the line. `tunnel` is the known
/// overhead of a tunnel. `None` for fewer than four sizes.
pub fn fit(points: &[(u64, f64)], tunnel: u64) -> Option<LinkFit> {
    let n = points.len();
    if n < 4 {
        return None;
    }
    let line = regress(points.iter().map(|p| (p.0 as f64, p.1)))?;
    let mut best: Option<(u64, u64, [f64; 3])> = None;
    for step in 32..=64u64 {
        for h in 0..step {
            let Some(r) = regress(points.iter().map(|p| ((p.0 + h).div_ceil(step) as f64, p.1))) else {
                continue;
            };
            // Several lengths of step may fit equally well; the one nearest to an ATM cell is the most likely.
            let better = best.is_none_or(|(s, _, b)| {
                let tie = (r[2] - b[2]).abs() <= 1e-9 * b[2].max(1.0);
                if tie { step.abs_diff(48) < s.abs_diff(48) } else { r[2] < b[2] }
            });
            if better {
                best = Some((step, h, r));
            }
        }
    }
    let (step, h, stairs) = best?;
    let (least, most) = (points.iter().map(|p| p.0).min()?, points.iter().map(|p| p.0).max()?);
    let spanned = (most + h).div_ceil(step) - (least + h).div_ceil(step);
    let mut lengths: Vec<u64> = points.iter().map(|p| p.0).collect();
    lengths.sort_unstable();
    let mut gaps: Vec<u64> = lengths.windows(2).map(|w| w[1] - w[0]).collect();
    gaps.sort_unstable();
    let coarse = n < 8 || gaps[gaps.len() / 2] > CELL_BYTES.0 / 2;
    let found = spanned >= 3 && chance(line[2], stairs[2], n) < MAX_CHANCE;
    let assumed = (!found && coarse).then(|| cells(points, tunnel)).flatten();
    let assumed = assumed.filter(|(_, stairs)| stairs[2].max(ROUNDING) * MIN_CELL_IMPROVEMENT < line[2]);
    let (step, h, stairs) = match assumed {
        Some((h, stairs)) => (CELL_BYTES.0, h, stairs),
        None if found => (step, h, stairs),
        None => {
            return Some(LinkFit {
                fixed_ns: line[0],
                slope_ns: line[1],
                steps: None,
                overheads: Vec::new(),
                cells_assumed: false,
                coarse,
                residual_ns: (line[2] / n as f64).sqrt(),
                encapsulations: Vec::new(),
                series_rate: 8e9 / line[1],
                series_rate_ci95: rates(points.iter().map(|p| p.0), line, 2).map(|r| r.map(|r| 8.0 * r)),
            });
        }
    };
    let overheads = as_good(points, step, stairs);
    let matches = |e: &Encapsulation| overheads.contains(&((e.overhead() + tunnel) % step));
    let encapsulations = if step == CELL_BYTES.0 {
        Encapsulation::of_atm().filter(matches).map(|e| e.to_string()).collect()
    } else {
        Vec::new()
    };
    let bits = if step == CELL_BYTES.0 { CELL_BYTES.1 * 8 } else { step * 8 };
    Some(LinkFit {
        fixed_ns: stairs[0],
        slope_ns: stairs[1],
        steps: Some((step, h)),
        overheads,
        cells_assumed: assumed.is_some(),
        coarse,
        residual_ns: (stairs[2] / n as f64).sqrt(),
        encapsulations,
        series_rate: bits as f64 * 1e9 / stairs[1],
        // Four parameters were fitted: intercept, slope, length of a step, and overhead.
        series_rate_ci95: rates(points.iter().map(|p| (p.0 + h).div_ceil(step)), stairs, 4)
            .map(|r| r.map(|r| bits as f64 * r)),
    })
}

/// Returns the overheads modulo `step` that cannot be distinguished from the best one, whose regression is `stairs`:
/// the likelihood ratio is not significant at 5 %, or the residuals are at most [`MIN_TELLING`].
fn as_good(points: &[(u64, f64)], step: u64, stairs: [f64; 3]) -> Vec<u64> {
    let n = points.len() as f64;
    let by_chance = stairs[2] * (1.0 + 4.0 / (n - 4.0).max(1.0));
    let limit = by_chance.max(n * (MIN_TELLING * stairs[1]).powi(2));
    let rest = |h: u64| regress(points.iter().map(|p| ((p.0 + h).div_ceil(step) as f64, p.1))).map(|r| r[2]);
    (0..step).filter(|h| rest(*h).is_some_and(|rest| rest <= limit)).collect()
}

/// Returns the overhead modulo the cell size that fits best among the ATM encapsulations, with its regression; `None`
/// if all sizes lie within three cells.
fn cells(points: &[(u64, f64)], tunnel: u64) -> Option<(u64, [f64; 3])> {
    let overheads = Encapsulation::of_atm().map(|e| (e.overhead() + tunnel) % CELL_BYTES.0);
    let fits = overheads.filter_map(|h| {
        let cells = |p: &(u64, f64)| (p.0 + h).div_ceil(CELL_BYTES.0);
        let spanned = points.iter().map(cells).max()? - points.iter().map(cells).min()?;
        let fit = regress(points.iter().map(|p| (cells(p) as f64, p.1)))?;
        (spanned >= 3).then_some((h, fit))
    });
    fits.min_by(|a, b| a.1[2].total_cmp(&b.1[2]))
}

/// Returns the probability that steps fit points of a straight line this much better than the line by chance, given the
/// sums of squared residuals of both fits for `n` sizes. This is the tail of F(2, ν) for two additional parameters,
/// which has a closed form. The result is 1 or more if steps do not fit better.
fn chance(line: f64, stairs: f64, n: usize) -> f64 {
    // (1 + 2F/ν)^(−ν/2) with F = ((line − stairs)/2) / (stairs/ν).
    (stairs.max(ROUNDING) / line.max(ROUNDING)).powf((n as f64 - 4.0) / 2.0)
}

/// Returns the 95 % interval of the number of units of `x` per second, given the regression of times in ns on `x` and the
/// number of `fitted` parameters; `None` if there are too few points, or if the slope may be 0.
fn rates(
    x: impl Iterator<Item = u64> + Clone,
    [_, slope, squares]: [f64; 3],
    fitted: usize,
) -> Option<[f64; 2]> {
    let n = x.clone().count();
    let df = n.checked_sub(fitted).filter(|df| *df > 0)?;
    let mean = x.clone().map(|x| x as f64).sum::<f64>() / n as f64;
    let spread: f64 = x.map(|x| (x as f64 - mean).powi(2)).sum();
    let error = t_quantile(0.975, df as u64) * (squares / df as f64 / spread).sqrt();
    (slope > error).then(|| [1e9 / (slope + error), 1e9 / (slope - error)])
}

/// Fits a line by least squares. Returns intercept, slope and sum of squared residuals; `None` if x does not vary.
fn regress(points: impl Iterator<Item = (f64, f64)> + Clone) -> Option<[f64; 3]> {
    let (slope, intercept) = fit_line(points.clone())?;
    Some([intercept, slope, points.map(|(x, y)| (y - intercept - slope * x).powi(2)).sum()])
}

#[cfg(test)]
mod tests;

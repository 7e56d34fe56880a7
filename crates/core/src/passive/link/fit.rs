//! [`Fit`]: which link the results of a sweep over packet sizes suggest.

use super::encapsulation::{CELL, Encapsulation};
use crate::passive::sizes::SizeFigures;
use serde::Serialize;

/// What a sweep over packet sizes shows of the link.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fit {
    /// Round trip that does not depend on size, in ns. For steps it is less whole cells of overhead, which are only
    /// known from the encapsulation.
    pub fixed_ns: f64,
    /// Round trip per cell for steps, per byte for a line, in ns.
    pub slope_ns: f64,
    /// For steps: bytes per step (48 is ATM), and overhead modulo that; `None` for a line.
    pub steps: Option<(u64, u64)>,
    /// Whether the steps were not found but assumed to be ATM cells, as the sizes are too few or too far apart to show
    /// any, and cells explain them far better than a straight line does.
    pub cells_assumed: bool,
    /// Whether the sizes are too few or too far apart to show steps.
    pub coarse: bool,
    /// Root mean square of the residuals, in ns.
    pub residual_ns: f64,
    /// Encapsulations of ATM with that overhead, if the steps are cells.
    pub encapsulations: Vec<String>,
    /// 1/(1/up + 1/down): the rate of both ways in series, in bits a second.
    pub series_rate: f64,
}

/// How many times less must be left unexplained by ATM cells than by a straight line, as a sum of squares, for them to be
/// assumed.
const FAR_BETTER: f64 = 25.0;

/// Fits (IP length, least round trip in ns) points: a staircase where it is significantly better than a
/// straight line (F test, p < 10⁻³, at least three steps); of sizes too few or too far apart for that ATM cells, where they
/// leave far less unexplained; else the line. `tunnel` is the known overhead of
/// a tunnel. `None` of fewer than four sizes.
pub fn fit(points: &[(u64, f64)], tunnel: u64) -> Option<Fit> {
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
    let freedom = n as f64 - 4.0;
    // Two further parameters: the F(2, ν) distribution has this closed tail.
    let f = (line[2] - stairs[2]) / 2.0 / (stairs[2].max(1e-9) / freedom.max(1.0));
    let p = if freedom > 0.0 { (1.0 + 2.0 * f / freedom).powf(-freedom / 2.0) } else { 1.0 };
    let mut lengths: Vec<u64> = points.iter().map(|p| p.0).collect();
    lengths.sort_unstable();
    let mut gaps: Vec<u64> = lengths.windows(2).map(|w| w[1] - w[0]).collect();
    gaps.sort_unstable();
    let coarse = n < 8 || gaps[gaps.len() / 2] > CELL.0 / 2;
    let found = spanned >= 3 && f > 0.0 && p < 1e-3;
    let assumed = (!found && coarse).then(|| cells(points, tunnel)).flatten();
    let assumed = assumed.filter(|(_, stairs)| stairs[2] * FAR_BETTER < line[2]);
    let (step, h, stairs) = match assumed {
        Some((h, stairs)) => (CELL.0, h, stairs),
        None if found => (step, h, stairs),
        None => {
            return Some(Fit {
                fixed_ns: line[0],
                slope_ns: line[1],
                steps: None,
                cells_assumed: false,
                coarse,
                residual_ns: (line[2] / n as f64).sqrt(),
                encapsulations: Vec::new(),
                series_rate: 8e9 / line[1],
            });
        }
    };
    // Sizes that were not swept leave the edge of a step uncertain: any overhead that puts the steps between the same
    // sizes fits.
    let shift =
        |p: &(u64, f64), other: u64| (p.0 + h).div_ceil(step) as i64 - (p.0 + other).div_ceil(step) as i64;
    let same = |other: u64| points.iter().all(|p| shift(p, other) == shift(&points[0], other));
    let matches = |e: &Encapsulation| same((e.overhead() + tunnel) % CELL.0);
    let encapsulations = if step == CELL.0 {
        Encapsulation::of_atm().filter(matches).map(|e| e.to_string()).collect()
    } else {
        Vec::new()
    };
    let bits = if step == CELL.0 { CELL.1 * 8 } else { step * 8 };
    Some(Fit {
        fixed_ns: stairs[0],
        slope_ns: stairs[1],
        steps: Some((step, h)),
        cells_assumed: assumed.is_some(),
        coarse,
        residual_ns: (stairs[2] / n as f64).sqrt(),
        encapsulations,
        series_rate: bits as f64 * 1e9 / stairs[1],
    })
}

/// The overhead modulo a cell, of those that encapsulations of ATM have, under which cells explain most, and how well;
/// None where all sizes lie within three cells.
fn cells(points: &[(u64, f64)], tunnel: u64) -> Option<(u64, [f64; 3])> {
    let overheads = Encapsulation::of_atm().map(|e| (e.overhead() + tunnel) % CELL.0);
    let fits = overheads.filter_map(|h| {
        let cells = |p: &(u64, f64)| (p.0 + h).div_ceil(CELL.0);
        let spanned = points.iter().map(cells).max()? - points.iter().map(cells).min()?;
        let fit = regress(points.iter().map(|p| (cells(p) as f64, p.1)))?;
        (spanned >= 3).then_some((h, fit))
    });
    fits.min_by(|a, b| a.1[2].total_cmp(&b.1[2]))
}

/// Least squares: intercept, slope, sum of squared errors.
fn regress(points: impl Iterator<Item = (f64, f64)> + Clone) -> Option<[f64; 3]> {
    let (mut n, mut mx, mut my) = (0.0, 0.0, 0.0);
    for (x, y) in points.clone() {
        n += 1.0;
        mx += (x - mx) / n;
        my += (y - my) / n;
    }
    let (mut sxx, mut sxy, mut syy) = (0.0, 0.0, 0.0);
    for (x, y) in points {
        sxx += (x - mx) * (x - mx);
        sxy += (x - mx) * (y - my);
        syy += (y - my) * (y - my);
    }
    if sxx <= 0.0 {
        return None;
    }
    let slope = sxy / sxx;
    Some([my - slope * mx, slope, (syy - slope * sxy).max(0.0)])
}

/// The fit over pairs of two packets of one size.
pub fn fit_sizes(sizes: &[SizeFigures], tunnel: u64) -> Option<Fit> {
    let same: Vec<_> = sizes
        .iter()
        .filter(|s| s.out_length == s.in_length)
        .map(|s| (u64::from(s.out_length), s.min_rtt_ns as f64))
        .collect();
    fit(&same, tunnel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staircase_is_found_with_its_overhead() {
        // metrics V28, over the UDP payload: 96 bytes of overhead beside it
        let points: Vec<_> = (40..=640)
            .step_by(4)
            .map(|x: u64| (x, (7.5 + 4.140625 * ((x + 96) as f64 / 48.0).ceil()) * 1e6))
            .collect();
        let f = fit(&points, 28).unwrap();
        assert_eq!(f.steps, Some((48, 0)));
        assert!((f.slope_ns - 4_140_625.0).abs() < 1e-3 && (f.fixed_ns - 15_781_250.0).abs() < 1e-3, "{f:?}");
        assert!((f.series_rate - 102_400.0).abs() < 0.1, "1/(1/128k + 1/512k)");
        // The same over IP lengths names the encapsulation.
        let points: Vec<_> = points.iter().map(|p| (p.0 + 28, p.1)).collect();
        let f = fit(&points, 28).unwrap();
        // Sizes four bytes apart leave the edge uncertain by as much.
        assert_eq!(f.steps.map(|s| s.0), Some(48));
        assert!((17..=20).contains(&f.steps.unwrap().1));
        assert_eq!(f.encapsulations, ["pppoe-llc"]);
    }

    #[test]
    fn four_sizes_are_enough_where_cells_explain_them() {
        // Least round trips of the payload sweep over a simulated cell clock, in ms, by IP length.
        let sweep = [(68, 17.84), (368, 46.80), (668, 71.70), (1268, 121.35)].map(|(l, ms)| (l, ms * 1e6));
        let f = fit(&sweep, 28).unwrap();
        assert!(f.cells_assumed && f.coarse && f.steps.is_some_and(|s| s.0 == 48), "{f:?}");
        assert!((f.series_rate - 102_400.0).abs() < 100.0, "{f:?}");
        assert!(f.encapsulations.iter().any(|e| e == "pppoe-llc"), "{f:?}");
        // The document's own: further hops cost 1.55 us a byte, so the rate of all in series is less.
        let printed = [(68, 17.84), (368, 46.99), (668, 72.52), (968, 97.66), (1268, 123.19)];
        let f = fit(&printed.map(|(l, ms)| (l, ms * 1e6)), 28).unwrap();
        assert!(f.cells_assumed && (f.series_rate - 100_600.0).abs() < 300.0, "{f:?}");
        // A line of the same mean rate, a little noisy, is none.
        let line = sweep.map(|(l, _)| (l, 10e6 + 86_200.0 * l as f64 + (l % 7) as f64 * 20_000.0));
        let f = fit(&line, 28).unwrap();
        assert!(f.steps.is_none() && f.coarse && !f.cells_assumed, "{f:?}");
        // Nor is noise as large as a cell.
        let noisy = sweep.map(|(l, ms)| (l, ms + if l % 200 == 68 { 3e6 } else { 0.0 }));
        assert!(fit(&noisy, 28).unwrap().steps.is_none());
    }

    #[test]
    fn a_straight_line_stays_one() {
        let points: Vec<_> =
            (40..1400).step_by(20).map(|x| (x, 5e6 + 800.0 * x as f64 + (x % 7) as f64)).collect();
        let f = fit(&points, 0).unwrap();
        assert!(f.steps.is_none() && !f.coarse && (f.slope_ns - 800.0).abs() < 1.0, "{f:?}");
        assert_eq!(fit(&points[..3], 0), None);
        assert_eq!(fit(&[(5, 1.0); 9], 0), None);
    }
}

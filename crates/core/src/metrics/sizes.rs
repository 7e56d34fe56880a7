//! Results of a sweep over payload sizes: the rate of the links follows from the slope, the size of cells from the
//! steps (metrics §21).

use super::bands::fit_line;
use serde::Serialize;

/// A linear model: time = a + b·size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeFit {
    /// Fixed delay, in the same unit as the times.
    pub fixed: f64,
    /// Time per byte, in the same unit as the times.
    pub per_byte: f64,
    /// Time per byte by Theil and Sen's method: the median of all slopes, which outliers do not affect.
    pub per_byte_robust: f64,
    /// Fixed delay for the robust slope.
    pub fixed_robust: f64,
    /// Pearson's r; `None` if times do not vary.
    pub r: Option<f64>,
}

impl SizeFit {
    /// Returns the rate of all links in series, both directions together, in bits per unit of time: 8/b. `None` if time
    /// does not increase with size.
    pub fn series_rate(&self) -> Option<f64> {
        (self.per_byte > 0.0).then(|| 8.0 / self.per_byte)
    }
}

/// Fits the smallest (or median) time of each size; `None` for fewer than two sizes.
pub fn size_fit(points: &[(f64, f64)]) -> Option<SizeFit> {
    let (per_byte, fixed) = fit_line(points.iter().copied())?;
    let mut slopes = Vec::new();
    for (i, p) in points.iter().enumerate() {
        slopes.extend(points[..i].iter().filter(|q| q.0 != p.0).map(|q| (p.1 - q.1) / (p.0 - q.0)));
    }
    let per_byte_robust = median(slopes)?;
    let fixed_robust = median(points.iter().map(|p| p.1 - per_byte_robust * p.0).collect())?;
    let n = points.len() as f64;
    let (mx, my) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let sum = |f: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>();
    let (sxx, syy) = (sum(&|p| (p.0 - mx).powi(2)), sum(&|p| (p.1 - my).powi(2)));
    let sxy = sum(&|p| (p.0 - mx) * (p.1 - my));
    Some(SizeFit {
        fixed,
        per_byte,
        per_byte_robust,
        fixed_robust,
        r: (syy > 0.0).then(|| sxy / (sxx * syy).sqrt()),
    })
}

/// A model of a path with fixed cells of S bytes of payload: time = c + τ·⌈(size + h)/S⌉.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Steps {
    /// Payload S of a cell, in bytes.
    pub cell: u32,
    /// Hidden overhead h modulo S, in bytes.
    pub overhead: u32,
    /// Time τ of a cell.
    pub per_cell: f64,
    /// Constant part c of the time.
    pub fixed: f64,
    /// Sum of squared residuals.
    pub sse: f64,
    /// Sum of squared residuals of a straight line through the same points.
    pub sse_line: f64,
    /// Smallest and largest cell size whose fit is within 5 % of the best.
    pub cells: [u32; 2],
    /// True if the steps fit better than a straight line with p < 10⁻³, and the sizes span at least three
    /// steps.
    pub significant: bool,
}

/// Fits steps for each cell size in `cells` exhaustively. Ties go to the size nearest to 48 (ATM), then to the smaller
/// overhead. `None` if sizes or times do not vary.
pub fn steps(points: &[(u32, f64)], cells: impl Iterator<Item = u32>) -> Option<Steps> {
    let plain = points.iter().map(|p| (f64::from(p.0), p.1));
    let line = fit_line(plain.clone())?;
    let sse_line = sse(plain, line);
    let mut found: Vec<(u32, u32, f64, (f64, f64))> = Vec::new();
    for cell in cells {
        for overhead in 0..cell {
            let stepped = points
                .iter()
                .map(|p| ((u64::from(p.0) + u64::from(overhead)).div_ceil(cell.into()) as f64, p.1));
            if let Some(line) = fit_line(stepped.clone()) {
                found.push((cell, overhead, sse(stepped, line), line));
            }
        }
    }
    let least = found.iter().map(|f| f.2).fold(f64::INFINITY, f64::min);
    let scale: f64 = points.iter().map(|p| p.1 * p.1).sum();
    // Several cells may fit equally well; the one nearest to an ATM cell is the most likely.
    let near = |f: &&(u32, u32, f64, (f64, f64))| f.2 <= least + 1e-12 * scale;
    let best = found.iter().filter(near).min_by_key(|f| (f.0.abs_diff(48), f.1))?;
    let (cell, overhead, sse, (per_cell, fixed)) = *best;
    let similar = || found.iter().filter(|f| f.2 <= 1.05 * least + 1e-12 * scale).map(|f| f.0);
    let span = points.iter().map(|p| p.0).max()? - points.iter().map(|p| p.0).min()?;
    Some(Steps {
        cell,
        overhead,
        per_cell,
        fixed,
        sse,
        sse_line,
        cells: [similar().min()?, similar().max()?],
        significant: span / cell >= 3 && beats(sse, sse_line, points.len(), scale),
    })
}

fn sse(points: impl Iterator<Item = (f64, f64)>, (slope, intercept): (f64, f64)) -> f64 {
    points.map(|(x, y)| (y - intercept - slope * x).powi(2)).sum()
}

/// Returns true if two additional parameters (cell and overhead) improve the fit significantly: an F test at p < 10⁻³.
/// With two numerator degrees of freedom and d = n − 4 denominator degrees of freedom, the tail of F has a closed form:
/// (1 + 2F/d)^(−d/2) = (SSE/SSE of the line)^(d/2).
fn beats(sse: f64, sse_line: f64, n: usize, scale: f64) -> bool {
    if n < 6 {
        return false;
    }
    if sse <= 1e-12 * scale {
        return sse_line > 1e-9 * scale;
    }
    (sse / sse_line).powf((n - 4) as f64 / 2.0) < 1e-3
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    Some((values.get(n.checked_sub(1)? / 2)? + values.get(n / 2)?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atm_cells() {
        // metrics §21, V28: 96 bytes of overhead are two whole cells.
        let tau = 53.0 * 8.0 * (1.0 / 512.0 + 1.0 / 128.0);
        let points: Vec<(u32, f64)> =
            (40..644).step_by(4).map(|x| (x, 7.5 + tau * f64::from((x + 96u32).div_ceil(48)))).collect();
        let s = steps(&points, 32..=64).unwrap();
        assert_eq!((s.cell, s.overhead, s.significant), (48, 0, true));
        assert!((s.per_cell - 4.140_625).abs() < 1e-9 && (s.fixed - 15.781_25).abs() < 1e-9);
        let straight: Vec<(u32, f64)> = (40..644).step_by(4).map(|x| (x, 7.5 + 0.1 * f64::from(x))).collect();
        assert!(!steps(&straight, 32..=64).unwrap().significant);
    }

    #[test]
    fn rate_from_sizes() {
        // metrics §21, V29.
        let sizes = [40.0, 340.0, 640.0, 940.0, 1240.0];
        let fit = |times: [f64; 5]| size_fit(&sizes.into_iter().zip(times).collect::<Vec<_>>()).unwrap();
        let medians = fit([20.34, 49.52, 74.72, 100.05, 125.37]);
        assert!((medians.per_byte - 0.086_863_3).abs() < 1e-7 && (medians.fixed - 18.4075).abs() < 1e-4);
        assert!((medians.r.unwrap() - 0.999_562).abs() < 1e-6);
        assert!((medians.series_rate().unwrap() - 92.099).abs() < 1e-3);
        let minima = fit([17.84, 46.99, 72.52, 97.66, 123.19]);
        assert!((minima.per_byte - 0.087_123_3).abs() < 1e-7 && (minima.fixed - 15.8811).abs() < 1e-4);
        assert_eq!(size_fit(&[(5.0, 5.0)]), None);
    }

    #[test]
    fn the_robust_line_by_hand() {
        // Slopes ¼, ½, 6/7, 1, 5/3, 3; intercepts ½, 1, 43/14, 45/14 for their median, 13/14.
        let f = size_fit(&[(0.0, 1.0), (1.0, 4.0), (3.0, 6.0), (7.0, 7.0)]).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(f.per_byte_robust, 13.0 / 14.0) && near(f.fixed_robust, 57.0 / 28.0), "{f:?}");
        // Sxx = 28.75, Syy = 21, Sxy = 21.5; means 2.75 and 4.5.
        assert!(near(f.per_byte, 21.5 / 28.75) && near(f.fixed, 4.5 - 2.75 * 21.5 / 28.75), "{f:?}");
        assert!(near(f.r.unwrap(), 21.5 / (28.75f64 * 21.0).sqrt()), "{f:?}");
        // One outlier changes the mean slope but not the median: 2, 1 and ½.
        let f = size_fit(&[(0.0, 0.0), (1.0, 2.0), (3.0, 3.0)]).unwrap();
        assert_eq!((f.per_byte_robust, f.fixed_robust), (1.0, 0.0));
        // Times that do not depend on size, or do not vary at all, give no rate.
        let flat = size_fit(&[(0.0, 5.0), (100.0, 5.0)]).unwrap();
        assert_eq!((flat.per_byte, flat.r, flat.series_rate()), (0.0, None, None));
    }

    #[test]
    fn cells_of_any_size_in_any_unit() {
        let stepped = |sizes: std::ops::Range<u32>, unit: f64| -> Vec<(u32, f64)> {
            let noise = |x: u32| f64::from(x * 7 % 5) / 100.0;
            sizes
                .step_by(3)
                .map(|x| (x, unit * (7.3 + 0.7 * f64::from((x + 11).div_ceil(40)) + noise(x))))
                .collect()
        };
        for unit in [1e-9, 1.0, 1e9] {
            let s = steps(&stepped(1000..1400, unit), 32..=64).unwrap();
            assert_eq!((s.cell, s.overhead, s.cells, s.significant), (40, 11, [40, 40], true), "{unit}");
            assert!((s.per_cell / unit - 0.7).abs() < 0.01, "{unit}: {}", s.per_cell);
        }
        // The sizes must span three cells: 120 bytes with cells of 40.
        let exact = |last: u32| -> bool {
            let points: Vec<(u32, f64)> =
                (1000..=last).step_by(2).map(|x| (x, f64::from(x.div_ceil(40)))).collect();
            steps(&points, 40..=40).unwrap().significant
        };
        assert_eq!([1118, 1120].map(exact), [false, true]);
    }

    #[test]
    fn among_equals_the_cell_of_atm() {
        // Sizes 48 bytes apart on a line: cells of 16, 24 and 48 bytes fit exactly, with any overhead.
        let points: Vec<(u32, f64)> = (0..61).map(|k| (48 * k, 5.3 + 0.7 * f64::from(k))).collect();
        let s = steps(&points, 0..=64).unwrap();
        assert_eq!((s.cell, s.overhead, s.significant), (48, 0, false));
        let s = steps(&points, 15..=64).unwrap();
        assert_eq!(s.cells, [16, 48]);
        assert_eq!(steps(&points[..1], 15..=64), None);
    }

    #[test]
    fn steps_must_beat_the_line() {
        for (sse, sse_line, n, expected) in [
            // n − 4 = 6: the ratio of the errors must be below 1/10; n − 4 = 2: below 1/1000.
            (1.0, 10.01, 10, true),
            (1.0, 9.99, 10, false),
            (1.0, 1001.0, 6, true),
            (1.0, 999.0, 6, false),
            (1.0, 1e9, 5, false),
            (1.0, 0.5, 10, false),
            // Steps without any error are better than a line with more than rounding errors, 1e-9 of 1e6.
            (1e-6, 0.000_999, 10, false),
            (1e-6, 0.001_001, 10, true),
            (0.0, 0.0, 10, false),
        ] {
            assert_eq!(beats(sse, sse_line, n, 1e6), expected, "{sse} {sse_line} {n}");
        }
    }
}

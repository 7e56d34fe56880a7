//! What a sweep over payload sizes shows: the rate of the links from the slope, cells from the steps (metrics §21).

use super::bands::fit_line;
use serde::Serialize;

/// Time = a + b·size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeFit {
    /// Fixed delay, in the unit of the times.
    pub fixed: f64,
    /// Time per byte.
    pub per_byte: f64,
    /// By Theil and Sen: the median of all slopes, which outliers do not move.
    pub per_byte_robust: f64,
    /// The fixed delay for this slope.
    pub fixed_robust: f64,
    /// Pearson's; `None` where times do not vary.
    pub r: Option<f64>,
}

impl SizeFit {
    /// The rate of all links in series, both ways, in bits a unit of time: 8/b.
    pub fn series_rate(&self) -> Option<f64> {
        (self.per_byte > 0.0).then(|| 8.0 / self.per_byte)
    }
}

/// Fits the smallest (or median) time of each size; `None` below two sizes.
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

/// Time = c + τ·⌈(size + h)/S⌉: the path carries fixed cells of S bytes of payload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Steps {
    /// S, in bytes.
    pub cell: u32,
    /// h, the hidden overhead modulo S, in bytes.
    pub overhead: u32,
    /// τ, the time of a cell.
    pub per_cell: f64,
    /// c, the constant part.
    pub fixed: f64,
    /// Sum of squared residuals, and of the straight line on the same points.
    pub sse: f64,
    /// The same for the straight line.
    pub sse_line: f64,
    /// The cell sizes whose fit is within 5 % of the best.
    pub cells: [u32; 2],
    /// The steps beat the straight line with p < 10⁻³ and at least three of them are spanned.
    pub significant: bool,
}

/// Fits steps of each cell size in `cells` exhaustively; ties go to the size nearest 48 (ATM), then the
/// smaller overhead. `None` where nothing varies.
pub fn steps(points: &[(u32, f64)], cells: impl Iterator<Item = u32>) -> Option<Steps> {
    let plain = points.iter().map(|p| (f64::from(p.0), p.1));
    let line = fit_line(plain.clone())?;
    let sse_line = sse(plain, line);
    let mut found: Vec<(u32, u32, f64, (f64, f64))> = Vec::new();
    for cell in cells.filter(|c| *c > 0) {
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

/// F-test of two more parameters (cell and overhead) at p < 10⁻³. With two numerator degrees of freedom
/// the tail of F has a closed form: (1 + 2F/d)^(−d/2).
fn beats(sse: f64, sse_line: f64, n: usize, scale: f64) -> bool {
    if n < 6 || sse_line <= sse {
        return false;
    }
    if sse <= 1e-12 * scale {
        return sse_line > 1e-9 * scale;
    }
    let d = (n - 4) as f64;
    let f = (sse_line - sse) / 2.0 / (sse / d);
    (1.0 + 2.0 * f / d).powf(-d / 2.0) < 1e-3
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
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
}

//! [`Coarse`]: the distribution of any number of times in a few kilobytes, for whoever keeps thousands of them.

use super::SpreadFigures;

/// Counts of times in logarithmic bins of 1/32: a quantile is within 1.6 %.
#[derive(Clone, Debug, Default)]
pub(super) struct Coarse {
    /// Counts of the bins from `lowest` on.
    bins: Vec<u32>,
    lowest: i32,
    pub(super) count: u64,
    pub(super) sum: i128,
    pub(super) extremes: Option<(i64, i64)>,
}

/// The bin of a value, ascending.
fn bin(v: i64) -> i32 {
    let m = v.unsigned_abs().max(1);
    let top = 63 - m.leading_zeros();
    let fine = if top >= 5 { (m >> (top - 5)) & 31 } else { (m << (5 - top)) & 31 };
    let magnitude = (top << 5) as i32 | fine as i32;
    if v < 0 { -1 - magnitude } else { magnitude }
}

/// The middle of a bin.
fn middle(bin: i32) -> f64 {
    let magnitude = if bin < 0 { -1 - bin } else { bin };
    let m = 2f64.powi(magnitude >> 5) * (1.0 + (f64::from(magnitude & 31) + 0.5) / 32.0);
    if bin < 0 { -m } else { m }
}

impl Coarse {
    #[inline]
    pub(super) fn push(&mut self, v: i64) {
        self.count += 1;
        self.sum += i128::from(v);
        self.extremes = Some(self.extremes.map_or((v, v), |(a, b)| (a.min(v), b.max(v))));
        let bin = bin(v);
        let reach = i64::from(bin) - i64::from(self.lowest);
        if !(0..self.bins.len() as i64).contains(&reach) {
            self.reach(bin);
        }
        if let Some(n) = self.bins.get_mut((bin - self.lowest) as usize) {
            *n = n.saturating_add(1);
        }
    }

    /// Makes room for a bin: 8 KiB lie between the least and the greatest there are.
    #[cold]
    fn reach(&mut self, bin: i32) {
        if self.bins.is_empty() {
            self.lowest = bin;
        }
        if bin < self.lowest {
            let missing = (self.lowest - bin) as usize;
            self.bins.splice(0..0, core::iter::repeat_n(0, missing));
            self.lowest = bin;
        }
        let wanted = (bin - self.lowest) as usize + 1;
        if wanted > self.bins.len() {
            self.bins.resize(wanted, 0);
        }
    }

    pub(super) fn quantile(&self, percent: u64) -> i64 {
        let (least, most) = self.extremes.unwrap_or_default();
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (bin, n) in (self.lowest..).zip(&self.bins) {
            seen += u64::from(*n);
            if seen >= rank {
                return (middle(bin) as i64).clamp(least, most);
            }
        }
        most
    }
}

/// Values that a [`Modest`] distribution keeps as they are.
const EXACT: usize = 1 << 11;

/// A distribution that is exact of few values, and in 16 KiB at most of any number.
#[derive(Clone, Debug, Default)]
pub(super) struct Modest {
    exact: Vec<i64>,
    coarse: Coarse,
}

impl Modest {
    /// Takes one value.
    #[inline]
    pub(super) fn push(&mut self, v: i64) {
        if self.coarse.count > 0 {
            self.coarse.push(v);
            return;
        }
        self.exact.push(v);
        if self.exact.len() > EXACT {
            core::mem::take(&mut self.exact).into_iter().for_each(|v| self.coarse.push(v));
        }
    }

    /// The figures; quantiles of more than 2048 values are within 1.6 %.
    pub(super) fn figures(&self) -> Option<SpreadFigures> {
        if self.coarse.count == 0 {
            let mut exact = super::Spread::default();
            self.exact.iter().for_each(|v| exact.push(*v));
            return exact.figures(0);
        }
        let (min, max) = self.coarse.extremes?;
        let [p05, p25, median, p75, p95, p99] = [5, 25, 50, 75, 95, 99].map(|p| self.coarse.quantile(p));
        let mean = self.coarse.sum as f64 / self.coarse.count as f64;
        Some(SpreadFigures { count: self.coarse.count, min, p05, p25, median, mean, p75, p95, p99, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_many_are_within_two_percent() {
        let mut c = Coarse::default();
        (1..=100_000).for_each(|v| c.push(v * 1000));
        for p in [5, 50, 95] {
            let truth = p as f64 * 1e6;
            assert!((c.quantile(p) as f64 / truth - 1.0).abs() < 0.016, "{p}");
        }
        assert!(c.bins.len() < 1000, "{}", c.bins.len());
    }

    #[test]
    fn few_are_exact_and_many_are_small() {
        let mut m = Modest::default();
        (1..=EXACT as i64).for_each(|v| m.push(v * 1000));
        assert_eq!(m.figures().map(|f| (f.median, f.p99, f.max)), Some((1_024_000, 2_028_000, 2_048_000)));
        (1..=1_000_000).for_each(|v| m.push(v * 1000));
        let f = m.figures().unwrap();
        assert_eq!((f.count, f.min, f.max), (1_002_048, 1000, 1_000_000_000));
        assert!((f.p95 as f64 / 949.9e6 - 1.0).abs() < 0.016 && m.exact.is_empty(), "{f:?}");
    }
}

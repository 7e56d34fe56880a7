//! [`Spread`]: the distribution of any number of times in bounded memory.
//!
//! Exact up to a million values; beyond, values are counted in logarithmic bins of 1/1024, so a quantile
//! is then right to 0.1 % (extremes and mean stay exact).

use serde::Serialize;
use std::collections::BTreeMap;

/// Values kept as they are.
const EXACT: usize = 1 << 20;
/// Bits of a value that a bin keeps after the leading one.
const BITS: u32 = 10;

/// A distribution of spans in ns.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    exact: Vec<i64>,
    bins: BTreeMap<i64, u64>,
    count: u64,
    sum: i128,
    extremes: Option<(i64, i64)>,
}

/// The figures of a [`Spread`], in ns. Quantiles are those of the empirical distribution (RFC 2330 §11.3).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpreadFigures {
    /// Values.
    pub count: u64,
    /// The least.
    pub min: i64,
    /// The 5th percentile.
    pub p05: i64,
    /// The 25th percentile.
    pub p25: i64,
    /// The median.
    pub median: i64,
    /// The mean.
    pub mean: f64,
    /// The 75th percentile.
    pub p75: i64,
    /// The 95th percentile.
    pub p95: i64,
    /// The 99th percentile.
    pub p99: i64,
    /// The greatest.
    pub max: i64,
}

/// The bin of a value, named by its lower end.
fn bin(v: i64) -> i64 {
    let m = v.unsigned_abs();
    let drop = (64 - m.leading_zeros()).saturating_sub(BITS + 1);
    let low = ((m >> drop) << drop).min(i64::MAX as u64) as i64;
    if v < 0 { -low } else { low }
}

impl Spread {
    /// Takes one value.
    #[inline]
    pub fn push(&mut self, v: i64) {
        self.count += 1;
        self.sum += i128::from(v);
        self.extremes = Some(self.extremes.map_or((v, v), |(a, b)| (a.min(v), b.max(v))));
        if self.bins.is_empty() {
            self.exact.push(v);
            if self.exact.len() >= EXACT {
                for v in std::mem::take(&mut self.exact) {
                    *self.bins.entry(bin(v)).or_default() += 1;
                }
            }
        } else {
            *self.bins.entry(bin(v)).or_default() += 1;
        }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The figures, or `None` of no values. `from` is subtracted of every value: a least delay, or 0.
    pub fn figures(&self, from: i64) -> Option<SpreadFigures> {
        let (min, max) = self.extremes?;
        let mut sorted = self.exact.clone();
        sorted.sort_unstable();
        let at = |percent: u64| {
            let rank = (self.count * percent).div_ceil(100).max(1);
            let v = match sorted.get(rank as usize - 1) {
                Some(v) => *v,
                None => {
                    let mut seen = 0;
                    let mut bins = self.bins.iter();
                    let found = bins.find(|(_, n)| {
                        seen += **n;
                        seen >= rank
                    });
                    found.map_or(max, |(v, _)| (*v).clamp(min, max))
                }
            };
            v.saturating_sub(from)
        };
        Some(SpreadFigures {
            count: self.count,
            min: min.saturating_sub(from),
            p05: at(5),
            p25: at(25),
            median: at(50),
            mean: self.sum as f64 / self.count as f64 - from as f64,
            p75: at(75),
            p95: at(95),
            p99: at(99),
            max: max.saturating_sub(from),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_while_few() {
        let mut s = Spread::default();
        assert_eq!(s.figures(0), None);
        (1..=100).rev().for_each(|v| s.push(v * 10));
        let f = s.figures(0).unwrap();
        assert_eq!((f.min, f.p05, f.median, f.p95, f.max, f.mean), (10, 50, 500, 950, 1000, 505.0));
        assert_eq!(s.figures(10).unwrap().median, 490);
    }

    #[test]
    fn within_a_thousandth_when_many() {
        let mut s = Spread::default();
        let n = 1_500_000i64;
        (0..n).for_each(|i| s.push((i * 7_919_993 % n) * 1000 - 200_000));
        let f = s.figures(0).unwrap();
        for (got, percent) in [(f.p05, 5), (f.median, 50), (f.p99, 99)] {
            let truth = (n * percent / 100 - 1) * 1000 - 200_000;
            assert!((got - truth).abs() as f64 <= truth.abs() as f64 / 1000.0, "{percent}: {got} {truth}");
        }
        assert_eq!((f.count, f.min, f.max), (n as u64, -200_000, (n - 1) * 1000 - 200_000));
        assert!(s.exact.is_empty() && s.bins.len() < 40_000);
    }

    #[test]
    fn bins_of_both_signs() {
        for v in [0, 1, 1023, 2047, -5, -123_456_789, i64::MAX, i64::MIN] {
            assert!((i128::from(bin(v)) - i128::from(v)).abs() <= i128::from(v).abs() / 1024, "{v}");
        }
    }
}

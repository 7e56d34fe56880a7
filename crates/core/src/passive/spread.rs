//! [`Spread`]: the distribution of any number of times in bounded memory.
//!
//! Exact up to a quarter of a million values; beyond, values are counted in logarithmic bins of 1/1024, so a quantile
//! is then right to 0.1 % of its distance from the least value seen until then (extremes and mean stay exact).

use serde::Serialize;

/// Values kept as they are.
const EXACT: usize = 1 << 18;
/// Bits of a value that a bin keeps after the leading one.
const BITS: u32 = 10;

/// A distribution of spans in ns.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    exact: Vec<i64>,
    /// Counts of negative and of other values by magnitude; empty while exact.
    bins: [Vec<u64>; 2],
    /// What values in bins are relative to.
    base: i64,
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

/// Bins of one sign.
const BINS: usize = (65 - BITS as usize) << BITS;

/// The bin of a magnitude: exact below 2^11, then 2^10 a power of two.
#[inline]
fn bin(m: u64) -> usize {
    let drop = (63 - (m | 1 << BITS).leading_zeros()) - BITS;
    ((drop as usize) << BITS) + (m >> drop) as usize
}

/// The least magnitude of a bin.
fn floor(bin: usize) -> u64 {
    let drop = (bin >> BITS).saturating_sub(1);
    ((bin - (drop << BITS)) as u64) << drop
}

impl Spread {
    /// Takes one value.
    #[inline]
    pub fn push(&mut self, v: i64) {
        self.count += 1;
        self.sum += i128::from(v);
        self.extremes = Some(self.extremes.map_or((v, v), |(a, b)| (a.min(v), b.max(v))));
        if self.bins[0].is_empty() {
            self.exact.push(v);
            if self.exact.len() >= EXACT {
                self.base = self.extremes.map_or(0, |e| e.0);
                self.bins = [vec![0; BINS], vec![0; BINS]];
                for v in std::mem::take(&mut self.exact) {
                    self.tally(v);
                }
            }
        } else {
            self.tally(v);
        }
    }

    #[inline]
    fn tally(&mut self, v: i64) {
        let v = v.saturating_sub(self.base);
        if let Some(n) = self.bins[usize::from(v >= 0)].get_mut(bin(v.unsigned_abs())) {
            *n += 1;
        }
    }

    /// The value of a rank, from 1, once values are in bins.
    fn ranked(&self, rank: u64) -> Option<i64> {
        let negative =
            self.bins[0].iter().enumerate().rev().map(|(b, n)| (-(floor(b).min(1 << 62) as i64), *n));
        let other = self.bins[1].iter().enumerate().map(|(b, n)| (floor(b).min(i64::MAX as u64) as i64, *n));
        let mut seen = 0;
        negative
            .chain(other)
            .find(|(_, n)| {
                seen += n;
                seen >= rank
            })
            .map(|(v, _)| v.saturating_add(self.base))
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
                None => self.ranked(rank).map_or(max, |v| v.clamp(min, max)),
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
            assert!(
                (got - truth).abs() as f64 <= (truth + 200_000) as f64 / 1000.0,
                "{percent}: {got} {truth}"
            );
        }
        assert_eq!((f.count, f.min, f.max), (n as u64, -200_000, (n - 1) * 1000 - 200_000));
        assert!(s.exact.is_empty());
    }

    #[test]
    fn a_large_offset_costs_no_precision() {
        let mut s = Spread::default();
        let offset = 50_000_000_000_000_000;
        (0..1_000_000i64).for_each(|i| s.push(offset + i * 7919 % 200_000));
        let f = s.figures(offset).unwrap();
        assert!((f.median - 100_000).abs() < 300 && f.min >= 0, "{f:?}");
    }

    #[test]
    fn every_magnitude_has_a_bin_within_a_thousandth() {
        for v in
            [0, 1, 1023, 1024, 2047, 2048, 2049, 123_456_789, 1 << 62, i64::MAX as u64, 1 << 63, u64::MAX]
        {
            assert!(bin(v) < BINS, "{v}");
            assert!(floor(bin(v)) <= v && v - floor(bin(v)) <= v / 1024, "{v} {}", floor(bin(v)));
        }
    }
}

//! [`SpanSpread`]: distribution of any number of times, in bounded memory.

use jitlat_core::distribution::{LogHistogram, Percent, Precision};
use serde::{Deserialize, Serialize};

/// A distribution of spans in ns. Extremes and mean are exact; quantiles are exact for few values and follow
/// the rule of [`LogHistogram`] for many.
#[derive(Clone, Debug)]
pub struct SpanSpread {
    histogram: LogHistogram,
    sum: i128,
}

/// Statistics of a [`SpanSpread`], in ns. Quantiles are those of the empirical distribution (RFC 2330 §11.3).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpreadFigures {
    /// Number of values.
    pub count: u64,
    /// Smallest value.
    pub min: i64,
    /// 5th percentile.
    pub p05: i64,
    /// 25th percentile.
    pub p25: i64,
    /// Median.
    pub median: i64,
    /// Mean.
    pub mean: f64,
    /// 75th percentile.
    pub p75: i64,
    /// 95th percentile.
    pub p95: i64,
    /// 99th percentile.
    pub p99: i64,
    /// Largest value.
    pub max: i64,
}

impl Default for SpanSpread {
    /// Creates a distribution whose quantiles are exact for up to 250 000 values and at most 1/1024 too high for more.
    fn default() -> SpanSpread {
        SpanSpread::new(Precision::CAPTURE)
    }
}

impl SpanSpread {
    fn new(precision: Precision) -> SpanSpread {
        SpanSpread { histogram: LogHistogram::new(precision), sum: 0 }
    }

    /// Creates a distribution for one of many flows: exact up to 256 values, beyond that at most 1/64 too
    /// high, in about ten kilobytes.
    pub(super) fn of_flow() -> SpanSpread {
        SpanSpread::new(Precision::FLOW)
    }

    /// Creates a distribution for one of many packet sizes: exact up to 1024 values, beyond that at most
    /// 1/1024 too high.
    pub(super) fn of_size() -> SpanSpread {
        SpanSpread::new(Precision::STREAM)
    }

    /// Adds one value.
    #[inline]
    pub fn push(&mut self, v: i64) {
        self.sum += i128::from(v);
        self.histogram.add(v);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the values at 0, 1/n, 2/n … 1 of the distribution; empty without values.
    pub fn percentiles(&self, n: u32) -> Vec<i64> {
        let quantiles = self.histogram.quantiles();
        (0..=n).filter_map(|k| quantiles.edf(Percent(k * 100_000 / n))).collect()
    }

    /// Returns the statistics; `None` without values. `from` is subtracted from every value: a smallest
    /// delay, or 0.
    pub fn figures(&self, from: i64) -> Option<SpreadFigures> {
        let (min, max) = (self.histogram.min()?, self.histogram.max()?);
        let quantiles = self.histogram.quantiles();
        let at =
            |percent: u32| quantiles.edf(Percent(percent * 1000)).map_or(max, |v| v.saturating_sub(from));
        Some(SpreadFigures {
            count: self.count(),
            min: min.saturating_sub(from),
            p05: at(5),
            p25: at(25),
            median: at(50),
            mean: (self.sum - i128::from(from) * i128::from(self.count())) as f64 / self.count() as f64,
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
        let mut s = SpanSpread::default();
        assert_eq!(s.figures(0), None);
        (1..=100).rev().for_each(|v| s.push(v * 10));
        let f = s.figures(0).unwrap();
        assert_eq!((f.min, f.p05, f.median, f.p95, f.max, f.mean), (10, 50, 500, 950, 1000, 505.0));
        assert_eq!(s.figures(10).unwrap().median, 490);
    }

    #[test]
    fn an_offset_of_years_costs_no_digit() {
        let mut s = SpanSpread::of_flow();
        // The first value is not the smallest.
        (0..10_000i64).for_each(|i| s.push(-(1 << 60) + (i * 7919 + 3000) % 10_000 * 1000));
        let f = s.figures(-(1 << 60)).unwrap();
        assert_eq!((f.min, f.max, f.mean), (0, 9_999_000, 4_999_500.0));
        assert!(f.median >= 4_999_000 && f.median < 4_999_000 + 9_999_000 / 64, "{f:?}");
    }

    #[test]
    fn never_too_low_when_many() {
        for (mut s, exact, share) in
            [(SpanSpread::default(), 262_144, 1024), (SpanSpread::of_flow(), 256, 64)]
        {
            let n = 400_000i64;
            (0..n).for_each(|i| s.push((i * 7_919_993 % n) * 1000 - 200_000));
            let f = s.figures(0).unwrap();
            for (got, percent) in [(f.p05, 5), (f.median, 50), (f.p99, 99)] {
                let truth = (n * percent / 100 - 1) * 1000 - 200_000;
                let most = (truth + 400_000) / share + 1;
                assert!(got >= truth && got - truth <= most, "{percent} of {exact}: {got} {truth}");
            }
            assert_eq!((f.count, f.min, f.max), (n as u64, -200_000, (n - 1) * 1000 - 200_000));
        }
    }

    #[test]
    fn how_many_values_are_exact_depends_on_what_it_is_for() {
        for (mut s, exact) in [(SpanSpread::of_flow(), 256), (SpanSpread::of_size(), 1024)] {
            let value = |k: i64| 1_000_000 + k * 1003;
            (0..exact).for_each(|k| s.push(value(k)));
            assert_eq!(s.percentiles(2), [0, exact / 2 - 1, exact - 1].map(value));
            // With one more value, buckets are used; the extremes remain exact.
            s.push(value(exact));
            let [least, median, most] = s.percentiles(2)[..] else { panic!() };
            assert_eq!((least, most), (value(0), value(exact)));
            assert!(median > value(exact / 2), "{median}");
        }
    }
}

//! [`Reduced`]: a distribution as a classic and as a native histogram of Prometheus.
//!
//! Each value is counted at the upper end of its bucket in the archive's pools, at most 1/1024 above the value.
//! The buckets are the same in all pools, so the counts of several tests can be added, and counters never
//! decrease, even if they are computed again.

use jitlat_core::distribution::log_histogram::LogHistogram;
use std::collections::BTreeMap;

/// Upper ends of the classic buckets, in µs. The last bucket, which is unbounded, is not listed.
pub const BUCKETS_US: [i64; 18] = [
    20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000, 10_000_000,
];

/// Schema of native histograms: 2^5 buckets between two powers of two, each 2.2 % wide.
pub const SCHEMA: i32 = 5;
/// Half the width of the zero bucket of times, in s. It is less than a nanosecond, so the bucket contains only
/// zeros.
pub const ZERO_BUCKET_S: f64 = 1.0 / (1u64 << 30) as f64;

/// A distribution of times, reduced to Prometheus' buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reduced {
    /// Number of values in each of [`BUCKETS_US`], and above the last one.
    classic: [u64; BUCKETS_US.len() + 1],
    zero: u64,
    /// Number of values by index of the native bucket.
    positive: BTreeMap<i32, u64>,
    negative: BTreeMap<i32, u64>,
    /// Sum of all values, ns.
    sum: i128,
}

/// Returns the native bucket of a time above 0, ns: the smallest k with time ≤ 2^(k / 2^schema) s.
fn bucket(ns: u64) -> i32 {
    let exponent = (ns as f64 / 1e9).log2() * f64::from(1 << SCHEMA);
    // Correct rounding errors: a result very close to a whole number is that number.
    let near = exponent.round();
    if (exponent - near).abs() < 1e-9 { near as i32 } else { exponent.ceil() as i32 }
}

impl Reduced {
    /// Adds all values of `values`, whose sum is `sum` ns.
    pub fn add(&mut self, values: &LogHistogram, sum: i128) {
        for (ns, count) in values.tiles() {
            let place = BUCKETS_US.partition_point(|us| us * 1000 < ns);
            self.classic[place] += count;
            match ns {
                0 => self.zero += count,
                1.. => *self.positive.entry(bucket(ns.unsigned_abs())).or_default() += count,
                _ => *self.negative.entry(bucket(ns.unsigned_abs())).or_default() += count,
            }
        }
        self.sum += sum;
    }

    /// Converts the distribution to a histogram for output.
    pub fn histogram(&self) -> MetricHistogram {
        let mut below = 0;
        let classic = BUCKETS_US.iter().zip(&self.classic).map(|(us, n)| {
            below += n;
            (*us as f64 / 1e6, below)
        });
        MetricHistogram {
            classic: classic.collect(),
            count: self.classic.iter().sum(),
            sum: self.negative.is_empty().then_some(self.sum as f64 / 1e9),
            schema: SCHEMA,
            zero_threshold: ZERO_BUCKET_S,
            zero_count: self.zero,
            positive: self.positive.iter().map(|(k, n)| (*k, *n)).collect(),
            negative: self.negative.iter().map(|(k, n)| (*k, *n)).collect(),
        }
    }
}

/// A histogram, classic and native.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricHistogram {
    /// Upper ends and cumulative counts, without the unbounded bucket.
    pub classic: Vec<(f64, u64)>,
    /// Number of values.
    pub count: u64,
    /// Sum of the values; `None` if some are negative, because the sum of a histogram must not decrease.
    pub sum: Option<f64>,
    /// Resolution: 2^schema native buckets lie between powers of two.
    pub schema: i32,
    /// Half the width of the zero bucket.
    pub zero_threshold: f64,
    /// Number of values in the zero bucket.
    pub zero_count: u64,
    /// Native buckets that are not empty, by number: bucket k ends at 2^(k / 2^schema).
    pub positive: Vec<(i32, u64)>,
    /// Native buckets of values below 0, like `positive`, by magnitude.
    pub negative: Vec<(i32, u64)>,
}

/// Exponents of the upper ends of the classic buckets of losses. The ends are powers of two, which are also ends of
/// native buckets.
const SHARES: [i32; 10] = [-13, -10, -8, -7, -6, -5, -4, -3, -2, 0];

/// Converts the losses of tests to a histogram: for each bucket, the number of tests and the sum of their loss
/// shares.
pub fn losses(tests: &BTreeMap<i64, (u64, f64)>) -> MetricHistogram {
    let at_most = |exponent: i32| {
        let end = i64::from(exponent) * 8;
        (2f64.powi(exponent), tests.range(..=end).map(|(_, (n, _))| n).sum())
    };
    let none = tests.get(&jitlat_archive::NO_LOSS).map_or(0, |(n, _)| *n);
    let some = tests.iter().filter(|(k, _)| **k != jitlat_archive::NO_LOSS);
    MetricHistogram {
        classic: [(0.0, none)].into_iter().chain(SHARES.map(at_most)).collect(),
        count: tests.values().map(|(n, _)| n).sum(),
        sum: Some(tests.values().map(|(_, share)| share).sum()),
        // The archive counts losses in eight buckets between two powers of two.
        schema: 3,
        zero_threshold: 0.0,
        zero_count: none,
        positive: some.filter_map(|(k, (n, _))| Some((i32::try_from(*k).ok()?, *n))).collect(),
        negative: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::distribution::log_histogram::Precision;
    use proptest::prelude::*;

    #[test]
    fn a_time_is_in_the_native_bucket_that_ends_at_or_above_it() {
        for ns in [1u64, 999, 1000, 20_000, 1_000_000, 976_562, 500_000_000, 1_000_000_000, 7_777_777_777] {
            let k = f64::from(bucket(ns));
            let end = |k: f64| 2f64.powf(k / 32.0);
            let seconds = ns as f64 / 1e9;
            assert!(seconds <= end(k) * (1.0 + 1e-12) && seconds > end(k - 1.0), "{ns}: {k}");
        }
        assert_eq!((bucket(1_000_000_000), bucket(500_000_000), bucket(1_000_000_001)), (0, -32, 1));
    }

    #[test]
    fn losses_are_counted_at_powers_of_two() {
        let bucket = jitlat_archive::share_bucket;
        let tests = [(0.0, 5u64), (0.001, 2), (0.5, 1), (1.0, 3)];
        let tests = tests.map(|(share, n)| (bucket(share), (n, share * n as f64)));
        let of = losses(&tests.into_iter().collect());
        let at = |end: f64| of.classic.iter().find(|(e, _)| *e == end).unwrap().1;
        assert_eq!((at(0.0), at(0.25), at(1.0), of.count, of.zero_count), (5, 7, 11, 11, 5));
        assert_eq!(of.positive, [(bucket(0.001) as i32, 2), (-8, 1), (0, 3)]);
    }

    proptest! {
        #[test]
        fn counts_of_all_are_sums_of_counts_of_each(
            tests in prop::collection::vec(prop::collection::vec(-1_000_000_000i64..20_000_000_000, 0..1500), 1..5),
        ) {
            let histogram = |values: &[i64]| {
                let mut all = LogHistogram::around(0, Precision::STREAM);
                values.iter().for_each(|x| all.add(*x));
                all
            };
            let sum = |values: &[i64]| values.iter().map(|x| i128::from(*x)).sum();
            let mut one_by_one = Reduced::default();
            let mut whole = LogHistogram::around(0, Precision::STREAM);
            for test in &tests {
                one_by_one.add(&histogram(test), sum(test));
                whole.merge(&histogram(test));
            }
            let mut at_once = Reduced::default();
            at_once.add(&whole, sum(&tests.concat()));
            prop_assert_eq!(&one_by_one, &at_once);
            // Each bucket counts only values that are certainly within it, and misses only values within 1/1024 of its end.
            let written = at_once.histogram();
            let all = tests.concat();
            prop_assert_eq!(written.count, all.len() as u64);
            for (end, n) in written.classic {
                let at_most = |ns: f64| all.iter().filter(|x| **x as f64 <= ns).count() as u64;
                prop_assert!(n <= at_most(end * 1e9) && n >= at_most(end * 1e9 * (1.0 - 1.0 / 1000.0) - 1.0), "{end}");
            }
            let native: u64 = written.positive.iter().chain(&written.negative).map(|(_, n)| n).sum();
            prop_assert_eq!(native + written.zero_count, written.count);
        }
    }
}

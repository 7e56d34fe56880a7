//! [`LogHistogram`]: a distribution in bounded memory (metrics §23).

pub(crate) mod bytes;

use super::percentile::{Method, Percent, rank};
use super::sample::Sample;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Precision of a [`LogHistogram`]: the number of values that are stored exactly before all values are counted in
/// buckets, and the width of the buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Precision {
    /// Maximum number of exact values. When it is exceeded, all values are moved to buckets.
    pub exact: usize,
    /// Bits of precision: a bucket spans at most 1/2^bits of its distance from the origin.
    pub bits: u8,
}

impl Precision {
    /// Precision for streams of any length: exact up to 1024 values, then percentiles at most 1/1024 too high.
    pub const STREAM: Precision = Precision { exact: 1024, bits: 10 };
    /// Precision for captures: exact up to 262 144 values, then percentiles at most 1/1024 too high.
    pub const CAPTURE: Precision = Precision { exact: 1 << 18, bits: 10 };
    /// Precision for each of many flows: exact up to 256 values, then percentiles at most 1/64 too high, in about ten
    /// kilobytes.
    pub const FLOW: Precision = Precision { exact: 256, bits: 6 };
}

/// A distribution of times that is exact for few values and logarithmic for many. Above [`Precision::exact`]
/// values, all values are counted in buckets on either side of an origin, which is either given or the
/// smallest of the first values.
///
/// A percentile is never too low, and too high by at most 1/2^bits of its distance from the origin. All
/// histograms of this program have this type, so that percentiles of different metrics have error bounds of
/// the same form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogHistogram {
    precision: Precision,
    /// Origin of the buckets; `None` while values are exact, unless an origin was given.
    origin: Option<i64>,
    /// Exact values in order of arrival; empty once there are buckets.
    first: Vec<i64>,
    above: Buckets,
    below: Buckets,
    n: u64,
    /// Smallest and largest value; always exact.
    extremes: Option<(i64, i64)>,
}

/// Counts per bucket, from the lowest bucket that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Buckets {
    lowest: usize,
    counts: Vec<u64>,
}

impl LogHistogram {
    /// Creates a histogram whose origin is determined by its first values.
    pub fn new(precision: Precision) -> LogHistogram {
        LogHistogram {
            precision,
            origin: None,
            first: Vec::new(),
            above: Buckets::default(),
            below: Buckets::default(),
            n: 0,
            extremes: None,
        }
    }

    /// Creates a histogram with a given origin. Histograms with the same origin merge exactly.
    pub fn around(origin: i64, precision: Precision) -> LogHistogram {
        LogHistogram { origin: Some(origin), ..LogHistogram::new(precision) }
    }

    /// Creates a histogram with a given origin, or with one that is determined by its first values.
    pub fn with_origin(origin: Option<i64>, precision: Precision) -> LogHistogram {
        LogHistogram { origin, ..LogHistogram::new(precision) }
    }

    /// Returns the precision.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Adds a value.
    #[inline]
    pub fn add(&mut self, x: i64) {
        self.n += 1;
        self.extremes = Some(self.extremes.map_or((x, x), |(low, high)| (low.min(x), high.max(x))));
        if self.is_exact_so_far() {
            self.first.push(x);
            if self.first.len() > self.precision.exact {
                self.settle();
            }
        } else {
            self.count(x, 1);
        }
    }

    /// Adds all of `values`.
    pub fn add_all(&mut self, values: &[i64]) {
        let mut values = values;
        while let Some((first, rest)) = values.split_first() {
            if !self.is_exact() && self.origin.is_some() {
                break;
            }
            self.add(*first);
            values = rest;
        }
        let Some(origin) = self.origin.filter(|_| !values.is_empty()) else { return };
        let bits = self.precision.bits;
        let (mut low, mut high) = self.extremes.unwrap_or((i64::MAX, i64::MIN));
        for x in values {
            (low, high) = (low.min(*x), high.max(*x));
            let side = if *x >= origin { &mut self.above } else { &mut self.below };
            side.add(bucket(x.abs_diff(origin), bits), 1);
        }
        self.n += values.len() as u64;
        self.extremes = Some((low, high));
    }

    /// Returns true if this can be a histogram of `n` values. Checks only the properties that computations rely on.
    pub(crate) fn is_possible(&self, n: u64) -> bool {
        let Precision { exact, bits } = self.precision;
        if bits > 32 || self.n != n || self.extremes.is_some() != (n > 0) {
            return false;
        }
        let buckets = [&self.above, &self.below];
        let reach = bucket(u64::MAX, bits) + 1;
        let tiled = |b: &Buckets| b.lowest.checked_add(b.counts.len()).is_some_and(|end| end <= reach);
        let counted = buckets.iter().flat_map(|b| &b.counts).map(|count| u128::from(*count)).sum::<u128>();
        let counted = if self.is_exact() {
            self.first.len() <= exact && buckets.iter().all(|b| b.counts.is_empty())
        } else {
            self.first.is_empty() && self.origin.is_some() && counted == n.into()
        };
        let ordered = self.extremes.is_none_or(|(low, high)| low <= high);
        ordered && counted && buckets.iter().all(|b| tiled(b))
    }

    /// Returns true if `other` has the same precision.
    pub(crate) fn is_as_precise_as(&self, other: &LogHistogram) -> bool {
        self.precision == other.precision
    }

    /// Returns true if all values are still stored because no bucket is in use.
    #[inline]
    fn is_exact_so_far(&self) -> bool {
        self.first.len() as u64 == self.n - 1
    }

    /// Returns true if percentiles are exact because all values are stored.
    pub fn is_exact(&self) -> bool {
        self.first.len() as u64 == self.n
    }

    /// Moves the exact values into buckets.
    fn settle(&mut self) {
        let first = core::mem::take(&mut self.first);
        if self.origin.is_none() {
            self.origin = first.iter().copied().min();
        }
        first.into_iter().for_each(|x| self.count(x, 1));
    }

    #[inline]
    fn count(&mut self, x: i64, times: u64) {
        let origin = self.origin.unwrap_or(0);
        let side = if x >= origin { &mut self.above } else { &mut self.below };
        side.add(bucket(x.abs_diff(origin), self.precision.bits), times);
    }

    /// Returns the number of values.
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Returns the smallest value, which is always exact; `None` without values.
    pub fn min(&self) -> Option<i64> {
        self.extremes.map(|e| e.0)
    }

    /// Returns the largest value, which is always exact; `None` without values.
    pub fn max(&self) -> Option<i64> {
        self.extremes.map(|e| e.1)
    }

    /// Returns the origin; `None` while it is undetermined.
    pub fn origin(&self) -> Option<i64> {
        self.origin
    }

    /// Adds all values of `other`. The result is exact if both are exact or have the same origin. Otherwise each value
    /// is accurate to within one bucket.
    pub fn merge(&mut self, other: &LogHistogram) {
        if other.is_exact() {
            other.first.iter().for_each(|x| self.add(*x));
            return;
        }
        if self.is_exact() {
            // Any origin is valid; with the origin of `other`, the buckets of `other` remain unchanged.
            self.origin = self.origin.or(other.origin);
            self.settle();
        }
        let aligned = self.origin == other.origin && self.precision.bits == other.precision.bits;
        if aligned {
            self.above.merge(&other.above);
            self.below.merge(&other.below);
        } else {
            other.buckets().for_each(|(x, times)| self.count(x, times));
        }
        self.n += other.n;
        self.extremes = match (self.extremes, other.extremes) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }

    /// Returns the values added since the earlier state `lead`, which must be exact or have an origin.
    pub(crate) fn less(&self, lead: &LogHistogram) -> LogHistogram {
        let mut rest = LogHistogram::with_origin(self.origin, self.precision);
        if self.is_exact() {
            self.first.iter().skip(lead.n as usize).for_each(|x| rest.add(*x));
            return rest;
        }
        let mut lead = lead.clone();
        if lead.is_exact() {
            lead.origin = self.origin;
            lead.settle();
        }
        (rest.above, rest.below) = (self.above.less(&lead.above), self.below.less(&lead.below));
        rest.n = rest.above.counts.iter().chain(&rest.below.counts).sum();
        rest.extremes = self.extremes.filter(|_| rest.n > 0);
        rest
    }

    /// Iterates over non-empty buckets in ascending order: the largest value that the bucket may contain, and its
    /// count.
    fn buckets(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let scale = (self.origin.unwrap_or(0), self.precision.bits, self.extremes);
        values(scale, self.below.filled().rev(), self.above.filled())
    }

    /// Returns the value at 0-based rank `k`, computed from the buckets; `None` if there are not more than `k` values.
    fn at_rank(&self, k: u64) -> Option<i64> {
        let scale = (self.origin.unwrap_or(0), self.precision.bits, self.extremes);
        let mut before = 0;
        let mut reaches = |(_, count): &(usize, u64)| {
            before += count;
            before > k
        };
        // Only the value of the matching bucket is computed.
        let below = self.below.filled().rev().find(&mut reaches);
        let above = if below.is_some() { None } else { self.above.filled().find(reaches) };
        values(scale, below.into_iter(), above.into_iter()).next().map(|(value, _)| value)
    }

    /// Returns the number of values in buckets whose largest value is at most `x`.
    fn count_at_most(&self, x: i64) -> u64 {
        match self.extremes {
            None => return 0,
            Some((low, _)) if x < low => return 0,
            Some((_, high)) if x >= high => return self.n,
            _ => {}
        }
        let (origin, bits) = (self.origin.unwrap_or(0), self.precision.bits);
        let distance = x.abs_diff(origin);
        let last = bucket(distance, bits);
        if x < origin {
            // A bucket below the origin is represented by its end nearer to the origin.
            return self.below.from(if smallest(last, bits) >= distance { last } else { last + 1 });
        }
        let whole = smallest(last + 1, bits) - 1 <= distance;
        self.below.from(0) + self.above.until(if whole { last + 1 } else { last })
    }

    /// Iterates over values and their counts: single values in no particular order while the histogram is exact,
    /// otherwise the largest value that each bucket may contain, ascending.
    pub fn counted(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        self.first.iter().map(|x| (*x, 1)).chain(self.buckets())
    }

    /// Iterates over bucket counts with bucket limits that do not depend on the values: the largest value that a bucket
    /// can have, and its count; a bucket may occur several times. Exact values are counted in their buckets, too.
    /// Merging histograms with the same origin therefore adds these counts.
    pub fn tiles(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let (origin, bits) = (self.origin.unwrap_or(0), self.precision.bits);
        let above = move |b: usize| origin.saturating_add_unsigned(smallest(b + 1, bits) - 1);
        let below = move |b: usize| origin.saturating_sub_unsigned(smallest(b, bits));
        let exact = self.first.iter().map(move |x| {
            let b = bucket(x.abs_diff(origin), bits);
            (if *x >= origin { above(b) } else { below(b) }, 1)
        });
        let negative = self.below.filled().rev().map(move |(b, count)| (below(b), count));
        exact.chain(negative).chain(self.above.filled().map(move |(b, count)| (above(b), count)))
    }

    /// Returns the order statistics.
    pub fn quantiles(&self) -> Quantiles<'_> {
        if self.is_exact() {
            Quantiles::Exact(Cow::Owned(Sample::new(self.first.iter().copied())))
        } else {
            Quantiles::Counted(self)
        }
    }
}

impl Buckets {
    #[inline]
    fn add(&mut self, bucket: usize, times: u64) {
        // For a bucket below the lowest, the index wraps and is out of range.
        if let Some(count) = self.counts.get_mut(bucket.wrapping_sub(self.lowest)) {
            *count += times;
            return;
        }
        self.reach(bucket);
        self.counts[bucket - self.lowest] += times;
    }

    /// Extends the counts to include `bucket`.
    #[cold]
    fn reach(&mut self, bucket: usize) {
        if self.counts.is_empty() {
            self.lowest = bucket;
        }
        if bucket < self.lowest {
            let missing = self.lowest - bucket;
            self.counts.splice(0..0, core::iter::repeat_n(0, missing));
            self.lowest = bucket;
        }
        let wanted = bucket - self.lowest + 1;
        if wanted > self.counts.len() {
            self.counts.resize(wanted, 0);
        }
    }

    fn less(&self, lead: &Buckets) -> Buckets {
        let mut rest = self.clone();
        for (bucket, count) in lead.filled() {
            if let Some(mine) = bucket.checked_sub(rest.lowest).and_then(|k| rest.counts.get_mut(k)) {
                *mine = mine.saturating_sub(count);
            }
        }
        rest
    }

    /// Returns the total count from `bucket` on.
    fn from(&self, bucket: usize) -> u64 {
        self.counts.iter().skip(bucket.saturating_sub(self.lowest)).sum()
    }

    /// Returns the total count before `bucket`.
    fn until(&self, bucket: usize) -> u64 {
        self.counts.iter().take(bucket.saturating_sub(self.lowest)).sum()
    }

    fn merge(&mut self, other: &Buckets) {
        other.filled().for_each(|(bucket, count)| self.add(bucket, count));
    }

    /// Iterates over non-empty buckets, ascending.
    fn filled(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + '_ {
        let all = self.counts.iter().enumerate().map(|(k, count)| (self.lowest + k, *count));
        all.filter(|(_, count)| *count > 0)
    }
}

/// Order statistics of a [`Sample`] or a [`LogHistogram`].
#[derive(Clone, Debug)]
pub enum Quantiles<'a> {
    /// Computed from the values.
    Exact(Cow<'a, Sample>),
    /// Computed from bucket counts.
    Counted(&'a LogHistogram),
}

impl Quantiles<'_> {
    /// Returns the value at 0-based rank `k`. Computed from buckets, it is never too low. `None` if there are not more
    /// than `k` values.
    fn at(&self, k: u64) -> Option<i64> {
        match self {
            Quantiles::Exact(sample) => sample.at(usize::try_from(k).ok()?),
            Quantiles::Counted(histogram) => histogram.at_rank(k),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Quantiles::Exact(sample) => sample.len() as u64,
            Quantiles::Counted(histogram) => histogram.len(),
        }
    }

    /// Returns the percentile defined by `method`; `None` without values. Computed from buckets, the linear percentile
    /// equals the empirical one.
    pub fn percentile(&self, p: Percent, method: Method) -> Option<i64> {
        match self {
            Quantiles::Exact(sample) => sample.percentile(p, method),
            Quantiles::Counted(_) => {
                let method = if method == Method::Linear { Method::Edf } else { method };
                self.at(rank(self.len() as usize, p, method)? as u64)
            }
        }
    }

    /// Returns the percentile of the empirical distribution; `None` without values.
    pub fn edf(&self, p: Percent) -> Option<i64> {
        self.percentile(p, Method::Edf)
    }

    /// Returns the median, or the mean of the two middle values; `None` without values. Computed from buckets, it is
    /// the median of the empirical distribution.
    pub fn median(&self) -> Option<f64> {
        match self {
            Quantiles::Exact(sample) => sample.median(),
            Quantiles::Counted(_) => self.edf(Percent(50_000)).map(|x| x as f64),
        }
    }

    /// Returns the number of values that are at most `x`. Of values in buckets, only those that are certainly
    /// at most `x` are counted.
    pub fn count_at_most(&self, x: i64) -> u64 {
        match self {
            Quantiles::Exact(sample) => sample.count_at_most(x) as u64,
            Quantiles::Counted(histogram) => histogram.count_at_most(x),
        }
    }

    /// Iterates over the values in ascending order, with the number of times that each occurs.
    pub fn values(&self) -> Box<dyn Iterator<Item = (i64, u64)> + '_> {
        match self {
            Quantiles::Exact(sample) => Box::new((0..sample.len()).filter_map(|k| Some((sample.at(k)?, 1)))),
            Quantiles::Counted(histogram) => Box::new(histogram.buckets()),
        }
    }
}

/// Iterates over buckets in ascending order, as pairs of the bucket's upper limit and its count. `below`
/// contains the buckets below the origin, highest first, `above` the buckets above it, lowest first. The
/// first argument is the scale: origin, bits of precision, and smallest and largest value.
fn values(
    (origin, bits, extremes): (i64, u8, Option<(i64, i64)>),
    below: impl Iterator<Item = (usize, u64)>,
    above: impl Iterator<Item = (usize, u64)>,
) -> impl Iterator<Item = (i64, u64)> {
    let (low, high) = extremes.unwrap_or((0, 0));
    let below = below.map(move |(b, count)| (origin.saturating_sub_unsigned(smallest(b, bits)), count));
    let above =
        above.map(move |(b, count)| (origin.saturating_add_unsigned(smallest(b + 1, bits) - 1), count));
    below.chain(above).map(move |(x, count)| (x.clamp(low, high), count))
}

/// Returns the bucket of a distance from the origin: one bucket per distance below 2^(bits + 1), then 2^bits
/// per octave.
#[inline]
fn bucket(distance: u64, bits: u8) -> usize {
    // Distances 0 and 1 share an octave; `| 1` avoids the logarithm of 0.
    let octave = (distance | 1).ilog2().saturating_sub(bits.into());
    ((u64::from(octave) << bits) + (distance >> octave)) as usize
}

/// Returns the smallest distance in a bucket; saturates after the last bucket.
fn smallest(bucket: usize, bits: u8) -> u64 {
    let (bucket, half) = (bucket as u64, 1u64 << bits);
    if bucket < 2 * half {
        return bucket;
    }
    let octave = bucket / half - 1;
    (bucket % half + half).checked_shl(octave as u32).filter(|x| x >> octave >= half).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_tile_the_line() {
        for bits in [3, 5, 10] {
            for distance in [
                0,
                1,
                31,
                63,
                64,
                2047,
                2048,
                2049,
                4095,
                4096,
                1 << 40,
                u64::MAX / 3,
                u64::MAX - 1,
                u64::MAX,
            ] {
                let b = bucket(distance, bits);
                let (from, to) = (smallest(b, bits), smallest(b + 1, bits));
                assert!(from <= distance && (distance < to || to == u64::MAX), "{distance}");
                assert!(to - from <= 1 + (distance >> bits), "{distance}");
            }
        }
    }

    #[test]
    fn few_values_are_exact_and_many_are_small() {
        let mut h = LogHistogram::new(Precision::FLOW);
        (1..=256).for_each(|v| h.add(v * 1000));
        assert!(h.is_exact());
        assert_eq!(
            (h.quantiles().edf(Percent(99_000)), h.quantiles().median()),
            (Some(254_000), Some(128_500.0))
        );
        (257..=100_000).for_each(|v| h.add(v * 1000));
        assert!(!h.is_exact() && h.first.is_empty());
        for (p, truth) in [(5_000, 5_000_000i64), (50_000, 50_000_000), (99_000, 99_000_000)] {
            let found = h.quantiles().edf(Percent(p)).unwrap();
            assert!(found >= truth && found - truth <= truth / 64, "{p}: {found}");
        }
        assert_eq!(
            (h.min(), h.max(), h.quantiles().edf(Percent(100_000))),
            (Some(1000), Some(100_000_000), Some(100_000_000))
        );
        assert!(h.above.counts.len() < 2000, "{}", h.above.counts.len());
    }

    #[test]
    fn a_large_offset_costs_no_precision() {
        let mut h = LogHistogram::new(Precision::STREAM);
        let offset = 50_000_000_000_000_000;
        (0..100_000i64).for_each(|i| h.add(offset + i * 7919 % 200_000));
        let median = h.quantiles().edf(Percent(50_000)).unwrap() - offset;
        assert!((100_000..100_200).contains(&median), "{median}");
    }

    fn of(values: &[i64], empty: &LogHistogram) -> LogHistogram {
        let mut histogram = empty.clone();
        values.iter().for_each(|x| histogram.add(*x));
        histogram
    }

    proptest! {
        #[test]
        fn values_at_once_are_values_one_by_one(
            values in prop::collection::vec(prop_oneof![-5_000i64..5_000, any::<i64>()], 0..300),
            cut in 0usize..300,
            origin in prop::option::of(-3_000i64..3_000),
            exact in 0usize..100,
        ) {
            let empty = LogHistogram::with_origin(origin, Precision { exact, bits: 6 });
            let mut at_once = empty.clone();
            let cut = cut.min(values.len());
            at_once.add_all(&values[..cut]);
            at_once.add_all(&values[cut..]);
            prop_assert_eq!(at_once, of(&values, &empty));
        }

        #[test]
        fn within_its_stated_error(
            values in prop::collection::vec(prop_oneof![-5_000i64..5_000, -1i64 << 40..1 << 40], 1..200),
            p in 0u32..=100_000,
            origin in prop::option::of(-3_000i64..3_000),
            cut in 0usize..200,
            exact in 0usize..100,
            bits in 3u8..=10,
        ) {
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let truth = sorted[rank(sorted.len(), Percent(p), Method::Edf).unwrap()];
            let empty = LogHistogram::with_origin(origin, Precision { exact, bits });
            let whole = of(&values, &empty);
            let found = whole.quantiles().edf(Percent(p)).unwrap();
            let off = truth.abs_diff(whole.origin().unwrap_or(truth)) >> bits;
            prop_assert!(found >= truth && found.abs_diff(truth) <= off + 1, "{found} {truth}");
            prop_assert!(!whole.is_exact() || found == truth);
            prop_assert_eq!(whole.is_exact(), values.len() <= exact);
            let at_most = whole.quantiles().count_at_most(truth);
            for x in [truth, truth - 1, found, found - 1, found + 1, -5_000, 0, 1 << 39] {
                let plain: u64 = whole.counted().filter(|(value, _)| *value <= x).map(|(_, count)| count).sum();
                prop_assert_eq!(whole.quantiles().count_at_most(x), plain, "{}", x);
            }
            prop_assert!(at_most <= sorted.partition_point(|x| *x <= truth) as u64);
            prop_assert_eq!((whole.min(), whole.max()), (sorted.first().copied(), sorted.last().copied()));
            prop_assert_eq!(whole.quantiles().values().map(|v| v.1).sum::<u64>(), whole.len());
            // Each value counts at the end of its own bucket, which is at most one bucket width away.
            if let Some(origin) = origin {
                let mut tiles: Vec<i64> = whole.tiles().flat_map(|(end, n)| vec![end; n as usize]).collect();
                tiles.sort_unstable();
                for (end, value) in tiles.iter().zip(&sorted) {
                    prop_assert!(*end >= *value && end.abs_diff(*value) <= (value.abs_diff(origin) >> bits) + 1);
                }
                let alone = of(&values[..1], &empty);
                prop_assert!(alone.tiles().all(|(end, _)| tiles.contains(&end)));
            }
            // Two halves merge to the whole if they have the same origin or the first half determines it.
            let cut = cut.min(values.len());
            let mut merged = of(&values[..cut], &empty);
            let next = of(&values[cut..], &empty);
            let decided = origin.is_some() || next.is_exact() || merged.is_exact() && cut == 0;
            merged.merge(&next);
            prop_assert_eq!((merged.len(), merged.min(), merged.max()), (whole.len(), whole.min(), whole.max()));
            if decided {
                prop_assert_eq!(merged.quantiles().edf(Percent(p)), Some(found));
            }
        }

        #[test]
        fn merging_different_origins_is_within_two_buckets(
            a in prop::collection::vec(0i64..1 << 30, 1..100),
            b in prop::collection::vec(0i64..1 << 30, 1..100),
            p in 0u32..=100_000,
        ) {
            let precision = Precision { exact: 0, bits: 10 };
            let mut merged = of(&a, &LogHistogram::around(-7, precision));
            merged.merge(&of(&b, &LogHistogram::around(1000, precision)));
            let mut sorted: Vec<i64> = a.iter().chain(&b).copied().collect();
            sorted.sort_unstable();
            let truth = sorted[rank(sorted.len(), Percent(p), Method::Edf).unwrap()];
            let found = merged.quantiles().edf(Percent(p)).unwrap();
            prop_assert!(found >= truth && found - truth <= 2 * (truth + 1100) / 1024 + 2, "{found} {truth}");
        }
    }
}

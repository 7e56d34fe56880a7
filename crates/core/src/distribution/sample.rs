//! [`Sample`]: a sorted set of times, from which every order statistic can be read.

use super::extremes;
use super::histogram::{Bins, Histogram};
use super::percentile::{Method, Percent, rank};
use std::ops::Sub;

/// Values in ascending order, stored as distances from the smallest: 4 bytes each if they span less than 4.29 s, 8
/// otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    base: i64,
    above: Above,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Above {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Default for Sample {
    /// Returns a sample without values.
    fn default() -> Sample {
        Sample { base: 0, above: Above::Narrow(Vec::new()) }
    }
}

impl Sample {
    /// Creates a sample of values in any order. Iterates over them twice.
    pub fn new(values: impl Iterator<Item = i64> + Clone) -> Sample {
        extremes(values.clone()).map_or_else(Sample::default, |extremes| Sample::of(values, extremes))
    }

    /// Creates a sample of values in any order whose smallest and largest value are known.
    pub fn between(values: &[i64], extremes: [i64; 2]) -> Sample {
        Sample::of(values.iter().copied(), extremes)
    }

    fn of(values: impl Iterator<Item = i64>, [min, max]: [i64; 2]) -> Sample {
        let above = |x: i64| x.wrapping_sub(min) as u64;
        let above = if u32::try_from(above(max)).is_ok() {
            let mut narrow: Vec<u32> = values.map(|x| above(x) as u32).collect();
            sort_u32(&mut narrow, above(max) as u32);
            Above::Narrow(narrow)
        } else {
            let mut wide: Vec<u64> = values.map(above).collect();
            wide.sort_unstable();
            Above::Wide(wide)
        };
        Sample { base: min, above }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match &self.above {
            Above::Narrow(v) => v.len(),
            Above::Wide(v) => v.len(),
        }
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn above(&self, k: usize) -> Option<u64> {
        match &self.above {
            Above::Narrow(v) => v.get(k).map(|&x| x.into()),
            Above::Wide(v) => v.get(k).copied(),
        }
    }

    /// Returns the value at 0-based rank `k`; `None` if there are not more than `k` values.
    pub fn at(&self, k: usize) -> Option<i64> {
        self.above(k).map(|x| self.base.wrapping_add(x as i64))
    }

    /// Returns the smallest value; `None` without values.
    pub fn min(&self) -> Option<i64> {
        self.at(0)
    }

    /// Returns the largest value; `None` without values.
    pub fn max(&self) -> Option<i64> {
        self.at(self.len().checked_sub(1)?)
    }

    /// Returns the number of values that are at most `x`.
    pub fn count_at_most(&self, x: i64) -> usize {
        if x < self.base {
            return 0;
        }
        let limit = x.wrapping_sub(self.base) as u64;
        match &self.above {
            Above::Narrow(v) => v.partition_point(|&y| u64::from(y) <= limit),
            Above::Wide(v) => v.partition_point(|&y| y <= limit),
        }
    }

    /// Returns a percentile as an integer; `None` without values. The percentile of [`Method::Linear`] is rounded.
    pub fn percentile(&self, p: Percent, method: Method) -> Option<i64> {
        match method {
            Method::Linear => self.linear(p).map(|x| x.round_ties_even() as i64),
            _ => self.at(rank(self.len(), p, method)?),
        }
    }

    /// Returns the percentile of the empirical distribution; `None` without values.
    pub fn edf(&self, p: Percent) -> Option<i64> {
        self.percentile(p, Method::Edf)
    }

    /// Returns the interpolated percentile (Hyndman–Fan 7); `None` without values.
    pub fn linear(&self, p: Percent) -> Option<f64> {
        let (low, more) = self.linear_above(p)?;
        Some((i128::from(self.base) + i128::from(low)) as f64 + more)
    }

    /// Returns the interpolated percentile minus the base, as a value of the sample and the part of the step to the
    /// next one; `None` without values.
    fn linear_above(&self, p: Percent) -> Option<(u64, f64)> {
        let scaled = self.len().checked_sub(1)? as u128 * u128::from(p.0);
        let (k, part) = ((scaled / 100_000) as usize, (scaled % 100_000) as f64 / 100_000.0);
        let low = self.above(k)?;
        let step = self.above(k + 1).map_or(0, |high| high - low);
        Some((low, part * step as f64))
    }

    /// Returns the median, or the mean of the two middle values; `None` without values.
    pub fn median(&self) -> Option<f64> {
        self.twice_median_above().map(|twice| self.halved(twice))
    }

    /// Returns the median minus the minimum, without loss of precision; `None` without values.
    pub fn median_above(&self) -> Option<f64> {
        self.twice_median_above().map(|twice| twice as f64 / 2.0)
    }

    fn twice_median_above(&self) -> Option<u128> {
        let n = self.len();
        let (low, high) = (self.above(n.checked_sub(1)? / 2)?, self.above(n / 2)?);
        Some(u128::from(low) + u128::from(high))
    }

    /// Converts a doubled distance above the base to a value, rounding only once.
    fn halved(&self, twice_above: u128) -> f64 {
        (2 * i128::from(self.base) + twice_above as i128) as f64 / 2.0
    }

    /// Returns the half-sample mode (Bickel–Frühwirth), which repeatedly chooses the densest half; ties go to the
    /// lowest half. `None` without values.
    pub fn half_sample_mode(&self) -> Option<f64> {
        self.twice_mode_above().map(|twice| self.halved(twice))
    }

    /// Returns the half-sample mode minus the minimum; `None` without values.
    pub fn half_sample_mode_above(&self) -> Option<f64> {
        self.twice_mode_above().map(|twice| twice as f64 / 2.0)
    }

    fn twice_mode_above(&self) -> Option<u128> {
        match &self.above {
            Above::Narrow(v) => twice_half_sample_mode(v),
            Above::Wide(v) => twice_half_sample_mode(v),
        }
    }

    /// Returns the histogram from the minimum to the 99th percentile (metrics §4); `None` without values.
    pub fn histogram(&self, bins: Bins, method: Method) -> Option<Histogram> {
        self.histogram_of(bins, method, false)
    }

    /// Returns the histogram for figures; `None` without values, or if [`Sample::histogram`] has the same number of
    /// bins.
    pub fn drawn_histogram(&self, bins: Bins, method: Method) -> Option<Histogram> {
        let range = self.histogram_range(method)?;
        let count = |drawn| self.bin_count(bins, drawn, range);
        (count(true) != count(false)).then(|| self.histogram_of(bins, method, true)).flatten()
    }

    fn histogram_range(&self, method: Method) -> Option<u64> {
        Some(self.percentile(Percent(99_000), method)?.wrapping_sub(self.min()?) as u64)
    }

    fn bin_count(&self, bins: Bins, drawn: bool, range: u64) -> usize {
        // Without the base: a clock that is wrong by years must not make the difference less precise.
        let quartile = |p| self.linear_above(Percent(p)).map_or(0.0, |(low, more)| low as f64 + more);
        bins.count(drawn, self.len() as u64, range, || quartile(75_000) - quartile(25_000))
    }

    fn histogram_of(&self, bins: Bins, method: Method, drawn: bool) -> Option<Histogram> {
        let range = self.histogram_range(method)?;
        let (lo, hi) = (self.min()?, self.percentile(Percent(99_000), method)?);
        let nbins = self.bin_count(bins, drawn, range);
        let binsize = (range / nbins as u64).saturating_add(1);
        let inside = self.count_at_most(hi);
        let mut counts = Vec::with_capacity(nbins);
        let mut before = 0;
        for k in 1..=nbins as u64 {
            // The last value in bin k − 1; if it overflows, all values are inside.
            let end = match k.checked_mul(binsize) {
                Some(edge) if k < nbins as u64 && edge - 1 < range => {
                    self.count_at_most(lo.wrapping_add((edge - 1) as i64))
                }
                _ => inside,
            };
            counts.push((end - before) as u64);
            before = end;
        }
        let fullest = counts.iter().copied().max().unwrap_or(0);
        let mode_bin = counts.iter().position(|c| *c == fullest).unwrap_or(0);
        Some(Histogram {
            lo,
            hi,
            nbins,
            binsize: i64::try_from(binsize).unwrap_or(i64::MAX),
            overflow: (self.len() - inside) as u64,
            mode_bin,
            mode: self.halved((2 * mode_bin as u128 + 1) * u128::from(binsize)),
            counts,
        })
    }
}

/// Sorts values that are at most `largest`.
fn sort_u32(values: &mut Vec<u32>, largest: u32) {
    let wide = u32::BITS - largest.leading_zeros();
    // More values of a digit need fewer passes, but larger tables.
    match values.len() {
        0..256 => values.sort_unstable(),
        256..4096 => sort_by_digits::<{ 1 << 9 }>(values, wide),
        _ => sort_by_digits::<{ 1 << 11 }>(values, wide),
    }
}

/// Least-significant-digit radix sort of values of `wide` bits. A digit has at most `DIGITS` values, a power of two;
/// passes in which all digits are equal are skipped.
fn sort_by_digits<const DIGITS: usize>(values: &mut Vec<u32>, wide: u32) {
    // Passes of equal width need the fewest counters.
    let passes = wide.div_ceil(DIGITS.ilog2());
    let bits = wide.div_ceil(passes.max(1));
    let mask = (1 << bits) - 1;
    let mut from = core::mem::take(values);
    let mut to = vec![0; from.len()];
    for pass in 0..passes {
        let digit = |x: u32| (x >> (bits * pass)) as usize & mask & (DIGITS - 1);
        let mut counts = [0u32; DIGITS];
        from.iter().for_each(|x| counts[digit(*x)] += 1);
        if counts.contains(&(from.len() as u32)) {
            continue;
        }
        let mut next = 0;
        for slot in &mut counts[..=mask] {
            next += core::mem::replace(slot, next);
        }
        for &x in &from {
            let slot = &mut counts[digit(x)];
            to[*slot as usize] = x;
            *slot += 1;
        }
        core::mem::swap(&mut from, &mut to);
    }
    *values = from;
}

fn twice_half_sample_mode<T: Copy + Ord + Sub<Output = T> + Into<u64>>(sorted: &[T]) -> Option<u128> {
    let mut s = sorted;
    while s.len() > 3 {
        let half = s.len().div_ceil(2);
        let start = narrowest(&s[..s.len() - half + 1], &s[half - 1..]);
        s = &s[start..start + half];
    }
    let v = |i: usize| -> u64 { s[i].into() };
    let both = |i: usize, j: usize| Some(u128::from(v(i)) + u128::from(v(j)));
    match s.len() {
        0 => None,
        1 => both(0, 0),
        2 => both(0, 1),
        _ => match (v(1) - v(0)).cmp(&(v(2) - v(1))) {
            core::cmp::Ordering::Less => both(0, 1),
            core::cmp::Ordering::Greater => both(1, 2),
            core::cmp::Ordering::Equal => both(1, 1),
        },
    }
}

/// Returns the first index at which `high` − `low` is smallest. The slices are not empty and have the same length.
fn narrowest<T: Copy + Ord + Sub<Output = T>>(low: &[T], high: &[T]) -> usize {
    const CHUNK: usize = 32;
    let width = |(low, high): (&T, &T)| *high - *low;
    let (mut best, mut least) = (0, high[0] - low[0]);
    for (chunk, (low, high)) in low.chunks(CHUNK).zip(high.chunks(CHUNK)).enumerate() {
        // The index is searched only in chunks that contain a smaller difference.
        let here = low.iter().zip(high).map(width).fold(least, T::min);
        if here < least {
            least = here;
            let position = low.iter().zip(high).position(|pair| width(pair) == here);
            best = chunk * CHUNK + position.unwrap_or(0);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(values: &[i64]) -> Sample {
        Sample::new(values.iter().copied())
    }

    #[test]
    fn percentiles_of_rfc_2330() {
        // §11.3; the text prints −∞ for the 15th percentile, contrary to its own definition (metrics §27).
        let s = sample(&[-2, 7, 7, 4, 18, -5]);
        let table = [(0, -5), (15_000, -5), (25_000, -2), (50_000, 4), (75_000, 7), (100_000, 18)];
        for (p, x) in table {
            assert_eq!(s.edf(Percent(p)), Some(x), "{p}");
        }
        assert_eq!(s.median(), Some(5.5));
    }

    #[test]
    fn the_two_tools_percentiles_of_example_2() {
        // metrics §3, V3: the ten largest are 4897 + 20k.
        let values: Vec<i64> =
            (0..990).map(|k| ((k * 4877) / 990).min(4876)).chain((0..10).map(|k| 4897 + 20 * k)).collect();
        let s = sample(&values);
        let column = |method| {
            [99_000, 99_300, 99_500, 99_700, 99_900, 100_000]
                .map(|p| s.percentile(Percent(p), method).unwrap())
        };
        assert_eq!(column(Method::Jitlat1), [4897, 4957, 4997, 5037, 5077, 5077]);
        assert_eq!(column(Method::Edf)[1..], [4937, 4977, 5017, 5057, 5077]);
    }

    #[test]
    fn small_table() {
        // metrics §2 and §4, V4.
        let s = sample(&[42000, 43100, 56000, 57200, 56100, 68400, 68300, 74500, 90000, 222000, 300000]);
        assert_eq!(s.median(), Some(68_300.0));
        assert_eq!(s.edf(Percent(90_000)), Some(222_000));
        assert_eq!(s.edf(Percent(99_000)), Some(300_000));
        assert_eq!(s.half_sample_mode(), Some(56_050.0));
        let h = s.histogram(Bins::Fixed(7), Method::Edf).unwrap();
        assert_eq!((h.lo, h.hi, h.binsize, h.overflow, h.mode), (42_000, 300_000, 36_858, 0, 60_429.0));
        assert_eq!(h.counts, [8, 1, 0, 0, 1, 0, 1]);
    }

    #[test]
    fn bin_sizes_of_the_published_runs() {
        // metrics §4: range, bins, printed bin size.
        for (range, bins, size) in [
            (180_000, 70, 2572),
            (267_000, 70, 3815),
            (269_000, 70, 3843),
            (4_897_000_000, 186, 26_327_957),
            (102_200_000, 500, 204_401),
        ] {
            let s = sample(&[0, range]);
            assert_eq!(s.histogram(Bins::Fixed(bins), Method::Edf).unwrap().binsize, size);
        }
    }

    #[test]
    fn half_sample_modes() {
        // metrics §4, V33, in tenths.
        assert_eq!(sample(&[10, 20, 22, 23, 50, 90, 300]).half_sample_mode(), Some(22.5));
        assert_eq!(sample(&[3, 5]).half_sample_mode(), Some(4.0));
        assert_eq!(sample(&[1, 2, 10]).half_sample_mode(), Some(1.5));
    }

    #[test]
    fn a_far_smallest_value_costs_no_digit() {
        // One packet has a time of 0, 40 years from the others.
        let s = sample(&[-1_246_650_331_000_000_000, 5001, 5002, 5003]);
        assert_eq!((s.median(), s.half_sample_mode()), (Some(5001.5), Some(5001.5)));
        assert_eq!(s.linear(Percent(90_000)), Some(5002.7));
    }

    #[test]
    fn the_whole_range_of_times() {
        let s = sample(&[i64::MAX, i64::MIN, 0]);
        assert_eq!((s.min(), s.max(), s.at(1)), (Some(i64::MIN), Some(i64::MAX), Some(0)));
        assert_eq!(s.histogram(Bins::Fixed(70), Method::Edf).unwrap().counts.iter().sum::<u64>(), 3);
        assert_eq!(s.histogram(Bins::Fixed(1), Method::Edf).unwrap().counts, [3]);
    }

    proptest! {
        #[test]
        fn equals_a_plain_sort(
            values in prop::collection::vec(prop_oneof![-50i64..50, any::<i64>(), 0i64..1 << 31], 1..300),
            p in 0u32..=100_000,
            x in any::<i64>(),
        ) {
            let s = sample(&values);
            let mut twin = values.clone();
            twin.sort_unstable();
            for (k, v) in twin.iter().enumerate() {
                prop_assert_eq!(s.at(k), Some(*v));
            }
            let k = (u64::from(p) * twin.len() as u64).div_ceil(100_000).max(1) as usize;
            prop_assert_eq!(s.edf(Percent(p)), Some(twin[k - 1]));
            prop_assert_eq!(s.count_at_most(x), twin.iter().filter(|v| **v <= x).count());
            let h = s.histogram(Bins::Auto, Method::Edf).unwrap();
            prop_assert_eq!(h.counts.iter().sum::<u64>() + h.overflow, twin.len() as u64);
        }

        #[test]
        fn radix_sort_sorts(mut values in prop::collection::vec(any::<u32>(), 4096..5000), shift in 0u32..32) {
            values.iter_mut().for_each(|x| *x >>= shift);
            let mut twin = values.clone();
            twin.sort_unstable();
            let largest = twin.last().copied().unwrap_or(0);
            sort_u32(&mut values, largest);
            prop_assert_eq!(values, twin);
        }
    }
}

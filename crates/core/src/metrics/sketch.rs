//! [`Sketch`]: a distribution in constant memory, for runs without end (metrics §23).

use super::distribution::{Distribution, Wanted};
use super::histogram::{Bins, Histogram};
use super::moments::Moments;
use super::percentile::{Method, Percent, Percentiles, rank, resolution};

/// Sub-buckets an octave: values above 2048 fall in buckets at most 1/1024 of their size.
const HALF: u64 = 1024;
/// Values that fix the origin.
const LEARNING: usize = 1024;

/// A log-linear histogram on either side of an origin, which is the smallest of the first 1024 values (or
/// given). A percentile is off by at most 1/1024 of its distance from the origin, never towards the smaller
/// side. At most about 0.9 MB.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    origin: Option<i64>,
    first: Vec<i64>,
    above: Vec<u64>,
    below: Vec<u64>,
    n: u64,
}

impl Sketch {
    /// With an origin to be learnt.
    pub fn learning() -> Sketch {
        Sketch { origin: None, first: Vec::new(), above: Vec::new(), below: Vec::new(), n: 0 }
    }

    /// With distances counted from `origin`.
    pub fn around(origin: i64) -> Sketch {
        Sketch { origin: Some(origin), ..Sketch::learning() }
    }

    /// Adds a value.
    pub fn add(&mut self, x: i64) {
        self.n += 1;
        match self.origin {
            Some(origin) => self.count(origin, x, 1),
            None => {
                self.first.push(x);
                if self.first.len() >= LEARNING {
                    self.settle();
                }
            }
        }
    }

    fn settle(&mut self) {
        let first = core::mem::take(&mut self.first);
        let Some(origin) = first.iter().copied().min() else { return };
        self.origin = Some(origin);
        first.into_iter().for_each(|x| self.count(origin, x, 1));
    }

    fn count(&mut self, origin: i64, x: i64, times: u64) {
        let distance = x.abs_diff(origin);
        let side = if x >= origin { &mut self.above } else { &mut self.below };
        let bucket = bucket(distance);
        if bucket >= side.len() {
            side.resize(bucket + 1, 0);
        }
        side[bucket] += times;
    }

    /// Values added.
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Buckets with values, ascending: the largest value each may stand for, and how many it holds.
    fn buckets(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let origin = self.origin.unwrap_or(0);
        let below = self
            .below
            .iter()
            .enumerate()
            .rev()
            .map(move |(b, c)| (origin.saturating_sub_unsigned(lowest(b as u64)), *c));
        let above =
            (0..).zip(&self.above).map(move |(b, c)| (origin.saturating_add_unsigned(lowest(b + 1) - 1), *c));
        below.chain(above).filter(|b| b.1 > 0)
    }

    /// The value at 0-based rank `k`, understated never.
    fn at(&self, k: u64) -> Option<i64> {
        let mut before = 0;
        self.buckets()
            .find(|(_, count)| {
                before += count;
                before > k
            })
            .map(|b| b.0)
    }

    /// The percentile by `method` (the linear one like the empirical).
    pub fn percentile(&self, p: Percent, method: Method) -> Option<i64> {
        let method = if method == Method::Linear { Method::Edf } else { method };
        self.settled().at(rank(self.n as usize, p, method)? as u64)
    }

    /// The percentile by the empirical distribution.
    pub fn edf(&self, p: Percent) -> Option<i64> {
        self.percentile(p, Method::Edf)
    }

    /// How many values are at most `x`, to the same precision.
    pub fn count_at_most(&self, x: i64) -> u64 {
        self.settled().buckets().take_while(|b| b.0 <= x).map(|b| b.1).sum()
    }

    fn settled(&self) -> std::borrow::Cow<'_, Sketch> {
        if self.first.is_empty() {
            return std::borrow::Cow::Borrowed(self);
        }
        let mut copy = self.clone();
        copy.settle();
        std::borrow::Cow::Owned(copy)
    }

    /// Adds all of `other`'s values: exactly where both have the same origin, at the precision of a bucket
    /// otherwise.
    pub fn merge(&mut self, other: &Sketch) {
        other.first.iter().for_each(|x| self.add(*x));
        if other.origin.is_none() {
            return;
        }
        let rest = other.n - other.first.len() as u64;
        self.settle();
        let origin = *self.origin.get_or_insert(other.origin.unwrap_or(0));
        self.n += rest;
        other.buckets().for_each(|(x, count)| self.count(origin, x, count));
    }

    /// The statistics, marked approximate; extremes, mean and deviations come exact from `moments`.
    pub fn distribution(&self, moments: &Moments, wanted: Wanted<'_>) -> Distribution {
        let sketch = self.settled();
        let (min, max) = (moments.min(), moments.max());
        let bounded = |x: i64| x.clamp(min.unwrap_or(x), max.unwrap_or(x));
        let column = |method| {
            let value = |p: &Percent| (*p, sketch.percentile(*p, method).map(bounded));
            Percentiles(wanted.percents.iter().map(value).collect())
        };
        Distribution {
            n: self.n,
            min,
            mean: moments.mean(),
            max,
            stddev: moments.stddev(),
            stddev_pop: moments.stddev_pop(),
            median: sketch.edf(Percent(50_000)).map(|x| bounded(x) as f64),
            percentiles: column(Method::Edf),
            percentiles_jitlat1: column(Method::Jitlat1),
            percentiles_linear: None,
            percentiles_resolution: Percentiles(
                wanted.percents.iter().map(|p| (*p, (self.n > 0).then(|| resolution(self.n, *p)))).collect(),
            ),
            histogram: min.and_then(|lo| sketch.histogram(lo, max?, wanted)),
            half_sample_mode: None,
            approx: true,
        }
    }

    fn histogram(&self, lo: i64, max: i64, wanted: Wanted<'_>) -> Option<Histogram> {
        let hi = self.percentile(Percent(99_000), wanted.method)?.clamp(lo, max);
        let nbins = match wanted.bins {
            Bins::Fixed(n) => n.max(1),
            Bins::Auto => 70,
        };
        let binsize = (hi.abs_diff(lo) / nbins as u64).saturating_add(1);
        let (mut counts, mut overflow) = (vec![0; nbins], 0);
        for (x, count) in self.buckets() {
            let x = x.clamp(lo, max);
            if x > hi {
                overflow += count;
            } else {
                counts[((x.abs_diff(lo) / binsize) as usize).min(nbins - 1)] += count;
            }
        }
        let fullest = counts.iter().copied().max()?;
        let mode_bin = counts.iter().position(|c| *c == fullest)?;
        let binsize = i64::try_from(binsize).unwrap_or(i64::MAX);
        let mode = lo as f64 + (mode_bin as f64 + 0.5) * binsize as f64;
        Some(Histogram { lo, hi, nbins, binsize, overflow, mode_bin, mode, counts })
    }
}

/// The bucket of a distance: exact below 2048, then 1024 to the octave.
fn bucket(distance: u64) -> usize {
    let octave = distance.checked_ilog2().unwrap_or(0).saturating_sub(HALF.ilog2());
    (u64::from(octave) * HALF + (distance >> octave)) as usize
}

/// The smallest distance in a bucket, saturating after the last.
fn lowest(bucket: u64) -> u64 {
    if bucket < 2 * HALF {
        return bucket;
    }
    let octave = bucket / HALF - 1;
    (bucket % HALF + HALF).checked_shl(octave as u32).filter(|x| x >> octave >= HALF).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_tile_the_line() {
        for distance in [0, 1, 2047, 2048, 2049, 4095, 4096, 1 << 40, u64::MAX / 3, u64::MAX - 1, u64::MAX] {
            let b = bucket(distance) as u64;
            assert!(
                lowest(b) <= distance && (distance < lowest(b + 1) || lowest(b + 1) == u64::MAX),
                "{distance}"
            );
            assert!(lowest(b + 1) - lowest(b) <= 1 + distance / 1024);
        }
    }

    proptest! {
        #[test]
        fn within_its_stated_error(
            values in prop::collection::vec(prop_oneof![-5_000i64..5_000, -1i64 << 40..1 << 40], 1..200),
            p in 0u32..=100_000,
            origin in -3_000i64..3_000,
            cut in 0usize..200,
        ) {
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let exact = sorted[rank(sorted.len(), Percent(p), Method::Edf).unwrap()];
            let mut sketch = Sketch::around(origin);
            values.iter().for_each(|x| sketch.add(*x));
            let found = sketch.edf(Percent(p)).unwrap();
            prop_assert!(found >= exact && found - exact <= exact.abs_diff(origin) as i64 / 1024 + 1, "{found} {exact}");
            // Halves with the same origin merge to the whole.
            let cut = cut.min(values.len());
            let (mut first, mut second) = (Sketch::around(origin), Sketch::around(origin));
            values[..cut].iter().for_each(|x| first.add(*x));
            values[cut..].iter().for_each(|x| second.add(*x));
            first.merge(&second);
            prop_assert_eq!(first.edf(Percent(p)), Some(found));
            prop_assert_eq!(first.len(), sketch.len());
            let mut learnt = Sketch::learning();
            values.iter().for_each(|x| learnt.add(*x));
            prop_assert!(learnt.edf(Percent(p)).unwrap() >= exact);
            learnt.merge(&sketch);
            prop_assert_eq!(learnt.len(), 2 * values.len() as u64);
        }
    }
}

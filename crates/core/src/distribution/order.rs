//! [`OrderStatistics`]: selected order statistics, found without sorting all values.

use super::percentile::{Method, Percent, rank};

/// Minimum number of values whose range is divided into 2048 parts; the range of fewer values is divided into 256.
const MIN_MANY_VALUES: usize = 1 << 12;
/// Minimum number of values for counting by parts; among fewer values, each rank is selected directly.
const MIN_COUNTED_VALUES: usize = 1 << 7;

/// Percentiles of a list of values, found without sorting it: values are counted in equal parts of their range, and
/// only parts that contain a percentile are examined further.
#[derive(Clone, Debug)]
pub struct OrderStatistics {
    n: usize,
    /// Values at the requested ranks, ascending by rank.
    known: Vec<(usize, i64)>,
}

impl OrderStatistics {
    /// Finds the `percents` of `n` values between `low` and `high`. The values are iterated over several
    /// times.
    pub fn new(
        values: impl Iterator<Item = i64> + Clone,
        n: usize,
        [low, high]: [i64; 2],
        percents: &[Percent],
    ) -> OrderStatistics {
        let mut ranks: Vec<usize> = Vec::with_capacity(3 * percents.len());
        for p in percents {
            let linear = rank(n, *p, Method::Linear);
            ranks.extend(rank(n, *p, Method::Edf).into_iter().chain(linear).chain(linear.map(|k| k + 1)));
        }
        ranks.retain(|k| *k < n);
        ranks.sort_unstable();
        ranks.dedup();
        let mut known = Vec::with_capacity(ranks.len());
        select(values, n, [low, high], &ranks, 0, &mut known);
        OrderStatistics { n, known }
    }

    /// Returns the value at 0-based rank `k`; `None` if it was not requested.
    fn at(&self, k: usize) -> Option<i64> {
        self.known.iter().find(|(rank, _)| *rank == k).map(|(_, value)| *value)
    }

    /// Returns the percentile of the empirical distribution; `None` if it was not requested.
    pub fn edf(&self, p: Percent) -> Option<i64> {
        self.at(rank(self.n, p, Method::Edf)?)
    }

    /// Returns the interpolated percentile (Hyndman–Fan 7); `None` if it was not requested.
    pub fn linear(&self, p: Percent) -> Option<f64> {
        let k = rank(self.n, p, Method::Linear)?;
        let part = ((self.n - 1) as u128 * u128::from(p.0) % 100_000) as f64 / 100_000.0;
        let low = self.at(k)?;
        let step = self.at(k + 1).map_or(0, |high| high.abs_diff(low));
        Some(low as f64 + part * step as f64)
    }

    /// Returns the two middle values, equal for an odd number of values; `None` if the median was not
    /// requested.
    pub fn middle(&self) -> Option<[i64; 2]> {
        Some([self.at(self.n.checked_sub(1)? / 2)?, self.at(self.n / 2)?])
    }

    /// Returns the median, or the mean of the two middle values; `None` if the median was not requested.
    pub fn median(&self) -> Option<f64> {
        self.middle().map(|[low, high]| (i128::from(low) + i128::from(high)) as f64 / 2.0)
    }
}

/// Appends the values at the ascending `ranks` to `found`. The `n` values lie between `low` and `high`; `before`
/// further values are smaller.
fn select(
    values: impl Iterator<Item = i64> + Clone,
    n: usize,
    [low, high]: [i64; 2],
    ranks: &[usize],
    before: usize,
    found: &mut Vec<(usize, i64)>,
) {
    if ranks.is_empty() {
        return;
    }
    if n <= MIN_COUNTED_VALUES {
        let mut few = Vec::with_capacity(n);
        values.for_each(|x| few.push(x));
        return pick(&mut few, ranks, before, found);
    }
    if n < MIN_MANY_VALUES {
        select_by_parts::<{ 1 << 8 }>(values, [low, high], ranks, before, found);
    } else {
        select_by_parts::<{ 1 << 11 }>(values, [low, high], ranks, before, found);
    }
}

/// Like [`select`], but counts values in at most `PARTS` equal parts of their range. `PARTS` must be a power of two.
fn select_by_parts<const PARTS: usize>(
    values: impl Iterator<Item = i64> + Clone,
    [low, high]: [i64; 2],
    ranks: &[usize],
    before: usize,
    found: &mut Vec<(usize, i64)>,
) {
    let above = |x: i64| x.wrapping_sub(low) as u64;
    let shift = (u64::BITS - above(high).leading_zeros()).saturating_sub(PARTS.ilog2());
    let part = |x: i64| (above(x) >> shift) as usize % PARTS;
    let mut counts = [0u32; PARTS];
    values.clone().for_each(|x| counts[part(x)] += 1);
    // Parts that contain a rank, with their ranks. `position` maps a part to its 1-based index in this list, or to 0 if
    // the part is not in the list.
    let mut parts: Vec<(usize, usize, &[usize])> = Vec::new();
    let mut position = [0u8; PARTS];
    let (mut below, mut rest) = (before, ranks);
    for (k, count) in counts.iter().enumerate() {
        let end = below + *count as usize;
        let Some(first) = rest.first() else { break };
        if *first < end && parts.len() < usize::from(u8::MAX) {
            let inside = rest.partition_point(|rank| *rank < end);
            parts.push((k, below, &rest[..inside]));
            position[k] = parts.len() as u8;
            rest = &rest[inside..];
        }
        below = end;
    }
    let least = |k: usize| low.wrapping_add(((k as u64) << shift) as i64);
    if shift == 0 {
        let all = |(k, _, ranks): &(usize, usize, &[usize])| {
            let value = least(*k);
            ranks.iter().map(move |rank| (*rank, value)).collect::<Vec<_>>()
        };
        return found.extend(parts.iter().flat_map(all));
    }
    let mut held: Vec<Vec<i64>> =
        parts.iter().map(|(k, ..)| Vec::with_capacity(counts[*k] as usize)).collect();
    values.for_each(|x| {
        let position = position[part(x)];
        if position > 0 {
            held[usize::from(position) - 1].push(x);
        }
    });
    for ((k, below, ranks), held) in parts.into_iter().zip(held) {
        let most = if k == part(high) { high } else { least(k).wrapping_add(((1u64 << shift) - 1) as i64) };
        select(held.iter().copied(), held.len(), [least(k), most], ranks, below, found);
    }
}

/// Like [`select`], for a few `values` in memory, which it reorders.
fn pick(values: &mut [i64], ranks: &[usize], before: usize, found: &mut Vec<(usize, i64)>) {
    let (lower, [rank, higher @ ..]) = ranks.split_at(ranks.len() / 2) else { return };
    let Some(position) = rank.checked_sub(before).filter(|position| *position < values.len()) else { return };
    let (below, value, above) = values.select_nth_unstable(position);
    let value = *value;
    pick(below, lower, before, found);
    found.push((*rank, value));
    pick(above, higher, rank + 1, found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Sample;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_those_of_the_sorted_values(
            few in prop::collection::vec(prop_oneof![-50i64..50, any::<i64>(), 0i64..1 << 31], 1..60),
            copies in 1usize..60,
            spread in 0u32..62,
            percents in prop::collection::vec(0u32..=100_000, 1..12),
        ) {
            // Makes the values too many for sorting, with many equal ones and a few far away.
            let near = |x: i64, k: usize| x.wrapping_add((k as i64 * 7919) >> spread);
            let values: Vec<i64> = (0..copies * 30).flat_map(|k| few.iter().map(move |x| near(*x, k))).collect();
            let sorted = Sample::new(values.iter().copied());
            let percents: Vec<Percent> = percents.into_iter().map(Percent).collect();
            let bounds = [sorted.min().unwrap(), sorted.max().unwrap()];
            let found = OrderStatistics::new(values.iter().copied(), values.len(), bounds, &percents);
            for p in &percents {
                prop_assert_eq!((found.edf(*p), found.linear(*p)), (sorted.edf(*p), sorted.linear(*p)));
            }
            let found = OrderStatistics::new(values.iter().copied(), values.len(), bounds, &[Percent(50_000)]);
            prop_assert_eq!(found.median(), sorted.median());
        }
    }

    #[test]
    fn one_far_value_hides_no_other() {
        let values: Vec<i64> =
            (0..100_000).map(|k| if k == 5 { i64::MAX } else { k * 7919 % 100_000 }).collect();
        let found =
            OrderStatistics::new(values.iter().copied(), values.len(), [0, i64::MAX], &[Percent(50_000)]);
        assert_eq!(found.edf(Percent(50_000)), Sample::new(values.into_iter()).edf(Percent(50_000)));
    }

    #[test]
    fn what_was_not_asked_for_is_not_known() {
        let none = OrderStatistics::new([].into_iter(), 0, [0, 0], &[Percent(50_000)]);
        assert_eq!((none.edf(Percent(50_000)), none.median(), none.linear(Percent(0))), (None, None, None));
        let some = OrderStatistics::new(0..100, 100, [0, 99], &[Percent(50_000)]);
        assert_eq!((some.edf(Percent(50_000)), some.edf(Percent(90_000))), (Some(49), None));
    }
}

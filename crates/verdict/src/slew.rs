//! [`Slew`]: the adjustment of a clock during a test. A clock that is adjusted runs faster or slower until it is right.

use super::delays::{Blocks, DelayNoise, Delays};
use super::levels::{Groups, MAX_DRIFT};

/// Change of the delays caused by the adjustment of a clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Slew {
    /// Times since the first packet, in ns, ascending, each with the change of the delays up to this time, in ns.
    points: Vec<(i64, i64)>,
    /// Index in send order of the first packet during the adjustment, and of the first one after it.
    pub places: [usize; 2],
    /// Highest rate of the adjustment, as a ratio.
    pub rate: f64,
}

/// Minimum rate, as a ratio. A slower change needs no explanation.
const MIN_RATE: f64 = 10e-6;
/// Maximum number of groups of packets whose smallest delays are compared. The second value is tried if the first one
/// shows no adjustment.
const MAX_GROUPS: [usize; 2] = [2000, 200];
/// Minimum number of groups of packets during the adjustment. A change within fewer groups may be sudden.
const MIN_GROUPS: usize = KNOTS;
/// Number of parts of the adjustment, in each of which the rate is constant.
const KNOTS: usize = 12;
/// Maximum change from one group to the next, as a share of the whole change.
const MAX_CHANGE_SHARE: f64 = 0.25;
/// Minimum change, in ns. A smaller change is not taken for a queue, either.
const MIN_CHANGE_NS: f64 = 1e6;
/// Minimum change relative to the scatter of the smallest delays.
const MIN_CLEAR: f64 = 8.0;
/// Divisor of the number of groups: before or after the adjustment, the delay is constant for at least the quotient.
const MIN_CALM: usize = 10;
/// Maximum ratio of the largest to the smallest jitter before, during and after an adjustment. A queue would change the
/// jitter more.
const MAX_JITTER: f64 = 1.4;

impl Slew {
    /// Returns the slew in `delays`, which are divided into `blocks`: the smallest delay changes once from one level to
    /// another, never faster than clocks are adjusted, and the jitter stays the same. `None` if there is no slew.
    pub fn of(delays: &Delays<'_>, blocks: &Blocks, noise: DelayNoise) -> Option<Slew> {
        // Many groups show a short adjustment, the smallest delays of a few scatter less.
        MAX_GROUPS.iter().find_map(|most| {
            let groups = Groups::at_most(*most, blocks, delays.len())?;
            Slew::between(&groups, delays, blocks, noise)
        })
    }

    fn between(groups: &Groups, delays: &Delays<'_>, blocks: &Blocks, noise: DelayNoise) -> Option<Slew> {
        let n = delays.len();
        let k = groups.min.len();
        let time: Vec<f64> = (0..k).map(|g| delays.time(groups.place(g, blocks, n)) as f64).collect();
        // A single group may lie within a queue.
        let min: Vec<f64> =
            (0..k).map(|g| middle(&groups.min[g.saturating_sub(1)..(g + 2).min(k)])).collect();
        let edge = (k / 12).max(3);
        let [from, to] = [&groups.min[..edge], &groups.min[k - edge..]].map(middle);
        let total = to - from;
        let mut steps: Vec<f64> = min.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
        steps.sort_unstable_by(f64::total_cmp);
        let scatter = steps[steps.len() / 2].max(noise.median as f64 / 4.0).max(1000.0);
        if total.abs() < MIN_CHANGE_NS.max(MIN_CLEAR * scatter)
            || steps[steps.len() - 1] > MAX_CHANGE_SHARE * total.abs()
        {
            return None;
        }
        // The first and the last packets of the adjustment still look like those before and after it.
        let calm = (2.0 * scatter).max(total.abs() / 20.0);
        let is_before = |g: &usize| (min[*g] - from) * total.signum() <= calm;
        let is_after = |g: &usize| (to - min[*g]) * total.signum() <= calm;
        let (last, first) = ((0..k).rev().find(is_before)?, (0..k).find(is_after)?);
        let unseen = first.saturating_sub(last) as f64 * calm / (total.abs() - 2.0 * calm);
        let (begin, end) = (last.saturating_sub(unseen as usize), (first + unseen as usize).min(k - 1));
        let is_apart = end >= begin + MIN_GROUPS && (begin >= k / MIN_CALM || k - end >= k / MIN_CALM);
        if !is_apart || !is_one_way(&min, total, scatter) {
            return None;
        }
        // Over a longer time, the scatter of the smallest delays hardly changes the rate.
        let lag = ((end - begin) / 6).max(1);
        let rate =
            (begin + lag..=end).map(|g| ((min[g] - min[g - lag]) / (time[g] - time[g - lag]).max(1.0)).abs());
        let rate = rate.fold(0.0, f64::max);
        let place = |g: usize| groups.place(g, blocks, n) / blocks.size;
        let jitter = |from: usize, to: usize| spread(blocks, place(from)..place(to));
        let parts = [jitter(0, begin), jitter(begin, end), jitter(end, k)];
        // The adjustment itself changes the delay within a block.
        let within = rate * delays.time(n - 1) as f64 / blocks.len().max(1) as f64;
        let known = || parts.iter().flatten();
        let (least, most) = (known().min()?, known().max()?);
        if !(MIN_RATE..=MAX_DRIFT).contains(&rate)
            || *most as f64 > MAX_JITTER * *least as f64 + within + 20_000.0
        {
            return None;
        }
        let knot = |k: usize| begin + (end - begin) * k / KNOTS;
        let change = |k: usize| match k {
            0 => 0,
            KNOTS => total as i64,
            _ => {
                let half = ((end - begin) / KNOTS / 2).max(1);
                (median(min[knot(k) - half..=knot(k) + half].to_vec()) - from) as i64
            }
        };
        let slew = Slew {
            points: (0..=KNOTS).map(|k| (time[knot(k)] as i64, change(k))).collect(),
            places: [begin, end].map(|g| groups.place(g, blocks, n)),
            rate,
        };
        // A drift during the whole test is a straight line.
        let mean = |of: &[f64]| of.iter().sum::<f64>() / k as f64;
        let (mean_t, mean_m) = (mean(&time), mean(&min));
        let sxx: f64 = time.iter().map(|t| (t - mean_t).powi(2)).sum();
        let slope =
            time.iter().zip(&min).map(|(t, m)| (t - mean_t) * (m - mean_m)).sum::<f64>() / sxx.max(1.0);
        let rest = |of: &dyn Fn(f64) -> f64| {
            median(time.iter().zip(&min).map(|(t, m)| (m - of(*t)).abs()).collect())
        };
        let [of_line, of_slew] =
            [rest(&|t| mean_m + slope * (t - mean_t)), rest(&|t| from + slew.at(t as i64) as f64)];
        (2.0 * of_slew < of_line).then_some(slew)
    }

    /// Returns the change of the delays of packets sent `since` ns after the first one, in ns.
    pub fn at(&self, since: i64) -> i64 {
        let after = self.points.partition_point(|(at, _)| *at <= since);
        let (Some(before), Some(next)) =
            (after.checked_sub(1).map(|k| self.points[k]), self.points.get(after))
        else {
            let end = if after == 0 { self.points.first() } else { self.points.last() };
            return end.map_or(0, |(_, change)| *change);
        };
        let part = (since - before.0) as f64 / (next.0 - before.0).max(1) as f64;
        before.1 + ((next.1 - before.1) as f64 * part) as i64
    }

    /// Returns true if a step of `change` ns at index `place` may be a remainder of this adjustment.
    pub fn explains(&self, place: usize, change: i64) -> bool {
        let [from, to] = self.places;
        let near = (to - from) / 4;
        let is_near = (from.saturating_sub(near)..to + near).contains(&place);
        is_near && change.saturating_abs() < self.change().saturating_abs() / 10
    }

    /// Returns the whole change of the delays, in ns.
    pub fn change(&self) -> i64 {
        let ends = self.points.first().zip(self.points.last());
        ends.map_or(0, |(first, last)| last.1.saturating_sub(first.1))
    }
}

/// Returns true if the smallest delays `min` change by `total` without returning. A few groups may lie within queues.
fn is_one_way(min: &[f64], total: f64, scatter: f64) -> bool {
    let tolerance = (MAX_RETURN * total.abs()).max(4.0 * scatter);
    let ends = [min[0], min[min.len() - 1]];
    let [low, high] = [ends[0].min(ends[1]) - tolerance, ends[0].max(ends[1]) + tolerance];
    let mut furthest = f64::MIN;
    let others = min.iter().filter(|min| {
        let at = **min * total.signum();
        let is_within = (low..=high).contains(*min) && furthest - at <= tolerance;
        furthest = if is_within { furthest.max(at) } else { furthest };
        !is_within
    });
    others.count() * MAX_OTHERS <= min.len()
}

/// Maximum return towards the earlier level, as a share of the whole change.
const MAX_RETURN: f64 = 0.1;
/// Divisor of the number of groups: at most the quotient may lie within queues.
const MAX_OTHERS: usize = 50;

/// Returns the median difference between the largest and the smallest delay of the blocks in `range`, in ns; `None` if
/// there are fewer than 8.
fn spread(blocks: &Blocks, range: core::ops::Range<usize>) -> Option<i64> {
    let range = range.start..range.end.min(blocks.len());
    let mut all: Vec<i64> = range.map(|b| blocks.max[b].saturating_sub(blocks.min[b])).collect();
    let at = all.len() / 2;
    (all.len() >= 8).then(|| *all.select_nth_unstable(at).1)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn middle(values: &[i64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2] as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, US, delays, every};

    /// Returns the slew in a test of 3000 packets, one every 20 ms, where `change` is the change of the delay by index.
    fn found(change: impl Fn(i64) -> i64) -> Option<Slew> {
        let noise = |k: i64| k * 7919 % 41 * US;
        let delays = delays(&every(20 * MS, 3000, |k| Some(5 * MS + noise(k.into()) + change(k.into()))));
        Slew::of(&delays, &delays.blocks(), delays.noise())
    }

    /// Returns a change of the delay by `per_packet` ns per packet, for `packets` packets from packet 1000 on.
    fn ramp(per_packet: i64, packets: i64) -> impl Fn(i64) -> i64 {
        move |k| (k - 1000).clamp(0, packets) * per_packet
    }

    #[test]
    fn a_clock_that_is_adjusted_is_found_with_its_times_and_rate() {
        for sign in [1, -1] {
            let slew = found(ramp(sign * 10 * US, 1000)).unwrap();
            assert!((slew.change() - sign * 10 * MS).abs() < MS / 2, "{slew:?}");
            assert!((slew.rate * 1e6 - 500.0).abs() < 60.0, "{slew:?}");
            let [from, to] = slew.places;
            assert!(from.abs_diff(1000) < 100 && to.abs_diff(2000) < 100, "{slew:?}");
            let at = [0, 30_000 * MS, 60_000 * MS].map(|since| slew.at(since) * sign / MS);
            assert!(at[0] == 0 && (4..=5).contains(&at[1]) && (9..=10).contains(&at[2]), "{at:?}");
        }
        // A phase-locked loop approaches the right time.
        let decay = |k: i64| (8e6 * (1.0 - (-(k - 1000).max(0) as f64 / 600.0).exp())) as i64;
        assert!(found(decay).is_some());
    }

    #[test]
    fn queues_routes_and_drifts_are_no_adjustment() {
        assert_eq!(found(|_| 0), None);
        // Faster than clocks are adjusted, sudden, or back again.
        assert_eq!(found(ramp(30 * US, 1000)), None);
        assert_eq!(found(|k| if k < 1500 { 0 } else { 5 * MS }), None);
        assert_eq!(found(|k| (1000 - (k - 1500).abs()).max(0) * 10 * US), None);
        // Over the whole test, it is another rate of the clock.
        assert_eq!(found(|k| k * 10 * US), None);
        // The jitter rises with a queue.
        assert_eq!(found(|k| ramp(10 * US, 1000)(k) + if k > 1000 { k * 6151 % 397 * US } else { 0 }), None);
    }
}

//! Path changes and clock steps: jumps of the windowed minimum (metrics §5, §16; RFC 5481 §6.2, §11).

use super::moments::Moments;
use super::series::Series;
use crate::distribution::OrderStatistics;
use crate::distribution::percentile::Percent;
use crate::distribution::sample::Sample;
use crate::summary::PathSegment;

/// Number of windows, each 5 % of the run.
const WINDOWS: usize = 20;
/// Minimum number of packets per window; with fewer, a window's minimum is not meaningful.
const MIN_WINDOW_PACKETS: usize = 10;

/// Returns the segments of `series` between jumps of its minimum, each with its own PDV; empty if there is no
/// jump.
///
/// A jump is a lasting change of the minimum from one window to the next. It must exceed 5 times the median absolute
/// deviation of such changes, twice the median variation in both windows, and twice the changes before and after it,
/// because a ramp is not a jump. It is lasting if the windows on either side stay at their levels.
pub fn segments(series: &Series<'_>) -> Vec<PathSegment> {
    let n = series.len();
    if n < WINDOWS * MIN_WINDOW_PACKETS {
        return Vec::new();
    }
    let edge = |w: usize| w * n / WINDOWS;
    let minima: Vec<i64> = (0..WINDOWS).map(|w| series.lowest_delay(edge(w)..edge(w + 1))).collect();
    let steps: Vec<i64> = minima.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
    let centre = median(steps.clone());
    let spread = median(steps.iter().map(|s| s.saturating_sub(centre).saturating_abs()).collect());
    let bulk = |w: usize| bulk(series, edge(w)..edge(w + 1)).saturating_sub(minima[w]);
    let mut cuts = vec![0];
    for w in 0..steps.len() {
        let jump = steps[w].saturating_sub(centre);
        let beside = [w.wrapping_sub(1), w + 1].map(|k| steps.get(k).map_or(0, |s| s.saturating_sub(centre)));
        let beside = beside.map(i64::saturating_abs).into_iter().max().unwrap_or(0);
        let exceeds = |least: i64| jump.saturating_abs() > least.saturating_mul(2);
        let clear = jump.saturating_abs() > spread.saturating_mul(5) && exceeds(beside.max(1_000));
        // The median variation takes longest to compute, so it is checked last.
        if clear && lasts(&minima, w, jump) && exceeds(bulk(w).max(bulk(w + 1))) {
            cuts.push(change_point(series, edge(w)..edge(w + 2), minima[w], minima[w + 1]));
        }
    }
    if cuts.len() == 1 {
        return Vec::new();
    }
    cuts.push(n);
    cuts.dedup();
    let mut found: Vec<PathSegment> = Vec::new();
    for cut in cuts.windows(2) {
        let Some(mut segment) = describe(series, cut[0]..cut[1]) else { continue };
        segment.step_ns = found.last().map(|before| segment.min.saturating_sub(before.min));
        found.push(segment);
    }
    found
}

/// Returns the median delay of a window minus its minimum, in ns.
fn bulk(series: &Series<'_>, range: core::ops::Range<usize>) -> i64 {
    let n = range.len();
    let delays = series.range(range.clone()).map(|p| p.delay);
    let extremes = series.extreme_delays(range).unwrap_or_default();
    let order = OrderStatistics::new(delays, n, extremes, &[Percent(50_000)]);
    order.middle().map_or(extremes[0], |[_, upper]| upper)
}

/// Returns true if the two windows before the jump stay on one side of its middle and the two windows after it on the
/// other.
fn lasts(minima: &[i64], w: usize, jump: i64) -> bool {
    let middle = minima[w] / 2 + minima[w + 1] / 2;
    let above = |min: &i64| *min > middle;
    let before = &minima[w.saturating_sub(1)..=w];
    let after = &minima[w + 1..(w + 3).min(minima.len())];
    before.iter().all(|l| above(l) == (jump < 0)) && after.iter().all(|l| above(l) == (jump > 0))
}

/// Returns the index in `range` at which the minimum changes from `old` to `new`: after the last packet at the lower
/// level if the delay rises, at the first packet at that level if it falls.
fn change_point(series: &Series<'_>, range: core::ops::Range<usize>, old: i64, new: i64) -> usize {
    let middle = old / 2 + new / 2;
    let low = |k: &usize| series.get(*k).delay < middle;
    if new > old {
        range.clone().rev().find(low).map_or(range.start, |k| k + 1)
    } else {
        range.clone().find(low).unwrap_or(range.end)
    }
}

fn median(mut values: Vec<i64>) -> i64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable(middle).1
}

fn describe(series: &Series<'_>, range: core::ops::Range<usize>) -> Option<PathSegment> {
    let delays = series.range(range.clone()).map(|p| p.delay);
    let moments: Moments = delays.clone().collect();
    let sample = Sample::new(delays);
    let min = sample.min()?;
    let pdv = |p| Some(sample.edf(Percent(p))?.saturating_sub(min));
    Some(PathSegment {
        first_seq: series.get(range.start).seq.into(),
        last_seq: series.get(range.end - 1).seq.into(),
        n: moments.n(),
        min,
        mean: moments.mean()?,
        pdv_p99: pdv(99_000)?,
        pdv_p999: pdv(99_900)?,
        pdv_max: moments.max()?.saturating_sub(min),
        step_ns: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::classify::AcceptedPacket;
    use super::super::series::Samples;
    use super::*;

    fn of(delay: impl Fn(i64) -> i64) -> Vec<(u64, Option<i64>)> {
        let mut samples = Samples::default();
        for seq in 0..2000 {
            samples.push(AcceptedPacket { seq, sent: i64::from(seq) * 1000, delay: delay(seq.into()) });
        }
        segments(&Series::new(&samples)).iter().map(|s| (s.first_seq, s.step_ns)).collect()
    }

    fn noise(i: i64) -> i64 {
        1_000_000 + (i * 7_919 + 13) * 104_729 % 100 * 1000
    }

    #[test]
    fn a_step_is_found_to_the_packet() {
        let up = of(|i| noise(i) + if i >= 777 { 5_000_000 } else { 0 });
        assert_eq!(up.iter().map(|s| s.0).collect::<Vec<_>>(), [0, 777]);
        assert!((up[1].1.unwrap() - 5_000_000).abs() < 10_000);
        let down = of(|i| noise(i) - if i >= 1234 { 900_000 } else { 0 });
        assert_eq!(down.iter().map(|s| s.0).collect::<Vec<_>>(), [0, 1234]);
        let both = of(|i| noise(i) + if (500..1500).contains(&i) { 1_000_000 } else { 0 });
        assert_eq!(both.iter().map(|s| s.0).collect::<Vec<_>>(), [0, 500, 1500]);
    }

    #[test]
    fn what_is_no_step() {
        assert_eq!(of(noise), []);
        assert_eq!(of(|_| 7), []);
        // A drift, and a temporary burst of queueing.
        assert_eq!(of(|i| noise(i) + i * 2000), []);
        assert_eq!(of(|i| noise(i) / 100 + (i - 1000).max(0) * 2000), [], "a queue that begins to fill");
        assert_eq!(of(|i| noise(i) + if (800..830).contains(&i) { 9_000_000 } else { 0 }), []);
    }

    fn cuts(delay: impl Fn(i64) -> i64) -> Vec<u64> {
        of(delay).iter().map(|s| s.0).collect()
    }

    #[test]
    fn a_jump_exceeds_twice_the_bulk_beside_it() {
        // In a window without variation, the bulk counts as 1 µs.
        let step = |ns| cuts(|i| if i >= 1000 { ns } else { 0 });
        assert_eq!((step(2000), step(2001)), (vec![], vec![0, 1000]));
        // One packet in ten has the minimum delay, the others 1 ms more: on both sides, only before, only
        // after.
        let queue = |i: i64| if i % 10 == 0 { 0 } else { 1_000_000 };
        for queued in [0..2000, 0..1000, 1000..2000] {
            let step = |ns| {
                cuts(|i| if queued.contains(&i) { queue(i) } else { 0 } + if i >= 1000 { ns } else { 0 })
            };
            assert_eq!((step(2_000_000), step(2_010_000).len()), (vec![], 2), "{queued:?}");
        }
    }

    #[test]
    fn a_jump_exceeds_five_times_the_usual_change() {
        // Changes of +1, −1 and 0 µs in turn: their median absolute deviation is 1 µs.
        let step = |ns| cuts(|i| if i / 100 % 3 == 1 { 1000 } else { 0 } + if i >= 1000 { ns } else { 0 });
        // Window 10 begins with a rise of its own.
        assert_eq!((step(4000), step(4001)), (vec![], vec![0, 1000]));
    }

    #[test]
    fn a_jump_on_a_ramp() {
        // A staircase of 1 ms per window. A jump counts by its difference from the median change,
        let stairs = |ns| cuts(|i| i / 100 * 1_000_000 + if i >= 1000 { ns } else { 0 });
        assert_eq!(stairs(500_000), [0, 1000]);
        // and downwards only if it outlasts the steps before and after it.
        assert_eq!(
            (stairs(-1_500_000), stairs(-2_999_998), stairs(-3_000_002)),
            (vec![], vec![], vec![0, 1000])
        );
    }

    #[test]
    fn cuts_within_a_window_and_not_far_apart() {
        // A fall inside window 2, whose minimum is already the new one.
        assert_eq!(cuts(|i| if i < 240 { 5_000_000 } else { 0 }), [0, 240]);
        assert_eq!(cuts(|i| if i < 760 { 0 } else { 5_000_000 }), [0, 760]);
        // Windows 10 to 12 only.
        assert_eq!(cuts(|i| if (1000..1300).contains(&i) { 5_000_000 } else { 0 }), [0, 1000, 1300]);
        // A packet in the middle of the jump counts as above it.
        let middle = |i: i64| {
            if i < 777 {
                0
            } else if i == 777 {
                5000
            } else {
                10_000
            }
        };
        assert_eq!(cuts(middle), [0, 777]);
    }

    #[test]
    fn ten_packets_a_window() {
        let step = |n: u32| {
            let mut samples = Samples::default();
            for seq in 0..n {
                let delay = if seq < 100 { 0 } else { 5_000_000 };
                samples.push(AcceptedPacket { seq, sent: i64::from(seq), delay });
            }
            segments(&Series::new(&samples)).len()
        };
        assert_eq!([199, 200].map(step), [0, 2]);
    }
}

//! Lasting changes of the smallest delay, and its slow drift.

use super::delays::{Blocks, DelayNoise, Delays};
use super::episodes::MIN_STORED_NS;
use super::slots;

/// Maximum number of groups into which a series is divided.
const MAX_GROUPS: usize = 200;
/// Approximate maximum number of wide groups, which have more packets each.
const MAX_WIDE_GROUPS: usize = 60;
/// Minimum number of packets per group for a meaningful smallest delay.
const MIN_GROUP_PACKETS: usize = 8;
/// Minimum size of a step, in ns. Hosts alone cause smaller changes.
const MIN_STEP_NS: i64 = 100_000;
/// Maximum drift rate: 1000 ppm. Crystal oscillators differ by less, and clocks are slewed more slowly (RFC 5905: 500
/// ppm).
pub const MAX_DRIFT: f64 = 1e-3;
/// Same as [`MAX_DRIFT`], for a media clock.
pub const MAX_MEDIA_DRIFT: f64 = 0.02;

/// A lasting change of the smallest delay.
#[derive(Clone, Copy, Debug)]
pub struct LevelStep {
    /// First packet of the new level, as an index in send order.
    pub place: usize,
    /// Size of the change, in ns.
    pub change: i64,
    /// Number of packets between the old level and the new one.
    pub ramp: usize,
    /// Spread of the delays before and after the step, in ns: difference between the 90th and the 10th percentile.
    pub spread: [i64; 2],
}

/// A series divided into groups of packets.
pub(super) struct Groups {
    /// Smallest delay of each group, in ns; the lower quartile for wide groups.
    pub min: Vec<i64>,
    /// Number of blocks per group.
    each: usize,
}

impl Groups {
    pub fn of(blocks: &Blocks, packets: usize) -> Option<Groups> {
        Groups::at_most(MAX_GROUPS, blocks, packets)
    }

    /// Divides a series of `packets` packets into at most `most` groups; `None` if there are too few packets.
    pub fn at_most(most: usize, blocks: &Blocks, packets: usize) -> Option<Groups> {
        let wanted = (packets / MIN_GROUP_PACKETS).min(most);
        let (min, each) = blocks.grouped(wanted.max(1));
        // With fewer groups, there are not enough on either side of a step.
        (min.len() >= 12).then_some(Groups { min, each })
    }

    /// Returns fewer and larger groups, each with its lower quartile; `None` if there are too few packets.
    fn wide(delays: &Delays<'_>, blocks: &Blocks) -> Option<Groups> {
        let n = delays.len();
        let each = (blocks.len() / MAX_WIDE_GROUPS).max(1);
        let place = |g: usize| blocks.place(g * each, n);
        let quarters =
            (0..blocks.len().div_ceil(each)).map(|g| delays.quantile(place(g), place(g + 1), 0.25));
        let min: Vec<i64> = quarters.map(Option::unwrap_or_default).collect();
        (each * blocks.size >= 2 * MIN_GROUP_PACKETS).then_some(Groups { min, each })
    }

    pub fn place(&self, group: usize, blocks: &Blocks, packets: usize) -> usize {
        blocks.place(group * self.each, packets)
    }
}

/// Returns the steps of `delays`. A step changes the smallest delay from one lasting level to another, by more than the
/// difference between neighbouring packets, and by more than the smallest delay varies on either side. If the minimum
/// of a few packets varies as much as the step itself, the lower quartile of more packets may reveal the step.
pub fn steps(delays: &Delays<'_>, blocks: &Blocks, noise: DelayNoise) -> Vec<LevelStep> {
    let Some(groups) = Groups::of(blocks, delays.len()) else { return Vec::new() };
    let found = steps_between(&groups, delays, blocks, noise);
    if !found.is_empty() {
        return found;
    }
    let wide = Groups::wide(delays, blocks);
    wide.map_or_else(Vec::new, |wide| steps_between(&wide, delays, blocks, noise))
}

fn steps_between(groups: &Groups, delays: &Delays<'_>, blocks: &Blocks, noise: DelayNoise) -> Vec<LevelStep> {
    let n = delays.len();
    let min = &groups.min;
    let window = (min.len() / 20).clamp(3, MAX_WINDOW);
    let levels: Vec<DelayLevel> = min.windows(window).map(DelayLevel::of).collect();
    let mut scores = vec![0i64; min.len()];
    for (g, score) in scores.iter_mut().enumerate().take((min.len() + 1).saturating_sub(window)).skip(window)
    {
        let (before, after) = (&levels[g - window], &levels[g]);
        let change = after.middle.saturating_sub(before.middle);
        let spread = before.spread.max(after.spread);
        let size = change.saturating_abs();
        // A step must be clearly larger than the variation of the levels on both sides of it.
        if size > MIN_STEP_NS.max(noise.p90)
            && size / 3 > spread
            && size > 4 * before.spread.min(after.spread)
        {
            *score = size;
        }
    }
    let mut found: Vec<LevelStep> = Vec::new();
    let mut g = 0;
    while g < scores.len() {
        let end = (g + window).min(scores.len());
        let highest = (g..end).max_by_key(|k| (scores[*k], std::cmp::Reverse(*k)));
        let Some(top) = highest.filter(|k| scores[*k] > 0) else {
            g += 1;
            continue;
        };
        if top > g && scores[g] == 0 {
            g += 1;
            continue;
        }
        let place = |group: usize| groups.place(group.min(min.len()), blocks, n);
        let range = place(top.saturating_sub(2))..place(top + 2);
        let about = [
            place(top.saturating_sub(window))..place(top.saturating_sub(1)),
            place(top + 1)..place(top + window),
        ];
        if let Some(step) = refine(delays, range, about, noise) {
            found.push(step);
        }
        g = top + window;
    }
    found
}

/// Maximum number of groups compared on either side of a step.
const MAX_WINDOW: usize = 10;

/// Middle and spread of several smallest delays, leaving out one or two outliers.
struct DelayLevel {
    middle: i64,
    spread: i64,
}

impl DelayLevel {
    /// Computes the level from at most [`MAX_WINDOW`] values.
    fn of(min: &[i64]) -> DelayLevel {
        let (n, mut sorted) = (min.len(), [0; MAX_WINDOW]);
        let sorted = &mut sorted[..n];
        sorted.copy_from_slice(min);
        sorted.sort_unstable();
        // A single group may lie within a queue, so the extremes are not used.
        let stray = n / 6;
        DelayLevel { middle: sorted[n / 2], spread: sorted[n - 1 - stray].saturating_sub(sorted[stray]) }
    }
}

fn refine(
    delays: &Delays<'_>,
    range: core::ops::Range<usize>,
    [before, after]: [core::ops::Range<usize>; 2],
    noise: DelayNoise,
) -> Option<LevelStep> {
    let at = |r: &core::ops::Range<usize>, share| delays.quantile(r.start, r.end, share);
    let (low, high) = (at(&before, 0.5)?, at(&after, 0.5)?);
    let spread = |r: &core::ops::Range<usize>| Some(at(r, 0.9)?.saturating_sub(at(r, 0.1)?));
    let change = high.saturating_sub(low);
    if change.saturating_abs() < MIN_STEP_NS {
        return None;
    }
    // Position of a packet between the old level (0) and the new one (1). Jitter only adds to delay, so packets below
    // the middle certainly belong to the lower level.
    let height = |k: usize| (delays.excess(k).saturating_sub(low)) as f64 / change as f64;
    let lower = |k: &usize| if change > 0 { height(*k) < 0.5 } else { height(*k) > 0.5 };
    let place = if change > 0 {
        range.clone().rev().find(lower).map_or(range.start, |k| k + 1)
    } else {
        range.clone().find(lower).unwrap_or(range.end)
    };
    // Noise must not make packets near either level look like a ramp.
    let margin = 0.15 + 1.5 * noise.median as f64 / change.unsigned_abs() as f64;
    let ramp = if margin < 0.4 {
        let up = range.clone().rev().filter(|k| *k < place).take_while(|k| height(*k) > margin).count();
        let down = (place..range.end).take_while(|k| height(*k) < 1.0 - margin).count();
        up + down
    } else {
        0
    };
    Some(LevelStep { place, change, ramp, spread: [spread(&before)?, spread(&after)?] })
}

/// Returns the steps between the levels before and after the path stored packets: a packet suddenly waits, later
/// packets wait less and less, until the delay stays at another level. [`steps`] does not find a step if many packets
/// are between the two levels.
pub fn after_storing(delays: &Delays<'_>, blocks: &Blocks, noise: DelayNoise) -> Vec<LevelStep> {
    let n = delays.len();
    let mut found: Vec<LevelStep> = Vec::new();
    let mut k = 1;
    while k < n && found.len() < MAX_STORED {
        let block = (k / blocks.size).min(blocks.len() - 1);
        if blocks.max[block].saturating_sub(blocks.min[block.saturating_sub(1)]) < MIN_STORED_NS {
            k = ((block + 1) * blocks.size).max(k + 1);
            continue;
        }
        let peak = delays.excess(k).saturating_sub(delays.excess(k - 1));
        if peak < MIN_STORED_NS {
            k += 1;
            continue;
        }
        let is_recent =
            |j: &usize| (0..MAX_STORED_NS).contains(&delays.time(*j).saturating_sub(delays.time(k)));
        let lowest = delays.excess(k - 1).saturating_add(peak / 3);
        let recent = || (k..n).take(MAX_STORED_PACKETS).take_while(is_recent);
        let Some(low) = recent().find(|j| delays.excess(*j) < lowest) else {
            // The searched packets are not examined again, or the time would be quadratic.
            k += recent().count().max(1);
            continue;
        };
        // The delay falls to the level at which later packets stay.
        let around = (low + LEVEL_PACKETS..low + 3 * LEVEL_PACKETS, k.saturating_sub(2 * LEVEL_PACKETS)..k);
        let level = |range: &core::ops::Range<usize>| {
            let at = |share| delays.quantile(range.start, range.end.min(n), share);
            Some((at(0.5)?, at(0.9)?.saturating_sub(at(0.1)?)))
        };
        if around.0.end <= n
            && around.1.len() >= LEVEL_PACKETS
            && let (Some((after, wide)), Some((before, narrow))) = (level(&around.0), level(&around.1))
        {
            let change = after.saturating_sub(before);
            let size = change.saturating_abs();
            let near = after.saturating_add(noise.p90).saturating_add(size / 4);
            let place = (low..around.0.start).find(|j| delays.excess(*j) <= near).unwrap_or(low);
            if size > MIN_STEP_NS.max(noise.p90) && size > wide.max(narrow) && size < peak / 3 {
                found.push(LevelStep { place, change, ramp: place - k, spread: [narrow, wide] });
            }
        }
        k = low + 1;
    }
    found
}

/// Maximum number of times that a path stores packets.
const MAX_STORED: usize = 8;
/// Maximum number of packets that are sent while a path stores packets. It limits the work if a peer makes up send times.
const MAX_STORED_PACKETS: usize = 1 << 16;
/// Maximum time for which a path stores packets, in ns.
const MAX_STORED_NS: i64 = 5_000_000_000;
/// Half the number of packets that show a level.
const LEVEL_PACKETS: usize = 30;

/// Returns the length of the slots in which a link forwards packets, in ns; `None` unless the smallest delays slide
/// along a line and then slip by one slot.
pub fn slipped_slot(delays: &Delays<'_>, blocks: &Blocks, noise: DelayNoise) -> Option<i64> {
    let n = delays.len();
    let groups = Groups::of(blocks, n)?;
    let time: Vec<f64> =
        (0..groups.min.len()).map(|g| delays.time(groups.place(g, blocks, n)) as f64).collect();
    slots::slipped(&time, &groups.min).or_else(|| {
        let min: Vec<f64> = groups.min.iter().map(|m| *m as f64).collect();
        let line = broken_line(&time, &min, noise).filter(BrokenLine::may_be_slip)?;
        Some(line.range as i64)
    })
}

/// Returns the drift of the smallest delay; `None` unless the smallest delay follows one straight line during the whole
/// test, which it does if the clocks run at different rates. A single line that is steeper than `most` does not count.
pub fn drift(delays: &Delays<'_>, blocks: &Blocks, noise: DelayNoise, most: f64) -> Option<Drift> {
    let n = delays.len();
    let groups = Groups::of(blocks, n)?;
    // The position of the smallest delay within its group is ignored, because groups are short.
    let time: Vec<f64> =
        (0..groups.min.len()).map(|g| delays.time(groups.place(g, blocks, n)) as f64).collect();
    let min: Vec<f64> = groups.min.iter().map(|m| *m as f64).collect();
    let k = min.len();
    let duration = time[k - 1] - time[0];
    if duration <= 0.0 {
        return None;
    }
    // The median slope fails if queues cover most of the test, the lower slope if one covers an end.
    let slopes = [median_slope(&time, &min, k / 4), lower_slope(&time, &min)];
    // One line fits two parallel lines badly, but not always too badly.
    let broken = broken_line(&time, &min, noise).filter(|line| !line.may_be_slip());
    broken
        .map(|line| line.drift)
        .or_else(|| slopes.into_iter().flatten().find_map(|slope| line((slope, most), &time, &min, noise)))
}

/// Minimum size of the step between two parallel lines, relative to the scatter around them.
const MIN_BREAK: f64 = 8.0;
/// Minimum share of the smallest delays that are near the one or the other of two parallel lines.
const MIN_NEAR: f64 = 0.9;

/// Two parallel lines with one step between them.
struct BrokenLine {
    drift: Drift,
    step: f64,
    /// Difference between the largest and the smallest of the delays, in ns.
    range: f64,
}

impl BrokenLine {
    /// Returns true if these may be the lines of a link whose slots slide and slip once.
    fn may_be_slip(&self) -> bool {
        self.drift.rate * self.step < 0.0
            && self.range < 1.5 * self.step.abs()
            && slots::may_slip(self.drift.rate, self.step.abs())
    }
}

/// Returns the two parallel lines that the smallest delays `min` follow: for example, the route changed once while the
/// clocks drifted apart. `None` if they do not follow such lines.
fn broken_line(time: &[f64], min: &[f64], noise: DelayNoise) -> Option<BrokenLine> {
    let k = min.len();
    let edge = (k / 8).max(4);
    let first = median_slope(time, min, (k / 6).max(2))?;
    let residual = |slope: f64, i: usize| min[i] - slope * time[i];
    let middle =
        |slope: f64, part: core::ops::Range<usize>| median(part.map(|i| residual(slope, i)).collect());
    let step_at =
        |slope: f64, at: usize| Some(middle(slope, at..(at + edge).min(k))? - middle(slope, at - edge..at)?);
    let at = (edge..=k - edge).max_by(|a, b| {
        let size = |at: usize| step_at(first, at).map_or(0.0, f64::abs);
        size(*a).total_cmp(&size(*b))
    })?;
    // The slope that both lines have in common, without the groups around the step.
    let parts = [0..at.saturating_sub(1), (at + 1).min(k)..k];
    let slope_of = |part: &core::ops::Range<usize>| {
        median_slope(&time[part.clone()], &min[part.clone()], (part.len() / 2).max(1))
    };
    let [before, after] = [slope_of(&parts[0])?, slope_of(&parts[1])?];
    let lengths = parts.each_ref().map(|part| (part.len() as f64).powi(3));
    let slope = (before * lengths[0] + after * lengths[1]) / (lengths[0] + lengths[1]);
    let levels = [middle(slope, parts[0].clone())?, middle(slope, parts[1].clone())?];
    let step = levels[1] - levels[0];
    let level = |i: usize| if i < at { levels[0] } else { levels[1] };
    let rest: Vec<f64> = (0..k).map(|i| residual(slope, i) - level(i)).collect();
    let scatter = spread(&rest).max(1000.0);
    let duration = time[k - 1] - time[0];
    let total = (slope * duration).abs();
    let range = {
        let [low, high] = [f64::min, f64::max].map(|of| min.iter().copied().reduce(of).unwrap_or(0.0));
        high - low
    };
    let agree = |of: f64, part: &core::ops::Range<usize>| {
        let lasts = time[part.end - 1] - time[part.start];
        (of - slope).abs() <= 0.25 * slope.abs() + 3.0 * scatter / lasts
    };
    let near = rest.iter().filter(|rest| rest.abs() <= 2.0 * scatter).count();
    let is_clear = step.abs() >= (MIN_BREAK * scatter).max(MIN_STEP_NS as f64)
        && total >= (4.0 * scatter).max(20_000.0).max(0.5 * noise.median as f64)
        && near as f64 >= MIN_NEAR * k as f64;
    if !is_clear || slope.abs() > MAX_DRIFT || !agree(before, &parts[0]) || !agree(after, &parts[1]) {
        return None;
    }
    let points: Vec<(f64, f64)> = (0..k)
        .filter(|i| rest[*i].abs() <= 2.0 * scatter && (*i + 1 < at || *i > at))
        .map(|i| (time[i], min[i] - level(i)))
        .collect();
    Some(BrokenLine { drift: Drift { rate: slope, error: error(&points, slope) }, step, range })
}

/// Returns the drift of the smallest delays `min` along a line with about this `slope`; `None` unless nearly all of
/// them, or some in every part of the test, are on the line. A line that is steeper than the clocks of hosts allow, but not
/// steeper than `most`, must be followed all the time.
fn line((slope, most): (f64, f64), time: &[f64], min: &[f64], noise: DelayNoise) -> Option<Drift> {
    let k = min.len();
    let duration = time[k - 1] - time[0];
    if slope.abs() > most {
        return None;
    }
    // Residuals of the line.
    let rest: Vec<f64> = min.iter().zip(time).map(|(m, t)| m - slope * t).collect();
    let scatter = spread(&rest);
    let total = (slope * duration).abs();
    if total < 20_000.0 || total < 0.5 * noise.median as f64 {
        return None;
    }
    let third = k / 3;
    let straight = |i: usize| {
        let part = i * third..(i + 1) * third;
        // A third of the test determines its slope less precisely than the whole test.
        let error = 3.0 * scatter / (duration / 3.0);
        median_slope(&time[part.clone()], &min[part], (third / 2).max(1))
            .is_some_and(|s| (s - slope).abs() <= 0.25 * slope.abs() + error)
    };
    let whole = total >= 3.0 * scatter && spread(min) >= 2.0 * scatter && (0..3).all(straight);
    if slope.abs() > MAX_DRIFT && !whole {
        return None;
    }
    // The line passes through the lowest residuals, or through the middle ones; points near it belong to it.
    let mut sorted = rest.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let (centre, width) = if whole {
        (sorted[k / 2], 1.5 * scatter.max(1000.0))
    } else {
        (sorted[k / 50], (total / 8.0).min((2 * noise.median).max(20_000) as f64))
    };
    let near = |i: &usize| (rest[*i] - centre).abs() <= width;
    if !whole {
        let parts: Vec<usize> = (0..k).filter(near).map(|i| 5 * i / k).collect();
        let count = |part: usize| parts.iter().filter(|p| **p == part).count();
        let ends = count(0) * 20 >= k && count(4) * 20 >= k;
        // The line needs points at both ends and in between: otherwise a single step would also fit.
        if !ends || parts.len() * 4 < k || (1..4).filter(|p| count(*p) * 50 >= k).count() < 1 {
            return None;
        }
    }
    let points: Vec<(f64, f64)> = (0..k).filter(near).map(|i| (time[i], min[i])).collect();
    let count = points.len() as f64;
    let (mean_t, mean_m) =
        (points.iter().map(|p| p.0).sum::<f64>() / count, points.iter().map(|p| p.1).sum::<f64>() / count);
    let sxy: f64 = points.iter().map(|p| (p.0 - mean_t) * (p.1 - mean_m)).sum();
    let sxx: f64 = points.iter().map(|p| (p.0 - mean_t).powi(2)).sum();
    let rate = (sxx > 0.0).then(|| sxy / sxx).filter(|s| s.abs() <= most)?;
    Some(Drift { rate, error: error(&points, rate) })
}

/// Returns half of the width of the 95 % interval of the slope `rate` of a line through `points`. Residuals of
/// neighbouring points are correlated, so the points count as fewer independent ones.
fn error(points: &[(f64, f64)], rate: f64) -> f64 {
    let n = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (mean_t, mean_m) = (mean(&|p| p.0), mean(&|p| p.1));
    let rest: Vec<f64> = points.iter().map(|p| p.1 - mean_m - rate * (p.0 - mean_t)).collect();
    let variance = rest.iter().map(|r| r * r).sum::<f64>();
    let next = rest.windows(2).map(|w| w[0] * w[1]).sum::<f64>();
    // Correlated residuals make the slope less certain than the same number of independent ones.
    let correlation = (next / variance.max(1.0)).clamp(0.0, 0.98);
    let independent = (n * (1.0 - correlation) / (1.0 + correlation)).max(3.0);
    let sxx = points.iter().map(|p| (p.0 - mean_t).powi(2)).sum::<f64>();
    2.0 * (variance / n / (sxx / n) / (independent - 2.0)).sqrt()
}

/// Rate at which two clocks drift apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Rate of the receiving clock relative to the sending one, minus 1.
    pub rate: f64,
    /// Half of the width of the 95 % interval of `rate`.
    pub error: f64,
}

/// Returns the slope of the line through two points: the mean of the lower half of the values in the first fifth of the
/// test, and in the last fifth. This line fits a path that has no queue at either end of the test.
fn lower_slope(time: &[f64], value: &[f64]) -> Option<f64> {
    let k = value.len();
    let fifth = (k / 5).max(2);
    let middle = |part: core::ops::Range<usize>| {
        let mut points: Vec<(f64, f64)> = part.map(|i| (value[i], time[i])).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Use the lower half to exclude noise and queues.
        let half = &points[..points.len().div_ceil(2)];
        let n = half.len() as f64;
        (half.iter().map(|p| p.1).sum::<f64>() / n, half.iter().map(|p| p.0).sum::<f64>() / n)
    };
    let ((t0, v0), (t1, v1)) = (middle(0..fifth), middle(k - fifth..k));
    (t1 > t0).then(|| (v1 - v0) / (t1 - t0))
}

/// Returns the median of the slopes between points `lag` apart. Steps and queues that last for less than a third of the
/// time do not affect it. `None` without such points.
pub fn median_slope(time: &[f64], value: &[f64], lag: usize) -> Option<f64> {
    let slopes = (lag..time.len()).filter_map(|i| {
        let t = time[i] - time[i - lag];
        (t > 0.0).then(|| (value[i] - value[i - lag]) / t)
    });
    median(slopes.collect())
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    values.sort_unstable_by(f64::total_cmp);
    values.get(middle).copied()
}

/// Returns the difference between the 90th and the 10th percentile.
fn spread(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    sorted[n - 1 - n / 10] - sorted[n / 10]
}

#[cfg(test)]
mod tests;

//! [`Delays`]: the delays of one direction in send order, corrected for clocks and route changes. [`Blocks`]: groups of
//! consecutive packets.

use super::slew::Slew;
use jitlat_core::evidence::bounded;
use jitlat_core::metrics::classify::AcceptedPacket;
use jitlat_core::metrics::series::Series;
use std::ops::Range;

/// Maximum number of blocks into which a series is divided.
const MAX_BLOCKS: usize = 1 << 15;
/// Minimum number of packets per block.
const MIN_BLOCK_PACKETS: usize = 4;
/// Factor by which a gap between packets may exceed the 98th percentile of all gaps; longer gaps are clamped.
const MAX_GAP_FACTOR: i64 = 20;
/// Approximate number of packets, or of pairs of neighbouring packets, that are sampled from a long series.
const MAX_PAIRS: usize = 4096;

/// Delays in send order. The packets are not copied; corrections are computed packet by packet.
#[derive(Clone, Debug)]
pub struct Delays<'a> {
    series: &'a Series<'a>,
    first_sent: i64,
    first_delay: i64,
    /// Accumulated clock steps, by index in ascending order.
    shifts: Vec<ClockShift>,
    /// Rate of the receiving clock relative to the sending one, minus 1.
    skew: f64,
    /// Adjustment of a clock during the test; `None` if no clock was adjusted.
    slew: Option<Slew>,
    /// Lasting changes of the smallest delay, ascending: index of the packet and the new smallest delay in ns.
    levels: Vec<(usize, i64)>,
    /// Packets that a host sent or read late, as ascending, disjoint ranges of indices. They do not count in the
    /// verdict on the path.
    aside: Vec<Range<usize>>,
    pace: SendPattern,
}

/// Observed pattern in which packets were sent, which may differ from the configured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendPattern {
    /// Single packets at about even intervals.
    Even,
    /// Bursts of this many packets.
    Bursts(usize),
    /// Single packets at varying intervals.
    Varied,
}

/// Sum of all clock steps before a packet. It applies from this packet on.
#[derive(Clone, Copy, Debug)]
struct ClockShift {
    /// Index of the packet in send order.
    place: usize,
    /// Amount added to delays, in ns.
    delay: i64,
    /// Amount added to send times, in ns.
    time: i64,
}

/// Absolute differences in delay between neighbouring packets, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct DelayNoise {
    /// Median of the differences.
    pub median: i64,
    /// 90th percentile of the differences.
    pub p90: i64,
}

/// Smallest and largest delay of each block of `size` packets.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    /// Packets per block.
    pub size: usize,
    /// Smallest delay of each block, in ns.
    pub min: Vec<i64>,
    /// Largest delay of each block, in ns.
    pub max: Vec<i64>,
}

impl<'a> Delays<'a> {
    /// Returns the delays of `series`, without any correction.
    pub fn new(series: &'a Series<'a>) -> Delays<'a> {
        let (first_sent, first_delay) = if series.is_empty() { (0, 0) } else { series.times(0) };
        let mut delays = Delays {
            series,
            first_sent,
            first_delay,
            shifts: Vec::new(),
            skew: 0.0,
            slew: None,
            levels: Vec::new(),
            aside: Vec::new(),
            pace: SendPattern::Even,
        };
        delays.pace = delays.find_pace();
        delays
    }

    /// Returns the pattern in which the packets were sent.
    pub fn pace(&self) -> SendPattern {
        self.pace
    }

    fn find_pace(&self) -> SendPattern {
        let n = self.len();
        let step = (n / MAX_PAIRS).max(1);
        // Gaps are only measured between packets with consecutive numbers.
        let gap = |k: usize| {
            let (a, b) = (self.series.get(k - 1), self.series.get(k));
            (b.seq == a.seq + 1).then(|| b.sent.saturating_sub(a.sent))
        };
        let mut gaps: Vec<i64> = (1..n).step_by(step).filter_map(gap).collect();
        if gaps.len() < 20 {
            return SendPattern::Even;
        }
        let count = gaps.len() as f64;
        let is_close = |gap: i64, mean: f64| (gap as f64) < 0.05 * mean;
        if let Some(size) = self.truncated_bursts(step, is_close) {
            return SendPattern::Bursts(size);
        }
        // A clock step or a long stall appears as one enormous gap.
        let [most] = at_shares(&mut gaps, [98]);
        let longest = most.saturating_abs().saturating_mul(MAX_GAP_FACTOR).max(1);
        let usual = |gap: i64| if most == 0 { gap } else { gap.clamp(-longest, longest) };
        let mean = gaps.iter().map(|gap| usual(*gap) as f64).sum::<f64>() / count;
        let together = gaps.iter().filter(|gap| is_close(**gap, mean)).count() as f64 / count;
        if together > 0.1 {
            let size = 1.0 / (1.0 - together).max(1e-3);
            // A few long bursts are not a pattern: the program caught up after a stall.
            let close = |k: usize| k < n && gap(k).is_some_and(|gap| is_close(gap, mean));
            let begins = (1..n).step_by(step).filter(|k| close(*k) && (*k == 1 || !close(k - 1)));
            let runs = begins.count().max(1) as f64;
            let run = together * count / runs;
            if run > 4.0 * size + 10.0 {
                gaps.retain(|gap| !is_close(*gap, mean));
            } else if together > 0.35 {
                return SendPattern::Bursts(size.round() as usize);
            }
        }
        let mean = gaps.iter().map(|gap| usual(*gap) as f64).sum::<f64>() / gaps.len().max(1) as f64;
        let [low, high] = at_shares(&mut gaps, [20, 80]);
        if high as f64 - low as f64 > 0.5 * mean { SendPattern::Varied } else { SendPattern::Even }
    }

    /// Returns the number of packets per burst if the last packets of most bursts were lost, so that few packets with
    /// consecutive numbers are in different bursts; `None` otherwise. `is_close` returns true if two packets were
    /// sent together, given the time between them and the mean time per packet.
    fn truncated_bursts(&self, step: usize, is_close: impl Fn(i64, f64) -> bool) -> Option<usize> {
        let n = self.len();
        let between = |k: usize, lag: usize| {
            let (a, b) = (self.series.get(k - lag), self.series.get(k));
            (b.seq.saturating_sub(a.seq), b.sent.saturating_sub(a.sent))
        };
        // A clock that was set or a stall affects few of these distances.
        let mut each: Vec<i64> = (64..n)
            .step_by(step)
            .map(|k| between(k, 64))
            .map(|(packets, time)| time / i64::from(packets.max(1)))
            .collect();
        let [each] = at_shares(&mut each, [50]);
        let mut counts = [0u64; 4];
        for k in (1..n).step_by(step) {
            let (packets, time) = between(k, 1);
            let (close, next) = (is_close(time, each as f64), packets == 1);
            counts[usize::from(!close) * 2 + usize::from(next)] += 1;
        }
        let [_, together, after_loss, apart] = counts;
        let bursts = after_loss + apart;
        let span = between(n - 1, n - 1).0;
        let size = f64::from(span) / step as f64 / bursts.max(1) as f64;
        let is_truncated = each > 0 && together > 2 * bursts && after_loss > 4 * apart && bursts >= 20;
        (is_truncated && size >= 2.0).then_some(size.round() as usize)
    }

    /// Returns the number of packets per burst; 1 without bursts. Packets of a burst are treated together, because they
    /// are delayed or lost together.
    pub fn together(&self) -> usize {
        if let SendPattern::Bursts(size) = self.pace { size } else { 1 }
    }

    /// Returns the number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Returns the uncorrected series.
    pub fn series(&self) -> &'a Series<'a> {
        self.series
    }

    /// Returns the sequence number of the k-th packet.
    pub fn seq(&self, k: usize) -> u64 {
        self.series.get(k).seq.into()
    }

    /// Returns the send time of the k-th packet relative to the first, in ns, corrected for clock steps.
    #[inline]
    pub fn time(&self, k: usize) -> i64 {
        self.time_of(k, self.series.times(k).0)
    }

    /// Returns the send time of the k-th packet as in [`Delays::time`], given its uncorrected send time `sent`.
    #[inline]
    fn time_of(&self, k: usize, sent: i64) -> i64 {
        let t = sent.saturating_sub(self.first_sent);
        let t = if self.shifts.is_empty() { t } else { t.saturating_sub(self.shift(k).1) };
        bounded(t)
    }

    /// Calls `each` with the [`Delays::time`] of each packet in `range`. Faster than one call of `time` per packet.
    pub fn each_time(&self, range: Range<usize>, mut each: impl FnMut(i64)) {
        self.series.range(range.clone()).fold(range.start, |k, packet| {
            each(self.time_of(k, packet.sent));
            k + 1
        });
    }

    /// Returns [`Delays::time`] in seconds.
    pub fn seconds(&self, k: usize) -> f64 {
        self.time(k) as f64 / 1e9
    }

    /// Returns the delay of the k-th packet minus that of the first packet, in ns, corrected for clock steps and skew.
    #[inline]
    pub fn delay(&self, k: usize) -> i64 {
        let (sent, delay) = self.series.times(k);
        self.adjusted(sent, delay, self.shift(k))
    }

    /// Corrects the `delay` of a packet sent at `sent` for skew and for clock steps, which added `shift` to delays and
    /// to send times. Returns the corrected delay minus the first packet's delay, in ns.
    #[inline]
    fn adjusted(&self, sent: i64, delay: i64, shift: (i64, i64)) -> i64 {
        let mut delay = delay.saturating_sub(self.first_delay).saturating_sub(shift.0);
        if self.drifts() {
            let since = sent.saturating_sub(self.first_sent).saturating_sub(shift.1);
            let slewed = self.slew.as_ref().map_or(0, |slew| slew.at(since));
            delay = delay.saturating_sub((self.skew * since as f64) as i64).saturating_sub(slewed);
        }
        bounded(delay)
    }

    /// Returns the delay of the k-th packet minus the smallest delay of its route if that is known, in ns.
    #[inline]
    pub fn excess(&self, k: usize) -> i64 {
        self.delay(k).saturating_sub(self.level(k))
    }

    /// Returns the arrival time of the k-th packet, in ns, on the scale of [`Delays::time`] plus an unknown constant.
    pub fn arrival(&self, k: usize) -> i64 {
        self.time(k).saturating_add(self.delay(k))
    }

    #[inline]
    fn shift(&self, k: usize) -> (i64, i64) {
        if self.shifts.is_empty() {
            return (0, 0);
        }
        let after = self.shifts.partition_point(|s| s.place <= k);
        after.checked_sub(1).map_or((0, 0), |i| (self.shifts[i].delay, self.shifts[i].time))
    }

    #[inline]
    fn level(&self, k: usize) -> i64 {
        if let [(0, level)] = self.levels[..] {
            return level;
        }
        let after = self.levels.partition_point(|l| l.0 <= k);
        after.checked_sub(1).map_or(0, |i| self.levels[i].1)
    }

    /// Returns true if different packets are corrected by different amounts.
    pub fn is_adjusted(&self) -> bool {
        !self.shifts.is_empty() || self.drifts() || self.levels.len() > 1
    }

    /// Returns true if a clock was set.
    pub fn has_shifts(&self) -> bool {
        !self.shifts.is_empty()
    }

    /// Sets a clock step at index `place`, which adds `delay` to later delays and `time` to later send times, in ns.
    pub fn set_shift(&mut self, place: usize, delay: i64, time: i64) {
        let at = self.shifts.partition_point(|s| s.place <= place);
        let before = at.checked_sub(1).map_or((0, 0), |i| (self.shifts[i].delay, self.shifts[i].time));
        self.shifts.insert(at, ClockShift { place, delay: before.0, time: before.1 });
        for shift in &mut self.shifts[at..] {
            shift.delay = shift.delay.saturating_add(delay);
            shift.time = shift.time.saturating_add(time);
        }
    }

    /// Sets the rate at which the clocks drift apart.
    pub fn set_skew(&mut self, skew: f64) {
        self.skew = skew;
    }

    /// Sets the adjustment of a clock.
    pub fn set_slew(&mut self, slew: Slew) {
        self.slew = Some(slew);
    }

    /// Returns the time by which the clocks drift apart during the test, in ns.
    pub fn drift(&self) -> f64 {
        let last = self.len().checked_sub(1).map_or(0, |last| self.time(last));
        self.skew * last as f64 + self.slew.as_ref().map_or(0, Slew::change) as f64
    }

    /// Returns true if the rates of the clocks differ at any time.
    #[inline]
    fn drifts(&self) -> bool {
        self.skew != 0.0 || self.slew.is_some()
    }

    /// Sets aside packets that do not count in the verdict on the path: ascending, disjoint ranges of indices.
    pub fn set_aside(&mut self, aside: Vec<Range<usize>>) {
        self.aside = aside;
    }

    /// Returns true if packet `k` is set aside.
    pub fn is_aside(&self, k: usize) -> bool {
        let after = self.aside.partition_point(|range| range.end <= k);
        self.aside.get(after).is_some_and(|range| range.contains(&k))
    }

    /// Returns the parts of `range` that are not set aside.
    fn counted(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let mut from = range.start;
        let first = self.aside.partition_point(|aside| aside.end <= range.start);
        let mut aside = self.aside[first..].iter().take_while(move |aside| aside.start < range.end);
        std::iter::from_fn(move || {
            while from < range.end {
                let next = aside.next();
                let part = from..next.map_or(range.end, |aside| aside.start);
                from = next.map_or(range.end, |aside| aside.end);
                if !part.is_empty() {
                    return Some(part);
                }
            }
            None
        })
    }

    /// Sets the smallest delay of a path that has no route changes, in ns.
    pub fn set_level(&mut self, least: i64) {
        self.levels = vec![(0, least)];
    }

    /// Computes the smallest delay of each route. `places` contains the indices of the routes' first packets, ascending
    /// from 0.
    pub fn set_levels(&mut self, places: &[usize]) {
        self.levels.clear();
        let ends = places.iter().skip(1).copied().chain([self.len()]);
        let levels =
            places.iter().zip(ends).filter_map(|(&from, to)| Some((from, self.extremes(from..to)?.0)));
        self.levels = levels.collect();
    }

    /// Calls `each` with the index and the lateness, in ns, of each packet relative to a schedule of one packet every
    /// `period` ns from the first packet on.
    pub fn each_off_schedule(&self, period: i64, mut each: impl FnMut(usize, i64)) {
        self.series.iter().fold(0, |k, packet| {
            each(k, self.off_schedule_of(k, packet, period));
            k + 1
        });
    }

    /// Returns the lateness of the k-th packet, as in [`Delays::each_off_schedule`].
    pub fn off_schedule(&self, k: usize, period: i64) -> i64 {
        self.off_schedule_of(k, self.series.get(k), period)
    }

    #[inline]
    fn off_schedule_of(&self, k: usize, packet: AcceptedPacket, period: i64) -> i64 {
        let due = period.saturating_mul(packet.seq.into());
        bounded(self.time_of(k, packet.sent).saturating_sub(due))
    }

    /// Returns the smallest and the largest excess of the packets in `range`; `None` without packets.
    fn extremes(&self, range: Range<usize>) -> Option<(i64, i64)> {
        if self.drifts() {
            let (mut low, mut high) = (i64::MAX, i64::MIN);
            self.each_excess(range, |_, x| (low, high) = (low.min(x), high.max(x)));
            return (low <= high).then_some((low, high));
        }
        if self.shifts.is_empty() && self.levels.len() <= 1 {
            let level = self.level(range.start);
            let excess = |delay| self.adjusted(0, delay, (0, 0)).saturating_sub(level);
            return self.series.extreme_delays(range).map(|[low, high]| (excess(low), excess(high)));
        }
        let mut found: Option<(i64, i64)> = None;
        for stretch in self.stretches(range) {
            // A constant correction preserves the order of delays.
            let (shift, level) = (self.shift(stretch.start), self.level(stretch.start));
            let excess = |delay| self.adjusted(0, delay, shift).saturating_sub(level);
            let [low, high] = self.series.extreme_delays(stretch)?.map(excess);
            found = Some(found.map_or((low, high), |(least, most)| (least.min(low), most.max(high))));
        }
        found
    }

    /// Calls `each` with the index and the [`Delays::excess`] of each packet in `range`. Faster than one call of
    /// `excess` per packet.
    pub fn each_excess(&self, range: Range<usize>, mut each: impl FnMut(usize, i64)) {
        for stretch in self.stretches(range) {
            let (shift, level) = (self.shift(stretch.start), self.level(stretch.start));
            self.series.range(stretch.clone()).fold(stretch.start, |k, p| {
                each(k, self.adjusted(p.sent, p.delay, shift).saturating_sub(level));
                k + 1
            });
        }
    }

    /// Returns the parts of `range` within which clock steps and routes change all delays by the same amount.
    fn stretches(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let mut from = range.start;
        std::iter::from_fn(move || {
            if from >= range.end {
                return None;
            }
            let shift = self.shifts.partition_point(|s| s.place <= from);
            let level = self.levels.partition_point(|l| l.0 <= from);
            let ends = [self.shifts.get(shift).map(|s| s.place), self.levels.get(level).map(|l| l.0)];
            let to = ends.into_iter().flatten().fold(range.end, usize::min);
            Some(std::mem::replace(&mut from, to)..to)
        })
    }

    /// Divides the series into blocks.
    pub fn blocks(&self) -> Blocks {
        let n = self.len();
        // A block contains two bursts, because delays differ systematically within a burst.
        let size = n.div_ceil(MAX_BLOCKS).max(MIN_BLOCK_PACKETS).max((2 * self.together()).min(n / 8));
        let mut blocks =
            Blocks { size, min: Vec::with_capacity(n / size + 1), max: Vec::with_capacity(n / size + 1) };
        let mut at = 0;
        let mut unknown = Vec::new();
        while at + size <= n || at == 0 {
            // The last block also contains the remaining packets.
            let end = if at + 2 * size > n { n } else { at + size };
            let parts = self.counted(at..end).filter_map(|part| self.extremes(part));
            let counted = parts.reduce(|(low, high), (least, most)| (low.min(least), high.max(most)));
            if counted.is_none() && self.aside.is_empty() {
                break;
            }
            if counted.is_none() {
                unknown.push(blocks.min.len());
            }
            let (low, high) = counted.unwrap_or((i64::MAX, i64::MIN));
            blocks.min.push(low);
            blocks.max.push(high);
            at = end;
        }
        blocks.assume(&unknown);
        blocks
    }

    /// Returns the delay differences between neighbouring packets, sampled over the whole series.
    pub fn noise(&self) -> DelayNoise {
        let n = self.len();
        let step = (n / MAX_PAIRS).max(1);
        let apart = self.together();
        let differ = |a: i64, b: i64| a.saturating_sub(b).saturating_abs();
        let mut pairs: Vec<i64> = if step == 1 {
            let mut all = Vec::with_capacity(n);
            self.each_excess(0..n, |_, excess| all.push(excess));
            all.iter().zip(all.iter().skip(apart)).map(|(a, b)| differ(*a, *b)).collect()
        } else {
            (apart..n).step_by(step).map(|k| differ(self.excess(k), self.excess(k - apart))).collect()
        };
        let [median, p90] = at_shares(&mut pairs, [50, 90]);
        DelayNoise { median, p90 }
    }

    /// Returns the delay differences between neighbouring packets, sampled in the half of `blocks` with the lowest
    /// delays: in a queue, neighbouring packets may differ more.
    pub fn calm_noise(&self, blocks: &Blocks) -> DelayNoise {
        let (n, apart) = (self.len(), self.together());
        let mut lows = blocks.min.clone();
        let middle = lows.len() / 2;
        if lows.len() < 4 {
            return self.noise();
        }
        let limit = *lows.select_nth_unstable(middle).1;
        let step = (n / MAX_PAIRS).max(1);
        let is_low = |k: usize| blocks.min[(k / blocks.size).min(blocks.min.len() - 1)] <= limit;
        let pairs = (apart..n).step_by(step).filter(|k| is_low(*k) && is_low(k - apart));
        let mut pairs: Vec<i64> =
            pairs.map(|k| self.excess(k).saturating_sub(self.excess(k - apart)).saturating_abs()).collect();
        let [median, p90] = at_shares(&mut pairs, [50, 90]);
        DelayNoise { median, p90 }
    }

    /// Returns the `share` quantile (0…1) of the excess of the packets from index `from` up to but not including `to`.
    /// Long ranges are sampled. `None` without packets.
    pub fn quantile(&self, from: usize, to: usize, share: f64) -> Option<i64> {
        let to = to.min(self.len());
        let step = (to.saturating_sub(from) / MAX_PAIRS).max(1);
        let mut some = Vec::with_capacity(to.saturating_sub(from).div_ceil(step));
        if step == 1 {
            self.each_excess(from..to, |_, x| some.push(x));
        } else {
            some.extend((from..to).step_by(step).map(|k| self.excess(k)));
        }
        let at = ((some.len() as f64 * share) as usize).min(some.len().checked_sub(1)?);
        Some(*some.select_nth_unstable(at).1)
    }
}

/// Returns the percentiles of `values` at `shares`, which are ascending percentages; 0 without values. Reorders
/// `values`.
pub fn at_shares<const N: usize>(values: &mut [i64], shares: [usize; N]) -> [i64; N] {
    let mut from = 0;
    shares.map(|share| {
        let place = values.len() * share / 100;
        if place >= values.len() {
            return 0;
        }
        let (_, value, _) = values[from..].select_nth_unstable(place - from);
        from = place;
        *value
    })
}

/// Number of blocks on either side from which the smallest delay of a block without usable packets is estimated.
const ASSUMED_BLOCKS: usize = 8;

impl Blocks {
    /// Sets the blocks at `unknown`, all of whose packets are set aside, to the smallest delay of the blocks around
    /// them.
    fn assume(&mut self, unknown: &[usize]) {
        for run in unknown.chunk_by(|a, b| a + 1 == *b) {
            let (first, last) = (run[0], run[run.len() - 1]);
            let before = first.saturating_sub(ASSUMED_BLOCKS)..first;
            let after = (last + 1)..(last + 1 + ASSUMED_BLOCKS).min(self.len());
            let low = before.chain(after).map(|b| self.min[b]).min().filter(|low| *low < i64::MAX);
            for b in first..=last {
                (self.min[b], self.max[b]) = (low.unwrap_or(0), low.unwrap_or(0));
            }
        }
    }

    /// Returns the number of blocks.
    pub fn len(&self) -> usize {
        self.min.len()
    }

    /// Subtracts the smallest delay of all blocks from each block and returns it.
    pub fn lower_to_0(&mut self) -> i64 {
        let least = self.min.iter().copied().min().unwrap_or(0);
        self.min.iter_mut().chain(&mut self.max).for_each(|x| *x = x.saturating_sub(least));
        least
    }

    /// Returns the index of the first packet of block `b`, or `packets`, the length of the series, if `b` is after the
    /// last block.
    pub fn place(&self, b: usize, packets: usize) -> usize {
        if b >= self.len() { packets } else { b * self.size }
    }

    /// Returns the smallest delays of about `wanted` equal groups of blocks, and the number of blocks per group.
    pub fn grouped(&self, wanted: usize) -> (Vec<i64>, usize) {
        let each = (self.len() / wanted).max(1);
        let groups = self.min.chunks(each).map(|g| g.iter().copied().min().unwrap_or(0));
        (groups.collect(), each)
    }
}

#[cfg(test)]
mod tests;

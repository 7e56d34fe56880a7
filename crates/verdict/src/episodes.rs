//! [`Episodes`]: periods with long delays. Either a queue fills and drains, or packets are held and released together.

use super::delays::{Blocks, DelayNoise, Delays, SendPattern};

/// A period during which every packet waited in a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Episode {
    /// Index in send order of the first packet that waited.
    pub from: usize,
    /// Index in send order of the packet after the last that waited.
    pub to: usize,
    /// 95th percentile of the waits, measured from the smallest delay of the whole test, in ns.
    pub height: i64,
    /// Number of episodes that this one represents.
    pub count: u64,
}

/// A period during which nothing arrived and after which several packets arrived at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hold {
    /// Index in send order of the first packet that was held.
    pub from: usize,
    /// Index in send order of the packet after the last that was held.
    pub to: usize,
    /// Wait of the first held packet, in ns.
    pub length: i64,
}

/// Periods of a test with unusual delays.
#[derive(Clone, Debug, Default)]
pub struct Episodes {
    /// Queues: ascending, disjoint.
    pub queues: Vec<Episode>,
    /// Holds that are not queues, in ascending order.
    pub holds: Vec<Hold>,
    /// Longest usual wait, in ns: the third largest of the blocks' longest waits, excluding queues and long holds.
    pub tail: i64,
}

/// Minimum height of a queue, in ns. Hosts and links alone cause smaller waits; Y.1541 allows ten times as much.
const MIN_QUEUE_NS: i64 = 5_000_000;

/// Minimum duration of a queue, in ns: several round trips.
const MIN_EPISODE_NS: i64 = 100_000_000;
/// Minimum duration of a queue that may be lower than single waits elsewhere, in ns.
const MIN_CLEAR_NS: i64 = 1_000_000_000;
/// Minimum duration, in ns, and minimum number of packets of a queue that clearly fills and drains.
const MIN_HILL: (i64, usize) = (30_000_000, 8);

impl Episodes {
    /// Finds the episodes in `delays`, which are divided into `blocks`. `noise` describes the differences between
    /// neighbouring packets. Queues can only be distinguished from holds if packets are sent one by one.
    pub fn new(delays: &Delays<'_>, blocks: &Blocks, noise: DelayNoise) -> Episodes {
        Episodes::higher_than(0, delays, blocks, noise)
    }

    /// Finds the episodes as [`Episodes::new`] does, but ignores queues of up to `least` ns, which have another cause.
    pub fn higher_than(least: i64, delays: &Delays<'_>, blocks: &Blocks, noise: DelayNoise) -> Episodes {
        let n = delays.len();
        // With fewer blocks, the delay of the empty path is unknown.
        if blocks.len() < 4 {
            return Episodes::default();
        }
        let mut lows = blocks.min.clone();
        // Uses nearly the lowest block, because a queue may last for nearly the whole test.
        let near = (lows.len() / 100).max(2);
        let (lower, base, _) = lows.select_nth_unstable(near);
        let (base, lowest) = (*base, lower.iter().copied().min().unwrap_or(*base));
        // A queue must exceed the usual differences between neighbouring packets.
        let step = (noise.median * 4).max(noise.p90 * 2).max(MIN_QUEUE_NS / 2);
        let threshold = base.saturating_add(step);
        let floor = base.saturating_add((noise.p90 * 3 / 5).max(noise.median).max(step / 5));
        let mut all: Vec<Episode> = Vec::new();
        let mut b = 0;
        while b < blocks.len() {
            if blocks.min[b] <= threshold {
                b += 1;
                continue;
            }
            let first = b;
            while b < blocks.len() && blocks.min[b] > threshold {
                b += 1;
            }
            let range = blocks.place(first, n)..blocks.place(b, n);
            let limit = all.last().map_or(0, |e| e.to);
            let lasts = |(from, to): (usize, usize)| delays.time(to - 1).saturating_sub(delays.time(from));
            // Shortcut: if send times ascend, raising the floor (below) cannot make the episode longer.
            if delays.series().sent_in_order()
                && !delays.has_shifts()
                && lasts(widen(delays, blocks, range.clone(), floor, limit)) < MIN_HILL.0
            {
                continue;
            }
            // The hill ends slightly above the base.
            let top = delays.quantile(range.start, range.end, 0.9).unwrap_or(0).saturating_sub(base);
            let floor = floor.max(base.saturating_add(top / 16));
            let (from, to) = widen(delays, blocks, range, floor, limit);
            // Shorter rises are jitter.
            if lasts((from, to)) < MIN_EPISODE_NS && !is_hill(delays, from..to, 1, base, noise) {
                continue;
            }
            all.push(Episode { from, to, height: 0, count: 1 });
        }
        let mut holds = holds(delays, blocks, threshold, base);
        all.retain(|e| {
            let first = holds.partition_point(|hold| hold.to <= e.from);
            !holds[first..].iter().take_while(|hold| hold.from < e.to).any(|hold| covers(hold, e))
        });
        let parts = all.clone();
        let mut queues = merge(delays, all);
        queues.retain_mut(|e| {
            e.height = delays.quantile(e.from, e.to, 0.95).unwrap_or(0).saturating_sub(base);
            let lasts = delays.time(e.to - 1).saturating_sub(delays.time(e.from));
            let whole = delays.time(n - 1).max(1);
            // In a short test, 5 % of its duration is enough.
            let long = lasts >= 400_000_000 || lasts / 50 >= whole / 1000;
            e.to - e.from >= 2 * blocks.size
                && e.height >= MIN_QUEUE_NS
                && (long || is_hill(delays, e.from..e.to, e.count, base, noise))
        });
        // Small parts are the same queue, which was nearly empty for moments.
        let height = |e: &Episode| delays.quantile(e.from, e.to, 0.95).unwrap_or(0).saturating_sub(base);
        queues.iter_mut().for_each(|q| {
            let of_queue = parts.iter().filter(|e| e.from >= q.from && e.to <= q.to);
            q.count = of_queue.filter(|e| height(e) >= q.height / 2).count().max(1) as u64;
        });
        let quiet = quiet(blocks, threshold);
        queues.retain(|q| {
            q.height >= 3 * quiet && q.height.saturating_add(base.saturating_sub(lowest)) > least
        });
        // Brief queues are not higher than single waits elsewhere, which delay later packets on paths that preserve order.
        let single = tail(delays, blocks, &queues, &holds).saturating_sub(base);
        queues.retain(|q| {
            let lasts = delays.time(q.to - 1).saturating_sub(delays.time(q.from));
            lasts >= MIN_CLEAR_NS || q.height > single
        });
        // A hold at the end of a queue is part of its draining.
        holds.retain(|h| !queues.iter().any(|q| h.from < q.to && h.to > q.from));
        // Heights are reported relative to the fastest packet of the test, as they would appear in a capture.
        queues.iter_mut().for_each(|q| q.height = q.height.saturating_add(base.saturating_sub(lowest)));
        let tail = tail(delays, blocks, &queues, &holds).saturating_sub(base);
        Episodes { queues, holds, tail }
    }

    /// Returns the queue in which the packet at index `place` in send order waited; `None` if it did not wait.
    pub fn queue_at(&self, place: usize) -> Option<&Episode> {
        let next = self.queues.partition_point(|q| q.to <= place);
        self.queues.get(next).filter(|q| q.from <= place)
    }
}

/// Returns true if the delays in `range` gradually rise and fall `count` times, as in a queue that fills and drains.
/// Also returns true if the delays rise at once, by more than jitter, and fall gradually: the path stored the packets
/// and then delivered them.
fn is_hill(
    delays: &Delays<'_>,
    range: core::ops::Range<usize>,
    count: u64,
    base: i64,
    noise: DelayNoise,
) -> bool {
    // The delays of all packets of a burst rise and fall together.
    if matches!(delays.pace(), SendPattern::Bursts(_)) {
        return false;
    }
    let packets = range.len();
    let (first, last) = (range.start, range.end - 1);
    if packets < MIN_HILL.1 || delays.time(last).saturating_sub(delays.time(first)) < MIN_HILL.0 {
        return false;
    }
    let (mut peak, mut climb, mut before) = (0, 0, base);
    let (mut steepest, mut changes) = (0, 0i64);
    delays.each_excess(range, |_, excess| {
        let change = excess.saturating_sub(before);
        (peak, climb) = (peak.max(excess.saturating_sub(base)), climb.max(change));
        steepest = steepest.min(change);
        changes = changes.saturating_add(change.saturating_abs());
        before = excess;
    });
    // Noise alone changes the delay by about this much in total.
    let usual = (packets as i64).saturating_mul(2 * noise.median);
    let hills = peak.saturating_mul(2 * i64::try_from(count).unwrap_or(i64::MAX));
    // A queue fills gradually; it drains by at most the time between two packets, because it preserves their order; and
    // each hill rises and falls only once.
    peak >= MIN_QUEUE_NS.max(6 * noise.p90)
        && (climb <= peak * 2 / 5 || peak >= MIN_STORED_NS)
        && steepest
            >= -(peak / 2)
                .max(delays.time(last).saturating_sub(delays.time(first)) / (packets as i64 - 1) * 2)
        && changes <= hills.saturating_mul(7) / 5 + usual
}

/// Returns true if `hold` contains at least four fifths of `episode`, which is then not a queue.
fn covers(hold: &Hold, episode: &Episode) -> bool {
    let common = hold.to.min(episode.to).saturating_sub(hold.from.max(episode.from));
    common * 5 >= (episode.to - episode.from) * 4
}

/// Extends `range` by the packets before and after it that are above `floor` without interruption (single exceptions
/// are allowed), but not below index `limit`. Blocks whose smallest delay is above `floor` are added as a whole.
fn widen(
    delays: &Delays<'_>,
    blocks: &Blocks,
    range: core::ops::Range<usize>,
    floor: i64,
    limit: usize,
) -> (usize, usize) {
    let n = delays.len();
    let above = |k: usize| delays.excess(k) > floor && !delays.is_aside(k);
    let block_above = |b: usize| blocks.min.get(b).is_some_and(|min| *min > floor);
    let (mut from, mut to) = (range.start, range.end);
    while from > limit {
        let before = (from / blocks.size).checked_sub(1).filter(|_| from.is_multiple_of(blocks.size));
        if let Some(b) = before.filter(|b| block_above(*b) && blocks.place(*b, n) >= limit) {
            from = blocks.place(b, n);
        } else if above(from - 1) || from > limit + 1 && above(from - 2) && above(from.saturating_sub(3)) {
            from -= 1;
        } else {
            break;
        }
    }
    while to < n {
        let b = to / blocks.size;
        if to.is_multiple_of(blocks.size) && block_above(b) {
            to = blocks.place(b + 1, n);
        } else if above(to) || to + 2 < n && above(to + 1) && above(to + 2) {
            to += 1;
        } else {
            break;
        }
    }
    (from, to)
}

/// Merges consecutive episodes if the queue between them was empty only briefly: for less than half of the shorter
/// episode, or less than a tenth of the longer one.
fn merge(delays: &Delays<'_>, all: Vec<Episode>) -> Vec<Episode> {
    let lasts = |e: &Episode| delays.time(e.to - 1).saturating_sub(delays.time(e.from));
    let mut merged: Vec<Episode> = Vec::new();
    for e in all {
        if let Some(last) = merged.last_mut() {
            let gap = delays.time(e.from).saturating_sub(delays.time(last.to - 1));
            let (short, long) = (lasts(last).min(lasts(&e)), lasts(last).max(lasts(&e)));
            if gap < (short / 2).max(long / 10) {
                last.to = last.to.max(e.to);
                last.count += e.count;
                continue;
            }
        }
        merged.push(e);
    }
    merged
}

/// Returns the holds: a packet waits for a long time, and the packets sent after it arrive together with it.
fn holds(delays: &Delays<'_>, blocks: &Blocks, threshold: i64, base: i64) -> Vec<Hold> {
    let n = delays.len();
    let mut found: Vec<Hold> = Vec::new();
    let mut k = 0;
    while k + 1 < n {
        let block = (k / blocks.size).min(blocks.len() - 1);
        if blocks.max[block] <= threshold {
            k = ((block + 1) * blocks.size).max(k + 1);
            continue;
        }
        let height = delays.excess(k);
        // A hold begins with a sudden rise by at least half of the waiting time.
        let before = if k == 0 { base } else { delays.excess(k - 1) };
        if height <= threshold || height.saturating_sub(before) < (height - base) / 2 {
            k += 1;
            continue;
        }
        let (arrival, sent) = (delays.arrival(k), delays.time(k));
        let length = height - base;
        let mut end = k + 1;
        while end < n {
            let gap = delays.time(end).saturating_sub(delays.time(end - 1));
            let late = delays.arrival(end).saturating_sub(arrival);
            if late > (length / 6).max(gap / 5).max(20_000) || late < -gap {
                break;
            }
            end += 1;
        }
        let held = end - k;
        let span = delays.time(end - 1).saturating_sub(sent);
        // The first packet waits until about the time at which the last one was sent.
        if held >= 3 && span.saturating_mul(10) >= length.saturating_mul(6) {
            found.push(Hold { from: k, to: end, length });
        }
        k = end;
    }
    // A link that delivers nearly all packets in groups, like one that sleeps between beacons, always does so.
    let held: usize = found.iter().map(|hold| hold.to - hold.from).sum();
    if found.len() >= MIN_USUAL_HOLDS && held * 2 > n {
        found.clear();
    }
    found
}

/// Minimum number of holds that count as the usual behaviour of the link rather than as events if they contain more
/// than half of all packets.
const MIN_USUAL_HOLDS: usize = 20;

/// Returns the 90th percentile of the spread of delays within blocks without waits, in ns. If fewer than a tenth of the
/// blocks are without waits, returns the median of all blocks. Blocks are short, so slow changes have no effect.
fn quiet(blocks: &Blocks, threshold: i64) -> i64 {
    let low = |b: &usize| blocks.min[*b] <= threshold;
    let enough = (0..blocks.len()).filter(low).count() * 10 >= blocks.len();
    let spreads =
        (0..blocks.len()).filter(|b| !enough || low(b)).map(|b| blocks.max[b].saturating_sub(blocks.min[b]));
    let mut spreads: Vec<i64> = spreads.collect();
    let at = spreads.len() * if enough { 90 } else { 50 } / 100;
    if spreads.is_empty() { 0 } else { *spreads.select_nth_unstable(at).1 }
}

/// Maximum length of a hold that counts as jitter, in ns. Radio links and schedulers often hold packets for less.
const MAX_JITTER_HOLD_NS: i64 = 60_000_000;
/// Minimum length of a hold after which the path delivers stored packets one by one, in ns. Shorter ones are jitter of
/// radio links, in one or both directions.
pub const MIN_STORED_NS: i64 = 80_000_000;
/// Length, in ns, and number of holds: if at least this many holds are this long, they do not count as jitter, because
/// several of them clearly differ from the rest.
const MAX_JITTER_HOLDS: (i64, usize) = (40_000_000, 3);

/// Returns the minimum length, in ns, of holds that are excluded from usual waits: if several holds differ from jitter,
/// so do others of half their length.
fn least_hold_apart(holds: &[Hold]) -> i64 {
    let least = least_hold(holds);
    if least == MAX_JITTER_HOLDS.0 { least / 2 } else { least }
}

/// Returns the minimum length of a hold that differs from jitter, in ns. `holds` contains all holds of the test.
pub fn least_hold(holds: &[Hold]) -> i64 {
    let (least, many) = MAX_JITTER_HOLDS;
    if holds.iter().filter(|h| h.length >= least).count() >= many { least } else { MAX_JITTER_HOLD_NS }
}

/// Returns the third largest of the blocks' largest delays, leaving out `queues` and the long ones of `holds`.
fn tail(delays: &Delays<'_>, blocks: &Blocks, queues: &[Episode], holds: &[Hold]) -> i64 {
    let n = delays.len();
    let mut busy: Vec<(usize, usize)> = queues.iter().map(|q| (q.from, q.to)).collect();
    busy.extend(holds.iter().filter(|h| h.length >= least_hold_apart(holds)).map(|h| (h.from, h.to)));
    busy.sort_unstable();
    let mut next = busy.iter().peekable();
    let mut highest = [i64::MIN; 3];
    for b in 0..blocks.len() {
        let (from, to) = (blocks.place(b, n), blocks.place(b + 1, n));
        while next.next_if(|(_, end)| *end <= from).is_some() {}
        if next.peek().is_some_and(|(begin, _)| *begin < to) || blocks.max[b] <= highest[2] {
            continue;
        }
        highest[2] = blocks.max[b];
        highest.sort_unstable_by(|a, b| b.cmp(a));
    }
    highest.into_iter().rfind(|h| *h > i64::MIN).unwrap_or(0)
}

#[cfg(test)]
mod tests;

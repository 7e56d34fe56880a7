//! Delays and clock steps of the sending host: [`SenderDelays`], [`clock_steps`]. They are derived from send times and
//! the schedule.

use super::delays::{DelayNoise, Delays, SendPattern, at_shares};
use super::episodes::Hold;
use super::levels::LevelStep;
use jitlat_core::evidence::{Evidence, bounded};
use jitlat_core::metrics::schedule_error::DueTimes;
use jitlat_core::metrics::seqset::SeqRun;
use jitlat_core::spec::{Schedule, Transport};
use std::ops::Range;

/// Minimum size of a clock step, in ns. Smaller ones cannot be distinguished from a late wake-up.
const MIN_STEP_NS: i64 = 1_000_000;
/// Number of packets examined on either side of a step.
const MAX_NEIGHBOURS: usize = 12;
/// Maximum time on either side of a step, in ns, in which packets beyond [`MAX_NEIGHBOURS`] are examined.
const MAX_NEIGHBOUR_NS: i64 = 1_000_000_000;
/// Maximum number of packets examined on either side of a step.
const MAX_NEAR: usize = 4096;
/// Minimum number of packets on either side from which a step is known to be permanent.
const MIN_NEIGHBOURS: usize = 6;

/// Returns the steps of the sending host's clock: send times leave the schedule permanently, delays change by the
/// opposite amount, and the arrivals show no change. `change` is the amount added to delays.
pub fn clock_steps(delays: &Delays<'_>, material: &Evidence<'_>, noise: DelayNoise) -> Vec<LevelStep> {
    let mut found = Vec::new();
    // Shortcut: if all packets are near the schedule, there was no step.
    if material.off_schedule.is_some_and(|[least, most]| most.saturating_sub(least) < MIN_STEP_NS) {
        return found;
    }
    let Some(late) = lateness(delays, material) else { return found };
    for k in MIN_NEIGHBOURS..delays.len().saturating_sub(MIN_NEIGHBOURS) {
        let jump = late[k].saturating_sub(late[k - 1]);
        if jump.saturating_abs() >= MIN_STEP_NS {
            found.extend(clock_step(delays, &late, noise, k, jump));
        }
    }
    found
}

/// Returns the lateness of each packet relative to the schedule, in ns with an arbitrary zero; `None` if the schedule
/// is unknown.
fn lateness(delays: &Delays<'_>, material: &Evidence<'_>) -> Option<Vec<i64>> {
    let n = delays.len();
    let last = n.checked_sub(1)?;
    let period = material.period()?;
    // Logs of versions 1 and 2 describe every schedule as periodic.
    let is_periodic = material.session.spec.schedule() == Schedule::Periodic;
    let is_burst = matches!(material.session.spec.schedule(), Schedule::Burst { .. });
    let is_stated = (is_periodic || is_burst) && material.session.version >= 3;
    let mut due = match delays.pace() {
        SendPattern::Bursts(size) if is_periodic && !is_stated => {
            DueTimes::Bursts(period, size.max(1) as i64)
        }
        _ => {
            let last = u32::try_from(delays.seq(last)).unwrap_or(u32::MAX);
            DueTimes::planned(&material.session.spec, last, n)?
        }
    };
    let mut late = Vec::with_capacity(n);
    delays.series().iter().fold(0, |k, packet| {
        late.push(bounded(delays.time(k).saturating_sub(due.at(packet.seq))));
        k + 1
    });
    // If packets do not follow the stated schedule, the actual one is unknown.
    let apart = |k: usize| delays.time(k).saturating_sub(delays.time(k - 1));
    // A packet sent immediately after another one catches up, and does not show the schedule.
    let in_time = (1..n).filter(|k| apart(*k) > period / 4);
    let mut changes: Vec<i64> =
        in_time.map(|k| late[k].saturating_sub(late[k - 1]).saturating_abs()).collect();
    // Bursts are a guess if the log does not state them. Accept the guess only if most packets fit.
    let is_guess = matches!(due, DueTimes::Bursts(..)) && is_periodic;
    let [usual] = at_shares(&mut changes, [if is_guess { 80 } else { 30 }]);
    // A periodic or burst schedule that the log states is correct, even if a busy host sends nearly all packets late.
    (is_stated || 4 * usual <= period).then_some(late)
}

/// Returns the step of the sending host's clock at index `k`, where lateness changes by `jump` ns; `None` if the change
/// has another cause.
#[cold]
fn clock_step(
    delays: &Delays<'_>,
    late: &[i64],
    noise: DelayNoise,
    k: usize,
    jump: i64,
) -> Option<LevelStep> {
    // Change of the arrival times. A step of the sending clock does not affect them.
    let left = delays.delay(k).saturating_sub(delays.delay(k - 1)).saturating_add(jump);
    let margin = (jump.abs() / 8).max(noise.p90.saturating_mul(2)).max(100_000);
    if left.saturating_abs() > margin || jump.abs() < 2 * margin {
        return None;
    }
    // Both changes are permanent in a clock step, whereas a sender catches up after a stall and a queue drains.
    let stays = |before: Range<usize>, after: Range<usize>, tolerance: i64| {
        let sent = change_of_median(before.clone(), after.clone(), |i| late[i])?;
        let delay = change_of_median(before, after, |i| delays.delay(i))?;
        let is_lasting = (sent - jump).abs() <= tolerance && (delay + jump).abs() <= tolerance + noise.p90;
        is_lasting.then_some(delay)
    };
    let n = delays.len();
    // Few packets rule out most jumps: without this, a peer that moves many send times makes the rest expensive.
    stays(k.saturating_sub(MAX_NEIGHBOURS)..k, k..(k + MAX_NEIGHBOURS).min(n), jump.abs() / 2)?;
    // A sender that pauses while its packets wait in a queue looks the same at first, until the queue fills again.
    let span = jump.saturating_abs().saturating_mul(2).min(MAX_NEIGHBOUR_NS);
    let is_within =
        |i: usize, of: usize| delays.time(i).saturating_sub(delays.time(of)).saturating_abs() <= span;
    let earlier = (0..k).rev().take(MAX_NEAR).take_while(|i| is_within(*i, k - 1)).count();
    let later = (k..n).take(MAX_NEAR).take_while(|i| is_within(*i, k)).count();
    let from = k.saturating_sub(earlier.max(MAX_NEIGHBOURS));
    let delay = stays(from..k, k..(k + later.max(MAX_NEIGHBOURS)).min(n), jump.abs() / 4)?;
    Some(LevelStep { place: k, change: delay, ramp: 0, spread: [0, 0] })
}

/// Returns the median of the values in `after` minus that in `before`; `None` if there are none.
fn change_of_median(before: Range<usize>, after: Range<usize>, of: impl Fn(usize) -> i64) -> Option<i64> {
    let middle = |range: Range<usize>| {
        let mut values: Vec<i64> = range.map(&of).collect();
        let at = values.len() / 2;
        (at < values.len()).then(|| *values.select_nth_unstable(at).1)
    };
    Some(middle(after)?.saturating_sub(middle(before)?))
}

/// Returns the entries of `queued` (index, wait in ns) that waited in a queue, that is, whose waits overlap with those
/// of neighbouring packets. A program that is suspended within its send call cannot pass the next packet to the kernel
/// during this time.
fn behind_others(delays: &Delays<'_>, queued: &[(usize, i64)]) -> Vec<(usize, i64)> {
    let wait = |k: usize| queued.binary_search_by_key(&k, |(at, _)| *at).map_or(0, |i| queued[i].1);
    let handed_over = |k: usize| delays.time(k) - wait(k);
    let overlap = |k: usize| {
        // Packets with equal clock readings were passed to the kernel one after the other, at unknown times.
        let next = (k + 1 < delays.len()).then(|| handed_over(k + 1));
        next.is_some_and(|next| next > handed_over(k) && next < delays.time(k))
    };
    // If the time between packets is longer than the waits, a queue delays the packets on both sides, too.
    let neighbours = |k: usize| wait(k + 1) > 0 && (k == 0 || wait(k - 1) > 0);
    queued
        .iter()
        .copied()
        .filter(|(k, _)| overlap(*k) || *k > 0 && overlap(k - 1) || neighbours(*k))
        .collect()
}

/// Maximum distance in send order, in packets, at which the measured wait of one packet is evidence for another whose queue
/// stamp the kernel lost.
const NEIGHBOURS: usize = 3;

/// Adds packets of `unstamped`, whose queue stamp the kernel lost, to `queued` if they probably waited in the queue: a
/// nearby packet waited there for at least half of the time that they spent in the host. Entries are index and time in
/// ns.
fn with_unstamped(mut queued: Vec<(usize, i64)>, unstamped: &[(usize, i64)]) -> Vec<(usize, i64)> {
    let near = |(k, most): &&(usize, i64)| {
        let from = queued.partition_point(|(at, _)| at + NEIGHBOURS < *k);
        let around = queued[from..].iter().take_while(|(at, _)| *at <= k + NEIGHBOURS);
        around.into_iter().any(|(_, wait)| *wait >= most / 2)
    };
    let lost: Vec<(usize, i64)> = unstamped.iter().filter(near).copied().collect();
    queued.extend(lost);
    queued.sort_unstable();
    queued
}

/// Minimum number of packets that are sent together after the host held them.
const MIN_RELEASED_TOGETHER: usize = 3;
/// Minimum length of a hold if the kernel did not stamp the queue, in ns; shorter waits are attributed to the queue. A
/// host repeats an unanswered request for the next hop's link-layer address after 1 s (RFC 4861 §10, and Linux for
/// IPv4).
const NEIGHBOUR_RETRY_NS: i64 = 900_000_000;

/// Divides `waits` (index, ns) into groups of packets that were sent together: the time between their departures is
/// less than a tenth of the time between their send calls.
fn let_go_at_once<'a>(
    delays: &'a Delays<'_>,
    waits: &'a [(usize, i64)],
) -> impl Iterator<Item = &'a [(usize, i64)]> {
    waits.chunk_by(|a, b| {
        let apart = delays.time(b.0).saturating_sub(delays.time(a.0));
        let handed_over = apart.saturating_add(a.1).saturating_sub(b.1);
        b.0 == a.0 + 1 && apart < handed_over / 10
    })
}

/// Delays added by the sending host: by stalls of its program, and by waits in its interface.
#[derive(Clone, Debug, Default)]
pub struct SenderDelays {
    /// Stalls of the program, ascending and disjoint.
    pub stalls: Vec<Stall>,
    /// Packets that waited in the queue of the host's interface: index in send order, wait in ns.
    pub queued: Vec<(usize, i64)>,
    /// Packets that waited in the host after the send call, for any reason: index in send order, wait in ns.
    handed_over: Vec<(usize, i64)>,
    /// Periods during which the host held packets outside the queue and then sent them together. The address of the
    /// next hop was unknown, for example because the path was interrupted.
    pub holds: Vec<Hold>,
    /// Number of packets in the stream.
    packets: usize,
}

/// A stall of the sending program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stall {
    /// Index in send order of the first late packet.
    pub from: usize,
    /// Index in send order of the packet after the last late one.
    pub to: usize,
    /// Length of the stall: the largest lateness of the late packets, in ns.
    pub length: i64,
}

impl SenderDelays {
    /// Finds the delays that the sender of `delays` added.
    pub fn new(delays: &Delays<'_>, material: &Evidence<'_>) -> SenderDelays {
        let mut late = SenderDelays { packets: delays.len(), ..SenderDelays::default() };
        let places = |noted: &[(u32, i64)]| {
            let places = noted.iter().map(|(seq, ns)| (delays.series().position_of((*seq).into()), *ns));
            let mut places: Vec<_> = places.filter(|(k, _)| *k < delays.len()).collect();
            places.sort_unstable();
            places
        };
        late.handed_over = behind_others(delays, &places(&material.notes.sent_late));
        late.queued = match material.notes.entries {
            true => with_unstamped(places(&material.notes.queued), &places(&material.notes.unentered)),
            false => late.handed_over.clone(),
        };
        late.find_holds(delays, material.notes.entries);
        late.find_stalls(delays, material);
        late
    }

    /// Finds packets that were held and sent together, and removes them from the packets that waited in a queue.
    /// `measured` is true if the kernel stamped the entry to the queue.
    fn find_holds(&mut self, delays: &Delays<'_>, measured: bool) {
        let queued = std::mem::take(&mut self.queued);
        let in_queue = |k: usize| queued.binary_search_by_key(&k, |(at, _)| *at).map_or(0, |i| queued[i].1);
        for group in
            let_go_at_once(delays, &self.handed_over).filter(|group| group.len() >= MIN_RELEASED_TOGETHER)
        {
            let ((first, length), last) = (group[0], group[group.len() - 1].0);
            // While packets wait in a queue, others are leaving it.
            let nothing_left =
                first == 0 || delays.time(first).saturating_sub(delays.time(first - 1)) >= length;
            // Packets that waited in the queue according to the kernel's stamps were not held elsewhere.
            let elsewhere =
                if measured { in_queue(first) < length / 2 } else { length >= NEIGHBOUR_RETRY_NS };
            if nothing_left && elsewhere {
                self.holds.push(Hold { from: first, to: last + 1, length });
            }
        }
        let is_held = |k: usize| {
            let after = self.holds.partition_point(|hold| hold.to <= k);
            self.holds.get(after).is_some_and(|hold| hold.from <= k)
        };
        self.queued = queued.iter().copied().filter(|(k, _)| measured || !is_held(*k)).collect();
    }

    /// Finds the stalls of the program. A stall ends when the program has caught up with its schedule.
    fn find_stalls(&mut self, delays: &Delays<'_>, material: &Evidence<'_>) {
        let Some(period) = material.period() else { return };
        // Upper bound of the excess of any packet's lateness over the usual lateness: the earliest packet was not later
        // than usual.
        let latest = material
            .off_schedule
            .filter(|_| !delays.has_shifts())
            .map(|[least, most]| most.saturating_sub(least));
        let least_limit = (period + period / 2).max(MIN_STALL_NS);
        if latest.is_some_and(|latest| latest < least_limit) {
            return;
        }
        let is_tcp = material.session.spec.transport() == Transport::Tcp;
        let Some(late) = lateness(delays, material) else {
            if !is_tcp {
                self.stalls = stalls_by_gaps(delays, period);
            }
            return;
        };
        let Some(usual) = UsualLateness::of(delays, &late) else { return };
        // A full TCP window stops a program like a stall does. If more than a few packets are late, the window was
        // full.
        let spread = if is_tcp { usual.spread } else { usual.change };
        let limit = least_limit.max(8 * spread);
        if latest.is_some_and(|latest| latest < limit) {
            return;
        }
        // The packets of a burst are late together, so whole bursts are counted.
        let settled = SETTLED_PACKETS * material.session.spec.schedule().burst().max(1) as usize;
        let mut waiting = self.handed_over.iter().peekable();
        let mut recent = [i64::MAX; RECENT_PACKETS];
        let mut stalled: Option<Stalled> = None;
        let mut before = i64::MAX;
        let stalls = &mut self.stalls;
        // The first packet was late if the packets after it had to catch up.
        let first = caught_up_at_once(delays, &late, period);
        if !is_tcp && first.length >= limit {
            stalls.push(first);
        }
        for (k, late) in late.iter().enumerate() {
            // Lateness of the send call itself, without the wait in the interface.
            while waiting.next_if(|(at, _)| *at < k).is_some() {}
            let late = late - waiting.peek().filter(|(at, _)| *at == k).map_or(0, |(_, ns)| *ns);
            if usual.drift > 0 {
                // A sender with too low a rate falls further behind while packets are lost.
                let meanwhile = usual.drift.saturating_mul(missing_before(delays, k));
                recent.iter_mut().for_each(|before| *before = before.saturating_add(meanwhile));
            }
            let base = recent.iter().copied().min().unwrap_or(late);
            recent[k % RECENT_PACKETS] = late;
            let jump = late.saturating_sub(std::mem::replace(&mut before, late));
            // The next stall began before the program had caught up.
            if let Some(stall) =
                stalled.take_if(|stall| jump >= limit && k - stall.from >= MIN_BETWEEN_STALLS)
            {
                stalls.push(Stall { from: stall.from, to: k, length: stall.length });
                stalled =
                    Some(Stalled { from: k, length: jump, base: stall.base, lowest: late, lowest_at: k });
                continue;
            }
            let Some(stall) = &mut stalled else {
                let length = late.saturating_sub(base);
                if length >= limit {
                    stalled = Some(Stalled { from: k, length, base, lowest: late, lowest_at: k });
                }
                continue;
            };
            let behind = late.saturating_sub(stall.base);
            if behind < limit.min(stall.length / 4).max(period / 2) {
                stalls.push(Stall { from: stall.from, to: k, length: stall.length });
                stalled = None;
                continue;
            }
            stall.length = stall.length.max(behind);
            if late <= stall.lowest - period / 2 {
                (stall.lowest, stall.lowest_at) = (late, k);
            } else if k - stall.lowest_at >= settled {
                stalls.extend(stall.never_caught_up(delays).filter(|_| !is_tcp));
                stalled = None;
            }
        }
        let unfinished = stalled.and_then(|stall| {
            // At the end of a TCP connection, a long stall is probably a full window; only short ones count.
            let known = !is_tcp || stall.length < 10 * period;
            let whole = stall.never_caught_up(delays).filter(|_| known)?;
            Some(Stall { to: delays.len(), ..whole })
        });
        stalls.extend(unfinished);
    }

    /// Returns the 95th percentile of the waits in the host's interface, in ns; `None` if fewer than 8 packets or less
    /// than 1 % of all packets waited, which does not count as a queue.
    pub fn height(&self) -> Option<i64> {
        let mut waits: Vec<i64> =
            self.queued.iter().map(|(_, ns)| *ns).filter(|ns| *ns >= MIN_STAY_NS).collect();
        if waits.len() < 8 || waits.len() * 100 < self.packets {
            return None;
        }
        let at = waits.len() * 95 / 100;
        Some(*waits.select_nth_unstable(at).1)
    }

    /// Returns the stall that delayed the k-th packet; `None` if none did.
    pub fn stall_at(&self, k: usize) -> Option<&Stall> {
        let after = self.stalls.partition_point(|stall| stall.to <= k);
        self.stalls.get(after).filter(|stall| stall.from <= k)
    }

    /// Returns true if the packets of `run` were sent at once, together with others, after a stall.
    pub fn is_sent_at_once(&self, run: &SeqRun, delays: &Delays<'_>, material: &Evidence<'_>) -> bool {
        let Some(period) = material.period() else { return false };
        let after = delays.series().position_of(run.start);
        // The first late packet is at the end of the stall: packets lost before it may have been sent in time.
        let is_late = after > 0 && self.stall_at(after - 1).is_some();
        let Some(before) = after.checked_sub(1).filter(|_| is_late && after < delays.len()) else {
            return false;
        };
        let apart = delays.time(after).saturating_sub(delays.time(before));
        let due = period.saturating_mul(delays.seq(after).saturating_sub(delays.seq(before)) as i64);
        apart <= due / 2
    }

    /// Returns the lateness, in ns, that a stall of the program caused for the k-th packet; 0 if it caused none.
    pub fn lateness(&self, k: usize, delays: &Delays<'_>, material: &Evidence<'_>) -> i64 {
        let Some(period) = material.period() else { return 0 };
        let Some(stall) = self.stall_at(k) else { return 0 };
        let later = delays.time(k).saturating_sub(delays.time(stall.from));
        let due = period.saturating_mul(delays.seq(k).saturating_sub(delays.seq(stall.from)) as i64);
        stall.length.saturating_add(later).saturating_sub(due).max(0)
    }

    /// Returns the time that the k-th packet waited in the host's interface, in ns.
    pub fn of(&self, k: usize) -> i64 {
        self.queued.binary_search_by_key(&k, |(at, _)| *at).map_or(0, |i| self.queued[i].1)
    }
}

/// Number of recent packets. The one that is earliest relative to the schedule is the reference for a new stall.
const RECENT_PACKETS: usize = 7;
/// Number of packets without progress after which the program counts as no longer catching up.
const SETTLED_PACKETS: usize = 16;

/// Usual deviations of a sender from its schedule when it does not stall, in ns.
#[derive(Clone, Copy, Debug)]
struct UsualLateness {
    /// 70th percentile of the absolute change in lateness from packet to packet.
    change: i64,
    /// Increase of lateness per packet if the sender's rate is lower than that of the schedule; otherwise 0.
    drift: i64,
    /// Difference between the 70th and the 10th percentile of lateness.
    spread: i64,
}

impl UsualLateness {
    /// Computes the usual deviations from the lateness `late` of the packets of `delays`; `None` if there are too few
    /// packets.
    fn of(delays: &Delays<'_>, late: &[i64]) -> Option<UsualLateness> {
        let n = delays.len();
        let step = (n / 2048).max(1);
        let mut sample: Vec<i64> = late.iter().step_by(step).copied().collect();
        if sample.len() < 20 {
            return None;
        }
        let change = |k: usize| (late[k] - late[k - 1], delays.time(k).saturating_sub(delays.time(k - 1)));
        // Packets that directly follow others and reduce lateness catch up after a stall, even if there are many of
        // them.
        let catches_up = |(change, apart): &(i64, i64)| *change < 0 && *apart <= -change / 3;
        let in_turn = (1..n).step_by(step).filter(|k| missing_before(delays, *k) == 0);
        let mut changes: Vec<i64> = in_turn.map(change).filter(|c| !catches_up(c)).map(|c| c.0).collect();
        let [drift] = at_shares(&mut changes, [50]);
        changes.iter_mut().for_each(|c| *c = c.abs());
        let [change] = at_shares(&mut changes, [70]);
        let [low, high] = at_shares(&mut sample, [10, 70]);
        Some(UsualLateness { change, drift: drift.max(0), spread: high - low })
    }
}

/// Minimum length of a stall, in ns.
const MIN_STALL_NS: i64 = 15_000_000;
/// Minimum number of packets between the starts of two stalls.
const MIN_BETWEEN_STALLS: usize = 3;

/// Returns the stall before the first packet; its length is 0 if there was none. The packets sent after the stall
/// follow one another without a gap.
fn caught_up_at_once(delays: &Delays<'_>, late: &[i64], period: i64) -> Stall {
    let close = |k: &usize| {
        delays.time(*k).saturating_sub(delays.time(k - 1)) < period / 4 && late[*k] <= late[k - 1]
    };
    let to = 1 + (1..late.len()).take_while(close).count();
    let length = late.first().zip(late.get(to - 1)).map_or(0, |(first, last)| first.saturating_sub(*last));
    // Timers often send a burst of a few packets at the start.
    let length = if to >= 2 * MIN_FOLLOWERS { length } else { 0 };
    Stall { from: 0, to, length }
}

/// Minimum number of packets that directly follow one another after a stall.
const MIN_FOLLOWERS: usize = 4;

/// Returns the stalls of a sender whose schedule is unknown: after a gap, it sends at once about the number of packets
/// that the gap lacks.
fn stalls_by_gaps(delays: &Delays<'_>, period: i64) -> Vec<Stall> {
    let burst = if let SendPattern::Bursts(size) = delays.pace() { size } else { 1 };
    let n = delays.len();
    let apart = |k: usize| delays.time(k).saturating_sub(delays.time(k - 1));
    let limit = MIN_STALL_NS.max(3 * period);
    let mut found = Vec::new();
    let mut k = 1;
    while k < n {
        let gap = apart(k);
        let from = k;
        k += 1;
        if gap < limit {
            continue;
        }
        while k < n && apart(k) < period / 20 {
            k += 1;
        }
        let packets = k - from;
        let worth = (packets as i64).saturating_mul(period);
        let enough = packets > MIN_FOLLOWERS && packets >= 2 * burst + 2;
        if enough && worth >= gap / 3 && worth <= gap.saturating_mul(3) {
            found.push(Stall { from, to: k, length: gap - period });
        }
    }
    found
}

/// Returns the number of packets lost between the packet at index `k` and the one before it in send order.
fn missing_before(delays: &Delays<'_>, k: usize) -> i64 {
    let before = k.checked_sub(1).map_or(0, |before| delays.seq(before));
    (delays.seq(k).saturating_sub(before) as i64 - 1).max(0)
}

/// A stall that has not ended yet.
struct Stalled {
    /// Index in send order of the first late packet.
    from: usize,
    /// Largest lateness of the stall's packets beyond `base`, in ns.
    length: i64,
    /// Lateness before the stall, in ns.
    base: i64,
    /// Smallest lateness since the start of the stall, in ns.
    lowest: i64,
    /// Index of the packet with the smallest lateness.
    lowest_at: usize,
}

impl Stalled {
    /// Returns the stall of a program that does not catch up; `None` if delays fell by the length of the stall at its
    /// start. In this case the clock was set, and the packets were not late.
    fn never_caught_up(&self, delays: &Delays<'_>) -> Option<Stall> {
        let before = self.from.checked_sub(1)?;
        let fell = delays.delay(before).saturating_sub(delays.delay(self.from));
        let was_set = (fell - self.length).abs() <= self.length / 8;
        (!was_set).then_some(Stall { from: self.from, to: self.lowest_at + 1, length: self.length })
    }
}

/// Minimum time in an interface that counts as a queue, in ns.
pub const MIN_STAY_NS: i64 = 5_000_000;

#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod tests;

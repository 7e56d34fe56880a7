//! The sending host: when it should have sent, when it did, and what its clock did meanwhile.

use super::delays::{DelayNoise, Delays, SendPattern, at_shares};
use super::episodes::Hold;
use super::levels::LevelStep;
use jitlat_core::evidence::{Evidence, bounded};
use jitlat_core::metrics::schedule_error::DueTimes;
use jitlat_core::spec::{Schedule, Transport};
use std::ops::Range;

/// Smaller steps cannot be distinguished from a late wake-up.
const MIN_STEP_NS: i64 = 1_000_000;
/// Packets looked at on either side of a step.
const MAX_NEIGHBOURS: usize = 12;
/// Fewer do not show which step is permanent.
const MIN_NEIGHBOURS: usize = 6;

/// The steps of the sending host's clock: send times leave the schedule for good, and delays change by as much the
/// other way, so that packets arrive as if nothing had happened. `change` is what is added to delays.
pub fn clock_steps(delays: &Delays<'_>, material: &Evidence<'_>, noise: DelayNoise) -> Vec<LevelStep> {
    let mut found = Vec::new();
    // All near the schedule: none of them left it by a step.
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

/// How much later than it was due each packet was sent, in ns from any origin; `None` if the schedule is not known.
fn lateness(delays: &Delays<'_>, material: &Evidence<'_>) -> Option<Vec<i64>> {
    let n = delays.len();
    let last = n.checked_sub(1)?;
    let period = material.period()?;
    // Logs of versions 1 and 2 have no word about other schedules.
    let is_periodic = material.session.spec.schedule() == Schedule::Periodic;
    let is_stated = is_periodic && material.session.version >= 3;
    let mut due = match delays.pace() {
        SendPattern::Bursts(size) if is_periodic && !is_stated => {
            DueTimes::Bursts(period, size.max(1) as i64)
        }
        _ => {
            let last = u32::try_from(delays.seq(last)).unwrap_or(u32::MAX);
            DueTimes::new(material.session, last, n)?
        }
    };
    let mut late = Vec::with_capacity(n);
    delays.series().iter().fold(0, |k, packet| {
        late.push(bounded(delays.time(k).saturating_sub(due.at(packet.seq))));
        k + 1
    });
    // A schedule that packets do not follow is another than the one they were sent by.
    let apart = |k: usize| delays.time(k).saturating_sub(delays.time(k - 1));
    let in_time = (1..n).filter(|k| apart(*k) > period / 4);
    let mut changes: Vec<i64> =
        in_time.map(|k| late[k].saturating_sub(late[k - 1]).saturating_abs()).collect();
    // Bursts that the log says nothing about are a guess: nearly all must fit.
    let is_guess = matches!(due, DueTimes::Bursts(..)) && is_periodic;
    let [usual] = at_shares(&mut changes, [if is_guess { 80 } else { 30 }]);
    // A periodic schedule that the log states is the one, however late a busy host is.
    (is_stated || 4 * usual <= period).then_some(late)
}

/// The step of the sending host's clock where the schedule is left by `jump` ns at place `k`, if it is one.
#[cold]
fn clock_step(
    delays: &Delays<'_>,
    late: &[i64],
    noise: DelayNoise,
    k: usize,
    jump: i64,
) -> Option<LevelStep> {
    let left = delays.delay(k).saturating_sub(delays.delay(k - 1)).saturating_add(jump);
    let margin = (jump.abs() / 8).max(noise.p90.saturating_mul(2)).max(100_000);
    if left.saturating_abs() > margin || jump.abs() < 2 * margin {
        return None;
    }
    let (before, after) = (k.saturating_sub(MAX_NEIGHBOURS)..k, k..(k + MAX_NEIGHBOURS).min(delays.len()));
    let middle = |range: &Range<usize>, of: &dyn Fn(usize) -> i64| {
        let mut values: Vec<i64> = range.clone().map(of).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied()
    };
    let change = |of: &dyn Fn(usize) -> i64| Some(middle(&after, of)?.saturating_sub(middle(&before, of)?));
    let (sent, delay) = (change(&|k| late[k])?, change(&|k| delays.delay(k))?);
    // Both stay: neither a stall that is caught up with nor a queue.
    let stays = (sent - jump).abs() <= jump.abs() / 4 && (delay + jump).abs() <= jump.abs() / 4 + noise.p90;
    stays.then_some(LevelStep { place: k, change: delay, ramp: 0, spread: [0, 0] })
}

/// Those of `queued` that waited in a queue: another packet was handed over before this one left, or this one before
/// another left. A program that was stopped within its call cannot hand over the next one meanwhile.
fn behind_others(delays: &Delays<'_>, queued: &[(usize, i64)]) -> Vec<(usize, i64)> {
    let wait = |k: usize| queued.binary_search_by_key(&k, |(at, _)| *at).map_or(0, |i| queued[i].1);
    let handed_over = |k: usize| delays.time(k) - wait(k);
    let overlap = |k: usize| {
        // Packets that share one reading of the clock were handed over one after the other, nobody knows when.
        let next = (k + 1 < delays.len()).then(|| handed_over(k + 1));
        next.is_some_and(|next| next > handed_over(k) && next < delays.time(k))
    };
    // Where packets are sent less often than they wait, those on both sides wait, too.
    let beside = |k: usize| wait(k + 1) > 0 && (k == 0 || wait(k - 1) > 0);
    queued.iter().copied().filter(|(k, _)| overlap(*k) || *k > 0 && overlap(k - 1) || beside(*k)).collect()
}

/// Beside packets whose wait the kernel measured, these many are looked at.
const NEIGHBOURS: usize = 3;

/// `queued` and those of `unstamped`, whose entry the kernel lost: they waited for up to as long as they were in the host,
/// if one of the packets near them waited in the queue for at least half of that.
fn with_unstamped(mut queued: Vec<(usize, i64)>, unstamped: &[(usize, i64)]) -> Vec<(usize, i64)> {
    let near = |(k, most): &&(usize, i64)| {
        let from = queued.partition_point(|(at, _)| at + NEIGHBOURS < *k);
        let beside = queued[from..].iter().take_while(|(at, _)| *at <= k + NEIGHBOURS);
        beside.into_iter().any(|(_, wait)| *wait >= most / 2)
    };
    let lost: Vec<(usize, i64)> = unstamped.iter().filter(near).copied().collect();
    queued.extend(lost);
    queued.sort_unstable();
    queued
}

/// So many packets that a host let go at once were not in a queue.
const MIN_RELEASED_TOGETHER: usize = 3;
/// A host that is not answered asks for the address of the next hop again after a second (RFC 4861 §10, and Linux for
/// IPv4), in ns. Where the kernel does not tell what was in the queue, shorter waits count as a queue's.
const NEIGHBOUR_RETRY_NS: i64 = 900_000_000;

/// `waits` in groups of packets that left at once: each handed over ten times as long after the one before as it left
/// after it.
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

/// What the sending host itself added: packets its program sent late, packets that waited in its interface.
#[derive(Clone, Debug, Default)]
pub struct SenderDelays {
    /// The stalls of the program.
    pub stalls: Vec<Stall>,
    /// Times spent in the queue of the host's interface, by place in send order.
    pub queued: Vec<(usize, i64)>,
    /// The same of packets that waited in the host after the program had handed them over, for whatever reason.
    handed_over: Vec<(usize, i64)>,
    /// Packets that the host held, in no queue, and let go at once: it did not know the address of the next hop, as where
    /// the path is interrupted.
    pub holds: Vec<Hold>,
    packets: usize,
}

/// A time during which a program stood still.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stall {
    /// First packet that was late and the one after the last, by their place in send order.
    pub from: usize,
    /// See above.
    pub to: usize,
    /// How late the first of them was, in ns.
    pub length: i64,
}

impl SenderDelays {
    /// Of the sender of `delays`.
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

    /// Takes what was held and let go at once out of what waited in a queue; `measured`: the kernel says what was in it.
    fn find_holds(&mut self, delays: &Delays<'_>, measured: bool) {
        let queued = std::mem::take(&mut self.queued);
        let in_queue = |k: usize| queued.binary_search_by_key(&k, |(at, _)| *at).map_or(0, |i| queued[i].1);
        for group in
            let_go_at_once(delays, &self.handed_over).filter(|group| group.len() >= MIN_RELEASED_TOGETHER)
        {
            let ((first, length), last) = (group[0], group[group.len() - 1].0);
            // In a queue others leave meanwhile.
            let nothing_left =
                first == 0 || delays.time(first).saturating_sub(delays.time(first - 1)) >= length;
            // What the kernel saw in the queue was there.
            let elsewhere =
                if measured { in_queue(first) < length / 2 } else { length >= NEIGHBOUR_RETRY_NS };
            if nothing_left && elsewhere {
                self.holds.push(Hold { from: first, to: last + 1, length });
            }
        }
        let is_held = |k: usize| self.holds.iter().any(|h| (h.from..h.to).contains(&k));
        self.queued = queued.iter().copied().filter(|(k, _)| measured || !is_held(*k)).collect();
    }

    /// Finds the stalls of the program: packets sent late all at once, with those after them that it caught up with.
    fn find_stalls(&mut self, delays: &Delays<'_>, material: &Evidence<'_>) {
        let Some(period) = material.period() else { return };
        // The earliest was no later than what is usual, so none was later than this.
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
        // A full window of TCP holds a program back as if it stood still: more than a few late packets are that.
        let spread = if is_tcp { usual.spread } else { usual.change };
        let limit = least_limit.max(8 * spread);
        if latest.is_some_and(|latest| latest < limit) {
            return;
        }
        let settled = SETTLED_PACKETS * material.session.spec.schedule().burst().max(1) as usize;
        let mut waiting = self.handed_over.iter().peekable();
        let mut recent = [i64::MAX; RECENT_PACKETS];
        let mut stalled: Option<Stalled> = None;
        let mut before = i64::MAX;
        let stalls = &mut self.stalls;
        // The first packet left late if those after it had to catch up.
        let first = caught_up_at_once(delays, &late, period);
        if !is_tcp && first.length >= limit {
            stalls.push(first);
        }
        for (k, late) in late.iter().enumerate() {
            // When the program was at it: before the interface.
            while waiting.next_if(|(at, _)| *at < k).is_some() {}
            let late = late - waiting.peek().filter(|(at, _)| *at == k).map_or(0, |(_, ns)| *ns);
            if usual.drift > 0 {
                // A sender whose rate is another falls behind while nothing arrives, too.
                let meanwhile = usual.drift.saturating_mul(missing_before(delays, k));
                recent.iter_mut().for_each(|before| *before = before.saturating_add(meanwhile));
            }
            let base = recent.iter().copied().min().unwrap_or(late);
            recent[k % RECENT_PACKETS] = late;
            let jump = late.saturating_sub(std::mem::replace(&mut before, late));
            // Another stall, before the schedule is caught up with.
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
            // A connection that ends held back says nothing about its program, but briefly.
            let known = !is_tcp || stall.length < 10 * period;
            let whole = stall.never_caught_up(delays).filter(|_| known)?;
            Some(Stall { to: delays.len(), ..whole })
        });
        stalls.extend(unfinished);
    }

    /// What nineteen of twenty of the packets that waited in the host's interface waited at most, in ns, where they
    /// are enough to speak of a queue: eight, 1 % of all packets.
    pub fn height(&self) -> Option<i64> {
        let mut waits: Vec<i64> =
            self.queued.iter().map(|(_, ns)| *ns).filter(|ns| *ns >= MIN_STAY_NS).collect();
        if waits.len() < 8 || waits.len() * 100 < self.packets {
            return None;
        }
        let at = waits.len() * 95 / 100;
        Some(*waits.select_nth_unstable(at).1)
    }

    /// What the k-th packet waited in the host's interface, in ns.
    pub fn of(&self, k: usize) -> i64 {
        self.queued.binary_search_by_key(&k, |(at, _)| *at).map_or(0, |i| self.queued[i].1)
    }
}

/// Packets among which a stall begins: by how much one of them is later than the earliest.
const RECENT_PACKETS: usize = 7;
/// Packets after which a program that is no longer catching up keeps a schedule of its own.
const SETTLED_PACKETS: usize = 16;

/// How far a sender is from its schedule where it does not stall, in ns.
#[derive(Clone, Copy, Debug)]
struct UsualLateness {
    /// Seven of ten packets are later or earlier than the one before by less.
    change: i64,
    /// Packets fall behind by this much each, where the sender's rate is lower than the schedule's.
    drift: i64,
    /// How much later the seventh of ten packets is than the first of ten.
    spread: i64,
}

impl UsualLateness {
    /// The sender of `delays` whose packets were so `late`; `None` if there are too few packets to tell.
    fn of(delays: &Delays<'_>, late: &[i64]) -> Option<UsualLateness> {
        let n = delays.len();
        let step = (n / 2048).max(1);
        let mut sample: Vec<i64> = late.iter().step_by(step).copied().collect();
        if sample.len() < 20 {
            return None;
        }
        let change = |k: usize| (late[k] - late[k - 1], delays.time(k).saturating_sub(delays.time(k - 1)));
        // Packets that leave at once after others catch up with a stall, however many they are.
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

/// A later packet is not worth a word, in ns.
const MIN_STALL_NS: i64 = 15_000_000;
/// Packets from the begin of one stall to that of another.
const MIN_BETWEEN_STALLS: usize = 3;

/// The stall before the first packet, which those after it caught up with at once.
fn caught_up_at_once(delays: &Delays<'_>, late: &[i64], period: i64) -> Stall {
    let close = |k: &usize| {
        delays.time(*k).saturating_sub(delays.time(k - 1)) < period / 4 && late[*k] <= late[k - 1]
    };
    let to = 1 + (1..late.len()).take_while(close).count();
    let length = late.first().zip(late.get(to - 1)).map_or(0, |(first, last)| first.saturating_sub(*last));
    // A burst of a few packets at the start is a habit of timers.
    let length = if to >= 2 * MIN_FOLLOWERS { length } else { 0 };
    Stall { from: 0, to, length }
}

/// Fewest packets that leave at once after a stall.
const MIN_FOLLOWERS: usize = 4;

/// The stalls of a sender whose schedule is not known: a gap, and then at once about as many packets as it is long.
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

/// Packets that were sent between the one at place `k` and the one received before it, and did not arrive.
fn missing_before(delays: &Delays<'_>, k: usize) -> i64 {
    let before = k.checked_sub(1).map_or(0, |before| delays.seq(before));
    (delays.seq(k).saturating_sub(before) as i64 - 1).max(0)
}

/// A stall whose end is not known yet.
struct Stalled {
    /// First late packet, by its place in send order.
    from: usize,
    /// Longest lateness of its packets, in ns beyond `base`.
    length: i64,
    /// Lateness before it.
    base: i64,
    /// Smallest lateness since, and the packet that first had it.
    lowest: i64,
    lowest_at: usize,
}

impl Stalled {
    /// The stall of a program that goes on late. None where delays fell by as much when it began: the clock was set then,
    /// and packets arrived in time.
    fn never_caught_up(&self, delays: &Delays<'_>) -> Option<Stall> {
        let before = self.from.checked_sub(1)?;
        let fell = delays.delay(before).saturating_sub(delays.delay(self.from));
        let was_set = (fell - self.length).abs() <= self.length / 8;
        (!was_set).then_some(Stall { from: self.from, to: self.lowest_at + 1, length: self.length })
    }
}

/// A shorter stay in an interface is no queue: 5 ms.
pub const MIN_STAY_NS: i64 = 5_000_000;

#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod tests;

//! [`Case`]: everything the rules look at, worked out once from the records of one way of one test.

use super::delays::{Blocks, DelayNoise, Delays};
use super::episodes::{Episode, Episodes, Hold, least_hold};
use super::law::{LossLaw, lets_even_rate_through};
use super::levels::{self, LevelStep};
use super::losses::{LossTimes, PathLosses, Scattered};
use super::schedule::{self, SenderDelays};
use super::severity::{Experience, Waits, of_outage};
use super::slots;
use super::steps::{self, StepReason};
use jitlat_core::answer::Severity;
use jitlat_core::distribution::sample::Sample;
use jitlat_core::evidence::Evidence;
use jitlat_core::evidence::KnownPackets;
use jitlat_core::metrics::clock::ClockEstimate;
use jitlat_core::metrics::seqset::{SeqRun, absent, without};
use jitlat_core::session::Session;
use jitlat_core::spec::Transport;

/// Everything the rules use.
pub struct Case<'a> {
    /// What it was computed from.
    pub material: &'a Evidence<'a>,
    /// How much of the test is known.
    pub known: KnownPackets,
    /// Delays without what clocks and routes added.
    pub delays: Delays<'a>,
    /// How much neighbours differ.
    pub noise: DelayNoise,
    /// Lasting changes of the smallest delay, with their reasons.
    pub steps: Vec<(LevelStep, StepReason)>,
    /// Rate of the receiving clock relative to the sending one, less 1, if it is not explained by a queue.
    pub skew: Option<f64>,
    /// Half of the 95 % interval of that.
    pub skew_error: f64,
    /// Queues and holds.
    pub episodes: Episodes,
    /// The sender's own delays.
    pub late: SenderDelays,
    /// Lost packets.
    pub losses: PathLosses,
    /// Losses that are neither outages nor packets refused by the sending host.
    pub scattered: Scattered,
    /// Those of them that a full queue dropped.
    pub dropped_by_queue: u64,
    /// Losses that the sending host's system refused, if they can be identified.
    pub refused: Vec<SeqRun>,
    /// Short runs of loss while the route changed.
    pub lost_at_steps: Vec<SeqRun>,
    /// The law of the remaining losses.
    pub law: Option<LossLaw>,
    /// From the first packet to the end of what is known, in seconds.
    pub duration: f64,
    /// Where these packets are within the stream of which they are a part.
    pub begin: Begin,
}

/// When the packets of a part of a stream were sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Begin {
    /// Seconds from the first packet of the stream to the first of these.
    pub at: f64,
    /// Until so many seconds after that they are packets of an earlier part, shown again.
    pub again_until: f64,
    /// Those were sent so many seconds earlier than it looks.
    pub left_out: f64,
}

impl Begin {
    /// Seconds from the first packet of the stream to `seconds` after the first of these.
    pub fn of(&self, seconds: f64) -> f64 {
        self.at + seconds - if seconds < self.again_until { self.left_out } else { 0.0 }
    }
}

impl<'a> Case<'a> {
    /// From `material`.
    pub fn new(material: &'a Evidence<'a>) -> Case<'a> {
        let Evidence { session, series, came, .. } = *material;
        let known = KnownPackets::of(session, came);
        let mut delays = Delays::new(series);
        let mut noise = delays.noise();
        let set = schedule::clock_steps(&delays, material, noise);
        let mut steps: Vec<(LevelStep, StepReason)> =
            set.iter().map(|s| (*s, StepReason::SenderClock)).collect();
        for step in &set {
            delays.set_shift(step.place, step.change, step.change.saturating_neg());
        }
        let late = SenderDelays::new(&delays, material);
        delays.set_aside(late.stalls.iter().map(|stall| stall.from..stall.to).collect());
        let (mut skew, mut skew_error) = (None, 0.0);
        let mut blocks = delays.blocks();
        let mut slot = None;
        if series.len() >= MIN_PACKETS {
            let drift = levels::drift(&delays, &blocks, noise)
                .filter(|drift| steps::may_be_skew(drift.rate, &delays, material));
            skew = drift.map(|drift| drift.rate);
            skew_error = drift.map_or(0.0, |drift| drift.error);
            if let Some(rate) = skew {
                slot = find_slot(&delays, &blocks, material);
                // Slots whose clock is not the sender's drift in the same way, until the next one is nearer.
                let drift = (rate * delays.time(series.len() - 1) as f64) as i64;
                skew = skew.filter(|_| slot.is_none_or(|slot| drift.abs() > slot + slot / 4));
            }
            if let Some(skew) = skew {
                delays.set_skew(skew);
                noise = delays.noise();
                blocks = delays.blocks();
            }
            let mut found = levels::steps(&delays, &blocks, noise);
            if found.iter().any(|step| step.change.saturating_abs() <= slots::MAX_SLOT_NS) {
                slot = slot.or_else(|| find_slot(&delays, &blocks, material));
            }
            found.retain(|step| {
                slot.is_none_or(|slot| step.change.saturating_abs() > slot + slot / 4)
                    && !is_of_a_stall(step, &late, &delays)
            });
            steps.extend(steps::explain(&delays, &found, material, noise));
            for (step, reason) in &steps {
                if *reason == StepReason::ReceiverClock {
                    delays.set_shift(step.place, step.change, 0);
                }
            }
            if steps.is_empty() {
                delays.set_level(blocks.lower_to_0());
            } else {
                set_levels(&mut delays, &steps);
                blocks = delays.blocks();
            }
        }
        let mut episodes = Episodes::new(&delays, &blocks, noise);
        if within_queues(&mut steps, &episodes) {
            set_levels(&mut delays, &steps);
            episodes = Episodes::new(&delays, &delays.blocks(), noise);
        }
        if !episodes.queues.is_empty() {
            slot = slot.or_else(|| find_slot(&delays, &blocks, material));
            if let Some(slot) = slot {
                // Packets that miss their slot wait for no other packet.
                let least = slot + slot / 4 + 2 * noise.median;
                if episodes.queues.iter().any(|queue| queue.height <= least) {
                    episodes = Episodes::higher_than(least, &delays, &delays.blocks(), noise);
                }
            }
        }
        let handed_over: Vec<_> =
            episodes.queues.iter().filter_map(|q| level_after(&delays, q, noise)).collect();
        if !handed_over.is_empty() {
            steps.extend(handed_over.into_iter().map(|step| (step, StepReason::HandOver)));
            steps.sort_by_key(|(step, _)| step.place);
            set_levels(&mut delays, &steps);
            episodes = Episodes::new(&delays, &delays.blocks(), noise);
        }
        handed_over_to(&mut steps, &episodes);
        let departures = LossTimes::new(&delays, session);
        let lost = without(absent(came.runs(), known.end), session.unrecorded_in(0, known.end));
        let mut runs: Vec<SeqRun> = lost.collect();
        let refused = without_refused(&mut runs, session.unsent);
        let lost_at_steps = lost_at_steps(&mut runs, &steps, &delays, &departures);
        let mut losses = PathLosses::new(runs, known.end, |r| departures.length(r));
        if losses.outages().count() >= MIN_POLICED_OUTAGES {
            // A rate limit whose bucket is filled in steps drops whole runs of packets.
            losses.are_of_a_limit(|all| lets_even_rate_through(&delays, &departures, all));
        }
        let duration = departures
            .of(known.end.saturating_sub(1))
            .max(delays.len().checked_sub(1).map_or(0, |k| delays.time(k)));
        let mut case = Case {
            material,
            known,
            delays,
            noise,
            steps,
            skew,
            skew_error,
            episodes,
            late,
            scattered: Scattered::default(),
            dropped_by_queue: 0,
            refused,
            lost_at_steps,
            law: None,
            losses,
            duration: duration as f64 / 1e9,
            begin: Begin::default(),
        };
        case.sort_losses();
        case.law = LossLaw::of(material, known, &case.delays, &case.scattered);
        case
    }

    /// Takes out of the losses what a full queue dropped.
    fn sort_losses(&mut self) {
        let others = self.losses.others();
        let local = self.late.height();
        if self.episodes.queues.is_empty() && local.is_none() {
            self.scattered = others;
            return;
        }
        // Lost where a queue was nearly full: the packet before or the one after waited for most of what any did.
        let full = |run: &SeqRun| {
            let after = self.delays.series().position_of(run.start);
            [after.checked_sub(1), Some(after)].into_iter().flatten().any(|k| {
                let queue = self.episodes.queue_at(k);
                queue.is_some_and(|q| self.delays.excess(k) as f64 >= 0.55 * q.height as f64)
                    || local.is_some_and(|height| self.late.of(k) as f64 >= 0.55 * height as f64)
            })
        };
        let packets: u64 = self
            .episodes
            .queues
            .iter()
            .map(|q| self.delays.seq(q.to - 1).saturating_sub(self.delays.seq(q.from)) + 1)
            .sum::<u64>()
            .max(self.late.queued.len() as u64);
        let inside: u64 = others.runs.iter().filter(|(_, o)| full(o)).map(|(r, _)| r.len).sum();
        let outside = others.lost() - inside;
        let rate = |lost: u64, of: u64| lost as f64 / of.max(1) as f64;
        let elsewhere = rate(outside, others.sent.saturating_sub(packets));
        // As much as is lost elsewhere is lost here for the same reason.
        if inside < 3 || rate(inside, packets) < 2.0 * elsewhere.max(1.0 / others.sent.max(1) as f64) {
            self.scattered = others;
            return;
        }
        self.dropped_by_queue = inside;
        self.scattered =
            others.filtered(if elsewhere > 0.0 { 0 } else { packets.min(others.sent / 2) }, |o| !full(o));
    }

    /// Seconds from the first packet to where packet `seq` was sent, or would have been.
    pub fn seconds(&self, seq: u64) -> f64 {
        LossTimes::new(&self.delays, self.material.session).of(seq) as f64 / 1e9
    }

    /// Seconds from the first packet of the whole stream to the packet at index `k` in send order.
    pub fn stream_seconds_at(&self, k: usize) -> f64 {
        self.begin.of(self.seconds_at(k))
    }

    /// Seconds from the first packet to the packet at index `k` in send order.
    pub fn seconds_at(&self, k: usize) -> f64 {
        if k < self.delays.len() { self.delays.seconds(k) } else { self.duration }
    }

    /// The holds that are the receiving program's, where nothing but its own stamps tells it from the path.
    pub fn receiver_holds(&self) -> Vec<Hold> {
        if self.material.is_stamped_by_kernel() { Vec::new() } else { self.long_holds() }
    }

    /// The holds that are the path's: the receiving kernel stamped the packets as they came.
    pub fn path_holds(&self) -> Vec<Hold> {
        if self.material.is_stamped_by_kernel() { self.long_holds() } else { Vec::new() }
    }

    /// The holds worth a word on their own; none where the transport holds packets back to deliver them in order.
    fn long_holds(&self) -> Vec<Hold> {
        if self.material.session.spec.transport() == Transport::Tcp {
            return Vec::new();
        }
        let least = self.longest_usual_hold().max(self.episodes.tail.saturating_mul(4));
        let is_long = |h: &&Hold| h.length >= least && h.to - h.from >= 3;
        self.episodes.holds.iter().filter(is_long).copied().collect()
    }

    /// What a hold must reach to be worth a word, in ns: 60 ms, 40 where there are several or the program's own reading of
    /// the clock proves them, and three packets' worth of the schedule.
    pub fn longest_usual_hold(&self) -> i64 {
        let read_late = self.material.notes.read_late.iter().filter(|(_, lag)| *lag >= MIN_HOLD_NS).count();
        let least = if read_late > 0 { MIN_HOLD_NS } else { least_hold(&self.episodes.holds) };
        least.max(3 * self.material.period().unwrap_or(0))
    }

    /// Packets that a host sent late, read late without a kernel's stamp, or refused.
    pub fn touched(&self) -> u64 {
        let held: usize = self.receiver_holds().iter().map(|hold| hold.to - hold.from).sum();
        let late: usize = self.late.stalls.iter().map(|stall| stall.to - stall.from).sum();
        (held + late) as u64 + self.material.session.unsent
    }

    /// How long packets waited on the path: beyond the smallest delay of their route, or beyond any origin. Packets that a
    /// host sent or read late are left out.
    pub fn waits(&self) -> Waits {
        let held = self.receiver_holds();
        if !self.delays.is_adjusted() && self.late.stalls.is_empty() && held.is_empty() {
            let sorted = || Sample::new(self.material.series.arrivals().map(|p| p.delay));
            return match self.material.sample {
                Some(sample) => Waits::exact(sample),
                None => Waits::exact(&sorted()),
            };
        }
        let mut waits = Vec::with_capacity(self.delays.len());
        self.each_wait_but(&held, |_, wait| waits.push(wait));
        Waits::of(&waits)
    }

    /// Hands out the same in send order: place, ns.
    pub fn each_wait(&self, each: impl FnMut(usize, i64)) {
        self.each_wait_but(&self.receiver_holds(), each);
    }

    /// What the receiving program added by standing still is not the path's: `held`.
    fn each_wait_but(&self, held: &[Hold], mut each: impl FnMut(usize, i64)) {
        let all = 0..self.delays.len();
        if held.is_empty() && self.late.stalls.is_empty() {
            return self.delays.each_excess(all, each);
        }
        let of_path = |k: usize| {
            let after = held.partition_point(|h| h.from <= k);
            after.checked_sub(1).is_none_or(|i| held[i].to <= k)
        };
        self.delays.each_excess(all, |k, excess| {
            if of_path(k) && !self.delays.is_aside(k) {
                each(k, excess);
            }
        });
    }

    /// Packets whose fate is known, and those of them that were lost, without outages.
    pub fn sent_and_lost(&self) -> [u64; 2] {
        let at_steps: u64 = self.lost_at_steps.iter().map(|r| r.len).sum();
        let lost = if self.material.shows_loss() { self.losses.others().lost() + at_steps } else { 0 };
        [self.material.came.len() + lost, lost]
    }

    /// Severity of gaps within bursts of loss: each is as long as an outage, and none is one by itself. They are fair at
    /// worst unless they are as long as a second.
    pub fn of_gaps(&self) -> Severity {
        let [longest, total] = self.losses.gaps();
        let severity = of_outage(longest, total, self.duration);
        match longest {
            _ if !self.material.shows_loss() => Severity::Good,
            ..1.0 => severity.min(Severity::Fair),
            _ => severity,
        }
    }

    /// What an application lives through, without outages: with what its own host adds.
    pub fn experience(&self) -> Experience {
        let [sent, lost] = self.sent_and_lost();
        let clock = self.material.clock;
        let was_set =
            self.steps.iter().any(|(_, r)| matches!(r, StepReason::SenderClock | StepReason::ReceiverClock));
        let base_ns = self.material.min().and_then(|min| match is_one_host(self.material.session) {
            true if !self.material.round_trip && !was_set => Some(min as f64),
            _ => smallest_one_way(min, clock, self.material.round_trip, was_set),
        });
        Experience {
            waits: self.waits(),
            sent,
            lost,
            burst_ratio: self.scattered.pattern().burst_ratio,
            base_ns,
        }
    }
}

/// Returns true if sender and receiver have the same address, so that one clock stamps both ends.
pub(super) fn is_one_host(session: &Session) -> bool {
    session.src.zip(session.dst).is_some_and(|(src, dst)| src == dst)
}

/// Smallest one-way delay in ns where the smallest raw delay of a stream is `min`, however long; `None` if the clocks do not
/// bound it. `was_set`: one of them was set during the stream.
pub(super) fn smallest_one_way(
    min: i64,
    clock: &ClockEstimate,
    round_trip: bool,
    was_set: bool,
) -> Option<f64> {
    match clock.correction_ns {
        // Half a round trip is within as much of a one-way delay.
        _ if round_trip => Some(min as f64 / 2.0),
        Some(_) if !is_bounded(clock) => None,
        Some(correction) if clock.direction_known && !was_set => Some(min.saturating_sub(correction) as f64),
        Some(_) => clock.min_rtt_ns.map(|rtt| rtt as f64 / 2.0),
        None if was_set => None,
        None => clock.synchronised().filter(|error| *error < MAX_CLOCK_ERROR_NS).map(|_| min as f64),
    }
}

/// Whether the clock probes bound one-way delays. A bound of [`MAX_PROBE_BOUND_NS`] or less does. A longer one means that each round
/// trip took a second or more: that is the path only if most probes agree. If they scatter, their own connection or a host
/// was slow, and the bound says nothing about the path.
fn is_bounded(clock: &ClockEstimate) -> bool {
    let agree = |bound: f64| clock.rtt_spread_ns.is_none_or(|spread| spread <= MAX_PROBE_SCATTER * bound);
    clock.bound_ns.is_some_and(|bound| bound <= MAX_PROBE_BOUND_NS || agree(bound))
}

/// So many outages may be what a rate limit drops.
const MIN_POLICED_OUTAGES: usize = 9;

/// Shorter holds of a program are not worth a word, in ns.
const MIN_HOLD_NS: i64 = 40_000_000;

/// Clocks that may be off by more, in ns, by what their kernels say, give no one-way delay.
const MAX_CLOCK_ERROR_NS: i64 = 50_000_000;

/// Largest error of the clock offset, in ns, that is taken from probes whether they agree or not.
const MAX_PROBE_BOUND_NS: f64 = 500e6;
/// Most that the median round trip of the probes may exceed the shortest, as a share of a longer bound.
const MAX_PROBE_SCATTER: f64 = 0.5;

/// Below this there is no verdict: 3/N, the most that N packets without loss can exclude, is above the 3 % that any
/// conversation bears.
pub const MIN_PACKETS: usize = 100;

/// The slots in which the link of a test forwards packets.
fn find_slot(delays: &Delays<'_>, blocks: &Blocks, material: &Evidence<'_>) -> Option<i64> {
    slots::slot(delays, material.period()?).or_else(|| levels::slipped_slot(delays, blocks))
}

/// True if `step` is at the edge of a stall and the smallest delay is the same on both sides of that.
fn is_of_a_stall(step: &LevelStep, late: &SenderDelays, delays: &Delays<'_>) -> bool {
    late.stalls.iter().any(|stall| {
        let is_near = (stall.from.saturating_sub(2)..=stall.to + 2).contains(&step.place);
        let about = 4 * MIN_STALL_NEIGHBOURS;
        let before = delays.quantile(stall.from.saturating_sub(about), stall.from, 0.25);
        let after = delays.quantile(stall.to, stall.to + about, 0.25);
        let differ = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        // Too few packets before it show no level that a path could have left.
        is_near
            && (stall.from < MIN_STALL_NEIGHBOURS
                || differ.is_none_or(|by| by.saturating_abs() < step.change.saturating_abs() / 2))
    })
}

/// Fewest packets beside a stall that show the smallest delay there.
const MIN_STALL_NEIGHBOURS: usize = 8;

/// Takes for a hand-over a step at which the path delivers what it stored.
fn handed_over_to(steps: &mut [(LevelStep, StepReason)], episodes: &Episodes) {
    for (step, reason) in steps.iter_mut().filter(|(_, reason)| *reason == StepReason::Route) {
        let meets = |from: usize, to: usize, size: i64| {
            let near = |place: usize| step.place.abs_diff(place) <= MAX_STEP_DISTANCE;
            size >= 3 * step.change.saturating_abs()
                && (near(from) || near(to) || (from..to).contains(&step.place))
        };
        let hold = episodes.holds.iter().any(|h| h.length >= MIN_HOLD_NS && meets(h.from, h.to, h.length));
        if hold || episodes.queues.iter().any(|q| meets(q.from, q.to, q.height)) {
            *reason = StepReason::HandOver;
        }
    }
}

/// Most packets between a step and what the path stored, for one event.
const MAX_STEP_DISTANCE: usize = 3;

/// True if another smallest delay begins with a step.
fn is_level(reason: StepReason) -> bool {
    matches!(reason, StepReason::Route | StepReason::HandOver)
}

/// The new smallest delay after the peak of `queue`, if it stays to the end of the test and is far below the peak: the path
/// stored packets while it changed.
fn level_after(delays: &Delays<'_>, queue: &Episode, noise: DelayNoise) -> Option<LevelStep> {
    let n = delays.len();
    if queue.to < n {
        return None;
    }
    let mut peak = (queue.from, 0);
    delays.each_excess(queue.from..n, |k, excess| {
        if excess > peak.1 {
            peak = (k, excess);
        }
    });
    let last = n - (n - peak.0) / 4;
    let level = delays.quantile(last, n, 0.5)?;
    let near = level.saturating_add(level / 4).saturating_add(noise.p90);
    let place = peak.0 + (peak.0..n).take_while(|k| delays.excess(*k) > near).count();
    let spread = delays.quantile(place, n, 0.9)?.saturating_sub(delays.quantile(place, n, 0.1)?);
    let is_flat = spread <= (4 * noise.p90).max(level / 4) && n - place >= MIN_LEVEL_PACKETS;
    let is_brief = delays.time(place).saturating_sub(delays.time(queue.from)) < MAX_HAND_OVER_NS;
    let found = is_flat && is_brief && level < peak.1 / 3;
    found.then_some(LevelStep { place, change: level, ramp: 0, spread: [0, spread] })
}

/// Fewest packets that show a new smallest delay.
const MIN_LEVEL_PACKETS: usize = 50;
/// A path stores packets for a shorter time while it changes, in ns.
const MAX_HAND_OVER_NS: i64 = 5_000_000_000;

/// The smallest delay of each route.
fn set_levels(delays: &mut Delays<'_>, steps: &[(LevelStep, StepReason)]) {
    let mut places: Vec<usize> = steps.iter().filter(|(_, r)| is_level(*r)).map(|(s, _)| s.place).collect();
    places.push(0);
    places.sort_unstable();
    delays.set_levels(&places);
}

/// Takes for the queue's what looked like another route in the middle of one. True if there was any.
fn within_queues(steps: &mut [(LevelStep, StepReason)], episodes: &Episodes) -> bool {
    let mut any = false;
    for (step, reason) in steps.iter_mut().filter(|(_, r)| *r == StepReason::Route) {
        let of_queue =
            |q: &Episode| (q.from + 1..q.to).contains(&step.place) && step.change.saturating_abs() < q.height;
        if episodes.queues.iter().any(of_queue) {
            *reason = StepReason::Queue;
            any = true;
        }
    }
    any
}

/// A route that changes loses packets for less than this, in ns; a longer time is an outage of its own.
const MAX_CONVERGENCE_NS: i64 = 220_000_000;

/// Takes out of `runs` the short ones during which the route changed.
fn lost_at_steps(
    runs: &mut Vec<SeqRun>,
    steps: &[(LevelStep, StepReason)],
    delays: &Delays<'_>,
    departures: &LossTimes<'_, '_>,
) -> Vec<SeqRun> {
    let mut out = Vec::new();
    for (step, _) in steps.iter().filter(|(_, reason)| *reason == StepReason::Route) {
        if step.place == 0 || step.place >= delays.len() {
            continue;
        }
        // The losses between the last packet of the old route and the first of the new one, or one packet further.
        let (from, to) =
            (delays.seq(step.place.saturating_sub(2)), delays.seq((step.place + 1).min(delays.len() - 1)));
        let here = |r: &SeqRun| (from..to).contains(&r.start) && departures.length(r) < MAX_CONVERGENCE_NS;
        out.extend(runs.iter().filter(|r| here(r)).copied());
        runs.retain(|r| !here(r));
    }
    out
}

/// Takes out of `runs` those that the sending host's system refused, if they can be identified: all of them, or the one
/// run that is as long. Returns them.
fn without_refused(runs: &mut Vec<SeqRun>, refused: u64) -> Vec<SeqRun> {
    let lost: u64 = runs.iter().map(|r| r.len).sum();
    if refused == 0 {
        return Vec::new();
    }
    if lost <= refused + refused / 10 {
        return std::mem::take(runs);
    }
    let as_long = runs.iter().position(|r| r.len.abs_diff(refused) <= refused / 20);
    as_long.map(|k| runs.remove(k)).into_iter().collect()
}

#[cfg(test)]
mod tests;

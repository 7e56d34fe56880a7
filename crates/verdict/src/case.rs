//! [`Case`]: everything that the rules for causes examine. It is computed once from the evidence of one direction of a
//! test.

pub(super) mod explained_losses;
mod level_steps;

use super::clock_bounds::{error_of_one_way, is_one_host, smallest_one_way};
use super::delays::{Blocks, DelayNoise, Delays};
use super::episodes::{Episodes, Hold, least_hold};
use super::law::{LossLaw, lets_even_rate_through};
use super::levels::{self, LevelStep};
use super::losses::{LossTimes, PathLosses, Scattered};
use super::schedule::{self, SenderDelays, Stall};
use super::severity::{Experience, Waits, of_outage};
use super::slew::Slew;
use super::slots;
use super::steps::{self, StepReason};
use super::tcp_limits::{self, TcpHold};
use super::wander::wandering;
use explained_losses::{
    lost_at_steps, lost_to_discovery, taken_from, was_read_after, without_dropped, without_refused,
};
use jitlat_core::answer::{DelayShift, Severity};
use jitlat_core::distribution::sample::Sample;
use jitlat_core::evidence::Evidence;
use jitlat_core::evidence::KnownPackets;
use jitlat_core::metrics::seqset::{SeqRun, absent, without};
use jitlat_core::session::{SSRC, Session};
use jitlat_core::spec::Transport;
use level_steps::{handed_over_to, is_of_a_stall, level_after, set_levels, within_queues};
use std::collections::BTreeMap;

/// Evidence of one direction of a test, and everything that the rules derive from it.
pub struct Case<'a> {
    /// Evidence from which the rest is computed.
    pub material: &'a Evidence<'a>,
    /// Packets known to be received or lost.
    pub known: KnownPackets,
    /// Delays, corrected for clock steps, clock skew and route changes.
    pub delays: Delays<'a>,
    /// Differences in delay between neighbouring packets.
    pub noise: DelayNoise,
    /// Lasting changes of the smallest delay, each with its reason.
    pub steps: Vec<(LevelStep, StepReason)>,
    /// Rate of the receiving clock relative to the sending one, minus 1; `None` if the clocks run at the same rate, or
    /// if a queue explains the difference.
    pub skew: Option<f64>,
    /// Half of the width of the 95 % interval of `skew`.
    pub skew_error: f64,
    /// Adjustment of a clock during the test; `None` if no clock was adjusted.
    pub slew: Option<Slew>,
    /// Queues, and packets that were held and released together.
    pub episodes: Episodes,
    /// Delays that the sending host added.
    pub late: SenderDelays,
    /// Lost packets, divided into outages and other losses.
    pub losses: PathLosses,
    /// Losses that are neither outages nor packets that the sending host refused.
    pub scattered: Scattered,
    /// Number of packets that a full queue dropped.
    pub dropped_by_queue: u64,
    /// Times for which the sending program waited for its TCP connection, each with the limit that made it wait.
    pub held_by_tcp: Vec<(Stall, TcpHold)>,
    /// Lost packets that the sending host's system refused to send, if they can be identified among all losses.
    pub refused: Vec<SeqRun>,
    /// First packets of the stream, which were lost while the sending kernel did not know the path MTU; `None` if there
    /// are none.
    pub lost_to_discovery: Option<SeqRun>,
    /// Losses among packets that the sender sent at once after a stall.
    pub lost_in_bursts: Vec<SeqRun>,
    /// Lost packets that the receiving host dropped because its socket buffer was full, if they can be identified.
    pub dropped_by_receiver: Vec<SeqRun>,
    /// Short loss bursts that coincide with a route change.
    pub lost_at_steps: Vec<SeqRun>,
    /// Loss model that explains the scattered losses; `None` if none does.
    pub law: Option<LossLaw>,
    /// Time from the first packet to the last packet known to be received or lost, in seconds.
    pub duration: f64,
    /// Position of this part in its stream; all zero for a whole stream.
    pub begin: Begin,
}

/// Start of a part of a stream. The part begins with packets repeated from an earlier part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Begin {
    /// Time from the first packet of the stream to the first packet of the part, in seconds.
    pub at: f64,
    /// End of the repeated packets, in seconds since the first packet of the part.
    pub again_until: f64,
    /// Time that was left out between the repeated packets and the packets after them, in seconds.
    pub left_out: f64,
}

impl Begin {
    /// Converts `seconds` since the first packet of the part to seconds since the first packet of the stream.
    pub fn of(&self, seconds: f64) -> f64 {
        self.at + seconds - if seconds < self.again_until { self.left_out } else { 0.0 }
    }
}

impl<'a> Case<'a> {
    /// Computes the case from `material`.
    pub fn new(material: &'a Evidence<'a>) -> Case<'a> {
        let Evidence { session, series, came, .. } = *material;
        let known = KnownPackets::of(session, came);
        let mut delays = Delays::new(series);
        let mut noise = delays.noise();
        let mut set = schedule::clock_steps(&delays, material, noise);
        // A full window delays packets and then the program, which looks like a clock that was set.
        set.retain(|step| !tcp_limits::is_held_at(&session.tcp, delays.seconds(step.place)));
        let mut steps: Vec<(LevelStep, StepReason)> =
            set.iter().map(|s| (*s, StepReason::SenderClock)).collect();
        for step in &set {
            delays.set_shift(step.place, step.change, step.change.saturating_neg());
        }
        let mut late = SenderDelays::new(&delays, material);
        let held_by_tcp = take_tcp_holds(&mut late, &delays, session);
        delays.set_aside(late.stalls.iter().map(|stall| stall.from..stall.to).collect());
        let (mut skew, mut skew_error) = (None, 0.0);
        let mut blocks = delays.blocks();
        let (mut slot, mut slew) = (None, None);
        if series.len() >= MIN_PACKETS {
            slew = Slew::of(&delays, &blocks, noise)
                .filter(|slew| steps::may_be_drift(slew.change() as f64, material));
            let is_media = session.tags.iter().any(|(key, _)| key == SSRC);
            let most = if is_media { levels::MAX_MEDIA_DRIFT } else { levels::MAX_DRIFT };
            let line = levels::drift(&delays, &blocks, noise, most).filter(|_| slew.is_none());
            let drift = line.filter(|drift| steps::may_be_skew(drift.rate, &delays, material));
            if let (Some(line), None) = (line, drift) {
                // The clocks do not drift, so that packets slide through the slots of a link.
                let slid = (line.rate * delays.time(series.len() - 1) as f64).abs();
                slot = slots::may_slide(line.rate, slid).then_some(slid as i64);
            }
            skew = drift.map(|drift| drift.rate);
            skew_error = drift.map_or(0.0, |drift| drift.error);
            if let Some(rate) = skew {
                slot = find_slot(&delays, &blocks, noise, material);
                // Slots that follow a clock other than the sender's look like clock skew until the packets reach the
                // next slot.
                let drift = (rate * delays.time(series.len() - 1) as f64) as i64;
                skew = skew.filter(|_| slot.is_none_or(|slot| drift.abs() > slot + slot / 4));
            }
            if let Some(skew) = skew {
                delays.set_skew(skew);
                noise = delays.noise();
                blocks = delays.blocks();
            }
            if let Some(slew) = &slew {
                delays.set_slew(slew.clone());
                blocks = delays.blocks();
            }
            let mut found = levels::steps(&delays, &blocks, noise);
            if found.iter().any(|step| step.change.saturating_abs() <= slots::MAX_SLOT_NS) {
                slot = slot.or_else(|| find_slot(&delays, &blocks, noise, material));
            }
            found.retain(|step| {
                slot.is_none_or(|slot| step.change.saturating_abs() > slot + slot / 4)
                    && !slew.as_ref().is_some_and(|slew| slew.explains(step.place, step.change))
                    && !is_of_a_stall(step, &late, &delays)
                    && !tcp_limits::is_held_at(&session.tcp, delays.seconds(step.place))
            });
            steps.extend(steps::explain(&delays, &found, material, noise));
            let stored = levels::after_storing(&delays, &blocks, noise);
            for step in &stored {
                // The same change, seen from a distance.
                steps.retain(|(other, reason)| {
                    *reason != StepReason::Route
                        || other.place.abs_diff(step.place) > series.len() / 20
                        || other.change.saturating_sub(step.change).saturating_abs() > step.change.abs() / 2
                });
            }
            steps.extend(stored.into_iter().map(|step| (step, StepReason::HandOver)));
            steps.sort_by_key(|(step, _)| step.place);
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
            slot = slot.or_else(|| find_slot(&delays, &blocks, noise, material));
            if let Some(slot) = slot {
                // A packet that misses its slot waits for the next slot, but not for other packets.
                let least = slot + slot / 4 + 2 * noise.median;
                if episodes.queues.iter().any(|queue| queue.height <= least) {
                    episodes = Episodes::higher_than(least, &delays, &delays.blocks(), noise);
                }
            }
        }
        let held: usize = episodes.holds.iter().map(|hold| hold.to - hold.from).sum();
        let late_packets: usize = late.stalls.iter().map(|stall| stall.to - stall.from).sum();
        let is_regular = series.len() >= MIN_PACKETS && (held + late_packets) * 20 <= series.len();
        if episodes.queues.is_empty() && is_regular {
            // Differences between neighbouring packets within a queue may hide it.
            let blocks = delays.blocks();
            let calm = delays.calm_noise(&blocks);
            if calm.p90 < noise.p90 / 2 {
                let least = slot.map_or(0, |slot| slot + slot / 4 + 2 * noise.median);
                let found = Episodes::higher_than(least, &delays, &blocks, calm);
                if !found.queues.is_empty() {
                    episodes = found;
                }
            }
        }
        if episodes.queues.is_empty() && is_regular && session.spec.transport() == Transport::Udp {
            let least = slot.map_or(0, |slot| slot + slot / 4);
            episodes
                .queues
                .extend(wandering(&delays, noise, delays.together()).filter(|queue| queue.height > least));
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
        let lost = without(absent(came.runs(), known.end), session.uncounted_in(0, known.end));
        let mut runs: Vec<SeqRun> = lost.collect();
        let refused = without_refused(&mut runs, session.refused());
        let lost_to_discovery = lost_to_discovery(&mut runs, session, &departures);
        let lost_in_bursts = taken_from(&mut runs, |run| late.is_sent_at_once(run, &delays, material));
        let drops = session.receiver_drops.unwrap_or(0);
        let noted = material.notes.read_late.iter().filter(|_| drops > 0);
        let lags: BTreeMap<u64, i64> = noted.map(|(seq, lag)| (u64::from(*seq), *lag)).collect();
        let dropped_by_receiver = without_dropped(&mut runs, drops, |run| {
            was_read_after(run, &delays, &departures, &lags, &episodes.holds)
        });
        let lost_at_steps = lost_at_steps(&mut runs, &steps, &delays, &departures);
        let mut losses = PathLosses::new(runs, known.end, |r| departures.length(r));
        if losses.outages().count() >= MIN_POLICED_OUTAGES {
            // A rate limiter that fills its bucket in steps drops long runs of packets.
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
            slew,
            episodes,
            late,
            scattered: Scattered::default(),
            dropped_by_queue: 0,
            held_by_tcp,
            refused,
            lost_to_discovery,
            lost_in_bursts,
            dropped_by_receiver,
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

    /// Separates losses caused by a full queue from the scattered ones.
    fn sort_losses(&mut self) {
        let others = self.losses.others();
        let local = self.late.height();
        if self.episodes.queues.is_empty() && local.is_none() {
            self.scattered = others;
            return;
        }
        // Lost while a queue was nearly full: the previous or the next packet waited for more than half of the queue's
        // height.
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
        // The queue explains the losses only if the loss ratio in it is clearly higher than elsewhere.
        if inside < 3 || rate(inside, packets) < 2.0 * elsewhere.max(1.0 / others.sent.max(1) as f64) {
            self.scattered = others;
            return;
        }
        self.dropped_by_queue = inside;
        self.scattered =
            others.filtered(if elsewhere > 0.0 { 0 } else { packets.min(others.sent / 2) }, |o| !full(o));
    }

    /// True if a media clock gives the send times.
    pub fn is_media(&self) -> bool {
        self.material.session.tags.iter().any(|(key, _)| key == SSRC)
    }

    /// Returns the time by which the clocks drift apart during the test, in ns; 0 if they run at the same rate.
    pub fn clock_drift(&self) -> i64 {
        let slewed = self.slew.as_ref().map_or(0, Slew::change);
        self.skew.map_or(slewed, |skew| (skew * self.duration * 1e9) as i64)
    }

    /// Returns the time from the first packet to packet `seq`, in seconds. It is estimated if the packet was lost.
    pub fn seconds(&self, seq: u64) -> f64 {
        LossTimes::new(&self.delays, self.material.session).of(seq) as f64 / 1e9
    }

    /// Returns the time from the first packet of the whole stream to the packet at index `k` in send order, in seconds.
    pub fn stream_seconds_at(&self, k: usize) -> f64 {
        self.begin.of(self.seconds_at(k))
    }

    /// Returns the time from the first packet to the packet at index `k` in send order, in seconds.
    pub fn seconds_at(&self, k: usize) -> f64 {
        if k < self.delays.len() { self.delays.seconds(k) } else { self.duration }
    }

    /// Returns the limit of the TCP connection between two times, in seconds since the first packet; `None` over UDP, if
    /// none applied, or if the state of the connection is unknown.
    pub fn tcp_hold(&self, from_s: f64, to_s: f64) -> Option<TcpHold> {
        tcp_limits::between(&self.material.session.tcp, self.begin.of(from_s), self.begin.of(to_s))
    }

    /// Returns the holds attributed to the receiving program. Their packets have no kernel stamps.
    pub fn receiver_holds(&self) -> Vec<Hold> {
        if self.material.is_stamped_by_kernel() { Vec::new() } else { self.long_holds() }
    }

    /// Returns the holds attributed to the path. The receiving kernel stamped their packets on arrival.
    pub fn path_holds(&self) -> Vec<Hold> {
        if self.material.is_stamped_by_kernel() { self.long_holds() } else { Vec::new() }
    }

    /// Returns the holds that are long enough to be reported; none over TCP, which holds back segments to deliver data
    /// in order.
    fn long_holds(&self) -> Vec<Hold> {
        if self.material.session.spec.transport() == Transport::Tcp {
            return Vec::new();
        }
        let least = self.longest_usual_hold().max(self.episodes.tail.saturating_mul(4));
        let is_long = |h: &&Hold| h.length >= least && h.to - h.from >= 3;
        self.episodes.holds.iter().filter(is_long).copied().collect()
    }

    /// Returns the minimum length of a hold that is reported, in ns: three packet intervals, but at least 60 ms, or at
    /// least 40 ms if there are several holds or if stamps prove that the program read packets late.
    pub fn longest_usual_hold(&self) -> i64 {
        let read_late = self.material.notes.read_late.iter().filter(|(_, lag)| *lag >= MIN_HOLD_NS).count();
        let least = if read_late > 0 { MIN_HOLD_NS } else { least_hold(&self.episodes.holds) };
        least.max(3 * self.material.period().unwrap_or(0))
    }

    /// Returns the number of packets that a host sent late, refused, dropped, or read late without a kernel stamp.
    pub fn touched(&self) -> u64 {
        let held: usize = self.receiver_holds().iter().map(|hold| hold.to - hold.from).sum();
        let late: usize = self.late.stalls.iter().map(|stall| stall.to - stall.from).sum();
        (held + late) as u64 + self.lost_by_hosts() + self.material.session.refused()
    }

    /// Returns the number of losses that are attributed to a host, except packets that it refused to send.
    pub fn lost_by_hosts(&self) -> u64 {
        self.lost_in_bursts.iter().chain(&self.dropped_by_receiver).map(|run| run.len).sum()
    }

    /// Returns the waits of packets including the effects of the hosts: in addition to [`Case::waits`], those of
    /// packets that a host sent late, held in its queue, or read late.
    fn waits_with_hosts(&self) -> Waits {
        let series = self.delays.series();
        let mut waits = Vec::with_capacity(self.delays.len());
        self.delays.each_excess(0..self.delays.len(), |_, excess| waits.push(excess));
        for (k, wait) in waits.iter_mut().enumerate() {
            let own = self.late.of(k).saturating_add(self.late.lateness(k, &self.delays, self.material));
            *wait = wait.saturating_add(own);
        }
        for (seq, lag) in &self.material.notes.read_late {
            if let Some(wait) = waits.get_mut(series.position_of((*seq).into())) {
                *wait = wait.saturating_add(*lag);
            }
        }
        Waits::of(&waits)
    }

    /// Returns the impairments that an application experiences, including the effects of the hosts but leaving out
    /// outages.
    pub fn experience_with_hosts(&self) -> Experience {
        let path = self.experience();
        let unsent = self.material.session.refused().min(self.known.sent);
        let skipped: u64 = self.material.session.skipped_in(0, self.known.end).map(|run| run.len).sum();
        let gone = self.lost_by_hosts() + unsent + skipped;
        Experience { waits: self.waits_with_hosts(), sent: path.sent + gone, lost: path.lost + gone, ..path }
    }

    /// Returns the waits of packets on the path: delay minus the smallest delay of the route if delays are adjusted,
    /// otherwise with an arbitrary zero. Excludes packets that a host sent or read late.
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

    /// Returns the delays as measured, in ns and in send order, without the packets that a host sent or read late.
    pub fn delays_of_path(&self) -> Vec<i64> {
        let series = self.material.series;
        let held = self.receiver_holds();
        if self.late.stalls.is_empty() && held.is_empty() {
            return series.iter().map(|packet| packet.delay).collect();
        }
        let mut delays = Vec::with_capacity(series.len());
        self.each_wait_but(&held, |k, _| delays.push(series.get(k).delay));
        delays
    }

    /// Calls `each` for each packet in [`Case::waits`], in send order, with its index in send order and its wait in ns.
    pub fn each_wait(&self, each: impl FnMut(usize, i64)) {
        self.each_wait_but(&self.receiver_holds(), each);
    }

    /// Calls `each` for each packet on the path, in send order, with its index in send order and its wait in ns. Leaves
    /// out packets that are set aside, and those of the holds `held`, which the receiving program caused.
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

    /// Returns the number of packets known to be received or lost, and the number of lost packets, both without
    /// outages.
    pub fn sent_and_lost(&self) -> [u64; 2] {
        let at_steps: u64 = self.lost_at_steps.iter().map(|r| r.len).sum();
        let lost = if self.material.shows_loss() { self.losses.others().lost() + at_steps } else { 0 };
        [self.material.came.len() + lost, lost]
    }

    /// Returns the severity of gaps within loss bursts that are as long as an outage but do not count as one. The
    /// severity is at worst fair, unless a gap lasts 1 s or longer.
    pub fn of_gaps(&self) -> Severity {
        let [longest, total] = self.losses.gaps();
        let severity = of_outage(longest, total, self.duration);
        match longest {
            _ if !self.material.shows_loss() => Severity::Good,
            ..1.0 => severity.min(Severity::Fair),
            _ => severity,
        }
    }

    /// Returns true if a clock was set during the test.
    pub fn was_set(&self) -> bool {
        self.steps.iter().any(|(_, r)| matches!(r, StepReason::SenderClock | StepReason::ReceiverClock))
    }

    /// Returns the changes of the delays by clocks that were set; empty if there are too many to be listed.
    pub fn clock_shifts(&self) -> Vec<DelayShift> {
        let is_clock =
            |reason: &StepReason| matches!(reason, StepReason::SenderClock | StepReason::ReceiverClock);
        let shifts = self.steps.iter().filter(|(_, reason)| is_clock(reason)).map(|(step, _)| {
            let seq = u32::try_from(self.delays.seq(step.place)).unwrap_or(u32::MAX);
            DelayShift { seq, by_ns: step.change }
        });
        let shifts: Vec<DelayShift> = shifts.collect();
        if shifts.len() > MAX_SHIFTS { Vec::new() } else { shifts }
    }

    /// Returns the impairments that an application experiences, leaving out outages.
    pub fn experience(&self) -> Experience {
        let [sent, lost] = self.sent_and_lost();
        let clock = self.material.clock;
        let was_set = self.was_set();
        let base_ns = self.material.min().and_then(|min| match is_one_host(self.material.session) {
            true if !self.material.round_trip && !was_set => Some(min as f64),
            _ => smallest_one_way(min, clock, self.material.round_trip, was_set),
        });
        Experience {
            waits: self.waits(),
            sent,
            lost,
            burst_ratio: self.scattered.pattern().burst_ratio,
            loss_effect: self.scattered.design_effect(),
            base_ns,
            base_error_ns: error_of_one_way(
                clock,
                self.material.round_trip,
                is_one_host(self.material.session),
            ),
        }
    }
}

/// Maximum number of clock steps that are listed one by one.
const MAX_SHIFTS: usize = 256;

/// Minimum number of outages that may be caused by a rate limit.
const MIN_POLICED_OUTAGES: usize = 9;

/// Minimum length of a hold by a program that is reported, in ns.
const MIN_HOLD_NS: i64 = 40_000_000;

/// Minimum number of packets for a verdict. N packets without loss only exclude loss above 3/N (95 % confidence). With
/// fewer packets, 3/N exceeds the 3 % of loss that a conversation tolerates.
pub const MIN_PACKETS: usize = 100;

/// Returns the length of the slots in which a link of the path forwards packets, in ns; `None` if delays show no slots.
fn find_slot(
    delays: &Delays<'_>,
    blocks: &Blocks,
    noise: DelayNoise,
    material: &Evidence<'_>,
) -> Option<i64> {
    slots::slot(delays, material.period()?).or_else(|| levels::slipped_slot(delays, blocks, noise))
}

/// Removes from `late` the stalls during which the TCP connection accepted no more from the program, and returns them.
fn take_tcp_holds(late: &mut SenderDelays, delays: &Delays<'_>, session: &Session) -> Vec<(Stall, TcpHold)> {
    let mut held = Vec::new();
    late.stalls.retain(|stall| {
        let to = delays.seconds(stall.from);
        let hold = tcp_limits::between(&session.tcp, to - stall.length as f64 / 1e9, to);
        held.extend(hold.map(|hold| (*stall, hold)));
        hold.is_none()
    });
    held
}

/// Returns the part of `runs`, which ascend, with the runs that start from `first` to `last`.
pub fn runs_between(runs: &[SeqRun], first: u64, last: u64) -> &[SeqRun] {
    let from = runs.partition_point(|run| run.start < first);
    let len = runs[from..].partition_point(|run| run.start <= last);
    &runs[from..from + len]
}

#[cfg(test)]
mod tests;

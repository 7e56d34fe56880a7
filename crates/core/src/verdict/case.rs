//! [`Case`]: everything the rules look at, worked out once from the records of one way of one test.

use super::causes;
use super::delays::{Delays, Noise, bounded};
use super::episodes::{Episode, Episodes, Hold};
use super::law::LossLaw;
use super::levels::{self, Step};
use super::losses::{Departures, Losses, Scattered};
use super::schedule::{self, Late};
use super::severity::{Experience, Waits};
use super::steps::{self, Reason};
use crate::distribution::sample::Sample;
use crate::metrics::clock::ClockEstimate;
use crate::metrics::duplicate::Copies;
use crate::metrics::seqset::{Run, SeqSet, absent};
use crate::metrics::series::Series;
use crate::session::{Ending, Session};
use crate::spec::Transport;
use crate::time::Source;
use serde::{Deserialize, Serialize};

/// What the analysis hands over.
pub struct Material<'a> {
    /// The test.
    pub session: &'a Session,
    /// The packets accepted, in send order.
    pub series: &'a Series<'a>,
    /// Their numbers.
    pub accepted: &'a SeqSet,
    /// Their delays in order.
    pub sample: &'a Sample,
    /// Further copies.
    pub copies: &'a Copies,
    /// What is known of the clocks.
    pub clock: &'a ClockEstimate,
    /// What was noted row by row.
    pub notes: &'a RowNotes,
    /// Where all arrived stamps were taken; None where in several places.
    pub arrived_by: Option<Source>,
    /// The delays are of a way there and back, by one clock.
    pub round_trip: bool,
}

/// What stands beside single rows and is worth a look.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RowNotes {
    /// Packets that stayed in the sending host for a millisecond or longer before their sent stamp: number, ns.
    pub sent_late: Vec<(u32, i64)>,
    /// Packets that stayed in the receiving host as long after their arrived stamp: number, ns.
    pub read_late: Vec<(u32, i64)>,
    /// Payload of each packet received, by number, where they are not all of one size.
    pub sizes: Vec<(u32, u16)>,
    /// The time to live with which packets came from each number on, where it changed.
    pub ttl: Vec<(u32, u8)>,
    /// The size of every row so far, while it is one.
    only_size: Option<u16>,
    last_ttl: Option<u8>,
}

/// Changes of the time to live that are listed.
const MOST_TTLS: usize = 64;
/// Shorter stays in a host are of no interest.
const NOTED: i64 = 1_000_000;

impl RowNotes {
    /// Takes note of an accepted row.
    #[inline]
    pub fn push(&mut self, record: &crate::PacketRecord, seq: u32) {
        if let Some(lag) = record.send_lag().filter(|l| l.0 >= NOTED) {
            self.sent_late.push((seq, bounded(lag.0)));
        }
        if let Some(lag) = record.receive_lag().filter(|l| l.0 >= NOTED) {
            self.read_late.push((seq, bounded(lag.0)));
        }
        if record.ttl() != self.last_ttl
            && let Some(ttl) = record.ttl()
        {
            self.last_ttl = Some(ttl);
            if self.ttl.len() < MOST_TTLS {
                self.ttl.push((seq, ttl));
            }
        }
        if let Some(size) = record.size() {
            self.size(seq, size);
        }
    }

    /// The payload of every packet received, where it was one and the same.
    pub fn only_size(&self) -> Option<u16> {
        self.only_size.filter(|_| self.sizes.is_empty())
    }

    fn size(&mut self, seq: u32, size: u16) {
        // All sizes are kept from the first that differs on: a test of one size keeps none.
        if self.only_size.is_none_or(|only| only == size) && self.sizes.is_empty() {
            self.only_size = Some(size);
        } else {
            self.sizes.push((seq, size));
        }
    }

    /// Adds what was noted of the rows that follow: of the packets `seqs`, in order of arrival, those that are new.
    pub fn append(&mut self, next: &RowNotes, seqs: &[u32], is_new: impl Fn(u32) -> bool) {
        self.sent_late.extend(next.sent_late.iter().filter(|(seq, _)| is_new(*seq)));
        self.read_late.extend(next.read_late.iter().filter(|(seq, _)| is_new(*seq)));
        // The first is what those packets began with, which need not be a change.
        let changes =
            next.ttl.iter().enumerate().filter(|(k, (_, ttl))| *k > 0 || Some(*ttl) != self.last_ttl);
        let room = MOST_TTLS.saturating_sub(self.ttl.len());
        self.ttl.extend(changes.map(|(_, change)| *change).take(room));
        self.last_ttl = next.last_ttl.or(self.last_ttl);
        let Some(size) = next.only_size else { return };
        // Sizes are listed from the first that differed; those before were of the one size.
        let before = seqs.len().saturating_sub(next.sizes.len());
        if self.sizes.is_empty() && self.only_size.is_none_or(|only| only == size) {
            self.only_size = Some(size);
        } else {
            seqs[..before].iter().filter(|seq| is_new(**seq)).for_each(|seq| self.size(*seq, size));
        }
        next.sizes.iter().filter(|(seq, _)| is_new(*seq)).for_each(|(seq, size)| self.size(*seq, *size));
    }

    /// The same of packets with numbers `by` higher.
    pub fn shifted(mut self, by: u32) -> RowNotes {
        let times = self.sent_late.iter_mut().chain(&mut self.read_late).map(|(seq, _)| seq);
        let others = self.sizes.iter_mut().map(|(seq, _)| seq).chain(self.ttl.iter_mut().map(|(seq, _)| seq));
        times.chain(others).for_each(|seq| *seq = seq.saturating_add(by));
        self
    }

    /// Whether these can be the notes on the packets `accepted`, as far as the rules rely on it.
    pub fn is_possible(&self, accepted: &SeqSet) -> bool {
        let late = |stays: &[(u32, i64)]| {
            stays.iter().all(|(seq, ns)| accepted.contains(*seq) && *ns >= NOTED && bounded(*ns) == *ns)
        };
        late(&self.sent_late)
            && late(&self.read_late)
            && self.sizes.iter().all(|(seq, _)| accepted.contains(*seq))
            && self.ttl.iter().all(|(seq, _)| accepted.contains(*seq))
            && self.ttl.len() <= MOST_TTLS
    }
}

/// How much of a test is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Packets whose fate is known: 0 up to this number.
    pub sent: u64,
    /// Packets after them that may or may not have been sent and received.
    pub unknown: u64,
    /// Everything that was sent is accounted for.
    pub complete: bool,
}

/// Everything the rules look at.
pub struct Case<'a> {
    /// What it was made from.
    pub material: &'a Material<'a>,
    /// How much of the test is known.
    pub known: Known,
    /// Delays without what clocks and routes added.
    pub delays: Delays<'a>,
    /// How much neighbours differ.
    pub noise: Noise,
    /// Changes of the smallest delay that last, and what changed.
    pub steps: Vec<(Step, Reason)>,
    /// Rate of the receiving clock against the sending one, less one, where it is no queue.
    pub skew: Option<f64>,
    /// Queues and holds.
    pub episodes: Episodes,
    /// The sender's own delays.
    pub late: Late,
    /// Lost packets.
    pub losses: Losses,
    /// Those that are neither outages nor refused by the sending host.
    pub scattered: Scattered,
    /// What of them a full queue dropped.
    pub dropped_by_queue: u64,
    /// Short runs of loss while the route changed.
    pub lost_at_steps: Vec<Run>,
    /// What can be said of those.
    pub law: Option<LossLaw>,
    /// From the first packet to the end of what is known, in seconds.
    pub duration: f64,
}

impl<'a> Case<'a> {
    /// Of `material`.
    pub fn new(material: &'a Material<'a>) -> Case<'a> {
        let Material { session, series, accepted, .. } = *material;
        let known = Known::of(session, accepted);
        let mut delays = Delays::new(series);
        let mut noise = delays.noise();
        let set = schedule::clock_steps(&delays, session, noise);
        let mut steps: Vec<(Step, Reason)> = set.iter().map(|s| (*s, Reason::SenderClock)).collect();
        for step in &set {
            delays.set_shift(step.place, step.change, step.change.saturating_neg());
        }
        let mut skew = None;
        let blocks = delays.blocks();
        if series.len() >= FEW {
            skew =
                levels::drift(&delays, &blocks, noise).filter(|s| steps::may_be_skew(*s, &delays, material));
            if let Some(skew) = skew {
                delays.set_skew(skew);
                noise = delays.noise();
            }
            let blocks = if skew.is_some() { delays.blocks() } else { blocks };
            let found = levels::steps(&delays, &blocks, noise);
            steps.extend(steps::explain(&delays, &found, material, noise));
            for (step, reason) in &steps {
                if *reason == Reason::ReceiverClock {
                    delays.set_shift(step.place, step.change, 0);
                }
            }
            set_levels(&mut delays, &steps);
        }
        let mut episodes = Episodes::new(&delays, &delays.blocks(), noise);
        if within_queues(&mut steps, &episodes) {
            set_levels(&mut delays, &steps);
            episodes = Episodes::new(&delays, &delays.blocks(), noise);
        }
        let late = Late::new(&delays, material);
        let departures = Departures::new(&delays, session);
        let mut runs: Vec<Run> = absent(accepted.runs(), known.sent).collect();
        without_refused(&mut runs, session.unsent);
        let lost_at_steps = lost_at_steps(&mut runs, &steps, &delays, &departures);
        let losses = Losses::new(runs, known.sent, |r| departures.length(r));
        let duration = departures
            .of(known.sent.saturating_sub(1))
            .max(delays.len().checked_sub(1).map_or(0, |k| delays.time(k)));
        let mut case = Case {
            material,
            known,
            delays,
            noise,
            steps,
            skew,
            episodes,
            late,
            scattered: Scattered::default(),
            dropped_by_queue: 0,
            lost_at_steps,
            law: None,
            losses,
            duration: duration as f64 / 1e9,
        };
        case.sort_losses();
        case.law = LossLaw::of(&case);
        case
    }

    /// Takes out of the losses what a full queue dropped.
    fn sort_losses(&mut self) {
        let others = self.losses.others();
        let local = self.late.height();
        if self.episodes.queues.is_empty() && local.is_none() || others.runs.is_empty() {
            self.scattered = others;
            return;
        }
        // Lost where a queue was nearly full: the packet before or the one after waited for most of what any did.
        let full = |run: &Run| {
            let after = self.delays.series().place_of(run.start);
            let near = [after.checked_sub(1), Some(after).filter(|k| *k < self.delays.len())];
            near.iter().flatten().any(|&k| {
                let queue = self.episodes.queues.iter().find(|q| (q.from..q.to).contains(&k));
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

    /// Whether the transport shows loss and order.
    pub fn shows_loss(&self) -> bool {
        self.material.session.spec.transport() == Transport::Udp
    }

    /// Nominal time between packets in ns, where departures follow it.
    pub fn period(&self) -> Option<i64> {
        self.material.session.period().map(|p| bounded(p.0)).filter(|p| *p > 0)
    }

    /// Seconds from the first packet to where packet `seq` was sent, or would have been.
    pub fn seconds(&self, seq: u64) -> f64 {
        Departures::new(&self.delays, self.material.session).of(seq) as f64 / 1e9
    }

    /// The same of a place in send order.
    pub fn place_seconds(&self, k: usize) -> f64 {
        if k < self.delays.len() { self.delays.seconds(k) } else { self.duration }
    }

    /// What an application lives through, without outages: with what its own host adds.
    pub fn experience(&self) -> Experience {
        let at_steps: u64 = self.lost_at_steps.iter().map(|r| r.len).sum();
        let lost = self.losses.others().lost() + at_steps;
        let received = self.delays.len() as u64;
        let sample;
        // What the receiving program added by standing still is not the path's.
        let held: Vec<Hold> = causes::receiver_holds(self);
        let of_path = |k: &usize| {
            let after = held.partition_point(|h| h.from <= *k);
            after.checked_sub(1).is_none_or(|i| held[i].to <= *k)
        };
        let waits = if self.delays.is_adjusted() || !self.late.queued.is_empty() || !held.is_empty() {
            let places = (0..self.delays.len()).filter(of_path);
            sample = Sample::new(places.map(|k| self.delays.excess(k).saturating_add(self.late.of(k))));
            &sample
        } else {
            self.material.sample
        };
        let clock = self.material.clock;
        let half_trip = clock.min_rtt_ns.map(|rtt| rtt as f64 / 2.0);
        let was_set =
            self.steps.iter().any(|(_, r)| matches!(r, Reason::SenderClock | Reason::ReceiverClock));
        let vague = clock.bound_ns.is_some_and(|bound| bound > VAGUE);
        let base_ns = self.material.sample.min().and_then(|min| match clock.correction_ns {
            // Half a round trip is within as much of a one-way delay.
            _ if self.material.round_trip => Some(min as f64 / 2.0),
            _ if vague => None,
            Some(correction) if clock.direction_known && !was_set => {
                Some(min.saturating_sub(correction) as f64)
            }
            Some(_) => half_trip,
            None if was_set => None,
            None => clock.synchronised().filter(|error| *error < SURE).map(|_| min as f64),
        });
        Experience {
            waits: Waits::exact(waits),
            sent: received + if self.shows_loss() { lost } else { 0 },
            lost: if self.shows_loss() { lost } else { 0 },
            burst_ratio: self.scattered.pattern().burst_ratio,
            base_ns,
        }
    }
}

/// Clocks that may be off by more, in ns, by what their kernels say, tell no delay.
const SURE: i64 = 50_000_000;

/// Nor do probes that leave more open, in ns: their round trips took longer than any path does.
const VAGUE: f64 = 500e6;

/// Below this there is no verdict: 3/N, the most that N packets without loss can exclude, is above the 3 % that any
/// conversation bears.
pub const FEW: usize = 100;

impl Known {
    /// What is known of the packets of `session`, of which those of `accepted` came.
    pub fn of(session: &Session, accepted: &SeqSet) -> Known {
        let asked = session.declared.unwrap_or(session.spec.packets().into());
        let met = accepted.max().map_or(0, |seq| u64::from(seq) + 1);
        let all = |sent: u64| Known { sent: sent.max(met), unknown: 0, complete: true };
        let cut = Known { sent: met, unknown: asked.saturating_sub(met), complete: false };
        if session.truncated || session.ending == Ending::StorageFailed {
            return cut;
        }
        match (session.sent.map(u64::from), session.ending) {
            (Some(sent), Ending::Complete | Ending::Interrupted) => all(sent.min(asked)),
            // All that was asked for was sent: only the receiver's word is missing, or nothing reached it.
            (Some(sent), Ending::PeerLost) if sent >= asked => all(asked),
            (Some(sent), Ending::PeerLost) => {
                Known { sent: sent.max(met), unknown: asked.saturating_sub(sent.max(met)), complete: false }
            }
            (Some(sent), Ending::Unknown) if session.version < 3 => all(sent.min(asked)),
            (None, Ending::Complete) => all(asked),
            (None, Ending::Unknown) if session.version < 3 => Known::classic(session, accepted, asked, met),
            _ => cut,
        }
    }

    /// Logs of versions 1 and 2 do not say that they are whole. Where far more is missing at their end than anywhere
    /// else, it was not recorded.
    fn classic(session: &Session, accepted: &SeqSet, asked: u64, met: u64) -> Known {
        let missing = asked.saturating_sub(met);
        let longest = absent(accepted.runs(), met).map(|run| run.len).max().unwrap_or(0);
        let time =
            session.period().map_or(0, |p| p.0).saturating_mul(i64::try_from(missing).unwrap_or(i64::MAX));
        let much = time >= 500_000_000 || missing >= asked / 100;
        if met > 0 && missing >= 10 && missing > 3 * longest && much {
            Known { sent: met, unknown: missing, complete: false }
        } else {
            Known { sent: asked, unknown: 0, complete: true }
        }
    }
}

/// The smallest delay of each route.
fn set_levels(delays: &mut Delays<'_>, steps: &[(Step, Reason)]) {
    let mut places: Vec<usize> =
        steps.iter().filter(|(_, r)| *r == Reason::Route).map(|(s, _)| s.place).collect();
    places.push(0);
    places.sort_unstable();
    delays.set_levels(&places);
}

/// Takes for the queue's what looked like another route in the middle of one. True if there was any.
fn within_queues(steps: &mut [(Step, Reason)], episodes: &Episodes) -> bool {
    let mut any = false;
    for (step, reason) in steps.iter_mut().filter(|(_, r)| *r == Reason::Route) {
        let of_queue =
            |q: &Episode| (q.from + 1..q.to).contains(&step.place) && step.change.saturating_abs() < q.height;
        if episodes.queues.iter().any(of_queue) {
            *reason = Reason::Queue;
            any = true;
        }
    }
    any
}

/// A route that changes loses packets for less than this, in ns; a longer time is an outage of its own.
const CONVERGENCE: i64 = 220_000_000;

/// Takes out of `runs` the short ones during which the route changed.
fn lost_at_steps(
    runs: &mut Vec<Run>,
    steps: &[(Step, Reason)],
    delays: &Delays<'_>,
    departures: &Departures<'_, '_>,
) -> Vec<Run> {
    let mut out = Vec::new();
    for (step, _) in steps.iter().filter(|(_, reason)| *reason == Reason::Route) {
        if step.place == 0 || step.place >= delays.len() {
            continue;
        }
        // The losses between the last packet of the old route and the first of the new one, or one packet further.
        let (from, to) =
            (delays.seq(step.place.saturating_sub(2)), delays.seq((step.place + 1).min(delays.len() - 1)));
        let here = |r: &Run| (from..to).contains(&r.start) && departures.length(r) < CONVERGENCE;
        out.extend(runs.iter().filter(|r| here(r)).copied());
        runs.retain(|r| !here(r));
    }
    out
}

/// Takes out of `runs` those that the sending host's system refused, where they can be told: all of them, or the one
/// run that is as long.
fn without_refused(runs: &mut Vec<Run>, refused: u64) {
    let lost: u64 = runs.iter().map(|r| r.len).sum();
    if refused == 0 {
        return;
    }
    if lost <= refused + refused / 10 {
        runs.clear();
    } else if let Some(k) = runs.iter().position(|r| r.len.abs_diff(refused) <= refused / 20) {
        runs.remove(k);
    }
}

//! [`Impairment`]: what a network path does to packets, as a pure and seeded model.
//!
//! One model serves the simulated network in virtual time, the user-space relay of `jitlat demo` and the
//! TUN emulator between two network namespaces, so that a surprising result on a kernel can be replayed
//! in a simulation. The same configuration, seed and packets always give the same deliveries.
//!
//! A packet meets, in this order: outages, the bottleneck (rate and drop-tail queue), loss, duplication,
//! and the line (fixed delay, jitter, reordering). A packet lost on the line has used the bottleneck's
//! capacity, as on a real path.

mod choice;
mod scenario;

pub use choice::{Choice, Gilbert};
pub use scenario::{Scenario, ScenarioError};

use crate::spec::Dscp;
use crate::time::{SECOND, Span, SteadyTime};
use choice::Chooser;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;

/// The most copies a duplicated packet may get beside itself.
pub const MAX_COPIES: u8 = 7;
/// No law of jitter delays a packet by more than this.
pub const MAX_JITTER: Span = Span::seconds(60);

/// One direction of a path. The default does nothing to any packet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// What every packet is delayed by.
    pub delay: Span,
    /// What is drawn for each packet and added to the delay.
    pub jitter: Jitter,
    /// Whether jitter keeps the order of packets: none is delivered before an earlier one. Packets chosen
    /// by [`Config::reordering`] are late all the same, and hold nobody else up.
    pub in_order: bool,
    /// Which test packets are lost.
    pub loss: Choice,
    /// Which test packets arrive more than once.
    pub duplication: Duplication,
    /// Which test packets are overtaken.
    pub reordering: Reordering,
    /// The bottleneck, if there is one.
    pub rate: Option<Rate>,
    /// Times at which nothing gets through.
    pub outages: Vec<Outage>,
    /// The code point written into every packet, as routers do that do not trust their neighbours.
    pub remark: Option<Dscp>,
    /// Packets smaller than this, in bytes with the IP header, are not test packets to [`Impairment::pass`].
    pub min_bytes: usize,
}

impl Config {
    /// What a TOS or traffic-class octet becomes on this path; its ECN bits stay.
    pub fn traffic_class(&self, octet: u8) -> u8 {
        self.remark.map_or(octet, |dscp| dscp.octet() | octet & 3)
    }
}

/// A law of delay variation; all spans are one-sided, so the fixed delay stays the minimum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Jitter {
    /// No variation.
    #[default]
    None,
    /// Uniform on [0, `max`].
    Uniform {
        /// The upper end.
        max: Span,
    },
    /// Exponential.
    Exponential {
        /// Its mean, which is also its standard deviation.
        mean: Span,
    },
    /// Heavy tail (Lomax, or Pareto of the second kind): exceeds x with probability (1 + x/`scale`)^−`shape`.
    /// Mean `scale`/(`shape` − 1) for shapes above 1, without a finite variance up to 2.
    Pareto {
        /// The scale.
        scale: Span,
        /// The shape, > 0: the smaller, the heavier the tail.
        shape: f64,
    },
}

/// Copies of chosen packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Duplication {
    /// Of which packets.
    pub choice: Choice,
    /// Copies beside the packet itself, 1…[`MAX_COPIES`].
    pub copies: u8,
    /// How long each copy follows the one before it.
    pub lag: Span,
}

impl Default for Duplication {
    fn default() -> Duplication {
        Duplication { choice: Choice::Never, copies: 1, lag: Span::ZERO }
    }
}

/// Extra delay for chosen packets, so that later ones overtake them. With a period P, a packet held back
/// by (k + ½)·P arrives after the k packets that follow it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reordering {
    /// Of which packets.
    pub choice: Choice,
    /// The extra delay.
    pub by: Span,
}

/// A transmitter of fixed rate behind a drop-tail queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Bits a second, > 0.
    pub bits: u64,
    /// What may wait, in bytes, the rest of the packet in transmission included. A packet that finds the
    /// transmitter idle always goes through.
    pub queue: u64,
}

/// A time at which nothing gets through, counted from the first test packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Its beginning.
    pub from: Span,
    /// Its length.
    pub length: Span,
}

/// When a packet is delivered: never (lost), once, or several times (duplicated). In no particular
/// order of time where copies are concerned. Dereferences to a slice.
#[derive(Clone, Copy, Debug)]
pub struct Deliveries {
    at: [SteadyTime; MAX_COPIES as usize + 1],
    len: u8,
}

impl Deliveries {
    const LOST: Deliveries = Deliveries { at: [SteadyTime(0); MAX_COPIES as usize + 1], len: 0 };

    fn push(&mut self, at: SteadyTime) {
        self.at[usize::from(self.len)] = at;
        self.len += 1;
    }
}

impl core::ops::Deref for Deliveries {
    type Target = [SteadyTime];
    fn deref(&self) -> &[SteadyTime] {
        &self.at[..usize::from(self.len)]
    }
}

/// What was done so far: the truth that a measurement of the path should find.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Test packets that came in.
    pub test_packets: u64,
    /// Test packets lost on the line.
    pub lost: u64,
    /// Test packets that found the queue full.
    pub queue_drops: u64,
    /// Test packets lost in outages.
    pub outage_drops: u64,
    /// Copies added.
    pub copies: u64,
    /// Test packets held back by [`Config::reordering`].
    pub held_back: u64,
    /// Other packets (control, other sizes) that came in.
    pub others: u64,
    /// Other packets dropped by the queue or an outage.
    pub others_lost: u64,
    runs: BTreeMap<u64, u64>,
    open_run: u64,
}

impl Tally {
    /// How many runs of each length were lost, of any cause, the run in progress included.
    pub fn loss_runs(&self) -> BTreeMap<u64, u64> {
        let mut runs = self.runs.clone();
        if self.open_run > 0 {
            *runs.entry(self.open_run).or_default() += 1;
        }
        runs
    }

    /// Test packets that were not delivered at all.
    pub fn not_delivered(&self) -> u64 {
        self.lost + self.queue_drops + self.outage_drops
    }

    fn note(&mut self, delivered: bool) {
        if !delivered {
            self.open_run += 1;
        } else if self.open_run > 0 {
            *self.runs.entry(self.open_run).or_default() += 1;
            self.open_run = 0;
        }
    }
}

/// One direction of an impaired path, in progress.
#[derive(Clone, Debug)]
pub struct Impairment {
    config: Config,
    loss: Chooser,
    duplication: Chooser,
    reordering: Chooser,
    jitter: ChaCha8Rng,
    /// When the transmitter has sent all that it accepted.
    busy_until: Option<SteadyTime>,
    last_in_order: Option<SteadyTime>,
    first_test: Option<SteadyTime>,
    tally: Tally,
}

/// Who a packet is to the laws that concern test packets only.
#[derive(Clone, Copy)]
enum Subject {
    Test(u64),
    Other,
}

impl Impairment {
    /// The path of `config`. Each law draws from a stream of its own, so that changing one leaves what
    /// the others do unchanged.
    pub fn new(config: Config, seed: u64) -> Impairment {
        let stream = |n| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(n);
            rng
        };
        Impairment {
            loss: Chooser::new(&config.loss, stream(1)),
            duplication: Chooser::new(&config.duplication.choice, stream(2)),
            reordering: Chooser::new(&config.reordering.choice, stream(3)),
            jitter: stream(4),
            config,
            busy_until: None,
            last_in_order: None,
            first_test: None,
            tally: Tally::default(),
        }
    }

    /// What becomes of a packet of `bytes`, IP header included, that enters at `now`. Packets of at least
    /// [`Config::min_bytes`] are test packets, numbered from 0 in the order they come.
    pub fn pass(&mut self, now: SteadyTime, bytes: usize) -> Deliveries {
        if bytes >= self.config.min_bytes {
            self.pass_test(now, bytes, self.tally.test_packets)
        } else {
            self.pass_other(now, bytes)
        }
    }

    /// What becomes of a test packet whose number is known to the caller: patterns of loss, duplication
    /// and reordering refer to `index`.
    pub fn pass_test(&mut self, now: SteadyTime, bytes: usize, index: u64) -> Deliveries {
        self.first_test.get_or_insert(now);
        self.tally.test_packets += 1;
        let out = self.carry(now, bytes, Subject::Test(index));
        self.tally.note(!out.is_empty());
        out
    }

    /// What becomes of a packet that is no test packet: it is delayed, queued and stopped by outages, but
    /// not lost, duplicated or reordered by choice.
    pub fn pass_other(&mut self, now: SteadyTime, bytes: usize) -> Deliveries {
        self.tally.others += 1;
        let out = self.carry(now, bytes, Subject::Other);
        self.tally.others_lost += u64::from(out.is_empty());
        out
    }

    /// What was done so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The description this path was made from.
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn carry(&mut self, now: SteadyTime, bytes: usize, subject: Subject) -> Deliveries {
        let test = u64::from(matches!(subject, Subject::Test(_)));
        // Every law draws for every test packet whatever its fate, so that the fates of later packets
        // depend on their number alone.
        let (lost, copied, held) = match subject {
            Subject::Test(i) => (self.loss.choose(i), self.duplication.choose(i), self.reordering.choose(i)),
            Subject::Other => (false, false, false),
        };
        let jitter = self.draw_jitter();

        if self.in_outage(now) {
            self.tally.outage_drops += test;
            return Deliveries::LOST;
        }
        let Some(sent) = self.transmit(now, bytes) else {
            self.tally.queue_drops += test;
            return Deliveries::LOST;
        };
        if lost {
            self.tally.lost += test;
            return Deliveries::LOST;
        }

        let mut at = sent + self.config.delay + jitter;
        if self.config.in_order {
            at = self.last_in_order.map_or(at, |last| at.max(last));
            self.last_in_order = Some(at);
        }
        if held {
            at = at + self.config.reordering.by;
            self.tally.held_back += 1;
        }
        let mut out = Deliveries::LOST;
        out.push(at);
        if copied {
            for _ in 0..self.config.duplication.copies.min(MAX_COPIES) {
                at = at + self.config.duplication.lag;
                out.push(at);
                self.tally.copies += 1;
            }
        }
        out
    }

    fn in_outage(&self, now: SteadyTime) -> bool {
        let Some(first) = self.first_test else { return false };
        let t = now - first;
        self.config.outages.iter().any(|o| t >= o.from && t < o.from + o.length)
    }

    /// When the bottleneck has sent the packet's last bit, or `None` if its queue is full.
    fn transmit(&mut self, now: SteadyTime, bytes: usize) -> Option<SteadyTime> {
        let Some(rate) = self.config.rate else { return Some(now) };
        let bits = i128::from(rate.bits.max(1));
        let begin = self.busy_until.map_or(now, |b| b.max(now));
        if begin > now {
            let waiting = i128::from((begin - now).0) * bits / (8 * i128::from(SECOND));
            if waiting + bytes as i128 > i128::from(rate.queue) {
                return None;
            }
        }
        let takes = (bytes as i128 * 8 * i128::from(SECOND) + bits - 1) / bits;
        let end = begin + Span(i64::try_from(takes).unwrap_or(i64::MAX));
        self.busy_until = Some(end);
        Some(end)
    }

    fn draw_jitter(&mut self) -> Span {
        let extra = match self.config.jitter {
            Jitter::None => return Span::ZERO,
            Jitter::Uniform { max } => unit(&mut self.jitter) * max.0 as f64,
            Jitter::Exponential { mean } => -unit(&mut self.jitter).ln() * mean.0 as f64,
            Jitter::Pareto { scale, shape } => {
                (unit(&mut self.jitter).powf(-1.0 / shape) - 1.0) * scale.0 as f64
            }
        };
        Span((extra as i64).clamp(0, MAX_JITTER.0))
    }
}

/// Uniform on (0, 1] from the top 53 bits, so that its logarithm is finite.
fn unit(rng: &mut ChaCha8Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests;

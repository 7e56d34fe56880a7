//! [`Impairment`]: a pure and seeded model of the effects of a network path on packets.
//!
//! The simulated network in virtual time, the user-space relay of `jitlat demo` and the TUN emulator between
//! two network namespaces all use this model, so that a surprising result can be reproduced in a simulation.
//! The same configuration, seed and packets always give the same deliveries.
//!
//! The impairments apply in this order: outages, size limit, policing, the bottleneck (rate and drop-tail
//! queue or active queue management, shared with cross traffic), loss, duplication, the line (fixed delay, delay added
//! over time, jitter, reordering), and boxes that rewrite the TOS or traffic-class octet or drop packets by their mark. A
//! packet lost on the line has used the bottleneck's capacity, as on a real path.
//!
//! * [`Scenario`] – both directions of a path as text
//! * [`PathModel`] – one direction; [`Impairment`] – a running instance of it; [`Deliveries`] – the times at
//!   which it delivers a packet
//! * [`Trial`] – simulates a whole test between two imperfect [`HostModel`]s over such a path
//!
//! The crate is pure: time and seeds are arguments. It depends on `jitlat-core`; `jitlat-proto` (feature
//! `sim`) runs protocol machines over it, `jitlat-net` relays packets through it.
//!
//! ```
//! use jitlat_core::SteadyTime;
//! use jitlat_impair::{Impairment, Scenario};
//!
//! let path: Scenario = "[up]\ndelay = 20ms\nloss = at 1".parse()?;
//! let mut up = Impairment::new(path.up, path.seed);
//! let sent = SteadyTime(0);
//! assert_eq!(up.pass(sent, 108)[0].0, 20_000_000);
//! assert!(up.pass(sent, 108).is_empty(), "the second packet is lost");
//! # Ok::<(), jitlat_impair::ScenarioError>(())
//! ```
#![forbid(unsafe_code)]

mod aqm;
mod bottleneck;
mod chance;
mod choice;
mod ecn;
mod host;
mod jitter;
mod police;
mod scenario;
mod trial;

pub use aqm::{Aqm, DUALPI2_TARGET};
pub use bottleneck::{COMPETITOR_PACKET_BYTES, CellBottleneck, Competition, CrossTraffic, RateBottleneck};
pub use choice::{Choice, GilbertModel};
pub use ecn::EcnRule;
pub use host::{Clock, ClockChange, HostModel, Pause};
pub use jitter::{Jitter, MAX_JITTER};
pub use police::Police;
pub use scenario::{Scenario, ScenarioError};
pub use trial::{Answering, Trial, TrialOutcome};

use bottleneck::Bottleneck;
use choice::Chooser;
use jitlat_core::ecn::Ecn;
use jitlat_core::spec::Dscp;
use jitlat_core::time::{Span, SteadyTime};
use police::Policer;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::BTreeMap;

/// Maximum number of copies of a duplicated packet.
pub const MAX_COPIES: u8 = 7;

/// Model of one direction of a path. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathModel {
    /// Fixed delay of all packets.
    pub delay: Span,
    /// Random delay in addition to the fixed delay.
    pub jitter: Jitter,
    /// True if jitter preserves the order of packets, so that none is delivered before an earlier one. Packets
    /// selected by [`PathModel::reordering`] are nevertheless delayed, and do not delay others.
    pub in_order: bool,
    /// Test packets that are lost.
    pub loss: Choice,
    /// Test packets that arrive more than once.
    pub duplication: DuplicationModel,
    /// Test packets that are reordered by an additional delay.
    pub reordering: ReorderingModel,
    /// Bottleneck; `None` for unlimited rate.
    pub rate: Option<RateBottleneck>,
    /// Encapsulation of a bottleneck that sends ATM cells; `None` for other bottlenecks.
    pub cells: Option<CellBottleneck>,
    /// Active queue management of the bottleneck; `None`: the queue only drops packets for which it has no room.
    pub aqm: Option<Aqm>,
    /// Cross traffic through the bottleneck.
    pub competition: Vec<Competition>,
    /// Token bucket that drops packets above a rate; `None` for no policing.
    pub police: Option<Police>,
    /// Additional delay of all packets over time, as points relative to the first test packet. The delay is
    /// interpolated between the points, whose times ascend; two points at the same time are a step. Models a route
    /// change, or a queue of any shape.
    pub added: Vec<DelayPoint>,
    /// Times during which packets wait on the line, as in a handover; afterwards they are delivered in order.
    pub pauses: Vec<Outage>,
    /// Size limit above which test packets are lost; `None` for no limit.
    pub too_long: Option<SizeLimit>,
    /// Times during which no packet passes.
    pub outages: Vec<Outage>,
    /// DSCP written into every packet, as done by routers that do not trust their neighbours; `None`:
    /// unchanged.
    pub remark: Option<Dscp>,
    /// Boxes after the bottleneck that rewrite the ECN bits of packets or drop packets by them, in this order.
    pub ecn: Vec<EcnRule>,
    /// Minimum size of test packets for [`Impairment::pass`], in bytes with the IP header; smaller packets do
    /// not count as test packets.
    pub min_bytes: usize,
}

/// A packet that enters a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPacket {
    /// Number of bytes, IP header included.
    pub bytes: usize,
    /// TOS or traffic-class octet: DSCP and ECN.
    pub traffic_class: u8,
}

impl From<usize> for PathPacket {
    /// Creates a packet of this many bytes with DSCP and ECN of 0.
    fn from(bytes: usize) -> PathPacket {
        PathPacket { bytes, traffic_class: 0 }
    }
}

/// Duplication of selected packets.
#[derive(Clone, Debug, PartialEq)]
pub struct DuplicationModel {
    /// Packets that are duplicated.
    pub choice: Choice,
    /// Number of copies, 1…[`MAX_COPIES`].
    pub copies: u8,
    /// Time between copies.
    pub lag: Span,
}

impl Default for DuplicationModel {
    fn default() -> DuplicationModel {
        DuplicationModel { choice: Choice::Never, copies: 1, lag: Span::ZERO }
    }
}

/// Additional delay of selected packets, which reorders them. With a period P, a packet delayed
/// by (k + ½)·P arrives after the k packets that follow it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReorderingModel {
    /// Packets that are delayed.
    pub choice: Choice,
    /// Additional delay.
    pub by: Span,
}

/// A time during which no packet passes or, in [`PathModel::pauses`], packets wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Start of the outage or pause, relative to the first test packet.
    pub from: Span,
    /// Duration of the outage or pause.
    pub length: Span,
}

impl Outage {
    fn contains(&self, t: Span) -> bool {
        t >= self.from && t < self.from + self.length
    }
}

/// Delay at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayPoint {
    /// Time, relative to the first test packet.
    pub at: Span,
    /// Delay to add.
    pub delay: Span,
}

/// Size limit of a part of the path.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeLimit {
    /// Largest size that always passes, in bytes with the IP header.
    pub above: usize,
    /// Selection of larger packets that are lost.
    pub choice: Choice,
}

/// Delivery times of a packet: none (lost), one, or several (duplicated). Not sorted if there are copies.
/// Dereferences to a slice.
#[derive(Clone, Copy, Debug)]
pub struct Deliveries {
    at: [SteadyTime; MAX_COPIES as usize + 1],
    len: u8,
    traffic_class: u8,
}

impl Deliveries {
    const LOST: Deliveries =
        Deliveries { at: [SteadyTime(0); MAX_COPIES as usize + 1], len: 0, traffic_class: 0 };

    /// Returns the TOS or traffic-class octet with which the packet is delivered.
    pub fn traffic_class(&self) -> u8 {
        self.traffic_class
    }

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

/// Counts of the effects on packets: the ground truth for a measurement of the path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathTally {
    /// Number of test packets that entered.
    pub test_packets: u64,
    /// Number of test packets lost on the line.
    pub lost: u64,
    /// Number of test packets dropped because the queue was full.
    pub queue_drops: u64,
    /// Number of test packets dropped because of their mark.
    pub mark_drops: u64,
    /// Number of test packets that left with CE and entered without.
    pub marked: u64,
    /// Number of test packets lost in outages.
    pub outage_drops: u64,
    /// Number of test packets dropped by policing.
    pub policed: u64,
    /// Number of test packets lost because of their size.
    pub too_long: u64,
    /// Number of copies added.
    pub copies: u64,
    /// Number of test packets delayed by [`PathModel::reordering`].
    pub delayed: u64,
    /// Number of other packets (control, other sizes) that entered.
    pub others: u64,
    /// Number of other packets dropped by the queue or an outage.
    pub others_lost: u64,
    runs: BTreeMap<u64, u64>,
    open_run: u64,
}

impl PathTally {
    /// Returns the number of loss bursts by length, for losses of any cause, including the current burst.
    pub fn loss_runs(&self) -> BTreeMap<u64, u64> {
        let mut runs = self.runs.clone();
        if self.open_run > 0 {
            *runs.entry(self.open_run).or_default() += 1;
        }
        runs
    }

    /// Returns the number of test packets that were never delivered.
    pub fn not_delivered(&self) -> u64 {
        self.lost + self.queue_drops + self.mark_drops + self.outage_drops + self.policed + self.too_long
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

/// Model of one direction of a path, with its current state.
#[derive(Clone, Debug)]
pub struct Impairment {
    config: PathModel,
    loss: Chooser,
    duplication: Chooser,
    reordering: Chooser,
    too_long: Chooser,
    jitter: ChaCha8Rng,
    boxes: ChaCha8Rng,
    bottleneck: Option<Bottleneck>,
    policer: Option<Policer>,
    last_in_order: Option<SteadyTime>,
    first_test: Option<SteadyTime>,
    tally: PathTally,
}

/// Kind of packet, for impairments that affect only test packets.
#[derive(Clone, Copy)]
enum PacketKind {
    Test(u64),
    Other,
}

impl Impairment {
    /// Starts the model `config`. Each random process has its own random stream, so that changing one does
    /// not change the others.
    pub fn new(config: PathModel, seed: u64) -> Impairment {
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
            too_long: Chooser::new(
                &config.too_long.as_ref().map_or(Choice::Never, |t| t.choice.clone()),
                stream(5),
            ),
            bottleneck: config
                .rate
                .map(|rate| Bottleneck::new(rate, config.cells, config.aqm, &config.competition, stream(6))),
            boxes: stream(7),
            policer: config.police.map(Policer::new),
            config,
            last_in_order: None,
            first_test: None,
            tally: PathTally::default(),
        }
    }

    /// Returns the deliveries of a packet that enters at `now`: its number of bytes, IP header included, or a
    /// [`PathPacket`]. Packets of at least [`PathModel::min_bytes`] are test packets, numbered from 0 in order of arrival.
    pub fn pass(&mut self, now: SteadyTime, packet: impl Into<PathPacket>) -> Deliveries {
        let packet = packet.into();
        if packet.bytes >= self.config.min_bytes {
            self.pass_test(now, packet, self.tally.test_packets)
        } else {
            self.pass_other(now, packet)
        }
    }

    /// Returns the deliveries of the test packet with the number `index`, to which patterns of loss, duplication and
    /// reordering refer.
    pub fn pass_test(&mut self, now: SteadyTime, packet: impl Into<PathPacket>, index: u64) -> Deliveries {
        if self.first_test.is_none() {
            self.first_test = Some(now);
            if let Some(bottleneck) = &mut self.bottleneck {
                bottleneck.start(now);
            }
        }
        self.tally.test_packets += 1;
        let out = self.carry(now, packet.into(), PacketKind::Test(index));
        self.tally.note(!out.is_empty());
        out
    }

    /// Returns the deliveries of a packet that is not a test packet. It is subject to delays, queues and
    /// outages, but never selected for loss, duplication or reordering.
    pub fn pass_other(&mut self, now: SteadyTime, packet: impl Into<PathPacket>) -> Deliveries {
        self.tally.others += 1;
        let out = self.carry(now, packet.into(), PacketKind::Other);
        self.tally.others_lost += u64::from(out.is_empty());
        out
    }

    /// Returns the counts so far.
    pub fn tally(&self) -> &PathTally {
        &self.tally
    }

    /// Returns the configuration of this path.
    pub fn config(&self) -> &PathModel {
        &self.config
    }

    fn carry(&mut self, now: SteadyTime, packet: PathPacket, subject: PacketKind) -> Deliveries {
        let (bytes, entered) = (packet.bytes, Ecn::of_bits(packet.traffic_class));
        let test = u64::from(matches!(subject, PacketKind::Test(_)));
        // Every random process draws for every test packet, even if the packet is already lost, so that the
        // results for later packets depend only on their numbers.
        let (lost, copied, held, too_long) = match subject {
            PacketKind::Test(i) => (
                self.loss.choose(i),
                self.duplication.choose(i),
                self.reordering.choose(i),
                self.too_long.choose(i) && self.config.too_long.as_ref().is_some_and(|t| bytes > t.above),
            ),
            PacketKind::Other => (false, false, false, false),
        };
        let jitter = self.config.jitter.draw(&mut self.jitter, now);

        if self.in_outage(now) {
            self.tally.outage_drops += test;
            return Deliveries::LOST;
        }
        if too_long {
            self.tally.too_long += 1;
            return Deliveries::LOST;
        }
        if self.policer.as_mut().is_some_and(|p| !p.passes(now, bytes)) {
            self.tally.policed += test;
            return Deliveries::LOST;
        }
        let sent = match &mut self.bottleneck {
            Some(bottleneck) => bottleneck.transmit(now, bytes, entered),
            None => Some((now, entered)),
        };
        let Some((sent, mark)) = sent else {
            self.tally.queue_drops += test;
            return Deliveries::LOST;
        };
        let Some(mark) = EcnRule::apply(&self.config.ecn, mark, &mut self.boxes) else {
            self.tally.mark_drops += test;
            return Deliveries::LOST;
        };
        if lost {
            self.tally.lost += test;
            return Deliveries::LOST;
        }

        let mut at = sent + self.config.delay + self.added(now) + jitter;
        if let Some(end) = self.pause_end(at) {
            at = end;
        }
        if self.config.in_order {
            at = self.last_in_order.map_or(at, |last| at.max(last));
            self.last_in_order = Some(at);
        }
        if held {
            at = at + self.config.reordering.by;
            self.tally.delayed += 1;
        }
        if mark == Ecn::Ce && entered != Ecn::Ce {
            self.tally.marked += test;
        }
        let dscp = self.config.remark.map_or(packet.traffic_class & !3, Dscp::octet);
        let mut out = Deliveries { traffic_class: dscp | mark.bits(), ..Deliveries::LOST };
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
        self.config.outages.iter().any(|o| o.contains(now - first))
    }

    fn pause_end(&self, at: SteadyTime) -> Option<SteadyTime> {
        let first = self.first_test?;
        let pause = self.config.pauses.iter().find(|p| p.contains(at - first))?;
        Some(first + pause.from + pause.length)
    }

    /// Returns the value of [`PathModel::added`] at `now`; constant before the first and after the last
    /// point.
    fn added(&self, now: SteadyTime) -> Span {
        let points = &self.config.added;
        let Some(first) = self.first_test else { return points.first().map_or(Span::ZERO, |p| p.delay) };
        let t = now - first;
        let after = points.partition_point(|p| p.at <= t);
        let (before, next) = (after.checked_sub(1).and_then(|k| points.get(k)), points.get(after));
        match (before, next) {
            (Some(a), Some(b)) => {
                let share = (t - a.at).0 as f64 / (b.at - a.at).0.max(1) as f64;
                a.delay + Span((share * (b.delay - a.delay).0 as f64) as i64)
            }
            (Some(p), None) | (None, Some(p)) => p.delay,
            (None, None) => Span::ZERO,
        }
    }
}

#[cfg(test)]
mod tests;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! [`Trial`]: a whole test in virtual time, without a protocol. It produces the records that two imperfect
//! hosts would store for an impaired path.

use super::bottleneck::Bottleneck;
use super::choice::Chooser;
use super::{HostModel, Impairment, PathModel, PathPacket, PathTally};
use core::net::{IpAddr, Ipv4Addr};
use jitlat_core::clock::ClockProbe;
use jitlat_core::ecn::Ecn;
use jitlat_core::record::{Moment, PacketRecord};
use jitlat_core::schedule::Deadlines;
use jitlat_core::session::{Ending, Session};
use jitlat_core::spec::{Direction, TestSpec, Transport};
use jitlat_core::time::{Span, Stamp, StampSource, SteadyTime, WallTime};
use jitlat_core::twoway::{Directions, LossRun, LossSide, TwoWay};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Number of bytes of IPv4 and UDP headers before the payload.
const HEADER_BYTES: usize = 28;
/// Time that a program needs to read each of several waiting packets.
const TIME_PER_PACKET: Span = Span(3_000);
/// Time between two clock probes.
const PROBE_GAP: Span = Span::millis(40);
/// Time from the last clock probe to the first packet.
const PROBE_LEAD: Span = Span::seconds(2);
/// Minimum retransmission timeout of TCP.
const RETRANSMISSION: Span = Span::millis(200);

/// A test to simulate.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Specification of the stream and its direction.
    pub spec: TestSpec,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Due time of the first packet, on a perfect clock.
    pub epoch: WallTime,
    /// Path from client to server.
    pub up: PathModel,
    /// Path from server to client.
    pub down: PathModel,
    /// Host that starts the test.
    pub client: HostModel,
    /// Host at the other end of the test.
    pub server: HostModel,
    /// Number of clock probes before the stream, and again after it.
    pub probes: u32,
    /// Payload sizes that the packets use in turn; if empty, all packets have the payload of `spec`.
    pub payloads: Vec<u16>,
    /// Properties of the answers in a two-way test; `None` for a one-way test.
    pub answering: Option<Answering>,
}

/// Properties of the far host's answers in a two-way test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answering {
    /// Name of the protocol in lower case.
    pub protocol: String,
    /// True if answers contain the far host's timestamps.
    pub far_clock: bool,
    /// True if the far host counts its answers, so that the direction of losses is known.
    pub counts: bool,
    /// Processing time of the far host.
    pub processing: Span,
}

/// Result of a [`Trial`].
#[derive(Clone, Debug)]
pub struct TrialOutcome {
    /// Description of the test as known to the hosts.
    pub session: Session,
    /// Packets received, in order of arrival.
    pub records: Vec<PacketRecord>,
    /// Counts of the path from client to server.
    pub up: PathTally,
    /// Counts of the path from server to client.
    pub down: PathTally,
    /// Number of packets that the sending host's kernel refused to send.
    pub refused: u64,
}

/// A packet that leaves a host.
#[derive(Clone, Copy)]
struct LeavingPacket {
    seq: u32,
    bytes: usize,
    /// Time at which the program read the clock and handed the packet over.
    read: Span,
    /// Time at which the interface sent the packet.
    left: Span,
    /// True if the kernel stamped the entry into the interface's queue.
    entered: bool,
}

impl Trial {
    /// Creates a test of `spec` over a perfect path between perfect hosts.
    pub fn new(spec: TestSpec, seed: u64) -> Trial {
        Trial {
            spec,
            seed,
            epoch: WallTime(1_700_000_000_000_000_000),
            up: PathModel::default(),
            down: PathModel::default(),
            client: HostModel::default(),
            server: HostModel::default(),
            probes: 0,
            payloads: Vec::new(),
            answering: None,
        }
    }

    /// Runs the test. The same trial always gives the same outcome.
    pub fn run(&self) -> TrialOutcome {
        let mut up = Impairment::new(self.up.clone(), self.seed);
        let mut down = Impairment::new(self.down.clone(), self.seed ^ 0x5eed);
        let mut session = Session::new(self.spec.clone());
        let hosts =
            [(&self.client, 1), (&self.server, 2)].map(|(_, n)| IpAddr::V4(Ipv4Addr::new(192, 0, 2, n)));
        let downwards = self.spec.direction() == Direction::Down;
        (session.src, session.dst) =
            if downwards { (Some(hosts[1]), Some(hosts[0])) } else { (Some(hosts[0]), Some(hosts[1])) };
        session.created = Some(self.client.clock.at(self.epoch, Span::seconds(-1)));
        let before = -(i64::from(self.probes) * PROBE_GAP.0) - PROBE_LEAD.0;
        self.probe(&mut session, (&mut up, &mut down), Span(before));
        let (departures, refused) = self.departures();
        session.sent = Some(self.spec.packets());
        session.ending = Ending::Complete;
        session.unsent = refused;
        let records = match &self.answering {
            None if downwards => self.one_way(&mut down, &departures),
            None => self.one_way(&mut up, &departures),
            Some(answering) => {
                let (records, facts) = self.two_way((&mut up, &mut down), &departures, answering);
                session.two_way = Some(Box::new(facts));
                records
            }
        };
        let last = Deadlines::new(&self.spec).last().unwrap_or(Span::ZERO);
        let after = last.max(self.spec.duration()) + Span::seconds(1);
        self.probe(&mut session, (&mut up, &mut down), after);
        TrialOutcome { session, records, up: up.tally().clone(), down: down.tally().clone(), refused }
    }

    fn rng(&self, stream: u64) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(stream);
        rng
    }

    fn sender(&self) -> &HostModel {
        match self.spec.direction() {
            Direction::Up => &self.client,
            Direction::Down => &self.server,
        }
    }

    fn receiver(&self) -> &HostModel {
        match self.spec.direction() {
            Direction::Up => &self.server,
            Direction::Down => &self.client,
        }
    }

    fn probe(&self, session: &mut Session, (up, down): (&mut Impairment, &mut Impairment), from: Span) {
        for k in 0..self.probes {
            let t = from + PROBE_GAP.times(k.into());
            let there = up.pass_other(on_path(t), 60).first().copied();
            let Some(arrived) = there.map(since) else { continue };
            let answered = arrived + Span(20_000);
            let back = down.pass_other(on_path(answered), 60).first().copied();
            let Some(returned) = back.map(since) else { continue };
            session.probes.push(ClockProbe {
                sent: self.client.stamp(self.epoch, t),
                arrived: self.server.stamp(self.epoch, arrived),
                answered: self.server.stamp(self.epoch, answered),
                returned: self.client.stamp(self.epoch, returned),
            });
        }
    }

    /// Returns the packets that leave the sending host, and the number of packets that its kernel refuses to
    /// send.
    fn departures(&self) -> (Vec<LeavingPacket>, u64) {
        let host = self.sender();
        let mut wake = self.rng(20);
        let mut refused = Chooser::new(&host.refused, self.rng(21));
        let mut entries = Chooser::new(&host.entries, self.rng(24));
        let mut interface =
            host.interface.map(|rate| Bottleneck::new(rate, None, None, &host.competition, self.rng(22)));
        if let Some(interface) = &mut interface {
            interface.start(on_path(Span::ZERO));
        }
        let (mut departures, mut kept_back, mut ready) = (Vec::new(), 0, Span(i64::MIN));
        for (seq, due) in (0..).zip(Deadlines::new(&self.spec)) {
            let late = host.wake.draw(&mut wake, on_path(due));
            let read = host.runs(due + late).max(ready);
            ready = read + TIME_PER_PACKET;
            if refused.choose(u64::from(seq)) {
                kept_back += 1;
                continue;
            }
            let payload = match self.payloads.len() {
                0 => self.spec.payload(),
                n => self.payloads[seq as usize % n],
            };
            let bytes = usize::from(payload) + HEADER_BYTES;
            let now = on_path(read);
            let sent = |i: &mut Bottleneck| i.transmit(now, bytes, Ecn::NotEct).map(|(at, _)| at);
            let left = interface.as_mut().map_or(Some(now), sent);
            if let Some(left) = left {
                let entered = entries.choose(seq.into()) && host.stamps != StampSource::User;
                departures.push(LeavingPacket { seq, bytes, read, left: since(left), entered });
            }
        }
        (departures, kept_back)
    }

    fn one_way(&self, path: &mut Impairment, departures: &[LeavingPacket]) -> Vec<PacketRecord> {
        let mut arrivals: Vec<(Span, LeavingPacket, u8)> = Vec::with_capacity(departures.len());
        let mut recovered = Span(i64::MIN);
        for d in departures {
            match self.spec.transport() {
                Transport::Udp => {
                    let delivered = path.pass_test(on_path(d.left), self.packet(d), d.seq.into());
                    arrivals.extend(delivered.iter().map(|t| (since(*t), *d, delivered.traffic_class())));
                }
                Transport::Tcp => {
                    arrivals.push((self.repaired(path, d, &mut recovered), *d, self.spec.dscp.octet()));
                }
            }
        }
        if self.spec.transport() == Transport::Tcp {
            // TCP delivers packets to the program in the order in which they were sent.
            let mut latest = Span(i64::MIN);
            for (at, ..) in &mut arrivals {
                latest = latest.max(*at);
                *at = latest;
            }
        }
        arrivals.sort_by_key(|(at, d, _)| (*at, d.seq));
        let (sender, receiver) = (self.sender(), self.receiver());
        let mut reading = self.rng(23);
        let mut ready = Span(i64::MIN);
        let records = arrivals.into_iter().map(|(at, d, class)| {
            let delay = receiver.reading.draw(&mut reading, on_path(at));
            let read = receiver.runs(at + delay).max(ready);
            ready = read + TIME_PER_PACKET;
            let mut record = PacketRecord::new(d.seq.into());
            let (sent, lag) = stamp(sender, self.epoch, d.left, d.read);
            record.set(Moment::Sent, sent);
            record.set_send_lag(lag.map(|l| Span(-l.0)));
            record.set_entry_lag(d.entered.then_some(Span::ZERO));
            let (arrived, lag) = stamp(receiver, self.epoch, at, read);
            record.set(Moment::Arrived, arrived);
            record.set_receive_lag(lag);
            record.set_size(Some((d.bytes - HEADER_BYTES) as u16));
            record.set_ttl(Some(60));
            if self.spec.marking.is_on() {
                record.set_traffic_class(Some(class));
            }
            record
        });
        records.collect()
    }

    /// Returns a packet as it enters the path.
    fn packet(&self, d: &LeavingPacket) -> PathPacket {
        let mark = self.spec.marking.of(d.seq.into());
        PathPacket { bytes: d.bytes, traffic_class: self.spec.dscp.octet() | mark.bits() }
    }

    /// Returns the final arrival of a packet of a TCP stream. While the sender waits for a retransmission
    /// timer, it sends nothing else: `recovered` is the time at which it continues.
    fn repaired(&self, path: &mut Impairment, d: &LeavingPacket, recovered: &mut Span) -> Span {
        let there = path.config().delay;
        let (mut at, mut wait) = (d.left.max(*recovered), RETRANSMISSION);
        for attempt in 0.. {
            let delivered = path.pass_test(on_path(at), d.bytes + 12, d.seq.into());
            if let Some(first) = delivered.first() {
                let arrived = since(*first);
                if attempt > 1 {
                    *recovered = arrived + there;
                }
                return arrived;
            }
            // Three later packets reveal a loss; the loss of a retransmitted packet is revealed only by the
            // timer.
            let detected = self.spec.period().times(3) + there.times(2);
            at = at + if attempt == 0 { detected.min(wait + there.times(2)) } else { wait };
            wait = Span((2 * wait.0).min(60_000_000_000));
        }
        at
    }

    fn two_way(
        &self,
        (up, down): (&mut Impairment, &mut Impairment),
        departures: &[LeavingPacket],
        answering: &Answering,
    ) -> (Vec<PacketRecord>, TwoWay) {
        let (near, far) = (&self.client, &self.server);
        let mut ways = Directions { stateful: answering.counts, ..Directions::default() };
        let mut lost = Vec::new();
        let mut requests: Vec<(Span, LeavingPacket, u8)> = Vec::new();
        let mut next = 0;
        for d in departures {
            lost.extend((next..d.seq).map(|seq| (seq, LossSide::Up)));
            next = d.seq + 1;
            let delivered = up.pass_test(on_path(d.left), self.packet(d), d.seq.into());
            if delivered.is_empty() {
                lost.push((d.seq, LossSide::Up));
            }
            ways.up_duplicates += delivered.len().saturating_sub(1) as u64;
            requests.extend(delivered.iter().map(|t| (since(*t), *d, delivered.traffic_class())));
        }
        lost.extend((next..self.spec.packets()).map(|seq| (seq, LossSide::Up)));
        requests.sort_by_key(|(at, d, _)| (*at, d.seq));
        let mut highest = None;
        let mut answers: Vec<(Span, LeavingPacket, [WallTime; 2], [u8; 2])> = Vec::new();
        for (at, d, arrived_class) in requests {
            ways.up_reordered += u64::from(highest > Some(d.seq));
            highest = highest.max(Some(d.seq));
            let read = far.runs(at);
            let answered = read + answering.processing;
            // The answer has the mark of the request, as STAMP's class of service asks for.
            let delivered = down.pass_test(on_path(answered), self.packet(&d), d.seq.into());
            if delivered.is_empty() {
                lost.push((d.seq, LossSide::Down));
            }
            ways.down_duplicates += delivered.len().saturating_sub(1) as u64;
            let times = [at, answered].map(|t| far.stamp(self.epoch, t));
            let classes = [arrived_class, delivered.traffic_class()];
            answers.extend(delivered.iter().map(|t| (since(*t), d, times, classes)));
        }
        answers.sort_by_key(|(at, d, ..)| (*at, d.seq));
        let mut ready = Span(i64::MIN);
        let records = answers.iter().map(|(at, d, [arrived, answered], [arrived_class, returned_class])| {
            let read = near.runs(*at).max(ready);
            ready = read + TIME_PER_PACKET;
            let mut record = PacketRecord::new(d.seq.into());
            let (sent, lag) = stamp(near, self.epoch, d.left, d.read);
            record.set(Moment::Sent, sent);
            record.set_send_lag(lag.map(|l| Span(-l.0)));
            record.set_entry_lag(d.entered.then_some(Span::ZERO));
            let (returned, lag) = stamp(near, self.epoch, *at, read);
            record.set(Moment::Returned, returned);
            record.set_receive_lag(lag);
            if answering.far_clock {
                record.set(Moment::Arrived, Stamp { at: *arrived, source: far.stamps });
                record.set(Moment::Answered, Stamp { at: *answered, source: far.stamps });
            }
            if answering.far_clock && self.spec.marking.is_on() {
                record.set_request_mark(Some(Ecn::of_bits(*arrived_class)));
                record.set_answer_mark(Some(self.spec.marking.of(d.seq.into())));
                record.set_traffic_class(Some(*returned_class));
            }
            record.set_size(Some((d.bytes - HEADER_BYTES) as u16));
            record
        });
        let records = records.collect();
        lost.sort_unstable_by_key(|(seq, _)| *seq);
        lost.dedup_by_key(|(seq, _)| *seq);
        let on = |way| lost.iter().filter(|(_, w)| *w == way).count() as u64;
        (ways.up_lost, ways.down_lost) = (on(LossSide::Up), on(LossSide::Down));
        let facts = TwoWay {
            protocol: answering.protocol.clone(),
            timeout: Some(Span::seconds(2)),
            far_clock: answering.far_clock,
            directions: answering.counts.then_some(ways),
            losses: if answering.counts { runs(&lost) } else { Vec::new() },
            ..TwoWay::default()
        };
        (records, facts)
    }
}

/// Converts a time `t` after the due time of the first packet to the path's time scale.
fn on_path(t: Span) -> SteadyTime {
    SteadyTime(t.0)
}

/// Returns the time from the due time of the first packet to `at`.
fn since(at: SteadyTime) -> Span {
    Span(at.0)
}

/// Returns the stamp of a packet that passed a host's interface at `passed` and was handled by its program at `read`.
/// If the kernel took the stamp, also returns the lag between the stamp and the program's clock reading.
fn stamp(host: &HostModel, epoch: WallTime, passed: Span, read: Span) -> (Stamp, Option<Span>) {
    let kernel = host.stamps != StampSource::User;
    let at = host.stamp(epoch, if kernel { passed } else { read });
    let lag = host.stamp(epoch, read) - at;
    (Stamp { at, source: host.stamps }, kernel.then_some(lag))
}

fn runs(lost: &[(u32, LossSide)]) -> Vec<LossRun> {
    let mut runs: Vec<LossRun> = Vec::new();
    for (seq, side) in lost {
        match runs.last_mut() {
            Some(run) if run.first + run.length == *seq && run.side == *side => run.length += 1,
            _ => runs.push(LossRun { first: *seq, length: 1, side: *side }),
        }
    }
    runs
}

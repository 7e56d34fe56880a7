//! [`Tracer`]: schedules probes and assigns answers to hops.
//!
//! All UDP probes of a flow have the same addresses and ports, so that routers with load balancing send them along one
//! route. Several flows differ in their source ports, and take turns: one flow per round, so that a hop is not probed more
//! often than with one. UDP probes are distinguished by their lengths. TCP probes are connection attempts, distinguished by
//! their source ports.

use super::quotation::{IcmpCause, Quotation};
use core::net::IpAddr;
use jitlat_core::path::{HopReplies, Label, Path, PathEnd, ProbeReply};
use jitlat_core::path_history::{FlowNumber, Probe};
use jitlat_core::{Dscp, Ecn, Span, SteadyTime, Transport, WallTime};

/// Minimum payload of a UDP probe, in bytes.
pub const MIN_PAYLOAD: u16 = 32;
/// Maximum number of probes that can be distinguished at a time, by their lengths or ports.
pub const MAX_PROBES: u16 = 128;
/// Number of consecutive silent hops after which no further hops are probed.
const MAX_SILENT_HOPS: usize = 4;

/// Settings of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracePlan {
    /// Address of this host.
    pub source: IpAddr,
    /// Address of the destination.
    pub destination: IpAddr,
    /// Index of the interface through which a link-local destination is reached; 0 for all others.
    pub scope: u32,
    /// Transport protocol of the probes.
    pub transport: Transport,
    /// Destination port of the probes.
    pub port: u16,
    /// DSCP of the probes.
    pub dscp: Dscp,
    /// Mark (ECN field) of the probes.
    pub mark: Ecn,
    /// Number of probes per hop.
    pub probes: u32,
    /// Minimum time between two probes to the same hop: routers limit the rate of their answers.
    pub period: Span,
    /// Time between probes to neighbouring hops.
    pub spacing: Span,
    /// Maximum TTL.
    pub hops: u8,
    /// Timeout of an answer.
    pub timeout: Span,
    /// Number of flows, at least 1; TCP probes have a port each and count as one flow.
    pub flows: FlowNumber,
}

impl TracePlan {
    /// Returns the default settings: ten probes, one per second, to each of at most thirty hops.
    pub fn new(source: IpAddr, destination: IpAddr) -> TracePlan {
        TracePlan {
            source,
            destination,
            scope: 0,
            transport: Transport::Udp,
            port: 33_434,
            dscp: Dscp::default(),
            mark: Ecn::NotEct,
            probes: 10,
            period: Span::seconds(1),
            spacing: Span::millis(20),
            hops: 30,
            timeout: Span::seconds(2),
            flows: 1,
        }
    }
}

/// A probe that must be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueProbe {
    /// Slot of the probe, which determines its length or source port.
    pub slot: u16,
    /// TTL of the probe.
    pub ttl: u8,
    /// Flow that the probe belongs to, from 1.
    pub flow: FlowNumber,
}

impl DueProbe {
    /// Returns the payload length of a UDP probe, in bytes.
    pub fn payload(self) -> u16 {
        MIN_PAYLOAD + self.slot
    }
}

/// An answer to a probe of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// Source address of the answer.
    pub from: IpAddr,
    /// Arrival time.
    pub at: WallTime,
    /// Traffic class in the quoted packet; `None` if no packet is quoted.
    pub traffic_class: Option<u8>,
    /// MPLS labels in the quotation.
    pub labels: Vec<Label>,
    /// Reason why the path ends at this hop; `None` if it does not.
    pub end: Option<PathEnd>,
}

impl ProbeAnswer {
    /// Creates an answer from `quotation`, received in an error from `from`. "Port unreachable" is the answer
    /// of the destination itself.
    pub fn of_quotation(quotation: Quotation, from: IpAddr, at: WallTime) -> ProbeAnswer {
        let end = match quotation.cause {
            IcmpCause::TimeExceeded => None,
            IcmpCause::PortUnreachable if from == quotation.destination => Some(PathEnd::Destination),
            IcmpCause::PortUnreachable => Some(PathEnd::Unreachable(3)),
            IcmpCause::Unreachable(code) => Some(PathEnd::Unreachable(code)),
        };
        let traffic_class = Some(quotation.traffic_class);
        ProbeAnswer { from, at, traffic_class, labels: quotation.labels, end }
    }
}

/// A probe that was sent and may still be answered.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    probe: Probe,
    sent: WallTime,
    until: SteadyTime,
}

/// Probes all hops of a path in turn, in several rounds. See the module's documentation.
///
/// ```text
/// while !tracer.is_over(now) { send tracer.poll_probe(now); wait until tracer.deadline() or an answer; tracer.answer(…) }
/// ```
#[derive(Clone, Debug)]
pub struct Tracer {
    plan: TracePlan,
    /// Start time of the current round.
    round_start: SteadyTime,
    round: u32,
    /// TTL of the next probe.
    next_ttl: u8,
    next_at: SteadyTime,
    slot: u16,
    outstanding: Vec<Option<Outstanding>>,
    replies: Vec<HopReplies>,
    /// TTL of the last hop to probe, for each flow.
    last: Vec<u8>,
    /// TTL at which the destination answered last, for each flow; 0 before it did.
    reached: Vec<u8>,
    /// Number of probes sent so far.
    sent: u64,
    over_at: SteadyTime,
}

impl Tracer {
    /// Creates a tracer that begins at `now`.
    pub fn new(plan: TracePlan, now: SteadyTime) -> Tracer {
        let last = plan.hops.max(1);
        Tracer {
            round_start: now,
            round: 0,
            next_ttl: 1,
            next_at: now,
            slot: 0,
            outstanding: vec![None; MAX_PROBES.into()],
            replies: vec![HopReplies::default(); last.into()],
            last: vec![last; plan.flows.max(1).into()],
            reached: vec![0; plan.flows.max(1).into()],
            sent: 0,
            over_at: now,
            plan,
        }
    }

    /// Returns the settings.
    pub fn plan(&self) -> &TracePlan {
        &self.plan
    }

    /// Returns the next probe, if one is due. The caller sends it, then calls [`Tracer::sent`].
    pub fn poll_probe(&mut self, now: SteadyTime) -> Option<DueProbe> {
        if self.round == self.plan.probes || now < self.next_at {
            return None;
        }
        if self.next_ttl > self.last_of(self.flow()) {
            self.end_round(now);
            return None;
        }
        let flow = self.flow();
        let due = DueProbe { slot: self.slot, ttl: self.next_ttl, flow };
        self.slot = (self.slot + 1) % MAX_PROBES;
        self.next_ttl += 1;
        self.next_at = now + self.plan.spacing;
        self.over_at = now + self.plan.timeout;
        if self.next_ttl > self.last_of(flow) {
            self.end_round(now);
        }
        Some(due)
    }

    /// Returns the flow of the current round.
    fn flow(&self) -> FlowNumber {
        (self.round % self.last.len() as u32) as FlowNumber + 1
    }

    /// Returns the TTL of the last hop to probe in `flow`.
    fn last_of(&self, flow: FlowNumber) -> u8 {
        self.last.get(usize::from(flow).saturating_sub(1)).copied().unwrap_or(0)
    }

    fn end_round(&mut self, now: SteadyTime) {
        self.round += 1;
        self.next_ttl = 1;
        self.round_start = (self.round_start + self.plan.period).max(now);
        self.next_at = self.round_start;
    }

    /// Records that `due` was sent at `at`, and returns it with its number.
    pub fn sent(&mut self, due: DueProbe, at: WallTime, now: SteadyTime) -> Probe {
        let until = now + self.plan.timeout;
        self.replies[usize::from(due.ttl) - 1].count_probe();
        let probe = Probe { number: self.sent, ttl: due.ttl, flow: due.flow };
        self.sent += 1;
        self.outstanding[usize::from(due.slot)] = Some(Outstanding { probe, sent: at, until });
        self.over_at = self.over_at.max(until);
        probe
    }

    /// Returns the slot of the probe that `quotation` quotes; `None` if it quotes another packet. `from_ports`
    /// are the source ports of this program's UDP probes, one per flow; `slot_of_port` returns the slot of a TCP probe by
    /// its source port.
    pub fn slot(
        &self,
        quotation: &Quotation,
        from_ports: &[u16],
        slot_of_port: impl Fn(u16) -> Option<u16>,
    ) -> Option<u16> {
        let [source, destination] = quotation.ports;
        let ours = quotation.destination == self.plan.destination
            && destination == self.plan.port
            && quotation.protocol == self.plan.transport.number();
        if !ours {
            return None;
        }
        match self.plan.transport {
            Transport::Udp => {
                let flow = from_ports.iter().position(|port| *port == source)? + 1;
                let slot = quotation.payload?.checked_sub(MIN_PAYLOAD).filter(|slot| *slot < MAX_PROBES)?;
                let probe = self.outstanding.get(usize::from(slot))?.as_ref()?.probe;
                (usize::from(probe.flow) == flow).then_some(slot)
            }
            Transport::Tcp => slot_of_port(source),
        }
    }

    /// Records an answer to the probe of `slot`, and returns both. Repeated answers are ignored; of a late one only the
    /// [reason](Tracer::reason) counts.
    pub fn answer(&mut self, slot: u16, answer: ProbeAnswer, now: SteadyTime) -> Option<(Probe, ProbeReply)> {
        if self.outstanding.get(usize::from(slot))?.as_ref()?.until < now {
            return self.reason(slot, answer);
        }
        let outstanding = self.outstanding.get_mut(usize::from(slot))?.take()?;
        self.record(outstanding, answer)
    }

    /// Records an answer to the probe of `slot` that has no valid round-trip time, and returns both if a router at an earlier
    /// hop reports that the destination is unreachable; all others are ignored. The probe remains unanswered. Such reports
    /// are often late: a Linux router sends them after three seconds without an answer to ARP.
    pub fn reason(&mut self, slot: u16, answer: ProbeAnswer) -> Option<(Probe, ProbeReply)> {
        let ttl = self.outstanding.get(usize::from(slot))?.as_ref()?.probe.ttl;
        self.reporter(ttl, answer.from, answer.end)?;
        let outstanding = self.outstanding.get_mut(usize::from(slot))?.take()?;
        self.record(outstanding, answer)
    }

    fn record(&mut self, outstanding: Outstanding, answer: ProbeAnswer) -> Option<(Probe, ProbeReply)> {
        let Outstanding { probe, sent, .. } = outstanding;
        let ProbeAnswer { from, at, traffic_class, labels, end } = answer;
        let reported_by = self.reporter(probe.ttl, from, end);
        let reply =
            ProbeReply { from, flow: probe.flow, rtt: at - sent, traffic_class, labels, end, reported_by };
        let flow = usize::from(probe.flow) - 1;
        let last = self.last.get_mut(flow)?;
        if let Some(end) = end {
            if end == PathEnd::Destination {
                self.reached[flow] = probe.ttl;
            }
            // A destination that answered before may answer again: all hops up to it are still probed, so that missing answers are counted.
            *last = (*last).min(probe.ttl.max(self.reached[flow]));
            // Routes of other flows are usually not much longer, so they are probed only a few hops further; a route is followed
            // beyond that if its routers answer.
            let limit = probe.ttl.saturating_add(MAX_SILENT_HOPS as u8);
            let known = self.last.iter_mut().zip(&self.reached);
            known.for_each(|(last, reached)| *last = (*last).min(limit.max(*reached)));
        } else if probe.ttl == *last {
            // A router answers at the last hop of the route, which therefore continues.
            *last = last.saturating_add(1).min(self.plan.hops.max(1));
        }
        match (reported_by, end) {
            (Some(ttl), Some(PathEnd::Unreachable(code))) => {
                self.replies.get_mut(usize::from(ttl) - 1)?.count_report(code);
            }
            _ => self.replies.get_mut(usize::from(probe.ttl) - 1)?.add(&reply),
        }
        Some((probe, reply))
    }

    /// Returns the TTL of the router `from` if it answered at a hop before `ttl`, and now reports that the destination is unreachable.
    fn reporter(&self, ttl: u8, from: IpAddr, end: Option<PathEnd>) -> Option<u8> {
        let is_report = matches!(end, Some(PathEnd::Unreachable(_)));
        let mut earlier = (1..ttl).zip(&self.replies);
        earlier.find(|(_, replies)| is_report && replies.has(from)).map(|(ttl, _)| ttl)
    }

    /// Returns the time of the next action.
    pub fn deadline(&self) -> SteadyTime {
        if self.round == self.plan.probes { self.over_at } else { self.next_at }
    }

    /// True if no more probes are to be sent, and no answers are awaited.
    pub fn is_over(&self, now: SteadyTime) -> bool {
        let waits = |p: &Option<Outstanding>| {
            p.is_some_and(|p| p.probe.ttl <= self.last_of(p.probe.flow) && now < p.until)
        };
        self.round == self.plan.probes && !self.outstanding.iter().any(waits)
    }

    /// Limits probing to `MAX_SILENT_HOPS` hops beyond the last one that has answered. Called after the first
    /// round.
    pub fn forget_silence(&mut self) {
        let answered = self.replies.iter().rposition(HopReplies::is_answered).map_or(0, |k| k + 1);
        let limit = (answered + MAX_SILENT_HOPS).min(usize::from(u8::MAX)) as u8;
        self.last.iter_mut().for_each(|last| *last = (*last).min(limit));
    }

    /// Returns the number of finished rounds.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Returns the results so far.
    pub fn path(&self) -> Path {
        let TracePlan { source, destination, transport, port, dscp, .. } = self.plan;
        Path::new([source, destination], (transport, port, dscp), &self.replies)
            .of_probes_with(self.plan.mark)
    }
}

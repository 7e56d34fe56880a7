//! [`OnePoint`]: round trips of flows from one capture point, without a second one and without sending
//! packets.
//!
//! * TCP: the time from a timestamp to its echo (RFC 7323), as pping measures it, towards the server and
//!   towards the client
//! * QUIC: the spin bit (RFC 9000 §17.4), which the two ends change once per round trip
//!
//! The capture point divides a round trip: the part to the server and back contains everything on the
//! server's side of the point, including the host; the part to the client and back is the rest.

use super::Frame;
use super::packet::{IpPacket, UDP};
use super::recording::{CopyKind, RecordedStep, Recording, RecordingFacts, Seen, SeenPacket};
use super::spread::{SpanSpread, SpreadFigures};
use super::tcp::{ObservedConnection, TcpAnalyzer};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use foldhash::fast::RandomState;
use jitlat_core::prefix::bits;
use jitlat_core::time::{Span, WallTime};
use serde::Serialize;
use std::collections::HashMap;

/// Maximum number of QUIC flows that are followed; packets of further flows are only counted.
const MAX_FLOWS: usize = if cfg!(test) { 1 << 6 } else { 1 << 16 };
/// Maximum percentage of edges that may contradict the rule of the spin bit. With more, the end is assumed not to
/// implement the spin bit.
const MAX_CONFLICT_PERCENT: u64 = 20;
/// Number of packets with a spin bit below which the bit is not judged.
const FEW_PACKETS: u64 = 16;
/// Length of a UDP header, in bytes.
const HEADER: usize = 8;

/// One flow with its round trips.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OnePointFlow {
    /// Protocol: `tcp` or `quic`.
    pub protocol: &'static str,
    /// End that opened the flow; the end with the higher port if the opening was not captured.
    pub client: SocketAddr,
    /// End that did not open the flow.
    pub server: SocketAddr,
    /// Number of packets of the flow in both directions.
    pub packets: u64,
    /// Round trips between capture point and server, in ns; null without a measurement.
    pub server_rtt_ns: Option<SpreadFigures>,
    /// Round trips between capture point and client, in ns; null without a measurement.
    pub client_rtt_ns: Option<SpreadFigures>,
    /// Round trips between client and server, measured by the spin bit, in ns; null for TCP and without a
    /// measurement.
    pub whole_rtt_ns: Option<SpreadFigures>,
    /// Reason why there is no measurement; null if there is one.
    pub why_not: Option<&'static str>,
}

/// Results of one capture point.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OnePointResult {
    /// TCP connections and QUIC flows, sorted by packets, largest number first.
    pub flows: Vec<OnePointFlow>,
    /// Number of IP packets read.
    pub packets: u64,
    /// Number of frames without a readable IP packet.
    pub skipped: u64,
    /// First 64 steps of the recording's clock. Times after a step are corrected by the size of the step.
    pub clock_steps: Vec<RecordedStep>,
    /// Smallest difference between two times that the recording can show, in ns; null if it is below 0.1 ms or unknown.
    /// Shorter round trips are not known.
    pub resolution_ns: Option<Span>,
    /// Number of packets recorded again at another place. These copies are left out.
    pub copies: u64,
    /// Properties of the recording that limit the figures, as text.
    pub notes: Vec<String>,
    /// Number of QUIC packets of flows beyond the first [`MAX_FLOWS`], which are not followed.
    pub not_followed: u64,
}

type FlowEndpoint = (u128, u16);

/// State of the spin bit in one direction of a QUIC flow.
#[derive(Debug, Default)]
struct Spin {
    /// Current value; `None` before the first packet with a spin bit.
    value: Option<bool>,
    /// Time at which the spin bit last changed.
    edge: Option<WallTime>,
}

#[derive(Debug)]
struct QuicFlow {
    client: FlowEndpoint,
    server: FlowEndpoint,
    packets: u64,
    /// True once a long header with a known version was seen.
    is_quic: bool,
    /// Spin bits of packets from the client, and of packets from the server.
    spins: [Spin; 2],
    /// Number of packets with a spin bit.
    short: u64,
    edges: u64,
    conflicts: u64,
    whole: SpanSpread,
    /// Round trips between capture point and server, and between capture point and client.
    parts: [SpanSpread; 2],
}

/// Measures round trips in the packets of one capture point.
#[derive(Debug)]
pub struct OnePoint {
    recording: Recording,
    flows: Flows,
}

impl Default for OnePoint {
    fn default() -> OnePoint {
        OnePoint { recording: Recording::inside_tunnels(), flows: Flows::default() }
    }
}

#[derive(Debug, Default)]
struct Flows {
    tcp: TcpAnalyzer,
    quic: HashMap<(FlowEndpoint, FlowEndpoint), QuicFlow, RandomState>,
    packets: u64,
    skipped: u64,
    not_followed: u64,
}

impl OnePoint {
    /// Handles a captured frame.
    pub fn push(&mut self, frame: &Frame<'_>) {
        let flows = &mut self.flows;
        self.recording.push(frame, &mut |seen| flows.take(&seen));
    }

    /// Returns the results.
    pub fn finish(mut self) -> OnePointResult {
        let flows = &mut self.flows;
        self.recording.finish(&mut |seen| flows.take(&seen));
        let facts = RecordingFacts { translated: self.flows.tcp.translated(), ..self.recording.facts() };
        OnePointResult {
            notes: facts
                .notes(facts.copies)
                .into_iter()
                .chain(facts.describe_foreign(self.flows.packets))
                .collect(),
            copies: facts.copies,
            resolution_ns: facts.resolution,
            clock_steps: facts.steps,
            ..self.flows.finish()
        }
    }
}

impl Flows {
    fn take(&mut self, seen: &Seen<'_>) {
        match seen {
            Seen::Packet(seen) => self.packet(seen),
            Seen::Skipped(..) => self.skipped += 1,
            Seen::ClockSet => {
                self.tcp.clock_set();
                self.quic.values_mut().for_each(QuicFlow::clock_set);
            }
        }
    }

    fn packet(&mut self, seen: &SeenPacket<'_>) {
        let (at, p): (WallTime, &IpPacket<'_>) = (seen.at, seen.packet);
        self.packets += 1;
        if p.protocol != UDP {
            self.tcp.take(seen).for_each(drop);
            return;
        }
        if seen.copy == Some(CopyKind::Elsewhere) {
            return;
        }
        let Some((from_port, to_port)) = p.ports() else { return };
        let Some(payload) = p.transport().get(HEADER..).filter(|payload| !payload.is_empty()) else { return };
        let (from, to) = ((bits(p.src()), from_port), (bits(p.dst()), to_port));
        let key = if from < to { (from, to) } else { (to, from) };
        let kind = Quic::of(payload);
        if !self.quic.contains_key(&key) {
            // A flow is followed from the first packet that can be a QUIC packet.
            let begins = kind.is_some_and(|k| k != Quic::Short) || from_port == 443 || to_port == 443;
            if kind.is_none() || !begins {
                return;
            }
            if self.quic.len() >= MAX_FLOWS {
                self.not_followed += 1;
                return;
            }
            // The end with the lower port is the server, unless the first packet is one that only a client
            // sends.
            let to_service = to_port <= from_port;
            let (client, server) = if to_service { (from, to) } else { (to, from) };
            self.quic.insert(key, QuicFlow::new(client, server));
        }
        if let (Some(flow), Some(kind)) = (self.quic.get_mut(&key), kind) {
            flow.push(at, from, kind, spin_bit(payload));
        }
    }

    fn finish(&self) -> OnePointResult {
        let tcp = self.tcp.finish();
        let mut flows: Vec<OnePointFlow> = tcp.iter().map(of_connection).collect();
        flows.extend(self.quic.values().filter(|flow| flow.is_quic).map(QuicFlow::figures));
        flows.sort_by_key(|flow| (core::cmp::Reverse(flow.packets), flow.client, flow.server));
        OnePointResult {
            flows,
            packets: self.packets,
            skipped: self.skipped,
            not_followed: self.not_followed,
            ..OnePointResult::default()
        }
    }
}

fn of_connection(c: &ObservedConnection) -> OnePointFlow {
    let (server_rtt_ns, client_rtt_ns) = (c.up.rtt_timestamp_ns, c.down.rtt_timestamp_ns);
    let none = server_rtt_ns.is_none() && client_rtt_ns.is_none();
    OnePointFlow {
        protocol: "tcp",
        client: c.client,
        server: c.server,
        packets: c.up.segments + c.down.segments,
        server_rtt_ns,
        client_rtt_ns,
        whole_rtt_ns: None,
        why_not: none.then_some(
            "no timestamp was echoed: the timestamp option is off, one direction was not captured, or the packets are too few; `jitlat tcp` measures by acknowledgements",
        ),
    }
}

/// Kind of a QUIC packet by its first bytes (RFC 8999, RFC 9000 §17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quic {
    /// Long header with a known version.
    Long,
    /// Short header, of an established connection.
    Short,
}

impl Quic {
    fn of(payload: &[u8]) -> Option<Quic> {
        const FORM: u8 = 0x80;
        const FIXED: u8 = 0x40;
        let first = *payload.first()?;
        if first & FORM == 0 {
            return (first & FIXED != 0).then_some(Quic::Short);
        }
        let version = u32::from_be_bytes(*payload.get(1..)?.first_chunk::<4>()?);
        // Versions 1 and 2, and drafts.
        let known = matches!(version, 1 | 0x6b33_43cf) || version >> 8 == 0x00ff_0000;
        (known && first & FIXED != 0).then_some(Quic::Long)
    }
}

/// Returns the spin bit of a packet with a short header.
fn spin_bit(payload: &[u8]) -> bool {
    const SPIN: u8 = 0x20;
    payload.first().is_some_and(|first| first & SPIN != 0)
}

impl QuicFlow {
    fn new(client: FlowEndpoint, server: FlowEndpoint) -> QuicFlow {
        QuicFlow {
            client,
            server,
            packets: 0,
            is_quic: false,
            spins: <[Spin; 2]>::default(),
            short: 0,
            edges: 0,
            conflicts: 0,
            whole: SpanSpread::of_flow(),
            parts: [SpanSpread::of_flow(), SpanSpread::of_flow()],
        }
    }

    /// Notes that the clock was set: nothing is measured across this moment.
    fn clock_set(&mut self) {
        self.spins.iter_mut().for_each(|spin| spin.edge = None);
    }

    /// Handles a packet from `from`; `value` is its spin bit.
    fn push(&mut self, at: WallTime, from: FlowEndpoint, kind: Quic, value: bool) {
        self.packets += 1;
        if kind == Quic::Long {
            self.is_quic = true;
            return;
        }
        self.short += 1;
        let (own, other) = if from == self.client { (0, 1) } else { (1, 0) };
        let before = self.spins[own].value.replace(value);
        // The first value of a direction is not an edge: the time of the change is unknown.
        if before.is_none_or(|before| before == value) {
            return;
        }
        self.edges += 1;
        let last = self.spins[own].edge.replace(at);
        // The server returns the value that it has received; the client inverts it.
        let expected = self.spins[other].value.map(|seen| if own == 0 { !seen } else { seen });
        if expected.is_some_and(|expected| expected != value) {
            self.conflicts += 1;
            return;
        }
        if let Some(last) = last {
            self.whole.push((at - last).0);
        }
        // An edge is caused by the last edge in the other direction, so the server's edges measure the round
        // trip between capture point and server.
        if let Some(cause) = self.spins[other].edge
            && last.is_none_or(|last| cause >= last)
        {
            self.parts[other].push((at - cause).0);
        }
    }

    fn figures(&self) -> OnePointFlow {
        let turned = self.edges > 1;
        let kept = 100 * self.conflicts <= MAX_CONFLICT_PERCENT * self.edges;
        let figures = |spread: &SpanSpread| spread.figures(0).filter(|_| turned && kept);
        OnePointFlow {
            protocol: "quic",
            client: socket(self.client),
            server: socket(self.server),
            packets: self.packets,
            server_rtt_ns: figures(&self.parts[0]),
            client_rtt_ns: figures(&self.parts[1]),
            whole_rtt_ns: figures(&self.whole),
            why_not: match (turned, kept) {
                (false, _) if self.short < FEW_PACKETS => {
                    Some("too few packets with a spin bit: packets of the handshake have none")
                }
                (false, _) => {
                    Some("the spin bit does not change: an end has disabled it, as RFC 9000 allows")
                }
                (true, false) => Some(
                    "the spin bit is random: an end has disabled it, as RFC 9000 requires for one connection in sixteen",
                ),
                (true, true) => None,
            },
        }
    }
}

/// Converts an end to a socket address.
fn socket((address, port): FlowEndpoint) -> SocketAddr {
    let address = Ipv6Addr::from_bits(address);
    SocketAddr::new(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4), port)
}

#[cfg(test)]
mod tests {
    use super::*;
    const CLIENT: FlowEndpoint = (1, 50_000);
    const SERVER: FlowEndpoint = (2, 443);
    const MS: i64 = 1_000_000;

    /// Simulates a connection that is seen 3 ms from its client and 7 ms from its server, with a packet in
    /// each direction every `gap` ms for two seconds. `turns`: the spin bit that each end sends, by the value
    /// it received last (`None` at first).
    fn seen(gap: i64, mut turns: [impl FnMut(Option<bool>, i64) -> bool; 2]) -> OnePointFlow {
        let mut flow = QuicFlow::new(CLIENT, SERVER);
        flow.push(WallTime(0), CLIENT, Quic::Long, false);
        // Packets in transit to each end: time of arrival there, and value.
        let mut in_transit: [Vec<(i64, bool)>; 2] = [Vec::new(), Vec::new()];
        let mut received = [None, None];
        let mut observed: Vec<(i64, FlowEndpoint, bool)> = Vec::new();
        for ms in (0..2000).filter(|ms| ms % gap == 0) {
            for end in [0, 1] {
                for (_, value) in in_transit[end].extract_if(.., |(at, _)| *at <= ms) {
                    received[end] = Some(value);
                }
            }
            for end in [0, 1] {
                let value = turns[end](received[end], ms);
                in_transit[1 - end].push((ms + 10, value));
                let (from, to_point) = if end == 0 { (CLIENT, 3) } else { (SERVER, 7) };
                observed.push((ms + to_point, from, value));
            }
        }
        observed.sort();
        for (at, from, value) in observed {
            flow.push(WallTime(at * MS), from, Quic::Short, value);
        }
        flow.figures()
    }

    fn client(received: Option<bool>, _: i64) -> bool {
        received.is_some_and(|value| !value)
    }

    fn server(received: Option<bool>, _: i64) -> bool {
        received.unwrap_or(false)
    }

    type Turn = fn(Option<bool>, i64) -> bool;

    #[test]
    fn the_spin_bit_gives_both_parts_and_the_whole() {
        let flow = seen(1, [client as Turn, server]);
        let near = |figures: Option<SpreadFigures>, ms: i64| {
            let figures = figures.unwrap();
            assert!(figures.count > 50, "{figures:?}");
            // The next packet after an edge leaves up to a millisecond later at each end.
            assert!((ms * MS..=(ms + 2) * MS).contains(&figures.median), "{figures:?}, not {ms} ms");
        };
        near(flow.whole_rtt_ns, 20);
        near(flow.server_rtt_ns, 14);
        near(flow.client_rtt_ns, 6);
        assert_eq!(flow.why_not, None);
    }

    #[test]
    fn a_bit_that_stands_or_is_random_gives_nothing() {
        let still = seen(1, [(|_, _| true) as Turn, |_, _| true]);
        assert!(still.whole_rtt_ns.is_none() && still.why_not.unwrap().contains("does not change"));
        // An end that chooses each bit at random.
        let random: Turn = |_, ms| (ms as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1;
        for ends in [[random, random], [random, server]] {
            let flow = seen(1, ends);
            assert!(flow.whole_rtt_ns.is_none() && flow.why_not.unwrap().contains("random"), "{flow:?}");
        }
    }

    #[test]
    fn versions_that_are_known_and_nothing_else_are_quic() {
        assert_eq!(Quic::of(&[0xc3, 0, 0, 0, 1, 8]), Some(Quic::Long));
        assert_eq!(Quic::of(&[0xc3, 0x6b, 0x33, 0x43, 0xcf]), Some(Quic::Long));
        assert_eq!(Quic::of(&[0xc3, 1, 2, 3, 4]), None);
        assert_eq!(Quic::of(&[0xc3, 0, 0]), None);
        assert_eq!((Quic::of(&[0x60]), Quic::of(&[0x20]), Quic::of(&[])), (Some(Quic::Short), None, None));
    }

    #[test]
    fn one_direction_alone_gives_the_whole_round_trip() {
        let mut flow = QuicFlow::new(CLIENT, SERVER);
        (0..40).for_each(|i| flow.push(WallTime(i * 5 * MS), CLIENT, Quic::Short, i / 4 % 2 == 1));
        let figures = flow.figures();
        assert_eq!(figures.whole_rtt_ns.unwrap().median, Span::millis(20).0);
        assert_eq!((figures.server_rtt_ns, figures.client_rtt_ns), (None, None));
    }
}

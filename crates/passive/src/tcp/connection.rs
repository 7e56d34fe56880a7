//! [`ObservedConnection`]: both directions of a connection, and its handshake.

use super::delay_causes::DeliveryHistory;
use super::direction::DirectionState;
use super::event::TcpEvent;
use super::figures::{DirectionFigures, DirectionStatus};
use super::segment::{ACK, RST, SYN, TcpSegment};
use super::verdict::{MIN_SEGMENTS, round_trip};
use crate::recording::CopyKind;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use jitlat_core::time::{Span, WallTime};
use serde::{Deserialize, Serialize};

/// Silence after which a SYN with another sequence number opens a new connection, even if the end of the
/// previous one was not seen.
const REOPEN_SILENCE: Span = Span::seconds(1);

/// One connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObservedConnection {
    /// End that opened the connection. If the opening was not seen: the end with the port that clients use, or, if the
    /// ports do not show it, the end that was the first to send data.
    pub client: SocketAddr,
    /// Other end of the connection.
    pub server: SocketAddr,
    /// Time of the first segment.
    pub first: WallTime,
    /// Time of the last segment.
    pub last: WallTime,
    /// Time from SYN to SYN-ACK at the capture point: the round trip to the server. `None` if not measured.
    pub handshake_server_ns: Option<Span>,
    /// Time from SYN-ACK to the client's ACK at the capture point: the round trip to the client. `None` if not
    /// measured.
    pub handshake_client_ns: Option<Span>,
    /// Data from the client.
    pub up: DirectionFigures,
    /// Data from the server.
    pub down: DirectionFigures,
}

impl ObservedConnection {
    /// Time from the first to the last segment; at least one nanosecond.
    pub fn duration(&self) -> Span {
        (self.last - self.first).max(Span(1))
    }

    /// Usual round trip between the capture point and the server, in ns: the median for the client's data. If there is
    /// little data, that of the handshake, unless the median is smaller. `None` if not measured.
    pub fn server_rtt(&self) -> Option<i64> {
        usual(&self.up, self.handshake_server_ns)
    }

    /// Usual round trip between the capture point and the client, in ns; `None` if not measured.
    pub fn client_rtt(&self) -> Option<i64> {
        usual(&self.down, self.handshake_client_ns)
    }

    /// True if `a` and `b` are the two ends of the connection.
    pub fn is_between(&self, a: SocketAddr, b: SocketAddr) -> bool {
        [(a, b), (b, a)].contains(&(self.client, self.server))
    }
}

fn usual(data: &DirectionFigures, handshake: Option<Span>) -> Option<i64> {
    let measured = round_trip(data).map(|r| r.median);
    // Acknowledgements may be delayed, the handshake's are not.
    let least = handshake.map(|h| h.0).filter(|h| *h >= 0);
    match (measured, least) {
        (Some(m), Some(h)) if data.data_segments < MIN_SEGMENTS => Some(m.min(h)),
        (m, h) => m.or(h),
    }
}

/// Address, as IPv6, and port.
pub(crate) type TcpEndpoint = (u128, u16);

/// Converts an end to a socket address.
pub(crate) fn socket((address, port): TcpEndpoint) -> SocketAddr {
    let a = Ipv6Addr::from_bits(address);
    SocketAddr::new(a.to_ipv4_mapped().map_or(IpAddr::V6(a), IpAddr::V4), port)
}

/// State of a handshake segment: not sent, sent once or sent repeatedly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shake {
    #[default]
    Never,
    Once(WallTime),
    /// The segment was sent more than once, which gives no measurement (Karn's rule).
    Again,
}

impl Shake {
    fn note(&mut self, at: WallTime) {
        *self = if *self == Shake::Never { Shake::Once(at) } else { Shake::Again };
    }

    fn until(self, at: WallTime) -> Option<Span> {
        match self {
            Shake::Once(sent) => Some(at - sent),
            Shake::Never | Shake::Again => None,
        }
    }
}

/// State of a connection that is followed.
#[derive(Debug)]
pub(super) struct ConnectionState {
    pub(super) client: TcpEndpoint,
    pub(super) server: TcpEndpoint,
    pub(super) first: WallTime,
    last: WallTime,
    syn: Shake,
    syn_ack: Shake,
    /// Round trips between capture point and server, and between capture point and client.
    handshake: [Option<Span>; 2],
    /// Data from the client, data from the server.
    directions: [DirectionState; 2],
    /// True if both sides have finished, or one has reset the connection.
    over: bool,
    /// True if a reset was seen, even one that the other side need not have accepted.
    reset: bool,
    /// True if it is not known yet which end is the client.
    sides_open: bool,
}

/// Ports of known services above the system ports.
const SERVICE_PORTS: [u16; 32] = [
    1080, 1194, 1433, 1521, 1883, 1935, 2049, 3128, 3268, 3306, 3389, 4443, 5060, 5061, 5222, 5432, 5672,
    5900, 5985, 6379, 6443, 8000, 8008, 8080, 8081, 8443, 8883, 8888, 9090, 9092, 9200, 27017,
];

/// Rank of a port: the lower, the more likely it is a server's.
fn rank(port: u16) -> u8 {
    match port {
        0..1024 => 0,
        _ if SERVICE_PORTS.contains(&port) => 1,
        // Below the ports that systems assign to clients.
        1024..32_768 => 2,
        32_768.. => 3,
    }
}

impl ConnectionState {
    /// Creates the state of a connection from its first segment seen.
    pub(super) fn new(
        at: WallTime,
        from: TcpEndpoint,
        to: TcpEndpoint,
        s: &TcpSegment,
        keeps_history: bool,
    ) -> ConnectionState {
        let (own, other) = (rank(from.1), rank(to.1));
        let (client, server) = match s.has(SYN) {
            // A SYN-ACK comes from the server, even if it is the first segment seen.
            true if s.has(ACK) => (to, from),
            false if own < other => (to, from),
            _ => (from, to),
        };
        let direction = || match keeps_history {
            true => DirectionState::with_history(),
            false => DirectionState::default(),
        };
        ConnectionState {
            client,
            server,
            first: at,
            last: at,
            syn: Shake::Never,
            syn_ack: Shake::Never,
            handshake: [None; 2],
            directions: [direction(), direction()],
            over: false,
            reset: false,
            sides_open: !s.has(SYN) && own == other,
        }
    }

    /// Makes the end that sends data first the client. Is called while nothing shows which end is the client.
    #[cold]
    fn find_sides(&mut self, from: TcpEndpoint, s: &TcpSegment) {
        // A single byte may be a probe of an idle connection.
        if s.payload > 1 {
            self.sides_open = false;
            if from != self.client {
                std::mem::swap(&mut self.client, &mut self.server);
                self.directions.swap(0, 1);
                self.handshake.swap(0, 1);
            }
        }
    }

    /// Counts a packet that was recorded again.
    pub(super) fn copied(&mut self, from: TcpEndpoint, kind: CopyKind) {
        self.directions[usize::from(from != self.client)].copied(kind);
    }

    /// Notes that the clock was set: nothing is measured across this moment.
    pub(super) fn clock_set(&mut self) {
        for shake in [&mut self.syn, &mut self.syn_ack] {
            if *shake != Shake::Never {
                *shake = Shake::Again;
            }
        }
        self.directions.iter_mut().for_each(DirectionState::clock_set);
    }

    /// True if the SYN `s` opens another connection between the same ends.
    pub(super) fn is_succeeded_by(&self, at: WallTime, from: TcpEndpoint, s: &TcpSegment) -> bool {
        let isn = self.directions[usize::from(from != self.client)].isn();
        let other = isn != Some(s.seq);
        let silent = at - self.last >= REOPEN_SILENCE && other;
        silent || self.over && (s.ack.is_none() || other) || self.reset && other && isn.is_some()
    }

    /// Handles a segment and adds the resulting events to `events`.
    pub(super) fn take(
        &mut self,
        at: WallTime,
        from: TcpEndpoint,
        s: &TcpSegment,
        events: &mut Vec<TcpEvent>,
    ) {
        self.last = self.last.max(at);
        if self.sides_open {
            self.find_sides(from, s);
        }
        let is_client = from == self.client;
        self.note_handshake(at, is_client, s);
        let [up, down] = &mut self.directions;
        let (own, peer) = if is_client { (up, down) } else { (down, up) };
        // Handle the acknowledgement first: it may open the window that the data then fills.
        if peer.take_acknowledgement(at, s, own.window().is_kept_by(s)) {
            own.count_duplicate_ack();
        }
        let reset = s.has(RST) && own.may_reset(s.seq);
        self.reset |= s.has(RST);
        own.take_segment(at, s, peer.window(), events);
        if !self.over && (reset || own.is_finished() && peer.is_finished()) {
            self.over = true;
            self.directions.iter_mut().for_each(DirectionState::close);
        }
    }

    fn note_handshake(&mut self, at: WallTime, is_client: bool, s: &TcpSegment) {
        match (s.has(SYN), s.ack.is_some()) {
            (true, false) => self.syn.note(at),
            (true, true) => {
                self.handshake[0] = self.handshake[0].or(self.syn.until(at));
                self.syn_ack.note(at);
            }
            (false, true) if is_client && self.syn_ack != Shake::Never => {
                self.handshake[1] = self.handshake[1].or(self.syn_ack.until(at));
                self.syn_ack = Shake::Never;
            }
            _ => {}
        }
    }

    /// Returns the state of both directions at `at`.
    pub(super) fn status(&self, at: WallTime) -> [DirectionStatus; 2] {
        let [up, down] = &self.directions;
        [up.status(at, down.window().bytes()), down.status(at, up.window().bytes())]
    }

    /// Returns the delivery history of the client's data (`up`) or the server's; `None` if not recorded.
    pub(super) fn delivery_history(&self, up: bool) -> Option<DeliveryHistory> {
        let [from_client, from_server] = &self.directions;
        if up { from_client.delivery_history(from_server) } else { from_server.delivery_history(from_client) }
    }

    /// Returns the statistics so far.
    pub(super) fn finish(&self) -> ObservedConnection {
        ObservedConnection {
            client: socket(self.client),
            server: socket(self.server),
            first: self.first,
            last: self.last,
            handshake_server_ns: self.handshake[0],
            handshake_client_ns: self.handshake[1],
            up: self.directions[0].finish(),
            down: self.directions[1].finish(),
        }
    }

    /// Returns the number of segments in flight and of gaps stored, for data from the client and from the server.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> [(usize, usize); 2] {
        self.directions.each_ref().map(DirectionState::remembered)
    }
}

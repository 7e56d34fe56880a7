//! What TCP hides: connections as one capture point sees them – retransmissions and why, reordering,
//! losses before and after the point, round trips, windows.

mod carriage;
mod gaps;
mod lane;
mod segment;

pub use carriage::{Carried, Cause, Course, Explained, Framing, Observed, Place, Share};
pub use lane::{LaneFigures, Standing};
pub use segment::Segment;

use super::packet::{Packet, bits};
use crate::time::{Span, WallTime};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use foldhash::fast::RandomState;
use lane::Lane;
use segment::{ACK, RST, SYN};
use serde::Serialize;
use std::collections::HashMap;

/// Connections followed; further ones are counted and left alone.
const CONNECTIONS: usize = 1 << 17;
/// After so long a silence a SYN with another number opens a connection of its own, even if the end of the one
/// before was not seen.
const SILENCE: Span = Span::seconds(1);

/// What a segment tells beyond its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// Sent again after duplicate acknowledgements or SACK.
    Fast,
    /// Sent again after a retransmission timeout.
    Timeout,
    /// Sent again early without a signal: a tail-loss probe.
    Probe,
    /// Sent again although it had been acknowledged.
    Spurious,
    /// Overtaken by a later segment.
    OutOfOrder,
    /// The same packet once more.
    Duplicate,
    /// The receiver's window closed.
    ZeroWindow,
    /// And opened again.
    WindowOpens,
    /// The sender filled the window and has to wait.
    WindowFull,
}

/// Something that delayed, or was said to delay, the data of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// When it was seen.
    pub at: WallTime,
    /// What.
    pub kind: EventKind,
    /// Payload bytes concerned.
    pub bytes: u32,
    /// How long the data, or the window, had been waiting.
    pub waited: Option<Span>,
}

/// One connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Connection {
    /// Who opened it, or sent the first segment seen.
    pub client: SocketAddr,
    /// The other end.
    pub server: SocketAddr,
    /// First and last segment.
    pub first: WallTime,
    /// See [`Self::first`].
    pub last: WallTime,
    /// From SYN to SYN-ACK, seen here: the round trip to the server.
    pub handshake_server_ns: Option<Span>,
    /// From SYN-ACK to the client's ACK: the round trip to the client.
    pub handshake_client_ns: Option<Span>,
    /// Data from the client.
    pub up: LaneFigures,
    /// Data from the server.
    pub down: LaneFigures,
}

/// Address, as IPv6 has it, and port.
type End = (u128, u16);

fn socket((address, port): End) -> SocketAddr {
    let a = Ipv6Addr::from_bits(address);
    SocketAddr::new(a.to_ipv4_mapped().map_or(IpAddr::V6(a), IpAddr::V4), port)
}

#[derive(Debug)]
struct State {
    client: End,
    server: End,
    first: WallTime,
    last: WallTime,
    syn: Option<WallTime>,
    syn_ack: Option<WallTime>,
    handshake: [Option<Span>; 2],
    lanes: [Lane; 2],
    /// Both sides have finished, or one has reset it.
    over: bool,
}

/// Follows the TCP connections of one capture point.
#[derive(Debug, Default)]
pub struct TcpAnalyzer {
    /// In the order of their first segment.
    connections: Vec<State>,
    /// Which connection is between two ends, the lesser first; the latest, if there were several.
    known: HashMap<(End, End), usize, RandomState>,
    segments: u64,
    not_followed: u64,
    events: Vec<Event>,
    remembers: bool,
}

/// An event of a connection's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// Who sent the segment.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

impl TcpAnalyzer {
    /// One that remembers the course of the data, for [`Self::course`]: 32 bytes a segment, at most 2²⁰ each way of
    /// a connection.
    pub fn remembering() -> TcpAnalyzer {
        TcpAnalyzer { remembers: true, ..TcpAnalyzer::default() }
    }

    /// The course of the data from the client (`up`) or from the server of a connection that was remembered
    /// from its beginning.
    pub fn course(&self, of: &Connection, up: bool) -> Option<Course> {
        let end = |a: SocketAddr| (bits(a.ip()), a.port());
        let (client, server) = (end(of.client), end(of.server));
        let is_it = |c: &&State| (c.client, c.server, c.first) == (client, server, of.first);
        let [from_client, from_server] = &self.connections.iter().find(is_it)?.lanes;
        if up { from_client.course(from_server) } else { from_server.course(from_client) }
    }

    /// Takes a packet; returns what it tells.
    #[inline]
    pub fn push(&mut self, at: WallTime, p: &Packet<'_>) -> impl Iterator<Item = Seen> + '_ {
        self.events.clear();
        let (mut from, mut to) = Default::default();
        if let Some(s) = Segment::of(p) {
            let (src, dst) = p.ends();
            (from, to) = ((src, s.ports.0), (dst, s.ports.1));
            self.segment(at, from, to, &s);
        }
        self.events.iter().map(move |e| Seen { from: socket(from), to: socket(to), event: *e })
    }

    fn segment(&mut self, at: WallTime, from: End, to: End, s: &Segment) {
        self.segments += 1;
        let key = if from <= to { (from, to) } else { (to, from) };
        let known = self.known.get(&key).copied();
        let n = match known.filter(|n| !self.connections[*n].is_succeeded(at, from, s)) {
            Some(n) => n,
            None if self.connections.len() >= CONNECTIONS => {
                self.not_followed += 1;
                return;
            }
            None => {
                self.known.insert(key, self.connections.len());
                let mut state = State::new(at, from, to, s);
                if self.remembers {
                    state.lanes = [Lane::remembering(), Lane::remembering()];
                }
                self.connections.push(state);
                self.connections.len() - 1
            }
        };
        let Some(c) = self.connections.get_mut(n) else { return };
        c.last = c.last.max(at);
        c.shake(at, from, s);
        let [up, down] = &mut c.lanes;
        let (own, peer) = if from == c.client { (up, down) } else { (down, up) };
        // The acknowledgement first: it may open the window that the data then fills.
        if peer.is_acknowledged(at, s, own.keeps_window(s)) {
            own.figures.duplicate_acks += 1;
        }
        let reset = s.has(RST) && own.may_reset(s.seq);
        own.sends(at, s, peer.window(), &mut self.events);
        if !c.over && (reset || own.is_finished() && peer.is_finished()) {
            c.over = true;
            c.lanes.iter_mut().for_each(Lane::close);
        }
    }

    /// How both directions of a packet's connection stand after it: data from the client, data from the server.
    pub fn standing(&self, at: WallTime, p: &Packet<'_>) -> Option<[Standing; 2]> {
        let ((src, dst), (a, b)) = (p.ends(), p.ports()?);
        let (from, to) = ((src, a), (dst, b));
        let n = self.known.get(&if from <= to { (from, to) } else { (to, from) })?;
        let [up, down] = &self.connections.get(*n)?.lanes;
        Some([up.standing(at, down.window()), down.standing(at, up.window())])
    }

    /// TCP segments seen.
    pub fn segments(&self) -> u64 {
        self.segments
    }

    /// Segments of connections beyond those that can be followed.
    pub fn not_followed(&self) -> u64 {
        self.not_followed
    }

    /// All connections, in the order of their first segment.
    pub fn finish(&self) -> Vec<Connection> {
        self.connections.iter().map(State::finish).collect()
    }
}

impl State {
    fn new(at: WallTime, from: End, to: End, s: &Segment) -> State {
        // A SYN-ACK comes from the server, whoever speaks first here.
        let (client, server) = if s.has(SYN) && s.has(ACK) { (to, from) } else { (from, to) };
        State {
            client,
            server,
            first: at,
            last: at,
            syn: None,
            syn_ack: None,
            handshake: [None; 2],
            lanes: Default::default(),
            over: false,
        }
    }

    /// Whether a segment opens another connection between the same ends.
    fn is_succeeded(&self, at: WallTime, from: End, s: &Segment) -> bool {
        let isn = self.lanes[usize::from(from != self.client)].isn();
        let silent = at - self.last >= SILENCE && isn != Some(s.seq);
        s.has(SYN) && (silent || self.over && s.ack.is_none())
    }

    fn shake(&mut self, at: WallTime, from: End, s: &Segment) {
        match (s.has(SYN), s.ack.is_some()) {
            // Karn: a SYN sent twice measures nothing.
            (true, false) => self.syn = if self.syn.is_none() { Some(at) } else { Some(WallTime(i64::MIN)) },
            (true, true) => {
                if let Some(syn) = self.syn.filter(|t| t.0 != i64::MIN) {
                    self.handshake[0].get_or_insert(at - syn);
                }
                self.syn_ack = if self.syn_ack.is_none() { Some(at) } else { Some(WallTime(i64::MIN)) };
            }
            (false, true) if from == self.client => {
                if let Some(t) = self.syn_ack.take().filter(|t| t.0 != i64::MIN) {
                    self.handshake[1].get_or_insert(at - t);
                }
            }
            _ => {}
        }
    }

    fn finish(&self) -> Connection {
        Connection {
            client: socket(self.client),
            server: socket(self.server),
            first: self.first,
            last: self.last,
            handshake_server_ns: self.handshake[0],
            handshake_client_ns: self.handshake[1],
            up: self.lanes[0].finish(),
            down: self.lanes[1].finish(),
        }
    }
}

impl Connection {
    /// Whether `a` is one of its ends.
    pub fn involves(&self, a: IpAddr) -> bool {
        self.client.ip() == a || self.server.ip() == a
    }
}

#[cfg(test)]
mod tests;

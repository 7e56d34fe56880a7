//! Analysis of TCP connections at one capture point: retransmissions and their reasons, reordering, losses before and
//! after the point, round trips, windows.

mod answer;
mod between;
mod connection;
mod delay_causes;
mod direction;
mod event;
mod figures;
mod flight;
mod gaps;
mod history;
mod notes;
mod part;
mod recent;
mod result;
mod round_trip_history;
mod round_trips;
mod rounds;
mod segment;
mod translation;
mod verdict;
mod window;

pub use answer::{TcpDirection, answer, below_resolution, directions};
pub use between::{BetweenPoints, Comparison, DirectionBetween, are_clients_at_monitor, put_together};
pub use connection::ObservedConnection;
pub use delay_causes::{
    CaptureSide, CauseShare, DelayCause, DelayCauses, DeliveryHistory, ObservedRecord, RecordFraming,
    SegmentTimes,
};
pub use event::{DirectedEvent, EventKind, TcpEvent};
pub use figures::{DirectionFigures, DirectionStatus};
pub use part::{ConnectionShare, ConnectionsPart, FoundConnection, FoundEvent, PointPair, PointRead};
pub use result::{PathRoundTrips, TcpPoint, TcpResult};
pub use round_trip_history::RoundTripChange;
pub use rounds::{SegmentRound, SegmentRounds};
pub use segment::TcpSegment;
pub use verdict::explain_delays;

use super::packet::IpPacket;
use crate::recording::{CopyKind, SeenPacket};
use connection::ConnectionState;
pub(crate) use connection::{TcpEndpoint, socket};
use core::net::SocketAddr;
use foldhash::fast::RandomState;
use jitlat_core::prefix::bits;
use jitlat_core::time::WallTime;
use recent::RecentConnections;
use segment::SYN;
use std::collections::HashMap;
use translation::{Openers, Opening};

/// Maximum number of connections followed; segments of further ones are only counted. The limit is lower in unit tests.
const MAX_CONNECTIONS: usize = if cfg!(test) { 1 << 10 } else { 1 << 17 };

/// Observes one connection segment by segment.
pub trait ConnectionObserver {
    /// Receives an event in the data sent by the client (`up`) or by the server.
    fn event(&mut self, up: bool, event: &TcpEvent);

    /// Receives the state, at the time `at`, of the data sent by the client (`up`) or by the server.
    fn status(&mut self, up: bool, at: WallTime, status: &DirectionStatus);
}

/// State of a pair of endpoints.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// Index of their latest connection.
    Connection(usize),
    /// The connection is that of other endpoints, on the other side of an address translation.
    Translated,
}

/// Analyses the TCP connections of one capture point.
#[derive(Debug, Default)]
pub struct TcpAnalyzer {
    /// Connections, in the order of their first segment.
    connections: Vec<ConnectionState>,
    /// Index of the latest connection between two endpoints. The key contains the smaller endpoint first.
    known: HashMap<(TcpEndpoint, TcpEndpoint), Known, RandomState>,
    /// Copies of the latest entries of `known`, which are found without a hash of the endpoints.
    recent: RecentConnections,
    openers: Openers,
    /// Number of connections recorded on both sides of an address translation, and number of segments that were left
    /// out there.
    translated: [u64; 2],
    segments: u64,
    not_followed: u64,
    events: Vec<TcpEvent>,
    /// Sender and receiver of the segment that caused `events`.
    ends: (TcpEndpoint, TcpEndpoint),
    keeps_history: bool,
}

impl TcpAnalyzer {
    /// Creates an analyser that records deliveries for [`Self::delivery_history`]: 32 bytes per segment, at
    /// most 2²⁰ segments in each direction of a connection.
    pub fn with_history() -> TcpAnalyzer {
        TcpAnalyzer { keeps_history: true, ..TcpAnalyzer::default() }
    }

    /// Returns the delivery history of the client's data (`up`) or the server's; `None` if the connection was
    /// not followed from its beginning.
    pub fn delivery_history(&self, of: &ObservedConnection, up: bool) -> Option<DeliveryHistory> {
        let end = |a: SocketAddr| (bits(a.ip()), a.port());
        let (client, server) = (end(of.client), end(of.server));
        let is_it = |c: &&ConnectionState| (c.client, c.server, c.first) == (client, server, of.first);
        self.connections.iter().find(is_it)?.delivery_history(up)
    }

    /// Handles a packet; returns its events.
    #[inline]
    pub fn push<'s>(
        &'s mut self,
        at: WallTime,
        p: &IpPacket<'_>,
    ) -> impl Iterator<Item = DirectedEvent> + use<'s> {
        self.take(&SeenPacket { at, packet: p, is_late: false, copy: None, is_whole_again: false })
    }

    /// Handles a packet of a recording; returns its events.
    // (not part of the caller, which reads packets of other protocols as well)
    #[inline(never)]
    pub fn take<'s>(
        &'s mut self,
        seen: &SeenPacket<'_>,
    ) -> impl ExactSizeIterator<Item = DirectedEvent> + use<'s> {
        self.events.clear();
        if let Some(mut s) = TcpSegment::of(seen.packet) {
            let (src, dst) = seen.packet.ends();
            let (from, to) = ((src, s.ports.0), (dst, s.ports.1));
            s.is_late = seen.is_late;
            match seen.copy {
                None => self.segment((seen.at, seen.packet.ttl()), from, to, &s),
                Some(kind) => self.copied(from, to, kind),
            }
            if !self.events.is_empty() {
                self.ends = (from, to);
            }
        }
        let ends = &self.ends;
        self.events.iter().map(|e| DirectedEvent { from: socket(ends.0), to: socket(ends.1), event: *e })
    }

    /// Counts a packet that was recorded again.
    #[cold]
    fn copied(&mut self, from: TcpEndpoint, to: TcpEndpoint, kind: CopyKind) {
        let key = if from <= to { (from, to) } else { (to, from) };
        if let Some(Known::Connection(n)) = self.known.get(&key)
            && let Some(c) = self.connections.get_mut(*n)
        {
            c.copied(from, kind);
        }
    }

    /// Records that the clock was set: nothing is measured from a segment before this moment to one after it.
    pub fn clock_set(&mut self) {
        self.connections.iter_mut().for_each(ConnectionState::clock_set);
    }

    #[inline(always)]
    fn segment(&mut self, (at, ttl): (WallTime, u8), from: TcpEndpoint, to: TcpEndpoint, s: &TcpSegment) {
        let known = self.recent.find(from, to).or_else(|| self.find(from, to));
        let n = match known {
            Some(Known::Connection(n))
                if !s.has(SYN) || !self.connections[n].is_succeeded_by(at, from, s) =>
            {
                n
            }
            Some(Known::Translated) => {
                self.translated[1] += 1;
                return;
            }
            _ => match self.begin(&Opening { at, ttl, from, to, segment: *s }) {
                Some(n) => n,
                None => return,
            },
        };
        self.segments += 1;
        if let Some(c) = self.connections.get_mut(n) {
            c.take(at, from, s, &mut self.events);
        }
    }

    /// Returns what is known about these ends, and remembers it.
    #[cold]
    fn find(&mut self, from: TcpEndpoint, to: TcpEndpoint) -> Option<Known> {
        let key = if from <= to { (from, to) } else { (to, from) };
        let known = self.known.get(&key).copied()?;
        self.recent.remember(from, to, known);
        Some(known)
    }

    /// Begins a connection and returns its index; `None` if it is not followed, or is known by other addresses.
    #[cold]
    fn begin(&mut self, opening: &Opening) -> Option<usize> {
        let Opening { at, from, to, segment, .. } = *opening;
        let key = if from <= to { (from, to) } else { (to, from) };
        self.recent.forget(from, to);
        if self.openers.is_translated(opening) {
            self.known.insert(key, Known::Translated);
            self.translated = [self.translated[0] + 1, self.translated[1] + 1];
            return None;
        }
        let n = self.connections.len();
        if n >= MAX_CONNECTIONS {
            self.segments += 1;
            self.not_followed += 1;
            return None;
        }
        self.known.insert(key, Known::Connection(n));
        self.connections.push(ConnectionState::new(at, from, to, &segment, self.keeps_history));
        Some(n)
    }

    /// Returns the state of a packet's connection after the packet: first of the data from the client, then of the data
    /// from the server. `None` if the packet has no known connection.
    pub fn status(&self, at: WallTime, p: &IpPacket<'_>) -> Option<[DirectionStatus; 2]> {
        let ((src, dst), (a, b)) = (p.ends(), p.ports()?);
        let (from, to) = ((src, a), (dst, b));
        match self.known.get(&if from <= to { (from, to) } else { (to, from) })? {
            Known::Connection(n) => Some(self.connections.get(*n)?.status(at)),
            Known::Translated => None,
        }
    }

    /// Number of connections that have begun so far.
    pub fn begun(&self) -> usize {
        self.connections.len()
    }

    /// Number of TCP segments seen.
    pub fn segments(&self) -> u64 {
        self.segments
    }

    /// Number of segments in connections that are not followed, because the limit of followed connections was reached.
    pub fn not_followed(&self) -> u64 {
        self.not_followed
    }

    /// Number of connections recorded on both sides of an address translation, which are followed on the side that was
    /// recorded first, and number of segments of the other side, which are left out.
    pub fn translated(&self) -> [u64; 2] {
        self.translated
    }

    /// All connections, in the order of their first segment.
    pub fn finish(&self) -> Vec<ObservedConnection> {
        self.connections.iter().map(ConnectionState::finish).collect()
    }
}

#[cfg(test)]
mod tests;

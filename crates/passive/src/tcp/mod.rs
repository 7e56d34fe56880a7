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
mod result;
mod round_trips;
mod rounds;
mod segment;
mod verdict;
mod window;

pub use answer::{TcpDirection, answer, below_resolution, directions};
pub use between::{BetweenPoints, DirectionBetween, put_together};
pub use connection::ObservedConnection;
pub use delay_causes::{
    CaptureSide, CauseShare, DelayCause, DelayCauses, DeliveryHistory, ObservedRecord, RecordFraming,
    SegmentTimes,
};
pub use event::{DirectedEvent, EventKind, TcpEvent};
pub use figures::{DirectionFigures, DirectionStatus};
pub use part::{ConnectionShare, ConnectionsPart, FoundConnection, FoundEvent, PointPair, PointRead};
pub use result::{PathRoundTrips, TcpPoint, TcpResult};
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
use std::collections::HashMap;

/// Maximum number of connections followed; segments of further ones are only counted. The limit is lower in unit tests.
const MAX_CONNECTIONS: usize = if cfg!(test) { 1 << 10 } else { 1 << 17 };

/// Observes one connection segment by segment.
pub trait ConnectionObserver {
    /// Receives an event in the data sent by the client (`up`) or by the server.
    fn event(&mut self, up: bool, event: &TcpEvent);

    /// Receives the state, at the time `at`, of the data sent by the client (`up`) or by the server.
    fn status(&mut self, up: bool, at: WallTime, status: &DirectionStatus);
}

/// Analyses the TCP connections of one capture point.
#[derive(Debug, Default)]
pub struct TcpAnalyzer {
    /// Connections, in the order of their first segment.
    connections: Vec<ConnectionState>,
    /// Index of the latest connection between two endpoints. The key contains the smaller endpoint first.
    known: HashMap<(TcpEndpoint, TcpEndpoint), usize, RandomState>,
    segments: u64,
    not_followed: u64,
    events: Vec<TcpEvent>,
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
        self.take(&SeenPacket { at, packet: *p, is_late: false, copy: None, is_whole_again: false })
    }

    /// Handles a packet of a recording; returns its events.
    #[inline]
    pub fn take<'s>(&'s mut self, seen: &SeenPacket<'_>) -> impl Iterator<Item = DirectedEvent> + use<'s> {
        self.events.clear();
        let (mut from, mut to) = Default::default();
        if let Some(mut s) = TcpSegment::of(&seen.packet) {
            let (src, dst) = seen.packet.ends();
            (from, to) = ((src, s.ports.0), (dst, s.ports.1));
            s.is_late = seen.is_late;
            match seen.copy {
                None => self.segment(seen.at, from, to, &s),
                Some(kind) => self.copied(from, to, kind),
            }
        }
        self.events.iter().map(move |e| DirectedEvent { from: socket(from), to: socket(to), event: *e })
    }

    /// Counts a packet that was recorded again.
    #[cold]
    fn copied(&mut self, from: TcpEndpoint, to: TcpEndpoint, kind: CopyKind) {
        let key = if from <= to { (from, to) } else { (to, from) };
        if let Some(c) = self.known.get(&key).and_then(|n| self.connections.get_mut(*n)) {
            c.copied(from, kind);
        }
    }

    /// Records that the clock was set: nothing is measured from a segment before this moment to one after it.
    pub fn clock_set(&mut self) {
        self.connections.iter_mut().for_each(ConnectionState::clock_set);
    }

    fn segment(&mut self, at: WallTime, from: TcpEndpoint, to: TcpEndpoint, s: &TcpSegment) {
        self.segments += 1;
        let key = if from <= to { (from, to) } else { (to, from) };
        let known = self.known.get(&key).copied();
        let n = match known.filter(|n| !self.connections[*n].is_succeeded_by(at, from, s)) {
            Some(n) => n,
            None if self.connections.len() >= MAX_CONNECTIONS => {
                self.not_followed += 1;
                return;
            }
            None => {
                self.known.insert(key, self.connections.len());
                self.connections.push(ConnectionState::new(at, from, to, s, self.keeps_history));
                self.connections.len() - 1
            }
        };
        if let Some(c) = self.connections.get_mut(n) {
            c.take(at, from, s, &mut self.events);
        }
    }

    /// Returns the state of a packet's connection after the packet: first of the data from the client, then of the data
    /// from the server. `None` if the packet has no known connection.
    pub fn status(&self, at: WallTime, p: &IpPacket<'_>) -> Option<[DirectionStatus; 2]> {
        let ((src, dst), (a, b)) = (p.ends(), p.ports()?);
        let (from, to) = ((src, a), (dst, b));
        let n = self.known.get(&if from <= to { (from, to) } else { (to, from) })?;
        Some(self.connections.get(*n)?.status(at))
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

    /// All connections, in the order of their first segment.
    pub fn finish(&self) -> Vec<ObservedConnection> {
        self.connections.iter().map(ConnectionState::finish).collect()
    }
}

#[cfg(test)]
mod tests;

//! Parts into which a capture is divided by connection, to be analysed separately and joined later: [`ConnectionShare`]
//! selects the connections of a part, [`ConnectionsPart`] contains its results.
//!
//! A connection belongs to one part by its addresses and ports. Its statistics do not depend on other
//! connections, so the results of all parts together equal those of the whole capture.

use super::{
    BetweenPoints, DirectedEvent, DirectionFigures, ObservedConnection, TcpEvent, TcpPoint, TcpResult, notes,
};
use crate::part::{PartError, seal, unseal};
use crate::{IpPacket, RecordingFacts, Sides};
use core::fmt;
use core::net::SocketAddr;
use core::str::FromStr;
use jitlat_core::units;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// First line of serialised results.
const FIRST_LINE: &[u8] = b"jitlat tcp part 1\n";
/// Beginning of the first line, in all versions.
const ANY_VERSION: &[u8] = b"jitlat tcp part ";
/// Maximum number of parts.
const MAX_PARTS: u32 = 4096;
/// Upper limit of all counts and times of a capture.
const MAX_COUNT: u64 = 1 << 62;

/// Selects the connections of one part of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionShare {
    /// 1-based number of the part.
    number: u32,
    /// Number of parts.
    of: u32,
}

impl ConnectionShare {
    /// All connections.
    pub const ALL: ConnectionShare = ConnectionShare { number: 1, of: 1 };

    /// True if a packet's connection belongs to this part. Both directions of a connection are in the same
    /// part.
    #[inline]
    pub fn has(&self, p: &IpPacket<'_>) -> bool {
        if self.of == 1 {
            return true;
        }
        let ((src, dst), (from, to)) = (p.ends(), p.ports().unwrap_or_default());
        let (a, b) = ((src, from), (dst, to));
        let (low, high) = if a <= b { (a, b) } else { (b, a) };
        let mut key = [0; 36];
        for (room, (address, port)) in key.chunks_exact_mut(18).zip([low, high]) {
            room[..16].copy_from_slice(&address.to_be_bytes());
            room[16..].copy_from_slice(&port.to_be_bytes());
        }
        twox_hash::XxHash3_64::oneshot(&key) % u64::from(self.of) == u64::from(self.number - 1)
    }

    fn is_possible(&self) -> bool {
        (1..=MAX_PARTS).contains(&self.of) && (1..=self.of).contains(&self.number)
    }
}

impl fmt::Display for ConnectionShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for ConnectionShare {
    type Err = String;

    fn from_str(text: &str) -> Result<ConnectionShare, String> {
        let parsed = text.split_once('/').and_then(|(number, of)| {
            Some(ConnectionShare { number: number.parse().ok()?, of: of.parse().ok()? })
        });
        parsed.filter(ConnectionShare::is_possible).ok_or_else(|| {
            format!(
                "'{text}' is not a part: write 1/4 for the first of four parts (at most {MAX_PARTS} parts)"
            )
        })
    }
}

/// Facts about the packets read at one point. They are the same for all parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointRead {
    /// Name of the point's captures.
    pub name: String,
    /// Number of IP packets.
    pub packets: u64,
    /// Number of frames that are not IP packets, or are unsupported.
    pub skipped: u64,
    /// Number of packets that the capture reported as dropped.
    pub drops: u64,
    /// Messages about errors in the files.
    pub notes: Vec<String>,
    /// Facts about the recording itself: its clock, copies, fragments and tunnels.
    #[serde(default)]
    pub recording: RecordingFacts,
    /// Checksum of the times and lengths of the point's packets, in order.
    pub checksum: u64,
}

impl PointRead {
    /// Adds a note that the capture `left_out` was not analysed, because it has the same connections as this one at the
    /// same times, but other packets.
    pub fn note_rewritten(&mut self, left_out: &str) {
        self.notes.push(format!(
            "both captures contain the same connections at the same times, but have no packets in common: a device between \
             two points rewrites sequence numbers or contents, and nothing can be compared. Only {} was analysed; analyse \
             {left_out} alone. If both are captures of one point, give --one-point",
            self.name
        ));
    }

    /// Replaces the step back between two captures that were read one after the other by a note that they overlap in
    /// time, although they have no packets in common.
    pub fn note_overlap(&mut self) {
        let Some(k) = self.recording.steps.iter().position(|step| step.by_ns.0 < 0 && !step.proven) else {
            return;
        };
        let step = self.recording.steps.remove(k);
        self.notes.push(format!(
            "the captures overlap by {}, but have no packets in common: they are read one after the other, as captures of one point. \
             If they are two points of a path, a device between them changes sequence numbers or contents, and nothing can be \
             compared",
            units::eng3(step.by_ns.0.saturating_abs() as f64)
        ));
    }
}

/// Facts about two points that do not concern single connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointPair {
    /// Addresses at the two ends, as seen by both points.
    pub sides: [Sides; 2],
    /// True if the direction is a guess from the clocks.
    pub direction_assumed: bool,
    /// True if the capture that was given second is that of the first point, because it is nearer to the clients.
    #[serde(default)]
    pub is_exchanged: bool,
    /// True if every segment has the same timestamp at both points, which suggests that the same capture was given
    /// twice.
    pub same_times: bool,
    /// For each point, number of segments longer than 1500 bytes, and length of the longest one in bytes. Such segments
    /// were captured before the adapter divided them.
    pub long: [(u64, u32); 2],
    /// Number of connections of which no segment was recognised at both points, although both hosts answered each other.
    #[serde(default)]
    pub unrecognised: u64,
}

impl PointPair {
    /// True if a connection's addresses differ between the points (NAT).
    pub fn is_translated(&self) -> bool {
        self.sides[0] != self.sides[1]
    }
}

/// A connection that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundConnection {
    /// Number that the connection's first packet has in the capture.
    pub begins: u64,
    /// Statistics of the connection.
    pub connection: ObservedConnection,
    /// Comparison of the connection at two points; `None` if it was not seen at both points.
    pub between: Option<BetweenPoints>,
}

/// An event, with the number of its packet in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundEvent {
    /// Number that the packet has in the capture.
    pub packet: u64,
    /// Sender of the segment.
    from: SocketAddr,
    /// Receiver of the segment.
    to: SocketAddr,
    /// The event.
    event: TcpEvent,
}

impl FoundEvent {
    /// Creates an event that was caused by the packet with the number `packet`.
    pub fn new(packet: u64, event: &DirectedEvent) -> FoundEvent {
        FoundEvent { packet, from: event.from, to: event.to, event: event.event }
    }

    /// Returns the event.
    pub fn directed(&self) -> DirectedEvent {
        DirectedEvent { from: self.from, to: self.to, event: self.event }
    }
}

/// Results for the connections that belong to a part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionsPart {
    /// Parts that were joined.
    shares: Vec<ConnectionShare>,
    /// Filter by hosts and ports, as text.
    pub filter: String,
    /// Facts about the packets read at each of the one or two points.
    pub points: Vec<PointRead>,
    /// Facts about two points; `None` for one point.
    pub pair: Option<PointPair>,
    /// Number of TCP segments at the first point.
    pub segments: u64,
    /// Number of segments of connections beyond the limit, at each point.
    pub not_followed: [u64; 2],
    /// Connections of the part.
    pub connections: Vec<FoundConnection>,
    /// Events of the first point, if they are stored.
    pub events: Vec<FoundEvent>,
}

impl ConnectionsPart {
    /// Creates results without connections.
    pub fn new(share: ConnectionShare, filter: String) -> ConnectionsPart {
        ConnectionsPart { shares: vec![share], filter, ..ConnectionsPart::default() }
    }

    /// Serialises the results for [`ConnectionsPart::load`].
    ///
    /// # Errors
    /// [`PartError::Impossible`].
    pub fn save(&self) -> Result<Vec<u8>, PartError> {
        let body = rmp_serde::to_vec_named(self).map_err(|e| PartError::Impossible(e.to_string()))?;
        Ok(seal(FIRST_LINE, &body))
    }

    /// Parses the output of [`ConnectionsPart::save`]. The bytes need not be trusted.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn load(bytes: &[u8]) -> Result<ConnectionsPart, PartError> {
        let body = unseal(FIRST_LINE, ANY_VERSION, bytes).map_err(|not| not.of("tcp"))?;
        let part: ConnectionsPart =
            jitlat_core::msgpack::from_slice(body).map_err(|e| PartError::Impossible(e.to_string()))?;
        if !part.is_possible() {
            return Err(PartError::Impossible("impossible values".to_owned()));
        }
        Ok(part)
    }

    fn is_possible(&self) -> bool {
        let points = self.points.len() == 1 + usize::from(self.pair.is_some());
        let counts = [self.segments, self.not_followed[0], self.not_followed[1]];
        let connection = |f: &FoundConnection| {
            let ObservedConnection { first, last, up, down, .. } = &f.connection;
            first.0 <= last.0
                && [first.0, last.0].iter().all(|at| at.unsigned_abs() < MAX_COUNT)
                && [up, down].iter().all(|d| is_possible(d))
        };
        points
            && matches!(self.shares[..], [share] if share.is_possible())
            && counts.iter().all(|n| *n < MAX_COUNT)
            && self.points.iter().all(|p| [p.packets, p.skipped, p.drops].iter().all(|n| *n < MAX_COUNT))
            && self.connections.iter().all(connection)
    }

    /// True if the part contains no TCP segment.
    pub fn is_empty(&self) -> bool {
        self.segments == 0
    }

    /// Joins the results of all parts, which may be given in any order.
    ///
    /// # Errors
    /// [`PartError`] unless `parts` contains every part of one capture exactly once.
    pub fn join(parts: Vec<ConnectionsPart>) -> Result<ConnectionsPart, PartError> {
        let mut parts = parts.into_iter();
        let mut whole = parts.next().ok_or(PartError::NoPart)?;
        for next in parts {
            whole.add(next)?;
        }
        whole.shares.sort_by_key(|share| share.number);
        let of = whole.shares.first().map_or(1, |share| share.of);
        for (share, number) in whole.shares.iter().zip(1..) {
            if share.number < number {
                return Err(PartError::Twice { number: share.number, of });
            }
            if share.number > number {
                return Err(PartError::Missing { number, of });
            }
        }
        let there = whole.shares.len() as u32;
        if there < of {
            return Err(PartError::Missing { number: there + 1, of });
        }
        whole.shares = vec![ConnectionShare::ALL];
        whole.events.sort_by_key(|event| event.packet);
        Ok(whole)
    }

    fn add(&mut self, next: ConnectionsPart) -> Result<(), PartError> {
        let rule = |s: &ConnectionsPart| {
            let sides = s.pair.as_ref().map(|pair| (pair.sides.clone(), pair.direction_assumed));
            (s.shares.first().map(|share| share.of), s.filter.clone(), s.points.clone(), sides)
        };
        if rule(self) != rule(&next) {
            return Err(PartError::OtherCaptures);
        }
        self.shares.extend(next.shares);
        self.segments += next.segments;
        self.not_followed.iter_mut().zip(next.not_followed).for_each(|(mine, theirs)| *mine += theirs);
        self.connections.extend(next.connections);
        self.events.extend(next.events);
        if let (Some(mine), Some(theirs)) = (&mut self.pair, next.pair) {
            mine.same_times &= theirs.same_times;
            mine.unrecognised = mine.unrecognised.saturating_add(theirs.unrecognised);
            for (mine, theirs) in mine.long.iter_mut().zip(theirs.long) {
                *mine = (mine.0.saturating_add(theirs.0), mine.1.max(theirs.1));
            }
        }
        Ok(())
    }

    /// Returns the result. Connections are sorted by bytes, largest first, then by the position of their first packet.
    pub fn result(mut self) -> TcpResult {
        self.connections.sort_by_key(|f| {
            (Reverse(f.connection.up.bytes.saturating_add(f.connection.down.bytes)), f.begins)
        });
        let is_exchanged = self.pair.as_ref().is_some_and(|pair| pair.is_exchanged);
        let mut result = TcpResult { notes: notes::describe(&self), is_exchanged, ..TcpResult::default() };
        for found in self.connections {
            result.first.connections.push(found.connection);
            if self.pair.is_some() {
                result.between.push(found.between);
            }
        }
        let read = self.points.into_iter().next().unwrap_or_default();
        result.first = TcpPoint {
            segments: self.segments,
            not_followed: self.not_followed[0],
            packets: read.packets,
            skipped: read.skipped,
            drops: read.drops,
            notes: read.notes,
            recording: read.recording,
            ..result.first
        };
        result
    }
}

/// True if sums and differences of the statistics in `d` cannot overflow.
fn is_possible(d: &DirectionFigures) -> bool {
    let counts = [
        d.segments,
        d.data_segments,
        d.bytes,
        d.unique_bytes,
        d.retransmissions,
        d.fast,
        d.timeouts,
        d.spurious,
        d.out_of_order,
        d.duplicates,
        d.copies,
        d.lost_before,
        d.lost_after,
        d.unfilled_gaps,
        d.keep_alives,
        d.duplicate_acks,
        d.zero_windows,
        d.window_full,
        d.max_in_flight,
    ];
    let changes = d.rtt_changes.iter().flat_map(|c| [c.at_ns.0, c.before_ns.0, c.after_ns.0]);
    let waits = d.rtt_above_changes_ns.iter().map(|wait| wait.0);
    counts.iter().all(|n| *n < 1 << 56) && changes.chain(waits).all(|ns| ns.unsigned_abs() < MAX_COUNT)
}

#[cfg(test)]
mod tests;

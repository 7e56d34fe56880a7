//! [`TcpResult`]: TCP connections at one or two capture points.

use super::{BetweenPoints, ObservedConnection};
use crate::RecordingFacts;

/// The connections at one point.
#[derive(Clone, Debug, Default)]
pub struct TcpPoint {
    /// Connections, sorted by bytes, largest first.
    pub connections: Vec<ObservedConnection>,
    /// Number of TCP segments seen.
    pub segments: u64,
    /// Number of segments of connections beyond the limit.
    pub not_followed: u64,
    /// Number of IP packets read.
    pub packets: u64,
    /// Number of frames that are not IP packets, or are unsupported.
    pub skipped: u64,
    /// Number of packets that the capture reported as dropped.
    pub drops: u64,
    /// Messages about errors in the files.
    pub notes: Vec<String>,
    /// Facts about the recording itself: its clock, copies, fragments and tunnels.
    pub recording: RecordingFacts,
}

impl TcpPoint {
    /// Number of packets recorded again. These copies are left out.
    pub fn copies(&self) -> u64 {
        self.connections
            .iter()
            .map(|c| c.up.copies.saturating_add(c.down.copies))
            .fold(0, u64::saturating_add)
    }

    /// Returns the round trips of the whole path, from the usual round trips of each connection on both sides of the
    /// point; `None` if no connection has both.
    pub fn path(&self) -> Option<PathRoundTrips> {
        let both = |c: &ObservedConnection| Some((c.server_rtt()?, c.client_rtt()?));
        let mut whole: Vec<(i64, i64, i64)> =
            self.connections.iter().filter_map(both).map(|(s, c)| (s.saturating_add(c), s, c)).collect();
        whole.sort_unstable();
        let (least, most) = (*whole.first()?, *whole.last()?);
        let (median, server, client) = whole[(whole.len() - 1) / 2];
        Some(PathRoundTrips {
            connections: whole.len(),
            least: least.0,
            most: most.0,
            median,
            server,
            client,
        })
    }
}

/// Round trips of the whole path between clients and servers, over all connections, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRoundTrips {
    /// Number of connections whose round trips on both sides of the point are known.
    pub connections: usize,
    /// Smallest round trip of a connection.
    pub least: i64,
    /// Largest round trip of a connection.
    pub most: i64,
    /// Median round trip of the connections.
    pub median: i64,
    /// Part of the median round trip between the capture point and the server.
    pub server: i64,
    /// Part of the median round trip between the capture point and the client.
    pub client: i64,
}

/// TCP connections at one or two points.
#[derive(Clone, Debug, Default)]
pub struct TcpResult {
    /// Connections at the (first) point.
    pub first: TcpPoint,
    /// Comparison of the two points for each connection of `first`, in the same order; empty for one point.
    pub between: Vec<Option<BetweenPoints>>,
    /// True if `first` is the point whose capture was given second, because it is nearer to the clients.
    pub is_exchanged: bool,
    /// Notes about the reliability of the captures.
    pub notes: Vec<String>,
}

impl TcpResult {
    /// Returns the connections, each with its comparison between two points, if there is one.
    pub fn connections(&self) -> impl Iterator<Item = (&ObservedConnection, Option<&BetweenPoints>)> {
        let between = |(i, c)| (c, self.between.get(i).and_then(Option::as_ref));
        self.first.connections.iter().enumerate().map(between)
    }
}

//! [`TcpResult`]: TCP connections at one or two capture points.

use super::{BetweenPoints, ObservedConnection};

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
}

/// TCP connections at one or two points.
#[derive(Clone, Debug, Default)]
pub struct TcpResult {
    /// Connections at the (first) point.
    pub first: TcpPoint,
    /// Comparison of the two points for each connection of `first`, in the same order; empty for one point.
    pub between: Vec<Option<BetweenPoints>>,
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

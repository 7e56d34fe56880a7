//! [`TcpResult`]: TCP connections at one or two capture points.

use super::{BetweenPoints, ObservedConnection};

/// The connections at one point.
#[derive(Clone, Debug, Default)]
pub struct TcpPoint {
    /// Its connections, those with most bytes first.
    pub connections: Vec<ObservedConnection>,
    /// TCP segments seen.
    pub segments: u64,
    /// Segments of connections beyond the limit.
    pub not_followed: u64,
    /// IP packets read.
    pub packets: u64,
    /// Frames that are not IP packets, or are unsupported.
    pub skipped: u64,
    /// Packets that the capture reports as dropped.
    pub drops: u64,
    /// Messages about errors in the files.
    pub notes: Vec<String>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct TcpResult {
    /// The connections at the (first) point.
    pub first: TcpPoint,
    /// What two points show of each of its connections, in order; empty for one point.
    pub between: Vec<Option<BetweenPoints>>,
    /// Notes about the reliability of the captures.
    pub notes: Vec<String>,
}

impl TcpResult {
    /// The connections, each with what two points show of it.
    pub fn connections(&self) -> impl Iterator<Item = (&ObservedConnection, Option<&BetweenPoints>)> {
        let between = |(i, c)| (c, self.between.get(i).and_then(Option::as_ref));
        self.first.connections.iter().enumerate().map(between)
    }
}

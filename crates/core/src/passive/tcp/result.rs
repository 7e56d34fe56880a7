//! [`TcpResult`]: everything that one or two capture points show of TCP connections.

use super::{BetweenPoints, Connection};

/// What one point saw.
#[derive(Clone, Debug, Default)]
pub struct TcpPoint {
    /// Its connections, those with most bytes first.
    pub connections: Vec<Connection>,
    /// TCP segments seen.
    pub segments: u64,
    /// Segments of connections beyond those that can be followed.
    pub not_followed: u64,
    /// IP packets read.
    pub packets: u64,
    /// Frames that are no IP packets, or not understood.
    pub skipped: u64,
    /// Packets the capture says it lost.
    pub drops: u64,
    /// What was wrong with the files, in words.
    pub notes: Vec<String>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct TcpResult {
    /// What the (first) point saw.
    pub first: TcpPoint,
    /// What two points say of each of its connections, in their order; empty of one point.
    pub between: Vec<Option<BetweenPoints>>,
    /// What should be known of the captures before the figures are believed, in words.
    pub notes: Vec<String>,
}

impl TcpResult {
    /// The connections, each with what two points say of it.
    pub fn connections(&self) -> impl Iterator<Item = (&Connection, Option<&BetweenPoints>)> {
        let between = |(i, c)| (c, self.between.get(i).and_then(Option::as_ref));
        self.first.connections.iter().enumerate().map(between)
    }
}

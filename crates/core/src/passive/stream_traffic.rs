//! [`StreamTraffic`]: a test's own stream as it was captured where it leaves and reaches this host.

use super::tcp::{DelayCauses, TcpResult};
use crate::spec::Direction;
use serde::Serialize;

/// Packets of one direction of a stream on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WireCounts {
    /// Packets.
    pub packets: u64,
    /// Bytes of them, IP headers included.
    pub ip_bytes: u64,
    /// Of the packets, fragments: they do not fit the path.
    pub fragments: u64,
    /// Length of the longest IP packet, in bytes.
    pub longest: u32,
}

/// What was captured of a stream, and what it explains of the test.
#[derive(Clone, Debug, Default)]
pub struct StreamTraffic {
    /// Where it was captured.
    pub interface: String,
    /// From this host.
    pub sent: WireCounts,
    /// To this host.
    pub received: WireCounts,
    /// Its TCP connections, if it has any.
    pub tcp: TcpResult,
    /// What delayed the packets of each direction of the test, as far as it is known.
    pub delays: Vec<(Direction, DelayCauses)>,
    /// What should be known of the capture before the figures are believed, in words.
    pub notes: Vec<String>,
}

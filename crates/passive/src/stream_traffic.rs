//! [`StreamTraffic`]: capture of a test's own stream on this host.

use super::tcp::{DelayCauses, TcpResult};
use jitlat_core::spec::Direction;
use serde::Serialize;

/// Counts of a stream's packets on the wire, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WireCounts {
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes in the packets, including IP headers.
    pub ip_bytes: u64,
    /// Number of packets that are IP fragments, because the original exceeded the MTU.
    pub fragments: u64,
    /// Length of the longest IP packet, in bytes.
    pub longest: u32,
}

/// Results of capturing a test's own stream.
#[derive(Clone, Debug, Default)]
pub struct StreamTraffic {
    /// Name of the interface.
    pub interface: String,
    /// Packets sent by this host.
    pub sent: WireCounts,
    /// Packets received by this host.
    pub received: WireCounts,
    /// TCP connections of the test, if it has any.
    pub tcp: TcpResult,
    /// Causes of delay, for the directions of the test in which they are known.
    pub delays: Vec<(Direction, DelayCauses)>,
    /// Notes about the reliability of the capture.
    pub notes: Vec<String>,
}

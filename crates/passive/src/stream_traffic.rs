//! [`StreamTraffic`]: capture of a test's own stream at this host.

use super::tcp::{DelayCauses, TcpResult};
use jitlat_core::spec::Direction;
use serde::Serialize;

/// Packets in one direction of a stream on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WireCounts {
    /// Number of packets.
    pub packets: u64,
    /// Bytes of these packets, including IP headers.
    pub ip_bytes: u64,
    /// Number of fragments among the packets, which did not fit the path MTU.
    pub fragments: u64,
    /// Length of the longest IP packet, in bytes.
    pub longest: u32,
}

/// Capture of a stream, and what it explains about the test.
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
    /// Causes of delay in each direction of the test, as far as they are known.
    pub delays: Vec<(Direction, DelayCauses)>,
    /// Notes about the reliability of the capture.
    pub notes: Vec<String>,
}

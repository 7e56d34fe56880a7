//! [`StreamTraffic`]: a test's own stream, captured where it leaves and reaches this host.

use super::tcp::{DelayCauses, TcpResult};
use jitlat_core::spec::Direction;
use serde::Serialize;

/// Packets of one direction of a stream on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WireCounts {
    /// Packets.
    pub packets: u64,
    /// Bytes of them, IP headers included.
    pub ip_bytes: u64,
    /// Fragments among the packets, which did not fit the path MTU.
    pub fragments: u64,
    /// Length of the longest IP packet, in bytes.
    pub longest: u32,
}

/// The capture of a stream, and what it explains of the test.
#[derive(Clone, Debug, Default)]
pub struct StreamTraffic {
    /// The interface.
    pub interface: String,
    /// From this host.
    pub sent: WireCounts,
    /// To this host.
    pub received: WireCounts,
    /// Its TCP connections, if it has any.
    pub tcp: TcpResult,
    /// What delayed the packets of each direction of the test, as far as is known.
    pub delays: Vec<(Direction, DelayCauses)>,
    /// Notes about the reliability of the capture.
    pub notes: Vec<String>,
}

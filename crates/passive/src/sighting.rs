//! [`Sighting`]: a packet seen at one point.

use super::identity::Identity;
use jitlat_core::spec::Direction;
use jitlat_core::time::WallTime;

/// Maximum time, in ns, between two sightings of one identity at one point that count as one packet captured twice.
pub(super) const MAX_COPY_GAP_NS: i64 = 1_000_000;

/// A packet seen at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Time of the sighting, on that point's clock.
    pub at: WallTime,
    /// Identity of the packet.
    pub id: Identity,
    /// Length of the IP packet, in bytes.
    pub length: u32,
    /// Direction of the packet.
    pub direction: Direction,
    /// Number of the packet's flow, assigned by the caller.
    pub flow: u32,
}

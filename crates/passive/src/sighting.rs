//! [`Sighting`]: a packet seen at one point.

use super::identity::Identity;
use jitlat_core::spec::Direction;
use jitlat_core::time::WallTime;

/// Two sightings of a name at one point within this time, in ns, are one packet captured twice.
pub(super) const MAX_COPY_GAP_NS: i64 = 1_000_000;

/// A packet seen at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Time of the sighting, on that point's clock.
    pub at: WallTime,
    /// Name of the packet.
    pub id: Identity,
    /// Length of the IP packet, in bytes.
    pub length: u32,
    /// Direction of the packet.
    pub direction: Direction,
    /// Number of the packet's flow, assigned by the caller.
    pub flow: u32,
}

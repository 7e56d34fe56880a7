//! [`Sighting`]: one packet seen at one point.

use super::identity::Identity;
use jitlat_core::spec::Direction;
use jitlat_core::time::WallTime;

/// The same name at the same point this soon, in ns, is one packet captured twice.
pub(super) const MAX_COPY_GAP_NS: i64 = 1_000_000;

/// One packet seen at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// When, on that point's clock.
    pub at: WallTime,
    /// Its name.
    pub id: Identity,
    /// Length of the IP packet, in bytes.
    pub length: u32,
    /// Which way it goes.
    pub direction: Direction,
    /// The flow it belongs to, as the caller numbers flows.
    pub flow: u32,
}

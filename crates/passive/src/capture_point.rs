//! [`CapturePoint`]: one of the two points at which packets are captured.

use jitlat_core::spec::Direction;
use serde::Serialize;

/// Point at which a packet was captured. Packets go [up](Direction::Up) from the reference to the monitor
/// point, and [down](Direction::Down) from the monitor to the reference point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CapturePoint {
    /// Start of the round trip (CAIA `-f`).
    Reference = 0,
    /// Far end (CAIA `-F`).
    Monitor = 1,
}

impl CapturePoint {
    /// True if packets in `direction` pass this point first.
    pub fn is_source(self, direction: Direction) -> bool {
        self as u8 == direction as u8
    }
}

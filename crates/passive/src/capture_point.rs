//! [`CapturePoint`]: where packets were captured.

use jitlat_core::spec::Direction;
use serde::Serialize;

/// Where a packet was captured. Packets go [up](Direction::Up) from the reference to the monitor point, and
/// [down](Direction::Down) from the monitor to the reference point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CapturePoint {
    /// Where the round trip starts (CAIA `-f`).
    Reference = 0,
    /// The far end (CAIA `-F`).
    Monitor = 1,
}

impl CapturePoint {
    /// Whether packets in `direction` pass this point first.
    pub fn is_source(self, direction: Direction) -> bool {
        self as u8 == direction as u8
    }
}

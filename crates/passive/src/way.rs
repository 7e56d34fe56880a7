//! [`Way`] and [`CapturePoint`]: where packets go, and where they were captured.

use serde::Serialize;

/// Direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// From the reference to the monitor point.
    Out = 0,
    /// From the monitor to the reference point.
    In = 1,
}

impl Way {
    /// Both, in the order of their codes.
    pub const BOTH: [Way; 2] = [Way::Out, Way::In];
}

/// Where a packet was captured.
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
    /// Whether packets that go `way` pass this point first.
    pub fn is_source(self, way: Way) -> bool {
        self as u8 == way as u8
    }
}

//! [`SizeFigures`]: round trips by the sizes of their packets.

use serde::Serialize;

/// Round trips of the pairs of one size each way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SizeFigures {
    /// Length of the OUT packet, in bytes.
    pub out_length: u32,
    /// Length of the IN packet, in bytes.
    pub in_length: u32,
    /// Pairs.
    pub pairs: u64,
    /// The least round trip, in ns.
    pub min_rtt_ns: i64,
    /// The mean round trip, in ns.
    pub mean_rtt_ns: f64,
}

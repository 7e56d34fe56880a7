//! [`SizeFigures`]: round trips by the sizes of their packets.

use super::spread::SpanSpread;
use serde::Serialize;

/// Round trips of the pairs with one combination of packet sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeFigures {
    /// Length of the OUT packet, in bytes.
    pub out_length: u32,
    /// Length of the IN packet, in bytes.
    pub in_length: u32,
    /// Number of pairs.
    pub pairs: u64,
    /// Smallest round trip, in ns.
    pub min_rtt_ns: i64,
    /// Median round trip, in ns.
    pub median_rtt_ns: i64,
    /// Mean round trip, in ns.
    pub mean_rtt_ns: f64,
    /// Percentiles of the round trip from 0 to 100 %, every 0.5 %, in ns.
    #[serde(skip)]
    pub percentiles: Vec<i64>,
}

impl SizeFigures {
    /// Returns the figures of pairs with these lengths, OUT first; `None` without pairs.
    pub(super) fn of((out_length, in_length): (u32, u32), rtt: &SpanSpread) -> Option<SizeFigures> {
        let figures = rtt.figures(0)?;
        Some(SizeFigures {
            out_length,
            in_length,
            pairs: figures.count,
            min_rtt_ns: figures.min,
            median_rtt_ns: figures.median,
            mean_rtt_ns: figures.mean,
            percentiles: rtt.percentiles(200),
        })
    }
}

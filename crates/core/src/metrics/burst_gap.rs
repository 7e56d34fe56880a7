//! Bursts and gaps (metrics §11; RFC 3611 §4.7.2).

use serde::Serialize;

/// Segmentation of the loss sequence: losses with fewer than Gmin received packets between them form a
/// burst, the rest are gaps.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BurstGap {
    /// [first sequence number, length, losses]; at most the first 10 000.
    pub bursts: Vec<[u64; 3]>,
    /// [first sequence number, length]; at most the first 10 000.
    pub gaps: Vec<[u64; 2]>,
    /// All of them.
    pub burst_count: u64,
    /// All of them.
    pub gap_count: u64,
    /// Losses in bursts over packets in bursts; 0 without bursts.
    pub burst_density: f64,
    /// Losses in gaps over packets in gaps.
    pub gap_density: f64,
    /// Mean length × period, in ms.
    pub mean_burst_duration_ms: f64,
    /// Mean length × period, in ms.
    pub mean_gap_duration_ms: f64,
    /// Losses in gaps.
    pub isolated_losses: u64,
}

//! Duplication (metrics §12; RFC 5560).

use serde::Serialize;
use std::collections::BTreeMap;

/// Duplication figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Duplicates {
    /// Arrivals over distinct packets, − 1.
    pub duplication_fraction: Option<f64>,
    /// Packets that came more than once over distinct packets.
    pub replicated_rate: Option<f64>,
    /// Length of a run of consecutive sequence numbers each duplicated → how many runs.
    pub run_length_hist: BTreeMap<u64, u64>,
    /// Copies of a packet → how many packets.
    pub arrival_count_hist: BTreeMap<u64, u64>,
    /// From the first copy to each later one, in ns.
    pub time_to_duplicate: Option<TimeToDuplicate>,
}

/// Times from a packet's first arrival to its further copies, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimeToDuplicate {
    /// Smallest.
    pub min: i64,
    /// Middle.
    pub median: f64,
    /// Largest.
    pub max: i64,
}

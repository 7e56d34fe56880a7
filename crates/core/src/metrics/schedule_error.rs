//! The sender's own error against its schedule (metrics §22).

use serde::Serialize;

/// Send time − due time − anchor, in ns; the anchor is the 1st percentile of send − due.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScheduleError {
    /// The instant the schedule is taken to have begun, ns since 1970.
    pub anchor_ns: i64,
    /// Earliest.
    pub min: i64,
    /// Middle.
    pub median: f64,
    /// 99th percentile.
    pub p99: i64,
    /// Latest.
    pub max: i64,
    /// Packets more than half a period late.
    pub over_half_period: u64,
}

/// Delay statistics with and without the packets the hosts themselves disturbed. Nothing is deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stalls {
    /// Packets sent late: error above max(P/2, p99 of the error).
    pub sender_late: u64,
    /// Groups of packets released together whose delays fall by a period each.
    pub receiver_suspects: u64,
    /// Packets in those groups.
    pub receiver_suspect_packets: u64,
    /// Packets that waited in the receiving host (stamp to user reading) more than half a period.
    pub receiver_waits: u64,
    /// Statistics without any flagged packet, in ns.
    pub without: Option<WithoutStalls>,
}

/// What remains without the flagged packets, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WithoutStalls {
    /// Packets left.
    pub n: u64,
    /// Mean delay.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: Option<f64>,
    /// PDV, 99th percentile.
    pub pdv_p99: i64,
    /// PDV, 99.9th percentile.
    pub pdv_p999: i64,
    /// Largest PDV.
    pub pdv_max: i64,
}

/// Delay counted from when the packet was due instead of when it was sent: free of coordinated omission.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IntendedLatency {
    /// Smallest, in ns.
    pub min: i64,
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: i64,
    /// 99th percentile of its variation.
    pub pdv_p99: i64,
    /// 99.9th percentile of its variation.
    pub pdv_p999: i64,
}

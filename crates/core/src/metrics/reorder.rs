//! Reordering (metrics §13; RFC 4737, RFC 5236).

use serde::Serialize;
use std::collections::BTreeMap;

/// Reordering figures over accepted packets in arrival order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reordering {
    /// False on TCP, which hides reordering (and loss) from its user: then the zeros mean nothing.
    pub observable: bool,
    /// Packets overtaken (RFC 4737 §3).
    pub reordered: u64,
    /// Over accepted packets.
    pub ratio: Option<f64>,
    /// Arrivals between a reordered packet and the earliest it was overtaken by → packets (§4.2).
    pub extent_hist: BTreeMap<u64, u64>,
    /// n → packets whose n preceding arrivals were all later ones (§5). Every n up to 1000, then only
    /// those at which the count falls.
    pub n_reordered: BTreeMap<u64, u64>,
    /// Largest late time (§4.3), in ns.
    pub max_late_time_ns: Option<i64>,
    /// Largest byte offset (§4.4).
    pub max_byte_offset: Option<u64>,
    /// Completed reordering-free runs (§4.6).
    pub free_runs: u64,
    /// Packets in order.
    pub in_order: u64,
    /// Sum of the squares of run lengths.
    pub sum_sq_runs: u64,
    /// Arrivals between successive discontinuities (§4.5); at most the first 10 000.
    pub gaps: Vec<u64>,
    /// Reorder density (RFC 5236), complete: displacement → packets; positive is late.
    pub rd_fd: BTreeMap<i64, u64>,
    /// By the RFC's bounded algorithm with threshold 128.
    pub rd_fd_dt128: BTreeMap<i64, u64>,
    /// Reorder-buffer occupancy → arrivals, threshold 128. A loss fills the buffer.
    pub rbd_fb_bt128: BTreeMap<u64, u64>,
    /// The same with lost packets skipped: use it to size a buffer.
    pub rbd_fb_loss_aware: BTreeMap<u64, u64>,
    /// What is derived from the densities.
    pub density: Option<Density>,
}

/// Derived figures of the reorder density (RFC 5236 §4).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Density {
    /// Packets with positive displacement, percent.
    pub percent_late: f64,
    /// Packets with negative displacement, percent.
    pub percent_early: f64,
    /// Mean of |displacement|.
    pub mean_displacement: f64,
    /// Mean of the positive displacements.
    pub mean_late_displacement: Option<f64>,
    /// −Σ RD ln RD.
    pub entropy: f64,
    /// Mean of the loss-aware occupancy.
    pub mean_occupancy: f64,
    /// Share of packets three or more late: what a TCP sender would take for loss.
    pub three_or_more_late: f64,
}

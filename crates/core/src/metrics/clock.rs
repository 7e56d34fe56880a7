//! Clock offset from control-channel probes (metrics §15).

use crate::clock::SyncState;
use serde::Serialize;

/// Everything known of the two clocks. θ = server − client.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClockEstimate {
    /// θ used for correction, in ns: of the minimum-RTT probe, or as a version 2 log prints it.
    pub offset_ns: Option<i64>,
    /// Largest possible error of it, in ns, if no one-way delay is negative.
    pub bound_ns: Option<f64>,
    /// θ lies in here: the intersection of all probes.
    pub interval_ns: Option<[i64; 2]>,
    /// The intersection is empty: a clock was stepped, or runs at another rate.
    pub inconsistent: bool,
    /// Median of the probes' θ: the classic estimator.
    pub offset_median_ns: Option<f64>,
    /// Minimum RTT of the control channel, in ns.
    pub min_rtt_ns: Option<i64>,
    /// θ of the best probe before the stream, and after it.
    pub offset_before_ns: Option<f64>,
    /// See above.
    pub offset_after_ns: Option<f64>,
    /// Minimum RTT before the stream, and after it.
    pub min_rtt_before_ns: Option<i64>,
    /// See above.
    pub min_rtt_after_ns: Option<i64>,
    /// Probes made.
    pub probes: usize,
    /// What is subtracted from each raw delay: +θ up, −θ down.
    pub correction_ns: Option<i64>,
    /// Whether the direction, and so the sign, is known.
    pub direction_known: bool,
    /// The client's clock.
    pub client: HostClock,
    /// The server's clock.
    pub server: HostClock,
}

/// One host's own account of its clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostClock {
    /// E.g. `tsc`.
    pub source: Option<String>,
    /// Before the stream.
    pub before: Option<SyncState>,
    /// After it.
    pub after: Option<SyncState>,
    /// Realtime against monotonic over the run, in ns.
    pub step_ns: Option<i64>,
}

/// Delay statistics after correction, in ns. PDV and the rest do not depend on the offset.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Corrected {
    /// Smallest.
    pub min: Option<i64>,
    /// Mean.
    pub mean: Option<f64>,
    /// Largest.
    pub max: Option<i64>,
    /// Middle.
    pub median: Option<f64>,
    /// θ used, server − client.
    pub offset_ns: i64,
    /// Largest possible error.
    pub bound_ns: Option<f64>,
}

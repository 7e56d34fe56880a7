//! Inter-arrival jitter of RTP (metrics §7; RFC 3550 §6.4.1, A.8).

use serde::Serialize;

/// The running estimate J with gain 1/16, over consecutive arrivals, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rfc3550 {
    /// J after the last packet: it describes about the last 16 packets only.
    #[serde(rename = "final")]
    pub last: f64,
    /// Mean of J over packets 2…n.
    pub mean: f64,
    /// Largest J.
    pub max: f64,
    /// The integer variant of RFC 3550 A.8.
    #[serde(rename = "final_int")]
    pub last_int: i64,
}

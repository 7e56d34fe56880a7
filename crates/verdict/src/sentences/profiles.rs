//! How well a path suits a profile, in words.

use super::numbers::{percent, time};

/// Nothing limits the use: its delay including the buffer where that is known, its buffer otherwise.
pub fn suits(delay_ns: Option<f64>, buffer_ns: i64, missing: f64) -> String {
    match delay_ns {
        Some(delay) => format!("{} one way with the buffer, {} missing", time(delay), percent(missing)),
        None => format!("buffer of {}, {} missing", time(buffer_ns as f64), percent(missing)),
    }
}

/// Too many packets are lost or late.
pub fn missing(share: f64) -> String {
    format!("{} missing", percent(share))
}

/// The delay is too long.
pub fn delay(ns: f64) -> String {
    format!("{} one way with the buffer", time(ns))
}

/// The buffer alone is too long; the path's delay is unknown.
pub fn buffer(ns: i64) -> String {
    format!("buffer of {} alone", time(ns as f64))
}

/// Reason of an interruption: outages of the path.
pub const OUTAGES: &str = "outages";
/// Reason of an interruption: packets that the sending host did not send.
pub const NOT_SENT: &str = "the sending host did not send all packets";

/// Traffic: payload in bytes, time between packets in ms.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Payload, in bytes.
    pub payload: u16,
    /// Time between packets, in ms.
    pub period_ms: f64,
}

/// The test sent other traffic than the profile does.
pub fn other_traffic(measured: Traffic, profile: Traffic) -> String {
    let text = |of: Traffic| format!("{} bytes every {}", of.payload, time(1e6 * of.period_ms));
    format!("measured with {}; this profile sends {}", text(measured), text(profile))
}

/// The path's delay is not known.
pub const DELAY_UNKNOWN: &str = "the path's delay is unknown and not counted";

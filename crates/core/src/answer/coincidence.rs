//! [`Coincidence`]: loss or delay that changes together with a quantity of the interface.

use crate::interface::InterfaceQuantity;
use serde::{Deserialize, Serialize};

/// Effect on packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PacketEffect {
    /// Share of packets lost.
    Loss,
    /// Delay above the smallest delay, in ns.
    Delay,
}

/// Evidence that a quantity of the interface changes together with loss or delay. It suggests a reason, and does not prove
/// it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Coincidence {
    /// The effect.
    pub effect: PacketEffect,
    /// The quantity.
    pub quantity: InterfaceQuantity,
    /// Name of the interface: `wlan0`.
    pub interface: String,
    /// Length of the intervals that were compared, in seconds.
    pub interval_s: f64,
    /// Number of intervals.
    pub intervals: u64,
    /// Mean of the effect in the quarter of the intervals with the worst values of the quantity: a share of packets, or ns.
    pub worst_quarter: f64,
    /// Mean of the effect in the other intervals.
    pub others: f64,
}

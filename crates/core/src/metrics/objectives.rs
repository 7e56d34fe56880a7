//! Service objectives (metrics §19).

use serde::Serialize;

/// Y.1541 classes (as quoted by RFC 5976 §2).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Y1541 {
    /// The most demanding class whose bounds hold; 5 = unspecified, always met.
    pub class: u8,
    /// Mean delay used, in ns.
    pub mean_delay_ns: Option<f64>,
    /// p99.9 − min, in ns.
    pub delay_variation_ns: Option<i64>,
    /// Loss ratio.
    pub loss_ratio: Option<f64>,
    /// Enough packets to show the class's loss bound.
    pub sample_sufficient: bool,
    /// The delay is of corrected or synchronised clocks.
    pub delay_trusted: bool,
}

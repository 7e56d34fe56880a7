//! Relative clock skew from the lower hull (metrics §16).

use serde::Serialize;

/// The line below all points (send time, delay) that is closest to them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SkewHull {
    /// Slope, seconds a second.
    pub alpha: f64,
    /// The same in parts per million.
    pub alpha_ppm: f64,
    /// Its value at the first send time, in ns.
    pub beta_ns: f64,
    /// The edge of the hull it runs along: [[t, delay]; 2], t in ns from the earliest send time.
    pub edge: [[i64; 2]; 2],
    /// Largest distance above the line, in ns.
    pub residual_max_ns: f64,
    /// Mean distance above the line, in ns.
    pub residual_mean_ns: f64,
    /// Slopes of the first and the second half of the run.
    pub alpha_halves: Option<[f64; 2]>,
    /// The edge spans more than a quarter of the run and nothing speaks for a queue instead.
    pub is_skew: bool,
}

//! Histogram up to a percentile, with its mode (metrics §4).

use serde::{Deserialize, Serialize};

/// Equal integer-ns bins from the minimum to the 99th percentile; larger values are counted as overflow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Histogram {
    /// Left edge of bin 0: the minimum, in ns.
    pub lo: i64,
    /// Upper limit: the 99th percentile, in ns.
    pub hi: i64,
    /// Number of bins.
    pub nbins: usize,
    /// Width of a bin, `(hi − lo)/nbins + 1`, in ns.
    pub binsize: i64,
    /// Number of values above `hi`.
    pub overflow: u64,
    /// Index of the bin with the most values; the lowest one in case of a tie.
    pub mode_bin: usize,
    /// Centre of the mode's bin, in ns.
    pub mode: f64,
    /// Number of values in each bin.
    pub counts: Vec<u64>,
}

/// The number of bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bins {
    /// A fixed number. The default of 70 reproduces the published UDP examples.
    Fixed(usize),
    /// The Freedman–Diaconis rule, clamped to 70…500.
    Auto,
}

impl Default for Bins {
    fn default() -> Bins {
        Bins::Fixed(70)
    }
}

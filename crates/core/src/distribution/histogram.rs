//! Histogram up to a percentile, with its mode (metrics §4).

use core::ops::RangeInclusive;
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bins {
    /// 70 bins in the summary, as in the published UDP examples; [`Bins::Auto`] in figures and for the mode, which also
    /// reproduces the TCP examples.
    #[default]
    Standard,
    /// A fixed number.
    Fixed(usize),
    /// The Freedman–Diaconis rule, clamped to 70…500.
    Auto,
}

/// Range of automatically chosen numbers of bins.
const AUTOMATIC_BINS: RangeInclusive<usize> = 70..=500;

impl Bins {
    /// Returns the number of bins of the summary's histogram for `n` values, or of the histogram in figures if `drawn`
    /// is true. `range` is the distance between the limits of the histogram; `iqr` returns the interquartile range of
    /// the values.
    pub(super) fn count(self, drawn: bool, n: u64, range: u64, iqr: impl FnOnce() -> f64) -> usize {
        match self {
            Bins::Fixed(bins) => bins.max(1),
            Bins::Standard if !drawn => *AUTOMATIC_BINS.start(),
            Bins::Standard | Bins::Auto => freedman_diaconis(n, range, iqr()),
        }
    }
}

/// Returns range/(2·IQR·n^(−1/3)), rounded up and clamped: the minimum for fewer than two values or a range of 0, the
/// maximum for an interquartile range of 0.
fn freedman_diaconis(n: u64, range: u64, iqr: f64) -> usize {
    let (least, most) = AUTOMATIC_BINS.into_inner();
    if n < 2 || range == 0 {
        return least;
    }
    if iqr <= 0.0 {
        return most;
    }
    let width = 2.0 * iqr / (n as f64).cbrt();
    ((range as f64 / width).ceil() as usize).clamp(least, most)
}

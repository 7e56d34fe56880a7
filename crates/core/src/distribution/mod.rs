//! Distributions of times: all values ([`Sample`]), selected percentiles ([`OrderStatistics`]), or any number of values
//! in bounded memory ([`LogHistogram`]); and the statistics computed from them.

pub mod histogram;
pub mod log_histogram;
pub mod order;
pub mod percentile;
pub mod sample;
mod statistics;

pub use histogram::{Bins, Histogram};
pub use log_histogram::{LogHistogram, Precision, Quantiles};
pub use order::OrderStatistics;
pub use percentile::{Method, Percent, PercentileResolution, Percentiles};
pub use sample::Sample;
pub use statistics::{Distribution, DistributionRequest};

/// Returns the smallest and the largest of `values`; `None` without values.
pub fn extremes(mut values: impl Iterator<Item = i64>) -> Option<[i64; 2]> {
    let first = values.next()?;
    let (mut low, mut high) = (first, first);
    // The loop has no early exit, so the compiler can vectorise it: without AVX, scalar 64-bit comparisons
    // are several times as slow.
    for x in values.by_ref() {
        if x == i64::MIN {
            low = x;
            break;
        }
        (low, high) = (low.min(x), high.max(x));
    }
    values.for_each(|x| high = high.max(x));
    Some([low, high])
}

/// Returns the smallest of `values`; `i64::MAX` without values.
pub(crate) fn lowest(values: impl Iterator<Item = i64>) -> i64 {
    let mut low = i64::MAX;
    for x in values {
        // No early exit, as above.
        if x == i64::MIN {
            return x;
        }
        low = low.min(x);
    }
    low
}

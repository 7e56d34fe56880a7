//! Distributions of times: all values ([`Sample`]), or any number of them in bounded memory ([`LogHistogram`]), and
//! what follows from either: percentiles, histograms, statistics.

pub mod histogram;
pub mod log_histogram;
pub mod percentile;
pub mod sample;
mod statistics;

pub use histogram::{Bins, Histogram};
pub use log_histogram::{LogHistogram, Precision, Quantiles};
pub use percentile::{Method, Percent, Percentiles, Resolution};
pub use sample::Sample;
pub use statistics::{Distribution, Wanted};

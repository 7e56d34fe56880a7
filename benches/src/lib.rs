//! Benchmarks: each binary prints ratios against a baseline measured in the same run.

pub mod oneway;
pub mod queued;
pub mod threads;

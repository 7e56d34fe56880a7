//! Confidence intervals (metrics §17).

use serde::Serialize;

/// How far the sample pins down the mean and the percentiles of delay.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Inference {
    /// Student-t interval of the mean, 90 %, in ns.
    pub mean_ci90: Option<[f64; 2]>,
    /// 95 %.
    pub mean_ci95: Option<[f64; 2]>,
    /// 99 %.
    pub mean_ci99: Option<[f64; 2]>,
    /// Lag-1 autocorrelation in send order.
    pub acf1_send_order: Option<f64>,
    /// It is insignificant, so that the t interval means something.
    pub t_valid: Option<bool>,
    /// n(1 − ρ)/(1 + ρ): independent samples that would tell as much.
    pub effective_n: Option<f64>,
    /// Interval of the mean from 20 batches, 95 %.
    pub batch20_ci95: Option<[f64; 2]>,
    /// From as many batches as their own correlation allows (20, 10 or 5).
    pub batch: Option<Batches>,
    /// [l, u, coverage]: order statistics that enclose the median with ≥ 95 %; l = 0 or u = n + 1 is
    /// unbounded.
    pub median_ci95_ranks: Option<Ranks>,
    /// And the 99th percentile.
    pub p99_ci95_ranks: Option<Ranks>,
    /// And the 99.9th.
    pub p999_ci95_ranks: Option<Ranks>,
    /// Their values in ns; `None` = unbounded.
    pub median_ci95: Option<[Option<i64>; 2]>,
    /// See above.
    pub p99_ci95: Option<[Option<i64>; 2]>,
    /// See above.
    pub p999_ci95: Option<[Option<i64>; 2]>,
    /// Moving-block bootstrap, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Bootstrap>,
}

/// [l, u, coverage].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ranks(pub u64, pub u64, pub f64);

/// An interval of the mean from batch means.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Batches {
    /// Batches.
    pub k: usize,
    /// Interval of the mean, 95 %, in ns.
    pub ci95: [f64; 2],
    /// The batch means are uncorrelated: believe it.
    pub independent: bool,
}

/// 95 % percentile intervals from moving blocks, in ns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bootstrap {
    /// Of the generator: the same seed gives the same interval.
    pub seed: u64,
    /// Resamples.
    pub resamples: u32,
    /// Packets a block.
    pub block: usize,
    /// Mean.
    pub mean: [f64; 2],
    /// Median.
    pub median: [f64; 2],
    /// 99th percentile.
    pub p99: [f64; 2],
}

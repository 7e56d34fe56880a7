//! Loss and how it clusters (metrics §10; RFC 2680, 3357, 7680).

use super::burst_gap::BurstGap;
use serde::Serialize;
use std::collections::BTreeMap;

/// Loss figures over sequence numbers 0…N−1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Loss {
    /// Lost over sent.
    pub ratio: Option<f64>,
    /// Length of a run of losses → how many runs.
    pub run_length_hist: BTreeMap<u64, u64>,
    /// Runs.
    pub periods: u64,
    /// The first ten runs: [first sequence number, length].
    pub first_runs: Vec<[u64; 2]>,
    /// Distance from the previous loss → losses, distances 1…20 (RFC 3357).
    pub loss_distance_hist_small: BTreeMap<u64, u64>,
    /// Losses at most 99 after the one before, over losses (RFC 3357 §6.1).
    pub noticeable_rate_99: Option<f64>,
    /// Lengths between runs: first of a run − last of the run before → how often (RFC 3357 §6.4).
    pub inter_loss_period_hist: BTreeMap<u64, u64>,
    /// The two-state model whose bad state always loses, and the pair counts behind it.
    pub gilbert: Gilbert,
    /// Gilbert's model of 1960, where it fits.
    pub gilbert1960: Option<Gilbert1960>,
    /// The four-parameter model, where asked for and better by AIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gilbert_elliott: Option<GilbertElliott>,
    /// RFC 3611 bursts and gaps with Gmin 16.
    pub burst_gap_gmin16: BurstGap,
    /// Wilson interval of the ratio, 95 %, assuming independent losses.
    pub wilson95: Option<[f64; 2]>,
    /// The same widened for the correlation of neighbouring losses.
    pub wilson95_correlated: Option<[f64; 2]>,
    /// Correlation of the loss of neighbouring packets.
    pub lag1: Option<f64>,
    /// With no loss at all: the ratio is below this with 95 % confidence (3/N).
    pub rule_of_three: Option<f64>,
    /// Wald–Wolfowitz runs test.
    pub runs_test: Option<RunsTest>,
    /// What the runs test says.
    pub pattern: Option<LossPattern>,
}

/// Pair counts n_xy (x then y; 1 = lost) and the simple Gilbert model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gilbert {
    /// Received, received.
    pub n00: u64,
    /// Received, lost.
    pub n01: u64,
    /// Lost, received.
    pub n10: u64,
    /// Lost, lost.
    pub n11: u64,
    /// P(lost | received before).
    pub p: Option<f64>,
    /// P(received | lost before).
    pub q: Option<f64>,
    /// Conditional loss probability P(lost | lost before) = 1 − q.
    pub clp: Option<f64>,
    /// Unconditional loss probability.
    pub ulp: Option<f64>,
    /// Mean run length of losses.
    pub mean_burst: Option<f64>,
    /// Mean run over that of random loss at the same ratio; 1 = random, above = bursty.
    pub burst_ratio: Option<f64>,
}

/// Gilbert 1960: good state never loses, bad state receives with probability h.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gilbert1960 {
    /// P(good → bad).
    pub p: f64,
    /// P(bad → good).
    pub r: f64,
    /// P(received | bad).
    pub h: f64,
}

/// Gilbert–Elliott by expectation-maximisation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GilbertElliott {
    /// P(good → bad).
    pub p: f64,
    /// P(bad → good).
    pub r: f64,
    /// P(received | bad).
    pub h: f64,
    /// P(received | good).
    pub k: f64,
    /// Of the fitted model.
    pub log_likelihood: f64,
    /// Akaike's criterion of this model.
    pub aic: f64,
    /// And of the simple Gilbert model on the same data.
    pub aic_simple: f64,
}

/// Number of runs (of losses and of receptions) against what independence would give.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RunsTest {
    /// Runs of either kind.
    pub runs: u64,
    /// Expected under independence.
    pub mu: f64,
    /// Standard score; below −1.96 bursty, above 1.96 anti-clustered.
    pub z: Option<f64>,
}

/// How losses lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossPattern {
    /// Fewer than ten losses, or fewer than ten receptions.
    Insufficient,
    /// Compatible with independence.
    Random,
    /// Clustered.
    Bursty,
    /// More evenly spread than chance.
    AntiClustered,
}

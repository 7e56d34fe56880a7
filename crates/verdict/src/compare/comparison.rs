//! [`Comparison`]: difference of two runs in one figure, and its reliability.

use serde::Serialize;

/// Compared quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Delay above each run's own minimum: needs no clocks.
    #[default]
    Pdv,
    /// One-way delay, corrected if the clock offset is estimated: needs clocks.
    Delay,
    /// Absolute variation of delay between consecutive packets (RFC 3393): needs no clocks. Of a symmetric distribution
    /// the median of absolute values is half the interquartile range.
    Ipdv,
}

impl Basis {
    /// Returns the noun for this quantity in sentences.
    pub fn noun(self) -> &'static str {
        match self {
            Basis::Pdv => "jitter",
            Basis::Delay => "delay",
            Basis::Ipdv => "absolute IPDV",
        }
    }
}

/// Statistic on which the verdict is based.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// The median.
    #[default]
    Median,
    /// The 99th percentile.
    P99,
}

/// Settings of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparisonSettings {
    /// Compared quantity.
    pub basis: Basis,
    /// Statistic on which the verdict is based.
    pub statistic: Statistic,
    /// Precondition that differs on purpose because it is the subject of the comparison, if any.
    pub varied: Option<Precondition>,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// Property that two runs should share; otherwise their difference may have another cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Precondition {
    /// Round trips or one-way delays.
    Kind,
    /// Up or down.
    Direction,
    /// UDP or TCP.
    Transport,
    /// Time between packets.
    Period,
    /// Bytes of a packet.
    Payload,
    /// Number of packets.
    Length,
    /// Sender and receiver.
    Path,
    /// Traffic class.
    Dscp,
    /// Independent packets.
    Independence,
}

impl Precondition {
    /// Returns true if runs that differ in this property measure different quantities, which cannot be compared.
    pub fn is_vital(self) -> bool {
        matches!(self, Precondition::Kind | Precondition::Direction | Precondition::Independence)
    }
}

/// Precondition that is not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unlike {
    /// Precondition in which the runs differ.
    pub what: Precondition,
    /// Description of the difference.
    pub text: String,
}

/// A difference B − A and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// B − A.
    pub change: f64,
    /// 95 % confidence interval of the difference; `None` without packets.
    pub ci95: Option<[f64; 2]>,
}

/// Size of an effect, by the usual bands of Cliff's δ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// |δ| < 0.147.
    Negligible,
    /// < 0.33.
    Small,
    /// < 0.474.
    Medium,
    /// 0.474 and above.
    Large,
}

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ComparisonOutcome {
    /// The difference exceeds chance, usual variation and the clocks' error.
    Different,
    /// No relevant difference was found.
    Same,
    /// Unknown, because packets or known clock offsets are missing.
    Undecided,
    /// Not compared: the runs measure different quantities.
    Refused,
}

/// Tests that assume independence, for information; the verdict does not use them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IndependenceTests {
    /// Mann–Whitney U of A, ties ½.
    pub u: f64,
    /// Standard score of U, corrected for ties and continuity.
    pub z: f64,
    /// Two-sided p-value for independent packets: far too small, because packets of one run are not independent.
    pub p: f64,
    /// Kolmogorov–Smirnov distance.
    pub ks: f64,
    /// Stephens' asymptotic p-value, under the same assumption.
    pub ks_p: f64,
}

/// Comparison of A with B. Times in ns.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Name of A.
    pub a: String,
    /// Name of B.
    pub b: String,
    /// Compared quantity.
    pub basis: Basis,
    /// Numbers of packets of A and B; 0 if unknown.
    pub n: [u64; 2],
    /// Preconditions that are not met. If one of them is vital, the comparison is refused; others may have
    /// caused the difference.
    pub unlike: Vec<Unlike>,
    /// Difference of the medians.
    pub median: Option<Difference>,
    /// Difference of the 99th percentiles.
    pub p99: Option<Difference>,
    /// Difference of the loss ratios.
    pub loss: Option<Difference>,
    /// Cliff's δ: probability that a packet of B is slower than one of A, minus the probability of the reverse.
    pub cliffs_delta: Option<f64>,
    /// Maximum error of δ; 0 if the packets are known.
    pub cliffs_delta_error: Option<f64>,
    /// Size of the effect, by Cliff's δ.
    pub effect: Option<Effect>,
    /// Hodges–Lehmann shift: median of all b − a. If only summaries are known, the middle
    /// of its possible range.
    pub shift: Option<f64>,
    /// Sum of the measurement errors of both runs.
    pub floor: f64,
    /// Tests that assume independence; `None` without packets.
    pub tests: Option<IndependenceTests>,
    /// Statistic on which the verdict is based.
    pub statistic: Statistic,
    /// The verdict.
    pub outcome: ComparisonOutcome,
    /// Reason for the outcome, as a clause.
    pub because: String,
}

impl Comparison {
    /// Returns true if B is significantly slower than A.
    pub fn is_worse(&self) -> bool {
        self.outcome == ComparisonOutcome::Different && self.chosen().is_some_and(|d| d.change > 0.0)
    }

    /// Returns the difference of the statistic on which the verdict is based.
    pub fn chosen(&self) -> Option<Difference> {
        match self.statistic {
            Statistic::Median => self.median,
            Statistic::P99 => self.p99,
        }
    }
}

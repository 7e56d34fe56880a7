//! [`Comparison`]: difference between two runs in one figure, and its reliability.

use super::margin::Margins;
use serde::Serialize;

/// Compared quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Delay above each run's own minimum. Does not depend on clocks.
    #[default]
    Pdv,
    /// One-way delay, corrected if the clock offset is estimated. Depends on both clocks.
    Delay,
    /// Absolute variation of delay between consecutive packets (RFC 3393). Does not depend on clocks. If the variation
    /// is distributed symmetrically, the median is half of its interquartile range.
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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ComparisonSettings {
    /// Compared quantity.
    pub basis: Basis,
    /// Statistic on which the verdict is based.
    pub statistic: Statistic,
    /// Precondition that is not checked because the user varied it on purpose; `None` to check all.
    pub varied: Option<Precondition>,
    /// Seed of the bootstrap in summaries; the verdict does not depend on it.
    pub seed: u64,
    /// Differences up to which two figures count as the same.
    pub margins: Margins,
}

/// Property that two runs should share. If runs differ in this property, a difference between their figures may have
/// another cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Precondition {
    /// Kind of delay: round trip or one-way.
    Kind,
    /// Direction of the packets: up or down.
    Direction,
    /// Transport protocol: UDP or TCP.
    Transport,
    /// Mean time between packets.
    Period,
    /// Payload size.
    Payload,
    /// Number of packets sent.
    Length,
    /// Addresses of sender and receiver.
    Path,
    /// DSCP of the packets.
    Dscp,
    /// Independence of the runs: they are not the same run.
    Independence,
}

impl Precondition {
    /// Returns true if runs that differ in this property measure different quantities and must not be compared.
    pub fn is_vital(self) -> bool {
        matches!(self, Precondition::Kind | Precondition::Direction | Precondition::Independence)
    }
}

/// A precondition that is not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unlike {
    /// Precondition in which the runs differ.
    pub what: Precondition,
    /// Description of the difference.
    pub text: String,
}

/// Quantity of a figure that a comparison judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ComparedQuantity {
    /// Delay above each run's own minimum.
    Jitter,
    /// One-way delay or round trip.
    Delay,
    /// Absolute variation of delay between consecutive packets.
    Ipdv,
    /// Share of lost packets.
    Loss,
}

/// One figure of two runs: the difference, its interval, and the conclusion. Times in ns, loss as a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedFigure {
    /// Quantity of the figure.
    pub quantity: ComparedQuantity,
    /// Statistic of a time; `None` for loss.
    pub statistic: Option<Statistic>,
    /// Difference B − A.
    pub change: f64,
    /// Interval of the difference, with the comparison's `confidence`; `None` if there are too few independent packets.
    pub interval: Option<[f64; 2]>,
    /// Error of the measurement. The interval is widened by it on both sides before it is judged.
    pub floor: f64,
    /// Equivalence margin: difference up to which the figures count as the same.
    pub margin: f64,
    /// Conclusion: `different` if the interval excludes 0, `same` if it lies within the margin, otherwise `undecided`.
    pub outcome: ComparisonOutcome,
}

impl ComparedFigure {
    /// Returns the interval widened by the error of the measurement; `None` without an interval.
    pub fn bounds(&self) -> Option<[f64; 2]> {
        self.interval.map(|[low, high]| [low - self.floor, high + self.floor])
    }

    /// Returns the largest difference, in either direction, that the interval does not exclude; `None` without an
    /// interval.
    pub fn largest(&self) -> Option<f64> {
        self.bounds().map(|[low, high]| low.abs().max(high.abs()))
    }

    /// Returns true if the figure of B is larger than that of A beyond chance.
    pub fn is_worse(&self) -> bool {
        self.outcome == ComparisonOutcome::Different && self.change > 0.0
    }

    /// Returns true if the figure of B is smaller than that of A beyond chance.
    pub fn is_better(&self) -> bool {
        self.outcome == ComparisonOutcome::Different && self.change < 0.0
    }
}

/// Effect on the slowest packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TailEffect {
    /// Shares of the packets of A and of B that are above the 99th percentile of A.
    pub above: [f64; 2],
    /// Cliff's δ of the slowest 2 % of each run, whose median is the 99th percentile.
    pub cliffs_delta: f64,
    /// Size of the effect, by `cliffs_delta`.
    pub effect: Effect,
}

/// A difference B − A and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// Difference B − A, in the unit of the figure.
    pub change: f64,
    /// 95 % confidence interval of the difference; `None` if there are too few independent packets.
    pub ci95: Option<[f64; 2]>,
}

/// Size of an effect, by the usual thresholds of Cliff's δ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// |δ| < 0.147.
    Negligible,
    /// |δ| < 0.33.
    Small,
    /// |δ| < 0.474.
    Medium,
    /// |δ| ≥ 0.474.
    Large,
}

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ComparisonOutcome {
    /// The interval of the difference excludes 0, beyond the error of the measurement.
    Different,
    /// The interval of the difference lies within the equivalence margin.
    Same,
    /// Neither difference nor equivalence is shown: the interval allows both, or there is no interval.
    Undecided,
    /// Not compared: the runs measure different quantities.
    Refused,
}

/// Tests that assume independent packets. They are for information only; the verdict does not depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IndependenceTests {
    /// Mann–Whitney U of A; ties count ½.
    pub u: f64,
    /// Standard score of U, corrected for ties and continuity.
    pub z: f64,
    /// Two-sided p-value that assumes independent packets. It is far too small, because packets of one run are not
    /// independent.
    pub p: f64,
    /// Kolmogorov–Smirnov distance.
    pub ks: f64,
    /// Stephens' asymptotic p-value, which also assumes independent packets.
    pub ks_p: f64,
}

/// Comparison of A with B. Times are in ns.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Name of run A.
    pub a: String,
    /// Name of run B.
    pub b: String,
    /// Compared quantity.
    pub basis: Basis,
    /// Number of packets of A and of B; 0 if unknown.
    pub n: [u64; 2],
    /// Preconditions that are not met. If a vital one is among them, the comparison is refused; others may have caused
    /// the difference.
    pub unlike: Vec<Unlike>,
    /// Difference of the medians; `None` if a median is unknown.
    pub median: Option<Difference>,
    /// Difference of the 99th percentiles; `None` if one of them is unknown.
    pub p99: Option<Difference>,
    /// Difference of the loss ratios; `None` if one of them is unknown.
    pub loss: Option<Difference>,
    /// Cliff's δ: probability that a packet of B is slower than one of A, minus the probability of the reverse.
    pub cliffs_delta: Option<f64>,
    /// Maximum error of δ; 0 if the packets are available.
    pub cliffs_delta_error: Option<f64>,
    /// Size of the effect, by Cliff's δ.
    pub effect: Option<Effect>,
    /// Hodges–Lehmann shift: median of all differences b − a. If only summaries are available, the middle of its
    /// possible range.
    pub shift: Option<f64>,
    /// Sum of the measurement errors of both runs.
    pub floor: f64,
    /// Effect on the slowest packets; `None` without packets.
    pub tail: Option<TailEffect>,
    /// Figures of the verdict: the chosen statistic first, then delay if the clocks are known, then loss.
    pub compared: Vec<ComparedFigure>,
    /// Confidence of each interval in `compared`. All of them together hold with 95 %.
    pub confidence: f64,
    /// Tests that assume independence; `None` if the packets are not available.
    pub tests: Option<IndependenceTests>,
    /// Statistic on which the verdict is based.
    pub statistic: Statistic,
    /// Conclusion about the chosen statistic, the first in `compared`.
    pub outcome: ComparisonOutcome,
    /// Reason for the outcome, as a clause.
    pub because: String,
}

impl Comparison {
    /// Returns true if B is significantly slower than A.
    pub fn is_worse(&self) -> bool {
        self.outcome == ComparisonOutcome::Different && self.chosen().is_some_and(|d| d.change > 0.0)
    }

    /// Returns the difference of the statistic on which the verdict is based; `None` if it is unknown.
    pub fn chosen(&self) -> Option<Difference> {
        match self.statistic {
            Statistic::Median => self.median,
            Statistic::P99 => self.p99,
        }
    }
}

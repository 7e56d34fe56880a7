//! [`Comparison`]: what two runs differ by in one figure, and what to believe of it.

use serde::Serialize;

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Delay above each run's own minimum: needs no clocks.
    #[default]
    Pdv,
    /// One-way delay, corrected where there is an estimate: needs clocks.
    Delay,
    /// Absolute variation of delay between consecutive packets (RFC 3393): needs no clocks. Of a symmetric distribution
    /// the median of absolute values is half the interquartile range.
    Ipdv,
}

impl Basis {
    /// The word for it in sentences.
    pub fn noun(self) -> &'static str {
        match self {
            Basis::Pdv => "jitter",
            Basis::Delay => "delay",
            Basis::Ipdv => "absolute IPDV",
        }
    }
}

/// The difference that the verdict is about.
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

/// The parameters of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparisonSettings {
    /// What is compared.
    pub basis: Basis,
    /// The difference that the verdict is about.
    pub statistic: Statistic,
    /// The precondition that differs on purpose, because it is what is being compared; `None`: none should differ.
    pub varied: Option<Precondition>,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// What two runs should have in common; otherwise their difference may have another cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Precondition {
    /// Round trips or one-way delays.
    Kind,
    /// Up or down.
    Direction,
    /// Up or down.
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
    /// Whether the two are different quantities without it, so that no difference between them has a meaning.
    pub fn is_vital(self) -> bool {
        matches!(self, Precondition::Kind | Precondition::Direction | Precondition::Independence)
    }
}

/// A precondition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unlike {
    /// Which.
    pub what: Precondition,
    /// What was found.
    pub text: String,
}

/// A difference B − A and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// B − A.
    pub change: f64,
    /// Its 95 % confidence interval; `None` without the packets.
    pub ci95: Option<[f64; 2]>,
}

/// How large an effect is, by the usual bands of Cliff's δ.
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
    /// Above.
    Large,
}

/// The verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ComparisonOutcome {
    /// B differs from A by more than chance, usual variation and clocks explain.
    Different,
    /// No relevant difference was found.
    Same,
    /// The packets themselves, or clocks to compare by, are missing.
    Undecided,
    /// The two are different quantities.
    Refused,
}

/// Tests that assume independence, for information; the verdict does not use them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IndependenceTests {
    /// Mann–Whitney U of A, ties ½.
    pub u: f64,
    /// Its standard score, corrected for ties and continuity.
    pub z: f64,
    /// Two-sided, assuming independent packets: far too small for packets of one run.
    pub p: f64,
    /// Kolmogorov–Smirnov distance.
    pub ks: f64,
    /// Stephens' asymptotic p, under the same assumption.
    pub ks_p: f64,
}

/// A and B compared. Times in ns.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// What A is called.
    pub a: String,
    /// What B is called.
    pub b: String,
    /// What was compared.
    pub basis: Basis,
    /// Packets of each; 0 if unknown.
    pub n: [u64; 2],
    /// Preconditions that are not met: with a vital one the comparison is refused, with others the difference may be
    /// caused by it.
    pub unlike: Vec<Unlike>,
    /// Difference of the medians.
    pub median: Option<Difference>,
    /// Difference of the 99th percentiles.
    pub p99: Option<Difference>,
    /// Difference of the loss ratios.
    pub loss: Option<Difference>,
    /// Cliff's δ: how much more often a packet of B is slower than one of A than the reverse.
    pub cliffs_delta: Option<f64>,
    /// Largest error of δ: 0 if the packets are known.
    pub cliffs_delta_error: Option<f64>,
    /// The size of that effect.
    pub effect: Option<Effect>,
    /// Hodges–Lehmann: the median of all b − a. From summaries the middle of its possible range.
    pub shift: Option<f64>,
    /// The measurement errors of both together.
    pub floor: f64,
    /// Secondary tests; `None` without packets.
    pub tests: Option<IndependenceTests>,
    /// The statistic that decided.
    pub statistic: Statistic,
    /// The verdict.
    pub outcome: ComparisonOutcome,
    /// The reason, as a sentence.
    pub because: String,
}

impl Comparison {
    /// Whether B is significantly slower than A.
    pub fn is_worse(&self) -> bool {
        self.outcome == ComparisonOutcome::Different && self.chosen().is_some_and(|d| d.change > 0.0)
    }

    /// The difference the verdict is about.
    pub fn chosen(&self) -> Option<Difference> {
        match self.statistic {
            Statistic::Median => self.median,
            Statistic::P99 => self.p99,
        }
    }
}

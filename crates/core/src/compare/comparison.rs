//! [`Comparison`]: what two runs differ by in one figure, and what to believe of it.

use serde::Serialize;

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Delay above each run's own minimum: needs no clocks.
    #[default]
    Pdv,
    /// One-way delay, corrected where there is an estimate: needs clocks.
    Delay,
}

/// Which difference the verdict is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// The middle.
    #[default]
    Median,
    /// The 99th percentile.
    P99,
}

/// What is asked of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// What is compared.
    pub basis: Basis,
    /// Which difference the verdict is about.
    pub statistic: Statistic,
    /// The precondition that is meant to differ, because it is what is being compared.
    pub varied: Option<Precondition>,
    /// Makes the bootstrap reproducible.
    pub seed: u64,
}

/// What two runs should have in common, or their difference has a cause that was not asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Precondition {
    /// Round trips or one-way delays.
    Kind,
    /// There or back.
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
    /// Without it the two are different quantities, and no difference between them means anything.
    pub fn is_vital(self) -> bool {
        matches!(self, Precondition::Kind | Precondition::Direction | Precondition::Independence)
    }
}

/// A precondition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unlike {
    /// Which.
    pub what: Precondition,
    /// What was found, in words.
    pub text: String,
}

/// A difference B − A and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// B − A.
    pub change: f64,
    /// Where it lies with 95 % confidence; `None` without the packets themselves.
    pub ci95: Option<[f64; 2]>,
}

/// How large an effect is, by the bands in use for Cliff's δ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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

/// What to believe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// B differs from A, and by more than chance, habit and clocks explain.
    Different,
    /// No difference worth the name was found.
    Same,
    /// The packets themselves, or clocks to compare by, are missing.
    Undecided,
    /// The two are different quantities.
    Refused,
}

/// Tests of independence-supposing statistics, for those who ask; the verdict does not use them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tests {
    /// Mann–Whitney U of A, ties ½.
    pub u: f64,
    /// Its standard score, corrected for ties and continuity.
    pub z: f64,
    /// Two-sided, supposing independent packets: far too small for packets of one run.
    pub p: f64,
    /// Kolmogorov–Smirnov distance.
    pub ks: f64,
    /// Stephens' asymptotic p, under the same supposition.
    pub ks_p: f64,
}

/// A and B side by side. Times in ns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What A is called.
    pub a: String,
    /// What B is called.
    pub b: String,
    /// What was compared.
    pub basis: Basis,
    /// Packets of each; 0 where nothing is known of them.
    pub n: [u64; 2],
    /// Preconditions that do not hold: with a vital one the comparison is refused, with others the difference
    /// may have their cause.
    pub unlike: Vec<Unlike>,
    /// Of the medians.
    pub median: Option<Difference>,
    /// Of the 99th percentiles.
    pub p99: Option<Difference>,
    /// Of the loss ratios.
    pub loss: Option<Difference>,
    /// Cliff's δ: how much oftener a packet of B is slower than one of A than the other way round.
    pub cliffs_delta: Option<f64>,
    /// How far δ may be off for want of the packets: 0 where they are at hand.
    pub cliffs_delta_error: Option<f64>,
    /// How large that is.
    pub effect: Option<Effect>,
    /// Hodges–Lehmann: the median of all b − a. From summaries the middle of where it must lie.
    pub shift: Option<f64>,
    /// What the two measurements may be wrong by together.
    pub floor: f64,
    /// Secondary; only from packets.
    pub tests: Option<Tests>,
    /// Which difference decided.
    pub statistic: Statistic,
    /// The verdict.
    pub outcome: Outcome,
    /// Its reason in words.
    pub because: String,
}

impl Comparison {
    /// Whether B is slower than A beyond doubt.
    pub fn is_worse(&self) -> bool {
        self.outcome == Outcome::Different && self.chosen().is_some_and(|d| d.change > 0.0)
    }

    /// The difference the verdict is about.
    pub fn chosen(&self) -> Option<Difference> {
        match self.statistic {
            Statistic::Median => self.median,
            Statistic::P99 => self.p99,
        }
    }
}

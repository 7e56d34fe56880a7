//! Quality of Outcome (draft-ietf-ippm-qoo): how close a path comes to the requirements of an application, from 0 to 100.
//!
//! [`Requirements`] name an optimal and an unacceptable value for the delay at some percentiles and for loss. Each
//! measured value is placed between the two on a linear scale, and the score is the lowest of the results. Lost packets
//! are not part of the percentiles, because loss is a term of its own.

use super::dependence::{NoInterval, QuantileInterval, ShareInterval};
use crate::distribution::percentile::Percent;
use crate::units::{about, bit_rate3};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Requirements of an application on one direction of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Requirements {
    /// Requirements on delay at percentiles, at least one.
    pub delay: Cow<'static, [DelayRequirement]>,
    /// Requirement on the loss ratio.
    pub loss: LossRequirement,
    /// Requirement on throughput; `None` if the application has none.
    #[serde(default)]
    pub throughput: Option<ThroughputRequirement>,
}

/// Limits of the one-way delay at a percentile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DelayRequirement {
    /// Percentile, from 50 to 99.99.
    pub percentile: f64,
    /// Delay up to which the application works as well as it can, in ms.
    pub optimal_ms: f64,
    /// Delay from which the application cannot be used, in ms.
    pub unacceptable_ms: f64,
    /// Source of the numbers; empty if that is the source of the profile.
    #[serde(default)]
    pub source: Cow<'static, str>,
}

/// Limits of the mean loss ratio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LossRequirement {
    /// Share of lost packets up to which the application works as well as it can, 0…1.
    pub optimal: f64,
    /// Share of lost packets from which the application cannot be used, 0…1.
    pub unacceptable: f64,
    /// Source of the numbers; empty if that is the source of the profile.
    #[serde(default)]
    pub source: Cow<'static, str>,
}

/// Minimum throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ThroughputRequirement {
    /// Minimum throughput, in bits of payload per second.
    pub min_bps: f64,
    /// Source of the number; empty if that is the source of the profile.
    #[serde(default)]
    pub source: Cow<'static, str>,
}

/// Smallest and largest percentile of a requirement. Below the median, a delay says nothing about the slow packets;
/// beyond 99.99 %, no test has enough packets.
const PERCENTILES: std::ops::RangeInclusive<f64> = 50.0..=99.99;

impl DelayRequirement {
    /// Returns the percentile, rounded to thousandths of a percent.
    pub fn percent(&self) -> Percent {
        Percent((1000.0 * self.percentile).round() as u32)
    }
}

impl Requirements {
    /// Returns the reason why the requirements are invalid; `None` for valid ones.
    pub fn fault(&self) -> Option<&'static str> {
        let is_scale = |optimal: f64, unacceptable: f64, most: f64| {
            optimal >= 0.0 && optimal < unacceptable && unacceptable <= most
        };
        let scaled = |d: &DelayRequirement| is_scale(d.optimal_ms, d.unacceptable_ms, MAX_DELAY_MS);
        let precise = |d: &DelayRequirement| {
            PERCENTILES.contains(&d.percentile)
                && (1000.0 * d.percentile - f64::from(d.percent().0)).abs() < 1e-6
        };
        let twice = |(k, d): (usize, &DelayRequirement)| {
            self.delay[..k].iter().any(|other| other.percent() == d.percent())
        };
        if self.delay.is_empty() {
            Some("qoo.delay needs one percentile at least")
        } else if !self.delay.iter().all(precise) {
            Some("qoo.delay: percentile must be between 50 and 99.99, with at most three decimals")
        } else if self.delay.iter().enumerate().any(twice) {
            Some("qoo.delay names a percentile twice")
        } else if !self.delay.iter().all(scaled) {
            Some("qoo.delay: optimal_ms must be below unacceptable_ms, and both from 0 to 3600000")
        } else if !is_scale(self.loss.optimal, self.loss.unacceptable, 1.0) {
            Some("qoo.loss: optimal must be below unacceptable, and both are shares from 0 to 1")
        } else if self.throughput.as_ref().is_some_and(|t| !(t.min_bps > 0.0 && t.min_bps.is_finite())) {
            Some("qoo.throughput: min_bps must be above 0")
        } else {
            None
        }
    }

    /// Returns the requirements on both directions together: twice the delay, and the loss ratio of a round trip whose
    /// directions lose packets independently.
    pub fn of_round_trips(&self) -> Requirements {
        let both = |share: f64| 1.0 - (1.0 - share) * (1.0 - share);
        let delay = self.delay.iter().map(|d| DelayRequirement {
            optimal_ms: 2.0 * d.optimal_ms,
            unacceptable_ms: 2.0 * d.unacceptable_ms,
            ..d.clone()
        });
        Requirements {
            delay: delay.collect(),
            loss: LossRequirement {
                optimal: both(self.loss.optimal),
                unacceptable: both(self.loss.unacceptable),
                source: self.loss.source.clone(),
            },
            throughput: self.throughput.clone(),
        }
    }
}

/// Largest delay of a requirement, in ms: one hour.
const MAX_DELAY_MS: f64 = 3_600_000.0;

/// Measured delay at a percentile, without lost packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredDelay {
    /// The percentile.
    pub percent: Percent,
    /// Delay, in ns.
    pub ns: f64,
    /// Interval of the delay that accounts for dependent packets, before `bound_ns` is added at both ends.
    pub interval: QuantileInterval,
    /// Largest error of all delays, in ns, because two clocks do not agree; 0 with one clock.
    pub bound_ns: f64,
}

/// Measured loss ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredLoss {
    /// Lost packets divided by packets sent.
    pub ratio: f64,
    /// Number of packets sent that are known to be received or lost.
    pub sent: u64,
    /// Interval of the ratio that accounts for bursts.
    pub interval: ShareInterval,
}

impl MeasuredLoss {
    /// Returns the 95 % interval of the ratio: without losses from 0 to 3/N (rule of three). `None` if there is none.
    fn ci95(&self) -> Option<[f64; 2]> {
        match self.interval.absent {
            Some(NoInterval::NoEvent) if self.sent > 0 => Some([0.0, (3.0 / self.sent as f64).min(1.0)]),
            _ => self.interval.ci95,
        }
    }
}

/// Measured throughput, in bits of payload per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredThroughput {
    /// Rate at which the test sent.
    pub sent_bps: f64,
    /// Rate at which packets arrived.
    pub received_bps: f64,
}

/// Measurements from which a score is computed.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredQuality {
    /// Delays at percentiles, or the reason why they are unknown.
    pub delay: Result<Vec<MeasuredDelay>, Refusal>,
    /// Loss, or the reason why it is unknown.
    pub loss: Result<MeasuredLoss, Refusal>,
    /// Throughput; `None` if it is unknown.
    pub throughput: Option<MeasuredThroughput>,
    /// Times at which the first and the last packet were sent, ns since 1970; `None` without packets.
    pub sent_ns: Option<[i64; 2]>,
}

impl MeasuredQuality {
    /// Returns measurements that cannot be scored, for this reason.
    pub fn refused(refusal: Refusal) -> MeasuredQuality {
        MeasuredQuality { delay: Err(refusal.clone()), loss: Err(refusal), throughput: None, sent_ns: None }
    }
}

/// Reason why there is no score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refusal {
    /// Kind of reason.
    pub reason: RefusalReason,
    /// The reason in a sentence, without a full stop.
    pub text: String,
    /// Duration, in seconds, with which a test on the same path would probably have a score; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enough_s: Option<f64>,
}

/// Kind of reason why there is no score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RefusalReason {
    /// The test has too few independent packets to determine a percentile.
    PercentileNotResolved,
    /// The clocks of the two hosts do not bound the one-way delay.
    ClockUnbounded,
    /// The packets are not in memory, so that their dependence is unknown.
    NotRecorded,
    /// Lost packets cannot be observed, or it is unknown in which direction they were lost.
    LossUnknown,
    /// Nothing was received.
    NothingReceived,
}

impl Refusal {
    /// Creates a refusal for this reason, explained by `text`.
    pub fn new(reason: RefusalReason, text: impl Into<String>) -> Refusal {
        Refusal { reason, text: text.into(), enough_s: None }
    }
}

/// Scores of a test for all profiles, and what must be known about the measurement to use them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QualityOfOutcome {
    /// Description of the measurement.
    pub measurement: ScoredMeasurement,
    /// Score for each profile that has requirements, by name.
    pub profiles: BTreeMap<String, OutcomeScore>,
}

/// Description of the measurement that accompanies every score (draft-ietf-ippm-qoo §3.1.2).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ScoredMeasurement {
    /// Protocol or instrument that measured, for example `stamp`.
    pub method: String,
    /// `active` for packets that the test sent, `passive` for captured traffic.
    pub kind: String,
    /// Protocol layer of the packets, for example `UDP`.
    pub layer: String,
    /// Payload of a packet, in bytes; `None` if sizes differ or are unknown.
    pub packet_bytes: Option<u64>,
    /// DSCP of the packets sent.
    pub dscp: u8,
    /// Law by which the packets were sampled: `periodic`, `poisson`, `burst`.
    pub sampling: String,
    /// Mean time between packets, in ns; `None` if unknown.
    pub period_ns: Option<i64>,
    /// Addresses of the endpoints, sender first; `None` if unknown. The measured segment is the whole path between them.
    pub endpoints: [Option<String>; 2],
    /// `up`, `down`, `round-trip`, or `unknown` if a log does not contain the direction.
    pub direction: String,
    /// Time of the first sample, ns since 1970; `None` if unknown.
    pub first_sample_ns: Option<i64>,
    /// Time from the first to the last packet sent, in ns; `None` if unknown.
    pub duration_ns: Option<i64>,
    /// Number of delays measured.
    pub samples: u64,
    /// Number of packets sent that are known to be received or lost; `None` if unknown.
    pub sent: Option<u64>,
    /// Largest error of all delays because two clocks do not agree, in ns; 0 with one clock, `None` if unknown.
    pub clock_bound_ns: Option<f64>,
}

/// Score for one profile, with the terms from which it follows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OutcomeScore {
    /// Score from 0 (unacceptable) to 100 (optimal): the lowest of all terms. `None` if it is refused.
    pub score: Option<f64>,
    /// 95 % interval of the score; `None` if the loss ratio has none, or if the score is refused.
    pub ci95: Option<[f64; 2]>,
    /// Reason why there is no score; `None` if there is one.
    pub refused: Option<Refusal>,
    /// Terms of delay, one for each percentile that was measured.
    pub delay: Vec<DelayTerm>,
    /// Term of loss; `None` if loss is unknown.
    pub loss: Option<LossTerm>,
    /// Term of throughput; `None` if the profile requires none, or if it was not measured.
    pub throughput: Option<ThroughputTerm>,
    /// Requirement that is not part of the score, with the reason; `None` if all are.
    pub left_out: Option<String>,
}

/// Delay at a percentile, compared with the requirement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelayTerm {
    /// The percentile.
    pub percentile: f64,
    /// Measured delay, in ns.
    pub measured_ns: f64,
    /// 95 % interval of the delay, including the error of the clocks, in ns; `None` if the percentile is not resolved.
    pub ci95_ns: Option<[f64; 2]>,
    /// Optimal delay, in ns.
    pub optimal_ns: f64,
    /// Unacceptable delay, in ns.
    pub unacceptable_ns: f64,
    /// Score of this term, 0 to 100.
    pub score: f64,
    /// Source of the requirement.
    pub source: String,
}

/// Loss ratio, compared with the requirement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LossTerm {
    /// Measured loss ratio.
    pub measured: f64,
    /// 95 % interval of the loss ratio; `None` if there is none, for example after a single loss event.
    pub ci95: Option<[f64; 2]>,
    /// Optimal loss ratio.
    pub optimal: f64,
    /// Unacceptable loss ratio.
    pub unacceptable: f64,
    /// Score of this term, 0 to 100.
    pub score: f64,
    /// Source of the requirement.
    pub source: String,
}

/// Throughput, compared with the requirement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThroughputTerm {
    /// Measured throughput, in bits of payload per second.
    pub measured_bps: f64,
    /// Required throughput, in bits of payload per second.
    pub required_bps: f64,
    /// Score of this term: 100 if the requirement is met, otherwise 0.
    pub score: f64,
    /// Source of the requirement.
    pub source: String,
}

/// Returns the score of a value between its optimal (100) and its unacceptable value (0), on a linear scale.
fn score_between(measured: f64, optimal: f64, unacceptable: f64) -> f64 {
    100.0 * (1.0 - (measured - optimal) / (unacceptable - optimal)).clamp(0.0, 1.0)
}

impl OutcomeScore {
    /// Scores the measurements against `requirements`, which are valid. `source` names the source of requirements that
    /// have no source of their own.
    pub fn new(requirements: &Requirements, source: &str, measured: &MeasuredQuality) -> OutcomeScore {
        let named = |own: &str| if own.is_empty() { source } else { own }.to_owned();
        let mut refused = None;
        let mut refuse = |refusal: Refusal| refused = refused.take().or(Some(refusal));
        let mut terms: Vec<(f64, Option<[f64; 2]>)> = Vec::new();
        let mut delay = Vec::new();
        let lasted_s = measured.sent_ns.map(|[first, last]| last.saturating_sub(first) as f64 / 1e9);
        match &measured.delay {
            Err(refusal) => refuse(refusal.clone()),
            Ok(measured) => {
                for required in requirements.delay.iter() {
                    let found = measured.iter().find(|found| found.percent == required.percent());
                    let Some(found) = found else {
                        refuse(Refusal::new(
                            RefusalReason::NothingReceived,
                            format!("the {} of delay is unknown", ordinal(required.percent())),
                        ));
                        continue;
                    };
                    if found.interval.ci95.is_none() {
                        refuse(not_resolved(found, lasted_s));
                    }
                    let term = DelayTerm::new(required, found, named(&required.source));
                    terms.push((term.score, term.scores()));
                    delay.push(term);
                }
            }
        }
        let loss = match &measured.loss {
            Err(refusal) => {
                refuse(refusal.clone());
                None
            }
            Ok(found) => {
                let term = LossTerm::new(&requirements.loss, found, named(&requirements.loss.source));
                terms.push((term.score, term.scores()));
                Some(term)
            }
        };
        let (throughput, left_out) = match &requirements.throughput {
            None => (None, None),
            Some(required) => ThroughputTerm::new(required, measured.throughput, named(&required.source)),
        };
        if let Some(term) = &throughput {
            terms.push((term.score, Some([term.score; 2])));
        }
        let lowest = |scores: &mut dyn Iterator<Item = f64>| scores.fold(100.0, f64::min);
        let intervals: Option<Vec<[f64; 2]>> = terms.iter().map(|(_, interval)| *interval).collect();
        let ends = |end: usize| move |all: &Vec<[f64; 2]>| lowest(&mut all.iter().map(|ci| ci[end]));
        let ci95 = intervals.as_ref().map(|all| [ends(0)(all), ends(1)(all)]);
        let is_known = refused.is_none();
        OutcomeScore {
            score: is_known.then(|| lowest(&mut terms.iter().map(|(score, _)| *score))),
            ci95: ci95.filter(|_| is_known),
            refused,
            delay,
            loss,
            throughput,
            left_out,
        }
    }
}

impl DelayTerm {
    fn new(required: &DelayRequirement, found: &MeasuredDelay, source: String) -> DelayTerm {
        let [optimal_ns, unacceptable_ns] =
            [required.optimal_ms, required.unacceptable_ms].map(|ms| 1e6 * ms);
        let with_error = |[low, high]: [i64; 2]| [low as f64 - found.bound_ns, high as f64 + found.bound_ns];
        DelayTerm {
            percentile: required.percentile,
            measured_ns: found.ns,
            ci95_ns: found.interval.ci95.map(with_error),
            optimal_ns,
            unacceptable_ns,
            score: score_between(found.ns, optimal_ns, unacceptable_ns),
            source,
        }
    }

    /// Returns the interval of the score: the highest delay has the lowest score.
    fn scores(&self) -> Option<[f64; 2]> {
        let [low, high] = self.ci95_ns?;
        Some([high, low].map(|ns| score_between(ns, self.optimal_ns, self.unacceptable_ns)))
    }
}

impl LossTerm {
    fn new(required: &LossRequirement, found: &MeasuredLoss, source: String) -> LossTerm {
        let &LossRequirement { optimal, unacceptable, .. } = required;
        LossTerm {
            measured: found.ratio,
            ci95: found.ci95(),
            optimal,
            unacceptable,
            score: score_between(found.ratio, optimal, unacceptable),
            source,
        }
    }

    fn scores(&self) -> Option<[f64; 2]> {
        let [low, high] = self.ci95?;
        Some([high, low].map(|ratio| score_between(ratio, self.optimal, self.unacceptable)))
    }
}

impl ThroughputTerm {
    /// Returns the term; or, if the test did not measure whether the path carries the required rate, what is left out.
    fn new(
        required: &ThroughputRequirement,
        found: Option<MeasuredThroughput>,
        source: String,
    ) -> (Option<ThroughputTerm>, Option<String>) {
        let needed = required.min_bps;
        let text = |why: &str| format!("throughput of {}: {why}", bit_rate3(needed));
        let Some(found) = found else { return (None, Some(text("not measured"))) };
        if found.received_bps < needed && found.sent_bps < needed {
            let why = format!("not measured, the test sent {}", bit_rate3(found.sent_bps));
            return (None, Some(text(&why)));
        }
        let is_met = found.received_bps >= needed;
        let term = ThroughputTerm {
            measured_bps: found.received_bps,
            required_bps: needed,
            score: if is_met { 100.0 } else { 0.0 },
            source,
        };
        (Some(term), None)
    }
}

/// Returns the refusal for a percentile without an interval. `lasted_s` is the duration of the test, in seconds.
fn not_resolved(found: &MeasuredDelay, lasted_s: Option<f64>) -> Refusal {
    let QuantileInterval { effective_n, required_n, .. } = found.interval;
    let what = ordinal(found.percent);
    let has = effective_n.map_or("too few".to_owned(), |n| format!("{:.0}", n.floor()));
    // Independent packets become more in proportion to time.
    let enough_s = effective_n
        .filter(|n| *n >= 1.0)
        .and_then(|n| Some(lasted_s? * required_n / n))
        .filter(|seconds| (1.0..=MAX_ESTIMATE_S).contains(seconds));
    let advice = enough_s.map_or(String::new(), |s| format!("; about {} would be enough", about(s)));
    let text =
        format!("the {what} needs {required_n:.0} independent packets, and this test has {has}{advice}");
    Refusal { enough_s, ..Refusal::new(RefusalReason::PercentileNotResolved, text) }
}

/// Longest duration that is recommended for a test, in seconds: one day. During a longer test, the path may change.
const MAX_ESTIMATE_S: f64 = 86_400.0;

/// Formats a percentile: `98th percentile`, `99.3rd percentile`.
fn ordinal(percent: Percent) -> String {
    let text = percent.to_string();
    let digits = text.rsplit('.').next().unwrap_or_default();
    let ending = match digits {
        teen if teen.ends_with("11") || teen.ends_with("12") || teen.ends_with("13") => "th",
        one if one.ends_with('1') => "st",
        two if two.ends_with('2') => "nd",
        three if three.ends_with('3') => "rd",
        _ => "th",
    };
    format!("{text}{ending} percentile")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn requirements() -> Requirements {
        let delay = |percentile, optimal_ms, unacceptable_ms| DelayRequirement {
            percentile,
            optimal_ms,
            unacceptable_ms,
            source: Cow::Borrowed(""),
        };
        Requirements {
            delay: Cow::Owned(vec![delay(99.0, 200.0, 500.0), delay(99.9, 300.0, 600.0)]),
            loss: LossRequirement { optimal: 0.01, unacceptable: 0.05, source: Cow::Borrowed("") },
            throughput: None,
        }
    }

    /// Delay at a percentile, in ms, with its interval.
    fn delay(percent: u32, ms: f64, ci95: Option<[f64; 2]>) -> MeasuredDelay {
        let interval = QuantileInterval {
            effective_n: Some(37.4),
            required_n: 300.0,
            ci95: ci95.map(|ends| ends.map(|ms| (1e6 * ms) as i64)),
            absent: ci95.is_none().then_some(NoInterval::TooFew),
        };
        MeasuredDelay { percent: Percent(percent), ns: 1e6 * ms, interval, bound_ns: 0.0 }
    }

    fn lost(ratio: f64, ci95: [f64; 2]) -> MeasuredLoss {
        MeasuredLoss { ratio, sent: 1000, interval: ShareInterval { ci95: Some(ci95), ..Default::default() } }
    }

    fn measured(p99: f64, p999: f64, ratio: f64) -> MeasuredQuality {
        let at = |percent, ms: f64| delay(percent, ms, Some([ms - 10.0, ms + 20.0]));
        MeasuredQuality {
            delay: Ok(vec![at(99_000, p99), at(99_900, p999)]),
            loss: Ok(lost(ratio, [ratio / 2.0, ratio * 2.0])),
            throughput: None,
            sent_ns: None,
        }
    }

    fn scored(measured: &MeasuredQuality) -> OutcomeScore {
        OutcomeScore::new(&requirements(), "the draft", measured)
    }

    #[test]
    fn the_example_of_the_draft() {
        // draft-ietf-ippm-qoo §3.4.
        let of = scored(&measured(350.0, 375.0, 0.02));
        let terms: Vec<f64> = of.delay.iter().map(|term| term.score).collect();
        assert_eq!(terms, [50.0, 75.0]);
        assert!((of.loss.as_ref().unwrap().score - 75.0).abs() < 1e-9);
        assert_eq!((of.score, of.refused), (Some(50.0), None));
        assert_eq!(of.delay[0].source, "the draft");
        // 370 and 340 ms are the ends of the interval that decides at its upper and at its lower end; twice the loss,
        // 4 %, scores 25.
        let [low, high] = of.ci95.unwrap();
        assert!((low - 25.0).abs() < 1e-9 && (high - 160.0 / 3.0).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn the_error_of_the_clocks_widens_the_interval() {
        let mut measured = measured(350.0, 300.0, 0.0);
        measured.delay.as_mut().unwrap().iter_mut().for_each(|delay| delay.bound_ns = 30e6);
        let of = scored(&measured);
        assert_eq!(of.delay[0].ci95_ns, Some([310e6, 400e6]));
        let [low, high] = of.ci95.unwrap();
        assert!((low - 100.0 / 3.0).abs() < 1e-9 && (high - 190.0 / 3.0).abs() < 1e-9, "{low} {high}");
        assert_eq!(of.score, Some(50.0));
    }

    #[test]
    fn a_score_is_refused_where_a_percentile_is_not_resolved() {
        let mut few = measured(350.0, 375.0, 0.02);
        few.delay.as_mut().unwrap()[0] = delay(99_000, 350.0, None);
        let of = scored(&few);
        assert_eq!((of.score, of.ci95), (None, None));
        let refused = of.refused.unwrap();
        assert_eq!(refused.reason, RefusalReason::PercentileNotResolved);
        assert_eq!(refused.text, "the 99th percentile needs 300 independent packets, and this test has 37");
        // The terms remain visible.
        assert_eq!((of.delay.len(), of.loss.is_some()), (2, true));
    }

    #[test]
    fn a_score_is_refused_where_delay_or_loss_is_unknown() {
        let unknown = Refusal::new(RefusalReason::ClockUnbounded, "no clock");
        let without = MeasuredQuality { delay: Err(unknown.clone()), ..measured(1.0, 1.0, 0.0) };
        assert_eq!(scored(&without).refused, Some(unknown));
        let hidden = Refusal::new(RefusalReason::LossUnknown, "TCP");
        let without = MeasuredQuality { loss: Err(hidden.clone()), ..measured(1.0, 1.0, 0.0) };
        assert_eq!((scored(&without).score, scored(&without).refused), (None, Some(hidden)));
        let none = MeasuredQuality { delay: Ok(Vec::new()), ..measured(1.0, 1.0, 0.0) };
        assert_eq!(scored(&none).refused.unwrap().reason, RefusalReason::NothingReceived);
    }

    #[test]
    fn loss_without_an_interval_leaves_the_score_without_one() {
        let event = |absent| MeasuredLoss {
            ratio: 0.0,
            sent: 300,
            interval: ShareInterval { absent: Some(absent), ..Default::default() },
        };
        let with =
            |absent| scored(&MeasuredQuality { loss: Ok(event(absent)), ..measured(200.0, 200.0, 0.0) }).ci95;
        assert_eq!(with(NoInterval::OneEvent), None);
        // None of 300 packets lost: up to 1 % may be, which is still optimal.
        let [low, high] = with(NoInterval::NoEvent).unwrap();
        assert!((low - 280.0 / 3.0).abs() < 1e-9 && high == 100.0, "{low} {high}");
    }

    #[test]
    fn throughput_counts_where_the_test_measured_it() {
        let mut video = requirements();
        video.throughput =
            Some(ThroughputRequirement { min_bps: 384e3, source: Cow::Borrowed("a standard") });
        let of = |throughput| {
            OutcomeScore::new(&video, "", &MeasuredQuality { throughput, ..measured(1.0, 1.0, 0.0) })
        };
        let rates = |sent_bps, received_bps| Some(MeasuredThroughput { sent_bps, received_bps });
        assert_eq!((of(rates(2e6, 384e3)).score, of(rates(2e6, 384e3)).left_out), (Some(100.0), None));
        assert_eq!((of(rates(2e6, 383e3)).score, of(rates(2e6, 383e3)).ci95), (Some(0.0), Some([0.0, 0.0])));
        let slow = of(rates(32e3, 32e3));
        assert_eq!((slow.score, slow.throughput.is_none()), (Some(100.0), true));
        assert_eq!(slow.left_out.unwrap(), "throughput of 384 kbps: not measured, the test sent 32.0 kbps");
        assert!(of(None).left_out.unwrap().ends_with("not measured"));
    }

    #[test]
    fn what_cannot_be_a_requirement_is_named() {
        let fault = |change: fn(&mut Requirements)| {
            let mut changed = requirements();
            change(&mut changed);
            changed.fault()
        };
        assert_eq!(fault(|_| ()), None);
        let begins = |fault: Option<&str>, text: &str| assert!(fault.unwrap().starts_with(text), "{fault:?}");
        begins(fault(|r| r.delay = Cow::Owned(vec![])), "qoo.delay needs");
        begins(fault(|r| r.delay.to_mut()[0].unacceptable_ms = 200.0), "qoo.delay: optimal_ms");
        begins(fault(|r| r.delay.to_mut()[0].optimal_ms = -1.0), "qoo.delay: optimal_ms");
        begins(fault(|r| r.delay.to_mut()[0].unacceptable_ms = f64::NAN), "qoo.delay: optimal_ms");
        begins(fault(|r| r.delay.to_mut()[0].percentile = 49.0), "qoo.delay: percentile");
        begins(fault(|r| r.delay.to_mut()[0].percentile = 99.0001), "qoo.delay: percentile");
        begins(fault(|r| r.delay.to_mut()[0].percentile = f64::NAN), "qoo.delay: percentile");
        begins(fault(|r| r.delay.to_mut()[0].percentile = 99.9), "qoo.delay names");
        begins(fault(|r| r.loss.unacceptable = 0.01), "qoo.loss");
        begins(fault(|r| r.loss.unacceptable = 1.1), "qoo.loss");
        let slow = |r: &mut Requirements| {
            r.throughput = Some(ThroughputRequirement { min_bps: 0.0, source: Cow::Borrowed("") });
        };
        begins(fault(slow), "qoo.throughput");
    }

    #[test]
    fn round_trips_may_take_twice_as_long() {
        let both = requirements().of_round_trips();
        assert_eq!((both.delay[0].optimal_ms, both.delay[1].unacceptable_ms), (400.0, 1200.0));
        assert!(
            (both.loss.optimal - 0.0199).abs() < 1e-12 && (both.loss.unacceptable - 0.0975).abs() < 1e-12
        );
        assert_eq!(both.fault(), None);
    }

    #[test]
    fn a_refusal_says_how_long_a_test_would_be_long_enough() {
        let mut short = measured(350.0, 300.0, 0.0);
        short.sent_ns = Some([0, 20_000_000_000]);
        let few = |n| QuantileInterval { effective_n: n, required_n: 300.0, ci95: None, absent: None };
        let refused = |n: Option<f64>| {
            let mut measured = short.clone();
            measured.delay.as_mut().unwrap()[0].interval = few(n);
            scored(&measured).refused.unwrap()
        };
        let of = refused(Some(40.0));
        assert_eq!(
            of.text,
            "the 99th percentile needs 300 independent packets, and this test has 40; about 3 min would be enough"
        );
        assert_eq!(of.enough_s, Some(150.0));
        for unknown in [None, Some(0.3), Some(1.0001e-3)] {
            let of = refused(unknown);
            assert!(of.enough_s.is_none() && !of.text.contains("about"), "{}", of.text);
        }
    }

    #[test]
    fn percentiles_have_their_ordinal() {
        let text = [98_000, 99_900, 91_000, 92_000, 93_000, 99_300, 99_120].map(|p| ordinal(Percent(p)));
        let ends = ["98th", "99.9th", "91st", "92nd", "93rd", "99.3rd", "99.12th"];
        let ends = ends.map(|p| format!("{p} percentile"));
        assert_eq!(text, ends);
    }

    proptest! {
        #[test]
        fn a_score_is_a_percentage_within_its_interval(
            p99 in -1e4..1e5f64, p999 in -1e4..1e5f64, ratio in 0.0..=1.0f64, bound in 0.0..1e9f64,
        ) {
            let mut measured = measured(p99, p999, ratio);
            measured.delay.as_mut().unwrap().iter_mut().for_each(|delay| delay.bound_ns = bound);
            let of = scored(&measured);
            let (score, [low, high]) = (of.score.unwrap(), of.ci95.unwrap());
            prop_assert!((0.0..=100.0).contains(&low) && low <= score && score <= high && high <= 100.0);
        }

        #[test]
        fn more_delay_or_loss_never_scores_higher(
            p99 in 0.0..1e3f64, p999 in 0.0..1e3f64, ratio in 0.0..0.1f64,
            later in 0.0..1e3f64, more in 0.0..0.1f64,
        ) {
            let before = scored(&measured(p99, p999, ratio)).score.unwrap();
            for worse in [
                measured(p99 + later, p999, ratio),
                measured(p99, p999 + later, ratio),
                measured(p99, p999, ratio + more),
            ] {
                prop_assert!(scored(&worse).score.unwrap() <= before);
            }
        }
    }
}

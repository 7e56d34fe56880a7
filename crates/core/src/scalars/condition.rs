//! [`ScalarCondition`]: a failure condition of `--fail-if`, such as `pdv-p99>30ms`, `host>=fair` or `qoo.voice<80`.

use super::{ExactNumber, Scalar, ScalarSource, ScalarUnit, Selector, UnknownScalar};
use crate::answer::Severity;
use crate::quantity::{self, QuantityError};
use crate::summary::Summary;
use core::fmt;
use core::str::FromStr;

/// A condition that is violated if a figure is above (or below) a threshold, or if a grade has at least a given severity.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalarCondition {
    limit: Limit,
    text: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Limit {
    Figure {
        selector: Selector,
        above: bool,
        threshold: f64,
    },
    /// Score for a profile that is not built in. The scores for the built-in ones are scalars.
    Score {
        profile: String,
        above: bool,
        threshold: f64,
    },
    Grade(GradeLimit),
}

/// Threshold of a condition on a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// Values above this violate the condition.
    Above(f64),
    /// Values below this violate the condition.
    Below(f64),
}

/// Beginning of the names of scores in conditions: `qoo.voice`.
const SCORE: &str = "qoo.";

/// Condition on a grade of an [`Answer`](crate::answer::Answer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GradeLimit {
    /// The grade.
    pub subject: GradeSubject,
    /// Least severity that violates the condition.
    pub least: Severity,
}

/// Grade to which a condition applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradeSubject {
    /// Grade of the path, `answer.severity`.
    Path,
    /// Grade of the hosts, `answer.host.severity`.
    Host,
}

impl GradeSubject {
    /// Returns the name of the grade in conditions.
    pub const fn name(self) -> &'static str {
        match self {
            GradeSubject::Path => "path",
            GradeSubject::Host => "host",
        }
    }

    /// Returns the grade with this name in conditions; the grade of the path is also called `verdict`. `None` if no
    /// grade has this name.
    pub fn named(name: &str) -> Option<GradeSubject> {
        match name {
            "path" | "verdict" => Some(GradeSubject::Path),
            "host" => Some(GradeSubject::Host),
            _ => None,
        }
    }

    /// Returns the grade in `summary`; unknown if it was not judged.
    pub fn of(self, summary: &Summary) -> Severity {
        let answer = summary.answer.as_ref();
        let severity = match self {
            GradeSubject::Path => answer.map(|answer| answer.severity),
            GradeSubject::Host => answer.and_then(|answer| answer.host.as_ref()).map(|host| host.severity),
        };
        severity.unwrap_or(Severity::Unknown)
    }
}

/// Error of parsing a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// The text has neither `<` nor `>`.
    #[error("'{0}' has neither < nor >; for example: loss>1%")]
    NoComparison(String),
    /// The scalar does not exist.
    #[error(transparent)]
    Scalar(#[from] UnknownScalar),
    /// The threshold is not a valid value of the figure.
    #[error(transparent)]
    Threshold(#[from] QuantityError),
    /// The condition on a grade does not have the form `host>=fair`.
    #[error("'{0}' is not a condition on a grade: write {1}>=fair, {1}>=poor or {1}>=bad")]
    Grade(String, &'static str),
}

/// Beginning of the keys of figures about marks.
const OF_MARKS: &str = "ecn-";

impl ScalarCondition {
    /// Returns a description of the violation in `summary`; `None` if there is none. An undefined figure and an
    /// unknown grade violate nothing.
    pub fn violated(&self, summary: &Summary) -> Option<String> {
        match &self.limit {
            Limit::Figure { selector, .. } => self.violated_by(selector.of(summary)?),
            Limit::Score { profile, above, threshold } => {
                let score = ScalarSource::Test(summary).qoo()?.profiles.get(profile)?.score?;
                let crossed = if *above { score > *threshold } else { score < *threshold };
                crossed.then(|| format!("{} ({SCORE}{profile} is {score:.1})", self.text))
            }
            Limit::Grade(limit) => self.violated_by_grade(limit.subject.of(summary)),
        }
    }

    /// Returns the reason why the condition's grade, score or figure of marks is unknown in `summary`; `None` if it is known, or if
    /// the condition is about another figure.
    pub fn undecided(&self, summary: &Summary) -> Option<String> {
        let (direction, profile) = match &self.limit {
            Limit::Figure { selector, .. } if selector.scalar.key.starts_with(OF_MARKS) => {
                let why = match ScalarSource::Test(summary).marks() {
                    None => "no packets with marks were sent (--ecn)",
                    Some(_) => "the packets of this test do not show it",
                };
                let is_unknown = selector.of(summary).is_none();
                return is_unknown.then(|| format!("{} cannot be decided: {why}", self.text));
            }
            Limit::Figure { selector, .. } => (selector.direction, selector.scalar.key.strip_prefix(SCORE)?),
            Limit::Score { profile, .. } => (None, profile.as_str()),
            Limit::Grade(grade) => return self.undecided_by(*grade, summary),
        };
        let scores = ScalarSource::of(summary, direction).and_then(|source| source.qoo());
        let why = match scores.map(|scores| (scores.profiles.get(profile), scores)) {
            None => "no scores were computed".to_owned(),
            Some((Some(score), _)) if score.score.is_some() => return None,
            Some((Some(score), _)) => score.refused.as_ref().map_or_else(String::new, |why| why.text.clone()),
            Some((None, scores)) => {
                let names: Vec<&str> = scores.profiles.keys().map(String::as_str).collect();
                format!("no profile '{profile}' with requirements was judged, but {}", names.join(", "))
            }
        };
        Some(format!("{} cannot be decided: {why}", self.text))
    }

    fn undecided_by(&self, grade: GradeLimit, summary: &Summary) -> Option<String> {
        let is_unknown = grade.subject.of(summary) == Severity::Unknown;
        is_unknown.then(|| {
            format!("{} cannot be decided: the grade of the {} is unknown", self.text, grade.subject.name())
        })
    }

    /// Returns the figure to which the condition applies; `None` if it is about a grade, or about the score for a profile
    /// that is not built in.
    pub fn selector(&self) -> Option<&Selector> {
        match &self.limit {
            Limit::Figure { selector, .. } => Some(selector),
            Limit::Score { .. } | Limit::Grade(_) => None,
        }
    }

    /// Returns the threshold in the unit in which the figure is stored, and the side on which the condition is violated;
    /// `None` if the condition is about a grade, or about the score for a profile that is not built in.
    pub fn threshold(&self) -> Option<Threshold> {
        match &self.limit {
            Limit::Figure { above, threshold, .. } if *above => Some(Threshold::Above(*threshold)),
            Limit::Figure { threshold, .. } => Some(Threshold::Below(*threshold)),
            Limit::Score { .. } | Limit::Grade(_) => None,
        }
    }

    /// Returns the grade to which the condition applies; `None` if it is about a figure.
    pub fn grade(&self) -> Option<GradeLimit> {
        match &self.limit {
            Limit::Figure { .. } | Limit::Score { .. } => None,
            Limit::Grade(limit) => Some(*limit),
        }
    }

    /// Returns a description of the violation if the figure has this value, in its unit; `None` if there is
    /// none, or if the condition is about a grade.
    pub fn violated_by(&self, value: ExactNumber) -> Option<String> {
        let Limit::Figure { selector, above, threshold } = &self.limit else { return None };
        let x = value.as_f64();
        let crossed = if *above { x > *threshold } else { x < *threshold };
        crossed.then(|| format!("{} ({selector} is {})", self.text, selector.scalar.show(value)))
    }

    /// Returns a description of the violation if the grade is this `severity`; `None` if there is none, or if the
    /// condition is about a figure.
    pub fn violated_by_grade(&self, severity: Severity) -> Option<String> {
        let limit = self.grade()?;
        let name = severity.name();
        (severity >= limit.least).then(|| format!("{} ({} is {name})", self.text, limit.subject.name()))
    }
}

impl Selector {
    /// Parses a value of the figure (`30ms`, `1%`, `3.8`) and converts it to the unit in which the figure is stored.
    ///
    /// # Errors
    ///
    /// [`QuantityError`] if the text does not have the figure's unit.
    pub fn threshold(&self, text: &str) -> Result<f64, QuantityError> {
        let text = text.trim();
        let number = plain_number;
        match self.scalar.unit {
            ScalarUnit::Share => match text.strip_suffix('%') {
                Some(percent) => Ok(number(percent)? / 100.0),
                None => Err(QuantityError::new(format!("'{text}' is not a percentage; for example: 1%"))),
            },
            ScalarUnit::Time => quantity::signed_time(text).map(|span| span.0 as f64),
            ScalarUnit::Bytes => quantity::bytes(text).map(|n| n as f64),
            ScalarUnit::PacketRate => number(text.strip_suffix("/s").unwrap_or(text)),
            ScalarUnit::BitRate => match quantity::rate(text)? {
                quantity::SendingRate::Bits(bits) => Ok(bits),
                quantity::SendingRate::Packets(_) => number(text),
            },
            ScalarUnit::Ppm => number(text.strip_suffix("ppm").unwrap_or(text)),
            ScalarUnit::Packets | ScalarUnit::Count | ScalarUnit::Plain { .. } => number(text),
        }
    }
}

impl FromStr for ScalarCondition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<ScalarCondition, ConditionError> {
        let at = text.find(['<', '>']).ok_or_else(|| ConditionError::NoComparison(text.to_owned()))?;
        let (name, above) = (text[..at].trim(), text.as_bytes()[at] == b'>');
        let limit = match GradeSubject::named(name) {
            Some(subject) => {
                let least = text[at..].strip_prefix(">=").and_then(|name| severity(name.trim()));
                let least = least.ok_or_else(|| ConditionError::Grade(text.to_owned(), subject.name()))?;
                Limit::Grade(GradeLimit { subject, least })
            }
            None if name.len() > SCORE.len() && name.starts_with(SCORE) && Scalar::named(name).is_none() => {
                let threshold = plain_number(&text[at + 1..])?;
                Limit::Score { profile: name[SCORE.len()..].to_owned(), above, threshold }
            }
            None => {
                let selector: Selector = name.parse()?;
                let threshold = selector.threshold(&text[at + 1..])?;
                Limit::Figure { selector, above, threshold }
            }
        };
        Ok(ScalarCondition { limit, text: text.to_owned() })
    }
}

fn plain_number(text: &str) -> Result<f64, QuantityError> {
    let value = text.trim().parse::<f64>().ok().filter(|v| v.is_finite());
    value.ok_or_else(|| QuantityError::new(format!("'{}' is not a number", text.trim())))
}

/// Parses the name of a severity that a condition may contain: any severity worse than good.
fn severity(name: &str) -> Option<Severity> {
    Severity::named(name).filter(|severity| *severity > Severity::Good)
}

impl fmt::Display for ScalarCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_exactly() {
        let read = |text: &str| {
            let c: ScalarCondition = text.parse().unwrap();
            match c.limit {
                Limit::Figure { selector, above, threshold } => (selector.to_string(), above, threshold),
                Limit::Grade(_) | Limit::Score { .. } => panic!("{text}"),
            }
        };
        assert_eq!(read("jitter-p99.9>30ms"), ("pdv-p99.9".into(), true, 30e6));
        assert_eq!(read("mos < 3.8"), ("mos".into(), false, 3.8));
        assert_eq!(read("loss>1%"), ("loss".into(), true, 0.01));
        assert_eq!(read("up-delay-p99>1ms"), ("up-latency-p99".into(), true, 1e6));
        assert_eq!(read("up-loss-run>3"), ("up-loss-run-longest".into(), true, 3.0));
        assert_eq!(read("latency-min<-5us"), ("latency-min".into(), false, -5000.0));
        assert_eq!(read("rx-throughput<64kbit"), ("rx-throughput".into(), false, 64_000.0));
        assert_eq!(read("rx-rate<49.5/s"), ("rx-rate".into(), false, 49.5));
        assert_eq!(read("skew>20ppm"), ("skew".into(), true, 20.0));
        assert_eq!(read("reorder-offset-max>1k"), ("reorder-offset-max".into(), true, 1024.0));
        for bad in [
            "loss",
            "loss>",
            "loss>1",
            "loss>x%",
            "jitter-p98>1ms",
            "speed>1",
            "latency-max>fast",
            ">1%",
            "mos>NaN",
            "rx-throughput<fast",
        ] {
            assert!(bad.parse::<ScalarCondition>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_condition_holds_beyond_its_threshold_only() {
        let mut summary = Summary::default();
        let violated =
            |summary: &Summary, text: &str| text.parse::<ScalarCondition>().unwrap().violated(summary);
        assert_eq!(violated(&summary, "loss>1%"), None, "undefined");
        summary.loss.ratio = Some(0.01);
        assert_eq!(violated(&summary, "loss>1%"), None);
        assert_eq!(violated(&summary, "loss<1%"), None);
        assert_eq!(violated(&summary, "loss>0.9%").as_deref(), Some("loss>0.9% (loss is 1.00%)"));
        assert_eq!(violated(&summary, "loss<1.1%").as_deref(), Some("loss<1.1% (loss is 1.00%)"));
    }

    #[test]
    fn a_condition_on_marks_is_undecided_if_none_were_sent_or_seen() {
        let of = |summary: &Summary| {
            let condition: ScalarCondition = "ecn-ce>1%".parse().unwrap();
            (condition.violated(summary), condition.undecided(summary))
        };
        let mut summary = Summary::default();
        let why = "ecn-ce>1% cannot be decided: no packets with marks were sent (--ecn)";
        assert_eq!(of(&summary), (None, Some(why.to_owned())));
        summary.marks = Some(Box::default());
        let why = "ecn-ce>1% cannot be decided: the packets of this test do not show it";
        assert_eq!(of(&summary), (None, Some(why.to_owned())));
    }

    #[test]
    fn a_condition_on_a_score_is_undecided_where_the_score_is_refused() {
        use crate::answer::Answer;
        use crate::metrics::qoo::{
            OutcomeScore, QualityOfOutcome, Refusal, RefusalReason, ScoredMeasurement,
        };
        let refused = Refusal::new(RefusalReason::ClockUnbounded, "the clocks do not bound the delay");
        let profiles = [
            ("voice", OutcomeScore { score: Some(79.6), ..OutcomeScore::default() }),
            ("gaming", OutcomeScore { refused: Some(refused), ..OutcomeScore::default() }),
            ("intercom", OutcomeScore { score: Some(12.0), ..OutcomeScore::default() }),
        ];
        let profiles = profiles.into_iter().map(|(name, score)| (name.to_owned(), score)).collect();
        let summary = Summary {
            answer: Some(Answer {
                complete: true,
                severity: Severity::Good,
                host: None,
                headline: String::new(),
                buffer_ns: None,
                causes: Vec::new(),
                profiles: Default::default(),
                qoo: Some(QualityOfOutcome { measurement: ScoredMeasurement::default(), profiles }),
                without_clock_step: None,
            }),
            ..Summary::default()
        };
        let of = |text: &str| {
            let condition: ScalarCondition = text.parse().unwrap();
            (condition.violated(&summary), condition.undecided(&summary))
        };
        let violated = |text: &str| (Some(text.to_owned()), None);
        assert_eq!(of("qoo.voice<80"), violated("qoo.voice<80 (qoo.voice is 79.6)"));
        assert_eq!(of("qoo.voice<79"), (None, None));
        assert_eq!(of("qoo.intercom<80"), violated("qoo.intercom<80 (qoo.intercom is 12.0)"));
        let (none, why) = of("qoo.gaming<80");
        assert_eq!(none, None);
        assert_eq!(why.unwrap(), "qoo.gaming<80 cannot be decided: the clocks do not bound the delay");
        let typo = of("qoo.vioce<80").1.unwrap();
        assert!(
            typo.ends_with("no profile 'vioce' with requirements was judged, but gaming, intercom, voice")
        );
        assert!(of("up-qoo.voice<80").1.unwrap().ends_with("no scores were computed"));
        for bad in ["qoo.<80", "qoo<80", "qoo.voice<good", "qoo.mine<good", "qoo.voice"] {
            assert!(bad.parse::<ScalarCondition>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_condition_on_a_grade_holds_from_that_severity_on() {
        use crate::answer::{Answer, HostGrade};
        let answer = |path, host: Option<Severity>| Summary {
            answer: Some(Answer {
                complete: true,
                severity: path,
                host: host.map(|severity| HostGrade { severity, causes: Vec::new() }),
                headline: String::new(),
                buffer_ns: None,
                causes: Vec::new(),
                profiles: Default::default(),
                qoo: None,
                without_clock_step: None,
            }),
            ..Summary::default()
        };
        let condition: ScalarCondition = "host>=fair".parse().unwrap();
        assert!(condition.selector().is_none());
        let of = |summary: &Summary| (condition.violated(summary), condition.undecided(summary).is_some());
        let violated = Some("host>=fair (host is poor)".to_owned());
        assert_eq!(of(&answer(Severity::Good, Some(Severity::Poor))), (violated, false));
        assert_eq!(of(&answer(Severity::Bad, Some(Severity::Good))), (None, false));
        assert_eq!(of(&answer(Severity::Bad, None)), (None, true), "unknown");
        assert_eq!(of(&Summary::default()), (None, true), "not judged");
        let path: ScalarCondition = " path >= poor".parse().unwrap();
        assert!(path.violated(&answer(Severity::Fair, None)).is_none());
        assert!(path.violated(&answer(Severity::Bad, None)).is_some());
        let verdict: ScalarCondition = "verdict>=poor".parse().unwrap();
        let said = verdict.violated(&answer(Severity::Bad, None));
        assert_eq!(said.as_deref(), Some("verdict>=poor (path is bad)"));
        for bad in ["host>fair", "host<=bad", "host>=good", "host>=unknown", "host>=3", "path>=", "host"] {
            let error = bad.parse::<ScalarCondition>().unwrap_err().to_string();
            assert!(error.contains(">=fair") || error.contains("neither"), "{error}");
        }
    }
}

//! [`Condition`]: what a result must not be.

use super::machine::TestResult;
use jitlat_core::scalars::{self, Number};
use jitlat_core::{Span, quantity};
use std::fmt;
use std::str::FromStr;

/// What a result must not be.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// A figure of a test crosses a threshold: `loss>1%`.
    Figure(scalars::Condition),
    /// A test differs from those before, whether better or worse: `changed`.
    Changed,
    /// A test is worse than those before: `worse`.
    Worse,
    /// There is no result for longer than this: `silent>15min`.
    Silent(Span),
}

/// A test compared with those of an earlier period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Whether it differs, beyond chance and what measurements may be wrong by.
    pub differs: bool,
    /// And is worse.
    pub is_worse: bool,
    /// The answer in words.
    pub sentence: String,
}

/// What a condition says of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is met: how.
    Met(String),
    /// It is not met.
    NotMet,
    /// The result has nothing that the condition is about.
    Unknown,
}

impl Condition {
    /// Whether a result meets it; `against` is the period that it is compared with.
    pub fn answer(&self, result: &TestResult, against: Span) -> Answer {
        let met = |text: Option<String>| text.map_or(Answer::NotMet, Answer::Met);
        match self {
            Condition::Figure(figure) => match result.figures.get(&figure.selector().to_string()) {
                Some(value) => met(figure.violated_by(Number::Real(*value))),
                None => Answer::Unknown,
            },
            Condition::Changed | Condition::Worse => {
                let Some((_, compared)) = result.compared.iter().find(|(span, _)| *span == against) else {
                    return Answer::Unknown;
                };
                let is_met = compared.differs && (compared.is_worse || *self == Condition::Changed);
                met(is_met.then(|| compared.sentence.clone()))
            }
            Condition::Silent(_) => Answer::Unknown,
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let text = text.trim();
        match text {
            "changed" => return Ok(Condition::Changed),
            "worse" => return Ok(Condition::Worse),
            "silent" => return Err("how long is silent? Write silent>15min".to_owned()),
            _ => {}
        }
        if let Some(time) = text.strip_prefix("silent").and_then(|rest| rest.trim_start().strip_prefix('>')) {
            return quantity::duration(time.trim()).map(Condition::Silent).map_err(|e| e.to_string());
        }
        if !text.contains(['<', '>']) {
            return Err(format!(
                "'{}' is no condition: write loss>1%, pdv-p99>30ms, changed, worse or silent>15min",
                text.escape_debug()
            ));
        }
        text.parse().map(Condition::Figure).map_err(|e: scalars::ConditionError| e.to_string())
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Figure(figure) => figure.fmt(f),
            Condition::Changed => f.write_str("changed"),
            Condition::Worse => f.write_str("worse"),
            Condition::Silent(time) => write!(f, "silent>{}", crate::file::text_of(time.0)),
        }
    }
}

//! [`AlertCondition`]: a condition that makes a result bad.

use super::machine::TestResult;
use jitlat_core::answer::Severity;
use jitlat_core::scalars::{self, ExactNumber};
use jitlat_core::{Span, quantity};
use std::fmt;
use std::str::FromStr;

/// A condition that makes a result bad.
#[derive(Clone, Debug, PartialEq)]
pub enum AlertCondition {
    /// A figure of a test exceeds or falls below a threshold, or a grade is at least this severe: `loss>1%`,
    /// `host>=fair`.
    Figure(scalars::ScalarCondition),
    /// A test differs from earlier ones, for better or worse: `changed`.
    Changed,
    /// A test is worse than earlier ones: `worse`.
    Worse,
    /// The route differs from the one before: `route-changed`.
    RouteChanged,
    /// No result arrived for longer than the given time: `silent>15min`.
    Silent(Span),
}

/// Comparison of a test with those of an earlier period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestComparison {
    /// True if the difference exceeds chance and measurement errors.
    pub differs: bool,
    /// True if the test is worse than the earlier ones.
    pub is_worse: bool,
    /// Description of the difference.
    pub sentence: String,
}

/// Result of applying a condition to a test result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionResult {
    /// The condition is met; the text gives the details.
    Met(String),
    /// The condition is not met.
    NotMet,
    /// The result lacks the figures that the condition needs.
    Unknown,
}

impl AlertCondition {
    /// Applies the condition to a result; `against` is the length of the period that the result is compared with.
    pub fn answer(&self, result: &TestResult, against: Span) -> ConditionResult {
        let met = |text: Option<String>| text.map_or(ConditionResult::NotMet, ConditionResult::Met);
        match self {
            AlertCondition::Figure(condition) => {
                let Some(selector) = condition.selector() else {
                    return match condition.grade().map(|limit| result.grade(limit.subject)) {
                        None | Some(Severity::Unknown) => ConditionResult::Unknown,
                        Some(severity) => met(condition.violated_by_grade(severity)),
                    };
                };
                match result.figures.get(&selector.to_string()) {
                    Some(value) => met(condition.violated_by(ExactNumber::Real(*value))),
                    None => ConditionResult::Unknown,
                }
            }
            AlertCondition::Changed | AlertCondition::Worse => {
                let Some((_, compared)) = result.compared.iter().find(|(span, _)| *span == against) else {
                    return ConditionResult::Unknown;
                };
                let is_met = compared.differs && (compared.is_worse || *self == AlertCondition::Changed);
                met(is_met.then(|| compared.sentence.clone()))
            }
            AlertCondition::RouteChanged => match &result.route {
                None => ConditionResult::Unknown,
                Some(change) => met(change.clone()),
            },
            AlertCondition::Silent(_) => ConditionResult::Unknown,
        }
    }
}

impl FromStr for AlertCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<AlertCondition, String> {
        let text = text.trim();
        match text {
            "changed" => return Ok(AlertCondition::Changed),
            "worse" => return Ok(AlertCondition::Worse),
            "route-changed" => return Ok(AlertCondition::RouteChanged),
            "silent" => return Err("silent needs a time: write silent>15min".to_owned()),
            _ => {}
        }
        if let Some(time) = text.strip_prefix("silent").and_then(|rest| rest.trim_start().strip_prefix('>')) {
            return quantity::duration(time.trim()).map(AlertCondition::Silent).map_err(|e| e.to_string());
        }
        if !text.contains(['<', '>']) {
            return Err(format!(
                "'{}' is not a condition: write loss>1%, pdv-p99>30ms, verdict>=poor, changed, worse, silent>15min or route-changed",
                text.escape_debug()
            ));
        }
        let condition: scalars::ScalarCondition =
            text.parse().map_err(|e: scalars::ConditionError| e.to_string())?;
        if condition.selector().is_none() && condition.grade().is_none() {
            return Err(format!(
                "'{}': alerts know the scores of built-in profiles only",
                text.escape_debug()
            ));
        }
        Ok(AlertCondition::Figure(condition))
    }
}

impl fmt::Display for AlertCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AlertCondition::Figure(figure) => figure.fmt(f),
            AlertCondition::Changed => f.write_str("changed"),
            AlertCondition::Worse => f.write_str("worse"),
            AlertCondition::RouteChanged => f.write_str("route-changed"),
            AlertCondition::Silent(time) => write!(f, "silent>{}", crate::file::text_of(time.0)),
        }
    }
}

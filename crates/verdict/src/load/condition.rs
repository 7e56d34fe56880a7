//! [`LoadCondition`]: a failure condition on the effect of a load, such as `load.grade>B` or `up-load.added-p99>30ms`.

use super::{BufferbloatGrade, LoadEffect, LoadState};
use jitlat_core::quantity::{self, QuantityError};
use jitlat_core::spec::Direction;
use jitlat_core::units::eng4_f64;
use std::fmt;
use std::str::FromStr;

/// Prefix of the names of figures in conditions, as in `load.grade`.
const LOAD: &str = "load.";

/// A condition that is violated if the bufferbloat grade is worse than a limit, or if the added delay crosses a
/// threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadCondition {
    limit: Limit,
    /// Direction to which the condition applies; `None` for all directions that had a load.
    direction: Option<Direction>,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// Best grade that violates the condition.
    Grade(BufferbloatGrade),
    Added {
        figure: AddedFigure,
        above: bool,
        threshold_ns: f64,
    },
}

/// A figure of the added delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddedFigure {
    Mean,
    Median,
    P99,
}

impl AddedFigure {
    const ALL: [AddedFigure; 3] = [AddedFigure::Mean, AddedFigure::Median, AddedFigure::P99];

    const fn name(self) -> &'static str {
        match self {
            AddedFigure::Mean => "added-mean",
            AddedFigure::Median => "added-median",
            AddedFigure::P99 => "added-p99",
        }
    }

    fn of(self, effect: &LoadEffect) -> Option<f64> {
        let added = effect.added.as_ref()?;
        Some(match self {
            AddedFigure::Mean => added.mean_ns,
            AddedFigure::Median => added.median_ns,
            AddedFigure::P99 => added.p99_ns,
        })
    }
}

/// Error of parsing a condition on the effect of a load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadConditionError {
    /// The text has neither `<` nor `>`.
    #[error("'{0}' has neither < nor >; for example: load.grade>B")]
    NoComparison(String),
    /// The figure does not exist.
    #[error(
        "'{0}' is not a figure of a load: write load.grade, load.added-mean, load.added-median or load.added-p99"
    )]
    Figure(String),
    /// The limit is not one of the grades, or no grade can violate the condition.
    #[error(
        "'{0}' is not a condition on a grade: write load.grade>A, load.grade>B, load.grade>C or load.grade>D"
    )]
    Grade(String),
    /// The threshold is not a time.
    #[error(transparent)]
    Threshold(#[from] QuantityError),
}

/// Outcome of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadDecision {
    /// The condition is not violated.
    Met,
    /// The condition is violated; the text describes how.
    Violated(String),
    /// The figure is unknown; the text states why.
    Undecided(String),
}

impl LoadCondition {
    /// Returns true if `text` is a condition on the effect of a load rather than on a figure of a test.
    pub fn is_meant(text: &str) -> bool {
        split(text).1.starts_with(LOAD)
    }

    /// Decides the condition from the effect in each direction; for round trips, the direction is `None`.
    pub fn decide(&self, effects: &[(Option<Direction>, &LoadEffect)]) -> LoadDecision {
        let wanted = |direction: &Option<Direction>| self.direction.is_none() || *direction == self.direction;
        let mut measured: Vec<_> = effects.iter().filter(|(direction, _)| wanted(direction)).collect();
        // A load in one direction says nothing about the other one, unless the condition names that.
        if measured.iter().any(|(_, effect)| effect.state != LoadState::OtherDirection) {
            measured.retain(|(_, effect)| effect.state != LoadState::OtherDirection);
        }
        if measured.is_empty() {
            return self.undecided(match effects {
                [] => "the test had no load",
                [(None, _)] => "a round trip has both directions",
                _ => "the test did not measure this direction",
            });
        }
        let mut decision = LoadDecision::Met;
        for (direction, effect) in measured {
            let of = direction.filter(|_| effects.len() > 1).map_or("", prefix);
            match self.of_effect(of, effect) {
                LoadDecision::Met => {}
                violated @ LoadDecision::Violated(_) => return violated,
                undecided => decision = undecided,
            }
        }
        decision
    }

    /// Decides the condition from the effect in one direction. `of` is the prefix of the direction in the text of the
    /// decision.
    fn of_effect(&self, of: &str, effect: &LoadEffect) -> LoadDecision {
        let violated = match self.limit {
            Limit::Grade(least) => effect.grade.map(|graded| {
                (graded.grade >= least).then(|| format!("{of}{LOAD}grade is {}", graded.grade.name()))
            }),
            Limit::Added { figure, above, threshold_ns } => figure.of(effect).map(|ns| {
                let crossed = if above { ns > threshold_ns } else { ns < threshold_ns };
                crossed.then(|| format!("{of}{LOAD}{} is {}", figure.name(), eng4_f64(ns)))
            }),
        };
        match violated {
            Some(None) => LoadDecision::Met,
            Some(Some(value)) => LoadDecision::Violated(format!("{} ({value})", self.text)),
            None => self.undecided(effect.no_grade.as_deref().unwrap_or("no packets arrived")),
        }
    }

    fn undecided(&self, why: &str) -> LoadDecision {
        LoadDecision::Undecided(format!("{} cannot be decided: {why}", self.text))
    }
}

/// Separates the direction from the rest of a condition.
fn split(text: &str) -> (Option<Direction>, &str) {
    let text = text.trim();
    let of = |direction| Some((Some(direction), text.strip_prefix(prefix(direction))?));
    [Direction::Up, Direction::Down].into_iter().find_map(of).unwrap_or((None, text))
}

const fn prefix(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up-",
        Direction::Down => "down-",
    }
}

impl FromStr for LoadCondition {
    type Err = LoadConditionError;

    fn from_str(text: &str) -> Result<LoadCondition, LoadConditionError> {
        let (direction, condition) = split(text);
        let no_comparison = || LoadConditionError::NoComparison(text.to_owned());
        let at = condition.find(['<', '>']).ok_or_else(no_comparison)?;
        let (name, comparison) = (condition[..at].trim(), &condition[at..]);
        let figure = name.strip_prefix(LOAD).unwrap_or(name);
        let limit = match AddedFigure::ALL.into_iter().find(|added| added.name() == figure) {
            Some(figure) => {
                let threshold_ns = quantity::signed_time(comparison[1..].trim())?.0 as f64;
                Limit::Added { figure, above: comparison.starts_with('>'), threshold_ns }
            }
            None if figure == "grade" => {
                let least = worse(comparison).ok_or_else(|| LoadConditionError::Grade(text.to_owned()))?;
                Limit::Grade(least)
            }
            None => return Err(LoadConditionError::Figure(name.to_owned())),
        };
        Ok(LoadCondition { limit, direction, text: text.trim().to_owned() })
    }
}

/// Parses `>B` or `>=C`, and returns the best grade in that range: C for both. `None` for another comparison, or if the
/// range contains no grade or all grades.
fn worse(comparison: &str) -> Option<BufferbloatGrade> {
    let comparison = comparison.strip_prefix('>')?;
    let (inclusive, name) = match comparison.strip_prefix('=') {
        Some(name) => (true, name),
        None => (false, comparison),
    };
    let at = BufferbloatGrade::ALL.iter().position(|grade| grade.name() == name.trim())?;
    BufferbloatGrade::ALL[1..].get(if inclusive { at.checked_sub(1)? } else { at }).copied()
}

impl fmt::Display for LoadCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

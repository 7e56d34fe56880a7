//! Outcome of comparing two runs.

mod answer;

pub use crate::sentences::comparison::{
    change, confidence, effect, figure_line, headline, margins, of_load, outcome, p_value, points, sentence,
    signed, statement, tail, why,
};
pub use answer::{SideChange, answer, level, new_causes};

use crate::compare::comparison::{ComparedFigure, Comparison, ComparisonOutcome, Effect, Statistic};
use crate::sentences::comparison::{OutcomeReason, reason};

/// Returns the conclusion about one figure from its interval, which the error of the measurement widens.
///
/// A loss that differs is reported whatever its size; a time that differs by less than the margin counts as the same.
pub(crate) fn conclude(figure: &ComparedFigure) -> ComparisonOutcome {
    let Some([low, high]) = figure.bounds().filter(|ends| ends.iter().all(|x| x.is_finite())) else {
        return ComparisonOutcome::Undecided;
    };
    let (excludes_0, within) = (low > 0.0 || high < 0.0, low >= -figure.margin && high <= figure.margin);
    match (excludes_0, within) {
        (true, true) if figure.statistic.is_some() => ComparisonOutcome::Same,
        (true, _) => ComparisonOutcome::Different,
        (false, true) => ComparisonOutcome::Same,
        (false, false) => ComparisonOutcome::Undecided,
    }
}

/// Returns the outcome of a comparison, which is that of the `chosen` statistic, and the reason as a clause.
pub(crate) fn decide(c: &Comparison, chosen: Option<&ComparedFigure>) -> (ComparisonOutcome, String) {
    let vital: Vec<&str> = c.unlike.iter().filter(|u| u.what.is_vital()).map(|u| u.text.as_str()).collect();
    if !vital.is_empty() {
        return (ComparisonOutcome::Refused, vital.join("; "));
    }
    let outcome = chosen.map_or(ComparisonOutcome::Undecided, |figure| figure.outcome);
    (outcome, reason(c, because(c, chosen)))
}

/// Returns the reason for the outcome of `chosen`.
fn because(c: &Comparison, chosen: Option<&ComparedFigure>) -> OutcomeReason {
    if c.floor.is_infinite() {
        return OutcomeReason::ClocksUnknown;
    }
    let Some(figure) = chosen.filter(|_| !c.n.contains(&0)) else { return OutcomeReason::NoPackets };
    let Some([low, high]) = figure.interval else { return OutcomeReason::TooFewPackets };
    match figure.outcome {
        ComparisonOutcome::Same => OutcomeReason::WithinMargin([low, high], figure.margin),
        ComparisonOutcome::Different => match (c.tail, c.effect.zip(c.cliffs_delta)) {
            (Some(tail), _) if c.statistic == Statistic::P99 => OutcomeReason::BeyondInTail(tail),
            (_, Some((effect, delta))) => OutcomeReason::Beyond(effect, delta),
            _ => OutcomeReason::Beyond(Effect::Negligible, 0.0),
        },
        _ if low > 0.0 || high < 0.0 => OutcomeReason::WithinError,
        _ => OutcomeReason::Possible(figure.largest().unwrap_or(f64::INFINITY)),
    }
}

#[cfg(test)]
mod tests;

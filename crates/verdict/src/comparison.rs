//! Outcome of comparing two runs.

mod answer;

pub use crate::sentences::comparison::{change, effect, of_load, outcome, p_value, points, sentence, signed};
pub(crate) use answer::loss_difference;
pub use answer::{SideChange, answer, level, new_causes};

use crate::compare::comparison::{Comparison, ComparisonOutcome, Difference, Effect};
use crate::sentences::comparison::{OutcomeReason, reason};

/// Minimum Cliff's delta of an effect that is not negligible.
const MIN_EFFECT: f64 = 0.147;

/// Returns the outcome of a comparison, and the reason as a clause.
pub(crate) fn decide(c: &Comparison) -> (ComparisonOutcome, String) {
    let vital: Vec<&str> = c.unlike.iter().filter(|u| u.what.is_vital()).map(|u| u.text.as_str()).collect();
    if !vital.is_empty() {
        return (ComparisonOutcome::Refused, vital.join("; "));
    }
    let (outcome, because) = decide_comparable(c);
    (outcome, reason(because))
}

/// Returns the outcome for two runs that measure the same quantity, and its reason.
fn decide_comparable(c: &Comparison) -> (ComparisonOutcome, OutcomeReason) {
    if c.floor.is_infinite() {
        return (ComparisonOutcome::Undecided, OutcomeReason::ClocksUnknown);
    }
    let known = c.chosen().zip(c.cliffs_delta.zip(c.cliffs_delta_error));
    let Some((Difference { change, ci95: Some([low, high]) }, (delta, error))) = known else {
        let because = match c.n {
            [0, _] | [_, 0] => OutcomeReason::NoPackets,
            _ => OutcomeReason::TooFewPackets,
        };
        return (ComparisonOutcome::Undecided, because);
    };
    if low <= 0.0 && high >= 0.0 {
        return (ComparisonOutcome::Same, OutcomeReason::WithinInterval);
    }
    if delta.abs() + error < MIN_EFFECT {
        return (ComparisonOutcome::Same, OutcomeReason::Negligible(delta));
    }
    if delta.abs() - error < MIN_EFFECT {
        return (ComparisonOutcome::Undecided, OutcomeReason::PerhapsNegligible(delta, error));
    }
    if change.abs() <= c.floor {
        return (ComparisonOutcome::Undecided, OutcomeReason::WithinError);
    }
    let effect = c.effect.filter(|e| *e > Effect::Small).unwrap_or(Effect::Small);
    (ComparisonOutcome::Different, OutcomeReason::Beyond(effect, delta))
}

#[cfg(test)]
mod tests;

//! The conclusion about a difference between runs, and its wording.

mod answer;

pub use answer::{SideChange, answer, level, new_causes};

use crate::compare::comparison::{Comparison, ComparisonOutcome, Difference, Effect, Statistic};
use jitlat_core::answer::Level;
use jitlat_core::units::eng4_f64;

/// How reliable a difference is, and why.
pub(crate) fn decide(c: &Comparison) -> (ComparisonOutcome, String) {
    let vital: Vec<&str> = c.unlike.iter().filter(|u| u.what.is_vital()).map(|u| u.text.as_str()).collect();
    if !vital.is_empty() {
        return (ComparisonOutcome::Refused, vital.join("; "));
    }
    if c.floor.is_infinite() {
        return (ComparisonOutcome::Undecided, "nothing is known of how the clocks of the two relate".into());
    }
    let known = c.chosen().zip(c.cliffs_delta.zip(c.cliffs_delta_error));
    let Some((Difference { change, ci95: Some([low, high]) }, (delta, error))) = known else {
        let because = match c.n {
            [0, _] | [_, 0] => {
                "one of the two has no packets to look at: nothing arrived, or only a summary is known that \
                 says too little (of an older version, in constant memory, or of several runs): give its log"
            }
            _ => "too few packets to tell change from chance",
        };
        return (ComparisonOutcome::Undecided, because.into());
    };
    if low <= 0.0 && high >= 0.0 {
        return (ComparisonOutcome::Same, "the interval of the change contains 0".into());
    }
    if delta.abs() + error < 0.147 {
        return (
            ComparisonOutcome::Same,
            format!("the change is certain but negligible (Cliff's delta {delta:.3})"),
        );
    }
    if delta.abs() - error < 0.147 {
        let because = format!(
            "the change is certain, but the summaries do not tell whether it is negligible (Cliff's delta \
             {delta:.3}, give or take {error:.3}): give the logs"
        );
        return (ComparisonOutcome::Undecided, because);
    }
    if change.abs() <= c.floor {
        let because = "the change is smaller than what the measurements may be wrong by";
        return (ComparisonOutcome::Undecided, because.into());
    }
    let effect = match c.effect {
        Some(Effect::Large) => "large",
        Some(Effect::Medium) => "medium",
        _ => "small",
    };
    (
        ComparisonOutcome::Different,
        format!("the change is beyond chance and its effect {effect} (Cliff's delta {delta:.3})"),
    )
}

/// The conclusion as one sentence.
pub fn sentence(c: &Comparison) -> String {
    let what = c.basis.noun();
    let by = match c.statistic {
        Statistic::Median => "at the median",
        Statistic::P99 => "at the 99th percentile",
    };
    match (c.outcome, c.chosen()) {
        (ComparisonOutcome::Different, Some(d)) => {
            let more = if d.change > 0.0 { "more" } else { "less" };
            format!(
                "{} has {} {more} {what} {by} than {}: {}.",
                c.b,
                eng4_f64(d.change.abs()),
                c.a,
                c.because
            )
        }
        (ComparisonOutcome::Same | ComparisonOutcome::Different, _) => {
            format!("No difference in {what} worth the name was found {by}: {}.", c.because)
        }
        (ComparisonOutcome::Undecided, _) => {
            format!("It is not clear whether they differ in {what} {by}: {}.", c.because)
        }
        (ComparisonOutcome::Refused, _) => format!("Not compared: {}.", c.because),
    }
}

/// The word for an outcome.
pub fn outcome(c: &Comparison) -> &'static str {
    match c.outcome {
        ComparisonOutcome::Different if c.is_worse() => "worse",
        ComparisonOutcome::Different => "better",
        ComparisonOutcome::Same => "same",
        ComparisonOutcome::Undecided => "undecided",
        ComparisonOutcome::Refused => "refused",
    }
}

/// The word for an effect.
pub fn effect(e: Effect) -> &'static str {
    match e {
        Effect::Negligible => "negligible",
        Effect::Small => "small",
        Effect::Medium => "medium",
        Effect::Large => "large",
    }
}

/// `-1.584 s, between -1.612 s and -1.552 s with 95% confidence`.
pub fn change(d: &Difference) -> String {
    let ci =
        d.ci95.map(|[lo, hi]| format!(", between {} and {} with 95% confidence", signed(lo), signed(hi)));
    format!("{}{}", signed(d.change), ci.unwrap_or_default())
}

/// A change of time with its sign.
pub fn signed(ns: f64) -> String {
    let text = eng4_f64(ns);
    if ns > 0.0 { format!("+{text}") } else { text }
}

/// The same of ratios, in percentage points.
pub fn points(d: &Difference) -> String {
    let p = |x: f64| format!("{:+.3}", x * 100.0);
    let ci = d.ci95.map(|[lo, hi]| format!(", between {} and {} with 95% confidence", p(lo), p(hi)));
    format!("{} percentage points{}", p(d.change), ci.unwrap_or_default())
}

/// `p = 0.0729`; what is too small to mean anything is not written out.
pub fn p_value(p: f64) -> String {
    match p {
        p if p < 1e-6 => "p < 0.000001".to_owned(),
        p if p < 1e-3 => format!("p = {p:.6}"),
        _ => format!("p = {p:.4}"),
    }
}

/// What a load does to a path, idle against loaded, and how that looks.
pub fn of_load(c: &Comparison) -> (Level, String) {
    let (level, text) = match c.outcome {
        ComparisonOutcome::Different => (Level::Note, "The load makes a difference"),
        ComparisonOutcome::Same => (Level::Good, "The load makes no difference worth the name"),
        ComparisonOutcome::Undecided | ComparisonOutcome::Refused => (Level::Note, "Not decided"),
    };
    (level, format!("{text}: {}.", c.because))
}

#[cfg(test)]
mod tests;

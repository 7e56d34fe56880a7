//! Sentences about comparisons of runs.

use super::numbers::{count, percent, time};
use crate::compare::comparison::{Comparison, ComparisonOutcome, Difference, Effect, Statistic};
use crate::comparison::{SideChange, loss_difference};
use jitlat_core::answer::Level;
use jitlat_core::units::eng3;

/// Reason for the outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OutcomeReason {
    /// The clock offset of one side is unknown.
    ClocksUnknown,
    /// One side has neither packets nor a sufficient summary.
    NoPackets,
    /// There are too few packets.
    TooFewPackets,
    /// The interval of the change contains 0.
    WithinInterval,
    /// The change is certain but negligible; contains Cliff's delta.
    Negligible(f64),
    /// The change is certain, but the summaries do not show whether it is negligible; contains Cliff's delta and its
    /// error.
    PerhapsNegligible(f64, f64),
    /// The change is smaller than the measurement error.
    WithinError,
    /// The change is certain and relevant; contains the effect size and Cliff's delta.
    Beyond(Effect, f64),
}

/// Returns the reason as a clause.
pub fn reason(reason: OutcomeReason) -> String {
    match reason {
        OutcomeReason::ClocksUnknown => "the clock offset of at least one run is unknown".to_owned(),
        OutcomeReason::NoPackets => {
            "one of the two has no packets: nothing arrived, or its summary lacks the distribution (written by an older \
             version, in constant memory, or for several runs); compare its log instead"
                .to_owned()
        }
        OutcomeReason::TooFewPackets => "too few packets to distinguish a change from chance".to_owned(),
        OutcomeReason::WithinInterval => "the 95 % interval of the change contains 0".to_owned(),
        OutcomeReason::Negligible(delta) => {
            format!("the change is certain but negligible (Cliff's delta {delta:.3})")
        }
        OutcomeReason::PerhapsNegligible(delta, error) => format!(
            "the change is certain, but the summaries do not show whether it is negligible (Cliff's delta {delta:.3} +/- \
             {error:.3}); give the logs"
        ),
        OutcomeReason::WithinError => "the change is smaller than the error of the measurements".to_owned(),
        OutcomeReason::Beyond(size, delta) => {
            format!("the change is beyond chance, with a {} effect (Cliff's delta {delta:.3})", effect(size))
        }
    }
}

/// Returns the name of an effect size.
pub fn effect(e: Effect) -> &'static str {
    match e {
        Effect::Negligible => "negligible",
        Effect::Small => "small",
        Effect::Medium => "medium",
        Effect::Large => "large",
    }
}

/// Returns the name of the outcome of `c`.
pub fn outcome(c: &Comparison) -> &'static str {
    match c.outcome {
        ComparisonOutcome::Different if c.is_worse() => "worse",
        ComparisonOutcome::Different => "better",
        ComparisonOutcome::Same => "same",
        ComparisonOutcome::Undecided => "undecided",
        ComparisonOutcome::Refused => "refused",
    }
}

/// Returns the conclusion about jitter or delay as one sentence.
pub fn sentence(c: &Comparison) -> String {
    let what = figure(c);
    match (c.outcome, c.chosen()) {
        (ComparisonOutcome::Different, Some(d)) => {
            format!(
                "{} has {} {} {what} than {}: {}.",
                c.b,
                eng3(d.change.abs()),
                more(d.change),
                c.a,
                c.because
            )
        }
        (ComparisonOutcome::Same | ComparisonOutcome::Different, _) => {
            format!("No relevant difference in {what}: {}.", c.because)
        }
        (ComparisonOutcome::Undecided, _) => {
            format!("Undecided whether {what} differs: {}.", c.because)
        }
        (ComparisonOutcome::Refused, _) => format!("Not compared: {}.", c.because),
    }
}

/// Formats a difference of times: `-1.58 s (95 % interval -1.61 s to -1.55 s)`.
pub fn change(d: &Difference) -> String {
    let interval = d.ci95.map(|[low, high]| format!(" (95 % interval {} to {})", signed(low), signed(high)));
    format!("{}{}", signed(d.change), interval.unwrap_or_default())
}

/// Formats a change of a time, given in ns, with its sign.
pub fn signed(ns: f64) -> String {
    let text = eng3(ns);
    if ns > 0.0 { format!("+{text}") } else { text }
}

/// Formats the change of a ratio in percentage points.
pub fn points(d: &Difference) -> String {
    let p = |x: f64| format!("{:+.2}", x * 100.0);
    let interval = d.ci95.map(|[low, high]| format!(" (95 % interval {} to {})", p(low), p(high)));
    format!("{} percentage points{}", p(d.change), interval.unwrap_or_default())
}

/// Formats a p-value: `p = 0.0729`. A value below a millionth is formatted as a bound.
pub fn p_value(p: f64) -> String {
    match p {
        p if p < 1e-6 => "p < 0.000001".to_owned(),
        p if p < 1e-3 => format!("p = {p:.6}"),
        _ => format!("p = {p:.4}"),
    }
}

/// Returns the level and the description of the effect of a load on a path, derived from a comparison of the loaded
/// with the idle path.
pub fn of_load(c: &Comparison) -> (Level, String) {
    let (level, text) = match c.outcome {
        ComparisonOutcome::Different => (Level::Note, "The load makes a difference"),
        ComparisonOutcome::Same => (Level::Good, "The load makes no relevant difference"),
        ComparisonOutcome::Undecided | ComparisonOutcome::Refused => (Level::Note, "Undecided"),
    };
    (level, format!("{text}: {}.", c.because))
}

fn more(change: f64) -> &'static str {
    if change > 0.0 { "more" } else { "less" }
}

/// Returns the name of the compared figure: `jitter at the median`.
fn figure(c: &Comparison) -> String {
    let at = match c.statistic {
        Statistic::Median => "at the median",
        Statistic::P99 => "at the 99th percentile",
    };
    format!("{} {at}", c.basis.noun())
}

/// Returns the differences: `97 ms more jitter at the median (95 ms to 99 ms)`, `1.2 percentage points more loss`; empty if
/// nothing differs.
fn differences(c: &Comparison) -> Vec<String> {
    let size = |ci: [f64; 2]| {
        let [low, high] = ci.map(f64::abs);
        [low.min(high), low.max(high)]
    };
    let mut all = Vec::new();
    if let Some(d) = c.chosen().filter(|_| c.outcome == ComparisonOutcome::Different) {
        let ci = d.ci95.map(size).map(|[low, high]| format!(" ({} to {})", time(low), time(high)));
        let ci = ci.unwrap_or_default();
        all.push(format!("{} {} {}{ci}", time(d.change.abs()), more(d.change), figure(c)));
    }
    if let Some(d) = loss_difference(c).filter(|_| c.outcome != ComparisonOutcome::Refused) {
        let points = percent(d.change.abs()).replace(" %", " percentage points");
        all.push(format!("{points} {} loss", more(d.change)));
    }
    all
}

/// Returns the headline of one comparison.
pub fn headline(c: &Comparison) -> String {
    let different = differences(c);
    let name = match SideChange::of(c) {
        SideChange::Worse => "Worse",
        SideChange::Better => "Better",
        SideChange::Mixed => "Mixed",
        SideChange::Same => return format!("Same: no difference in {}: {}.", figure(c), c.because),
        SideChange::Undecided => {
            return format!("Undecided whether {} differs: {}.", figure(c), c.because);
        }
        SideChange::Refused => return format!("Not compared: {}.", c.because),
    };
    format!("{name}: {} has {} than {}, beyond chance.", c.b, different.join(" and "), c.a)
}

/// Headline of a comparison without any pair of runs.
pub const NOTHING_COMPARED: &str = "Nothing was compared.";

/// Returns the headline of several comparisons, each with the name of its row. If `in_order` is true, they are
/// successive steps of one row, so the first step of a lasting change can be named.
pub fn headline_of_several(all: &[(&str, &Comparison)], in_order: bool) -> String {
    let with = |change: SideChange| -> Vec<&(&str, &Comparison)> {
        all.iter().filter(|(_, c)| SideChange::of(c) == change).collect()
    };
    let groups = [SideChange::Worse, SideChange::Better, SideChange::Mixed].map(with);
    let Some(most) = groups.iter().find(|group| !group.is_empty()) else {
        let undecided = with(SideChange::Undecided).len() + with(SideChange::Refused).len();
        let c = all[0].1;
        return match undecided {
            0 => format!(
                "Same: none of {} differs from {} in {} beyond chance.",
                count(all.len() as u64, "run"),
                c.a,
                figure(c)
            ),
            n => format!(
                "Undecided: {n} of {} with {} cannot be decided, and the others show no difference.",
                count(all.len() as u64, "comparison"),
                c.a
            ),
        };
    };
    let size = |c: &Comparison| c.chosen().map_or(0.0, |d| d.change.abs());
    let Some((row, c)) = most.iter().max_by(|a, b| size(a.1).total_cmp(&size(b.1))) else {
        return String::new();
    };
    let change = SideChange::of(c);
    let which = if row.is_empty() { c.b.clone() } else { format!("{} of {row}", c.b) };
    let head = ["Worse", "Better", "Mixed"][groups.iter().position(|group| !group.is_empty()).unwrap_or(0)];
    let others = groups[1..].iter().zip(["better", "mixed"]);
    let others = others.filter(|(group, name)| !group.is_empty() && *name != change.name());
    let others: Vec<String> = others.map(|(group, name)| format!("{} {name}", group.len())).collect();
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    let mut text = format!("{head}: {} of {}{others}", most.len(), count(all.len() as u64, "comparison"));
    text += &format!(", mainly {which} with {} than {}", differences(c).join(" and "), c.a);
    let first = all.iter().position(|(_, c)| SideChange::of(c) == change).unwrap_or(0);
    if in_order && first > 0 && all[first..].iter().all(|(_, c)| SideChange::of(c) == change) {
        text += &format!("; since {}", all[first].1.b);
    }
    text + "."
}

/// A property in which two runs differ. The difference makes their comparison doubtful or meaningless.
#[derive(Clone, Debug, PartialEq)]
pub enum UnlikeFacts<'a> {
    /// One run measures round trips, the other one-way delays.
    Kind,
    /// One run has the direction up, the other down.
    Direction,
    /// Both runs contain the same packets.
    SamePackets,
    /// Names of the two transports.
    Transport(&'a str, &'a str),
    /// Periods of the two runs, in ns.
    Period(i64, i64),
    /// Payload sizes of the two runs, in bytes.
    Payload(u64, u64),
    /// Numbers of packets of the two runs.
    Length(u64, u64),
    /// Sender and receiver of each run.
    Path(&'a [String; 2], &'a [String; 2]),
    /// Names of the two traffic classes.
    Dscp(&'a str, &'a str),
}

/// Returns the difference as a clause.
pub fn unlike(facts: &UnlikeFacts<'_>) -> String {
    match facts {
        UnlikeFacts::Kind => "one is a round trip, the other is one-way".to_owned(),
        UnlikeFacts::Direction => "different directions: one is up, the other is down".to_owned(),
        UnlikeFacts::SamePackets => "the same packets: one run is compared with itself".to_owned(),
        UnlikeFacts::Transport(a, b) => format!("different transports: {a} and {b}"),
        UnlikeFacts::Period(a, b) => {
            format!("different periods: {} and {}", eng3(*a as f64), eng3(*b as f64))
        }
        UnlikeFacts::Payload(a, b) => format!("different payloads: {a} and {b} bytes"),
        UnlikeFacts::Length(a, b) => format!("very different lengths: {a} and {b} packets"),
        UnlikeFacts::Path(a, b) => format!("different paths: {} to {}, and {} to {}", a[0], a[1], b[0], b[1]),
        UnlikeFacts::Dscp(a, b) => format!("different traffic classes: {a} and {b}"),
    }
}

//! Sentences about comparisons of runs.

use super::numbers::{count, percent, time};
use crate::compare::comparison::{
    ComparedFigure, ComparedQuantity, Comparison, ComparisonOutcome, Difference, Effect, Statistic,
    TailEffect,
};
use crate::comparison::SideChange;
use jitlat_core::answer::Level;
use jitlat_core::units::eng3;

/// Reason for the outcome of a comparison. Times in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OutcomeReason {
    /// The clock offset of one side is unknown.
    ClocksUnknown,
    /// One side has neither packets nor a sufficient summary.
    NoPackets,
    /// Too few independent packets for an interval.
    TooFewPackets,
    /// The interval of the change, and the margin within which it lies.
    WithinMargin([f64; 2], f64),
    /// No difference was found; contains the largest difference that is possible.
    Possible(f64),
    /// The interval excludes 0, but by less than the error of the measurements.
    WithinError,
    /// The difference is beyond chance; contains the size of the effect, and Cliff's delta.
    Beyond(Effect, f64),
    /// The difference is beyond chance at the 99th percentile; contains the effect on the slowest packets.
    BeyondInTail(TailEffect),
}

/// Returns the reason for the outcome of `c` as a clause.
pub fn reason(c: &Comparison, reason: OutcomeReason) -> String {
    match reason {
        OutcomeReason::ClocksUnknown => "the clock offset of at least one run is unknown".to_owned(),
        OutcomeReason::NoPackets => {
            "one of the two has no packets: nothing arrived, or its summary lacks the distribution (written by an older \
             version, in constant memory, or for several runs); compare its log instead"
                .to_owned()
        }
        OutcomeReason::TooFewPackets => {
            "too few independent packets for an interval; measure for longer".to_owned()
        }
        OutcomeReason::WithinMargin([low, high], margin) => format!(
            "the change, {} to {}, is within the margin of {}",
            signed(low),
            signed(high),
            time(margin)
        ),
        OutcomeReason::Possible(largest) => {
            format!("no difference found; differences up to {} are possible", time(largest))
        }
        OutcomeReason::WithinError => "the change is smaller than the error of the measurements".to_owned(),
        OutcomeReason::Beyond(size, delta) => {
            format!("the change is beyond chance, with a {} effect (Cliff's delta {delta:.3})", effect(size))
        }
        OutcomeReason::BeyondInTail(effect) => format!("the change is beyond chance: {}", tail(c, &effect)),
    }
}

/// Returns the effect on the slowest packets as a clause.
pub fn tail(c: &Comparison, tail: &TailEffect) -> String {
    let [a, b] = tail.above.map(percent);
    format!(
        "{b} of the packets of {} and {a} of {} are slower than the 99th percentile of {}; {} effect on the slowest \
         2 % (Cliff's delta {:.3})",
        c.b,
        c.a,
        c.a,
        effect(tail.effect),
        tail.cliffs_delta
    )
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
            format!("Same {what}: {}.", c.because)
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
        ComparisonOutcome::Same => (Level::Good, "The load makes no difference beyond the margin"),
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

/// Returns the name of a compared figure: `jitter at the median`, `loss`.
fn name_of(figure: &ComparedFigure) -> String {
    let noun = match figure.quantity {
        ComparedQuantity::Jitter => "jitter",
        ComparedQuantity::Delay => "delay",
        ComparedQuantity::Ipdv => "absolute IPDV",
        ComparedQuantity::Loss => "loss",
    };
    match figure.statistic {
        None => noun.to_owned(),
        Some(Statistic::Median) => format!("{noun} at the median"),
        Some(Statistic::P99) => format!("{noun} at the 99th percentile"),
    }
}

/// Formats the size of a difference of `figure`, without its sign.
fn size(figure: &ComparedFigure, value: f64) -> String {
    match figure.quantity {
        ComparedQuantity::Loss => percent(value.abs()).replace(" %", " percentage points"),
        _ => time(value.abs()),
    }
}

/// Formats a size like [`size`], but without the unit `percentage points`.
fn short_size(figure: &ComparedFigure, value: f64) -> String {
    size(figure, value).replace(" percentage points", "")
}

/// Returns the differences: `97 ms more jitter at the median (95 ms to 99 ms)`, `1.2 percentage points more loss`; empty if
/// nothing differs. Only the first has its interval, so that the sentence remains short.
fn differences(c: &Comparison) -> Vec<String> {
    let different = c.compared.iter().filter(|f| f.outcome == ComparisonOutcome::Different);
    let different = different.enumerate().map(|(k, f)| {
        let ci = f.interval.filter(|_| k == 0).map(|ends| {
            let [low, high] = if ends[0] < 0.0 { [-ends[1], -ends[0]] } else { ends };
            format!(" ({} to {})", short_size(f, low), short_size(f, high))
        });
        format!("{} {} {}{}", size(f, f.change), more(f.change), name_of(f), ci.unwrap_or_default())
    });
    different.collect()
}

/// Returns the largest possible differences of all figures that have an interval: `3.1 us in jitter at the median and 0.38
/// percentage points in loss`.
fn limits(c: &Comparison) -> String {
    let limit = |(k, f): (usize, &ComparedFigure)| {
        let largest = f.largest().filter(|x| x.is_finite())?;
        // The statistic of delay is always the median.
        let name =
            if k > 0 && f.quantity == ComparedQuantity::Delay { "delay".to_owned() } else { name_of(f) };
        Some(format!("{} in {name}", size(f, largest)))
    };
    listed(&c.compared.iter().enumerate().filter_map(limit).collect::<Vec<_>>())
}

/// Joins a list for people: `a, b and c`.
fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns the headline of one comparison.
pub fn headline(c: &Comparison) -> String {
    let different = differences(c);
    let name = match SideChange::of(c) {
        SideChange::Worse => "Worse",
        SideChange::Better => "Better",
        SideChange::Mixed => "Mixed",
        SideChange::Same => {
            return format!("Same: {} and {} differ by at most {}{}.", c.a, c.b, limits(c), elsewhere(c));
        }
        SideChange::Undecided => {
            let limits = limits(c);
            let found = |f: &ComparedFigure| {
                let includes_0 =
                    |[low, high]: [f64; 2]| low <= 0.0 && high >= 0.0 && (high - low).is_finite();
                f.outcome == ComparisonOutcome::Same || f.bounds().is_some_and(includes_0)
            };
            return if !c.n.contains(&0) && c.compared.first().is_some_and(found) {
                format!(
                    "No difference found between {} and {}; differences up to {limits} are possible{}.",
                    c.a,
                    c.b,
                    elsewhere(c)
                )
            } else {
                let others =
                    if limits.is_empty() { limits } else { format!("; up to {limits} are possible") };
                format!("Undecided whether {} differs: {}{others}.", figure(c), c.because)
            };
        }
        SideChange::Refused => return format!("Not compared: {}.", c.because),
    };
    format!("{name}: {} has {} than {}, beyond chance{}.", c.b, listed(&different), c.a, elsewhere(c))
}

/// Returns a clause about the statistic that the verdict does not use, if the sides clearly differ in it and the
/// verdict does not report a similar difference; otherwise an empty string.
fn elsewhere(c: &Comparison) -> String {
    let Some((statistic, change)) = unused_difference(c) else { return String::new() };
    let option = option(statistic);
    format!("; but {option} shows {} {} in {}", time(change.abs()), more(change), c.b)
}

/// Returns the option that chooses `statistic`.
fn option(statistic: Statistic) -> &'static str {
    match statistic {
        Statistic::Median => "--statistic median",
        Statistic::P99 => "--statistic p99",
    }
}

/// Returns the statistic that the verdict does not use and its change in ns, if the sides clearly differ in it: even the
/// smallest possible change is at least half of the measured one, and above the error of the measurements. `None` also if the
/// verdict's own statistic changed in the same direction.
fn unused_difference(c: &Comparison) -> Option<(Statistic, f64)> {
    let (statistic, unused) = match c.statistic {
        Statistic::Median => (Statistic::P99, c.p99?),
        Statistic::P99 => (Statistic::Median, c.median?),
    };
    let least = unused.ci95.map(|[low, high]| if unused.change > 0.0 { low } else { -high })?;
    let is_clear = least >= unused.change.abs() / 2.0 && least > c.floor;
    let used = c.chosen().filter(|_| c.outcome == ComparisonOutcome::Different);
    let is_said = used.is_some_and(|used| (used.change > 0.0) == (unused.change > 0.0));
    (is_clear && !is_said).then_some((statistic, unused.change))
}

/// Returns the headline without its first word, such as `Worse`, for texts that already begin with this word.
pub fn statement(c: &Comparison) -> String {
    let text = headline(c);
    let prefixes = ["Worse: ", "Better: ", "Mixed: ", "Same: ", "Undecided "];
    prefixes.into_iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(&text).to_owned()
}

/// Returns the reason for the conclusion about `c`, with the changes: `p50 +97.0 ms (+95.1 ms to +98.8 ms), the change
/// is beyond chance, with a large effect (Cliff's delta 0.951); loss +2.50 percentage points (+0.40 to +5.37)`.
pub fn why(c: &Comparison) -> String {
    if c.outcome == ComparisonOutcome::Refused {
        return c.because.clone();
    }
    let of = |f: &ComparedFigure| {
        let name = match (f.quantity, f.statistic) {
            (ComparedQuantity::Loss, _) => "loss",
            (ComparedQuantity::Delay, _) if c.compared.first() != Some(f) => "delay p50",
            (_, Some(Statistic::P99)) => "p99",
            _ => "p50",
        };
        let interval = f.interval.map(|[low, high]| format!(" ({} to {})", value(f, low), value(f, high)));
        format!("{name} {}{}{}", value(f, f.change), unit(f), interval.unwrap_or_default())
    };
    let mut figures = c.compared.iter();
    let first = figures.next().map_or_else(String::new, |f| format!("{}, ", of(f)));
    let others: Vec<String> = figures.filter(|f| f.outcome == ComparisonOutcome::Different).map(of).collect();
    match (c.outcome, others.is_empty()) {
        (ComparisonOutcome::Different, false) => format!("{first}{}; {}", c.because, others.join("; ")),
        (_, false) => others.join("; "),
        (_, true) => format!("{first}{}", c.because),
    }
}

/// Formats a change of `f` with its sign; loss in percentage points.
fn value(f: &ComparedFigure, x: f64) -> String {
    match f.quantity {
        ComparedQuantity::Loss => format!("{:+.2}", 100.0 * x),
        _ => signed(x),
    }
}

fn unit(f: &ComparedFigure) -> &'static str {
    if f.quantity == ComparedQuantity::Loss { " percentage points" } else { "" }
}

/// Describes one compared figure in detail: change, interval, margin and conclusion.
pub fn figure_line(c: &Comparison, f: &ComparedFigure) -> String {
    let conclusion = match f.outcome {
        ComparisonOutcome::Different if f.change > 0.0 => "more",
        ComparisonOutcome::Different => "less",
        ComparisonOutcome::Same => "same",
        ComparisonOutcome::Undecided | ComparisonOutcome::Refused => "undecided",
    };
    let interval = f.interval.map_or_else(
        || "no interval".to_owned(),
        |[low, high]| {
            format!("{} to {} with {} confidence", value(f, low), value(f, high), share_of(c.confidence))
        },
    );
    let change = format!("{}{}", value(f, f.change), unit(f));
    format!("{}: {change} ({interval}; margin {}): {conclusion}", name_of(f), short_size(f, f.margin))
}

fn share_of(confidence: f64) -> String {
    let text = format!("{:.1}", 100.0 * confidence);
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

/// Describes the confidence of the intervals on which the outcome is based.
pub fn confidence(c: &Comparison) -> String {
    let together = if c.confidence > 0.95 { " for all figures together" } else { "" };
    format!("intervals: 95 %{together}, with dependent packets and bursts of loss")
}

/// Describes the equivalence margins of `c`; empty if nothing was compared.
pub fn margins(c: &Comparison) -> String {
    let each = c.compared.iter().map(|f| format!("{} {}", size(f, f.margin), name_of(f)));
    format!("margins of \"same\": {} (--margin, --loss-margin)", each.collect::<Vec<_>>().join(", "))
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
        let (comparisons, a) = (count(all.len() as u64, "comparison"), &all[0].1.a);
        let unused: Vec<Statistic> =
            all.iter().filter_map(|(_, c)| unused_difference(c)).map(|(statistic, _)| statistic).collect();
        let elsewhere = unused.first().map_or_else(String::new, |statistic| {
            format!("; but {} shows one in {} of them", option(*statistic), unused.len())
        });
        return match undecided {
            0 => {
                format!(
                    "Same: none of {comparisons} with {a} shows a difference beyond the margins{elsewhere}."
                )
            }
            n if n == all.len() => format!(
                "No difference found in {comparisons} with {a}, and none of them excludes one beyond the margins\
                 {elsewhere}."
            ),
            n => format!(
                "No difference found in {comparisons} with {a}; {n} of them cannot exclude one beyond the margins, the \
                 others can{elsewhere}."
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
    text += &format!(", mainly {which} with {} than {}", listed(&differences(c)), c.a);
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

//! The answer of a comparison: which differs, by how much, beyond chance or not, from which on; and what is wrong where
//! it is worse.

use crate::compare::comparison::{Comparison, ComparisonOutcome, Difference, Statistic};
use crate::compare::{Cell, ComparisonRow};
use crate::numbers::{count, percent, time};
use jitlat_core::answer::Level;
use jitlat_core::answer::{Answer, Cause, Severity, Suitability};
use std::collections::BTreeMap;

/// How one side differs from the other, with its losses, which the outcome leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SideChange {
    /// More jitter (or delay), or more loss.
    Worse,
    /// Less of one and more of the other.
    Mixed,
    /// Less of one, and not more of the other.
    Better,
    /// No relevant difference.
    Same,
    /// Not known.
    Undecided,
    /// Not compared.
    Refused,
}

impl SideChange {
    /// What `c` found.
    pub fn of(c: &Comparison) -> SideChange {
        let loss = lost_more(c).map_or(0.0, |d| d.change);
        match (c.outcome, c.is_worse()) {
            (ComparisonOutcome::Refused, _) => SideChange::Refused,
            (ComparisonOutcome::Different, true) if loss < 0.0 => SideChange::Mixed,
            (ComparisonOutcome::Different, false) if loss > 0.0 => SideChange::Mixed,
            (ComparisonOutcome::Different, worse) => {
                if worse {
                    SideChange::Worse
                } else {
                    SideChange::Better
                }
            }
            _ if loss > 0.0 => SideChange::Worse,
            _ if loss < 0.0 => SideChange::Better,
            (ComparisonOutcome::Same, _) => SideChange::Same,
            (ComparisonOutcome::Undecided, _) => SideChange::Undecided,
        }
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            SideChange::Worse => "worse",
            SideChange::Better => "better",
            SideChange::Mixed => "mixed",
            SideChange::Same => "same",
            SideChange::Undecided => "undecided",
            SideChange::Refused => "refused",
        }
    }

    /// How it looks.
    pub fn level(self) -> Level {
        match self {
            SideChange::Worse => Level::Poor,
            SideChange::Better | SideChange::Same => Level::Good,
            SideChange::Mixed | SideChange::Undecided => Level::Note,
            SideChange::Refused => Level::Bad,
        }
    }
}

/// The difference of loss ratios, if it is beyond chance.
fn lost_more(c: &Comparison) -> Option<Difference> {
    let beyond = |[low, high]: [f64; 2]| low > 0.0 || high < 0.0;
    c.loss.filter(|d| d.ci95.is_some_and(beyond))
}

/// How the answer as a whole looks: as its worst comparison.
pub fn level(rows: &[ComparisonRow]) -> Level {
    let changes: Vec<SideChange> = rows.iter().flat_map(|row| &row.comparisons).map(SideChange::of).collect();
    let first =
        [SideChange::Worse, SideChange::Mixed, SideChange::Undecided, SideChange::Better, SideChange::Same];
    first.into_iter().find(|change| changes.contains(change)).map_or(Level::Bad, SideChange::level)
}

/// The answer of the comparisons of `rows`: its severity, buffer and uses are the worst of the columns that are compared
/// with the first.
pub fn answer(rows: &[ComparisonRow]) -> Answer {
    let compared = || rows.iter().flat_map(compared_cells);
    let answers: Vec<&Answer> = compared().filter_map(|(_, cell)| cell.answer.as_ref()).collect();
    let buffer = answers.iter().map(|a| a.buffer_ns).collect::<Option<Vec<i64>>>();
    let mut profiles: BTreeMap<String, Suitability> = BTreeMap::new();
    for (name, suits) in answers.iter().flat_map(|a| &a.profiles) {
        let worse = profiles.get(name).is_none_or(|known| known.severity < suits.severity);
        if worse {
            profiles.insert(name.clone(), suits.clone());
        }
    }
    let mut causes: Vec<Cause> = rows.iter().flat_map(new_causes).map(|(_, cause)| cause.clone()).collect();
    // Stable: of equally severe causes those of the first column come first.
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.severity));
    Answer {
        complete: !answers.is_empty() && answers.iter().all(|a| a.complete),
        severity: answers.iter().map(|a| a.severity).max().unwrap_or(Severity::Unknown),
        headline: headline(rows),
        buffer_ns: buffer.and_then(|all| all.into_iter().max()),
        causes,
        profiles,
    }
}

/// The columns that are compared with the first one that has runs.
fn compared_cells(row: &ComparisonRow) -> impl Iterator<Item = (&Comparison, &Cell)> {
    row.comparisons
        .iter()
        .filter_map(|c| Some((c, row.cells.iter().flatten().find(|cell| cell.column == c.b)?)))
}

/// What is wrong where it is worse, and was not before: the column, and the cause.
pub fn new_causes(row: &ComparisonRow) -> Vec<(&str, &Cause)> {
    let before = row.cells.iter().flatten().next().and_then(|cell| cell.answer.as_ref());
    let worse = compared_cells(row)
        .filter(|(c, _)| matches!(SideChange::of(c), SideChange::Worse | SideChange::Mixed));
    let mut found = Vec::new();
    for (_, cell) in worse {
        let causes = cell.answer.iter().flat_map(|a| &a.causes);
        let new = causes.filter(|cause| {
            cause.severity > Severity::Good && before.is_none_or(|before| !before.names(cause.id))
        });
        found.extend(new.map(|cause| (cell.column.as_str(), cause)));
    }
    found
}

fn headline(rows: &[ComparisonRow]) -> String {
    let all: Vec<(&ComparisonRow, &Comparison)> =
        rows.iter().flat_map(|row| row.comparisons.iter().map(move |c| (row, c))).collect();
    match &all[..] {
        [] => "Nothing was compared.".to_owned(),
        [(_, c)] => sentence(c),
        several => of_several(several, rows.len() == 1),
    }
}

fn at(c: &Comparison) -> String {
    let at = match c.statistic {
        Statistic::Median => "at the median",
        Statistic::P99 => "at the 99th percentile",
    };
    format!("{} {at}", c.basis.noun())
}

/// `97 ms more jitter at the median (95 ms to 99 ms)`, `1.2 % more loss (0.4 to 2.5)`; empty if nothing differs.
fn differences(c: &Comparison) -> Vec<String> {
    let word = |change: f64| if change > 0.0 { "more" } else { "less" };
    let size = |ci: [f64; 2]| {
        let [low, high] = ci.map(f64::abs);
        [low.min(high), low.max(high)]
    };
    let mut all = Vec::new();
    if let Some(d) = c.chosen().filter(|_| c.outcome == ComparisonOutcome::Different) {
        let ci = d.ci95.map(size).map(|[low, high]| format!(" ({} to {})", time(low), time(high)));
        let ci = ci.unwrap_or_default();
        all.push(format!("{} {} {}{ci}", time(d.change.abs()), word(d.change), at(c)));
    }
    if let Some(d) = lost_more(c).filter(|_| c.outcome != ComparisonOutcome::Refused) {
        all.push(format!("{} {} loss", percent(d.change.abs()), word(d.change)));
    }
    all
}

fn sentence(c: &Comparison) -> String {
    let different = differences(c);
    let name = match SideChange::of(c) {
        SideChange::Worse => "Worse",
        SideChange::Better => "Better",
        SideChange::Mixed => "Mixed",
        SideChange::Same => return format!("Same: no difference in {}: {}.", at(c), c.because),
        SideChange::Undecided => {
            return format!("Undecided: whether {} differs is not clear: {}.", at(c), c.because);
        }
        SideChange::Refused => return format!("Not compared: {}.", c.because),
    };
    format!("{name}: {} has {} than {}, beyond chance.", c.b, different.join(" and "), c.a)
}

fn of_several(all: &[(&ComparisonRow, &Comparison)], in_order: bool) -> String {
    let with = |change: SideChange| -> Vec<&(&ComparisonRow, &Comparison)> {
        all.iter().filter(|(_, c)| SideChange::of(c) == change).collect()
    };
    let names = [SideChange::Worse, SideChange::Better, SideChange::Mixed].map(with);
    let Some(most) = names.iter().find(|of| !of.is_empty()) else {
        let undecided = with(SideChange::Undecided).len() + with(SideChange::Refused).len();
        let c = all[0].1;
        return match undecided {
            0 => format!("Same: none of {} differs from {} in {} beyond chance.", all.len(), c.a, at(c)),
            n => format!(
                "Undecided: {n} of {} comparisons with {} say nothing, and none differs.",
                all.len(),
                c.a
            ),
        };
    };
    let size = |c: &Comparison| c.chosen().map_or(0.0, |d| d.change.abs());
    let Some((row, c)) = most.iter().max_by(|a, b| size(a.1).total_cmp(&size(b.1))) else {
        return String::new();
    };
    let change = SideChange::of(c);
    let which = if row.name.is_empty() { c.b.clone() } else { format!("{} of {}", c.b, row.name) };
    let head = ["Worse", "Better", "Mixed"][names.iter().position(|of| !of.is_empty()).unwrap_or(0)];
    let mut text = format!("{head}: {} of {}", most.len(), count(all.len() as u64, "comparison"));
    text += &format!(", most {which} with {} than {}", differences(c).join(" and "), c.a);
    // In the order given: from which on.
    let first = all.iter().position(|(_, c)| SideChange::of(c) == change).unwrap_or(0);
    if in_order && first > 0 && all[first..].iter().all(|(_, c)| SideChange::of(c) == change) {
        text += &format!("; since {}", all[first].1.b);
    }
    for (of, name) in names[1..].iter().zip(["better", "mixed"]) {
        if !of.is_empty() && name != change.name() {
            text += &format!("; {} {name}", of.len());
        }
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::comparison::Basis;

    fn compared(b: &str, outcome: ComparisonOutcome, change: f64, loss: f64) -> Comparison {
        let around =
            |change: f64, by: f64| Some(Difference { change, ci95: Some([change - by, change + by]) });
        Comparison {
            a: "a".into(),
            b: b.into(),
            basis: Basis::Pdv,
            n: [1000; 2],
            unlike: Vec::new(),
            median: around(change, 1e6),
            p99: None,
            loss: around(loss, 0.005),
            cliffs_delta: None,
            cliffs_delta_error: None,
            effect: None,
            shift: None,
            floor: 0.0,
            tests: None,
            statistic: Statistic::Median,
            outcome,
            because: "for a reason".into(),
        }
    }

    fn row(comparisons: Vec<Comparison>) -> ComparisonRow {
        ComparisonRow { name: String::new(), cells: Vec::new(), comparisons }
    }

    fn said(comparisons: Vec<Comparison>) -> String {
        answer(&[row(comparisons)]).headline
    }

    #[test]
    fn a_comparison_is_one_sentence() {
        use ComparisonOutcome::{Different, Refused, Same, Undecided};
        let of = |outcome, change, loss| said(vec![compared("b", outcome, change, loss)]);
        assert_eq!(
            of(Different, 97e6, 0.0),
            "Worse: b has 97 ms more jitter at the median (96 ms to 98 ms) than a, beyond chance."
        );
        assert_eq!(
            of(Different, -97e6, -0.02),
            "Better: b has 97 ms less jitter at the median (96 ms to 98 ms) and 2.0 % less loss than a, beyond chance."
        );
        assert!(of(Different, -97e6, 0.02).starts_with("Mixed: b has 97 ms less jitter"));
        assert_eq!(of(Same, 1e6, 0.02), "Worse: b has 2.0 % more loss than a, beyond chance.");
        assert_eq!(of(Same, 1e6, 0.0), "Same: no difference in jitter at the median: for a reason.");
        assert!(of(Undecided, 1e6, 0.0).starts_with("Undecided: whether jitter at the median differs"));
        assert_eq!(of(Refused, 1e6, 0.02), "Not compared: for a reason.");
        assert_eq!(said(Vec::new()), "Nothing was compared.");
    }

    #[test]
    fn several_say_how_many_and_since_when() {
        use ComparisonOutcome::{Different, Same, Undecided};
        let of =
            |b: &str, change: f64| compared(b, if change == 0.0 { Same } else { Different }, change, 0.0);
        let worse = vec![of("b", 0.0), of("c", 20e6), of("d", 40e6)];
        assert_eq!(
            said(worse),
            "Worse: 2 of 3 comparisons, most d with 40 ms more jitter at the median (39 ms to 41 ms) than a; since c."
        );
        let both = said(vec![of("b", 20e6), of("c", -20e6)]);
        assert!(
            both.starts_with("Worse: 1 of 2 comparisons, most b with") && both.ends_with("than a; 1 better."),
            "{both}"
        );
        assert_eq!(
            said(vec![of("b", 0.0), of("c", 0.0)]),
            "Same: none of 2 differs from a in jitter at the median beyond chance."
        );
        let open = said(vec![of("b", 0.0), compared("c", Undecided, 0.0, 0.0)]);
        assert_eq!(open, "Undecided: 1 of 2 comparisons with a say nothing, and none differs.");
        assert_eq!(level(&[row(vec![of("b", 0.0), of("c", 9e6)])]), Level::Poor);
        assert_eq!(level(&[row(vec![of("b", 0.0)])]), Level::Good);
        assert_eq!(level(&[]), Level::Bad);
    }
}

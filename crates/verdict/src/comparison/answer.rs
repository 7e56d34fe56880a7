//! Verdict on a comparison: which run differs, by how much, since when and how reliably, and the causes in a worse run.

use crate::compare::comparison::{Comparison, ComparisonOutcome, Difference};
use crate::compare::{Cell, ComparisonRow};
use crate::sentences::comparison as sentences;
use jitlat_core::answer::Level;
use jitlat_core::answer::{Answer, Cause, Severity, Suitability};
use std::collections::BTreeMap;

/// Difference between one side and the other, including loss, which the outcome of a comparison does not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SideChange {
    /// More jitter (or delay), or more loss.
    Worse,
    /// Less of one, but more of the other.
    Mixed,
    /// Less of at least one, and more of neither.
    Better,
    /// No relevant difference.
    Same,
    /// Unknown: the data allow no decision.
    Undecided,
    /// The runs were not compared.
    Refused,
}

impl SideChange {
    /// Returns the difference that `c` found.
    pub fn of(c: &Comparison) -> SideChange {
        let loss = loss_difference(c).map_or(0.0, |d| d.change);
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

    /// Returns the name of the difference.
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

    /// Returns the importance of the difference, by which it is marked.
    pub fn level(self) -> Level {
        match self {
            SideChange::Worse => Level::Poor,
            SideChange::Better | SideChange::Same => Level::Good,
            SideChange::Mixed | SideChange::Undecided => Level::Note,
            SideChange::Refused => Level::Bad,
        }
    }
}

/// Returns the difference between the loss ratios; `None` if it may be due to chance.
pub(crate) fn loss_difference(c: &Comparison) -> Option<Difference> {
    let beyond = |[low, high]: [f64; 2]| low > 0.0 || high < 0.0;
    c.loss.filter(|d| d.ci95.is_some_and(beyond))
}

/// Returns the level of the whole verdict: the level of its worst comparison.
pub fn level(rows: &[ComparisonRow]) -> Level {
    let changes: Vec<SideChange> = rows.iter().flat_map(|row| &row.comparisons).map(SideChange::of).collect();
    let first =
        [SideChange::Worse, SideChange::Mixed, SideChange::Undecided, SideChange::Better, SideChange::Same];
    first.into_iter().find(|change| changes.contains(change)).map_or(Level::Bad, SideChange::level)
}

/// Returns the verdict on the comparisons in `rows`. Its severity, buffer and profiles are the worst ones among the
/// columns that are compared with the first column.
pub fn answer(rows: &[ComparisonRow]) -> Answer {
    let compared = || rows.iter().flat_map(compared_cells);
    let answers: Vec<&Answer> = compared().filter_map(|(_, cell)| cell.answer.as_ref()).collect();
    let buffer = answers.iter().map(|a| a.buffer_ns).collect::<Option<Vec<i64>>>();
    let mut profiles: BTreeMap<String, Suitability> = BTreeMap::new();
    for (name, suits) in answers.iter().flat_map(|a| &a.profiles) {
        let worse = profiles.get(name).is_none_or(|known| known.severity.doubt() < suits.severity.doubt());
        if worse {
            profiles.insert(name.clone(), suits.clone());
        }
    }
    let mut causes: Vec<Cause> = rows.iter().flat_map(new_causes).map(|(_, cause)| cause.clone()).collect();
    // The sort is stable: equally severe causes stay in the order of the columns.
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.severity));
    Answer {
        complete: !answers.is_empty() && answers.iter().all(|a| a.complete),
        host: None,
        severity: answers.iter().map(|a| a.severity).max().unwrap_or(Severity::Unknown),
        headline: headline(rows),
        buffer_ns: buffer.and_then(|all| all.into_iter().max()),
        causes,
        profiles,
    }
}

/// Iterates over the columns that are compared with the first column that has runs.
fn compared_cells(row: &ComparisonRow) -> impl Iterator<Item = (&Comparison, &Cell)> {
    row.comparisons
        .iter()
        .filter_map(|c| Some((c, row.cells.iter().flatten().find(|cell| cell.column == c.b)?)))
}

/// Returns the causes that a worse column has and the first column does not have, each with the name of its column.
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
    let all: Vec<(&str, &Comparison)> =
        rows.iter().flat_map(|row| row.comparisons.iter().map(|c| (row.name.as_str(), c))).collect();
    match &all[..] {
        [] => sentences::NOTHING_COMPARED.to_owned(),
        [(_, c)] => sentences::headline(c),
        several => sentences::headline_of_several(several, rows.len() == 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::comparison::{Basis, Statistic};

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
            "Better: b has 97 ms less jitter at the median (96 ms to 98 ms) and 2.0 percentage points less loss than a, beyond chance."
        );
        assert!(of(Different, -97e6, 0.02).starts_with("Mixed: b has 97 ms less jitter"));
        assert_eq!(
            of(Same, 1e6, 0.02),
            "Worse: b has 2.0 percentage points more loss than a, beyond chance."
        );
        assert_eq!(of(Same, 1e6, 0.0), "Same: no difference in jitter at the median: for a reason.");
        assert!(of(Undecided, 1e6, 0.0).starts_with("Undecided whether jitter at the median differs"));
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
            "Worse: 2 of 3 comparisons, mainly d with 40 ms more jitter at the median (39 ms to 41 ms) than a; since c."
        );
        let both = said(vec![of("b", 20e6), of("c", -20e6)]);
        assert!(
            both.starts_with("Worse: 1 of 2 comparisons (1 better), mainly b with")
                && both.ends_with("than a."),
            "{both}"
        );
        assert_eq!(
            said(vec![of("b", 0.0), of("c", 0.0)]),
            "Same: none of 2 runs differs from a in jitter at the median beyond chance."
        );
        let open = said(vec![of("b", 0.0), compared("c", Undecided, 0.0, 0.0)]);
        assert_eq!(
            open,
            "Undecided: 1 of 2 comparisons with a cannot be decided, and the others show no difference."
        );
        assert_eq!(level(&[row(vec![of("b", 0.0), of("c", 9e6)])]), Level::Poor);
        assert_eq!(level(&[row(vec![of("b", 0.0)])]), Level::Good);
        assert_eq!(level(&[]), Level::Bad);
    }
}

//! Verdict on a comparison: which run differs, by how much, since when and how reliably, and the causes in a worse run.

use crate::compare::comparison::{ComparedFigure, Comparison, ComparisonOutcome};
use crate::compare::{Cell, ComparisonRow};
use crate::sentences::comparison as sentences;
use jitlat_core::answer::Level;
use jitlat_core::answer::{Answer, Cause, Severity, Suitability};
use std::collections::BTreeMap;

/// Difference of one side from the other in all compared figures: jitter, delay and loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SideChange {
    /// At least one figure is larger beyond chance, and none is smaller.
    Worse,
    /// One figure is smaller and another is larger, beyond chance.
    Mixed,
    /// At least one figure is smaller beyond chance, and none is larger.
    Better,
    /// The intervals of all figures lie within the equivalence margins.
    Same,
    /// No difference was found, but at least one figure may differ by more than its margin.
    Undecided,
    /// The runs were not compared.
    Refused,
}

impl SideChange {
    /// Returns the difference that `c` found in its figures.
    pub fn of(c: &Comparison) -> SideChange {
        let has = |test: fn(&ComparedFigure) -> bool| c.compared.iter().any(test);
        let is_same = |figure: &ComparedFigure| figure.outcome == ComparisonOutcome::Same;
        match (has(ComparedFigure::is_worse), has(ComparedFigure::is_better)) {
            _ if c.outcome == ComparisonOutcome::Refused => SideChange::Refused,
            (true, true) => SideChange::Mixed,
            (true, false) => SideChange::Worse,
            (false, true) => SideChange::Better,
            _ if c.outcome == ComparisonOutcome::Same && c.compared.iter().all(is_same) => SideChange::Same,
            _ => SideChange::Undecided,
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
        without_clock_step: None,
        causes,
        profiles,
        qoo: None,
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
    use crate::compare::comparison::{Basis, ComparedQuantity, Difference, Statistic};
    use crate::comparison::conclude;

    /// `change`: of jitter in ns, `loss`: a ratio, each with a margin and with the half-width of its interval.
    fn compared(b: &str, [change, by, margin]: [f64; 3], [loss, loss_by]: [f64; 2]) -> Comparison {
        let figure = |quantity, statistic, change: f64, by: f64, margin| {
            let interval = Some([change - by, change + by]);
            let figure = ComparedFigure {
                quantity,
                statistic,
                change,
                interval,
                floor: 0.0,
                margin,
                outcome: ComparisonOutcome::Undecided,
            };
            ComparedFigure { outcome: conclude(&figure), ..figure }
        };
        let jitter = figure(ComparedQuantity::Jitter, Some(Statistic::Median), change, by, margin);
        let loss = figure(ComparedQuantity::Loss, None, loss, loss_by, 0.005);
        Comparison {
            a: "a".into(),
            b: b.into(),
            basis: Basis::Pdv,
            n: [1000; 2],
            unlike: Vec::new(),
            median: Some(Difference { change, ci95: jitter.interval }),
            p99: None,
            loss: Some(Difference { change: loss.change, ci95: loss.interval }),
            cliffs_delta: None,
            cliffs_delta_error: None,
            effect: None,
            shift: None,
            tail: None,
            compared: vec![jitter, loss],
            confidence: 0.975,
            floor: 0.0,
            tests: None,
            statistic: Statistic::Median,
            outcome: jitter.outcome,
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
        let of = |jitter, loss| said(vec![compared("b", jitter, loss)]);
        assert_eq!(
            of([97e6, 1e6, 1e6], [0.0, 0.004]),
            "Worse: b has 97 ms more jitter at the median (96 ms to 98 ms) than a, beyond chance."
        );
        assert_eq!(
            of([-97e6, 1e6, 1e6], [-0.02, 0.005]),
            "Better: b has 97 ms less jitter at the median (96 ms to 98 ms) and 2.0 percentage points less loss than a, \
             beyond chance."
        );
        assert!(of([-97e6, 1e6, 1e6], [0.02, 0.005]).starts_with("Mixed: b has 97 ms less jitter"));
        assert_eq!(
            of([1e6, 1e6, 2e6], [0.02, 0.005]),
            "Worse: b has 2.0 percentage points more loss (1.5 to 2.5) than a, beyond chance."
        );
        assert_eq!(
            of([1e6, 1e6, 2e6], [0.0, 0.004]),
            "Same: a and b differ by at most 2.0 ms in jitter at the median and 0.40 percentage points in loss."
        );
        for (jitter, loss) in [([1e6, 1e6, 1e6], 0.004), ([1e6, 1e6, 2e6], 0.006)] {
            let text = of(jitter, [0.0, loss]);
            assert!(
                text.starts_with("No difference found between a and b; differences up to 2.0 ms in"),
                "{text}"
            );
            assert!(text.ends_with("percentage points in loss are possible."), "{text}");
        }
        let few = |interval: Option<[f64; 2]>| {
            let mut c = compared("b", [1e6, 1e6, 1e6], [0.0, 0.004]);
            (c.compared[0].interval, c.compared[0].outcome) = (interval, ComparisonOutcome::Undecided);
            said(vec![c])
        };
        assert_eq!(
            few(None),
            "Undecided whether jitter at the median differs: for a reason; up to 0.40 percentage points in loss are \
             possible."
        );
        let mut refused = compared("b", [97e6, 1e6, 1e6], [0.02, 0.001]);
        refused.outcome = ComparisonOutcome::Refused;
        assert_eq!(said(vec![refused]), "Not compared: for a reason.");
        assert_eq!(said(Vec::new()), "Nothing was compared.");
    }

    #[test]
    fn several_say_how_many_and_since_when() {
        let of = |b: &str, change: f64| compared(b, [change, 1e6, 2e6], [0.0, 0.004]);
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
            "Same: none of 2 comparisons with a shows a difference beyond the margins."
        );
        let open = || compared("c", [0.0, 3e6, 2e6], [0.0, 0.004]);
        assert_eq!(
            said(vec![of("b", 0.0), open()]),
            "No difference found in 2 comparisons with a; 1 of them cannot exclude one beyond the margins, the others can."
        );
        assert!(
            said(vec![open(), open()]).starts_with("No difference found in 2 comparisons with a, and none")
        );
        assert_eq!(level(&[row(vec![of("b", 0.0), of("c", 9e6)])]), Level::Poor);
        assert_eq!(level(&[row(vec![of("b", 0.0)])]), Level::Good);
        assert_eq!(level(&[row(vec![open()])]), Level::Note);
        assert_eq!(level(&[]), Level::Bad);
    }
}

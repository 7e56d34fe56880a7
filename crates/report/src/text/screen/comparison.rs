//! Screen report of a comparison of saved tests.

use super::rows::{ScreenTable, StyledCells, percent};
use super::{Screen, content};
use crate::text::comparison::{floor, notes_on};
use crate::text::page::{WordStyle, mark};
use crate::text::{count, why as evidence};
use jitlat_core::scalars::ExactNumber;
use jitlat_core::summary::{Distribution, Percent};
use jitlat_core::units::eng3;
use jitlat_verdict::compare::{
    Basis, Cell, Comparison, ComparisonGrid, ComparisonOutcome, ComparisonRow, Difference, Statistic,
};
use jitlat_verdict::comparison::{SideChange, confidence, level, margins, new_causes, why as because};

/// Maximum width of the name of a test, in columns.
const MAX_NAME_COLUMNS: usize = 20;
/// Maximum number of lines of the table.
const MAX_LINES: usize = 9;

impl Screen {
    /// Creates the screen report of the tests of `grid`.
    pub fn of_comparison(grid: &ComparisonGrid) -> Screen {
        let cells = || grid.rows.iter().flat_map(|row| row.cells.iter().flatten());
        let answers: Vec<_> = match &grid.rows[..] {
            // There is room for profiles only with one row and few columns.
            [row] if row.cells.len() <= 3 => row.cells.iter().flatten().collect(),
            _ => Vec::new(),
        };
        let answers: Vec<_> = answers
            .into_iter()
            .filter_map(|cell| Some((cell.column.as_str(), cell.answer.as_ref()?)))
            .collect();
        let mut files: Vec<String> = Vec::new();
        for file in cells().flat_map(|cell| &cell.sources) {
            if !files.contains(file) {
                files.push(file.clone());
            }
        }
        Screen {
            lead: vec![(level(&grid.rows), grid.answer.headline.clone())],
            title: title(grid),
            table: table(grid),
            why: why(grid),
            uses: content::uses_of(&answers, content::Relation::Separate),
            trust: trust(grid),
            ..Screen::default()
        }
        .logged_to(&files)
    }
}

/// Returns the title of `grid`.
fn title(grid: &ComparisonGrid) -> String {
    let runs: usize =
        grid.rows.iter().flat_map(|row| row.cells.iter().flatten()).map(|c| c.sources.len()).sum();
    let against = grid.columns.first().map_or(String::new(), |first| format!(", against {first}"));
    let rows = if grid.rows.len() > 1 { format!(" in {} rows", grid.rows.len()) } else { String::new() };
    format!("{}{rows}: {}{against}", count(runs as u64, "test"), grid.basis.noun())
}

/// Returns the name of a cell, made of its row and its column.
fn name(row: &ComparisonRow, column: &str) -> String {
    if row.name.is_empty() { column.to_owned() } else { format!("{}, {column}", row.name) }
}

/// Creates a table with one line per test; the other tests of a row are compared with the first.
fn table(grid: &ComparisonGrid) -> ScreenTable {
    let statistic = grid.comparisons().next().map_or(Statistic::Median, |(_, c)| c.statistic);
    let of = match grid.basis {
        Basis::Delay => ["delay p50", "p99"],
        Basis::Pdv => ["jitter p50", "p99"],
        Basis::Ipdv => ["IPDV IQR", "std dev"],
    };
    let change = match statistic {
        Statistic::Median => "change p50",
        Statistic::P99 => "change p99",
    };
    let heads = ["", "quality", of[0], of[1], "lost", change].map(str::to_owned);
    let line = |row: &ComparisonRow, cell: &Cell| {
        let compared = row.comparisons.iter().find(|c| c.b == cell.column);
        let outcome = compared.map(SideChange::of);
        let quality = cell.answer.as_ref().map(|a| a.severity);
        let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), eng3);
        let of_delays = |d: &Distribution| [d.median, d.percentile(Percent(99_000)).map(|ns| ns as f64)];
        let shown = match grid.basis {
            Basis::Delay => cell.latency.as_ref().map(of_delays),
            Basis::Pdv => cell.pdv.as_ref().map(of_delays),
            Basis::Ipdv => {
                Some(["ipdv-iqr", "ipdv-stddev"].map(|key| cell.scalar(key).map(ExactNumber::as_f64)))
            }
        };
        let [first, second] = shown.unwrap_or_default().map(time);
        let loss = cell.loss_ratio.map(|share| format!("{} %", percent(share)));
        let cells: StyledCells = vec![
            outcome.map_or((String::new(), None), |o| (o.name().to_owned(), Some(mark(o.level()).1))),
            quality.map_or((String::new(), None), |s| (s.name().to_owned(), Some(mark(s.into()).1))),
            (first, None),
            (second, None),
            (loss.unwrap_or_else(|| "-".to_owned()), None),
            (compared.and_then(chosen).map_or_else(String::new, |d| signed(d.change)), None),
        ];
        (name(row, &cell.column), cells)
    };
    let lines = grid.rows.iter().flat_map(|row| row.cells.iter().flatten().map(move |cell| line(row, cell)));
    ScreenTable { heads: heads.to_vec(), lines: lines.collect(), name: MAX_NAME_COLUMNS, most: MAX_LINES }
}

/// Returns the difference that determines the outcome of `c`; `None` if the runs are not comparable or there is none.
fn chosen(c: &Comparison) -> Option<Difference> {
    c.chosen().filter(|_| c.outcome != ComparisonOutcome::Refused)
}

fn signed(ns: f64) -> String {
    format!("{}{}", if ns > 0.0 { "+" } else { "" }, eng3(ns))
}

/// Returns the causes of tests that are worse, and the reason for the outcome of each comparison.
fn why(grid: &ComparisonGrid) -> Vec<(WordStyle, String, String)> {
    let mut causes: Vec<_> = grid
        .rows
        .iter()
        .flat_map(|row| new_causes(row).into_iter().map(move |(column, cause)| (name(row, column), cause)))
        .collect();
    causes.sort_by_key(|(_, cause)| std::cmp::Reverse(cause.severity));
    let causes = causes.into_iter().map(|(label, cause)| {
        (
            mark(cause.severity.into()).1,
            format!("{}:", cause.severity.name()),
            format!("'{label}': {}", evidence(cause)),
        )
    });
    let decided = grid.rows.iter().flat_map(|row| row.comparisons.iter().map(move |c| (row, c)));
    let mut decided: Vec<_> = decided.map(|(row, c)| (SideChange::of(c), row, c)).collect();
    // Stable sort: worse outcomes come first.
    decided.sort_by_key(|(change, ..)| *change);
    let decided = decided.into_iter().map(|(change, row, c)| {
        let text = format!("'{}': {}", name(row, &c.b), because(c));
        (mark(change.level()).1, format!("{}:", change.name()), text)
    });
    causes.chain(decided).collect()
}

fn trust(grid: &ComparisonGrid) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (row, c) in grid.rows.iter().flat_map(|row| row.comparisons.iter().map(move |c| (row, c))) {
        let unlike = c.unlike.iter().filter(|u| !u.what.is_vital());
        lines.extend(
            unlike.map(|u| {
                format!("'{}': {}: this may be the cause of the difference", name(row, &c.b), u.text)
            }),
        );
    }
    if let [(_, c)] = &grid.comparisons().collect::<Vec<_>>()[..] {
        lines.extend((!c.compared.is_empty()).then(|| margins(c)));
    }
    lines.extend(grid.comparisons().filter_map(|(_, c)| floor(c)));
    let packets: Vec<u64> =
        grid.rows.iter().flat_map(|row| row.cells.iter().flatten()).map(|cell| cell.accepted).collect();
    if let (Some(least), Some(most)) = (packets.iter().min(), packets.iter().max()) {
        let each = if least == most {
            format!("{} each", count(*least, "packet"))
        } else {
            format!("{least} to {most} packets")
        };
        let intervals = grid.comparisons().next().map(|(_, c)| format!("; {}", confidence(c)));
        lines.push(format!("{each}{}", intervals.unwrap_or_default()));
    }
    lines.extend(notes_on(grid).into_iter().map(str::to_owned));
    let mut said: Vec<String> = Vec::new();
    lines.retain(|line| {
        let new = !said.contains(line);
        said.push(line.clone());
        new
    });
    lines
}

//! Screen report of a sweep.

use super::Screen;
use super::rows::{ScreenTable, StyledCells, percent};
use crate::text::page::{WordStyle, mark};
use jitlat_core::answer::{Answer, Severity};
use jitlat_core::sweep::{ConfidenceLevel, Estimate, SweepGrid, SweepPoint};
use jitlat_core::units::eng3;
use jitlat_verdict::sweep::{changes, severity};

/// Maximum width of the name of a combination, in columns.
const MAX_NAME_COLUMNS: usize = 26;
/// Maximum number of lines of the table.
const MAX_LINES: usize = 9;

/// A sweep to be shown.
#[derive(Clone, Copy, Debug)]
pub struct Swept<'a> {
    /// Description and destination of the tests.
    pub title: &'a str,
    /// True if delays are the difference of two hosts' clocks.
    pub one_way: bool,
    /// Combinations of the sweep.
    pub grid: &'a SweepGrid,
    /// Result of each combination.
    pub points: &'a [SweepPoint],
    /// Confidence level of the intervals.
    pub confidence: ConfidenceLevel,
    /// Verdict of the sweep.
    pub answer: &'a Answer,
    /// Notes on the whole sweep, such as the delay by size.
    pub notes: &'a [String],
}

impl Screen {
    /// Creates the screen report of a sweep.
    pub fn of_sweep(sweep: Swept<'_>) -> Screen {
        let Swept { title, grid, points, answer, notes, .. } = sweep;
        let why = changes(grid, points).into_iter().map(|c| {
            let (look, mark) = match c.is_certain {
                Some(true) => (WordStyle::Good, "certain:"),
                Some(false) => (WordStyle::Note, "chance:"),
                None => (WordStyle::Note, "one run:"),
            };
            (look, mark.to_owned(), c.sentence())
        });
        let laws = notes.iter().map(|note| (WordStyle::Note, "by size:".to_owned(), note.clone()));
        Screen {
            lead: vec![(answer.severity.into(), answer.headline.clone())],
            title: title.to_owned(),
            table: table(sweep),
            why: why.chain(laws).collect(),
            trust: trust(sweep),
            ..Screen::default()
        }
    }
}

/// Creates a table with one line per combination; if there are many, an evenly spaced selection that includes the
/// first and the last.
fn table(sweep: Swept<'_>) -> ScreenTable {
    let between = format!("{} % between", sweep.confidence);
    let heads = ["", "mean", &between, "p99", "jitter p99", "lost"].map(str::to_owned);
    let n = sweep.points.len();
    let shown: Vec<usize> = match n {
        ..=MAX_LINES => (0..n).collect(),
        _ => (0..MAX_LINES).map(|k| k * (n - 1) / (MAX_LINES - 1)).collect(),
    };
    let line = |point: &SweepPoint| {
        let mean = |key: &str| point.get(key).map_or_else(|| "-".to_owned(), |e: &Estimate| eng3(e.mean));
        let interval = point.get("latency-mean").and_then(|e| e.interval);
        let quality = severity(point);
        let verdict = match quality {
            Severity::Unknown => (String::new(), None),
            known => (known.name().to_owned(), Some(mark(known.into()).1)),
        };
        let mut cells: StyledCells = vec![verdict];
        let figures = [
            mean("latency-mean"),
            interval.map_or_else(|| "-".to_owned(), |[low, high]| format!("{} - {}", eng3(low), eng3(high))),
            mean("latency-p99"),
            mean("pdv-p99"),
            point.get("loss").map_or_else(|| "-".to_owned(), |e| format!("{} %", percent(e.mean))),
        ];
        cells.extend(figures.map(|text| (text, None)));
        (sweep.grid.name(point.cell, None), cells)
    };
    let mut lines: Vec<(String, StyledCells)> =
        shown.iter().filter_map(|k| sweep.points.get(*k)).map(line).collect();
    // Add empty lines for those left out, so that they are counted.
    lines.extend(std::iter::repeat_n(Default::default(), n.saturating_sub(lines.len())));
    ScreenTable { heads: heads.to_vec(), lines, name: MAX_NAME_COLUMNS, most: MAX_LINES }
}

/// Describes the error of one-way delays.
fn clocks(points: &[SweepPoint]) -> String {
    let bounds: Option<Vec<f64>> = points.iter().map(|p| Some(p.get("clock-bound")?.max)).collect();
    match bounds.and_then(|bounds| bounds.into_iter().reduce(f64::max)) {
        Some(bound) => format!("delays may be wrong by up to {}, the error of the clocks", eng3(bound)),
        None => "the clocks were not compared in every run: only differences between combinations count"
            .to_owned(),
    }
}

fn trust(sweep: Swept<'_>) -> Vec<String> {
    let runs = sweep.points.iter().map(|p| p.runs).min().unwrap_or(0);
    let packets = sweep.points.iter().map(|p| p.sent).min().unwrap_or(0);
    let mut lines = Vec::new();
    if sweep.one_way {
        lines.push(clocks(sweep.points));
    }
    if !sweep.answer.complete {
        lines.push("the sweep is not complete".to_owned());
    }
    lines.push(match runs {
        ..=1 => "one run each: the repeatability is unknown; use --repetitions".to_owned(),
        n => format!(
            "means of {n} runs in random order, with Student's t interval; at least {packets} packets each"
        ),
    });
    lines
}

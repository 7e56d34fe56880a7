//! Comparison of several runs on the console: a table, and the significance of the differences.

use super::page::mark;
use super::{Page, TextOptions, WordStyle, dash, printable};
use jitlat_core::scalars::{SCALARS, Scalar};
use jitlat_core::units::eng4_f64;
use jitlat_verdict::compare::{Basis, Cell, Comparison, ComparisonGrid, ComparisonOutcome};
use jitlat_verdict::comparison::{
    SideChange, change, effect, figure_line, margins, p_value, points, signed, statement, tail,
};

/// Width of a row's name, in characters.
const ROW: usize = 16;
/// Width of a figure's name, in characters.
const FIGURE: usize = 16;
/// Width of a column, in characters.
const COLUMN: usize = 12;

/// Returns the table and the verdicts.
pub fn comparison(grid: &ComparisonGrid, options: &TextOptions) -> String {
    let mut page = Page::new(options);
    table(&mut page, grid);
    notes(&mut page, grid);
    for row in &grid.rows {
        for c in &row.comparisons {
            verdict(&mut page, &row.name, c, options);
        }
    }
    page.text
}

/// A line of the table: its name, and a function for the text of a cell.
type ComparisonLine<'a> = (&'a str, Box<dyn Fn(&Cell) -> Option<String>>);

/// Returns the lines of the table: the number of runs, if there are several, then the headline figures.
fn lines_of_table() -> Vec<ComparisonLine<'static>> {
    let runs: ComparisonLine<'_> =
        ("runs", Box::new(|c| (c.sources.len() > 1).then(|| c.sources.len().to_string())));
    let headlines = SCALARS.iter().filter(|f| f.headline);
    let line = |f: &'static Scalar| -> ComparisonLine<'static> {
        (f.label, Box::new(|c| c.scalar(f.key).map(|value| f.show(value))))
    };
    core::iter::once(runs).chain(headlines.map(line)).collect()
}

fn table(page: &mut Page, grid: &ComparisonGrid) {
    let lines = lines_of_table();
    let named = grid.rows.iter().any(|r| !r.name.is_empty());
    let lead = if named { ROW + FIGURE } else { FIGURE };
    let widths: Vec<usize> =
        grid.columns.iter().map(|c| c.chars().count().clamp(COLUMN - 2, 24) + 2).collect();
    let mut from = 0;
    while from < grid.columns.len() {
        // A table has as many columns as fit the width; the rest follow in further tables.
        let mut to = from;
        let mut width = lead;
        while to < widths.len() && (to == from || width + widths[to] <= page.width) {
            width += widths[to];
            to += 1;
        }
        if from > 0 {
            page.blank();
        }
        let line = |row: &str, figure: &str, cells: &[String]| {
            let mut text = if named { format!("{:<ROW$}", clip(row, ROW - 1)) } else { String::new() };
            text.push_str(&format!("{figure:<FIGURE$}"));
            for (cell, width) in cells.iter().zip(&widths[from..to]) {
                text.push_str(&format!("{:>width$}", clip(cell, width - 1)));
            }
            text.trim_end().to_owned()
        };
        let head = line("", "", &grid.columns[from..to].iter().map(|c| printable(c)).collect::<Vec<_>>());
        let head = page.painted(WordStyle::Heading, &head);
        page.line(&head);
        for row in &grid.rows {
            let mut name = printable(&row.name);
            for (figure, of) in &lines {
                // Omit a line that is undefined for all columns.
                if row.cells.iter().flatten().all(|c| of(c).is_none()) {
                    continue;
                }
                let cells: Vec<String> =
                    row.cells[from..to].iter().map(|c| dash(c.as_ref().and_then(of))).collect();
                let text = line(&std::mem::take(&mut name), figure, &cells);
                page.line(&text);
            }
        }
        from = to;
    }
}

fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(2)).chain("..".chars()).collect()
}

/// Adds notes that are needed to read the table.
fn notes(page: &mut Page, grid: &ComparisonGrid) {
    let notes = notes_on(grid);
    if notes.is_empty() {
        return;
    }
    page.blank();
    for note in notes {
        page.marked("note:", Some(WordStyle::Note), note);
    }
}

/// Returns notes that are needed to read the figures of `grid`.
pub(super) fn notes_on(grid: &ComparisonGrid) -> Vec<&'static str> {
    let cells = || grid.rows.iter().flat_map(|r| r.cells.iter().flatten());
    let mut notes = Vec::new();
    if cells().any(|c| !c.latency_trusted) {
        notes.push(
            "the clock offset of at least one run is unknown: jitter and loss can be compared, one-way delay cannot",
        );
    }
    if cells().any(|c| c.lost.is_none()) {
        notes.push("loss cannot be observed with TCP: it appears as delay");
    }
    if cells().any(|c| c.pdv.is_none()) {
        notes.push("percentiles of several summaries cannot be pooled: give the logs");
    }
    if cells().any(|c| c.ipdv.as_ref().is_some_and(|i| i.quantised)) {
        notes.push("an IPDV IQR of zero with a nonzero std dev means that the clock is too coarse");
    }
    notes
}

/// Describes the measurement error that limits the comparison `c`; `None` if the error is unknown or
/// negligible.
pub(super) fn floor(c: &Comparison) -> Option<String> {
    if c.floor > 0.0 && c.floor.is_finite() {
        return Some(format!("combined measurement error: {}", eng4_f64(c.floor)));
    }
    let unknown = c.basis != Basis::Delay && c.tests.is_some();
    unknown.then(|| "the hosts' own noise was not recorded, so the change is not compared with it".to_owned())
}

fn verdict(page: &mut Page, row: &str, c: &Comparison, _options: &TextOptions) {
    let of = if row.is_empty() { String::new() } else { format!("{}: ", printable(row)) };
    page.heading(&format!("{of}{} against {}", printable(&c.b), printable(&c.a)));
    let side = SideChange::of(c);
    page.marked(&format!("{}:", side.name()), Some(mark(side.level()).1), &printable(&statement(c)));
    for u in c.unlike.iter().filter(|u| !u.what.is_vital()) {
        page.marked(
            "warning:",
            Some(WordStyle::Poor),
            &format!("{}: this may be the cause of the difference", printable(&u.text)),
        );
    }
    if c.outcome == ComparisonOutcome::Refused {
        return;
    }
    let what = c.basis.noun();
    for figure in &c.compared {
        page.item(&figure_line(c, figure));
    }
    page.item(&margins(c));
    if let Some(d) = &c.median {
        page.item(&format!("median of {what}: {}", change(d)));
    }
    if let Some(d) = &c.p99 {
        page.item(&format!("99th percentile of {what}: {}", change(d)));
    }
    if let Some(d) = &c.loss {
        page.item(&format!("loss: {}", points(d)));
    }
    if let (Some(delta), Some(e)) = (c.cliffs_delta, c.effect) {
        let shift =
            c.shift.map_or(String::new(), |s| format!("; typical shift (Hodges-Lehmann) {}", signed(s)));
        page.item(&format!("effect: Cliff's delta {delta:+.3}, {}{shift}", effect(e)));
    }
    if let Some(effect) = &c.tail {
        page.item(&printable(&format!("slowest packets: {}", tail(c, effect))));
    }
    if let Some(floor) = floor(c) {
        page.item(&floor);
    }
    if let Some(t) = &c.tests {
        page.item(&format!(
            "for reference, assuming independent packets (which packets of one run are not): Mann-Whitney U = {}, \
             {}; Kolmogorov-Smirnov D = {:.3}, {}",
            t.u, p_value(t.p), t.ks, p_value(t.ks_p)
        ));
    }
}

//! Page of a comparison: first the screen report, then the figures, each comparison in detail, the table, and the compared
//! runs.

use super::parts::{FigureGroup, Printed, data, folded, head, micro, plots};
use super::tables::shown;
use super::{first, list, shell};
use crate::FirstScreen;
use crate::figure::{self, AxisUnit, value_label};
use crate::text::screen::Screen;
use jitlat_core::scalars::{SCALARS, Scalar, selectors};
use jitlat_core::time::WallTime;
use jitlat_verdict::compare::{Basis, Cell, Comparison, ComparisonGrid, ComparisonOutcome, Difference};
use jitlat_verdict::comparison::{SideChange, effect, figure_line, headline, margins, p_value, tail};
use maud::{Markup, html};

/// Renders a comparison as one self-contained HTML document.
pub fn comparison(grid: &ComparisonGrid, program: &str, written: Option<WallTime>) -> String {
    let groups: Vec<FigureGroup> = grid
        .rows
        .iter()
        .zip(1..)
        .map(|(row, k)| {
            let mut drawn = figure::of_row(row);
            if grid.rows.len() > 1 {
                drawn.iter_mut().for_each(|f| f.id = format!("{}-{k}", f.id));
            }
            FigureGroup { name: row.name.clone(), figures: drawn, printed: Printed::All }
        })
        .filter(|group| !group.figures.is_empty())
        .collect();
    let screen = Screen::of_comparison(grid);
    let content = FirstScreen::new(title(grid), vec![basis(grid).to_owned()], &screen, None);
    let header = html! { p.what { (basis(grid)) } };
    let body = html! {
        main {
            (first::section(&content))
            (plots(&groups))
            (folded("reliability", "Reliability", &list(screen.trust())))
            @for row in &grid.rows {
                @for c in &row.comparisons { (verdict(&row.name, c)) }
            }
            (table(grid))
            (compared(grid))
            (shell::footer(None, program, written))
        }
        (data(None, &groups))
    };
    shell::document(&content.title, program, None, &header, &body).into_string()
}

/// Returns the beginning of the page of a comparison with its first figure, to be drawn as one card.
pub fn first_screen_of(grid: &ComparisonGrid, program: &str, written: Option<WallTime>) -> FirstScreen {
    let figure = grid.rows.iter().find_map(|row| figure::of_row(row).into_iter().next());
    let screen = Screen::of_comparison(grid);
    let first = FirstScreen::new(title(grid), vec![basis(grid).to_owned()], &screen, figure);
    first.made_by(shell::made(program, written))
}

fn title(grid: &ComparisonGrid) -> String {
    let cells = grid.rows.iter().flat_map(|r| r.cells.iter().flatten()).count();
    format!("{cells} runs side by side").replacen("1 runs", "1 run", usize::from(cells == 1))
}

/// Describes the quantity by which the runs are compared.
fn basis(grid: &ComparisonGrid) -> &'static str {
    match grid.basis {
        Basis::Pdv => {
            "Compared by jitter: delay above each run's own minimum, which does not depend on clock offsets."
        }
        Basis::Delay => "Compared by delay, corrected if the clock offset is known.",
        Basis::Ipdv => {
            "Compared by absolute IPDV: the difference in delay between consecutive packets, without its sign. It \
             does not depend on clock offsets."
        }
    }
}

fn verdict(row: &str, c: &Comparison) -> Markup {
    let level = match SideChange::of(c) {
        SideChange::Worse => "poor",
        SideChange::Better | SideChange::Same => "good",
        SideChange::Refused => "bad",
        SideChange::Mixed | SideChange::Undecided => "note",
    };
    let flags: Vec<_> = c.unlike.iter().filter(|u| !u.what.is_vital()).collect();
    html! {
        section.verdict.(level) {
            h2 { @if !row.is_empty() { (row) ": " } (c.b) " against " (c.a) }
            p.headline { (micro(&headline(c))) }
            @if !flags.is_empty() {
                ul.findings {
                    @for u in flags {
                        li.poor { span.level { "unlike" } " " (u.text) "; the difference may be caused by that." }
                    }
                }
            }
            ul { @for item in details(c) { li { (item) } } }
        }
    }
}

/// Describes changes, effect and tests of a comparison; empty if the runs are not comparable.
fn details(c: &Comparison) -> Vec<String> {
    let mut items = Vec::new();
    if c.outcome == ComparisonOutcome::Refused {
        return items;
    }
    items.extend(c.compared.iter().map(|figure| micro(&format!("{}.", figure_line(c, figure)))));
    items.push(micro(&format!("{}.", margins(c))));
    let what = c.basis.noun();
    for (name, d) in [("Median", &c.median), ("99th percentile", &c.p99)] {
        if let Some(d) = d {
            items.push(format!("{name} of {what}: {}.", change(d, |x| value_label(AxisUnit::Time, x))));
        }
    }
    if let Some(d) = &c.loss {
        let points = |x: f64| format!("{:.3}", x * 100.0).replace('-', "−");
        items.push(format!("Loss in percentage points: {}.", change(d, points)));
    }
    if let (Some(delta), Some(e)) = (c.cliffs_delta, c.effect) {
        let delta = format!("{delta:+.3}").replace('-', "−");
        let shift = c.shift.map_or(String::new(), |s| {
            format!("; typical shift (Hodges–Lehmann) {}", signed(s, |x| value_label(AxisUnit::Time, x)))
        });
        items.push(format!("Effect: Cliff’s δ {delta}, {}{shift}.", effect(e)));
    }
    if let Some(effect) = &c.tail {
        items.push(format!("Slowest packets: {}.", tail(c, effect)));
    }
    if let Some(t) = &c.tests {
        items.push(format!(
            "For reference, assuming independent packets (which packets of one run are not): Mann–Whitney U = {}, \
             {}; Kolmogorov–Smirnov D = {:.3}, {}.",
            t.u,
            p_value(t.p),
            t.ks,
            p_value(t.ks_p)
        ));
    }
    items
}

fn signed(x: f64, show: impl Fn(f64) -> String) -> String {
    if x > 0.0 { format!("+{}", show(x)) } else { show(x) }
}

fn change(d: &Difference, show: impl Fn(f64) -> String + Copy) -> String {
    let ci = d.ci95.map(|[lo, hi]| {
        format!(", between {} and {} with 95 % confidence", signed(lo, show), signed(hi, show))
    });
    format!("{}{}", signed(d.change, show), ci.unwrap_or_default())
}

/// Renders a table with many columns, in small type.
fn dense(rows: &Markup) -> Markup {
    html! { div.wide.dense tabindex="0" role="group" aria-label="Table" { table { (rows) } } }
}

fn table(grid: &ComparisonGrid) -> Markup {
    let named = grid.rows.iter().any(|r| !r.name.is_empty());
    let headlines: Vec<&Scalar> = SCALARS.iter().filter(|f| f.headline).collect();
    let names = named.then_some("test").into_iter().chain(["run"]).chain(headlines.iter().map(|f| f.label));
    let rows = html! {
        (head(&names.collect::<Vec<_>>()))
        tbody {
            @for row in &grid.rows {
                @for cell in row.cells.iter().flatten() {
                    tr {
                        @if named { th scope="row" { (row.name) } }
                        th scope="row" { (cell.column) }
                        @for figure in &headlines { td { (value(figure, cell)) } }
                    }
                }
            }
        }
    };
    html! {
        section.tables {
            h2 { "The figures" }
            (dense(&rows))
            (all_figures(grid))
        }
    }
}

/// Formats a figure of a cell; returns an empty string for latencies between clocks whose offset is unknown.
fn value(figure: &Scalar, cell: &Cell) -> String {
    let known = cell.latency_trusted || !figure.key.starts_with("latency");
    let value = cell.scalar(figure.key).filter(|_| known);
    value.map_or_else(|| "–".to_owned(), |value| shown(figure, value))
}

/// Renders every figure that is known for at least one column, one per line.
fn all_figures(grid: &ComparisonGrid) -> Markup {
    let cells: Vec<&Cell> = grid.rows.iter().flat_map(|row| row.cells.iter().flatten()).collect();
    let rows = html! {
        (head(&core::iter::once("figure".to_owned()).chain(columns(grid).map(|c| c.0)).collect::<Vec<_>>()))
        tbody {
            @for selector in selectors() {
                @let key = selector.to_string();
                @if cells.iter().any(|c| c.scalar(&key).is_some()) {
                    tr {
                        th scope="row" { (key) }
                        @for cell in &cells {
                            td { @if let Some(value) = cell.scalar(&key) { (shown(selector.scalar, value)) } @else { "–" } }
                        }
                    }
                }
            }
        }
    };
    html! {
        details {
            summary { "All figures" }
            (dense(&rows))
        }
    }
}

/// Returns the columns of all rows with their full names.
fn columns(grid: &ComparisonGrid) -> impl Iterator<Item = (String, &Cell)> {
    grid.rows.iter().flat_map(|row| {
        row.cells.iter().flatten().map(|cell| match row.name.as_str() {
            "" => (cell.column.clone(), cell),
            name => (format!("{name}, {}", cell.column), cell),
        })
    })
}

fn compared(grid: &ComparisonGrid) -> Markup {
    html! {
        section.evidence {
            h2 { "Compared runs" }
            dl.more {
                @for (name, cell) in columns(grid) { div { dt { (name) } dd { (cell.sources.join(", ")) } } }
            }
            p {
                "Worse and better mean that the interval of the change, which accounts for correlated packets, bursts \
                 of loss and the errors of the measurement, excludes zero. Same means that this interval lies within \
                 the margin. Otherwise no difference was found, and the largest possible one is stated. Latency is \
                 shown if the clock offset is known."
            }
        }
    }
}

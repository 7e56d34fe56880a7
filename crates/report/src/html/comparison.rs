//! The page of a comparison: first what the console shows, then the figures, each comparison in detail, the table, and
//! what was compared.

use super::parts::{Group, Printed, data, folded, micro, plots};
use super::tables::shown;
use super::{first, list, shell};
use crate::FirstScreen;
use crate::escape::escape;
use crate::figure::{self, ComparedRun, Unit, value_label};
use crate::text::screen::Screen;
use jitlat_core::compare::{Basis, Cell, Comparison, Difference, Grid, Outcome, Row};
use jitlat_core::scalars::{SCALARS, Scalar, selectors};
use jitlat_core::time::WallTime;
use jitlat_core::verdict::comparison::{effect, outcome, p_value, sentence};
use std::fmt::Write;

/// A comparison as one self-contained HTML document.
pub fn comparison(grid: &Grid, program: &str, written: Option<WallTime>) -> String {
    let groups: Vec<Group> = grid
        .rows
        .iter()
        .zip(1..)
        .map(|(row, k)| {
            let mut drawn = figures_of(row);
            if grid.rows.len() > 1 {
                drawn.iter_mut().for_each(|f| f.id = format!("{}-{k}", f.id));
            }
            Group { name: row.name.clone(), figures: drawn, printed: Printed::All }
        })
        .filter(|group| !group.figures.is_empty())
        .collect();
    let mut out = String::with_capacity(1 << 17);
    let screen = Screen::of_comparison(grid);
    let content = FirstScreen::new(title(grid), vec![basis(grid).to_owned()], &screen, None);
    shell::open(&mut out, &content.title, program, None);
    let _ = write!(out, "<p class=\"what\">{}</p></header>\n<main>\n", basis(grid));
    first::write(&mut out, &content);
    plots(&mut out, &groups);
    folded(&mut out, "belief", "How far to believe it", |out| list(out, screen.trust()));
    for row in &grid.rows {
        row.comparisons.iter().for_each(|c| verdict(&mut out, &row.name, c));
    }
    table(&mut out, grid);
    compared(&mut out, grid);
    shell::footer(&mut out, None, program, written);
    out.push_str("</main>\n");
    data(&mut out, None, &groups);
    shell::close(&mut out, None);
    out
}

/// What the page of a comparison begins with, and the first of its figures: to be drawn as one card.
pub fn first_screen_of(grid: &Grid, program: &str, written: Option<WallTime>) -> FirstScreen {
    let figure = grid.rows.iter().find_map(|row| figures_of(row).into_iter().next());
    let screen = Screen::of_comparison(grid);
    let first = FirstScreen::new(title(grid), vec![basis(grid).to_owned()], &screen, figure);
    first.made_by(shell::made(program, written))
}

fn title(grid: &Grid) -> String {
    let cells = grid.rows.iter().flat_map(|r| r.cells.iter().flatten()).count();
    format!("{cells} runs side by side").replacen("1 runs", "1 run", usize::from(cells == 1))
}

/// By what the runs are compared.
fn basis(grid: &Grid) -> &'static str {
    match grid.basis {
        Basis::Pdv => {
            "Compared by jitter: delay above each run's own minimum, for which no clocks need to agree."
        }
        Basis::Delay => "Compared by delay, corrected where the clocks' relation is known.",
        Basis::Ipdv => {
            "Compared by absolute IPDV: how far the delay of each packet is from that of the one before, in either \
             direction. No clocks need to agree."
        }
    }
}

/// The figures of one row, its columns side by side.
pub fn figures_of(row: &Row) -> Vec<figure::Figure> {
    let runs: Vec<ComparedRun<'_>> = row.cells.iter().flatten().filter_map(beside).collect();
    let mut drawn = figure::of_runs(&runs);
    let cells = row.cells.iter().flatten();
    let measured =
        cells.flat_map(|cell| cell.measured.iter().map(|m| (cell.column.as_str(), Some(m.clone()))));
    figure::say_measured(&mut drawn, &figure::measured_of_several(measured));
    if !row.name.is_empty() {
        drawn.iter_mut().for_each(|f| f.title = format!("{} – {}", f.title, row.name));
    }
    drawn
}

fn beside(cell: &Cell) -> Option<ComparedRun<'_>> {
    Some(ComparedRun {
        name: &cell.column,
        latency: cell.latency.as_ref()?,
        pdv: cell.pdv.as_ref()?,
        samples: cell.latency_sample.as_ref().zip(cell.pdv_sample.as_ref()),
        ipdv: cell.ipdv.as_ref().zip(cell.ipdv_sample.as_ref()),
        // Already corrected, if the clocks allow it.
        correction: None,
        raw_clocks: false,
    })
}

fn verdict(out: &mut String, row: &str, c: &Comparison) {
    let level = match outcome(c) {
        "worse" => "poor",
        "better" | "same" => "good",
        "refused" => "bad",
        _ => "note",
    };
    let of = if row.is_empty() { String::new() } else { format!("{row}: ") };
    let _ = write!(
        out,
        "<section class=\"verdict {level}\"><h2>{}</h2><p class=\"headline\">{}</p>",
        escape(&format!("{of}{} against {}", c.b, c.a)),
        escape(&micro(&sentence(c)))
    );
    let flags: Vec<_> = c.unlike.iter().filter(|u| !u.what.is_vital()).collect();
    if !flags.is_empty() {
        out.push_str("<ul class=\"findings\">");
        for u in flags {
            let text = escape(&format!("{}; the difference may have its cause there.", u.text));
            let _ = write!(out, "<li class=\"poor\"><span class=\"level\">unlike</span> {text}</li>");
        }
        out.push_str("</ul>");
    }
    out.push_str("<ul>");
    let mut item = |text: &str| {
        let _ = write!(out, "<li>{}</li>", escape(text));
    };
    if c.outcome != Outcome::Refused {
        let what = c.basis.noun();
        for (name, d) in [("Median", &c.median), ("99th percentile", &c.p99)] {
            if let Some(d) = d {
                item(&format!("{name} of {what}: {}.", change(d, |x| value_label(Unit::Time, x))));
            }
        }
        if let Some(d) = &c.loss {
            let points = |x: f64| format!("{:.3}", x * 100.0).replace('-', "−");
            item(&format!("Loss in percentage points: {}.", change(d, points)));
        }
        if let (Some(delta), Some(e)) = (c.cliffs_delta, c.effect) {
            let delta = format!("{delta:+.3}").replace('-', "−");
            let shift = c.shift.map_or(String::new(), |s| {
                format!("; typical shift (Hodges–Lehmann) {}", signed(s, |x| value_label(Unit::Time, x)))
            });
            item(&format!("Effect: Cliff’s δ {delta}, {}{shift}.", effect(e)));
        }
        if let Some(t) = &c.tests {
            item(&format!(
                "For the record, supposing independent packets, which those of one run are not: Mann–Whitney \
                     U = {}, {}; Kolmogorov–Smirnov D = {:.3}, {}.",
                t.u,
                p_value(t.p),
                t.ks,
                p_value(t.ks_p)
            ));
        }
    }
    out.push_str("</ul></section>\n");
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

fn table(out: &mut String, grid: &Grid) {
    out.push_str(
        "<section class=\"tables\"><h2>The figures</h2><div class=\"wide dense\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table><thead><tr>",
    );
    let named = grid.rows.iter().any(|r| !r.name.is_empty());
    let headlines: Vec<&Scalar> = SCALARS.iter().filter(|f| f.headline).collect();
    if named {
        out.push_str("<th scope=\"col\">test</th>");
    }
    for head in core::iter::once("run").chain(headlines.iter().map(|f| f.label)) {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(head));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &grid.rows {
        for cell in row.cells.iter().flatten() {
            out.push_str("<tr>");
            if named {
                let _ = write!(out, "<th scope=\"row\">{}</th>", escape(&row.name));
            }
            let _ = write!(out, "<th scope=\"row\">{}</th>", escape(&cell.column));
            for figure in &headlines {
                let _ = write!(out, "<td>{}</td>", escape(&value(figure, cell)));
            }
            out.push_str("</tr>");
        }
    }
    out.push_str("</tbody></table></div>");
    all_figures(out, grid);
    out.push_str("</section>\n");
}

/// A figure of a cell; empty for latencies between clocks whose offset is unknown.
fn value(figure: &Scalar, cell: &Cell) -> String {
    let known = cell.latency_trusted || !figure.key.starts_with("latency");
    let value = cell.scalar(figure.key).filter(|_| known);
    value.map_or_else(|| "–".to_owned(), |value| shown(figure, value))
}

/// Every figure that a column has, one per line.
fn all_figures(out: &mut String, grid: &Grid) {
    let cells: Vec<&Cell> = grid.rows.iter().flat_map(|row| row.cells.iter().flatten()).collect();
    out.push_str("<details><summary>All figures</summary><div class=\"wide dense\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table><thead><tr><th scope=\"col\">figure</th>");
    for row in &grid.rows {
        for cell in row.cells.iter().flatten() {
            let of = if row.name.is_empty() { String::new() } else { format!("{}, ", row.name) };
            let _ = write!(out, "<th scope=\"col\">{}</th>", escape(&format!("{of}{}", cell.column)));
        }
    }
    out.push_str("</tr></thead><tbody>");
    for selector in selectors() {
        let key = selector.to_string();
        if cells.iter().all(|c| c.scalar(&key).is_none()) {
            continue;
        }
        let values: Vec<String> = cells
            .iter()
            .map(|c| c.scalar(&key).map_or_else(|| "–".to_owned(), |v| shown(selector.scalar, v)))
            .collect();
        super::tables::row(out, &key, &values);
    }
    out.push_str("</tbody></table></div></details>");
}

fn compared(out: &mut String, grid: &Grid) {
    out.push_str("<section class=\"evidence\"><h2>What was compared</h2><dl class=\"more\">");
    for row in &grid.rows {
        for cell in row.cells.iter().flatten() {
            let name = if row.name.is_empty() {
                cell.column.clone()
            } else {
                format!("{}, {}", row.name, cell.column)
            };
            let _ = write!(
                out,
                "<div><dt>{}</dt><dd>{}</dd></div>",
                escape(&name),
                escape(&cell.sources.join(", "))
            );
        }
    }
    let _ = writeln!(
        out,
        "<div><dt>bootstrap</dt><dd>moving blocks, seed {}</dd></div></dl><p>Different means three things at once: the \
         95 % interval of the change, which allows for packets that resemble their neighbours, excludes no change; \
         the effect is not negligible; and the change exceeds what the measurements themselves may be wrong by. \
         Latency is shown where something is known of how the clocks relate.</p></section>",
        grid.seed
    );
}

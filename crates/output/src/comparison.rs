//! A comparison as an output [`Report`].

use crate::error::Result;
use crate::pages;
use crate::report::{Drawings, Report, ReportTable};
use jitlat_core::scalars::selectors;
use jitlat_report::{FirstScreen, figure};
use jitlat_verdict::compare::{Cell, Comparison, ComparisonGrid};
use jitlat_verdict::comparison;
use serde_json::Value;

/// A comparison's report.
pub struct GridReport<'a>(pub &'a ComparisonGrid);

impl Report for GridReport<'_> {
    fn json(&self) -> Result<Value> {
        Ok(serde_json::to_value(self.0)?)
    }

    fn table(&self) -> Option<ReportTable> {
        Some(lines(self.0))
    }

    fn page(&self) -> Result<String> {
        Ok(pages::comparison(self.0))
    }

    fn first_screen(&self) -> Option<FirstScreen> {
        pages::first_screen_of(self.0)
    }

    fn draw(&self, each: &mut Drawings<'_>) -> Result<()> {
        let alone = self.0.rows.len() == 1;
        for (row, k) in self.0.rows.iter().zip(1..) {
            let prefix = if alone { String::new() } else { format!("{k}-") };
            each(&prefix, &figure::of_row(row))?;
        }
        Ok(())
    }
}

type ReportLine = Vec<(String, String)>;

/// Returns one line per cell. Each cell is compared with the first cell of its row.
fn lines(grid: &ComparisonGrid) -> Vec<ReportLine> {
    let of_row = |row: &jitlat_verdict::compare::ComparisonRow| {
        let against = |cell: &Cell| row.comparisons.iter().find(|c| c.b == cell.column);
        row.cells.iter().flatten().map(|cell| line(&row.name, cell, against(cell))).collect::<Vec<_>>()
    };
    grid.rows.iter().flat_map(of_row).collect()
}

fn line(row: &str, cell: &Cell, c: Option<&Comparison>) -> ReportLine {
    let mut line = ReportLine::new();
    let mut add = |name: &str, value: Option<String>| line.push((name.to_owned(), value.unwrap_or_default()));
    let text = |v: Option<f64>| v.map(|v| v.to_string());
    add("row", Some(row.to_owned()));
    add("column", Some(cell.column.clone()));
    add("sources", Some(cell.sources.join(" ")));
    add("accepted", Some(cell.accepted.to_string()));
    add("longest_loss", cell.longest_loss.map(|v| v.to_string()));
    for selector in selectors() {
        add(&selector.column(), cell.scalar(&selector.to_string()).map(|v| v.to_string()));
    }
    add("latency_trusted", Some(cell.latency_trusted.to_string()));
    add("against", c.map(|c| c.a.clone()));
    add("outcome", c.map(|c| comparison::outcome(c).to_owned()));
    for (name, d) in [
        ("median_change_ns", c.and_then(|c| c.median)),
        ("p99_change_ns", c.and_then(|c| c.p99)),
        ("loss_change", c.and_then(|c| c.loss)),
    ] {
        add(name, text(d.map(|d| d.change)));
        add(&format!("{name}_low"), text(d.and_then(|d| d.ci95).map(|ci| ci[0])));
        add(&format!("{name}_high"), text(d.and_then(|d| d.ci95).map(|ci| ci[1])));
    }
    add("cliffs_delta", text(c.and_then(|c| c.cliffs_delta)));
    add("effect", c.and_then(|c| c.effect).map(|e| comparison::effect(e).to_owned()));
    add("shift_ns", text(c.and_then(|c| c.shift)));
    let unlike = c.map(|c| c.unlike.iter().map(|u| u.text.as_str()).collect::<Vec<_>>().join("; "));
    add("unlike", unlike);
    add("verdict", c.map(|c| comparison::SideChange::of(c).name().to_owned()));
    line
}

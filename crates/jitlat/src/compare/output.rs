//! From a grid to what was asked for: console, JSON, CSV, page, figures.

use super::{CompareArgs, print};
use anyhow::{Context, Result};
use jitlat_core::compare::{Cell, Comparison, Grid};
use jitlat_core::figures::selectors;
use jitlat_core::verdict::comparison;
use jitlat_report::{draw, html, text};
use jitlat_store::{csv, output};
use std::fs;
use std::path::Path;

pub fn write(grid: &Grid, args: &CompareArgs) -> Result<()> {
    let options = text::Options { style: crate::console::style(), ..text::Options::default() };
    print(&text::comparison(grid, &options), args)?;
    if let Some(path) = &args.csv {
        output::write(path, |out| csv::write_table(out, lines(grid)))?;
    }
    if let Some(path) = &args.html {
        let program = concat!("jitlat ", env!("CARGO_PKG_VERSION"));
        let page = html::comparison(grid, program, Some(jitlat_net::clock::wall()));
        output::write(path, |out| out.write_all(page.as_bytes()))?;
    }
    if let Some(dir) = &args.plots {
        draw_into(grid, dir)?;
    }
    if let Some(path) = &args.json {
        output::write(path, |out| {
            serde_json::to_writer_pretty(&mut *out, grid)?;
            out.write_all(b"\n")
        })?;
    }
    Ok(())
}

fn draw_into(grid: &Grid, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("making the folder {}", dir.display()))?;
    for (row, k) in grid.rows.iter().zip(1..) {
        for file in draw::files(&html::figures_of(row)) {
            let (name, content) = file.context("drawing a figure")?;
            let name = if grid.rows.len() > 1 { format!("{k}-{name}") } else { name };
            output::write(&dir.join(name), |out| out.write_all(&content))?;
        }
    }
    Ok(())
}

type Line = Vec<(String, String)>;

/// One line a cell, with its comparison with the first of its row.
fn lines(grid: &Grid) -> Vec<Line> {
    let of_row = |row: &jitlat_core::compare::Row| {
        let against = |cell: &Cell| row.comparisons.iter().find(|c| c.b == cell.column);
        row.cells.iter().flatten().map(|cell| line(&row.name, cell, against(cell))).collect::<Vec<_>>()
    };
    grid.rows.iter().flat_map(of_row).collect()
}

fn line(row: &str, cell: &Cell, c: Option<&Comparison>) -> Line {
    let mut line = Line::new();
    let mut add = |name: &str, value: Option<String>| line.push((name.to_owned(), value.unwrap_or_default()));
    let text = |v: Option<f64>| v.map(|v| v.to_string());
    add("row", Some(row.to_owned()));
    add("column", Some(cell.column.clone()));
    add("sources", Some(cell.sources.join(" ")));
    add("accepted", Some(cell.accepted.to_string()));
    add("longest_loss", cell.longest_loss.map(|v| v.to_string()));
    for selector in selectors() {
        add(&selector.column(), cell.figure(&selector.to_string()).map(|v| v.to_string()));
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
    line
}

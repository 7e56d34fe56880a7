//! A sweep as a table, CSV, JSON and figures.

use super::state::State;
use super::{Plan, SweepArgs};
use crate::console;
use anyhow::{Context, Result, bail};
use jitlat_core::figures::{Selector, selectors};
use jitlat_core::sweep::{Estimate, Factor, Point, SizeLaw, points, size_laws};
use jitlat_core::units::{bit_rate, eng4_f64};
use jitlat_report::draw;
use jitlat_report::figure::{Sweep, of_sweep};
use jitlat_report::text::{Options, Page};
use jitlat_store::output;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

/// Refuses outputs that would get into each other's way.
pub fn check(args: &SweepArgs) -> Result<()> {
    if [&args.json, &args.csv].into_iter().flatten().filter(|p| p.as_os_str() == "-").count() > 1 {
        bail!("standard output can take one format only: give the other a file");
    }
    Ok(())
}

/// Whether standard output is taken by a program's format.
pub fn is_silent(args: &SweepArgs) -> bool {
    [&args.json, &args.csv].into_iter().flatten().any(|p: &PathBuf| p.as_os_str() == "-")
}

/// What is about to happen.
pub fn begin(state: &State) -> Result<String> {
    let plan = state.plan();
    let runs = plan.runs()?.len();
    let done = state.outcomes().len();
    let left = if done > 0 { format!(", {done} of them done") } else { String::new() };
    Ok(format!(
        "{} to {}: {} combinations, {} packets a run, {} run(s) each{left}\nKept in {}\n",
        plan.quantity(),
        plan.host,
        runs / (plan.repetitions as usize).max(1),
        plan.packets,
        plan.repetitions,
        state.path().display()
    ))
}

/// Writes everything asked for.
pub fn all(args: &SweepArgs, state: &State) -> Result<()> {
    let plan = state.plan();
    let points = points(&plan.grid, state.outcomes(), plan.confidence);
    let laws = size_laws(&plan.grid, state.outcomes());
    if points.is_empty() {
        return Ok(());
    }
    if !is_silent(args) {
        let options = Options { style: console::style(), ..Options::default() };
        console::print(&table(plan, &points, &laws, &options))?;
    }
    if let Some(path) = &args.csv {
        output::write(path, |out| csv(out, plan, &points))?;
    }
    if let Some(path) = &args.json {
        let value = json(state, &points, &laws)?;
        output::write(path, |out| {
            serde_json::to_writer_pretty(&mut *out, &value)?;
            out.write_all(b"\n")
        })?;
    }
    let Some(dir) = &args.plots else { return Ok(()) };
    fs::create_dir_all(dir).with_context(|| format!("making the folder {}", dir.display()))?;
    let notes: Vec<String> = laws.iter().map(law).collect();
    let sweep = Sweep {
        grid: &plan.grid,
        points: &points,
        confidence: plan.confidence,
        quantity: plan.quantity(),
        notes: &notes,
    };
    for file in draw::files(&of_sweep(&sweep)) {
        let (name, content) = file.context("drawing a figure")?;
        output::write(&dir.join(name), |out| out.write_all(&content))?;
    }
    Ok(())
}

fn table(plan: &Plan, points: &[Point], laws: &[SizeLaw], options: &Options) -> String {
    let mut page = Page::new(options);
    let name = |p: &Point| plan.grid.name(p.cell, None);
    let width = points.iter().map(|p| name(p).chars().count()).max().unwrap_or(0).max(12);
    page.heading(&format!(
        "{:<width$} {:>4} {:>10} {:>23} {:>10} {:>10} {:>10} {:>7}",
        "",
        "runs",
        "mean",
        format!("{} % between", plan.confidence),
        "smallest",
        "99 %",
        "std dev",
        "lost"
    ));
    let mean = |e: Option<&Estimate>| e.map_or_else(|| "-".to_owned(), |e| eng4_f64(e.mean));
    for p in points {
        let between = p.get("latency-mean").and_then(|e| e.interval);
        let between =
            between.map_or_else(|| "-".to_owned(), |[a, b]| format!("{} {}", eng4_f64(a), eng4_f64(b)));
        let loss = p.get("loss").map_or_else(|| "-".to_owned(), |e| format!("{:.2}%", e.mean * 100.0));
        page.line(&format!(
            "{:<width$} {:>4} {:>10} {between:>23} {:>10} {:>10} {:>10} {loss:>7}",
            name(p),
            p.runs,
            mean(p.get("latency-mean")),
            p.get("latency-min").map_or_else(|| "-".to_owned(), |e| eng4_f64(e.min)),
            mean(p.get("latency-p99")),
            mean(p.get("latency-stddev")),
        ));
    }
    if plan.repetitions == 1 {
        page.item("One run each: nothing is known of how the figures repeat. Give --repetitions.");
    }
    if !laws.is_empty() {
        page.heading("Delay by size");
        laws.iter().for_each(|l| page.item(&law(l)));
    }
    page.finish()
}

/// A law in words.
fn law(l: &SizeLaw) -> String {
    let name = if l.name.is_empty() { String::new() } else { format!("{}: ", l.name) };
    if let Some(fit) = &l.link
        && let Some((step, overhead)) = fit.steps
    {
        let known = if fit.encapsulations.is_empty() {
            String::new()
        } else {
            format!(", as {} has", fit.encapsulations.join(" or "))
        };
        return format!(
            "{name}in steps of {} every {step} bytes ({overhead} bytes of overhead beyond whole steps{known}), on top of {}: \
             {} in series",
            eng4_f64(fit.slope_ns),
            eng4_f64(fit.fixed_ns),
            bit_rate(fit.series_rate)
        );
    }
    match l.rate {
        Some(rate) => format!(
            "{name}{} and {} for every 100 bytes of IP packet: {} in series{}",
            eng4_f64(l.line.fixed_robust),
            eng4_f64(l.line.per_byte_robust * 100.0),
            bit_rate(rate),
            l.line.r.map_or_else(String::new, |r| format!(" (r = {r:.4})"))
        ),
        None => format!("{name}does not grow with size"),
    }
}

fn csv(out: &mut dyn Write, plan: &Plan, points: &[Point]) -> io::Result<()> {
    let factors: Vec<Factor> = plan.grid.axes.iter().map(|a| a.factor).collect();
    let heads =
        factors.iter().map(ToString::to_string).chain(["runs", "sent", "received"].map(str::to_owned));
    let mut heads: Vec<String> = heads.collect();
    // Of the tests as wholes, and without the counts that stand there as sums; the JSON has all.
    let beside = |s: &Selector| s.way.is_none() && !["sent", "received"].contains(&s.figure.key);
    let known = |s: &Selector| beside(s) && points.iter().any(|p| p.get(&s.to_string()).is_some());
    let figures: Vec<Selector> = selectors().filter(known).collect();
    for figure in &figures {
        heads.extend(["", "_low", "_high"].map(|end| format!("{}{end}", figure.column())));
    }
    writeln!(out, "{}", heads.join(",").to_lowercase())?;
    for p in points {
        // A load is written with commas.
        let levels = plan
            .grid
            .levels(p.cell)
            .into_iter()
            .map(|(_, l)| if l.text.contains(',') { format!("\"{}\"", l.text) } else { l.text.clone() });
        let mut fields: Vec<String> = levels.collect();
        fields.extend([p.runs, p.sent, p.received].map(|n| n.to_string()));
        for figure in &figures {
            let number = |v: Option<f64>| v.map_or_else(String::new, |v| format!("{v}"));
            let e = p.get(&figure.to_string());
            let end = |side: usize| number(e.and_then(|e| e.interval).map(|i| i[side]));
            fields.extend([number(e.map(|e| e.mean)), end(0), end(1)]);
        }
        writeln!(out, "{}", fields.join(","))?;
    }
    Ok(())
}

fn json(state: &State, points: &[Point], laws: &[SizeLaw]) -> Result<serde_json::Value> {
    let plan = state.plan();
    let point = |p: &Point| {
        let conditions: serde_json::Map<String, serde_json::Value> = plan
            .grid
            .levels(p.cell)
            .into_iter()
            .map(|(f, l)| {
                let value = l.number.map_or_else(|| l.text.clone().into(), serde_json::Value::from);
                (f.to_string().to_lowercase(), value)
            })
            .collect();
        let figures: serde_json::Map<String, serde_json::Value> = p
            .figures
            .iter()
            .map(|(figure, e)| Ok((figure.to_string(), serde_json::to_value(e)?)))
            .collect::<Result<_>>()?;
        Ok(serde_json::json!({
            "conditions": conditions, "runs": p.runs, "sent": p.sent, "received": p.received, "figures": figures,
        }))
    };
    let found: Vec<serde_json::Value> = points.iter().map(point).collect::<Result<_>>()?;
    Ok(serde_json::json!({
        "format": super::FORMAT,
        "quantity": plan.quantity(),
        "plan": plan,
        "complete": state.outcomes().len() == plan.runs()?.len(),
        "points": found,
        "size_laws": laws,
        "runs": state.outcomes(),
    }))
}

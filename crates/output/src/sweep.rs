//! Results of a sweep as a table, CSV, JSON and figures.

use crate::error::Result;
use crate::joined::JoinedSweeps;
use crate::report::{Report, ReportTable, shell_word};
use crate::terminal;
use jitlat_core::Span;
use jitlat_core::analysis::Samples;
use jitlat_core::answer::Answer;
use jitlat_core::scalars::{ExactNumber, SCALARS, Scalar, Selector, selectors};
use jitlat_core::sweep::{
    ConfidenceLevel, Estimate, Factor, FactorLevel, RunOutcome, SizeLaw, SweepGrid, SweepPoint, points,
    size_laws,
};
use jitlat_core::units::{bit_rate3, eng3, eng4_f64, utc_date};
use jitlat_report::Section;
use jitlat_report::figure::{CellPackets, Sweep, label_measured, of_sweep};
use jitlat_report::text::screen::{Screen, Swept};
use jitlat_report::text::{Page, TextOptions, count};
use jitlat_store::sweep::{Contents, FORMAT, SweepError, SweepPlan, SweepState};
use jitlat_verdict::sweep::answer;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Returns a description of the sweep, printed before it starts. `least` is the total time for which its tests send
/// packets, if known.
///
/// # Errors
/// [`SweepError`] if its plan has too many runs.
pub fn begin(state: &SweepState, least: Option<Span>) -> Result<String, SweepError> {
    let plan = state.plan();
    let runs = plan.runs()?.len();
    let done = state.outcomes().len();
    let left = if done > 0 { format!(", {done} of them done") } else { String::new() };
    let least = least.map_or(String::new(), |t| format!(", at least {}", eng3(t.0 as f64)));
    Ok(format!(
        "{} to {}: {}, {} per run, {} each{least}{left}\nStored in {}\n",
        plan.quantity(),
        plan.host,
        count((runs / (plan.repetitions as usize).max(1)) as u64, "combination"),
        count(plan.packets, "packet"),
        count(plan.repetitions.into(), "run"),
        state.path().display()
    ))
}

/// Report of a sweep, finished or unfinished.
pub struct SweepReport<'a> {
    sweep: &'a Contents,
    /// Files of the sweep, quoted for a shell.
    files: Vec<String>,
    points: Vec<SweepPoint>,
    laws: Vec<SizeLaw>,
    answer: Answer,
    section: Section,
}

impl<'a> SweepReport<'a> {
    /// Creates the report of the runs in `state`.
    pub fn new(state: &'a SweepState) -> SweepReport<'a> {
        SweepReport::of(state.contents(), vec![shell_word(state.path())], state.contents().is_complete())
    }

    /// Creates the report of sweeps that were joined.
    pub fn of_joined(joined: &'a JoinedSweeps) -> SweepReport<'a> {
        let files = joined.files.iter().map(|path| shell_word(path)).collect();
        SweepReport::of(&joined.contents, files, joined.complete)
    }

    fn of(sweep: &'a Contents, files: Vec<String>, complete: bool) -> SweepReport<'a> {
        let plan = &sweep.plan;
        let points = points(&plan.grid, &sweep.outcomes, plan.confidence);
        let laws = size_laws(&plan.grid, &sweep.outcomes);
        let section = section(sweep, &points, &laws);
        let answer = answer(&plan.grid, &points, complete);
        let mut report = SweepReport { sweep, files, points, laws, answer, section };
        report.section.screen = Some(report.screen());
        report
    }

    /// Returns the verdict: the effects of the conditions, and the conditions under which the path is worst.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Returns the screen report.
    pub fn screen(&self) -> Screen {
        let plan = &self.sweep.plan;
        let notes: Vec<String> = self.laws.iter().map(law).collect();
        let title = format!(
            "{} to {}, {} made",
            plan.quantity(),
            plan.host,
            count(self.sweep.outcomes.len() as u64, "run")
        );
        let screen = Screen::of_sweep(Swept {
            title: &title,
            one_way: plan.one_way,
            grid: &plan.grid,
            points: &self.points,
            confidence: plan.confidence,
            answer: &self.answer,
            notes: &notes,
        });
        screen.logged_to(&self.files)
    }

    /// True if no combination has been measured.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Returns the table for the console.
    pub fn table_page(&self) -> String {
        let options = TextOptions { style: terminal::style(), ..TextOptions::default() };
        let plan = &self.sweep.plan;
        let mut page = table(&plan.grid, plan.confidence, &self.points, &options);
        if plan.repetitions == 1 {
            page.item("One run each: the repeatability is unknown. Use --repetitions.");
        }
        if let Some(classes) = Classes::of(plan, &self.points) {
            classes.write(&mut page);
        }
        if !self.laws.is_empty() {
            page.heading("Delay by size");
            self.laws.iter().for_each(|l| page.item(&law(l)));
        }
        page.finish()
    }
}

impl Report for SweepReport<'_> {
    fn json(&self) -> Result<Value> {
        Ok(serde_json::to_value(SweepDocument::new(self)?)?)
    }

    fn table(&self) -> Option<ReportTable> {
        Some(lines(&self.sweep.plan.grid, &self.points))
    }

    fn section(&self) -> Option<&Section> {
        Some(&self.section)
    }
}

/// Returns the section of the page that contains the tables and the figures.
fn section(sweep: &Contents, points: &[SweepPoint], laws: &[SizeLaw]) -> Section {
    let plan = &sweep.plan;
    let notes: Vec<String> = laws.iter().map(law).collect();
    let packets = |p: &SweepPoint| {
        let kept = sweep.outcomes.iter().zip(&sweep.packets);
        let runs: Vec<&Samples> = kept.filter(|(o, _)| o.run.cell == p.cell).map(|(_, p)| p).collect();
        CellPackets::new(p, &runs)
    };
    let packets: Vec<CellPackets> = points.iter().filter_map(packets).collect();
    let mut figures = of_sweep(&Sweep {
        grid: &plan.grid,
        points,
        confidence: plan.confidence,
        quantity: plan.quantity(),
        notes: &notes,
        packets: &packets,
    });
    let begun = sweep.outcomes.iter().map(|outcome| outcome.at).min();
    let when = begun.map_or(String::new(), |at| format!(", {}", utc_date(at)));
    label_measured(&mut figures, &format!("to {}{when}", plan.host));
    let (columns, rows) = Classes::of(plan, points).map_or_else(|| of_points(plan, points), Classes::in_rows);
    let mean = format!("Means over the runs of each combination; n = {} packets per run.", plan.packets);
    Section {
        title: format!("{} to {}, swept", plan.quantity(), plan.host),
        what: format!(
            "{}, {} made",
            count(points.len() as u64, "combination"),
            count(sweep.outcomes.len() as u64, "run")
        ),
        screen: None,
        remarks: notes.iter().cloned().chain([mean]).collect(),
        columns,
        rows,
        figures,
    }
}

/// Keys of the figures in tables.
const COLUMNS: [&str; 6] = ["latency-mean", "latency-p99", "ipdv-mean", "ipdv-stddev", "ipdv-iqr", "loss"];

/// Returns those figures of [`COLUMNS`] that at least one point has.
fn columns(points: &[SweepPoint]) -> Vec<&'static Scalar> {
    let any = |f: &&Scalar| COLUMNS.contains(&f.key) && points.iter().any(|p| p.get(f.key).is_some());
    SCALARS.iter().filter(any).collect()
}

fn shown(figure: &Scalar, point: &SweepPoint) -> String {
    point.get(figure.key).map_or_else(|| "-".to_owned(), |e| figure.show(ExactNumber::Real(e.mean)))
}

/// Returns the header of a table, and a row for each combination.
fn of_points(plan: &SweepPlan, points: &[SweepPoint]) -> (Vec<String>, Vec<Vec<String>>) {
    let figures = columns(points);
    let row = |p: &SweepPoint| {
        let name = [plan.grid.name(p.cell, None)].into_iter();
        name.chain(figures.iter().map(|f| shown(f, p))).collect()
    };
    let heads = ["combination"].into_iter().chain(figures.iter().map(|f| f.label));
    (heads.map(str::to_owned).collect(), points.iter().map(row).collect())
}

/// Table of tests (rows) and traffic classes (columns).
struct Classes {
    columns: Vec<String>,
    /// Name of each test, and its lines.
    tests: Vec<(String, Vec<ClassLine>)>,
}

/// Label of a figure, and its value for each class.
type ClassLine = (&'static str, Vec<String>);

impl Classes {
    /// Creates the table; `None` if the sweep does not vary traffic classes.
    fn of(plan: &SweepPlan, points: &[SweepPoint]) -> Option<Classes> {
        let is_class = |f: Factor| matches!(f, Factor::Dscp | Factor::Category);
        let axis = plan.grid.axes.iter().find(|a| is_class(a.factor) && a.levels.len() > 1)?;
        let test = |p: &SweepPoint| plan.grid.name(p.cell, Some(axis.factor));
        let mut names: Vec<String> = Vec::new();
        for name in points.iter().map(test) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let figures = columns(points);
        let of_test = |name: String| {
            let at = |level: &FactorLevel| {
                let class = |p: &&SweepPoint| plan.grid.level(p.cell, axis.factor) == Some(level);
                points.iter().filter(class).find(|p| test(p) == name)
            };
            let found: Vec<Option<&SweepPoint>> = axis.levels.iter().map(at).collect();
            let line = |f: &&'static Scalar| {
                let values = found.iter().map(|p| p.map_or_else(|| "-".to_owned(), |p| shown(f, p)));
                (f.label, values.collect())
            };
            let lines = figures.iter().map(line).collect();
            (name, lines)
        };
        Some(Classes {
            columns: axis.levels.iter().map(|l| l.text.clone()).collect(),
            tests: names.into_iter().map(of_test).collect(),
        })
    }

    /// Converts the table for a page, with a row for each figure of each test.
    fn in_rows(self) -> (Vec<String>, Vec<Vec<String>>) {
        let heads = ["test".to_owned(), "figure".to_owned()].into_iter().chain(self.columns);
        let rows = self.tests.into_iter().flat_map(|(name, lines)| {
            lines.into_iter().map(move |(label, values)| {
                [name.clone(), label.to_owned()].into_iter().chain(values).collect()
            })
        });
        (heads.collect(), rows.collect())
    }

    fn write(&self, page: &mut Page) {
        let line = |name: &str, cells: &[String]| {
            let cells: String = cells.iter().map(|cell| format!(" {cell:>11}")).collect();
            format!("{name:<16}{cells}")
        };
        page.heading(&line("By class", &self.columns));
        for (name, lines) in &self.tests {
            if !name.is_empty() {
                page.line(name);
            }
            for (label, values) in lines {
                page.line(&line(&format!("  {label}"), values));
            }
        }
    }
}

/// Maximum width of a combination's name in the same line as its figures. A longer name is printed on a separate line.
const MAX_NAME_COLUMNS: usize = 26;

/// Returns a console page with one line per combination, at most 80 columns wide.
pub fn table(
    grid: &SweepGrid,
    confidence: ConfidenceLevel,
    points: &[SweepPoint],
    options: &TextOptions,
) -> Page {
    let mut page = Page::new(options);
    let name = |p: &SweepPoint| grid.name(p.cell, None);
    let names = points.iter().map(|p| name(p).chars().count()).filter(|length| *length <= MAX_NAME_COLUMNS);
    let width = names.max().unwrap_or(0).max(12);
    page.heading(&format!(
        "{:<width$} {:>4} {:>7} {:>15} {:>8} {:>7} {:>7}",
        "",
        "runs",
        "mean",
        format!("{confidence} % between"),
        "smallest",
        "99 %",
        "lost"
    ));
    let mean = |e: Option<&Estimate>| e.map_or_else(|| "-".to_owned(), |e| eng3(e.mean));
    for p in points {
        let between = p.get("latency-mean").and_then(|e| e.interval);
        let between = between.map_or_else(|| "-".to_owned(), |[a, b]| format!("{} {}", eng3(a), eng3(b)));
        let loss = p.get("loss").map_or_else(|| "-".to_owned(), |e| format!("{:.2}%", e.mean * 100.0));
        let mut name = name(p);
        if name.chars().count() > MAX_NAME_COLUMNS {
            page.line(&std::mem::take(&mut name));
        }
        page.line(&format!(
            "{name:<width$} {:>4} {:>7} {between:>15} {:>8} {:>7} {loss:>7}",
            p.runs,
            mean(p.get("latency-mean")),
            p.get("latency-min").map_or_else(|| "-".to_owned(), |e| eng3(e.min)),
            mean(p.get("latency-p99")),
        ));
    }
    page
}

/// Describes the fitted relation of delay to packet size.
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
            bit_rate3(fit.series_rate)
        );
    }
    match l.rate {
        Some(rate) => format!(
            "{name}{} plus {} per 100 bytes of IP packet: {} in series{}",
            eng4_f64(l.line.fixed_robust),
            eng4_f64(l.line.per_byte_robust * 100.0),
            bit_rate3(rate),
            l.line.r.map_or_else(String::new, |r| format!(" (r = {r:.4})"))
        ),
        None => format!("{name}does not grow with size"),
    }
}

/// Formats a level of a condition for machine-readable output.
fn value(factor: Factor, level: &FactorLevel) -> String {
    match level.number {
        Some(number) if factor == Factor::Number => number.to_string(),
        _ => level.text.clone(),
    }
}

/// Returns one line per combination.
pub fn lines(grid: &SweepGrid, points: &[SweepPoint]) -> ReportTable {
    // Figures of whole tests, except counts that already have a column. The JSON document has all figures.
    let is_column = |s: &Selector| s.direction.is_none() && !["sent", "received"].contains(&s.scalar.key);
    let known = |s: &Selector| is_column(s) && points.iter().any(|p| p.get(&s.to_string()).is_some());
    let figures: Vec<Selector> = selectors().filter(known).collect();
    let line = |p: &SweepPoint| {
        let levels = grid.levels(p.cell).into_iter();
        let mut line: Vec<(String, String)> =
            levels.map(|(factor, level)| (grid.label(factor).to_lowercase(), value(factor, level))).collect();
        for (name, n) in [("runs", p.runs), ("sent", p.sent), ("received", p.received)] {
            line.push((name.to_owned(), n.to_string()));
        }
        for figure in &figures {
            let column = figure.column().to_lowercase();
            let e = p.get(&figure.to_string());
            let end = |side: usize| e.and_then(|e| e.interval).map(|i| i[side]);
            for (name, v) in [("", e.map(|e| e.mean)), ("_low", end(0)), ("_high", end(1))] {
                line.push((format!("{column}{name}"), v.map_or_else(String::new, |v| v.to_string())));
            }
        }
        line
    };
    points.iter().map(line).collect()
}

/// Document of a sweep: `docs/formats/sweep.md`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepDocument<'a> {
    /// Name and version of the format: `jitlat sweep 2`.
    format: &'static str,
    /// Measured delay: `round trip` or `one-way delay`.
    quantity: &'static str,
    /// Plan of the sweep.
    plan: &'a SweepPlan,
    /// True if all runs are finished.
    complete: bool,
    /// Verdict: effects of the conditions, and the conditions under which the path is worst.
    answer: &'a Answer,
    /// Results of each combination, over its repetitions.
    points: Vec<PointDocument<'a>>,
    /// Fitted relations of delay to packet size.
    size_laws: &'a [SizeLaw],
    /// Runs, in the order in which they were performed.
    runs: &'a [RunOutcome],
}

/// Results of one combination, over its repetitions.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PointDocument<'a> {
    /// Value of each condition.
    conditions: BTreeMap<String, FactorValue<'a>>,
    /// Number of finished runs.
    runs: u64,
    /// Number of packets sent in the finished runs.
    sent: u64,
    /// Number of packets accepted in the finished runs.
    received: u64,
    /// Estimate of each figure that at least one run has, by key.
    figures: BTreeMap<String, Estimate>,
}

impl<'a> PointDocument<'a> {
    /// Creates the document for a point of `grid`.
    pub fn new(grid: &'a SweepGrid, point: &'a SweepPoint) -> PointDocument<'a> {
        let condition = |(factor, level): (Factor, &'a FactorLevel)| {
            let value = level.number.map_or(FactorValue::Text(&level.text), FactorValue::Number);
            (grid.label(factor).to_lowercase(), value)
        };
        PointDocument {
            conditions: grid.levels(point.cell).into_iter().map(condition).collect(),
            runs: point.runs,
            sent: point.sent,
            received: point.received,
            figures: point.figures.iter().map(|(figure, e)| (figure.to_string(), *e)).collect(),
        }
    }
}

/// Value of a condition.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum FactorValue<'a> {
    /// Value in bytes or ns.
    Number(f64),
    /// Value as written in the options of the sweep.
    Text(&'a str),
}

impl<'a> SweepDocument<'a> {
    fn new(report: &'a SweepReport<'_>) -> Result<SweepDocument<'a>> {
        let plan = &report.sweep.plan;
        Ok(SweepDocument {
            format: FORMAT,
            quantity: plan.quantity(),
            plan,
            complete: report.answer.complete,
            answer: &report.answer,
            points: report.points.iter().map(|p| PointDocument::new(&plan.grid, p)).collect(),
            size_laws: &report.laws,
            runs: &report.sweep.outcomes,
        })
    }
}

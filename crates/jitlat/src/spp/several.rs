//! Several captures of a path, named with `--label`, each followed by itself and shown as curves of common figures.

use super::args::SppArgs;
use crate::exit::ExitStatus;
use crate::output::report::slug;
use crate::output::{Drawings, Report, ReportTable, log_failures};
use crate::{console, interrupt};
use anyhow::{Context, Result};
use jitlat_instruments::passive::CaptureSource;
use jitlat_passive::{LinkQuestion, PassiveResult, PingFigures, explain_levels};
use jitlat_report::Section;
use jitlat_report::figure::{PassiveRun, PassiveTrace, of_captures, of_passive};
use jitlat_report::text::{self, PassiveExtras};
use jitlat_store::passive::spp_document;
use serde_json::{Value, json};

/// What one pair of captures says.
struct CapturePairResult<'a> {
    label: &'a str,
    result: PassiveResult,
    trace: Option<PassiveTrace>,
}

impl CapturePairResult<'_> {
    fn run<'a>(&'a self, args: &'a SppArgs) -> Option<PassiveRun<'a>> {
        let run = PassiveRun::of(self.trace.as_ref()?, &self.result, args.link.as_ref());
        Some(PassiveRun { periods: &args.figures.marks, ..run })
    }
}

/// Follows each pair of captures and shows all of them.
pub fn run(args: &SppArgs) -> Result<ExitStatus> {
    let passive = args.settings()?;
    let stop = interrupt::stop()?;
    let mut runs = Vec::new();
    let mut failures: Vec<anyhow::Error> = Vec::new();
    for ((label, reference), monitor) in args.labels.iter().zip(&args.reference).zip(&args.monitor) {
        let mut trace =
            args.report.outputs.draws().then(|| PassiveTrace::new(args.every, args.figures.range()));
        let points = [reference, monitor].map(|path| CaptureSource::Files(vec![path.clone()]));
        let outcome = passive
            .follow_captures(points, &stop, &mut trace)
            .with_context(|| format!("captures of {label}"))?;
        failures.extend(outcome.failures.into_iter().map(anyhow::Error::from));
        let mut result = outcome.result;
        if let Some(link) = args.link.as_ref().and_then(LinkQuestion::link) {
            explain_levels(&mut result.summary.levels, link, &result.sizes);
        }
        runs.push(CapturePairResult { label, result, trace });
    }
    let measured = runs.iter().all(|run| run.result.is_measured());
    let report = SeveralCaptures { args, section: section(args, &runs), runs };
    failures.extend(args.report.outputs.write_files(&report));
    if !args.writes_to_output() && !args.quiet {
        console::print(&report.page_of_text())?;
    }
    Ok(if log_failures(&failures) && measured { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}

/// The captures, as formats read them.
struct SeveralCaptures<'a> {
    args: &'a SppArgs,
    runs: Vec<CapturePairResult<'a>>,
    section: Section,
}

impl SeveralCaptures<'_> {
    /// A table of all; before it, with `--summary`, what each says.
    fn page_of_text(&self) -> String {
        let mut page = String::new();
        let link = self.args.link.as_ref();
        if self.args.summary {
            for run in &self.runs {
                let extras = PassiveExtras { link, top: self.args.top, ..PassiveExtras::default() };
                page += &format!("== {}\n{}\n", run.label, text::passive(&run.result, &extras));
            }
        }
        page + &text::captures(&self.runs.iter().map(|run| (run.label, &run.result)).collect::<Vec<_>>())
    }
}

impl Report for SeveralCaptures<'_> {
    fn json(&self) -> Result<Value> {
        let one = |run: &CapturePairResult<'_>| {
            let link = self.args.link.as_ref();
            let document = spp_document(&run.result, PingFigures::default(), link, &[], &[]);
            let mut value = serde_json::to_value(document)?;
            if let Some(object) = value.as_object_mut() {
                object.insert("label".to_owned(), run.label.into());
            }
            Ok(value)
        };
        let runs = self.runs.iter().map(one).collect::<Result<Vec<Value>>>()?;
        Ok(json!({ "instrument": "spp", "version": 1, "captures": runs }))
    }

    fn table(&self) -> Option<ReportTable> {
        let line = |run: &CapturePairResult<'_>| {
            let s = &run.result.summary;
            let mut cells =
                vec![("label".to_owned(), run.label.to_owned()), ("pairs".to_owned(), s.pairs.to_string())];
            if let Some(f) = s.rtt_ns {
                let ns =
                    [("min", f.min), ("median", f.median), ("p95", f.p95), ("p99", f.p99), ("max", f.max)];
                cells.extend(ns.map(|(name, v)| (format!("{name}_rtt_ns"), v.to_string())));
                cells.push(("mean_rtt_ns".to_owned(), format!("{:.0}", f.mean)));
            }
            for (name, way) in [("out", &s.out), ("in", &s.back)] {
                let loss = way.loss_ratio.map_or(String::new(), |l| l.to_string());
                cells.push((format!("{name}_loss_ratio"), loss));
            }
            cells
        };
        Some(self.runs.iter().map(line).collect())
    }

    fn section(&self) -> Option<&Section> {
        Some(&self.section)
    }

    fn draw(&self, each: &mut Drawings<'_>) -> Result<()> {
        each("", &self.section.figures)?;
        for run in &self.runs {
            if let Some(drawn) = run.run(self.args) {
                each(&format!("{}-", slug(run.label)), &of_passive(&drawn))?;
            }
        }
        Ok(())
    }
}

fn section(args: &SppArgs, runs: &[CapturePairResult<'_>]) -> Section {
    let drawn: Vec<_> = runs.iter().filter_map(|run| Some((run.label, run.run(args)?))).collect();
    Section {
        title: "Round trips of several captures".into(),
        what: runs.iter().map(|run| run.label).collect::<Vec<_>>().join(", "),
        screen: None,
        remarks: Vec::new(),
        columns: text::CAPTURE_COLUMNS.map(String::from).to_vec(),
        rows: runs.iter().map(|run| text::capture_row(run.label, &run.result).to_vec()).collect(),
        figures: of_captures(&drawn),
    }
}

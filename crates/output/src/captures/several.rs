//! [`SeveralCaptures`]: several measurements of a path, drawn as curves in common figures.

use super::passive::ShownCaptures;
use crate::error::Result;
use crate::report::{Drawings, Report, ReportTable, slug};
use jitlat_passive::{LinkQuestion, PassiveResult, PingFigures};
use jitlat_report::Section;
use jitlat_report::figure::{PassiveRun, PassiveTrace, of_captures, of_passive};
use jitlat_report::text::{self, PassiveExtras};
use jitlat_store::passive::spp_document;
use serde_json::{Value, json};

/// A pair of captures that was analysed.
pub struct FollowedCapture<'a> {
    /// Label of the pair.
    pub label: &'a str,
    /// Result of the analysis.
    pub result: PassiveResult,
    /// Data for figures; `None` if nothing is drawn.
    pub trace: Option<PassiveTrace>,
}

impl FollowedCapture<'_> {
    fn run<'a>(&'a self, shown: &ShownCaptures<'a>) -> Option<PassiveRun<'a>> {
        let run = PassiveRun::of(self.trace.as_ref()?, &self.result, shown.link);
        Some(PassiveRun { periods: shown.marks, ..run })
    }
}

/// Several pairs of captures.
pub struct SeveralCaptures<'a> {
    shown: ShownCaptures<'a>,
    runs: Vec<FollowedCapture<'a>>,
    section: Section,
}

impl<'a> SeveralCaptures<'a> {
    /// Creates the report of `runs`.
    pub fn new(mut runs: Vec<FollowedCapture<'a>>, shown: ShownCaptures<'a>) -> SeveralCaptures<'a> {
        if let Some(link) = shown.link.and_then(LinkQuestion::link) {
            for PassiveResult { summary, sizes, .. } in runs.iter_mut().map(|run| &mut run.result) {
                summary.explain(link, sizes);
            }
        }
        SeveralCaptures { shown, section: section(&shown, &runs), runs }
    }

    /// Returns a table of all pairs. If `each` is true, the report of each pair precedes it.
    pub fn text(&self, each: bool) -> String {
        let mut page = String::new();
        let ShownCaptures { link, top, .. } = self.shown;
        if each {
            for run in &self.runs {
                let extras = PassiveExtras { link, top, ..PassiveExtras::default() };
                page += &format!("== {}\n{}\n", run.label, text::passive(&run.result, &extras));
            }
        }
        page + &text::captures(&self.runs.iter().map(|run| (run.label, &run.result)).collect::<Vec<_>>())
    }
}

impl Report for SeveralCaptures<'_> {
    fn json(&self) -> Result<Value> {
        let one = |run: &FollowedCapture<'_>| {
            let document = spp_document(&run.result, PingFigures::default(), self.shown.link, &[], &[]);
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
        let line = |run: &FollowedCapture<'_>| {
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
            if let Some(drawn) = run.run(&self.shown) {
                each(&format!("{}-", slug(run.label)), &of_passive(&drawn))?;
            }
        }
        Ok(())
    }
}

fn section(shown: &ShownCaptures<'_>, runs: &[FollowedCapture<'_>]) -> Section {
    let drawn: Vec<_> = runs.iter().filter_map(|run| Some((run.label, run.run(shown)?))).collect();
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

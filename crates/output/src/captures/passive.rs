//! [`PassiveReport`]: report of packets matched between two points, in all requested formats.

use super::recorder::PointAnalyses;
use crate::error::{Error, Result};
use crate::report::{AnalysedStream, Report, shell_word};
use crate::screen;
use jitlat_core::answer::{Severity, Suitability};
use jitlat_core::{Span, Summary, WallTime};
use jitlat_passive::{BandSpacing, LinkQuestion, PassiveResult, PingFigures, PingSource, SpanSpread};
use jitlat_passive::{explain_levels, with_finer};
use jitlat_report::figure::{MarkedPeriod, PassiveRun, PassiveTrace};
use jitlat_report::text::screen::{Screen, Timeline};
use jitlat_report::text::{PassiveExtras, TextOptions, TextStyle};
use jitlat_report::{Section, passive_section, text};
use jitlat_store::passive::{read_pings, spp_document};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

/// Options for reports of captures.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShownCaptures<'a> {
    /// Link whose serialisation delays explain bands of round trips; `None` if unknown.
    pub link: Option<&'a LinkQuestion>,
    /// Periods that are marked in figures and tables.
    pub marks: &'a [MarkedPeriod],
    /// Length of the windows that were analysed separately; `None` without windows.
    pub interval: Option<Span>,
    /// True if plots show delays corrected by the clock estimate.
    pub corrected: bool,
    /// Maximum number of flows in tables.
    pub top: usize,
}

/// Report of packets matched between two points.
pub struct PassiveReport<'a> {
    result: PassiveResult,
    ping: PingFigures,
    shown: ShownCaptures<'a>,
    notes: Vec<String>,
    runs: Vec<AnalysedStream>,
    section: Option<Section>,
    screen: Screen,
    /// Folders with temporary logs, removed when the report is dropped.
    _scratch: Vec<TempDir>,
}

impl<'a> PassiveReport<'a> {
    /// Creates the report of `result` with the streams of `recorded`, and figures drawn from `trace`. Round trips of a
    /// ping that ran at the same time are read from the file `ping`. Also returns the errors of reading this file, and
    /// those of `recorded`.
    pub fn new(
        mut result: PassiveResult,
        recorded: PointAnalyses,
        (mut trace, course): (Option<PassiveTrace>, Timeline),
        ping: Option<&Path>,
        shown: ShownCaptures<'a>,
    ) -> (PassiveReport<'a>, Vec<Error>) {
        let mut failures: Vec<Error> = Vec::new();
        let of_range = trace.as_ref().and_then(PassiveTrace::levels_of_range).unwrap_or_default();
        let mut drawn_levels = with_finer(&result.summary.levels, of_range);
        if let Some(link) = shown.link.and_then(LinkQuestion::link) {
            result.summary.explain(link, &result.sizes);
            explain_levels(&mut drawn_levels, link, &result.sizes);
        }
        let mut figures = PingFigures::default();
        for (source, round_trips) in pings(ping, &result, &mut failures) {
            let mut spread = SpanSpread::default();
            for (at, rtt) in round_trips {
                spread.push(rtt.0);
                trace.iter_mut().for_each(|t| t.ping(source, at.0, rtt.0));
            }
            figures[source as usize] = spread.figures(0);
        }
        let PointAnalyses { mut runs, failures: unsaved, scratch } = recorded;
        let offload = result.explain_offload();
        let ways = [&result.summary.out, &result.summary.back];
        for (run, way) in runs.iter_mut().zip(ways) {
            if let Some(why) = &offload {
                run.summary.forget_loss(format!("No verdict. {why}"));
            } else if way.is_loss_unknown() {
                let profiles = run.summary.answer.as_mut().map(|answer| std::mem::take(&mut answer.profiles));
                run.summary.forget_loss(
                    "No verdict: the fate of too many packets is unknown, because they cannot be told apart."
                        .to_owned(),
                );
                if let (Some(answer), Some(profiles)) = (&mut run.summary.answer, profiles) {
                    answer.profiles =
                        profiles.into_iter().map(|(name, suits)| (name, unknown(suits))).collect();
                }
            }
            // A score covers both directions.
            if ways.iter().any(|way| way.is_loss_unknown()) {
                run.summary.answer.iter_mut().for_each(|answer| answer.qoo = None);
            }
            if let Some(answer) = &mut run.summary.answer {
                answer.causes.extend(result.clock_causes());
            }
        }
        runs.iter_mut().for_each(|run| run.corrected = shown.corrected);
        failures.extend(unsaved);
        let finer: &[BandSpacing] = &drawn_levels[result.summary.levels.len()..];
        let mut notes: Vec<String> =
            finer.iter().map(|l| format!("bands in the figures: {}", text::describe_band(l))).collect();
        for run in runs.iter().filter(|r| r.summary.intervals.is_empty()) {
            if shown.interval.is_some() && result.is_measured() {
                notes.push(format!(
                    "{}: no windows, because packets are not retained above a million per direction (editcap -i \
                     splits captures), or because there would be more than 100 000 windows",
                    run.label
                ));
            }
        }
        let judged = match &runs[..] {
            [out, back] => Some([&out.summary, &back.summary]),
            _ => None,
        };
        let screen = Screen::of_captures(&result, judged, course, &notes);
        let section = trace.as_ref().map(|trace| {
            let run = PassiveRun::of(trace, &result, shown.link);
            let run = PassiveRun { periods: shown.marks, levels: &drawn_levels, ..run };
            let section = passive_section(&result, figures, &notes, &run);
            Section { screen: Some(screen.clone()), ..section }
        });
        let report =
            PassiveReport { result, ping: figures, shown, notes, runs, section, screen, _scratch: scratch };
        (report, failures)
    }

    /// Returns the result of the analysis.
    pub fn result(&self) -> &PassiveResult {
        &self.result
    }

    /// Returns the full report.
    pub fn full_text(&self) -> String {
        self.with_extras(|extras| text::passive(&self.result, extras))
    }

    /// Returns the screen report in `style`. Requested details are printed before it, so that the screen report remains
    /// visible.
    pub fn one_screen(&self, style: TextStyle) -> String {
        let tables = self.with_extras(|extras| text::asked_tables(&self.result, extras));
        let tables = if tables.is_empty() { tables } else { tables + "\n" };
        let logs: Vec<String> =
            self.runs.iter().filter_map(|run| run.log.as_deref()).map(shell_word).collect();
        let options = TextOptions { style, ..screen::options() };
        let screen = self.screen.clone().logged_to(&logs).followed_by(&screen::again(), screen::EVERYTHING);
        let screen = screen.in_short(screen::REPEATED);
        tables + &screen.show(&options)
    }

    fn with_extras<T>(&self, show: impl FnOnce(&PassiveExtras<'_>) -> T) -> T {
        let ways: Vec<_> = self.runs.iter().map(|r| (r.heading.as_str(), &r.summary)).collect();
        let ShownCaptures { link, top, .. } = self.shown;
        show(&PassiveExtras { ping: self.ping, link, ways: &ways, top, notes: &self.notes })
    }
}

impl Report for PassiveReport<'_> {
    fn json(&self) -> Result<Value> {
        let ways: Vec<&Summary> = self.runs.iter().map(|run| &run.summary).collect();
        Ok(serde_json::to_value(spp_document(&self.result, self.ping, self.shown.link, &ways, &self.notes))?)
    }

    fn streams(&self) -> &[AnalysedStream] {
        &self.runs
    }

    fn interval(&self) -> Option<Span> {
        self.shown.interval
    }

    fn section(&self) -> Option<&Section> {
        self.section.as_ref()
    }
}

/// Returns the suitability for a profile if it is unknown how many packets were lost.
fn unknown(suits: Suitability) -> Suitability {
    let because = "it is unknown how many packets were lost".to_owned();
    Suitability { severity: Severity::Unknown, because, mos: None, ..suits }
}

/// Reads round-trip times of ping from the available sources.
fn pings(
    ping: Option<&Path>,
    result: &PassiveResult,
    failures: &mut Vec<Error>,
) -> [(PingSource, Vec<(WallTime, Span)>); 2] {
    let reference = &result.captures[0];
    let start = reference.span.map_or(WallTime(0), |s| s.0);
    let file = ping.map(|path| read_pings(path, start));
    let file = file.transpose().unwrap_or_else(|e| {
        failures.push(e.into());
        None
    });
    [(PingSource::Capture, reference.pings.clone()), (PingSource::File, file.unwrap_or_default())]
}

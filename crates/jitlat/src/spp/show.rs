//! The output of `jitlat spp`, in all requested formats.

use super::args::SppArgs;
use super::ways::PointAnalyses;
use crate::console;
use crate::exit::ExitStatus;
use crate::output::report::shell_word;
use crate::output::{self, AnalysedStream, Report, log_failures, screen};
use anyhow::Result;
use jitlat_core::{Span, Summary, WallTime};
use jitlat_passive::{LinkQuestion, PassiveResult, PingFigures, PingSource, SpanSpread, explain_levels};
use jitlat_report::figure::{PassiveRun, PassiveTrace};
use jitlat_report::text::screen::{Screen, Timeline};
use jitlat_report::text::{PassiveExtras, TextStyle};
use jitlat_report::{Section, passive_section, text};
use jitlat_store::passive::{read_pings, spp_document, write_sizes};
use serde_json::Value;

/// Prints and writes the results. A failure does not affect the other outputs; `failures` are those so far.
pub fn show(
    args: &SppArgs,
    mut result: PassiveResult,
    recorded: PointAnalyses,
    (mut trace, course): (Option<PassiveTrace>, Timeline),
    mut failures: Vec<anyhow::Error>,
) -> Result<ExitStatus> {
    let report = &args.report;
    let mut levels_of_range = trace.as_ref().and_then(PassiveTrace::levels_of_range);
    if let Some(link) = args.link.as_ref().and_then(LinkQuestion::link) {
        let levels = levels_of_range.iter_mut().flatten().chain(&mut result.summary.levels);
        levels.for_each(|level| explain_levels(std::slice::from_mut(level), link, &result.sizes));
    }
    let mut ping = PingFigures::default();
    for (source, round_trips) in pings(args, &result, &mut failures) {
        let mut spread = SpanSpread::default();
        for (at, rtt) in round_trips {
            spread.push(rtt.0);
            trace.iter_mut().for_each(|t| t.ping(source, at.0, rtt.0));
        }
        ping[source as usize] = spread.figures(0);
    }
    let PointAnalyses { mut runs, failures: unsaved, scratch: _scratch } = recorded;
    runs.iter_mut().for_each(|run| run.corrected = report.plot_corrected);
    failures.extend(unsaved);
    let mut notes: Vec<String> = levels_of_range
        .iter()
        .flatten()
        .map(|l| format!("bands in what is drawn: {}", text::describe_band(l)))
        .collect();
    for run in runs.iter().filter(|r| r.summary.intervals.is_empty()) {
        if report.analysis.interval.is_some() && result.is_measured() {
            notes.push(format!(
                "{}: no windows, which need the packets: of more than a million a way none are kept (editcap -i cuts \
                 captures), or there would be more than 100 000",
                run.label
            ));
        }
    }
    let link = args.link.as_ref();
    let judged = match &runs[..] {
        [out, back] => Some([&out.summary, &back.summary]),
        _ => None,
    };
    let content = Screen::of_captures(&result, judged, course, &notes);
    failures.extend(report.outputs.write_files(&PassiveReport {
        result: &result,
        ping,
        link,
        notes: &notes,
        runs: &runs,
        interval: report.analysis.interval,
        section: trace.as_ref().map(|trace| {
            let run = PassiveRun::of(trace, &result, link);
            let levels = levels_of_range.as_deref().unwrap_or(run.levels);
            let run = PassiveRun { periods: &args.figures.marks, levels, ..run };
            let section = passive_section(&result, ping, &notes, &run);
            Section { screen: Some(content.clone()), ..section }
        }),
    }));
    if let Some(path) = &args.sizes_csv {
        failures.extend(output::write_file(path, |out| write_sizes(out, &result.sizes, link)).err());
    }
    let ways: Vec<_> = runs.iter().map(|r| (r.heading.as_str(), &r.summary)).collect();
    let extras = PassiveExtras { ping, link, ways: &ways, top: args.top, notes: &notes };
    let page = match report.is_full() {
        true => text::passive(&result, &extras),
        false => {
            // What was asked for comes before the screen, which stays in sight.
            let tables = text::asked_tables(&result, &extras);
            let tables = if tables.is_empty() { tables } else { tables + "\n" };
            let logs: Vec<String> =
                runs.iter().filter_map(|run| run.log.as_deref()).map(shell_word).collect();
            // Standard error may be no terminal where standard output is one.
            let style = if args.summary { console::style() } else { TextStyle::Plain };
            let options = text::TextOptions { style, ..screen::options() };
            let screen = content.logged_to(&logs).followed_by(&screen::again(), screen::EVERYTHING);
            tables + &screen.show(&options)
        }
    };
    if args.summary && !args.writes_to_output() {
        failures.extend(console::print(&page).err());
    } else if !args.quiet {
        // Standard error may be closed: the lines are the result.
        let _ = console::print_to_stderr(&page);
    }
    // A part may be a time without packets.
    if !log_failures(&failures) || !result.is_measured() && args.parts.keep.is_none() {
        return Ok(ExitStatus::NotMeasured);
    }
    Ok(output::text::status(&runs, &report.fail_if))
}

/// The result as an output [`Report`].
struct PassiveReport<'a> {
    result: &'a PassiveResult,
    ping: PingFigures,
    link: Option<&'a LinkQuestion>,
    notes: &'a [String],
    runs: &'a [AnalysedStream],
    interval: Option<Span>,
    section: Option<Section>,
}

impl Report for PassiveReport<'_> {
    fn json(&self) -> Result<Value> {
        let ways: Vec<&Summary> = self.runs.iter().map(|run| &run.summary).collect();
        Ok(serde_json::to_value(spp_document(self.result, self.ping, self.link, &ways, self.notes))?)
    }

    fn streams(&self) -> &[AnalysedStream] {
        self.runs
    }

    fn interval(&self) -> Option<Span> {
        self.interval
    }

    fn section(&self) -> Option<&Section> {
        self.section.as_ref()
    }
}

/// Round trips of ping, by their source.
fn pings(
    args: &SppArgs,
    result: &PassiveResult,
    failures: &mut Vec<anyhow::Error>,
) -> [(PingSource, Vec<(WallTime, Span)>); 2] {
    let reference = &result.captures[0];
    let start = reference.span.map_or(WallTime(0), |s| s.0);
    let file = args.ping.as_ref().map(|path| read_pings(path, start));
    let file = file.transpose().unwrap_or_else(|e| {
        failures.push(e.into());
        None
    });
    [(PingSource::Capture, reference.pings.clone()), (PingSource::File, file.unwrap_or_default())]
}

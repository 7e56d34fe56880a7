//! What was found, in every form asked for.

use super::args::SppArgs;
use super::ways::Recorded;
use crate::exit::{Status, explain};
use crate::{console, present};
use anyhow::Result;
use jitlat_core::passive::{LinkQuestion, PassiveResult, Spread, explain_levels};
use jitlat_core::{Span, Summary, WallTime};
use jitlat_report::figure::PassiveTrace;
use jitlat_report::text::Beside;
use jitlat_report::{html, text};
use jitlat_store::output;
use jitlat_store::passive::{read_pings, spp_document};
use tracing::error;

/// Shows it. What cannot be written keeps nothing else from being written or shown; `failures` are those so far.
pub fn show(
    args: &SppArgs,
    mut result: PassiveResult,
    recorded: Recorded,
    mut trace: Option<PassiveTrace>,
    mut failures: Vec<anyhow::Error>,
) -> Result<Status> {
    let report = &args.report;
    if let Some(LinkQuestion::Compare(link)) = &args.link {
        explain_levels(&mut result.summary.levels, link, &result.sizes);
    }
    let mut ping = Spread::default();
    for (at, rtt) in pings(args, &result, &mut failures) {
        ping.push(rtt.0);
        trace.iter_mut().for_each(|t| t.ping(at.0, rtt.0));
    }
    let ping = ping.figures(0);
    let Recorded { runs, failures: unsaved, scratch: _scratch } = recorded;
    failures.extend(unsaved);
    let mut notes = Vec::new();
    for run in runs.iter().filter(|r| r.summary.intervals.is_empty()) {
        if report.analysis.interval.is_some() && result.is_measured() {
            notes.push(format!(
                "{}: no windows, which need the packets: of more than a million a way none are kept (editcap -i cuts \
                 captures), or there would be more than 100 000",
                run.label
            ));
        }
    }
    if let Some(path) = &report.json {
        let ways: Vec<&Summary> = runs.iter().map(|r| &r.summary).collect();
        let document = spp_document(&result, ping, args.link.as_ref(), &ways, &notes);
        let written = document
            .map_err(anyhow::Error::from)
            .and_then(|d| Ok(output::write(path, |out| writeln!(out, "{d:#}"))?));
        failures.extend(written.err());
    }
    failures.extend(present::write_tables(&runs, report).err());
    if let Some(trace) = &trace {
        let section = html::passive_section(&result, ping, &notes, trace);
        let drawn =
            present::write_figures(&runs, Some(&section), report.html.as_deref(), report.plots.as_deref());
        failures.extend(drawn.err());
    }
    let ways: Vec<_> = runs.iter().map(|r| (r.heading.as_str(), &r.summary)).collect();
    let link = args.link.as_ref();
    let page = text::passive(&result, &Beside { ping, link, ways: &ways, top: args.top, notes: &notes });
    if args.summary && !present::is_silent(report) {
        failures.extend(console::print(&page).err());
    } else if !args.quiet {
        // Standard error may be closed: the lines are the result.
        let _ = console::print_beside(&page);
    }
    for failure in &failures {
        error!("{}", explain(failure));
    }
    if !failures.is_empty() || !result.is_measured() {
        return Ok(Status::NotMeasured);
    }
    Ok(present::status(&runs, report))
}

/// What ping measured: in the reference capture, and in the file given.
fn pings(args: &SppArgs, result: &PassiveResult, failures: &mut Vec<anyhow::Error>) -> Vec<(WallTime, Span)> {
    let reference = &result.captures[0];
    let mut all = reference.pings.clone();
    if let Some(path) = &args.ping {
        match read_pings(path, reference.span.map_or(WallTime(0), |s| s.0)) {
            Ok(pings) => all.extend(pings),
            Err(e) => failures.push(e.into()),
        }
    }
    all
}

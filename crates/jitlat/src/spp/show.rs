//! Output of `jitlat spp` in all requested formats.

use super::args::SppArgs;
use crate::exit::{ExitStatus, log_failures, thresholds};
use anyhow::Result;
use jitlat_output::captures::{FollowedCapture, PassiveReport, PointAnalyses, SeveralCaptures};
use jitlat_output::{Report, terminal, write_file};
use jitlat_passive::PassiveResult;
use jitlat_report::figure::PassiveTrace;
use jitlat_report::text::TextStyle;
use jitlat_report::text::screen::Timeline;
use jitlat_store::passive::write_sizes;

/// Prints and writes the results. A failure does not affect the other outputs; `failures` contains the failures
/// so far.
pub fn show(
    args: &SppArgs,
    result: PassiveResult,
    recorded: PointAnalyses,
    drawn: (Option<PassiveTrace>, Timeline),
    mut failures: Vec<anyhow::Error>,
) -> Result<ExitStatus> {
    let (report, unread) = PassiveReport::new(result, recorded, drawn, args.ping.as_deref(), args.shown());
    failures.extend(unread.into_iter().map(anyhow::Error::from));
    failures.extend(args.report.outputs.write_files(&report).into_iter().map(anyhow::Error::from));
    if let Some(path) = &args.sizes_csv {
        let written = write_file(path, |out| write_sizes(out, &report.result().sizes, args.link.as_ref()));
        failures.extend(written.err().map(anyhow::Error::from));
    }
    let page = match args.report.is_full() {
        true => report.full_text(),
        // Standard output may be a terminal even if standard error is not.
        false => report.one_screen(if args.summary { terminal::style() } else { TextStyle::Plain }),
    };
    if args.summary && !args.writes_to_output() {
        failures.extend(terminal::print(&page).err().map(anyhow::Error::from));
    } else if !args.quiet {
        // Ignored: standard error may be closed, and the lines contain the result.
        let _ = terminal::print_to_stderr(&page);
    }
    // A part without packets is not an error.
    if !log_failures(&failures) || !report.result().is_measured() && args.parts.keep.is_none() {
        return Ok(ExitStatus::NotMeasured);
    }
    Ok(thresholds(report.streams(), &args.report.fail_if))
}

/// Prints and writes the results of several captures of a path.
pub fn show_several(
    args: &SppArgs,
    runs: Vec<FollowedCapture<'_>>,
    mut failures: Vec<anyhow::Error>,
) -> Result<ExitStatus> {
    let measured = runs.iter().all(|run| run.result.is_measured());
    let report = SeveralCaptures::new(runs, args.shown());
    failures.extend(args.report.outputs.write_files(&report).into_iter().map(anyhow::Error::from));
    if !args.writes_to_output() && !args.quiet {
        terminal::print(&report.text(args.summary))?;
    }
    Ok(if log_failures(&failures) && measured { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}

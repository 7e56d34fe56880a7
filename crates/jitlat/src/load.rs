//! `--load`: compares the same test idle and under load.

use crate::exit::ExitStatus;
use crate::logs::TestLogs;
use crate::options::condition;
use crate::options::log::LogArgs;
use crate::options::one_way::OneWayArgs;
use crate::options::ping::PingArgs;
use crate::options::report::ReportArgs;
use crate::test::not_stored;
use crate::{archive, interrupt, ping};
use anyhow::Result;
use jitlat_core::scalars::ScalarCondition;
use jitlat_core::{Direction, Summary, TestSpec};
use jitlat_instruments::load::{Load, Phases};
use jitlat_instruments::{Instrument, OneWay};
use jitlat_output::phases::PhasesReport;
use jitlat_output::text;
use jitlat_store::log::{Closed, Journals, LogVersion, RowKind};
use jitlat_verdict::load::LoadDecision;
use std::path::{Path, PathBuf};
use tracing::error;

/// Runs `jitlat HOST --load …`.
pub fn one_way(test: &OneWay, args: &OneWayArgs) -> Result<ExitStatus> {
    args.report.outputs.check_one_way()?;
    let own = Some((test.settings.control_port, args.host_args.key_file.as_ref()));
    let directions: Vec<Direction> = test.settings.terms.specs.iter().map(TestSpec::direction).collect();
    let streams = directions.len();
    let load = args.load.settings(&test.settings.host, own, directions)?;
    let rows = RowKind::OneWay(LogVersion::of(args.log.log_version).unwrap_or_default());
    run(test, streams, &load, (&args.log, rows), &args.report)
}

/// Runs `jitlat ping HOST --load …`.
pub fn two_way(args: &PingArgs) -> Result<ExitStatus> {
    args.protocol.check()?;
    args.report.outputs.check_two_way()?;
    let test = args.settings()?;
    let load = args.load.settings(&test.host, None, vec![Direction::Up])?;
    let logs = (&args.log, ping::rows(&test));
    run(&test, 1, &load, logs, &args.report)
}

fn run(
    instrument: &dyn Instrument,
    streams: usize,
    load: &Load,
    (log, rows): (&LogArgs, RowKind),
    args: &ReportArgs,
) -> Result<ExitStatus> {
    let others: Vec<&Path> = log.output.iter().map(PathBuf::as_path).collect();
    args.check(2 * streams, &others)?;
    archive::check(log.archive.as_deref(), args.log_on_stdout)?;
    let TestLogs { mut files, scratch } = TestLogs::phases(log, rows, streams)?;
    let of_loaded = files.split_off(files.len().min(streams));
    let (mut idle, mut loaded) = (Journals::new(files), Journals::new(of_loaded));
    let stop = interrupt::stop()?;
    let mut phases = Phases::measure(instrument, load, &args.options(), &stop, [&mut idle, &mut loaded])?;
    // The logs of a stream in both phases.
    let mut closed: Vec<[Closed; 2]> = idle.close().into_iter().zip(loaded.close()).map(Into::into).collect();
    closed.resize_with(phases.streams.len(), Default::default);
    for (stream, logs) in phases.streams.iter_mut().zip(&closed) {
        for (phase, log) in [&mut stream.idle, &mut stream.loaded].into_iter().zip(logs) {
            if let Some(reason) = &log.broken {
                not_stored(&mut phase.analysed, reason);
            }
        }
    }
    let logs = closed.iter().flatten().filter_map(|closed| closed.log.as_deref());
    let archived = archive::add_logs(log.archive.as_deref(), logs);
    let of_stream =
        |logs: &[Closed; 2]| logs.each_ref().map(|closed| closed.log.clone().filter(|_| scratch.is_none()));
    let logs = closed.iter().map(of_stream).collect();
    let (interval, corrected) = (args.analysis.interval, args.plot_corrected);
    let report = PhasesReport::new(phases, logs, interval, corrected);
    let whole = write(&report, args);
    for trouble in closed.iter().flatten().flat_map(|log| &log.troubles) {
        error!("{trouble}");
    }
    let saved = archived && closed.iter().flatten().all(|log| log.troubles.is_empty());
    if !whole || !saved {
        return Ok(ExitStatus::NotMeasured);
    }
    Ok(status(&report, args))
}

/// Reports the saved phases of a test.
pub fn analysed(report: &PhasesReport, args: &ReportArgs) -> ExitStatus {
    if write(report, args) { status(report, args) } else { ExitStatus::NotMeasured }
}

/// Writes every format, and prints the report. Returns false if a format could not be written.
fn write(report: &PhasesReport, args: &ReportArgs) -> bool {
    args.outputs.write(report, || match args.quiet {
        true => text::line(report.runs()),
        false if args.is_full() => report.full_text(),
        false => report.one_screen(),
    })
}

/// Checks the phases under load against the conditions of `--fail-if`.
fn status(report: &PhasesReport, args: &ReportArgs) -> ExitStatus {
    let runs = report.runs();
    if runs.iter().all(|run| run.summary.counts.received == 0) {
        return ExitStatus::NotMeasured;
    }
    let figures = condition::figures(&args.fail_if);
    let loaded = || runs.iter().skip(1).step_by(2);
    let of = |check: fn(&ScalarCondition, &Summary) -> Option<String>| -> Vec<String> {
        loaded().flat_map(|run| figures.iter().filter_map(move |c| check(c, &run.summary))).collect()
    };
    let mut violations = of(ScalarCondition::violated);
    let mut undecided = of(ScalarCondition::undecided);
    let effects = report.effects();
    for condition in condition::on_load(&args.fail_if) {
        match condition.decide(&effects) {
            LoadDecision::Met => {}
            LoadDecision::Violated(violation) => violations.push(violation),
            LoadDecision::Undecided(why) => undecided.push(why),
        }
    }
    violations.iter().for_each(|v| error!("failed under load: {v}"));
    undecided.iter().for_each(|condition| error!("--fail-if {condition}"));
    match (violations.is_empty(), undecided.is_empty()) {
        (false, _) => ExitStatus::ThresholdViolated,
        (true, false) => ExitStatus::NotMeasured,
        (true, true) => ExitStatus::Measured,
    }
}

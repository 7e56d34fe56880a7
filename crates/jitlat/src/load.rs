//! `--load`: compares the same test idle and under load.

use crate::exit::ExitStatus;
use crate::logs::TestLogs;
use crate::options::log::LogArgs;
use crate::options::one_way::OneWayArgs;
use crate::options::ping::PingArgs;
use crate::options::report::ReportArgs;
use crate::test::not_stored;
use crate::{archive, interrupt, ping};
use anyhow::Result;
use jitlat_instruments::load::{Load, Phases};
use jitlat_instruments::{Instrument, OneWay};
use jitlat_output::phases::PhasesReport;
use jitlat_output::text;
use jitlat_store::log::{Journals, LogVersion, RowKind};
use jitlat_verdict::compare::Basis;
use std::path::{Path, PathBuf};
use tracing::error;

/// Runs `jitlat HOST --load …`.
pub fn one_way(test: &OneWay, args: &OneWayArgs) -> Result<ExitStatus> {
    args.report.outputs.check_one_way(args.protocol.name())?;
    let own = Some((test.settings.control_port, args.host_args.key_file.as_ref()));
    let load = args.load.settings(&test.settings.host, own)?;
    let rows = RowKind::OneWay(LogVersion::of(args.log.log_version).unwrap_or_default());
    run(test, Basis::Pdv, &load, (&args.log, rows), &args.report)
}

/// Runs `jitlat ping HOST --load …`.
pub fn two_way(args: &PingArgs) -> Result<ExitStatus> {
    args.protocol.check()?;
    args.report.outputs.check_protocol(None)?;
    let test = args.settings()?;
    let load = args.load.settings(&args.host, None)?;
    let logs = (&args.log, ping::rows(&test));
    // Round trips use one clock, so delays can be compared directly.
    run(&test, Basis::Delay, &load, logs, &args.report)
}

fn run(
    instrument: &dyn Instrument,
    basis: Basis,
    load: &Load,
    (log, rows): (&LogArgs, RowKind),
    args: &ReportArgs,
) -> Result<ExitStatus> {
    let others: Vec<&Path> = log.output.iter().map(PathBuf::as_path).collect();
    args.check(2, &others)?;
    archive::check(log.archive.as_deref(), args.log_on_stdout)?;
    let TestLogs { files, scratch } = TestLogs::phases(log, rows)?;
    let mut logs = files.into_iter().map(|file| Journals::new([file]));
    let (mut idle, mut loaded) = (logs.next(), logs.next());
    let stop = interrupt::stop()?;
    let mut phases =
        Phases::measure(instrument, load, basis, &args.options(), &stop, [&mut idle, &mut loaded])?;
    let close = |log: Option<Journals>| log.and_then(|log| log.close().pop()).unwrap_or_default();
    let closed = [idle, loaded].map(close);
    for (phase, log) in [&mut phases.idle, &mut phases.loaded].into_iter().zip(&closed) {
        if let Some(reason) = &log.broken {
            not_stored(&mut phase.analysed, reason);
        }
    }
    let logs = closed.iter().filter_map(|closed| closed.log.as_deref());
    let archived = archive::add_logs(log.archive.as_deref(), logs);
    let logs = closed.each_ref().map(|closed| closed.log.clone().filter(|_| scratch.is_none()));
    let (interval, corrected) = (args.analysis.interval, args.plot_corrected);
    let report = PhasesReport::new(phases, instrument.quantity(), logs, interval, corrected);
    let whole = args.outputs.write(&report, || match args.quiet {
        true => text::line(report.runs()),
        false if args.is_full() => report.full_text(),
        false => report.one_screen(),
    });
    for trouble in closed.iter().flat_map(|log| &log.troubles) {
        error!("{trouble}");
    }
    let saved = archived && closed.iter().all(|log| log.troubles.is_empty());
    let [idle, loaded] = report.runs();
    if !whole || !saved || idle.summary.counts.received + loaded.summary.counts.received == 0 {
        return Ok(ExitStatus::NotMeasured);
    }
    let violations: Vec<String> = args.fail_if.iter().filter_map(|c| c.violated(&loaded.summary)).collect();
    violations.iter().for_each(|v| error!("failed under load: {v}"));
    let undecided: Vec<String> = args.fail_if.iter().filter_map(|c| c.undecided(&loaded.summary)).collect();
    undecided.iter().for_each(|condition| error!("--fail-if {condition}"));
    Ok(match (violations.is_empty(), undecided.is_empty()) {
        (false, _) => ExitStatus::ThresholdViolated,
        (true, false) => ExitStatus::NotMeasured,
        (true, true) => ExitStatus::Measured,
    })
}

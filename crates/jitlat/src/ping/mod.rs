//! `jitlat ping`: two-way tests.
//!
//! * [`late`] – LaTe's options; [`several`] – several hosts at once

pub mod late;
mod several;

use crate::exit::{ExitStatus, thresholds};
use crate::live::{self, Board};
use crate::logs::TestLogs;
use crate::options::explain_rate;
use crate::options::ping::PingArgs;
use crate::test::not_stored;
use crate::{archive, check, doctor, interrupt, load, path};
use anyhow::Result;
use jitlat_core::Transport;
use jitlat_core::session::Ending;
use jitlat_instruments::doctor::noise_floor_two_way;
use jitlat_instruments::{Analyses, Instrument, Observer, Ping, RecordCollector};
use jitlat_output::AnalysedStream;
use jitlat_output::ReportStreams;
use jitlat_output::screen::StreamOrigin;
use jitlat_output::terminal::progress::{ProgressLine, ProgressObserver};
use jitlat_output::terminal::replies::Replies;
use jitlat_report::text::{asking, logged};
use jitlat_store::log::{Journals, RowKind};
use std::path::{Path, PathBuf};
use tracing::{error, warn};

/// Returns the kind of rows in the log of `ping`.
pub fn rows(ping: &Ping) -> RowKind {
    match ping.client.protocol().transport {
        Transport::Tcp => RowKind::TwoWayTcp,
        Transport::Udp if ping.marking.is_on() => RowKind::TwoWayMarked,
        Transport::Udp => RowKind::TwoWay,
    }
}

/// Returns the observer that prints a line for each answer; `None` unless `-v` asks for it.
fn replies(args: &PingArgs) -> Option<Replies> {
    (args.report.verbose && !args.report.is_silent()).then(|| Replies::new(args.timeout))
}

/// Runs a test, writes its log and prints the report.
pub fn run(args: &PingArgs) -> Result<ExitStatus> {
    if !args.others.is_empty() {
        return several::run(args);
    }
    if !args.load.load.is_empty() {
        args.start.check_unused("--load runs the test twice, and cannot be combined")?;
        return load::two_way(args);
    }
    args.protocol.check()?;
    let others: Vec<&Path> = args.log.output.iter().map(PathBuf::as_path).collect();
    args.report.outputs.check_two_way()?;
    args.report.check(1, &others)?;
    args.report.check_without_load()?;
    archive::check(args.log.archive.as_deref(), args.report.log_on_stdout)?;
    let mut ping = args.settings()?;
    if !args.report.is_silent() {
        explain_rate(args.rate, ping.size()?);
    }
    let drawn = args.live.live && live::is_possible()?;
    let TestLogs { files, scratch } = TestLogs::two_way(&args.log, rows(&ping))?;
    let mut logs = Journals::new(files);
    let stop = interrupt::stop()?;
    if args.doctor {
        ping.annotations.noise = doctor::floor_or_warning(noise_floor_two_way(&ping, &stop));
    }
    if args.path {
        let transport = ping.client.protocol().transport;
        ping.annotations.tags.extend(path::tags(args.path(transport), &stop));
    }
    ping.finds_size_limit = true;
    let (late_test, mut streams) = late::test(args, &ping)?;
    let mut analyses = Analyses::new(args.report.options());
    let mut records = RecordCollector::default();
    let mut progress = match (args.live.live, drawn) {
        (true, true) => ProgressObserver::new().by(ProgressLine::off()),
        (true, false) => ProgressObserver::new().by(ProgressLine::below()),
        _ => ProgressObserver::new(),
    };
    let mut windows = args.report.running_windows();
    let mut view = None;
    if drawn {
        view = Some(live::start(Board::of_hosts([args.host.as_str()]), &stop)?);
        windows.keep_quiet();
    }
    let mut shown = view.as_ref().map(|view| view.follow(0));
    let mut replies = replies(args).filter(|_| !drawn);
    let mut observers: [&mut dyn Observer; 8] = [
        &mut logs,
        &mut streams,
        &mut analyses,
        &mut records,
        &mut windows,
        &mut progress,
        &mut shown,
        &mut replies,
    ];
    let measured = ping.run(&stop, &mut observers);
    // Release the terminal before anything is printed.
    drop(view.take());
    progress.clear();
    let measured = measured.inspect_err(|e| {
        if let jitlat_instruments::Error::Ping(_) = e
            && let Err(trouble) = late_test.failed(&args.report.outputs)
        {
            error!("{}", jitlat_output::explain(&trouble));
        }
    })?;
    let requests = measured.sessions.first().and_then(|s| s.sent).unwrap_or(0);
    let closed = logs.close().pop();
    let broken = closed.as_ref().and_then(|l| l.broken.as_deref());
    let log = closed.as_ref().and_then(|l| l.log.clone());
    let archived = archive::add_logs(args.log.archive.as_deref(), log.iter().map(PathBuf::as_path));
    let log = log.filter(|_| scratch.is_none());
    let log_line = log.as_ref().map(|path| logged(path) + "\n").unwrap_or_default();
    let mut shown_windows = windows.written();
    let mut runs: Vec<AnalysedStream> = Vec::new();
    for mut analysed in analyses.finish() {
        if let Some(reason) = broken {
            not_stored(&mut analysed, reason);
        }
        runs.push(AnalysedStream {
            heading: format!("{}\n{log_line}\n", asking(&analysed.session)),
            label: "round trip".to_owned(),
            corrected: false,
            summary: analysed.summary,
            session: analysed.session,
            samples: if args.report.keeps_packets() { analysed.samples } else { Default::default() },
            log: log.clone(),
            records: records.records.pop().unwrap_or_default(),
            tcp: records.tcp.pop().unwrap_or_default(),
            shown_windows: shown_windows.pop().unwrap_or_default(),
            file_ending: "round-trip".to_owned(),
            late: Some(late_test.setting.clone()),
        });
    }
    let report =
        ReportStreams { runs: &runs, extra: None, interval: args.report.analysis.interval, owamp: &[] };
    let whole = args.report.write(&report, || args.report.page(&runs, StreamOrigin::Test(&args.host), ""));
    let mut troubles = closed.map(|c| c.troubles).unwrap_or_default();
    if let [run] = &runs[..] {
        troubles.extend(late_test.finish(run, streams).iter().map(|e| jitlat_output::explain(e)));
    }
    for trouble in &troubles {
        error!("{trouble}");
    }
    // Omit messages that the screen contains: the early end, and missing answers.
    let said = args.report.shows_screen();
    for run in runs.iter().filter(|run| !said && run.session.ending == Ending::PeerLost) {
        warn!("the test ended early: {}", run.session.reason.as_deref().unwrap_or("the far host was lost"));
    }
    if let Some(check) = &args.report.check {
        return Ok(check::conclude(check, &runs, whole && archived && troubles.is_empty()));
    }
    if requests == 0
        || !archived
        || !troubles.is_empty()
        || !whole
        || runs.iter().any(AnalysedStream::is_cut_off)
    {
        return Ok(ExitStatus::NotMeasured);
    }
    let status = thresholds(&runs, &args.report.fail_if);
    let answered = runs.iter().any(|run| run.summary.counts.received > 0);
    if !answered && ping.client.expects_answers() && status == ExitStatus::Measured {
        if !said {
            error!("{}: none of {requests} requests was answered", args.host);
        }
        return Ok(ExitStatus::NotMeasured);
    }
    Ok(status)
}

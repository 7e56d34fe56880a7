//! `jitlat HOST`: one-way tests against a server.

use crate::analyze::SeveralLogs;
use crate::capture::{EndedTestCapture, TestCapture};
use crate::exit::{ExitStatus, thresholds};
use crate::live::{self, Board};
use crate::logs::TestLogs;
use crate::options::check::CheckArgs;
use crate::options::explain_rate;
use crate::options::live::LiveArgs;
use crate::options::one_way::OneWayArgs;
use crate::options::report::QuietArgs;
use crate::options::start::StartArgs;
use crate::{analyze, archive, check, collect, doctor, interrupt, load, path};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use jitlat_core::Session;
use jitlat_core::session::Ending;
use jitlat_core::summary::Warning;
use jitlat_instruments::doctor::noise_floor;
use jitlat_instruments::{
    Analysed, Analyses, Error, Instrument, Observer, OneWay, RecordCollector, Stop, TestOutcome,
};
use jitlat_net::client::ClientError;
use jitlat_output::running::RunningWindows;
use jitlat_output::screen::StreamOrigin;
use jitlat_output::terminal::progress::{ProgressLine, ProgressObserver};
use jitlat_output::{AnalysedStream, ReportParts};
use jitlat_output::{ReportStreams, file_ending};
use jitlat_proto::jitlat::ConversationFailure;
use jitlat_report::text::{direction, logged};
use jitlat_store::log::{Closed, Journals};
use jitlat_verdict::LOG_NOT_STORED;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tracing::{error, warn};

#[derive(Clone, Debug, Args)]
pub struct TestArgs {
    /// Host that runs `jitlat serve`, or a server of --proto: name or address
    #[arg(required_unless_present_any = ["file", "collect"])]
    pub host: Option<String>,
    /// Analyse a saved log instead of measuring; - is standard input
    #[arg(short = 'f', value_name = "LOG", conflicts_with_all = ["host", "capture"])]
    pub file: Option<PathBuf>,
    /// Fetch the server's results of an earlier test that was cut short
    ///
    /// Give the log that the test left here; after a test with -b repeat the option for both logs. The result is a
    /// new log. Without HOST the server's address is taken from the log, as is its control port; if the server requires a
    /// key, give --key-file again.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["file", "classic", "capture"])]
    pub collect: Vec<PathBuf>,
    #[command(flatten)]
    pub one_way: OneWayArgs,
    #[command(flatten)]
    pub start: StartArgs,
    #[command(flatten)]
    pub check: CheckArgs,
    #[command(flatten)]
    pub quiet: QuietArgs,
    #[command(flatten)]
    pub live: LiveArgs,
}

/// Runs a one-way test and reports on it, or reports on a saved log (`-f`) or on an earlier test (`--collect`).
pub fn run(args: &TestArgs) -> Result<ExitStatus> {
    if let Some(log) = &args.file {
        args.start.check_unused("-f measures nothing, and cannot be combined")?;
        if args.live.live {
            live::show_if_possible(std::slice::from_ref(log))?;
        }
        return analyze::run(std::slice::from_ref(log), &SeveralLogs::default(), &args.one_way.report);
    }
    let logged = args.collect.first().filter(|_| args.host.is_none()).map(|log| collect::server(log));
    let logged = logged.transpose()?;
    let host = args.host.as_deref().or(logged.as_deref());
    let host = host.context("give the name or address of a host that runs `jitlat serve`")?;
    let mut test = args.one_way.settings(host)?;
    test.finds_size_limit = true;
    test.start = args.start.gate();
    if !args.one_way.load.load.is_empty() {
        args.start.check_unused("--load runs the test twice, and cannot be combined")?;
        return load::one_way(&test, &args.one_way);
    }
    let stop = interrupt::stop()?;
    if !args.collect.is_empty() {
        args.start.check_unused("--collect measures nothing, and cannot be combined")?;
        if let Some(name) = args.one_way.protocol.foreign() {
            bail!("--collect works only with jitlat's own protocol: leave out --proto {name}");
        }
        return collect::run(test, &args.collect, &args.one_way, &stop);
    }
    measure(test, &args.one_way, &stop, StreamOrigin::Test(host), args.live)
}

/// Runs `test` and prints its result.
pub fn measure(
    mut test: OneWay,
    args: &OneWayArgs,
    stop: &Stop,
    origin: StreamOrigin<'_>,
    watched: LiveArgs,
) -> Result<ExitStatus> {
    check(args, test.settings.terms.specs.len())?;
    if !args.report.is_silent() {
        explain_rate(args.stream.rate, args.stream.payload);
    }
    let drawn = watched.live && live::is_possible()?;
    let mut followed = TestObservers::new(&test, args)?;
    if watched.live {
        followed.progress =
            ProgressObserver::new().by(if drawn { ProgressLine::off() } else { ProgressLine::below() });
    }
    test.settings.terms.feedback = drawn || followed.progress.is_shown();
    if args.host_args.doctor {
        test.annotations.noise = doctor::floor_or_warning(noise_floor(&test, stop));
    }
    if args.host_args.path {
        let tags = path::tags(args.path(&test.settings.host), stop);
        test.annotations.tags.extend(tags);
    }
    let capture = TestCapture::start(&test.settings, args)?;
    let mut view = None;
    if drawn {
        view = Some(live::start(Board::of_hosts([test.settings.host.as_str()]), stop)?);
        followed.windows.keep_quiet();
    }
    let mut shown = view.as_ref().map(|view| view.follow(0));
    let outcome = followed.by(|observer| test.run(stop, &mut [&mut shown as &mut dyn Observer, observer]));
    // Release the terminal before anything is printed.
    drop(view.take());
    let outcome = outcome.map_err(|error| followed.with_offer(error))?;
    let captured = capture.map(TestCapture::finish).transpose()?;
    followed.conclude(&outcome, captured, args, origin)
}

/// Rejects, before the measurement, outputs that cannot be written.
pub fn check(args: &OneWayArgs, streams: usize) -> Result<()> {
    let others: Vec<&Path> = args.log.output.iter().map(PathBuf::as_path).collect();
    args.report.outputs.check_one_way()?;
    args.report.check(streams, &others)?;
    args.report.check_without_load()?;
    archive::check(args.log.archive.as_deref(), args.report.log_on_stdout)
}

/// Observers of a test.
pub struct TestObservers {
    logs: Journals,
    /// Names of the logs.
    names: Vec<PathBuf>,
    /// Temporary folder of logs that only the archive needs; `None`: the logs are in the user's files.
    scratch: Option<TempDir>,
    analyses: Analyses,
    /// Records of the packets, if an output needs them and no log can be read again.
    records: Option<RecordCollector>,
    windows: RunningWindows,
    progress: ProgressObserver,
}

impl TestObservers {
    /// Creates the logs, so that a name in use is reported before packets are sent.
    pub fn new(test: &OneWay, args: &OneWayArgs) -> Result<TestObservers> {
        let silent = args.report.is_silent();
        let TestLogs { files, scratch } = TestLogs::one_way(&args.log, test.settings.terms.specs.len())?;
        let unreadable = args.log.no_log || args.report.log_on_stdout;
        let collects = unreadable && args.report.outputs.needing(ReportParts::ROWS).is_some();
        Ok(TestObservers {
            names: files.iter().map(|file| file.path().to_owned()).collect(),
            logs: Journals::new(files),
            scratch,
            analyses: Analyses::new(args.report.options()),
            records: collects.then(RecordCollector::default),
            windows: args.report.running_windows(),
            progress: if silent {
                ProgressObserver::new()
            } else {
                ProgressObserver::with_server(&test.settings.host)
            },
        })
    }

    /// Runs `test` with the observers.
    pub fn by<T>(&mut self, test: impl FnOnce(&mut dyn Observer) -> Result<T, Error>) -> Result<T, Error> {
        let mut observers: [&mut dyn Observer; 5] =
            [&mut self.logs, &mut self.analyses, &mut self.records, &mut self.windows, &mut self.progress];
        let outcome = test(&mut observers);
        self.progress.clear();
        outcome
    }

    /// Adds advice to the `error` of a test on how to fetch its results later, if the server stores them.
    fn with_offer(&self, error: Error) -> anyhow::Error {
        let Error::OneWay(ClientError::Failed { failure: ConversationFailure::NotFetched { .. }, .. }) =
            error
        else {
            return error.into();
        };
        match self.scratch.is_none() && !self.names.is_empty() {
            true => anyhow!("{error}; {}", offer(self.names.iter().map(PathBuf::as_path))),
            false => error.into(),
        }
    }

    /// Completes the logs and prints the result.
    pub fn conclude(
        mut self,
        outcome: &TestOutcome,
        captured: Option<EndedTestCapture>,
        args: &OneWayArgs,
        origin: StreamOrigin<'_>,
    ) -> Result<ExitStatus> {
        let mut closed = self.logs.close();
        if closed.is_empty() {
            closed.resize_with(self.analyses.sessions_mut().count(), Closed::default);
        }
        let keep = args.report.keeps_packets() || args.capture.is_some();
        let both = closed.len() == 2;
        let mut runs = Vec::new();
        let mut shown_windows = self.windows.written().into_iter();
        let RecordCollector { records, tcp } = self.records.unwrap_or_default();
        let (mut records, mut tcp) = (records.into_iter(), tcp.into_iter());
        for (mut analysed, log) in self.analyses.finish().into_iter().zip(&closed) {
            if let Some(reason) = &log.broken {
                not_stored(&mut analysed, reason);
            }
            let analysed_direction = analysed.session.spec.direction();
            let direction = direction(analysed_direction);
            let mut heading = if both { format!("== {direction}\n") } else { String::new() };
            let log = log.log.clone().filter(|_| self.scratch.is_none());
            if let Some(log) = &log {
                heading += &format!("{}\n\n", logged(log));
            }
            runs.push(AnalysedStream {
                heading,
                label: direction.to_owned(),
                corrected: args.report.plot_corrected,
                summary: analysed.summary,
                session: analysed.session,
                samples: if keep { analysed.samples } else { Default::default() },
                log,
                records: records.next().unwrap_or_default(),
                tcp: tcp.next().unwrap_or_default(),
                shown_windows: shown_windows.next().unwrap_or_default(),
                file_ending: file_ending(analysed_direction),
                late: None,
            });
        }
        let explained = captured.map(|c| c.describe(&runs)).transpose()?;
        let report = ReportStreams {
            runs: &runs,
            extra: explained.as_ref(),
            interval: args.report.analysis.interval,
            owamp: &outcome.owamp,
        };
        let explanation = explained.as_ref().map_or("", |e| &e.text);
        let whole = args.report.write(&report, || args.report.page(&runs, origin, explanation));
        for trouble in closed.iter().flat_map(|log| &log.troubles) {
            error!("{trouble}");
        }
        if let Some(reason) = outcome.reason.as_ref().filter(|_| outcome.ending != Ending::Complete)
            && !args.report.shows_screen()
        {
            warn!("the test ended early: {reason}");
        }
        // A server that was stopped has handed over everything, and stores nothing any more.
        let is_stored = |session: &Session| {
            session.ending != Ending::ServerStopped
                && session.id.is_some()
                && !session.classic
                && session.sent.is_none()
        };
        if outcome.ending == Ending::PeerLost
            && self.scratch.is_none()
            && outcome.sessions.iter().any(is_stored)
            && !closed.is_empty()
        {
            warn!("{}", offer(closed.iter().filter_map(|log| log.log.as_deref())));
        }
        let logs = closed.iter().filter_map(|log| log.log.as_deref());
        let archived = archive::add_logs(args.log.archive.as_deref(), logs);
        let unsaved = !archived || closed.iter().any(|log| !log.troubles.is_empty());
        if let Some(check) = &args.report.check {
            return Ok(check::conclude(check, &runs, whole && !unsaved));
        }
        let received = runs.iter().any(|r| r.summary.counts.received > 0);
        let measured = received || outcome.ending == Ending::Complete || runs.iter().any(sent_something);
        if !measured || unsaved || !whole || runs.iter().any(AnalysedStream::is_cut_off) {
            return Ok(ExitStatus::NotMeasured);
        }
        Ok(thresholds(&runs, &args.report.fail_if))
    }
}

/// Describes how to fetch the results that a server still stores.
fn offer<'a>(logs: impl Iterator<Item = &'a Path>) -> String {
    let logs: String = logs.map(|log| format!(" --collect {}", log.display())).collect();
    format!("the server stores its results for a limited time; to fetch them: jitlat{logs}")
}

/// Records in the result of a complete test that its log could not be stored, and the `reason`. The figures are
/// complete, because the analysis does not read the log.
pub fn not_stored(test: &mut Analysed, reason: &str) {
    if test.session.ending != Ending::Complete {
        return;
    }
    (test.session.ending, test.session.reason) = (Ending::StorageFailed, Some(reason.to_owned()));
    let info = &mut test.summary.session;
    (info.ending, info.reason) = (test.session.ending, test.session.reason.clone());
    test.summary.warnings.push(Warning::new("log_not_stored", LOG_NOT_STORED));
}

/// Returns true for an interrupted test that sent packets. It counts as measured, even if all packets were lost.
fn sent_something(run: &AnalysedStream) -> bool {
    run.summary.counts.sent > 0 && run.summary.session.ending == Ending::Interrupted
}

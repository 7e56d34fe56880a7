//! Round trips to several hosts at the same time: a table while the tests run (with `--live`), and a table at the end.

use super::{replies, rows};
use crate::archive;
use crate::check;
use crate::exit::{ExitStatus, explain, thresholds};
use crate::interrupt;
use crate::live::{self, Board, View};
use crate::logs::TestLogs;
use crate::options::explain_rate;
use crate::options::ping::PingArgs;
use anyhow::{Context, Error, Result, bail};
use jitlat_core::Summary;
use jitlat_core::answer::Severity;
use jitlat_core::scalars::{SCALARS, Scalar};
use jitlat_core::units::eng3;
use jitlat_instruments::{Analysed, Analyses, Instrument, Observer, Ping, RecordCollector, Stop};

use jitlat_output::check::CheckedStream;
use jitlat_output::screen::StreamOrigin;
use jitlat_output::terminal::progress::ProgressLine;
use jitlat_output::{AnalysedStream, Report, ReportTable};
use jitlat_report::text::{asking, logged};
use jitlat_store::log::{Closed, Journals};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;
use tracing::{error, info};

/// Time between two checks for a stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum number of hosts. Each needs a thread and a socket.
const MAX_HOSTS: usize = 256;
/// Columns of the table: headings and keys of the figures.
type Columns = [(&'static str, &'static str); 5];
const COLUMNS: Columns = [
    ("loss", "loss"),
    ("delay min", "latency-min"),
    ("p50", "latency-p50"),
    ("p99", "latency-p99"),
    ("jitter p99", "pdv-p99"),
];
/// Columns if a host was sent too few requests for a 99th percentile.
const SMALL_COLUMNS: Columns = [
    ("loss", "loss"),
    ("delay min", "latency-min"),
    ("mean", "latency-mean"),
    ("p90", "latency-p90"),
    ("max", "latency-max"),
];
/// Minimum number of requests for a 99th percentile.
const MIN_REQUESTS_FOR_P99: u64 = 100;

/// Minimum number of answers for a 90th percentile.
const MIN_PACKETS_FOR_P90: u64 = 10;

/// Runs the tests and prints the table.
pub fn run(args: &PingArgs) -> Result<ExitStatus> {
    args.protocol.check()?;
    let hosts: Vec<&str> = std::iter::once(&args.host).chain(&args.others).map(String::as_str).collect();
    if hosts.len() > MAX_HOSTS {
        bail!("{} hosts are too many: give at most {MAX_HOSTS}", hosts.len());
    }
    args.report.outputs.check_two_way()?;
    // Tables and documents contain all hosts: they are one report.
    args.report.check(1, &[])?;
    args.report.outputs.check_tests(hosts.len())?;
    archive::check(args.log.archive.as_deref(), false)?;
    let tests = hosts.iter().map(|host| {
        let args = PingArgs { host: (*host).to_owned(), others: Vec::new(), ..args.clone() };
        args.settings()
    });
    let tests: Vec<Ping> = tests.collect::<Result<_>>()?;
    if let Some(test) = tests.first().filter(|_| !args.report.is_silent()) {
        explain_rate(args.rate, test.size()?);
    }
    let drawn = args.live.live && live::is_possible()?;
    let (mut logs, mut scratch) = (Vec::new(), Vec::new());
    for test in &tests {
        let TestLogs { files, scratch: folder } = TestLogs::two_way(&args.log, rows(test))?;
        logs.push(Journals::new(files));
        scratch.extend(folder);
    }
    let stop = interrupt::stop()?;
    let view = if drawn { Some(live::start(Board::of_hosts(hosts.iter().copied()), &stop)?) } else { None };
    let (found, logs) = measure(&tests, logs, args, &stop, view.as_ref());
    drop(view);
    let expects: Vec<bool> = tests.iter().map(|test| test.client.expects_answers()).collect();
    conclude(args, (&hosts, &expects), found, &logs, &scratch)
}

/// Writes the logs into the archive, prints the table and writes the outputs. `scratch` contains the temporary folders
/// of the logs if only the archive needs them. Each host has a flag that shows whether answers are expected.
fn conclude(
    args: &PingArgs,
    (hosts, expects): (&[&str], &[bool]),
    found: Vec<Result<Measured>>,
    logs: &[Closed],
    scratch: &[TempDir],
) -> Result<ExitStatus> {
    let stored = logs.iter().filter_map(|log| log.log.as_deref());
    let mut written = archive::add_logs(args.log.archive.as_deref(), stored);
    let mut report = HostsReport { runs: Vec::new(), of_host: Vec::new() };
    for ((host, found), log) in hosts.iter().zip(found).zip(logs) {
        let log = log.log.as_ref().filter(|_| scratch.is_empty());
        let found = found.map(|measured| {
            report.runs.push(stream(args, host, measured, log));
            report.runs.len() - 1
        });
        report.of_host.push(((*host).to_owned(), found));
    }
    let text = || match (args.report.quiet, args.report.is_full()) {
        (true, _) => report.lines(),
        (_, true) => args.report.page(&report.runs, StreamOrigin::Test(""), ""),
        _ => report.table(),
    };
    written &= args.report.write(&report, text);
    for (host, log) in hosts.iter().zip(logs) {
        if let Some(path) = log.log.as_ref().filter(|_| scratch.is_empty() && !args.report.is_silent()) {
            info!("{host}: {}", logged(path));
        }
        log.troubles.iter().for_each(|trouble| error!("{host}: {trouble}"));
        written &= log.troubles.is_empty();
    }
    let mut complete = written;
    for (host, found) in &report.of_host {
        if let Err(e) = found {
            let why = explain(e);
            match why.starts_with(host.as_str()) {
                true => error!("{why}"),
                false => error!("{host}: {why}"),
            }
            complete = false;
        }
    }
    if let Some(check) = &args.report.check {
        return Ok(check::judge(check, &report.checked(), written));
    }
    let status = thresholds(&report.runs, &args.report.fail_if);
    // As in a test of one host, a missing answer is an error unless a condition already says more.
    if status == ExitStatus::Measured {
        for (host, requests) in report.unanswered(expects) {
            error!("{host}: none of {requests} requests was answered");
            complete = false;
        }
    }
    Ok(if complete { status } else { ExitStatus::NotMeasured })
}

/// Result of the test of one host.
struct Measured {
    analysed: Analysed,
    records: RecordCollector,
}

fn stream(args: &PingArgs, host: &str, measured: Measured, log: Option<&PathBuf>) -> AnalysedStream {
    let Measured { analysed, mut records } = measured;
    AnalysedStream {
        heading: format!("{}\n", asking(&analysed.session)),
        label: host.to_owned(),
        corrected: false,
        summary: analysed.summary,
        session: analysed.session,
        samples: if args.report.keeps_packets() { analysed.samples } else { Default::default() },
        log: log.cloned(),
        records: records.records.pop().unwrap_or_default(),
        tcp: records.tcp.pop().unwrap_or_default(),
        shown_windows: Vec::new(),
        file_ending: host.replace([':', '%', '[', ']'], "-"),
        late: None,
    }
}

/// Runs all tests at the same time; returns the result and the log of each.
fn measure(
    tests: &[Ping],
    mut logs: Vec<Journals>,
    args: &PingArgs,
    stop: &Stop,
    view: Option<&View>,
) -> (Vec<Result<Measured>>, Vec<Closed>) {
    let stops: Vec<Stop> = tests.iter().map(|_| Stop::new()).collect();
    let mut line = if view.is_some() { ProgressLine::off() } else { ProgressLine::new() };
    let found = thread::scope(|scope| {
        let running: Vec<_> = tests
            .iter()
            .zip(&stops)
            .zip(&mut logs)
            .enumerate()
            .map(|(k, ((test, stop), log))| {
                let mut shown = view.map(|view| view.follow(k));
                let options = args.report.options();
                thread::Builder::new().name(format!("target {k}")).spawn_scoped(scope, move || {
                    let (mut analyses, mut records) = (Analyses::new(options), RecordCollector::default());
                    let mut replies = replies(args).filter(|_| view.is_none());
                    let mut observers: [&mut dyn Observer; 5] =
                        [log, &mut analyses, &mut records, &mut shown, &mut replies];
                    let outcome = test.run(stop, &mut observers);
                    let found = outcome.map_err(Error::from).and_then(|_| {
                        let analysed = analyses.finish().pop().context("nothing was measured")?;
                        Ok(Measured { analysed, records })
                    });
                    if let (Err(e), Some(view)) = (&found, view) {
                        view.failed(k, explain(e));
                    }
                    found
                })
            })
            .collect();
        let still = || running.iter().flatten().filter(|thread| !thread.is_finished()).count();
        loop {
            let left = still();
            if left == 0 {
                break;
            }
            line.show(&format!("{left} of {} hosts are being tested", tests.len()));
            // Reset the request, so that a second one is noticed and passed on.
            if stop.flag().swap(false, std::sync::atomic::Ordering::SeqCst) {
                stops.iter().for_each(Stop::request);
            }
            thread::sleep(STOP_CHECK_INTERVAL);
        }
        let joined = running.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|_| {
                Err(Error::msg("the thread of the test panicked: this is a bug in jitlat; please report it"))
            }),
            Err(e) => Err(Error::from(e).context("starting a thread for the test")),
        });
        joined.collect()
    });
    line.clear();
    let closed = logs.into_iter().map(|log| log.close().pop().unwrap_or_default());
    (found, closed.collect())
}

/// Report on several hosts.
struct HostsReport {
    /// Tests of the hosts that were measured.
    runs: Vec<AnalysedStream>,
    /// Every host, with the index of its test in `runs`, or the reason why it was not measured.
    of_host: Vec<(String, Result<usize>)>,
}

impl Report for HostsReport {
    /// Returns a list with one object for each host, in the order of the command line. The object of a measured host is
    /// the JSON of a test of that host alone, with the additional key `host`; that of another host only has the keys
    /// `host` and `error`.
    fn json(&self) -> jitlat_output::Result<Value> {
        let documents = self.of_host.iter().map(|(host, found)| {
            let mut document = match found {
                Ok(k) => jitlat_store::json::document(&[self.runs[*k].summary.clone()])?,
                Err(e) => json!({ "error": explain(e) }),
            };
            document["host"] = host.as_str().into();
            Ok(document)
        });
        documents.collect()
    }

    fn streams(&self) -> &[AnalysedStream] {
        &self.runs
    }

    /// Returns a table with a row for each host and a column for each figure in its base unit. Unknown figures are
    /// empty.
    fn table(&self) -> Option<ReportTable> {
        let line = |(host, found): &(String, Result<usize>)| {
            let measured = found.as_ref().ok().map(|k| &self.runs[*k].summary);
            let error = found.as_ref().err().map(explain).unwrap_or_default();
            let mut line = vec![("host".to_owned(), host.clone()), ("error".to_owned(), error)];
            line.extend(SCALARS.iter().map(|scalar| {
                let value = measured.and_then(|s| scalar.of(s)).map(|x| x.to_string());
                (scalar.key.to_owned(), value.unwrap_or_default())
            }));
            line
        };
        Some(self.of_host.iter().map(line).collect())
    }
}

impl HostsReport {
    /// Returns the hosts for a check, in the order of the command line.
    fn checked(&self) -> Vec<CheckedStream<'_>> {
        let hosts = self.of_host.iter().map(|(host, found)| match found {
            Ok(k) => check::checked(host, &self.runs[*k]),
            Err(e) => {
                let found = Err((check::state_of(e), explain(e)));
                CheckedStream { label: host, found, cut_off: false }
            }
        });
        hosts.collect()
    }

    /// Iterates over the measured hosts that did not answer although `expects` says so, each with the number of requests.
    fn unanswered<'a>(&'a self, expects: &'a [bool]) -> impl Iterator<Item = (&'a str, u64)> {
        self.of_host.iter().zip(expects).filter(|(_, expects)| **expects).filter_map(|((host, found), _)| {
            let counts = &self.runs[*found.as_ref().ok()?].summary.counts;
            (counts.received == 0).then_some((host.as_str(), counts.sent))
        })
    }

    /// Formats the verdicts, one line for each host.
    fn lines(&self) -> String {
        let line = |(host, found): &(String, Result<usize>)| match found {
            Ok(k) => format!("{host}: {}", jitlat_output::text::line(&self.runs[*k..=*k])),
            Err(_) => format!("{host}: not measured\n"),
        };
        self.of_host.iter().map(line).collect()
    }

    /// Formats the most important figures, one row for each host, and names the worst host.
    fn table(&self) -> String {
        let is_small = self.runs.iter().any(|run| run.summary.counts.sent < MIN_REQUESTS_FOR_P99);
        let columns = if is_small { SMALL_COLUMNS } else { COLUMNS };
        let names =
            self.of_host.iter().map(|(host, _)| host.chars().count()).max().unwrap_or(0).clamp(12, 40);
        let mut text = format!("{:<names$} {:<8}", "", "verdict");
        columns.iter().for_each(|(heading, _)| text += &format!(" {heading:>10}"));
        text.push('\n');
        for (host, found) in &self.of_host {
            text += &format!("{host:<names$} ");
            match found {
                Ok(k) => {
                    let summary: &Summary = &self.runs[*k].summary;
                    text += &format!("{:<8}", severity(summary).name());
                    for (_, key) in columns {
                        // With fewer answers it would be the maximum.
                        let is_known =
                            key != "latency-p90" || summary.counts.unique_valid >= MIN_PACKETS_FOR_P90;
                        let figure = Scalar::named(key).filter(|_| is_known);
                        let value = figure.and_then(|figure| Some(figure.show(figure.of(summary)?)));
                        text += &format!(" {:>10}", value.as_deref().unwrap_or("-"));
                    }
                }
                Err(_) => text += "not measured",
            }
            text.push('\n');
        }
        text + &self.worst()
    }

    /// Returns a line that names the worst host and the reason; empty if there is only one host.
    fn worst(&self) -> String {
        if self.of_host.len() < 2 {
            return String::new();
        }
        // The reasons are logged.
        if let Some((host, _)) = self.of_host.iter().find(|(_, found)| found.is_err()) {
            return format!("\nWorst: {host}: not measured\n");
        }
        let measured = || {
            self.of_host
                .iter()
                .filter_map(|(host, found)| Some((host, &self.runs[*found.as_ref().ok()?].summary)))
        };
        let loss = |s: &Summary| s.counts.lost as f64 / s.counts.sent.max(1) as f64;
        let order = |a: &Summary, b: &Summary| {
            let median = |s: &Summary| s.latency.median.unwrap_or(0.0);
            severity(a)
                .cmp(&severity(b))
                .then_with(|| loss(a).total_cmp(&loss(b)))
                .then_with(|| median(a).total_cmp(&median(b)))
        };
        let Some((host, summary)) = measured().max_by(|(_, a), (_, b)| order(a, b)) else {
            return String::new();
        };
        let is_fine = severity(summary) <= Severity::Good && summary.counts.lost == 0;
        match (is_fine, &summary.answer, summary.latency.median) {
            (true, _, Some(median)) => {
                format!("\nSlowest: {host}, median {}; no host lost a packet\n", eng3(median))
            }
            (_, Some(answer), _) => format!("\nWorst: {host}: {}\n", answer.headline),
            _ => String::new(),
        }
    }
}

/// Returns the verdict of a test.
fn severity(summary: &Summary) -> Severity {
    summary.answer.as_ref().map_or(Severity::Unknown, |answer| answer.severity)
}

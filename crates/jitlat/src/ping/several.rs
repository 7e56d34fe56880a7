//! Round trips to several hosts at the same time: a table while the tests run (with `--live`), and a table at the end.

use super::rows;
use crate::exit::{ExitStatus, explain};
use crate::interrupt;
use crate::live::{self, Board, View};
use crate::logs::TestLogs;
use crate::options::ping::PingArgs;
use anyhow::{Error, Result, bail};
use jitlat_core::Summary;
use jitlat_core::scalars::Scalar;
use jitlat_instruments::{Analyses, Instrument, Observer, Ping, Stop};
use jitlat_output::terminal::{self, progress::ProgressLine};
use jitlat_report::text::logged;
use jitlat_store::log::{Closed, Journals};
use std::thread;
use std::time::Duration;
use tracing::{error, info};

/// Time between two checks for a stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum number of hosts. Each needs a thread and a socket.
const MAX_HOSTS: usize = 256;
/// Figures in the table, by key.
const SHOWN: [&str; 5] = ["loss", "latency-min", "latency-p50", "latency-p99", "pdv-p99"];

/// Runs the tests and prints the table.
pub fn run(args: &PingArgs) -> Result<ExitStatus> {
    args.protocol.check()?;
    let hosts: Vec<&str> = std::iter::once(&args.host).chain(&args.others).map(String::as_str).collect();
    if hosts.len() > MAX_HOSTS {
        bail!("{} hosts are too many: give at most {MAX_HOSTS}", hosts.len());
    }
    let tests = hosts.iter().map(|host| {
        let args = PingArgs { host: (*host).to_owned(), others: Vec::new(), ..args.clone() };
        args.settings()
    });
    let tests: Vec<Ping> = tests.collect::<Result<_>>()?;
    let drawn = args.live.live && live::is_possible()?;
    let logs = tests.iter().map(|test| Ok(Journals::new(TestLogs::two_way(&args.log, rows(test))?.files)));
    let logs: Vec<Journals> = logs.collect::<Result<_>>()?;
    let stop = interrupt::stop()?;
    let view = if drawn { Some(live::start(Board::of_hosts(hosts.iter().copied()), &stop)?) } else { None };
    let (found, logs) = measure(&tests, logs, args, &stop, view.as_ref());
    drop(view);
    terminal::print(&table(&hosts, &found))?;
    let mut status = ExitStatus::Measured;
    for (host, log) in hosts.iter().zip(&logs) {
        if let Some(path) = &log.log {
            info!("{host}: {}", logged(path));
        }
        for trouble in &log.troubles {
            error!("{host}: {trouble}");
            status = ExitStatus::NotMeasured;
        }
    }
    for (host, found) in hosts.iter().zip(&found) {
        if let Err(e) = found {
            error!("{host}: {}", explain(e));
            status = ExitStatus::NotMeasured;
        }
    }
    Ok(status)
}

/// Runs all tests at the same time; returns the result and the log of each.
fn measure(
    tests: &[Ping],
    mut logs: Vec<Journals>,
    args: &PingArgs,
    stop: &Stop,
    view: Option<&View>,
) -> (Vec<Result<Summary>>, Vec<Closed>) {
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
                    let mut analyses = Analyses::new(options);
                    let outcome = test.run(stop, &mut [log as &mut dyn Observer, &mut analyses, &mut shown]);
                    let found = outcome.map_err(Error::from).and_then(|_| {
                        let analysed = analyses.finish().pop();
                        analysed.map(|a| a.summary).ok_or_else(|| Error::msg("nothing was measured"))
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

/// Formats a row for each host.
fn table(hosts: &[&str], found: &[Result<Summary>]) -> String {
    let figures: Vec<&Scalar> = SHOWN.iter().filter_map(|key| Scalar::named(key)).collect();
    let names = hosts.iter().map(|host| host.chars().count()).max().unwrap_or(0).clamp(12, 40);
    let mut text = format!("{:<names$}", "");
    figures.iter().for_each(|figure| text += &format!(" {:>11}", figure.key));
    text.push('\n');
    for (host, found) in hosts.iter().zip(found) {
        text += &format!("{host:<names$}");
        match found {
            Ok(summary) => {
                for figure in &figures {
                    let value = figure.of(summary).map_or_else(|| "-".to_owned(), |x| figure.show(x));
                    text += &format!(" {value:>11}");
                }
            }
            Err(_) => text += " not measured",
        }
        text.push('\n');
    }
    text
}

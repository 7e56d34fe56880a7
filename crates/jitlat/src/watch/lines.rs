//! [`ResultLines`]: prints a line for each result that is added to the archive.

use super::file::TEST;
use anyhow::{Context, Result};
use jitlat_archive::{Archive, Entered};
use jitlat_core::WallTime;
use jitlat_core::units::eng3;
use jitlat_monitor::runtime::ArchiveWatch;
use jitlat_net::wake::StopSignal;
use jitlat_output::terminal;
use std::collections::BTreeMap;
use std::path::Path;
use std::thread::JoinHandle;
use tracing::warn;

/// Largest number of results that are read at once.
const MAX_AT_ONCE: usize = 1000;

/// Thread that prints the results. When this value is dropped, it prints the last ones and ends.
pub struct ResultLines {
    stop: StopSignal,
    thread: Option<JoinHandle<()>>,
}

impl ResultLines {
    /// Prints the tests that are added to the archive at `root` after test `last`; with `only_changes`, those whose verdict
    /// differs from the one before.
    pub fn start(root: &Path, last: i64, width: usize, only_changes: bool) -> Result<ResultLines> {
        let stop = StopSignal::new().context("preparing the thread that prints results")?;
        let archive = Archive::open(root)?;
        let mut changes = ArchiveWatch::new(root, &stop);
        let stopped = stop.clone();
        let mut printed = PrintedResults { last, width, only_changes, severities: BTreeMap::new() };
        let run = move || loop {
            let ends = stopped.is_requested();
            if let Err(e) = printed.print_new(&archive) {
                return warn!("printing results: {}", crate::exit::explain(&e));
            }
            if ends {
                return;
            }
            changes.wait(None, None);
        };
        let thread = std::thread::Builder::new().name("results".to_owned());
        let thread = thread.spawn(run).context("starting the thread that prints results")?;
        Ok(ResultLines { stop, thread: Some(thread) })
    }
}

impl Drop for ResultLines {
    fn drop(&mut self) {
        self.stop.request();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            warn!("the thread that prints results failed (a bug in jitlat)");
        }
    }
}

struct PrintedResults {
    /// Number of the last test that was looked at.
    last: i64,
    /// Width of the hosts' column.
    width: usize,
    only_changes: bool,
    /// Severity of the last result of each host.
    severities: BTreeMap<String, String>,
}

impl PrintedResults {
    fn print_new(&mut self, archive: &Archive) -> Result<()> {
        for test in archive.entered_after(self.last, MAX_AT_ONCE)? {
            self.last = test.number;
            if let Some(host) =
                test.tags.get("server").filter(|_| test.tags.get("test").is_some_and(|t| t == TEST))
            {
                let before = self.severities.insert(host.clone(), test.severity.clone());
                if !self.only_changes || before.as_ref() != Some(&test.severity) {
                    terminal::print(&line(host, self.width, &test))?;
                }
            }
        }
        Ok(())
    }
}

/// Formats a result: time, host, figures, and the headline.
fn line(host: &str, width: usize, test: &Entered) -> String {
    let of = |key: &str| test.figures.get(key).copied();
    let delay = |key: &str| of(key).map_or_else(|| "-".to_owned(), figure);
    let lost = of("loss").map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    format!(
        "{}  {host:<width$}  median {:<7}  p99 {:<7}  lost {lost:<5}  {}\n",
        time_of_day(WallTime(test.started_ns)),
        delay("latency-p50"),
        delay("latency-p99"),
        test.headline
    )
}

/// Formats a time in ns.
pub fn figure(ns: f64) -> String {
    eng3(ns)
}

/// Formats the time of day, UTC.
pub fn time_of_day(at: WallTime) -> String {
    jitlat_archive::utc(at.0).split(' ').nth(1).map_or_else(String::new, |time| format!("{time} UTC"))
}

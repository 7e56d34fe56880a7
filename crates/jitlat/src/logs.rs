//! Log files of a test. They are created before the test, so that a name in use is reported before packets are sent.

use crate::options::log::LogArgs;
use anyhow::{Context, Result, bail};
use jitlat_store::log::{LogFile, LogVersion, Naming, RowKind, STDOUT};
use std::path::PathBuf;
use tempfile::TempDir;

/// Endings of the logs of a test that is measured idle and under load.
const PHASES: [&str; 2] = [".idle", ".loaded"];
/// Endings of such a test in both directions.
const PHASES_OF_TWO: [&str; 4] = [".idle.up", ".idle.down", ".loaded.up", ".loaded.down"];

/// Log files of a test that has not begun.
pub struct TestLogs {
    /// One file per stream; empty if the test writes no logs.
    pub files: Vec<LogFile>,
    /// Temporary folder of logs that only the archive needs; `None` if the logs are the user's files. The folder is
    /// removed when this value is dropped.
    pub scratch: Option<TempDir>,
}

impl TestLogs {
    /// Creates the logs of a one-way test with one stream or two.
    pub fn one_way(args: &LogArgs, streams: usize) -> Result<TestLogs> {
        let rows = RowKind::OneWay(LogVersion::of(args.log_version).unwrap_or_default());
        TestLogs::create(args, rows, if streams == 2 { &[".up", ".down"] } else { &[] })
    }

    /// Creates the log of a round-trip test.
    pub fn two_way(args: &LogArgs, rows: RowKind) -> Result<TestLogs> {
        check_two_way(args)?;
        TestLogs::create(args, rows, &[])
    }

    /// Creates the logs of a test with one stream or two that runs twice: all idle ones, then all under load.
    pub fn phases(args: &LogArgs, rows: RowKind, streams: usize) -> Result<TestLogs> {
        if rows != RowKind::OneWay(LogVersion::of(args.log_version).unwrap_or_default()) {
            check_two_way(args)?;
        }
        if args.output.as_ref().is_some_and(|path| path.as_os_str() == STDOUT) {
            bail!(
                "-o - writes one stream to standard output, but --load measures twice: give -o a file name"
            );
        }
        TestLogs::create(args, rows, if streams == 2 { &PHASES_OF_TWO } else { &PHASES })
    }

    /// Creates a log for each of several round-trip streams. `endings` are the endings of the file names.
    pub fn of_streams(args: &LogArgs, endings: &[&str]) -> Result<TestLogs> {
        check_two_way(args)?;
        if args.output.as_ref().is_some_and(|path| path.as_os_str() == STDOUT) {
            bail!(
                "-o - writes one stream to standard output, but this test has several: give -o a file name"
            );
        }
        TestLogs::create(args, RowKind::TwoWay, endings)
    }

    /// Creates one file, or several files with these endings.
    fn create(args: &LogArgs, rows: RowKind, endings: &[&str]) -> Result<TestLogs> {
        if args.no_log && args.archive.is_none() {
            return Ok(TestLogs { files: Vec::new(), scratch: None });
        }
        // With --no-log, write them into a temporary folder: the archive needs logs.
        let scratch = args.no_log.then(tempfile::tempdir).transpose();
        let scratch = scratch.context("creating a temporary folder for the log")?;
        let naming = match (&scratch, &args.output) {
            (Some(folder), _) => Naming::Given(folder.path().join("log")),
            (None, Some(path)) => Naming::Given(path.clone()),
            (None, None) => Naming::Random(PathBuf::from(".")),
        };
        let files = match endings {
            [] => LogFile::create_for(&naming, rows).map(|log| vec![log]),
            _ => LogFile::create_several(&naming, rows, endings),
        };
        let files = files.context("creating the log (-o LOG writes it elsewhere, --no-log writes none)")?;
        Ok(TestLogs { files, scratch })
    }
}

fn check_two_way(args: &LogArgs) -> Result<()> {
    if args.log_version != LogVersion::default().number() {
        bail!("--log-version {}: only version 3 has rows for round trips", args.log_version);
    }
    Ok(())
}

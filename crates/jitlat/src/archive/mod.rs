//! `jitlat archive VERB DIR`: stores and reads tests of many years in a folder.
//!
//! * [`dataset`] – `jitlat analyze --dataset`: all packets of an archive analysed again
//! * [`figures`] – `query` and `compare`: figures over time, before and after a time
//! * [`publish`] – Parquet tables for other programs
//! * [`select`] – options that select tests
//! * [`stream`] – results for other systems

pub mod dataset;
mod figures;
mod publish;
mod select;
mod stream;

use self::figures::{ArchiveCompareArgs, QueryArgs};
use self::select::{FilterArgs, FormArgs};
use crate::exit::ExitStatus;
use crate::options::report::{QuietArgs, ReportArgs};
use crate::{analyze, interrupt};
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use jitlat_archive::show::{self, Form, PushesDocument};
use jitlat_archive::{AddOutcome, Archive, ArchiveError, CATALOGUE_COPY, Retention, TestId, is_archive};
use jitlat_core::scalars::Selector;
use jitlat_core::{WallTime, quantity};
use jitlat_output::terminal;
use jitlat_output::terminal::work::Work;
use jitlat_store::output as file;
use std::fs::{self, File};
use std::io;
use std::iter;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::{error, info};

/// Maximum number of logs that are added in one transaction.
const MAX_BATCH_LOGS: usize = 256;
/// Maximum size of their logs in bytes, unless one alone is larger. Adding them takes about five times as much memory.
const MAX_BATCH_BYTES: u64 = 8 << 20;

/// Store tests in a folder for years, and look up how a path has changed
#[derive(Clone, Debug, Args)]
pub struct ArchiveArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Clone, Debug, Subcommand)]
enum Verb {
    /// Add logs to the archive, which is created if missing
    Add(AddArgs),
    /// List tests, with figures and the verdict of each
    Ls(LsArgs),
    /// Print the report of a test
    Show(Box<ShowArgs>),
    /// Print figures of paths by hour, day, month or year
    Query(QueryArgs),
    /// Compare paths before and after a time, with intervals
    Compare(ArchiveCompareArgs),
    /// Write stored tests as logs, identical to those added
    Export(ArchiveExportArgs),
    /// Write new tests as Parquet tables for DuckDB, Spark, ClickHouse and others
    #[command(
        after_help = "Only tests that were added since the last time are written; files never change. docs/guide/lake.md \
                      describes the tables, Iceberg, and stores like S3."
    )]
    Publish(publish::PublishArgs),
    /// Send results to Kafka, OpenTelemetry, Prometheus and others by a command
    #[command(
        after_help = "Each result is sent at least once. docs/guide/lake.md#streams has commands for kcat and curl."
    )]
    Stream(stream::StreamArgs),
    /// Merge small packet files into larger ones
    Compact(WhereArgs),
    /// Remove old tests or packets; figures of periods remain
    Prune(PruneArgs),
    /// Show tests pushed to collectors (waiting, dropped) or received from other hosts
    Pushes(PushesArgs),
    /// Check all data against checksums, and repair the archive after a crash
    #[command(
        after_help = "Exit status: 0 clean, or repaired; 1 a dry run found something to repair; 2 damaged, or not \
                      checked."
    )]
    Fsck(FsckArgs),
    /// Copy the catalogue, or the whole archive to another folder
    #[command(
        after_help = "Packet files contain everything about their tests, but figures of tests whose packets were \
                      pruned are only in the catalogue. `prune` therefore copies it (catalogue.copy.sqlite) before \
                      it removes packets that the last copy does not cover."
    )]
    Backup(BackupArgs),
    /// Make a damaged catalogue again, from its copy and the packet files
    #[command(after_help = "The previous catalogue remains under another name. Nothing else is removed.")]
    Restore(WhereArgs),
    /// Convert an archive to the newest version
    Migrate(WhereArgs),
}

/// Argument with the folder of the archive.
#[derive(Clone, Debug, Args)]
struct WhereArgs {
    /// Folder of the archive
    #[arg(value_name = "DIR")]
    archive: PathBuf,
}

/// Argument with the folders of archives that are read as one.
#[derive(Clone, Debug, Args)]
struct AllArgs {
    /// Folders of archives; several are read as one, in which each test counts once
    #[arg(value_name = "DIR", required = true)]
    archives: Vec<PathBuf>,
}

#[derive(Clone, Debug, Args)]
struct AddArgs {
    #[command(flatten)]
    place: WhereArgs,
    /// Logs of any version and instrument
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Tag for these tests in addition to their own, key=value; may be repeated
    #[arg(long = "tag", value_name = "K=V", value_parser = quantity::tag)]
    tags: Vec<(String, String)>,
}

#[derive(Clone, Debug, Args)]
struct LsArgs {
    #[command(flatten)]
    places: AllArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only tests with this tag, key=value; may be repeated
    #[arg(long = "tag", value_name = "K=V", value_parser = quantity::tag)]
    tags: Vec<(String, String)>,
    /// Figure of each test, as in --fail-if; may be repeated
    ///
    /// Default: loss, pdv-p99.
    #[arg(long = "figure", value_name = "FIGURE", value_parser = select::figure)]
    figures: Vec<Selector>,
    #[command(flatten)]
    form: FormArgs,
}

#[derive(Clone, Debug, Args)]
struct ShowArgs {
    #[command(flatten)]
    place: WhereArgs,
    /// Test: the first four or more digits of its number, or its name
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    quiet: QuietArgs,
}

#[derive(Clone, Debug, Args)]
struct ArchiveExportArgs {
    #[command(flatten)]
    place: WhereArgs,
    /// Folder for the logs; created if missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Tests, by number or name (default: all selected by the options)
    #[arg(value_name = "ID", conflicts_with_all = ["path", "since", "before", "tags"])]
    ids: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only tests with this tag, key=value; may be repeated
    #[arg(long = "tag", value_name = "K=V", value_parser = quantity::tag)]
    tags: Vec<(String, String)>,
}

#[derive(Clone, Debug, Args)]
struct PruneArgs {
    #[command(flatten)]
    place: WhereArgs,
    /// Retention: packets=90d, tests=400d or size=20G; may be repeated
    ///
    /// packets=90d removes packets of older tests and retains their figures. tests=400d removes older tests and
    /// retains their share in the figures of periods. size=20G removes the oldest packets until the rest fits.
    #[arg(long, required = true, value_name = "WHAT")]
    keep: Vec<Retention>,
    /// Print what each rule would remove, and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Debug, Args)]
struct PushesArgs {
    #[command(flatten)]
    place: WhereArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, Args)]
struct FsckArgs {
    #[command(flatten)]
    place: WhereArgs,
    /// Also rebuild each log and compare it with the one that was added
    #[arg(long)]
    logs: bool,
    /// Change nothing: the archive may be read-only
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Debug, Args)]
struct BackupArgs {
    #[command(flatten)]
    place: WhereArgs,
    /// Folder of the backup, itself an archive; only new packet files are copied
    ///
    /// Without it, only the copy of the catalogue in the archive is made again.
    #[arg(value_name = "TO")]
    to: Option<PathBuf>,
}

impl ArchiveArgs {
    /// Resolves options that depend on other options.
    pub fn complete(&mut self) -> Result<()> {
        let Verb::Show(args) = &mut self.verb else { return Ok(()) };
        args.report.quiet = args.quiet.quiet;
        args.report.analysis.profile.resolve()
    }
}

fn now() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Prints a text to standard output.
fn printed(text: &str) -> Result<ExitStatus> {
    terminal::print(text)?;
    Ok(ExitStatus::Measured)
}

/// Runs the given verb.
pub fn run(args: &ArchiveArgs) -> Result<ExitStatus> {
    match &args.verb {
        Verb::Add(args) => add(args),
        Verb::Ls(args) => {
            let archive = Archive::open_all(&args.places.archives)?;
            let default =
                ["loss", "pdv-p99"].map(str::parse).into_iter().collect::<Result<Vec<Selector>, _>>()?;
            let figures = if args.figures.is_empty() { &default } else { &args.figures };
            let tests = archive.list(&args.filter.filter(&args.tags)?, figures)?;
            printed(&show::list(&tests, figures, args.filter.zone(), args.form.form())?)
        }
        Verb::Show(args) => analyze::run(
            &[test_path(&args.place.archive, &args.id)?],
            &analyze::SeveralLogs::default(),
            &args.report,
        ),
        Verb::Query(args) => figures::query(args),
        Verb::Compare(args) => figures::compare(args),
        Verb::Export(args) => export(args),
        Verb::Publish(args) => publish::run(args),
        Verb::Stream(args) => stream::run(args),
        Verb::Compact(args) => {
            let work = Work::of("moving packets into larger files");
            let done = Archive::open_to_write(&args.archive)?.compact()?;
            drop(work);
            terminal::print(&show::compacted(&done))?;
            Ok(if done.damaged == 0 { ExitStatus::Measured } else { ExitStatus::NotMeasured })
        }
        Verb::Prune(args) if args.dry_run => {
            let archive = Archive::open(&args.place.archive)?;
            for keep in &args.keep {
                terminal::print(&show::prunable(&archive.prunable(*keep, now())?))?;
            }
            Ok(ExitStatus::Measured)
        }
        Verb::Prune(args) => {
            let archive = Archive::open_to_write(&args.place.archive)?;
            let work = Work::of("removing old tests");
            for keep in &args.keep {
                let pruned = archive.prune(*keep, now())?;
                work.print(&show::pruned(&pruned))?;
            }
            Ok(ExitStatus::Measured)
        }
        Verb::Pushes(args) => {
            let archive = Archive::open(&args.place.archive)?;
            let document = PushesDocument { pushed: archive.pushes()?, collected: archive.collected()? };
            printed(&show::pushes(&document, if args.json { Form::Json } else { Form::Text })?)
        }
        Verb::Fsck(args) => {
            let root = &args.place.archive;
            let work = Work::of("checking the archive");
            let checked = match args.dry_run {
                true => Archive::open(root)?.inspect(args.logs),
                false => Archive::open_to_write(root)?.check(args.logs),
            };
            drop(work);
            let checked = checked.map_err(|e| read_only(root, e))?;
            terminal::print(&show::checked(&checked))?;
            Ok(match checked.damaged.is_empty() {
                false => ExitStatus::NotMeasured,
                true if checked.has_to_repair() => ExitStatus::ThresholdViolated,
                true => ExitStatus::Measured,
            })
        }
        Verb::Backup(args) => {
            let archive = Archive::open(&args.place.archive)?;
            let work = Work::of("copying");
            let said = match &args.to {
                None => {
                    archive.copy_catalogue()?;
                    format!("{}\n", archive.root().join(CATALOGUE_COPY).display())
                }
                Some(to) => show::backed_up(&archive.back_up(to)?),
            };
            drop(work);
            printed(&said)
        }
        Verb::Restore(args) => {
            let work = Work::of("restoring the catalogue");
            let done = Archive::restore(&args.archive)?;
            drop(work);
            terminal::print(&show::restored(&done))?;
            let whole = done.from_packets.damaged.is_empty();
            Ok(if whole { ExitStatus::Measured } else { ExitStatus::NotMeasured })
        }
        Verb::Migrate(args) => {
            let work = Work::of("migrating the archive");
            let before = Archive::migrate(&args.archive)?;
            let renamed = Archive::open_to_write(&args.archive)?.rename()?;
            drop(work);
            terminal::print(&show::migrated(before, &renamed))?;
            Ok(ExitStatus::Measured)
        }
    }
}

/// Adds what to do to an error of a check whose archive cannot be written.
fn read_only(root: &Path, error: ArchiveError) -> anyhow::Error {
    match &error {
        ArchiveError::Io { source, .. } if is_read_only(source) => anyhow!(error).context(format!(
            "{} cannot be repaired: jitlat archive fsck --dry-run only checks it",
            root.display()
        )),
        _ => error.into(),
    }
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

/// Returns the path of a test in an archive, in the form that every command accepts.
fn test_path(archive: &Path, id: &str) -> Result<PathBuf> {
    let found = Archive::open(archive)?.find(id)?;
    Ok(archive.join(found.to_string()))
}

fn add(args: &AddArgs) -> Result<ExitStatus> {
    let stop = interrupt::stop()?;
    let archive = Archive::make(&args.place.archive)?;
    let (mut done, mut failed) = (0, 0);
    let work = Work::counted("adding logs", args.logs.len() as u64);
    for logs in batches(&args.logs).take_while(|_| !stop.is_requested()) {
        let paths: Vec<&Path> = logs.iter().map(PathBuf::as_path).collect();
        let all_added = archive.add_files(&paths, &args.tags);
        done += logs.len() as u64;
        work.done(done);
        for (log, added) in logs.iter().zip(all_added) {
            let name = log.display();
            match added {
                Ok(AddOutcome::New(id)) => work.print(&format!("{id}  {name}\n"))?,
                Ok(AddOutcome::Known(id)) => {
                    work.print(&format!("{id}  {name}: already in the archive\n"))?;
                }
                Err(e) => {
                    work.without(|| error!("{name}: {e}"));
                    failed += 1;
                }
            }
        }
    }
    drop(work);
    if stop.is_requested() {
        bail!("interrupted: only the tests listed above were added");
    }
    Ok(if failed == 0 { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}

/// Divides logs into parts that are added in one transaction each.
fn batches(mut logs: &[PathBuf]) -> impl Iterator<Item = &[PathBuf]> {
    iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |log: &&PathBuf| {
            bytes += log.metadata().map_or(0, |about| about.len());
            bytes <= MAX_BATCH_BYTES
        };
        let count = logs.iter().take(MAX_BATCH_LOGS).take_while(fits).count().max(1).min(logs.len());
        let (batch, rest) = logs.split_at(count);
        logs = rest;
        (!batch.is_empty()).then_some(batch)
    })
}

/// Adds the log of a test to the archive at `root`, which is created if it does not exist.
pub fn add_log(root: &Path, log: &Path) -> Result<TestId, jitlat_archive::ArchiveError> {
    let (AddOutcome::New(id) | AddOutcome::Known(id)) = Archive::make(root)?.add(log, &[])?;
    Ok(id)
}

/// Adds the logs of a test that has just ended to `archive`. A failure is only logged. Returns true if all logs were
/// added, or if there is no archive.
pub fn add_logs<'a>(archive: Option<&Path>, logs: impl Iterator<Item = &'a Path>) -> bool {
    let Some(root) = archive else { return true };
    let mut whole = true;
    for log in logs {
        match add_log(root, log) {
            Ok(id) => {
                info!("archived as {}", root.join(id.to_string()).display());
            }
            Err(e) => {
                error!("--archive {}: {e}", root.display());
                whole = false;
            }
        }
    }
    whole
}

/// Checks before the measurement that the archive can store the test.
pub fn check(archive: Option<&Path>, log_to_stdout: bool) -> Result<()> {
    let Some(root) = archive else { return Ok(()) };
    if log_to_stdout {
        bail!("--archive needs a log file, but -o - writes the log to standard output: give -o a file name");
    }
    if is_archive(root) {
        Archive::open_to_write(root).map(drop)?;
    } else {
        Archive::make(root).context("--archive").map(drop)?;
    }
    Ok(())
}

fn export(args: &ArchiveExportArgs) -> Result<ExitStatus> {
    let archive = Archive::open(&args.place.archive)?;
    let ids: Vec<TestId> = if args.ids.is_empty() {
        let tests = archive.list(&args.filter.filter(&args.tags)?, &[])?;
        let ids = tests.iter().filter(|t| t.has_packets).map(|t| archive.find(&t.id));
        ids.collect::<Result<_, _>>()?
    } else {
        args.ids.iter().map(|id| archive.find(id)).collect::<Result<_, _>>()?
    };
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| format!("creating the folder {}", folder.display()))?;
    let mut failed = 0;
    let work = Work::counted("writing logs", ids.len() as u64);
    for (k, id) in (0..).zip(ids) {
        work.done(k);
        let path = folder.join(format!("{id}.log"));
        if let Err(e) = write_log(&archive, id, &path) {
            work.without(|| error!("{id}: {}", crate::exit::explain(&e)));
            failed += 1;
            continue;
        }
        work.print(&format!("{}\n", path.display()))?;
    }
    Ok(if failed == 0 { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}

fn write_log(archive: &Archive, id: TestId, path: &Path) -> Result<()> {
    if File::open(path).is_ok() {
        bail!("will not write over {}", path.display());
    }
    let mut log = archive.log(id)?;
    file::write(path, |out| io::copy(&mut log, out).map(drop))?;
    Ok(())
}

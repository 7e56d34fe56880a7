//! `jitlat analyze --dataset DIR`: the packets of many tests, analysed again on all processors, figures by path and time.

use super::{FilterArgs, show};
use crate::exit::Status;
use anyhow::{Context, Result};
use clap::Args;
use core::str::FromStr;
use jitlat_archive::{Archive, Listed, Period, TestId};
use jitlat_core::figures::{FIGURES, Figure};
use jitlat_core::pool::{self, Pool};
use jitlat_core::{Analyzer, Options, quantity};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tracing::{error, warn};

/// Many tests of an archive.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Dataset")]
pub struct DatasetArgs {
    /// Analyse the packets of an archive again, in place of logs: figures of all packets of each group
    #[arg(long, value_name = "DIR", conflicts_with_all = ["logs", "merge", "state"])]
    pub dataset: Option<PathBuf>,
    /// What makes a group: path, day, hour, month, year, or several of them
    #[arg(long, value_name = "KEYS", value_delimiter = ',', default_value = "path", requires = "dataset")]
    by: Vec<GroupKey>,
    /// Processors to use (default: all)
    #[arg(long, value_name = "N", requires = "dataset")]
    jobs: Option<NonZero<usize>>,
    /// Only tests with this tag, key=value; may be repeated
    #[arg(long = "where", value_name = "K=V", value_parser = quantity::tag, requires = "dataset")]
    tags: Vec<(String, String)>,
    #[command(flatten)]
    filter: FilterArgs,
}

/// What tests of a group agree in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupKey {
    Path,
    Time(Period),
}

impl FromStr for GroupKey {
    type Err = jitlat_archive::Error;

    fn from_str(text: &str) -> Result<GroupKey, jitlat_archive::Error> {
        if text == "path" { Ok(GroupKey::Path) } else { text.parse().map(GroupKey::Time) }
    }
}

impl GroupKey {
    fn of(self, test: &Listed) -> String {
        match self {
            GroupKey::Path => format!("{} > {} {} {}", test.src, test.dst, test.protocol, test.direction),
            GroupKey::Time(Period::All) => "all".to_owned(),
            GroupKey::Time(Period::Test) => test.id.clone(),
            GroupKey::Time(period) => show::time(test.started_ns, period),
        }
    }
}

type Groups = BTreeMap<Vec<String>, Pool>;

/// Analyses the packets of all tests that were asked for, and prints a line for each group.
pub fn run(root: &Path, args: &DatasetArgs, options: &Options) -> Result<Status> {
    let tests = Archive::open(root)?.list(&args.filter.filter(&args.tags), &[])?;
    let without = tests.iter().filter(|t| !t.has_packets).count();
    if without > 0 {
        warn!("the packets of {without} tests were pruned: they are left out");
    }
    let tests: Vec<Listed> = tests.into_iter().filter(|t| t.has_packets).collect();
    let jobs = args.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let all: Mutex<Groups> = Mutex::default();
    let work = || -> Result<()> {
        let archive = Archive::open(root)?;
        // Its own groups first, so that nobody waits for anybody: a pool takes some hundred kilobytes.
        let mut mine = Groups::new();
        while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
            let key: Vec<String> = args.by.iter().map(|key| key.of(test)).collect();
            match pool_of(&archive, test, options) {
                Ok(pool) => mine.entry(key).or_default().merge(&pool),
                Err(e) => {
                    error!("{}: left out: {}", test.id, crate::exit::explain(&e));
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        let mut all = all.lock().ok().context("another thread failed")?;
        mine.iter().for_each(|(key, pool)| all.entry(key.clone()).or_default().merge(pool));
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.min(tests.len().max(1))).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|w| w.join().ok().context("a thread failed")?)
    })?;
    let groups = all.into_inner().ok().context("a thread failed")?;
    let figures: Vec<&Figure> =
        FIGURES.iter().filter(|f| pool::has(f) && (f.headline || f.key == "sent")).collect();
    show::groups(&groups, &figures)?;
    let whole = failed.load(Ordering::Relaxed) == 0 && !groups.is_empty();
    Ok(if whole { Status::Measured } else { Status::NotMeasured })
}

/// One test, from its packets.
fn pool_of(archive: &Archive, test: &Listed, options: &Options) -> Result<Pool> {
    let id: TestId = archive.find(&test.id)?;
    let session = archive.session(id)?;
    let mut packets = archive.packets(id)?;
    let mut analyzer = Analyzer::new(&session, options);
    while packets.next(|record| analyzer.push(record))? {}
    let (summary, samples) = analyzer.finish_with_samples(&session);
    Ok(Pool::of(&summary, &samples))
}

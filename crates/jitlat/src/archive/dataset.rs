//! `jitlat analyze --dataset DIR`: the packets of many tests, analysed again on all processors, figures by path and time.

use super::{FilterArgs, show};
use crate::exit::Status;
use anyhow::Result;
use clap::Args;
use core::str::FromStr;
use jitlat_archive::{Archive, Listed, Period, TestId, analyse};
use jitlat_core::scalars::{SCALARS, Scalar};
use jitlat_core::{Options, pool, quantity};
use std::num::NonZero;
use std::path::{Path, PathBuf};
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

/// Analyses the packets of all tests that were asked for, and prints a line for each group.
pub fn run(root: &Path, args: &DatasetArgs, options: &Options) -> Result<Status> {
    let tests = Archive::open(root)?.list(&args.filter.filter(&args.tags), &[])?;
    let without = tests.iter().filter(|t| !t.has_packets).count();
    if without > 0 {
        warn!("the packets of {without} tests were pruned: they are left out");
    }
    let group = |test: &Listed| -> Vec<String> { args.by.iter().map(|key| key.of(test)).collect() };
    let tests: Vec<(TestId, Vec<String>)> = tests
        .iter()
        .filter(|t| t.has_packets)
        .map(|t| Ok((t.test_id()?, group(t))))
        .collect::<Result<_>>()?;
    let jobs = args.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
    let found = analyse(root, &tests, jobs, options)?;
    let failed = found.failed.len();
    for (id, e) in found.failed {
        error!("{id}: left out: {}", crate::exit::explain(&e.into()));
    }
    let figures: Vec<&Scalar> =
        SCALARS.iter().filter(|f| pool::has(f) && (f.headline || f.key == "sent")).collect();
    show::groups(&found.groups, &figures)?;
    let whole = failed == 0 && !found.groups.is_empty();
    Ok(if whole { Status::Measured } else { Status::NotMeasured })
}

//! `jitlat analyze --dataset DIR`: the packets of many tests, analysed again on all processors, figures by path and time.

use super::{FilterArgs, show};
use crate::exit::ExitStatus;
use crate::options::live::LiveArgs;
use crate::options::report::ReportArgs;
use crate::output::write_file;
use anyhow::{Context, Result, bail};
use clap::Args;
use core::str::FromStr;
use jitlat_archive::{Archive, ListedTest, PoolPeriod, TestId, analyse};
use jitlat_core::pool::Pool;
use jitlat_core::scalars::{ExactNumber, SCALARS, Scalar, ScalarCondition};
use jitlat_core::{pool, quantity};
use serde::Serialize;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use tracing::{error, warn};

/// Many tests of an archive.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Dataset")]
pub struct DatasetArgs {
    /// Analyse the packets of an archive again instead of logs
    ///
    /// Figures of all packets of each group.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["logs", "merge", "state"])]
    pub dataset: Option<PathBuf>,
    /// Groups: path, day, hour, month, year, or several of them
    #[arg(long, value_name = "KEYS", value_delimiter = ',', default_value = "path", requires = "dataset")]
    by: Vec<GroupKey>,
    /// Number of processors to use (default: all)
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
    Time(PoolPeriod),
}

impl FromStr for GroupKey {
    type Err = jitlat_archive::ArchiveError;

    fn from_str(text: &str) -> Result<GroupKey, jitlat_archive::ArchiveError> {
        if text == "path" { Ok(GroupKey::Path) } else { text.parse().map(GroupKey::Time) }
    }
}

impl GroupKey {
    fn name(self) -> &'static str {
        match self {
            GroupKey::Path => "path",
            GroupKey::Time(by) => {
                PoolPeriod::NAMES.iter().find(|(_, period)| *period == by).map_or("", |(name, _)| name)
            }
        }
    }

    fn of(self, test: &ListedTest) -> String {
        match self {
            GroupKey::Path => format!("{} > {} {} {}", test.src, test.dst, test.protocol, test.direction),
            GroupKey::Time(PoolPeriod::All) => "all".to_owned(),
            GroupKey::Time(PoolPeriod::Test) => test.id.clone(),
            GroupKey::Time(period) => show::time(test.started_ns, period),
        }
    }
}

/// Analyses the packets of all tests that were asked for, and prints a line for each group. Of `report` the JSON and the
/// thresholds are of groups; all that is of one test is refused.
pub fn run(root: &Path, args: &DatasetArgs, report: &ReportArgs, live: LiveArgs) -> Result<ExitStatus> {
    check(report, live)?;
    let tests = Archive::open(root)?.list(&args.filter.filter(&args.tags), &[])?;
    let without = tests.iter().filter(|t| !t.has_packets).count();
    if without > 0 {
        warn!("the packets of {without} tests were pruned: they are left out");
    }
    let group = |test: &ListedTest| -> Vec<String> { args.by.iter().map(|key| key.of(test)).collect() };
    let tests: Vec<(TestId, Vec<String>)> = tests
        .iter()
        .filter(|t| t.has_packets)
        .map(|t| Ok((t.test_id()?, group(t))))
        .collect::<Result<_>>()?;
    let jobs = args.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
    let found = analyse(root, &tests, jobs, &report.options())?;
    let failed = found.failed.len();
    for (id, e) in found.failed {
        error!("{id}: left out: {}", crate::exit::explain(&e.into()));
    }
    if !report.outputs.is_silent() {
        let shown = |f: &&Scalar| pool::has(f) && (f.headline || f.key == "sent");
        show::groups(&found.groups, &SCALARS.iter().filter(shown).collect::<Vec<_>>())?;
    }
    if let Some(path) = report.outputs.place("json") {
        let document = DatasetDocument::new(&args.by, &found.groups, failed);
        let text = serde_json::to_string_pretty(&document)? + "\n";
        write_file(path, |out| out.write_all(text.as_bytes())).context("--json")?;
    }
    let violations: Vec<String> = report.fail_if.iter().flat_map(|c| violations(c, &found.groups)).collect();
    violations.iter().for_each(|violation| error!("failed: {violation}"));
    Ok(match () {
        () if failed > 0 || found.groups.is_empty() => ExitStatus::NotMeasured,
        () if !violations.is_empty() => ExitStatus::ThresholdViolated,
        () => ExitStatus::Measured,
    })
}

/// Refuses, before anything is read, what groups of tests do not have.
fn check(report: &ReportArgs, live: LiveArgs) -> Result<()> {
    let output = report.outputs.other_than("json").map(|output| (true, output.name));
    let others = [
        (report.corrected, "corrected"),
        (report.plot_corrected, "plot-corrected"),
        (report.verbose, "verbose"),
        (report.text_plots, "text-plots"),
        (report.quiet, "quiet"),
        (live.live, "live"),
    ];
    if let Some((_, name)) = output.into_iter().chain(others).find(|(is_given, _)| *is_given) {
        bail!(
            "--{name} is of the report of one test, and --dataset has figures of groups of tests: --json FILE writes them"
        );
    }
    for condition in &report.fail_if {
        let selector = condition.selector();
        if selector.way.is_some() || !pool::has(selector.scalar) {
            bail!(
                "--fail-if {selector}: a group of tests has no such figure; `jitlat archive ls` shows those of each test"
            );
        }
    }
    report.outputs.check(1, &[])
}

/// The groups that violate `condition`, in words.
fn violations(condition: &ScalarCondition, groups: &BTreeMap<Vec<String>, Pool>) -> Vec<String> {
    let figure = condition.selector().scalar;
    let violated = |(group, pool): (&Vec<String>, &Pool)| {
        let violation = condition.violated_by(ExactNumber::Real(pool.scalar(figure)?))?;
        Some(format!("{}: {violation}", group.join(", ")))
    };
    groups.iter().filter_map(violated).collect()
}

/// What `analyze --dataset --json` writes.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DatasetDocument {
    /// What the tests of a group agree in, as `--by` names it.
    by: Vec<String>,
    /// In the order of their names.
    groups: Vec<GroupDocument>,
    /// Tests that could not be read, which are in no group.
    failed: usize,
}

/// All packets of the tests of a group.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GroupDocument {
    /// What its tests agree in, in the order of `by`.
    group: Vec<String>,
    /// Number of its tests.
    tests: u64,
    /// Figures of all their packets by key, in ns or as a ratio; null where one is undefined.
    figures: BTreeMap<&'static str, Option<f64>>,
}

impl DatasetDocument {
    fn new(by: &[GroupKey], groups: &BTreeMap<Vec<String>, Pool>, failed: usize) -> DatasetDocument {
        let figures =
            |pool: &Pool| SCALARS.iter().filter(|f| pool::has(f)).map(|f| (f.key, pool.scalar(f))).collect();
        let group = |(key, pool): (&Vec<String>, &Pool)| GroupDocument {
            group: key.clone(),
            tests: pool.tests,
            figures: figures(pool),
        };
        DatasetDocument {
            by: by.iter().map(|key| key.name().to_owned()).collect(),
            groups: groups.iter().map(group).collect(),
            failed,
        }
    }
}

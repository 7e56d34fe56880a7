//! `jitlat analyze --dataset DIR`: analyses the packets of many tests again on all processors, with figures by path
//! and time.

use super::select::FilterArgs;
use crate::exit::ExitStatus;
use crate::options::condition;
use crate::options::live::LiveArgs;
use crate::options::report::ReportArgs;
use anyhow::{Context, Result, bail};
use clap::Args;
use jitlat_archive::show::groups::{self, DatasetDocument};
use jitlat_archive::{Archive, GroupKey, ListedTest, TestId, analyse};
use jitlat_core::scalars::{SCALARS, Scalar};
use jitlat_core::{Options, pool, quantity};
use jitlat_output::terminal::work::Work;
use jitlat_output::{terminal, write_file};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use tracing::{error, warn};

/// Arguments for many tests of an archive.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Dataset")]
pub struct DatasetArgs {
    /// Analyse the packets of an archive again instead of logs
    ///
    /// Each group gets figures of all its packets.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["logs", "merge", "state"])]
    pub dataset: Option<PathBuf>,
    /// Keys to group by: path, day, hour, month, year, or several of them
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

/// Analyses the packets of all selected tests, and prints a line for each group. JSON, CSV and thresholds of
/// `report` apply to groups; options for single tests are refused.
pub fn run(root: &Path, args: &DatasetArgs, report: &ReportArgs, live: LiveArgs) -> Result<ExitStatus> {
    check(report, live)?;
    let tests = Archive::open(root)?.list(&args.filter.filter(&args.tags)?, &[])?;
    let without = tests.iter().filter(|t| !t.has_packets).count();
    if without > 0 {
        warn!("the packets of {without} tests were pruned: they are left out");
    }
    let zone = args.filter.zone();
    let group = |test: &ListedTest| -> Vec<String> { args.by.iter().map(|key| key.of(test, zone)).collect() };
    let tests: Vec<(TestId, Vec<String>)> = tests
        .iter()
        .filter(|t| t.has_packets)
        .map(|t| Ok((t.test_id()?, group(t))))
        .collect::<Result<_>>()?;
    let jobs = args.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
    // A group has neither a verdict nor intervals, which JSON of a single test has and which take most of the time.
    let options = Options {
        bootstrap: None,
        comparable: false,
        gilbert_elliott: false,
        interval: None,
        judge: None,
        ..report.analysis.options()
    };
    let work = Work::of(&format!("analysing the packets of {} tests", tests.len()));
    let found = analyse(root, &tests, jobs, &options)?;
    drop(work);
    let failed = found.failed.len();
    for (id, e) in found.failed {
        error!("{id}: left out: {}", crate::exit::explain(&e.into()));
    }
    if !report.outputs.is_silent() {
        let shown = |f: &&Scalar| pool::has(f) && (f.headline || f.key == "sent");
        terminal::print(&groups::text(&found.groups, &SCALARS.iter().filter(shown).collect::<Vec<_>>()))?;
    }
    if let Some(path) = report.outputs.place("json") {
        let document = DatasetDocument::new(&args.by, &found.groups, failed);
        let text = serde_json::to_string_pretty(&document)? + "\n";
        write_file(path, |out| out.write_all(text.as_bytes())).context("--json")?;
    }
    if let Some(path) = report.outputs.place("csv") {
        let text = groups::csv(&args.by, &found.groups);
        write_file(path, |out| out.write_all(text.as_bytes())).context("--csv")?;
    }
    let conditions = condition::figures(&report.fail_if);
    let violations: Vec<String> =
        conditions.iter().flat_map(|c| groups::violations(c, &found.groups)).collect();
    violations.iter().for_each(|violation| error!("failed: {violation}"));
    Ok(match () {
        () if failed > 0 || found.groups.is_empty() => ExitStatus::NotMeasured,
        () if !violations.is_empty() => ExitStatus::ThresholdViolated,
        () => ExitStatus::Measured,
    })
}

/// Refuses options that do not apply to groups of tests, before anything is read.
fn check(report: &ReportArgs, live: LiveArgs) -> Result<()> {
    let output = report.outputs.other_than(&["json", "csv"]).map(|output| (true, output.name));
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
            "--{name} applies to a single test, but --dataset writes figures of groups of tests: use --json FILE or --csv FILE"
        );
    }
    if let Some(condition) = condition::on_load(&report.fail_if).next() {
        bail!(
            "--fail-if {condition}: groups of tests have no effect of a load: use `jitlat analyze LOG.idle LOG.loaded`"
        );
    }
    for condition in condition::figures(&report.fail_if) {
        let Some(selector) = condition.selector() else {
            bail!(
                "--fail-if {condition}: groups of tests have neither a grade nor a score, single tests do: `jitlat analyze LOG`"
            );
        };
        if selector.direction.is_some() || !pool::has(selector.scalar) {
            bail!(
                "--fail-if {selector}: groups of tests do not have this figure; `jitlat archive ls` shows it for single tests"
            );
        }
    }
    Ok(report.outputs.check(1, &[])?)
}

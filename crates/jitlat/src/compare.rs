//! `jitlat compare A B…`: compares saved tests, with a verdict that is not based on p-values.

use crate::exit::ExitStatus;
use crate::options::outputs::Outputs;
use crate::options::report::LengthArgs;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use jitlat_core::sweep::ConfidenceLevel;
use jitlat_output::along::CurveReport;
use jitlat_output::attenuation::SegmentsReport;
use jitlat_output::comparison::GridReport;
use jitlat_output::joined::JoinedSweeps;
use jitlat_output::runs;
use jitlat_output::sweep::SweepReport;
use jitlat_output::terminal;
use jitlat_output::{ReportParts, screen};
use jitlat_report::text::screen::Screen;
use jitlat_report::text::{TextOptions, comparison};
use jitlat_verdict::compare::{
    Basis, ComparisonGrid, ComparisonOutcome, ComparisonSettings, FailCondition, LabelledRun, LossMargin,
    Margins, RunKey, Statistic, TimeMargin,
};
use std::path::PathBuf;
use tracing::error;

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Within each row every column is compared with the first: jitter, delay if the clocks are \
                  known, and loss. \"Worse\" and \"better\" need an interval of the difference that excludes 0, \
                  \"same\" one within the margins; otherwise the largest possible difference is printed.\nExit \
                  status: 0 compared; 1 a --fail-if condition holds; 2 nothing could be compared."
)]
pub struct CompareArgs {
    /// Logs, summaries written with --json, or sweeps; LABEL=FILE sets a label
    ///
    /// Tests of any instrument; - is standard input. Sweeps with the same conditions are joined, and the sweep becomes a
    /// further condition: for example, a curve for each link if each sweep measured one link.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Columns of the table (default: one per file)
    ///
    /// name, tag:KEY, dscp, path, direction, transport, payload or period; runs with the same value are combined.
    #[arg(long, value_name = "KEY")]
    pub group_by: Option<RunKey>,
    /// Rows of the table, by the same keys; each is compared separately
    #[arg(long, value_name = "KEY")]
    pub rows: Option<RunKey>,
    /// Column to compare the others with (default: the first)
    #[arg(long, value_name = "COLUMN")]
    pub baseline: Option<String>,
    /// Show means over a numeric key (tag:distance) instead of comparing
    ///
    /// Runs with the same number are combined: one curve, or one for each --group-by.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["rows", "baseline", "basis", "statistic", "margin", "loss_margin", "seed", "fail_if"])]
    pub along: Option<RunKey>,
    /// Compose and subtract segments of a path: logs A-B, B-C and A-C
    ///
    /// The segments A-B and B-C are composed and compared with the whole path, and A-B is subtracted from the whole path. The log
    /// of B-C may be left out.
    #[arg(long, conflicts_with_all = ["group_by", "rows", "baseline", "along", "basis", "statistic", "margin", "loss_margin", "seed", "fail_if"])]
    pub attenuation: bool,
    /// Confidence of the intervals of --along, in percent: 90, 95 or 99
    #[arg(long, value_name = "P", default_value = "95", requires = "along")]
    pub confidence: ConfidenceLevel,
    /// Quantity to compare: pdv (jitter), ipdv, or delay
    ///
    /// ipdv is the absolute variation between consecutive packets; delay is one-way delay, corrected, or round trips.
    /// Only delay needs clocks.
    #[arg(long, value_name = "WHAT", default_value = "pdv")]
    pub basis: By,
    /// Statistic for the verdict: median, or p99
    #[arg(long, value_name = "STATISTIC", default_value = "median")]
    pub statistic: StatisticArg,
    /// Largest difference of a time that counts as the same: 10% or 1ms
    ///
    /// A share of the first column's figure, or a time. Default: 10% (the narrow limits of bioequivalence), for delay at
    /// most 1ms (a tenth of the smallest delay budget of interactive traffic).
    #[arg(long, value_name = "SIZE")]
    pub margin: Option<TimeMargin>,
    /// Largest difference of loss that counts as the same, in percentage points
    ///
    /// The default changes the mean opinion score of speech by less than 0.05 (ITU-T G.107).
    #[arg(long, value_name = "P%", default_value = "0.5%")]
    pub loss_margin: LossMargin,
    /// Seed that --json repeats; the intervals do not depend on it
    #[arg(long, value_name = "N", default_value_t = 1, hide = true)]
    pub seed: u64,
    /// Exit with status 1 on worse, different, loss>1%, jitter-p99>+20% …
    ///
    /// worse: jitter, delay or loss is worse than chance explains. The condition is a verdict, a figure of any run (loss>1%, jitter-p99>30ms, mos<3.8), or its change from the
    /// first column (jitter-p99>+5ms, jitter-p99>+20%, loss>+0.5%, mos<-0.3). May be repeated.
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<FailCondition>,
    #[command(flatten)]
    pub outputs: Outputs<{ ReportParts::ROWS.and(ReportParts::FIGURES).and(ReportParts::PAGE).0 }>,
    #[command(flatten)]
    pub length: LengthArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    Pdv,
    Ipdv,
    Delay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatisticArg {
    Median,
    P99,
}

/// Reads the runs, compares them and prints the result.
pub fn run(args: &CompareArgs) -> Result<ExitStatus> {
    args.outputs.check(0, &[])?;
    if args.attenuation {
        return show_attenuation(args);
    }
    if let Some(joined) = JoinedSweeps::read(&args.files)? {
        return show_sweeps(args, &joined);
    }
    let runs = runs::read(&args.files)?;
    if let Some(along) = &args.along {
        return show_along(args, &runs, along);
    }
    let columns = args.group_by.clone().unwrap_or(RunKey::Label);
    let rows = args.rows.clone().or_else(|| runs::rows_of_themselves(&runs, &columns));
    let question = ComparisonSettings {
        basis: match args.basis {
            By::Pdv => Basis::Pdv,
            By::Ipdv => Basis::Ipdv,
            By::Delay => Basis::Delay,
        },
        statistic: match args.statistic {
            StatisticArg::Median => Statistic::Median,
            StatisticArg::P99 => Statistic::P99,
        },
        varied: None,
        seed: args.seed,
        margins: Margins { time: args.margin, loss: args.loss_margin },
    };
    if let Some(baseline) = args.baseline.as_ref().filter(|b| !runs.iter().any(|r| columns.of(r) == **b)) {
        let mut names: Vec<String> = runs.iter().map(|r| columns.of(r)).collect();
        names.dedup();
        bail!("--baseline: unknown column {baseline}: choose one of {}", names.join(", "));
    }
    let grid = ComparisonGrid::new(&runs, &columns, rows.as_ref(), args.baseline.as_deref(), &question);
    if grid.comparisons().next().is_none() {
        nothing_to_compare(&runs, &columns, rows.as_ref())?;
    }
    let options = TextOptions { style: terminal::style(), ..TextOptions::default() };
    let whole = args.outputs.write(&GridReport(&grid), || {
        let one_screen = || screen::finished(Screen::of_comparison(&grid), &args.outputs);
        args.length.choose(&grid.answer, || comparison(&grid, &options), one_screen)
    });
    let status = status(&grid, &runs, args);
    Ok(if whole { status } else { ExitStatus::NotMeasured })
}

/// Shows the runs over the numeric key `along`.
fn show_along(args: &CompareArgs, runs: &[LabelledRun], along: &RunKey) -> Result<ExitStatus> {
    if let Some((output, _)) = args.outputs.needing(ReportParts::PAGE) {
        bail!("{} applies to comparisons; with --along use --plots, --csv or --json", output.spelling());
    }
    // Give each direction of a test its own row, because the directions are different paths.
    let itself = runs::rows_of_themselves(runs, &RunKey::Label);
    let group = args.group_by.as_ref().or(itself.as_ref());
    let report = CurveReport::new(runs, along, group, args.confidence)?;
    let whole = args.outputs.write(&report, || {
        let one_screen = || screen::finished(report.screen(), &args.outputs);
        args.length.choose(report.answer(), || report.page(), one_screen)
    });
    Ok(if whole { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}

/// Shows joined sweeps like one sweep.
fn show_sweeps(args: &CompareArgs, joined: &JoinedSweeps) -> Result<ExitStatus> {
    let for_tests = [
        (args.group_by.is_some(), "--group-by"),
        (args.rows.is_some(), "--rows"),
        (args.baseline.is_some(), "--baseline"),
        (args.along.is_some(), "--along"),
        (args.basis != By::Pdv, "--basis"),
        (args.statistic != StatisticArg::Median, "--statistic"),
        (args.margin.is_some(), "--margin"),
        (!args.fail_if.is_empty(), "--fail-if"),
    ];
    if let Some((_, option)) = for_tests.iter().find(|(given, _)| *given) {
        bail!(
            "{option} is for tests, and these files are sweeps, which are joined by their conditions: leave it out"
        );
    }
    let report = SweepReport::of_joined(joined);
    let whole = args.outputs.write(&report, || {
        let one_screen = || screen::finished(report.screen(), &args.outputs);
        args.length.choose(report.answer(), || report.table_page(), one_screen)
    });
    Ok(if whole && !report.is_empty() { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}

/// Shows the attenuation of segments and of the path that they form.
fn show_attenuation(args: &CompareArgs) -> Result<ExitStatus> {
    let parts = [ReportParts::ROWS, ReportParts::FIGURES, ReportParts::PAGE];
    if let Some((output, _)) = parts.into_iter().find_map(|part| args.outputs.needing(part)) {
        bail!("{} is for comparisons: with --attenuation use --json", output.spelling());
    }
    let report = SegmentsReport::read(&args.files)?;
    let whole = args.outputs.write(&report, || report.text());
    Ok(if whole { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}

/// Returns the error for runs of which no columns can be compared.
fn nothing_to_compare(runs: &[LabelledRun], columns: &RunKey, rows: Option<&RunKey>) -> Result<()> {
    if let [only] = runs {
        bail!("there is only one run ({}): give at least two to compare", only.source);
    }
    let first = runs.first().map(|run| columns.of(run)).unwrap_or_default();
    if runs.iter().all(|run| columns.of(run) == first) {
        bail!("all {} runs are in one group, {columns} {first}: nothing to compare it with", runs.len());
    }
    let rows = rows.map_or_else(String::new, |key| format!(" by {key}"));
    bail!("no row{rows} has runs in two columns: nothing to compare");
}

fn status(grid: &ComparisonGrid, runs: &[LabelledRun], args: &CompareArgs) -> ExitStatus {
    let violations: Vec<String> = args.fail_if.iter().flat_map(|c| c.violations(grid, runs)).collect();
    for violation in &violations {
        error!("failed: {violation}");
    }
    let refused = grid.comparisons().filter(|(_, c)| c.outcome == ComparisonOutcome::Refused).count();
    if refused == grid.comparisons().count() {
        error!("nothing could be compared: the runs measure different quantities");
        return ExitStatus::NotMeasured;
    }
    if violations.is_empty() { ExitStatus::Measured } else { ExitStatus::ThresholdViolated }
}

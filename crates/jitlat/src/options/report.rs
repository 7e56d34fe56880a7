//! How a test or a saved log is reported.

use super::analysis::AnalysisArgs;
use clap::Args;
use jitlat_core::analysis::Options;
use jitlat_core::figures::{self, Condition};
use std::path::PathBuf;

/// How figures are computed and shown: for a live test and for a saved log alike.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Report")]
pub struct ReportArgs {
    /// Print latency corrected by the clock estimate
    #[arg(short = 'C', long)]
    pub corrected: bool,
    /// Plot latency corrected by the clock estimate
    #[arg(short = 'L', long)]
    pub plot_corrected: bool,
    /// Write one line per test to FILE; - is standard output
    #[arg(long, value_name = "FILE")]
    pub summary_csv: Option<PathBuf>,
    /// Write the figures as OpenMetrics text to FILE, for Prometheus' textfile collector; - is standard output
    #[arg(long, value_name = "FILE")]
    pub openmetrics: Option<PathBuf>,
    /// Write one JSON line for each window of --interval to FILE; - is standard output
    #[arg(long, value_name = "FILE", requires = "interval")]
    pub intervals: Option<PathBuf>,
    /// Write a report with interactive figures to FILE: one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Draw every figure into DIR, as SVG and PNG
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Write HDR histograms of latency and jitter to FILE, one of each for every window of --interval, or for the
    /// whole test; - is standard output. With -b: FILE.up and FILE.down
    #[arg(long, value_name = "FILE", conflicts_with = "streaming")]
    pub hdr: Option<PathBuf>,
    /// Fail with status 1 where a figure crosses a threshold: loss>1%, jitter-p99>30ms, latency-max>150ms, mos<3.8 …; may be repeated
    #[arg(long, value_name = "CONDITION", long_help = figures_help())]
    pub fail_if: Vec<Condition>,
    /// Draw small plots in characters below the report
    #[arg(long)]
    pub text_plots: bool,
    /// Write one JSON object to FILE; - is standard output, and then nothing else goes there
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write one line per packet to FILE; - is standard output. With -b: FILE.up and FILE.down
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    #[command(flatten)]
    pub analysis: AnalysisArgs,
}

impl ReportArgs {
    /// What to compute.
    pub fn options(&self) -> Options {
        let options = self.analysis.options();
        let seed = options.bootstrap.unwrap_or(1);
        Options { comparable: self.json.is_some().then_some(seed), ..options }
    }

    /// Whether something is to be made of the single packets once they are analysed.
    pub fn keeps_packets(&self) -> bool {
        self.hdr.is_some() || self.text_plots || self.html.is_some() || self.plots.is_some()
    }
}

/// What `--help` says of `--fail-if`: every figure there is.
fn figures_help() -> String {
    format!(
        "Fail with status 1 where a figure crosses a threshold; may be repeated. A threshold is written in the figure's \
         unit: loss>1%, pdv-p99>30ms, latency-max>150ms, mos<3.8. Of one way of a round-trip test: up-loss>1%, \
         down-pdv-p99>30ms. Figures:\n{}",
        figures::help()
    )
}

//! `jitlat export LOG --as NAME [FILE]`: writes a saved test in the format of another program.

use crate::analyze::{self, SeveralLogs};
use crate::exit::ExitStatus;
use crate::options::analysis::AnalysisArgs;
use crate::options::outputs::Exports;
use crate::options::report::ReportArgs;
use anyhow::{Result, bail};
use clap::Args;
use jitlat_output::AnalysedStream;
use jitlat_output::ReportStreams;
use std::path::PathBuf;

/// Write a log in a format that other programs read
#[derive(Clone, Debug, Args)]
#[command(after_help = "Every test writes the same formats: jitlat HOST --as hdr=FILE.")]
pub struct ExportArgs {
    /// Log, state saved by `analyze --state`, or test of an archive (DIR/ID)
    #[arg(value_name = "LOG")]
    pub log: PathBuf,
    /// File to write (default: standard output)
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub exports: Exports,
    #[command(flatten)]
    pub analysis: AnalysisArgs,
}

/// Analyses the log and writes the formats.
pub fn run(args: &ExportArgs) -> Result<ExitStatus> {
    let outputs = match (&args.file, args.exports.named()) {
        (None, _) => args.exports.clone(),
        (Some(file), [_]) => args.exports.clone().to(file),
        (Some(_), several) => {
            bail!(
                "FILE can hold one format, but {} were requested: write --as NAME=FILE for each",
                several.len()
            )
        }
    };
    let report = ReportArgs::of_files(outputs.into(), args.analysis.clone());
    let runs = analyze::analyse(std::slice::from_ref(&args.log), &SeveralLogs::default(), &report)?;
    let interval = args.analysis.interval;
    let failures =
        report.outputs.write_files(&ReportStreams { runs: &runs, extra: None, interval, owamp: &[] });
    let whole = jitlat_output::log_failures(&failures) && !runs.iter().all(AnalysedStream::is_unknown);
    Ok(if whole { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}

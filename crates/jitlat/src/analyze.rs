//! `jitlat analyze LOG…` and `jitlat -f LOG`: saved logs through the same analysis as live tests.

use crate::exit::Status;
use crate::label;
use crate::options::report::ReportArgs;
use crate::output::report::{Streams, file_ending};
use crate::output::{Part, Run, text};
use anyhow::{Result, bail};
use jitlat_core::analysis::Analyzer;
use jitlat_report::text::analysing;
use jitlat_store::log::LogReader;
use std::path::{Path, PathBuf};
use tracing::warn;

/// Analyses `logs` and shows the result.
pub fn run(logs: &[PathBuf], args: &ReportArgs) -> Result<Status> {
    let read: Vec<&Path> = logs.iter().map(PathBuf::as_path).collect();
    args.outputs.check(logs.len(), &read)?;
    if let Some((rows, _)) = args.outputs.needing(Part::ROWS)
        && logs.iter().any(|log| log.as_os_str() == "-")
    {
        bail!("--{} reads the log twice, which standard input cannot: give a file", rows.name);
    }
    let mut runs = logs.iter().map(|log| analyze(log, args)).collect::<Result<Vec<Run>>>()?;
    let known: Vec<_> = runs
        .iter()
        .map(|run| {
            let direction = run.session.direction_known.then(|| run.session.spec.direction());
            (run.session.name.as_deref(), run.label.as_str(), direction)
        })
        .collect();
    let labels = label::tell_apart(&known);
    runs.iter_mut().zip(labels).for_each(|(run, label)| run.label = label);
    let report = Streams { runs: &runs, extra: None, interval: args.analysis.interval };
    if !args.outputs.write(&report, || text::page(&runs, args.page())) {
        return Ok(Status::NotMeasured);
    }
    Ok(text::status(&runs, &args.fail_if))
}

/// One pass over one log.
pub fn analyze(log: &Path, args: &ReportArgs) -> Result<Run> {
    let mut reader = LogReader::open(log)?;
    let mut analyzer = Analyzer::new(reader.session(), &args.options());
    let mut failure = None;
    reader.records(&mut failure).for_each(|record| analyzer.push(&record));
    if let Some(e) = failure {
        if reader.reading().rows == 0 {
            return Err(e.into());
        }
        warn!("{e}; the {} rows before it are analysed", reader.reading().rows);
    }
    let session = reader.session();
    let (mut summary, samples) = analyzer.finish_with_samples(session);
    reader.reading().add_to(&mut summary);
    let samples = if args.keeps_packets() { samples } else { Default::default() };
    Ok(Run {
        summary,
        session: session.clone(),
        samples,
        log: Some(log.to_owned()),
        records: Vec::new(),
        tcp: Vec::new(),
        heading: analysing(session) + "\n",
        label: log.display().to_string(),
        corrected: args.plot_corrected,
        file_ending: file_ending(session.spec.direction()),
    })
}

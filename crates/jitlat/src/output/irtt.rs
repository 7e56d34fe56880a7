//! `--json-irtt`: a two-way test for programs that read irtt's results.

use super::csv::records;
use super::format::{Output, Part, Place, not_written, write_file};
use anyhow::{Context, Result, bail};
use jitlat_store::irtt;
use std::path::Path;

pub static OUTPUT: Output = Output {
    needs: Part::STREAMS.and(Part::ROWS),
    conflicts: Some("streaming"),
    two_way: true,
    ..Output::new(
        "json-irtt",
        "Write a two-way test to FILE as irtt's client writes its own, for flent and others that read it",
        Place::File,
        |report, path| write(report.streams(), path),
    )
};

fn write(runs: &[super::AnalysedStream], path: &Path) -> Result<()> {
    let [run] = runs else { bail!("it holds one test: analyse the logs one at a time") };
    if run.session.two_way.is_none() {
        bail!("it is of round trips (jitlat ping), and this is a one-way test");
    }
    if run.summary.two_way.as_ref().is_some_and(|t| t.far_report.is_some()) {
        not_written(path);
        return Ok(());
    }
    let records = records(run).context("reading the packets")?;
    write_file(path, |out| irtt::write(out, &run.session, records.into_iter()))
}

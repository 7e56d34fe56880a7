//! `irtt`: the results of a two-way test in the format of irtt's client, for programs that read this format.

use crate::error::{Context, Result, bail};
use crate::format::{Destination, Output, OwnOption, ReportParts, not_written, write_file};
use flate2::Compression;
use flate2::write::GzEncoder;
use jitlat_store::irtt;
use std::path::Path;

pub static OUTPUT: Output = Output {
    needs: ReportParts::STREAMS.and(ReportParts::ROWS),
    option: OwnOption::Former("json-irtt"),
    needs_packets: true,
    two_way: true,
    ..Output::new(
        "irtt",
        "Write a two-way test in the format of irtt's client; FILE.gz is compressed",
        Destination::File,
        |report, path| write(report.streams(), path),
    )
};

fn write(runs: &[crate::AnalysedStream], path: &Path) -> Result<()> {
    let [run] = runs else { bail!("it can only contain one test: analyse the logs one at a time") };
    if run.session.two_way.is_none() {
        bail!("it needs round trips (jitlat ping), but this is a one-way test");
    }
    if run.summary.two_way.as_ref().is_some_and(|t| t.far_report.is_some()) {
        not_written(path);
        return Ok(());
    }
    let records = run.packets().context("reading the packets")?;
    let is_compressed = path.extension().is_some_and(|ending| ending == "gz");
    write_file(path, |out| match is_compressed {
        true => {
            let mut packed = GzEncoder::new(out, Compression::default());
            irtt::write(&mut packed, &run.session, records.into_iter())?;
            packed.finish().map(drop)
        }
        false => irtt::write(out, &run.session, records.into_iter()),
    })
}

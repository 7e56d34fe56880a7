//! `--csv`: the rows of a report. For streams, one file per stream with its packets; for other reports, the lines of
//! their table.

use crate::error::{Context, Result};
use crate::format::{Destination, Output, OwnOption, ReportParts, write_each, write_file};
use crate::input;
use crate::report::AnalysedStream;
use jitlat_store::csv;
use std::io::{self, Write};

pub static OUTPUT: Output = Output {
    option: OwnOption::Shown,
    needs: ReportParts::ROWS,
    ..Output::new(
        "csv",
        "Write a CSV file: one line per packet, per comparison cell, or per sweep run",
        Destination::FileEach,
        |report, path| match report.table() {
            Some(table) => write_file(path, |out| csv::write_table(out, table)),
            None => write_each(report.streams(), path, write_packets),
        },
    )
};

fn write_packets(run: &AnalysedStream, out: &mut dyn Write) -> io::Result<()> {
    if !run.records.is_empty() || run.summary.counts.received == 0 && run.log.is_none() {
        if run.tcp.is_empty() {
            let mut rows = csv::PacketCsv::new(out, &run.session, &run.summary)?;
            return run.records.iter().try_for_each(|record| rows.write(record));
        }
        let mut rows = csv::PacketCsv::new_tcp(out, &run.session, &run.summary)?;
        return run.records.iter().zip(&run.tcp).try_for_each(|(r, sample)| rows.write_tcp(r, Some(sample)));
    }
    copy_from_log(run, out).map_err(io::Error::other)
}

fn copy_from_log(run: &AnalysedStream, out: &mut dyn Write) -> Result<()> {
    let log = run.log.as_ref().context("there is no log to read the packets from")?;
    let mut reader = input::open(log)?;
    let session = reader.session().clone();
    if !reader.has_tcp() {
        let mut rows = csv::PacketCsv::new(out, &session, &run.summary)?;
        let mut failure = None;
        reader.records(&mut failure).try_for_each(|record| rows.write(&record))?;
        return failure.map_or(Ok(()), |e| Err(e.into()));
    }
    let mut rows = csv::PacketCsv::new_tcp(out, &session, &run.summary)?;
    while let Some(record) = reader.next() {
        rows.write_tcp(&record?, reader.tcp().as_ref())?;
    }
    Ok(())
}

//! `owstats`, `owstats-m`, `owping` and `owp`: a one-way test in the formats of OWAMP's tools (perfSONAR).
//!
//! After a test with an OWAMP server the records are those of the sessions' receivers; other tests are converted.

use crate::error::{Context, Result, bail};
use crate::format::{Destination, Output, OutputPlace, OwnOption, ReportParts, write_each, write_file};
use crate::input;
use crate::report::{AnalysedStream, Report};
use jitlat_proto::owamp::{OwpingOptions, SessionData, Statistics, counts_hops};
use std::io::{self, Write};

const FORMAT: Output = Output {
    needs: ReportParts::STREAMS.and(ReportParts::ROWS),
    one_way: true,
    needs_packets: true,
    ..Output::new("", "", Destination::File, |_, _| Ok(()))
};

pub static STATISTICS: Output = Output {
    name: "owstats",
    help: "Write a one-way test as `owping -v` and `owstats -v` print it",
    option: OwnOption::Former("owamp-stats"),
    write: |report, place| write(report, place, Statistics::text),
    ..FORMAT
};

pub static MACHINE: Output = Output {
    name: "owstats-m",
    help: "Write a one-way test as `owping -M` and `owstats -M` print it",
    write: |report, place| write(report, place, Statistics::machine),
    ..FORMAT
};

pub static RAW: Output = Output {
    name: "owping",
    help: "Write one line per packet of a one-way test, as `owping -R` prints it",
    option: OwnOption::Former("owamp-raw"),
    write: |report, place| write(report, place, Statistics::raw),
    ..FORMAT
};

pub static FILE: Output = Output {
    name: "owp",
    help: "Write a one-way test as a data file for owstats (.owp)",
    place: Destination::FileEach,
    write: write_files,
    ..FORMAT
};

/// Writes the text of every stream.
fn write(report: &dyn Report, place: &OutputPlace<'_>, text: fn(&Statistics) -> String) -> Result<()> {
    let converted: Vec<Statistics>;
    let sessions = match report.owamp() {
        [] => {
            converted = report.streams().iter().map(converted_stream).collect::<Result<_>>()?;
            converted.as_slice()
        }
        measured => measured,
    };
    write_file(place, |out| sessions.iter().try_for_each(|session| out.write_all(text(session).as_bytes())))
}

/// Writes one file per stream.
fn write_files(report: &dyn Report, place: &OutputPlace<'_>) -> Result<()> {
    let write = |data: &SessionData, out: &mut dyn Write| out.write_all(&data.to_file());
    match (report.owamp(), report.streams()) {
        ([session], [_]) => write_file(place, |out| write(&session.data, out)),
        (_, streams) => write_each(streams, place, |stream, out| {
            // Sessions and streams have the same order, but a session may have no result.
            let own = |s: &&Statistics| s.data.session.direction() == Some(stream.session.spec.direction());
            match report.owamp().iter().find(own) {
                Some(session) => write(&session.data, out),
                None => write(&converted_stream(stream).map_err(io::Error::other)?.data, out),
            }
        }),
    }
}

fn converted_stream(stream: &AnalysedStream) -> Result<Statistics> {
    if stream.session.two_way.is_some() {
        bail!("it needs a one-way test (jitlat HOST), but this is a test of round trips: --as twping");
    }
    let mut style = OwpingOptions::default();
    let data = match stream.log.as_deref().filter(|log| input::is_owamp_file(log)) {
        Some(file) => input::owamp_file(file)?,
        None => {
            let records = stream.packets().context("reading the packets")?;
            style.counts_hops = counts_hops(&stream.session);
            SessionData::of_test(&stream.session, &records).map_err(io::Error::other)?
        }
    };
    Ok(Statistics { data, style })
}

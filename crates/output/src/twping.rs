//! `twping` and `twping-m`: a two-way test in the formats of perfSONAR's `twping`.

use crate::error::{Context, Result, bail};
use crate::format::{Destination, Output, OutputPlace, ReportParts, not_written, write_file};
use crate::report::Report;
use jitlat_proto::amp::printed::OwpingOptions;
use jitlat_proto::twamp::TwpingStatistics;

const FORMAT: Output = Output {
    needs: ReportParts::STREAMS.and(ReportParts::ROWS),
    two_way: true,
    needs_packets: true,
    ..Output::new("", "", Destination::File, |_, _| Ok(()))
};

pub static RAW: Output = Output {
    name: "twping",
    help: "Write one line per packet of a two-way test, as `twping -R` prints it",
    write: |report, place| write(report, place, raw),
    ..FORMAT
};

pub static MACHINE: Output = Output {
    name: "twping-m",
    help: "Write a two-way test as `twping -M` prints it",
    write: |report, place| write(report, place, machine),
    ..FORMAT
};

fn raw(statistics: &TwpingStatistics<'_>) -> String {
    statistics.raw()
}

fn machine(statistics: &TwpingStatistics<'_>) -> String {
    statistics.machine()
}

fn write(
    report: &dyn Report,
    place: &OutputPlace<'_>,
    text: fn(&TwpingStatistics<'_>) -> String,
) -> Result<()> {
    let [run] = report.streams() else {
        bail!("it can only contain one test: analyse the logs one at a time")
    };
    if run.session.two_way.is_none() {
        bail!("it needs round trips (jitlat ping), but this is a one-way test: --as owping");
    }
    if run.summary.two_way.as_ref().is_some_and(|t| t.far_report.is_some()) {
        not_written(place);
        return Ok(());
    }
    let records = run.packets().context("reading the packets")?;
    let Some(statistics) = TwpingStatistics::new(&run.session, &records, OwpingOptions::default()) else {
        bail!(
            "it needs the times of the far host, which this protocol does not report (twamp, stamp and irtt do)"
        );
    };
    write_file(place, |out| out.write_all(text(&statistics).as_bytes()))
}

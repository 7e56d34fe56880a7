//! `hdr`: HDR histograms.

use crate::format::{Destination, Output, OwnOption, ReportParts, write_each};
use crate::pages;

pub static OUTPUT: Output = Output {
    needs: ReportParts::STREAMS,
    option: OwnOption::Former("hdr"),
    needs_packets: true,
    keeps_packets: true,
    lacks: pages::LACKS,
    ..Output::new(
        "hdr",
        "Write HDR histograms of delay and jitter, per --interval or for the whole test",
        Destination::FileEach,
        |report, path| {
            let interval = report.interval();
            write_each(report.streams(), path, |run, out| pages::histograms(out, &run.samples, interval))
        },
    )
};

//! `--hdr`: HDR histograms.

use super::format::{Output, Part, Place, write_each};
use super::pages;

pub static OUTPUT: Output = Output {
    needs: Part::STREAMS,
    conflicts: Some("streaming"),
    keeps_packets: true,
    lacks: pages::LACKS,
    ..Output::new(
        "hdr",
        "Write HDR histograms of latency and jitter to FILE, one of each for every window of --interval, or for the \
         whole test",
        Place::FileEach,
        |report, path| {
            let interval = report.interval();
            write_each(report.streams(), path, |run, out| pages::histograms(out, &run.samples, interval))
        },
    )
};

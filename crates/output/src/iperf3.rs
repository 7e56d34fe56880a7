//! `iperf3`: a one-way test as the JSON of iperf3's client for UDP.

use crate::error::{Context, bail};
use crate::format::{Destination, Output, ReportParts, write_each};
use crate::report::PROGRAM;
use jitlat_core::Span;
use jitlat_store::iperf3::Iperf3Test;
use std::io;

/// Default length of intervals in iperf3.
const USUAL_INTERVAL: Span = Span::seconds(1);

pub static OUTPUT: Output = Output {
    needs: ReportParts::STREAMS.and(ReportParts::ROWS),
    one_way: true,
    needs_packets: true,
    ..Output::new(
        "iperf3",
        "Write a one-way test as `iperf3 -u -c HOST -J` prints it",
        Destination::FileEach,
        |report, place| {
            if report.streams().iter().any(|run| run.session.two_way.is_some()) {
                bail!("it needs a one-way test (jitlat HOST), but this is a test of round trips");
            }
            let interval = report.interval().unwrap_or(USUAL_INTERVAL);
            write_each(report.streams(), place, |run, out| {
                let records = run.packets().context("reading the packets").map_err(io::Error::other)?;
                let session = &run.session;
                let host = session.dst.map_or_else(|| run.label.clone(), |ip| ip.to_string());
                let test = Iperf3Test::new(session, &records, interval, None);
                let document = test.document(&host, session.control_port.unwrap_or(0), PROGRAM);
                serde_json::to_writer_pretty(&mut *out, &document)?;
                out.write_all(b"\n")
            })
        },
    )
};

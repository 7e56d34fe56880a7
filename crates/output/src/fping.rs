//! `fping`: one line per host, as `fping -C N -q` prints it.

use crate::error::{Context, Result, bail};
use crate::format::{Destination, Output, ReportParts, write_file};
use crate::report::AnalysedStream;
use jitlat_store::fping::Replies;

pub static OUTPUT: Output = Output {
    needs: ReportParts::STREAMS.and(ReportParts::ROWS),
    needs_packets: true,
    ..Output::new(
        "fping",
        "Write the round trips of each host on one line, as `fping -C N -q` does",
        Destination::File,
        |report, place| {
            let host = |run: &AnalysedStream| match run.session.dst {
                Some(ip) => ip.to_string(),
                None => run.label.clone(),
            };
            let replies = |run: &AnalysedStream| {
                if run.session.two_way.is_none() {
                    bail!("it needs round trips (jitlat ping), but this is a one-way test");
                }
                Ok((host(run), Replies::of(&run.session, &run.packets().context("reading the packets")?)))
            };
            let lines = report.streams().iter().map(replies).collect::<Result<Vec<_>>>()?;
            let width = lines.iter().map(|(host, _)| host.chars().count()).max().unwrap_or(0);
            write_file(place, |out| {
                lines
                    .iter()
                    .try_for_each(|(host, replies)| out.write_all(replies.line(host, width).as_bytes()))
            })
        },
    )
};

//! `graphite`: the figures of each interval, as lines for Carbon.

use crate::error::Result;
use crate::format::{Destination, Output, ReportParts, not_written, write_file};
use crate::report::AnalysedStream;
use jitlat_core::PacketRecord;
use jitlat_core::record::Moment;
use jitlat_core::time::SECOND;
use jitlat_store::late::SampleHistory;
use jitlat_store::late::graphite::GraphiteInterval;

/// Prefix of the names of the figures.
const PATH: &str = "jitlat";

pub static OUTPUT: Output = Output {
    needs: ReportParts::STREAMS.and(ReportParts::ROWS),
    ..Output::new(
        "graphite",
        "Write lines for Graphite, one set per --interval (default: 1s)",
        Destination::File,
        |report, path| {
            // Carbon stores one value per second.
            let length = report.interval().map_or(SECOND, |length| length.0.max(SECOND));
            let several = report.streams().len() > 1;
            let mut lines = String::new();
            for run in report.streams() {
                let name = if several { format!("{PATH}.{}", run.file_ending) } else { PATH.to_owned() };
                lines += &lines_of(run, &name, length)?;
            }
            if lines.is_empty() {
                not_written(path);
                return Ok(());
            }
            write_file(path, |out| out.write_all(lines.as_bytes()))
        },
    )
};

/// Returns the lines of windows of `length` ns. Windows begin at whole seconds and are labelled with the second in
/// which they end.
fn lines_of(run: &AnalysedStream, name: &str, length: i64) -> Result<String> {
    let (mut history, mut interval) = (SampleHistory::default(), GraphiteInterval::default());
    let mut lines = String::new();
    let mut end: Option<i64> = None;
    for record in run.packets()? {
        let Some(arrived) = arrival(&record) else { continue };
        let due = end.get_or_insert_with(|| arrived.div_euclid(SECOND) * SECOND + length);
        while arrived >= *due {
            lines += &interval.flush(name, due.div_euclid(SECOND)).unwrap_or_default();
            // Advance past a gap in one step, regardless of its length.
            *due += length * ((arrived - *due) / length + 1);
        }
        if let Some(sample) = history.sample(&record) {
            interval.add(&sample);
        }
    }
    if let Some(end) = end {
        lines += &interval.flush(name, end.div_euclid(SECOND)).unwrap_or_default();
    }
    Ok(lines)
}

/// Returns the time at which the packet, or its answer, arrived at the measuring host, in ns since 1970; `None` if it
/// is not known to have arrived.
fn arrival(record: &PacketRecord) -> Option<i64> {
    record.time(Moment::Returned).or_else(|| record.time(Moment::Arrived)).map(|time| time.0)
}

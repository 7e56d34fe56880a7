//! `intervals`: one JSON line per window.

use crate::format::{Destination, Output, OwnOption, ReportParts, not_written, write_file};
use crate::report::AnalysedStream;
use crate::running::is_stream;
use jitlat_store::json;
use std::io::{self, Write};

pub static OUTPUT: Output = Output {
    needs: ReportParts::STREAMS,
    option: OwnOption::Former("intervals"),
    needs_interval: true,
    ..Output::new(
        "intervals",
        "Write one JSON line per window of --interval",
        Destination::File,
        |report, path| {
            if report.streams().iter().all(|run| run.summary.intervals.is_empty()) {
                not_written(path);
                return Ok(());
            }
            write_file(path, |out| {
                report.streams().iter().try_for_each(|run| match is_stream(path) {
                    false => json::write_intervals(out, &run.summary),
                    // Windows that were written during the test are already in the output.
                    true => write_rest(out, run),
                })
            })
        },
    )
};

fn write_rest(out: &mut dyn Write, run: &AnalysedStream) -> io::Result<()> {
    let summary = &run.summary;
    let rest = summary.intervals.iter().filter(|window| !run.shown_windows.contains(&window.start_ns));
    rest.into_iter().try_for_each(|window| json::write_interval(out, window, summary.session.direction))
}

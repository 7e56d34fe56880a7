//! `--intervals`: one JSON line per window.

use super::format::{Output, Part, Place, not_written, write_file};
use jitlat_store::json;

pub static OUTPUT: Output = Output {
    needs: Part::STREAMS,
    requires: Some("interval"),
    ..Output::new(
        "intervals",
        "Write one JSON line for each window of --interval to FILE",
        Place::File,
        |report, path| {
            if report.streams().iter().all(|run| run.summary.intervals.is_empty()) {
                not_written(path);
                return Ok(());
            }
            write_file(path, |out| {
                report.streams().iter().try_for_each(|run| json::write_intervals(out, &run.summary))
            })
        },
    )
};

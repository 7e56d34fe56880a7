//! `--openmetrics`: figures for Prometheus' textfile collector.

use super::format::{Output, Part, Place, write_file};
use jitlat_store::openmetrics;

pub static OUTPUT: Output = Output {
    needs: Part::STREAMS,
    ..Output::new(
        "openmetrics",
        "Write the figures as OpenMetrics text to FILE, for Prometheus' textfile collector",
        Place::File,
        |report, path| write_file(path, |out| openmetrics::write(out, &report.summaries())),
    )
};

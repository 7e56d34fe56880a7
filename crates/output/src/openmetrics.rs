//! `openmetrics`: figures for Prometheus' textfile collector.

use crate::format::{Destination, Output, OwnOption, ReportParts, write_file};
use jitlat_store::openmetrics;

pub static OUTPUT: Output = Output {
    option: OwnOption::Former("openmetrics"),
    needs: ReportParts::STREAMS,
    ..Output::new(
        "openmetrics",
        "Write OpenMetrics text for Prometheus' textfile collector",
        Destination::File,
        |report, path| write_file(path, |out| openmetrics::write(out, &report.summaries())),
    )
};

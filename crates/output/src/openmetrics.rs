//! `openmetrics`: figures for Prometheus' textfile collector.

use crate::format::{Output, OwnOption, Part, Place, write_file};
use jitlat_store::openmetrics;

pub static OUTPUT: Output = Output {
    option: OwnOption::Former("openmetrics"),
    needs: Part::STREAMS,
    ..Output::new(
        "openmetrics",
        "Write OpenMetrics text for Prometheus' textfile collector",
        Place::File,
        |report, path| write_file(path, |out| openmetrics::write(out, &report.summaries())),
    )
};

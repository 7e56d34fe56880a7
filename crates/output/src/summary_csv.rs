//! `summary-csv`: one line per stream, with every figure.

use crate::format::{Destination, Output, OwnOption, ReportParts, write_file};
use jitlat_store::csv;

pub static OUTPUT: Output = Output {
    option: OwnOption::Former("summary-csv"),
    needs: ReportParts::STREAMS,
    ..Output::new(
        "summary-csv",
        "Write one CSV line per test, with every figure",
        Destination::File,
        |report, path| write_file(path, |out| csv::write_summaries(out, &report.summaries())),
    )
};

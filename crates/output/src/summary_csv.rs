//! `summary-csv`: one line per stream, with every figure.

use crate::format::{Output, OwnOption, Part, Place, write_file};
use jitlat_store::csv;

pub static OUTPUT: Output = Output {
    option: OwnOption::Former("summary-csv"),
    needs: Part::STREAMS,
    ..Output::new(
        "summary-csv",
        "Write one CSV line per test, with every figure",
        Place::File,
        |report, path| write_file(path, |out| csv::write_summaries(out, &report.summaries())),
    )
};

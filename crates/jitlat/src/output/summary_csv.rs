//! `--summary-csv`: one line per stream, with every figure.

use super::format::{Output, Part, Place, write_file};
use jitlat_store::csv;

pub static OUTPUT: Output = Output {
    needs: Part::STREAMS,
    ..Output::new("summary-csv", "Write one line per test to FILE", Place::File, |report, path| {
        write_file(path, |out| csv::write_summaries(out, &report.summaries()))
    })
};

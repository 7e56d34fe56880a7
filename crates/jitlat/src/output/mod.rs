//! Everything that is written besides the terminal: [`OUTPUTS`], one file per format.
//!
//! * [`mod@format`] – [`Output`], an entry of the list
//! * [`report`] – [`Report`], the result of a command, as formats read it
//! * [`args`] – the options made from the list
//! * [`wanted`] – [`Wanted`](wanted::WantedOutputs), the requested formats: checked before the measurement, written afterwards
//! * [`pages`] – pages and pictures
//! * [`running`] – the windows of a test while it runs
//! * [`screen`] – the console report on one screen; [`text`] – the full one
//!
//! A format is a file in this folder that exports its entry, and a line in the list. `--as NAME` of every command, and
//! `jitlat export`, offer the formats whose [needs](Output::needs) the report meets.

pub mod args;
mod csv;
pub mod format;
mod graphite;
mod hdr;
mod html;
mod intervals;
mod irtt;
mod json;
pub mod late;
mod openmetrics;
mod owamp;
#[cfg(feature = "plots")]
pub mod pages;
mod plots;
pub mod report;
pub mod running;
pub mod screen;
mod summary_csv;
pub mod text;
pub mod wanted;

#[cfg(not(feature = "plots"))]
pub use crate::without::pages;
pub use args::Outputs;
pub use format::{Output, OwnOption, ReportParts, write_file};
pub use report::{AnalysedStream, Drawings, Report, ReportTable};
pub use wanted::log_failures;

/// The path that stands for standard output.
pub const STDOUT: &str = "-";

/// The formats, by the names that `--as` takes.
pub const OUTPUTS: &[&Output] = &[
    &json::OUTPUT,
    &csv::OUTPUT,
    &summary_csv::OUTPUT,
    &openmetrics::OUTPUT,
    &intervals::OUTPUT,
    &hdr::OUTPUT,
    &irtt::OUTPUT,
    &owamp::STATISTICS,
    &owamp::RAW,
    &late::SUMMARY,
    &late::PACKETS,
    &graphite::OUTPUT,
    &html::OUTPUT,
    &plots::OUTPUT,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_its_row_in_the_documentation() {
        let page = include_str!("../../../../docs/formats/README.md");
        for output in OUTPUTS {
            let spelling = format!("`{}", output.spelling());
            let row = |line: &str| line.starts_with('|') && line.contains(&spelling);
            assert!(page.lines().any(row), "docs/formats/README.md lacks {spelling}`");
        }
    }
}

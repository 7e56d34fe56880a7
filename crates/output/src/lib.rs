//! Reports of tests in every format, and terminal output while a test runs.
//!
//! * [`OUTPUTS`] – all formats, one source file each: an [`Output`] declares the parts of a report that it needs, and
//!   writes the report
//! * [`Report`] – result of a test, a sweep or a comparison, as formats read it; [`AnalysedStream`] and [`ReportStreams`] –
//!   result of a test
//! * [`WantedOutputs`] – the requested formats: checked before the measurement, written afterwards
//! * [`screen`] – the console report on one screen; [`text`] – the full report; [`terminal`] – the terminal, and the
//!   progress line
//! * [`running`] – the windows of a test while it runs
//! * [`input`] – opening logs; [`runs`] – reading saved tests for comparisons
//! * [`sweep`], [`joined`], [`along`], [`comparison`], [`phases`], [`checkup`], [`rpm`], [`captures`] – reports other
//!   than those of a single test
//! * [`check`] – tests as checks of Nagios and Icinga
//! * [`systems`] – formats of systems that store measurements; `results` – the results of an archive as a stream of such messages
//! * [`late`], [`late_folder`] – LaTe's formats, after a test and while it runs
//!
//! A format is a source file of this crate that exports its entry, and a line in the list. `--as NAME` of every
//! command, and `jitlat export`, offer the formats whose [needs](Output::needs) the report meets.
//!
//! Related crates: [`jitlat_instruments`] measures, [`jitlat_store`] contains the file formats, and [`jitlat_report`]
//! the text, figures and pages. The caller provides the options that request a format.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod along;
pub mod attenuation;
pub mod captures;
pub mod check;
pub mod checkup;
pub mod comparison;
mod csv;
mod error;
mod format;
mod fping;
mod graphite;
mod hdr;
mod html;
pub mod input;
mod intervals;
mod iperf3;
mod irtt;
pub mod joined;
mod json;
pub mod label;
pub mod late;
pub mod late_folder;
mod late_streams;
mod openmetrics;
mod owamp;
#[cfg(feature = "plots")]
mod pages;
pub mod phases;
mod plots;
mod report;
#[cfg(feature = "archive")]
pub mod results;
pub mod rpm;
pub mod running;
pub mod runs;
pub mod screen;
#[cfg(feature = "summaries")]
mod summaries;
mod summary_csv;
pub mod sweep;
pub mod systems;
pub mod terminal;
pub mod text;
mod twping;
mod wanted;
#[cfg(not(feature = "archive"))]
mod without_archive;
#[cfg(not(feature = "plots"))]
mod without_draw;
#[cfg(not(feature = "summaries"))]
mod without_summaries;

#[cfg(not(feature = "plots"))]
use without_draw as pages;
#[cfg(not(feature = "summaries"))]
use without_summaries as summaries;

pub use error::{Error, Result, explain};
pub use format::{Destination, Output, OutputPlace, OwnOption, ReportParts, with_ending, write_file};
pub use jitlat_report::PictureFormat;
pub use report::{
    AnalysedStream, Drawings, Report, ReportExtra, ReportStreams, ReportTable, command_line, file_ending,
    shell_word, slug,
};
pub use wanted::{WantedOutputs, log_failures};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Path that means standard output.
pub const STDOUT: &str = "-";

/// All formats, listed by the name that `--as` takes.
pub const OUTPUTS: &[&Output] = &[
    &json::OUTPUT,
    &csv::OUTPUT,
    &summary_csv::OUTPUT,
    &openmetrics::OUTPUT,
    &intervals::OUTPUT,
    &hdr::OUTPUT,
    &irtt::OUTPUT,
    &owamp::STATISTICS,
    &owamp::MACHINE,
    &owamp::RAW,
    &owamp::FILE,
    &twping::RAW,
    &twping::MACHINE,
    &fping::OUTPUT,
    &iperf3::OUTPUT,
    &late::SUMMARY,
    &late::PACKETS,
    &graphite::OUTPUT,
    &systems::influx::OUTPUT,
    &systems::collectd::OUTPUT,
    &systems::zabbix::OUTPUT,
    &systems::otlp::JSON,
    &systems::otlp::PROTOBUF,
    &html::OUTPUT,
    &plots::OUTPUT,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_its_row_in_the_documentation() {
        let page = include_str!("../../../docs/formats/README.md");
        for output in OUTPUTS {
            let spelling = format!("`{}", output.spelling());
            let row = |line: &str| line.starts_with('|') && line.contains(&spelling);
            assert!(page.lines().any(row), "docs/formats/README.md lacks {spelling}`");
        }
    }
}

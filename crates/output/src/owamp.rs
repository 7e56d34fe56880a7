//! `owstats` and `owping`: a test with an OWAMP server, in the formats of perfSONAR's tools.

use crate::error::{Result, bail};
use crate::format::{Destination, Output, OwnOption, ReportParts, write_file};
use crate::report::Report;
use std::path::Path;

pub static STATISTICS: Output = Output {
    option: OwnOption::Former("owamp-stats"),
    needs: ReportParts::STREAMS,
    one_way_protocol: Some("owamp"),
    ..Output::new(
        "owstats",
        "Write a test with --proto owamp as `owping -v` and `owstats -v` do",
        Destination::File,
        |report, path| write(report, path, "owstats"),
    )
};

pub static RAW: Output = Output {
    option: OwnOption::Former("owamp-raw"),
    needs: ReportParts::STREAMS,
    one_way_protocol: Some("owamp"),
    ..Output::new(
        "owping",
        "Write the packets of a test with --proto owamp as `owping -R` does",
        Destination::File,
        |report, path| write(report, path, "owping"),
    )
};

fn write(report: &dyn Report, path: &Path, format: &str) -> Result<()> {
    let Some(printed) = report.texts().iter().find(|text| text.format == format) else {
        bail!("only a test with --proto owamp that ran to its end has the records of OWAMP's receivers");
    };
    write_file(path, |out| out.write_all(printed.text.as_bytes()))
}

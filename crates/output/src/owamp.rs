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
        "Write a --proto owamp test in the format of `owping -v` and `owstats -v`",
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
        "Write the packets of a --proto owamp test in the format of `owping -R`",
        Destination::File,
        |report, path| write(report, path, "owping"),
    )
};

fn write(report: &dyn Report, path: &Path, format: &str) -> Result<()> {
    let Some(printed) = report.texts().iter().find(|text| text.format == format) else {
        bail!(
            "the records of OWAMP's receivers are only available after a --proto owamp test that ran to its end"
        );
    };
    write_file(path, |out| out.write_all(printed.text.as_bytes()))
}

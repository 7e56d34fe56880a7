//! `--owamp-stats` and `--owamp-raw`: a test with an OWAMP server as perfSONAR's tools print it.

use super::format::{Output, Part, Place, write_file};
use super::report::Report;
use anyhow::{Result, bail};
use jitlat_proto::owamp::Statistics;
use std::path::Path;

pub static STATISTICS: Output = Output {
    needs: Part::STREAMS,
    one_way_protocol: Some("owamp"),
    ..Output::new(
        "owamp-stats",
        "Write a test with --proto owamp to FILE as `owping -v` and `owstats -v` print it, times in UTC",
        Place::File,
        |report, path| write(report, path, Statistics::text),
    )
};

pub static RAW: Output = Output {
    needs: Part::STREAMS,
    one_way_protocol: Some("owamp"),
    ..Output::new(
        "owamp-raw",
        "Write the packets of a test with --proto owamp to FILE as `owping -R` and `owstats -R` print them",
        Place::File,
        |report, path| write(report, path, Statistics::raw),
    )
};

fn write(report: &dyn Report, path: &Path, text: fn(&Statistics) -> String) -> Result<()> {
    let sessions = report.owamp();
    if sessions.is_empty() {
        bail!("only a test with --proto owamp that was run to its end knows what OWAMP's receivers recorded");
    }
    write_file(path, |out| sessions.iter().try_for_each(|session| out.write_all(text(session).as_bytes())))
}

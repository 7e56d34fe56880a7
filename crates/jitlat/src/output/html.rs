//! `--html`: a page.

use super::format::{Output, Part, Place, write_file};
use super::pages;

pub static OUTPUT: Output = Output {
    needs: Part::PAGE,
    keeps_packets: true,
    lacks: pages::LACKS,
    ..Output::new(
        "html",
        "Write a report with interactive figures to FILE: one self-contained HTML page",
        Place::File,
        |report, path| {
            let page = report.page()?;
            write_file(path, |out| out.write_all(page.as_bytes()))
        },
    )
};

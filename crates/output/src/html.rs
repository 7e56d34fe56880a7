//! Output format `html`: a page for a web browser.

use crate::format::{Destination, Output, OwnOption, ReportParts, write_file};
use crate::pages;

pub static OUTPUT: Output = Output {
    option: OwnOption::Shown,
    needs: ReportParts::PAGE,
    keeps_packets: true,
    lacks: pages::LACKS,
    ..Output::new(
        "html",
        "Write a self-contained HTML page with interactive figures",
        Destination::File,
        |report, path| {
            let page = report.page()?;
            write_file(path, |out| out.write_all(page.as_bytes()))
        },
    )
};

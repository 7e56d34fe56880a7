//! `--html`: a page.

use crate::format::{Output, OwnOption, Part, Place, write_file};
use crate::pages;

pub static OUTPUT: Output = Output {
    option: OwnOption::Shown,
    needs: Part::PAGE,
    keeps_packets: true,
    lacks: pages::LACKS,
    ..Output::new(
        "html",
        "Write a self-contained HTML page with interactive figures",
        Place::File,
        |report, path| {
            let page = report.page()?;
            write_file(path, |out| out.write_all(page.as_bytes()))
        },
    )
};

//! `--json`: the report as one JSON object.

use crate::format::{Destination, Output, OwnOption, write_file};

pub static OUTPUT: Output = Output {
    option: OwnOption::Shown,
    // The data are needed if saved summaries are compared later.
    asks: |options| options.comparable = true,
    ..Output::new("json", "Write one JSON object", Destination::File, |report, path| {
        let document = report.json()?;
        write_file(path, |out| {
            serde_json::to_writer_pretty(&mut *out, &document)?;
            out.write_all(b"\n")
        })
    })
};

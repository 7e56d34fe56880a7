//! The terminal: standard output, the log on standard error, the line that shows progress. The only module that
//! writes to either.

pub mod log;
pub mod progress;
mod so_far;

use anyhow::{Context, Result};
use jitlat_report::text::Style;
use std::io::{self, IsTerminal, Write};

/// Prints to standard output; a reader that has gone away (`| head`) is a normal end.
pub fn print(text: &str) -> Result<()> {
    print_to(io::stdout().lock(), text).context("writing the report to standard output")
}

/// Prints to standard error, what is a report and not a log, where standard output carries rows.
pub fn print_beside(text: &str) -> Result<()> {
    print_to(io::stderr().lock(), text).context("writing the report to standard error")
}

fn print_to(mut out: impl Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Colours on a terminal, unless its owner does not want them.
pub fn style() -> Style {
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if colour { Style::Colour } else { Style::Plain }
}

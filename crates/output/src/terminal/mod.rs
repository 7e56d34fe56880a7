//! Terminal output: standard output, standard error, and progress.

mod behind;
pub mod picture;
pub mod progress;
pub mod replies;
pub mod work;

use crate::error::{Context, Result};
use jitlat_report::text::TextStyle;
use std::io::{self, IsTerminal, Write};

/// Prints to standard output. A closed pipe (`| head`) is not an error.
pub fn print(text: &str) -> Result<()> {
    print_to(io::stdout().lock(), text).context("writing the report to standard output")
}

/// Prints a report to standard error, because rows are printed to standard output.
pub fn print_to_stderr(text: &str) -> Result<()> {
    print_to(io::stderr().lock(), text).context("writing the report to standard error")
}

fn print_to(mut out: impl Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Returns true if standard output is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns the number of columns of the terminal: COLUMNS if set, otherwise its actual width; 80 for a pipe.
pub fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let actual = || terminal_size::terminal_size_of(io::stdout()).map(|(columns, _)| usize::from(columns.0));
    said.filter(|columns| *columns > 0).or_else(actual).unwrap_or(80)
}

/// Returns true if characters beyond ASCII can be printed: the locale is UTF-8, and the terminal is not dumb.
pub fn shows_unicode() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_lowercase();
    let utf8 = locale.contains("utf-8") || locale.contains("utf8");
    utf8 && !is_dumb()
}

/// Returns true if the terminal declares that it supports no control sequences.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Returns the style of text: with colours on a terminal that supports them, unless NO_COLOR disables them.
pub fn style() -> TextStyle {
    let colour = is_terminal() && !is_dumb() && std::env::var_os("NO_COLOR").is_none();
    if colour { TextStyle::Colour } else { TextStyle::Plain }
}

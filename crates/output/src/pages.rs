//! Reports that are drawn: pages, pictures, and histograms for plotting tools.

use crate::report::{AnalysedStream, PROGRAM, command_line};
use jitlat_report::figure::Trace;
use jitlat_report::html::{self, ReportPart};
use jitlat_report::{FirstScreen, Section};
use jitlat_verdict::compare::ComparisonGrid;
use std::ffi::OsString;
use std::path::Path;

pub use jitlat_report::draw::{DrawError, card_files, files};
pub use jitlat_store::hdr::write as histograms;

/// Cargo feature that drawing requires and this build lacks. `None`, because this build can draw.
pub const LACKS: Option<&str> = None;

/// Returns the page of streams, beginning with the section of an instrument if there is one.
pub fn page(runs: &[AnalysedStream], section: Option<&Section>) -> String {
    reported(runs, section, html::page)
}

/// Returns the first screen of the page of streams; `None` without a verdict.
pub fn first_screen(runs: &[AnalysedStream], section: Option<&Section>) -> Option<FirstScreen> {
    reported(runs, section, html::first_screen)
}

/// Returns the page of a comparison.
pub fn comparison(grid: &ComparisonGrid) -> String {
    html::comparison(grid, PROGRAM, Some(jitlat_net::clock::wall()))
}

/// Returns the first screen of the page of a comparison.
pub fn first_screen_of(grid: &ComparisonGrid) -> Option<FirstScreen> {
    Some(html::first_screen_of(grid, PROGRAM, Some(jitlat_net::clock::wall())))
}

/// Calls `make` with the report of streams and the section of an instrument.
fn reported<T>(
    runs: &[AnalysedStream],
    section: Option<&Section>,
    make: impl FnOnce(&html::HtmlReport<'_>) -> T,
) -> T {
    let traces: Vec<Trace> = runs.iter().map(AnalysedStream::trace).collect();
    let part = |(run, trace)| {
        let run: &AnalysedStream = run;
        ReportPart {
            label: if runs.len() == 1 { "" } else { &run.label },
            session: Some(&run.session),
            summary: &run.summary,
            trace: Some(trace),
        }
    };
    make(&html::HtmlReport {
        section,
        parts: &runs.iter().zip(&traces).map(part).collect::<Vec<_>>(),
        corrected: runs.iter().any(|run| run.corrected),
        command: Some(&public_command_line(std::env::args_os())),
        program: PROGRAM,
        written: Some(jitlat_net::clock::wall()),
    })
}

/// Returns the command line without the folders of local files, for documents that are given to others.
fn public_command_line(arguments: impl Iterator<Item = OsString>) -> String {
    command_line(arguments.map(|argument| match argument.to_str() {
        Some(text) => match text.split_once('=').filter(|(option, _)| option.starts_with('-')) {
            Some((option, value)) => format!("{option}={}", without_folder(value)).into(),
            None => without_folder(text).into(),
        },
        None => Path::new(&argument).file_name().map_or_else(OsString::new, Into::into),
    }))
}

/// Returns the name of a file without its folder; any other text as it is.
fn without_folder(text: &str) -> &str {
    let path = Path::new(text);
    let is_file = text.contains('/')
        && !text.contains("://")
        && (path.is_absolute() || text.starts_with('.') || text.starts_with('~') || path.exists());
    path.file_name().and_then(|name| name.to_str()).filter(|_| is_file).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_no_names_of_local_folders() {
        let typed =
            ["jitlat", "analyze", "/home/me/a.log", "../b.log", "--html=/tmp/c.html", "10.0.0.0/8", "x/y"];
        let line = public_command_line(typed.map(OsString::from).into_iter());
        assert_eq!(line, "jitlat analyze a.log b.log --html=c.html 10.0.0.0/8 x/y");
    }
}

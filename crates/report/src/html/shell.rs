//! The beginning and the end of every page.

use crate::escape::escape;
use jitlat_core::time::WallTime;
use jitlat_core::units::utc_date;
use std::fmt::Write;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// The beginning, up to the page's title; the header element is left open.
pub fn open(out: &mut String, title: &str, program: &str) {
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"{}\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><h1>{}</h1>",
        escape(program),
        escape(title),
        escape(title),
    );
}

/// The program that made the page, its command and time.
pub fn footer(out: &mut String, command: Option<&str>, program: &str, written: Option<WallTime>) {
    out.push_str("<footer>");
    if let Some(command) = command {
        let _ = write!(out, "<p>Made by <code>{}</code></p>", escape(command));
    }
    let _ = writeln!(out, "<p>{}</p></footer>", escape(&made(program, written)));
}

/// The program that made something, and when.
pub fn made(program: &str, written: Option<WallTime>) -> String {
    let when = written.map_or(String::new(), |t| format!(", {}", utc_date(t)));
    format!("{program}{when}")
}

/// The script of the figures, and the end of the page.
pub fn close(out: &mut String) {
    let _ = writeln!(out, "<script>\n{SCRIPT}</script>\n</body>\n</html>");
}

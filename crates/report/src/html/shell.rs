//! The beginning and the end of every page.

use crate::escape::escape;
use jitlat_core::time::WallTime;
use jitlat_core::units::utc_date;
use std::fmt::Write;

/// The style sheet of every page.
pub const STYLE: &str = include_str!("report.css");
/// The script of the figures.
pub const SCRIPT: &str = include_str!("report.js");

/// The site that a page is part of.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Address of its style sheet.
    pub style: &'a str,
    /// Addresses of its scripts.
    pub scripts: &'a [&'a str],
    /// What stands before the title, as HTML.
    pub before: &'a str,
}

/// The beginning, up to the page's title; the header element is left open. Without a frame the page needs no other file.
pub fn open(out: &mut String, title: &str, program: &str, frame: Option<&Frame<'_>>) {
    out.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    if frame.is_none() {
        out.push_str(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'; img-src data:\">\n",
        );
    }
    let _ = write!(
        out,
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"{}\">\n<title>{}</title>\n",
        escape(program),
        escape(title),
    );
    let _ = match frame {
        None => write!(out, "<style>\n{STYLE}</style>\n</head>\n<body>\n"),
        Some(frame) => {
            let _ = writeln!(out, "<link rel=\"stylesheet\" href=\"{}\">", escape(frame.style));
            for script in frame.scripts {
                let _ = writeln!(out, "<script src=\"{}\" defer></script>", escape(script));
            }
            write!(out, "</head>\n<body>\n{}", frame.before)
        }
    };
    let _ = write!(out, "<header><h1>{}</h1>", escape(title));
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
pub fn close(out: &mut String, frame: Option<&Frame<'_>>) {
    if frame.is_none() {
        let _ = writeln!(out, "<script>\n{SCRIPT}</script>");
    }
    out.push_str("</body>\n</html>\n");
}

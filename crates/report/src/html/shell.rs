//! Beginning and end of every page.

use jitlat_core::time::WallTime;
use jitlat_core::units::utc_date;
use maud::{Markup, PreEscaped, html};

/// The style sheet of every page.
pub const STYLE: &str = include_str!("report.css");
/// The script of the figures.
pub const SCRIPT: &str = include_str!("report.js");

/// Content security policy of a self-contained page: it may load nothing.
const ONLY_INLINE: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// The site that a page is part of.
#[derive(Clone, Copy, Debug)]
pub struct PageFrame<'a> {
    /// Address of the site's style sheet.
    pub style: &'a str,
    /// Addresses of the site's scripts.
    pub scripts: &'a [&'a str],
    /// Content before the title.
    pub before: &'a Markup,
}

/// Renders a whole page: `header` follows the title, `body` the header element. Without a frame, the page is
/// self-contained.
pub fn document(
    title: &str,
    program: &str,
    frame: Option<&PageFrame<'_>>,
    header: &Markup,
    body: &Markup,
) -> Markup {
    html! {
        (PreEscaped("<!doctype html>\n"))
        html lang="en" {
            head {
                meta charset="utf-8";
                @if frame.is_none() {
                    meta http-equiv="Content-Security-Policy" content=(ONLY_INLINE);
                }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(program);
                title { (title) }
                @if let Some(frame) = frame {
                    link rel="stylesheet" href=(frame.style);
                    @for script in frame.scripts { script src=(script) defer {} }
                } @else {
                    style { (PreEscaped(STYLE)) }
                }
            }
            body {
                @if let Some(frame) = frame { (frame.before) }
                header { h1 { (title) } (header) }
                (body)
                @if frame.is_none() { script { (PreEscaped(SCRIPT)) } }
            }
        }
        "\n"
    }
}

/// Renders the footer: command, program, and time of creation.
pub fn footer(command: Option<&str>, program: &str, written: Option<WallTime>) -> Markup {
    html! {
        footer {
            @if let Some(command) = command { p { "Made by " code { (command) } } }
            p { (made(program, written)) }
        }
    }
}

/// Formats the name of the program that created a document, and the time of creation.
pub fn made(program: &str, written: Option<WallTime>) -> String {
    let when = written.map_or(String::new(), |t| format!(", {}", utc_date(t)));
    format!("{program}{when}")
}

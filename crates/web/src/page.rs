//! What all pages have: the links between them, the files they use, and their beginning and end.

use axum::response::Html;
use jitlat_report::html::{self, Frame};
use std::fmt::Write;

/// This program and its version.
pub const PROGRAM: &str = concat!("jitlat ", env!("CARGO_PKG_VERSION"));

/// The style sheet: that of the reports, and what only these pages have.
pub fn style() -> String {
    [html::STYLE, include_str!("web.css")].concat()
}

/// The script that loads what is new.
pub const LIVE: &str = include_str!("live.js");

/// Which link of a page leads to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    /// All paths.
    Now,
    /// What is known of each host.
    Hosts,
    /// Two periods, or two paths.
    Compare,
    /// What fires.
    Alerts,
    /// Where a test is asked for.
    Run,
    /// None of them.
    None,
}

/// Pages that every page has a link to.
const TABS: [(Tab, &str, &str); 5] = [
    (Tab::Now, "/", "Now"),
    (Tab::Hosts, "/hosts", "Hosts"),
    (Tab::Compare, "/compare", "Compare"),
    (Tab::Alerts, "/alerts", "Alerts"),
    (Tab::Run, "/run", "Run"),
];

/// The links between pages; the first skips them.
pub fn navigation(current: Tab) -> String {
    let mut out = "<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<nav class=\"site\" aria-label=\"Pages\"><b>jitlat</b>".to_owned();
    for (tab, address, name) in TABS {
        let here = if tab == current { " aria-current=\"page\"" } else { "" };
        let _ = write!(out, " <a href=\"{address}\"{here}>{name}</a>");
    }
    out.push_str(" <span id=\"live\" role=\"status\"></span></nav>\n");
    out
}

/// A page. `content` begins within its header, after the title, and ends within its main part.
pub fn page(title: &str, current: Tab, content: impl FnOnce(&mut String)) -> Html<String> {
    page_after(&navigation(current), title, content)
}

/// A page that begins with `before`.
pub fn page_after(before: &str, title: &str, content: impl FnOnce(&mut String)) -> Html<String> {
    let mut out = String::with_capacity(1 << 16);
    let frame = Frame { style: "/style.css", scripts: &["/live.js"], before };
    html::open(&mut out, title, PROGRAM, Some(&frame));
    content(&mut out);
    out.push_str("</main>\n");
    let _ = writeln!(out, "<footer><p>{PROGRAM}. All times are UTC.</p></footer>");
    html::close(&mut out, Some(&frame));
    Html(out)
}

/// Text as a part of an address.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_means_something_in_an_address_is_encoded() {
        assert_eq!(super::encoded("2001:db8::1"), "2001:db8::1");
        assert_eq!(super::encoded("a/b?c#d%é"), "a%2Fb%3Fc%23d%25%C3%A9");
    }
}

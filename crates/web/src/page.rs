//! Parts of every page: links between pages, their files, and the beginning and end.

use crate::times::ALL_UTC;
use crate::zone::PageZone;
use axum::response::Html;
use jitlat_core::printable::is_unprintable;
use jitlat_report::html::{PageFrame, STYLE, document};
use maud::{Markup, html};
use std::fmt::Write;

/// Name and version of this program.
pub const PROGRAM: &str = concat!("jitlat ", env!("CARGO_PKG_VERSION"));

/// Style sheet of the reports, followed by the rules of these pages.
pub fn style() -> String {
    [STYLE, include_str!("web.css")].concat()
}

/// Script that loads new content.
pub const LIVE: &str = include_str!("live.js");

/// Script of the page of a path.
pub const PATH: &str = include_str!("path/path.js");

/// Link of the navigation that leads to the current page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageTab {
    /// Overview of all paths.
    Now,
    /// Facts about each host.
    Hosts,
    /// Comparison of two periods or two paths.
    Compare,
    /// List of alerts.
    Alerts,
    /// Report of a month.
    Report,
    /// Form that starts a test.
    Run,
    /// None of the links: no link leads to the current page.
    None,
}

/// Links of the navigation, which every page has.
const TABS: [(PageTab, &str, &str); 6] = [
    (PageTab::Now, "/", "Now"),
    (PageTab::Hosts, "/hosts", "Hosts"),
    (PageTab::Compare, "/compare", "Compare"),
    (PageTab::Alerts, "/alerts", "Alerts"),
    (PageTab::Report, "/sla", "Report"),
    (PageTab::Run, "/run", "Run"),
];

/// Renders the navigation. Its first link skips the others.
pub fn navigation(current: PageTab) -> Markup {
    html! {
        a.skip href="#main" { "Skip to the content" }
        nav.site aria-label="Pages" {
            b { "jitlat" }
            @for (tab, address, name) in TABS {
                " "
                a href=(address) aria-current=[(tab == current).then_some("page")] { (name) }
            }
            " "
            span #live role="status" {}
        }
    }
}

/// Renders a page: `header` follows the title, `main` is its main part.
pub fn page(title: &str, current: PageTab, header: &Markup, main: &Markup) -> Html<String> {
    let is_wide = matches!(current, PageTab::Now | PageTab::Hosts | PageTab::Alerts);
    page_in(&navigation(current), title, header, &html! { main #main.whole[is_wide] { (main) } })
}

/// Renders a page over the whole width of the window, with times of `zone`, and with the script of drawings.
pub fn wide_page(
    title: &str,
    current: PageTab,
    zone: &PageZone,
    header: &Markup,
    main: &Markup,
) -> Html<String> {
    of_zone(title, current, zone, header, &html! { main #main.whole { (main) } })
}

/// Renders a page with times of `zone`.
pub fn page_in_zone(
    title: &str,
    current: PageTab,
    zone: &PageZone,
    header: &Markup,
    main: &Markup,
) -> Html<String> {
    of_zone(title, current, zone, header, &html! { main #main { (main) } })
}

fn of_zone(title: &str, current: PageTab, zone: &PageZone, header: &Markup, main: &Markup) -> Html<String> {
    let scripts = &["/live.js", "/path.js"];
    let frame = PageFrame { style: "/style.css", scripts, before: &navigation(current) };
    let body = html! {
        (main)
        footer { p { (PROGRAM) ". " (zone.sentence()) } }
    };
    Html(readable(document(title, PROGRAM, Some(&frame), header, &body).into_string()))
}

/// Renders a page that begins with `before`, and whose main element is `main`.
pub fn page_in(before: &Markup, title: &str, header: &Markup, main: &Markup) -> Html<String> {
    let frame = PageFrame { style: "/style.css", scripts: &["/live.js"], before };
    let body = html! {
        (main)
        footer { p { (PROGRAM) ". " (ALL_UTC) } }
    };
    Html(readable(document(title, PROGRAM, Some(&frame), header, &body).into_string()))
}

/// Replaces the characters that change the direction of writing by U+FFFD: names come from other hosts, and must not make the
/// text around them look different from its content.
fn readable(page: String) -> String {
    let turns = |c: char| is_unprintable(c) && !c.is_control();
    if page.contains(turns) { page.replace(turns, "\u{fffd}") } else { page }
}

/// Renders a table whose rows become cards on a narrow screen. Each cell has the name of its column in `data-label`.
pub fn cards(name: &str, rows: &Markup) -> Markup {
    html! {
        div.wide.cards tabindex="0" role="group" aria-label=(name) { table { (rows) } }
    }
}

/// Encodes text as a part of an address.
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
    use super::*;

    #[test]
    fn names_cannot_turn_the_text_around_them() {
        let page = page("a\u{202e}b", PageTab::None, &Markup::default(), &html! { p { "x\u{2066}y\nz" } }).0;
        assert!(page.contains("a\u{fffd}b") && page.contains("x\u{fffd}y\nz"), "{page}");
    }

    #[test]
    fn what_means_something_in_an_address_is_encoded() {
        assert_eq!(super::encoded("2001:db8::1"), "2001:db8::1");
        assert_eq!(super::encoded("a/b?c#d%é"), "a%2Fb%3Fc%23d%25%C3%A9");
    }
}

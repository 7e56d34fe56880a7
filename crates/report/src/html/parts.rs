//! What all sections of a page share.

use crate::draw;
use crate::escape::{escape, script_safe};
use crate::figure::{Figure, Trace};
use jitlat_core::session::Session;
use jitlat_core::summary::Summary;
use std::fmt::Write;

/// One direction of a test, or one of several runs to compare.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Its name; ignored if there is only one part.
    pub label: &'a str,
    /// What was tested; `None` if only the summary is known.
    pub session: Option<&'a Session>,
    /// Its summary.
    pub summary: &'a Summary,
    /// Its packets; `None` if only the summary is known.
    pub trace: Option<&'a Trace>,
}

/// A table whose first column names the rows; nothing if there are no rows.
pub(super) fn table(out: &mut String, columns: &[String], rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    out.push_str("<div class=\"wide\"><table><thead><tr>");
    for c in columns {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(c));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (k, cell) in row.iter().enumerate() {
            let cell = escape(&micro(cell));
            let _ = match k {
                0 => write!(out, "<th scope=\"row\">{cell}</th>"),
                _ => write!(out, "<td>{cell}</td>"),
            };
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
}

pub(super) fn heading(part: &Part<'_>, text: &str, alone: bool) -> String {
    if alone { escape(text) } else { escape(&format!("{text} – {}", part.label)) }
}

/// Whether the figures come from captured traffic instead of a test.
pub(super) fn is_passive(s: &Summary) -> bool {
    s.session.tags.get("instrument").is_some_and(|i| i == jitlat_core::passive::streams::PASSIVE)
}

/// Texts are ASCII for the console; pages use proper symbols.
pub(super) fn micro(text: &str) -> String {
    let word = |w: &str| match w {
        "-" => "−".to_owned(),
        _ if w.starts_with("us") && w[2..].chars().all(|c| c.is_ascii_punctuation()) => {
            format!("µs{}", &w[2..])
        }
        _ if w.starts_with('-') && w[1..].starts_with(|c: char| c.is_ascii_digit()) => {
            format!("−{}", &w[1..])
        }
        _ => w.to_owned(),
    };
    text.replace("+/- ", "±").split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A warning as a sentence: with a capital letter and a proper µ.
pub(super) fn sentence(text: &str) -> String {
    let text = micro(text.trim_end_matches('.'));
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// The interactive pane, filled by the script, and every figure as a static drawing, for print and for readers without
/// scripts.
pub(super) fn plots(out: &mut String, figures: &[(String, Vec<Figure>)]) {
    if figures.is_empty() {
        out.push_str("<section class=\"plots\"><h2>Figures</h2><p>No packet arrived: there is nothing to draw.</p></section>\n");
        return;
    }
    out.push_str("<section class=\"plots\"><h2>Figures</h2>\n<div class=\"pane\" hidden>\n");
    for (group, list) in figures {
        let _ = write!(
            out,
            "<div class=\"choose\" role=\"group\" aria-label=\"{}\">",
            escape(if group.is_empty() { "Choose a figure" } else { group })
        );
        if !group.is_empty() {
            let _ = write!(out, "<span class=\"group\">{}</span>", escape(group));
        }
        for f in list {
            let short = f.title.split([':', '–', '(']).next().unwrap_or(&f.title).trim();
            let _ = write!(
                out,
                "<button type=\"button\" data-figure=\"{}\" aria-pressed=\"false\">{}</button>",
                escape(&f.id),
                escape(short)
            );
        }
        out.push_str("</div>\n");
    }
    out.push_str(
        "<div class=\"plot\" tabindex=\"0\" role=\"group\" aria-label=\"Interactive figure; plus and minus zoom, \
         arrows move, zero resets\"></div>\n<p class=\"readout\" aria-live=\"polite\"></p>\n\
         <p class=\"about\"></p>\n<p class=\"help\">Drag across the plot to zoom, turn the wheel to zoom at the \
         pointer, double-click to see all. Click a name in the legend to hide it.</p>\n</div>\n\
         <div class=\"static\">\n",
    );
    for f in figures.iter().flat_map(|(_, list)| list) {
        let _ = writeln!(
            out,
            "<figure>{}<figcaption>{}</figcaption></figure>",
            draw::inline_svg(f),
            escape(&f.about)
        );
    }
    out.push_str("</div></section>\n");
}

pub(super) fn data(out: &mut String, figures: &[(String, Vec<Figure>)]) {
    let list: Vec<&Figure> = figures.iter().flat_map(|(_, list)| list).collect();
    // Figures contain only finite numbers and strings, which can always be serialised.
    let json = serde_json::to_string(&list).unwrap_or_else(|_| "[]".into());
    let _ = writeln!(out, "<script type=\"application/json\" id=\"figures\">{}</script>", script_safe(&json));
}

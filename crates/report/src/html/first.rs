//! The first screen: what the console shows on one, and delay over time as a figure.

use super::parts::{figure, level_word, micro, scrolling};
use crate::escape::escape;
use crate::figure::Figure;
use crate::text::screen::Screen;
use jitlat_core::summary::Level;
use std::fmt::Write;

/// Writes the answers, the quality for each use, the table, `course`, and the causes.
pub fn write(out: &mut String, screen: &Screen, course: Option<&Figure>) {
    out.push_str("<section class=\"first\" aria-label=\"The answer\">");
    for (level, text) in screen.leads() {
        let _ = write!(out, "<p class=\"headline {}\">{}</p>", level_word(*level), escape(&micro(text)));
    }
    uses(out, screen);
    table(out, screen);
    if let Some(course) = course {
        figure(out, course, "class=\"lead\"");
    }
    let causes: Vec<_> = screen.causes().collect();
    if !causes.is_empty() {
        out.push_str("<h2>Why</h2><ul class=\"findings\">");
        for (level, word, text) in causes {
            finding(out, level, word, text);
        }
        out.push_str("</ul>");
    }
    out.push_str("</section>\n");
}

/// A statement after the word for its level.
pub fn finding(out: &mut String, level: Level, word: &str, text: &str) {
    let _ = write!(
        out,
        "<li class=\"{}\"><span class=\"level\">{}</span> <span>{}</span></li>",
        level_word(level),
        escape(word),
        escape(&micro(text))
    );
}

fn uses(out: &mut String, screen: &Screen) {
    let mut uses = screen.suitability().peekable();
    if uses.peek().is_none() {
        return;
    }
    out.push_str("<ul class=\"uses\" aria-label=\"Quality for each use\">");
    for (name, word, level, because) in uses {
        let _ = write!(
            out,
            "<li class=\"{}\"><b>{}</b> <span class=\"level\">{word}</span> <span class=\"because\">{}</span></li>",
            level_word(level),
            escape(name),
            escape(&micro(because))
        );
    }
    out.push_str("</ul>");
}

/// The table, its verdicts coloured.
fn table(out: &mut String, screen: &Screen) {
    let (heads, lines) = screen.lines();
    if lines.is_empty() {
        return;
    }
    scrolling(out, "The figures that decide", |out| {
        out.push_str("<thead><tr>");
        for head in &heads {
            let _ = match head.as_str() {
                "" => write!(out, "<td></td>"),
                // The error of the delay before it.
                "+/-" => write!(out, "<th scope=\"col\">±</th>"),
                _ => write!(out, "<th scope=\"col\">{}</th>", escape(head)),
            };
        }
        out.push_str("</tr></thead><tbody>");
        for line in &lines {
            out.push_str("<tr>");
            for (k, (text, level)) in line.iter().enumerate() {
                let text = if k == 0 { escape(text) } else { escape(&shown(text)) };
                let _ = match (k, level) {
                    (0, _) => write!(out, "<th scope=\"row\">{text}</th>"),
                    (_, Some(level)) => write!(
                        out,
                        "<td class=\"{}\"><span class=\"level\">{text}</span></td>",
                        level_word(*level)
                    ),
                    _ => write!(out, "<td>{text}</td>"),
                };
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody>");
    });
}

/// A cell in the typography of pages: a dash where there is no value, units that stay with their number.
fn shown(text: &str) -> String {
    match text {
        "-" => "–".to_owned(),
        _ => micro(text).replace(' ', "\u{a0}"),
    }
}

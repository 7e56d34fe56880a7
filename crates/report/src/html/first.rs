//! The first screen: what the console shows on one, and delay over time as a figure.

use super::parts::{figure, level_word, micro, scrolling};
use crate::FirstScreen;
use crate::escape::escape;
use jitlat_core::summary::Level;
use std::fmt::Write;

/// Writes the answers, the quality for each use, the table, the figure, and the causes.
pub fn write(out: &mut String, first: &FirstScreen) {
    out.push_str("<section class=\"first\" aria-label=\"The answer\">");
    for (level, text) in &first.leads {
        let _ = write!(out, "<p class=\"headline {}\">{}</p>", level_word(*level), escape(text));
    }
    uses(out, first);
    table(out, first);
    if let Some(drawn) = &first.figure {
        figure(out, drawn, "class=\"lead\"");
    }
    if !first.causes.is_empty() {
        out.push_str("<h2>Why</h2><ul class=\"findings\">");
        for (level, word, text) in &first.causes {
            finding(out, *level, word, text);
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

fn uses(out: &mut String, first: &FirstScreen) {
    if first.uses.is_empty() {
        return;
    }
    out.push_str("<ul class=\"uses\" aria-label=\"Quality for each use\">");
    for of in &first.uses {
        let _ = write!(
            out,
            "<li class=\"{}\"><b>{}</b> <span class=\"level\">{}</span> <span class=\"because\">{}</span></li>",
            level_word(of.level),
            escape(&of.name),
            of.word,
            escape(&of.because)
        );
    }
    out.push_str("</ul>");
}

/// The table, its verdicts coloured.
fn table(out: &mut String, first: &FirstScreen) {
    if first.lines.is_empty() {
        return;
    }
    scrolling(out, "The figures that decide", |out| {
        out.push_str("<thead><tr>");
        for head in &first.heads {
            let _ = match head.as_str() {
                "" => write!(out, "<td></td>"),
                _ => write!(out, "<th scope=\"col\">{}</th>", escape(head)),
            };
        }
        out.push_str("</tr></thead><tbody>");
        for line in &first.lines {
            out.push_str("<tr>");
            for (k, (text, level)) in line.iter().enumerate() {
                let text = escape(text);
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

//! First screen of a page: the screen report, with delay over time as a figure.

use super::parts::{head, lead, level_word, micro, scrolling};
use crate::FirstScreen;
use jitlat_core::summary::Level;
use maud::{Markup, html};

/// Renders the verdicts, the profiles, the table, the figure, and the causes.
pub fn section(first: &FirstScreen) -> Markup {
    html! {
        section.first aria-label="The answer" {
            @if !first.grades.is_empty() {
                ul.grades aria-label="Grades" {
                    @for (level, grade, subject) in &first.grades {
                        li.(level_word(*level)) { b { (grade) } " " span { (subject) } }
                    }
                }
            }
            @for (level, text) in &first.leads {
                p.headline.(level_word(*level)) { (text) }
            }
            (uses(first))
            (table(first))
            @if let Some(drawn) = &first.figure { (lead(drawn)) }
            @if !first.causes.is_empty() {
                h2 { "Why" }
                ul.findings {
                    @for (level, word, text) in &first.causes { (finding(*level, word, text)) }
                }
            }
        }
    }
}

/// Renders a statement, preceded by the word for its level.
pub fn finding(level: Level, word: &str, text: &str) -> Markup {
    html! {
        li.(level_word(level)) { span.level { (word) } " " span { (micro(text)) } }
    }
}

fn uses(first: &FirstScreen) -> Markup {
    html! {
        @if !first.uses.is_empty() {
            ul.uses aria-label="Verdict by profile" {
                @for of in &first.uses {
                    li.(level_word(of.level)) {
                        b { (of.name) } " " span.level { (of.word) } " " span.because {
                            @if !of.score.is_empty() { "QoO " (of.score) ", " }
                            (of.because)
                        }
                    }
                }
            }
        }
    }
}

/// Renders the table with coloured verdicts.
fn table(first: &FirstScreen) -> Markup {
    if first.lines.is_empty() {
        return Markup::default();
    }
    scrolling(
        "Key figures",
        &html! {
            (head(&first.heads))
            tbody {
                @for line in &first.lines {
                    tr {
                        @for (k, (text, level)) in line.iter().enumerate() {
                            @match (k, level) {
                                (0, _) => { th scope="row" { (text) } },
                                (_, Some(level)) => { td.(level_word(*level)) { span.level { (text) } } },
                                _ => { td { (text) } },
                            }
                        }
                    }
                }
            }
        },
    )
}

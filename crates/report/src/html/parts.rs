//! What all sections of a page share.

use crate::draw;
use crate::escape::{escape, script_safe};
use crate::figure::{Figure, Trace, View};
pub(super) use crate::typography::micro;
use jitlat_core::session::Session;
use jitlat_core::summary::{Level, Summary};
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
    let name = columns.iter().find(|c| !c.is_empty()).map_or("Table", |c| c);
    scrolling(out, name, |out| {
        out.push_str("<thead><tr>");
        for c in columns {
            let _ = match c.as_str() {
                "" => write!(out, "<td></td>"),
                _ => write!(out, "<th scope=\"col\">{}</th>", escape(c)),
            };
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
        out.push_str("</tbody>");
    });
}

pub(super) fn heading(part: &Part<'_>, text: &str, alone: bool) -> String {
    if alone { escape(text) } else { escape(&format!("{text} – {}", part.label)) }
}

/// Whether the figures come from captured traffic instead of a test.
pub(super) fn is_passive(s: &Summary) -> bool {
    s.session.tags.get("instrument").is_some_and(|i| i == jitlat_core::session::PASSIVE)
}

/// A warning as a sentence: with a capital letter and a proper µ.
pub(super) fn sentence(text: &str) -> String {
    let text = micro(text.trim_end_matches('.'));
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// The class of a level.
pub(super) fn level_word(level: Level) -> &'static str {
    match level {
        Level::Good => "good",
        Level::Note => "note",
        Level::Poor => "poor",
        Level::Bad => "bad",
    }
}

/// A table that scrolls sideways where it is wider than the screen, also by the keyboard.
pub fn scrolling(out: &mut String, name: &str, rows: impl FnOnce(&mut String)) {
    let _ = write!(
        out,
        "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"{}\"><table>",
        escape(name)
    );
    rows(out);
    out.push_str("</table></div>");
}

/// What is folded away below its title.
pub(super) fn folded(out: &mut String, id: &str, title: &str, content: impl FnOnce(&mut String)) {
    let _ =
        writeln!(out, "<details class=\"fold\" id=\"{id}\"><summary><h2>{}</h2></summary>", escape(title));
    content(out);
    out.push_str("</details>\n");
}

/// Figures that belong together: those of a direction or run, of an instrument, or of several runs in one.
#[derive(Debug)]
pub(super) struct Group {
    /// Its name in the switch; empty if it is the only one.
    pub name: String,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// Whether all of them are printed, and not only the principal ones.
    pub printed: Printed,
}

/// Which figures of a group are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Printed {
    All,
    /// Those that decide something.
    Principal,
    None,
}

/// The figures of a stream that are printed: the others explain details.
const PRINCIPAL: [&str; 3] = ["jitter", "dejitter", "loss-lengths"];

impl Group {
    fn prints(&self, figure: &Figure) -> bool {
        let is = |id: &&str| {
            figure.id.strip_prefix(*id).is_some_and(|rest| {
                rest.is_empty() || rest.strip_prefix('-').is_some_and(|k| k.parse::<u32>().is_ok())
            })
        };
        match self.printed {
            Printed::All => true,
            Printed::Principal => PRINCIPAL.iter().any(is),
            Printed::None => false,
        }
    }
}

/// The views with their names in addresses and on their tabs, and what is said where a group has no figure of one.
const TABS: [(View, &str, &str, &str); 4] = [
    (View::Time, "time", "over time", "There is nothing to draw over time."),
    (View::Distribution, "distribution", "distribution", "There is no distribution to draw."),
    (View::Buffer, "buffer", "buffer", "There is no choice of a buffer to draw."),
    (View::Loss, "loss", "loss", "No packet was lost, copied or overtaken: there is nothing to draw."),
];

/// The figures: as static drawings, which the script replaces by interactive ones behind tabs. Static ones are for
/// print and for readers without scripts.
pub(super) fn plots(out: &mut String, groups: &[Group]) {
    if groups.iter().all(|g| g.figures.is_empty()) {
        out.push_str("<section class=\"plots\"><h2>Figures</h2><p>No packet arrived: there is nothing to draw.</p></section>\n");
        return;
    }
    out.push_str("<section class=\"plots\"><h2>Figures</h2>\n<div class=\"pane\" hidden>");
    let has = |view: View| groups.iter().flat_map(|g| &g.figures).any(|f| f.view() == view);
    let tabs: Vec<_> = TABS.iter().filter(|tab| has(tab.0)).collect();
    if tabs.len() > 1 {
        out.push_str("<div class=\"tabs\" role=\"tablist\" aria-label=\"Figures\">");
        for (_, id, name, _) in &tabs {
            let _ = write!(
                out,
                "<button type=\"button\" role=\"tab\" id=\"tab-{id}\" aria-controls=\"drawn\" data-tab=\"{id}\">{name}</button>"
            );
        }
        out.push_str("</div><label class=\"pick\">Figures <select>");
        for (_, id, name, _) in &tabs {
            let _ = write!(out, "<option value=\"{id}\">{name}</option>");
        }
        out.push_str("</select></label>");
    }
    if groups.len() > 1 {
        out.push_str("<div class=\"ways\" role=\"group\" aria-label=\"Of which packets\">");
        for (k, group) in groups.iter().enumerate() {
            let _ = write!(
                out,
                "<button type=\"button\" data-group=\"{k}\" aria-pressed=\"false\">{}</button>",
                escape(&group.name)
            );
        }
        out.push_str("</div>");
    }
    out.push_str("</div>\n<div id=\"drawn\">\n");
    for (k, group) in groups.iter().enumerate() {
        for (view, id, _, without) in &tabs {
            let of = group.figures.iter().filter(|f| f.view() == *view);
            let mut drawn = 0;
            for f in of {
                let printed = if group.prints(f) { " class=\"printed\"" } else { "" };
                figure(out, f, &format!("data-group=\"{k}\" data-tab=\"{id}\"{printed}"));
                drawn += 1;
            }
            if drawn == 0 {
                let _ = writeln!(
                    out,
                    "<p class=\"none\" data-group=\"{k}\" data-tab=\"{id}\" hidden>{without}</p>"
                );
            }
        }
    }
    out.push_str(
        "</div>\n<p class=\"help\" hidden>Drag across a figure to zoom, double-click to see all. A name in a legend hides \
         what it stands for. With the keyboard: plus and minus zoom, arrows move, zero resets.</p></section>\n",
    );
}

/// A figure with a name to link to, as a static drawing.
pub(super) fn figure(out: &mut String, f: &Figure, attributes: &str) {
    let _ = writeln!(
        out,
        "<figure id=\"figure-{}\" {attributes}><div class=\"static\">{}</div><figcaption>{}</figcaption></figure>",
        anchor(&f.id),
        draw::inline_svg(f),
        escape(&f.about)
    );
}

/// A figure's name as part of an address.
fn anchor(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Writes the figures for the script, by their names.
pub(super) fn data(out: &mut String, first: Option<&Figure>, groups: &[Group]) {
    let list: Vec<&Figure> = first.into_iter().chain(groups.iter().flat_map(|g| &g.figures)).collect();
    // Figures contain only finite numbers and strings, which can always be serialised.
    let json = serde_json::to_string(&list).unwrap_or_else(|_| "[]".into());
    let _ = writeln!(out, "<script type=\"application/json\" id=\"figures\">{}</script>", script_safe(&json));
}

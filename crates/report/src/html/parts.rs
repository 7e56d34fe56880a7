//! Parts shared by all sections of a page.

use crate::draw;
use crate::escape::script_safe;
use crate::figure::{Figure, FigureView, Trace};
pub(super) use crate::typography::micro;
use jitlat_core::session::Session;
use jitlat_core::summary::{Level, Summary};
use maud::{Markup, PreEscaped, html};

/// One direction of a test, or one of several runs to compare.
#[derive(Clone, Copy, Debug)]
pub struct ReportPart<'a> {
    /// Name; ignored if there is only one part.
    pub label: &'a str,
    /// Session of the test; `None` if only the summary is known.
    pub session: Option<&'a Session>,
    /// Summary of the test.
    pub summary: &'a Summary,
    /// Packets of the test; `None` if only the summary is known.
    pub trace: Option<&'a Trace>,
}

/// Renders a table whose first column names the rows; empty without rows.
pub(super) fn table(columns: &[String], rows: &[Vec<String>]) -> Markup {
    if rows.is_empty() {
        return Markup::default();
    }
    let name = columns.iter().find(|c| !c.is_empty()).map_or("Table", |c| c);
    scrolling(
        name,
        &html! {
            (head(columns))
            tbody {
                @for row in rows {
                    tr {
                        @for (k, cell) in row.iter().enumerate() {
                            @if k == 0 { th scope="row" { (micro(cell)) } } @else { td { (micro(cell)) } }
                        }
                    }
                }
            }
        },
    )
}

/// Renders the head of a table; a column without a name gets an empty cell.
pub(super) fn head(columns: &[impl AsRef<str>]) -> Markup {
    html! {
        thead {
            tr {
                @for column in columns.iter().map(AsRef::as_ref) {
                    @if column.is_empty() { td {} } @else { th scope="col" { (column) } }
                }
            }
        }
    }
}

pub(super) fn heading(part: &ReportPart<'_>, text: &str, alone: bool) -> String {
    if alone { text.to_owned() } else { format!("{text} – {}", part.label) }
}

/// True if the figures come from captured traffic instead of a test.
pub(super) fn is_passive(s: &Summary) -> bool {
    s.session.tags.get("instrument").is_some_and(|i| i == jitlat_core::session::PASSIVE)
}

/// Converts a warning to a sentence: with a capital letter and a proper µ.
pub(super) fn sentence(text: &str) -> String {
    let text = micro(text.trim_end_matches('.'));
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// Returns the CSS class of a level.
pub(super) fn level_word(level: Level) -> &'static str {
    match level {
        Level::Good => "good",
        Level::Note => "note",
        Level::Poor => "poor",
        Level::Bad => "bad",
    }
}

/// Renders a table that scrolls sideways if it is wider than the screen, also by keyboard. `name` is for screen readers.
pub fn scrolling(name: &str, rows: &Markup) -> Markup {
    html! {
        div.wide tabindex="0" role="group" aria-label=(name) { table { (rows) } }
    }
}

/// Renders content that is collapsed below its title.
pub(super) fn folded(id: &str, title: &str, content: &Markup) -> Markup {
    html! {
        details.fold id=(id) {
            summary { h2 { (title) } }
            (content)
        }
    }
}

/// A group of figures: those of a direction or run, of an instrument, or of several runs together.
#[derive(Debug)]
pub(super) struct FigureGroup {
    /// Name in the switch between groups; empty for a single group.
    pub name: String,
    /// Figures of the group.
    pub figures: Vec<Figure>,
    /// Selection of the figures that are printed.
    pub printed: Printed,
}

/// Selects the figures of a group that are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Printed {
    All,
    /// Only figures that matter for decisions.
    Principal,
    None,
}

/// Names of the principal figures of a stream; the other figures explain details.
const PRINCIPAL: [&str; 3] = ["jitter", "dejitter", "loss-lengths"];

impl FigureGroup {
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

/// Views: name in addresses, name on the tab, and the text shown if a group has no figure for the view.
const TABS: [(FigureView, &str, &str, &str); 4] = [
    (FigureView::Time, "time", "over time", "No figures over time."),
    (FigureView::Distribution, "distribution", "distribution", "No distributions."),
    (FigureView::Buffer, "buffer", "buffer", "No figures of buffer sizes."),
    (FigureView::Loss, "loss", "loss", "No packet was lost, duplicated or reordered."),
];

/// Renders the figures as static drawings, for print and for readers without scripts. The script replaces them
/// with interactive figures behind tabs.
pub(super) fn plots(groups: &[FigureGroup]) -> Markup {
    if groups.iter().all(|g| g.figures.is_empty()) {
        return html! {
            section.plots { h2 { "Figures" } p { "No packet arrived." } }
        };
    }
    let has = |view: FigureView| groups.iter().flat_map(|g| &g.figures).any(|f| f.view() == view);
    let tabs: Vec<_> = TABS.iter().filter(|tab| has(tab.0)).collect();
    html! {
        section.plots {
            h2 { "Figures" }
            div.pane hidden {
                @if tabs.len() > 1 {
                    div.tabs role="tablist" aria-label="Figures" {
                        @for (_, id, name, _) in &tabs {
                            button type="button" role="tab" id={"tab-" (id)} aria-controls="drawn" data-tab=(id) { (name) }
                        }
                    }
                    label.pick {
                        "Figures "
                        select { @for (_, id, name, _) in &tabs { option value=(id) { (name) } } }
                    }
                }
                @if groups.len() > 1 {
                    div.ways role="group" aria-label="Packets of" {
                        @for (k, group) in groups.iter().enumerate() {
                            button type="button" data-group=(k) aria-pressed="false" { (group.name) }
                        }
                    }
                }
            }
            div #drawn {
                @for (k, group) in groups.iter().enumerate() {
                    @for tab in &tabs { (view(k, group, tab)) }
                }
            }
            p.help hidden {
                "Drag across a figure to zoom, double-click to reset. Click a name in a legend to hide its \
                 series. Keyboard: plus and minus zoom, arrows move, zero resets."
            }
        }
    }
}

/// Renders the figures of one view of a group, or a sentence if there is none.
fn view(k: usize, group: &FigureGroup, (view, id, _, without): &(FigureView, &str, &str, &str)) -> Markup {
    let figures: Vec<&Figure> = group.figures.iter().filter(|f| f.view() == *view).collect();
    html! {
        @for f in &figures {
            @let printed = group.prints(f).then_some("printed");
            figure id={"figure-" (anchor(&f.id))} data-group=(k) data-tab=(id) class=[printed] { (content(f)) }
        }
        @if figures.is_empty() { p.none data-group=(k) data-tab=(id) hidden { (without) } }
    }
}

/// Renders the figure of the first screen as a static drawing with an anchor.
pub(super) fn lead(f: &Figure) -> Markup {
    html! { figure id={"figure-" (anchor(&f.id))} class="lead" { (content(f)) } }
}

fn content(f: &Figure) -> Markup {
    html! {
        div.static { (PreEscaped(draw::inline_svg(f))) }
        figcaption { (f.about) }
    }
}

/// Converts the id of a figure to a part of its anchor.
fn anchor(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Serialises the figures for the script, by name.
pub(super) fn data(first: Option<&Figure>, groups: &[FigureGroup]) -> Markup {
    let list: Vec<&Figure> = first.into_iter().chain(groups.iter().flat_map(|g| &g.figures)).collect();
    // Figures contain only finite numbers and strings, which can always be serialised.
    let json = serde_json::to_string(&list).unwrap_or_else(|_| "[]".into());
    html! { script #figures type="application/json" { (PreEscaped(script_safe(&json))) } }
}

//! Parts of the selection that all views share: keys that end or redraw, pages, and the displayed time range.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Request of the user that does more than change the selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewerRequest {
    /// End the test, or the view of a saved one.
    End,
    /// Redraw the screen.
    Redraw,
}

/// Key that a view handles itself, or its effect if that is the same in all views.
pub(crate) enum Pressed {
    Key(KeyCode),
    Request(ViewerRequest),
    Nothing,
}

impl Pressed {
    pub(crate) fn of(key: KeyEvent) -> Pressed {
        if key.kind == KeyEventKind::Release {
            return Pressed::Nothing;
        }
        match (key.modifiers.contains(KeyModifiers::CONTROL), key.code) {
            (true, KeyCode::Char('c')) | (false, KeyCode::Char('q')) => Pressed::Request(ViewerRequest::End),
            (true, KeyCode::Char('l')) => Pressed::Request(ViewerRequest::Redraw),
            (true, _) => Pressed::Nothing,
            (false, code) => Pressed::Key(code),
        }
    }
}

/// Returns the page that is `by` pages after `tab`; after the last one comes the first.
pub(crate) fn turned<T: Copy + PartialEq>(tabs: &[(T, &str)], tab: T, by: usize) -> T {
    let at = tabs.iter().position(|(other, _)| *other == tab).unwrap_or(0);
    tabs.get((at + by) % tabs.len().max(1)).map_or(tab, |(tab, _)| *tab)
}

/// Returns the page with the number that was typed; `tab` if there is none.
pub(crate) fn numbered<T: Copy>(tabs: &[(T, &str)], tab: T, digit: char) -> T {
    let k = digit.to_digit(10).and_then(|n| (n as usize).checked_sub(1));
    k.and_then(|k| tabs.get(k)).map_or(tab, |(tab, _)| *tab)
}

/// Returns the start and end of the displayed time range within `all` ns. `span` is its length (`None`: all of it), `end` its end (`None`:
/// the current time).
pub(crate) fn window(span: Option<i64>, end: Option<i64>, all: i64) -> [i64; 2] {
    let span = span.unwrap_or(all).min(all);
    let end = end.unwrap_or(all).clamp(span, all);
    [end - span, end]
}

/// Returns the end of the time range that is a quarter of the displayed one later (`way` = 1) or earlier (-1); `None`: it follows the
/// current time, at `all` ns.
pub(crate) fn scrolled([from, to]: [i64; 2], all: i64, way: i64) -> Option<i64> {
    let end = to + way * ((to - from) / 4).max(1);
    (end < all).then(|| end.max(to - from))
}

//! [`PathViewing`]: the user's selection, and the effects of keys, without input or output.

use crate::selection::{self, Pressed, ViewerRequest};
use jitlat_core::SteadyTime;
use jitlat_core::path_history::PathHistory;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

/// The pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathTab {
    /// Table of hops, and the selected one in detail.
    #[default]
    Hops,
    /// The selected hop over time.
    History,
    /// Changes of the route.
    Changes,
}

impl PathTab {
    /// All pages with their names.
    pub const ALL: [(PathTab, &str); 3] =
        [(PathTab::Hops, "Hops"), (PathTab::History, "History"), (PathTab::Changes, "Changes")];
}

/// All keys and their effects, for the help.
pub const PATH_KEYS: [(&str, &str); 10] = [
    ("q, Ctrl-C", "end; the report of all hops follows"),
    ("Tab, Shift-Tab", "next page, previous page"),
    ("1 to 3", "page with this number"),
    ("↑, ↓, PgUp, PgDn", "select a hop"),
    ("n", "show names or addresses"),
    ("+, -", "history: zoom in and out"),
    ("←, →", "history: scroll in time"),
    ("0, End", "history: show everything; follow the current time"),
    ("Ctrl-L", "draw the screen again"),
    ("?", "this help"),
];

/// Selection of the user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathViewing {
    /// Selected page.
    pub tab: PathTab,
    /// True while the help is shown over the page.
    pub help: bool,
    /// Index of the selected hop; beyond the last hop: the last one.
    pub hop: usize,
    /// True if addresses are shown although their names are known.
    pub addresses: bool,
    /// Length of the displayed time range, in ns; `None`: everything.
    pub span: Option<i64>,
    /// End of the displayed time range, in ns since the first probe; `None`: follows the current time.
    pub end: Option<i64>,
}

/// Minimum length of the displayed time range, in ns.
const MIN_SPAN_NS: i64 = 1_000_000_000;

impl PathViewing {
    /// Returns the start and end of the displayed time range, in ns since the first probe.
    pub fn window(&self, path: &PathHistory, now: SteadyTime) -> [i64; 2] {
        selection::window(self.span, self.end, path.covered(now))
    }

    /// Handles a key; returns a request if the key does more than change the selection.
    pub fn key(&mut self, key: KeyEvent, path: &PathHistory, now: SteadyTime) -> Option<ViewerRequest> {
        let key = match Pressed::of(key) {
            Pressed::Key(key) => key,
            Pressed::Request(request) => return Some(request),
            Pressed::Nothing => return None,
        };
        let tabs = &PathTab::ALL;
        match key {
            KeyCode::Char('?') | KeyCode::F(1) => self.help = !self.help,
            _ if self.help => self.help = false,
            KeyCode::Tab => self.tab = selection::turned(tabs, self.tab, 1),
            KeyCode::BackTab => self.tab = selection::turned(tabs, self.tab, tabs.len() - 1),
            KeyCode::Char('0') => (self.span, self.end) = (None, None),
            KeyCode::End => self.end = None,
            KeyCode::Char(digit @ '1'..='9') => self.tab = selection::numbered(tabs, self.tab, digit),
            KeyCode::Char('n') => self.addresses = !self.addresses,
            KeyCode::Char('+' | '=') => self.zoom(path, now, true),
            KeyCode::Char('-') => self.zoom(path, now, false),
            KeyCode::Left => self.pass(path, now, -1),
            KeyCode::Right => self.pass(path, now, 1),
            KeyCode::Up => self.choose(path, -1),
            KeyCode::Down => self.choose(path, 1),
            KeyCode::PageUp => self.choose(path, -10),
            KeyCode::PageDown => self.choose(path, 10),
            _ => {}
        }
        None
    }

    fn choose(&mut self, path: &PathHistory, by: i64) {
        let last = path.hops().len().saturating_sub(1) as i64;
        self.hop = ((self.hop as i64).min(last) + by).clamp(0, last) as usize;
    }

    /// Zooms around the end.
    fn zoom(&mut self, path: &PathHistory, now: SteadyTime, closer: bool) {
        let [from, to] = self.window(path, now);
        let wanted = if closer { ((to - from) / 2).max(MIN_SPAN_NS) } else { (to - from).saturating_mul(2) };
        self.span = (wanted < path.covered(now)).then_some(wanted);
        self.end = self.end.filter(|_| self.span.is_some());
    }

    /// Scrolls by a quarter of the displayed time range.
    fn pass(&mut self, path: &PathHistory, now: SteadyTime, direction: i64) {
        self.end = selection::scrolled(self.window(path, now), path.covered(now), direction);
    }
}

//! [`PathViewing`]: the user's selection, and the effects of keys, without input or output.

use crate::viewing::ViewerRequest;
use jitlat_core::SteadyTime;
use jitlat_core::path_history::PathHistory;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

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
        let all = path.covered(now);
        let span = self.span.unwrap_or(all).min(all);
        let end = self.end.unwrap_or(all).clamp(span, all);
        [end - span, end]
    }

    /// Handles a key; returns a request if the key does more than change the selection.
    pub fn key(&mut self, key: KeyEvent, path: &PathHistory, now: SteadyTime) -> Option<ViewerRequest> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(ViewerRequest::End),
                KeyCode::Char('l') => Some(ViewerRequest::Redraw),
                _ => None,
            };
        }
        match key.code {
            KeyCode::Char('q') => return Some(ViewerRequest::End),
            KeyCode::Char('?') | KeyCode::F(1) => self.help = !self.help,
            _ if self.help => self.help = false,
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(PathTab::ALL.len() - 1),
            KeyCode::Char('0') => (self.span, self.end) = (None, None),
            KeyCode::End => self.end = None,
            KeyCode::Char(digit @ '1'..='9') => {
                let k = digit as usize - '1' as usize;
                self.tab = PathTab::ALL.get(k).map_or(self.tab, |(tab, _)| *tab);
            }
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

    fn turn(&mut self, by: usize) {
        let at = PathTab::ALL.iter().position(|(tab, _)| *tab == self.tab).unwrap_or(0);
        self.tab = PathTab::ALL[(at + by) % PathTab::ALL.len()].0;
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
        let [from, to] = self.window(path, now);
        let end = to + direction * ((to - from) / 4).max(1);
        self.end = (end < path.covered(now)).then(|| end.max(to - from));
    }
}

//! [`Viewing`]: the user's selection, and the effects of keys, without input or output.

use super::Board;
use super::screen::targets::COLUMNS;
use super::selection::{self, Pressed, ViewerRequest};
use jitlat_core::SteadyTime;
use jitlat_core::scalars::SCALARS;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

/// The pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewTab {
    /// Table of all tests; only with several targets.
    Targets,
    /// Delay and loss over time.
    Overview,
    /// Histogram and distribution function.
    Distribution,
    /// All figures.
    Figures,
    /// Both hosts and their clocks.
    Hosts,
}

/// All pages with their names. The first one only exists with several targets.
pub const TABS: [(ViewTab, &str); 5] = [
    (ViewTab::Targets, "Targets"),
    (ViewTab::Overview, "Overview"),
    (ViewTab::Distribution, "Distribution"),
    (ViewTab::Figures, "Figures"),
    (ViewTab::Hosts, "Hosts"),
];

/// All keys and their effects, for the help.
pub const KEYS: [(&str, &str); 12] = [
    ("q, Ctrl-C", "end the test; results so far are stored and reported"),
    ("Tab, Shift-Tab", "next page, previous page"),
    ("1 to 5", "page with this number"),
    ("+, -", "zoom in and out"),
    ("←, →", "scroll in time; a running test continues"),
    ("Home, End", "go to the beginning; go to the end, which follows a running test"),
    ("0", "show the whole test"),
    (", .", "move the time cursor; Esc removes it"),
    ("↑, ↓, PgUp, PgDn", "select a figure or a target"),
    ("s, r", "targets: sort by the next column; reverse the order"),
    ("Enter", "targets: open the selected one"),
    ("?", "this help"),
];

/// Selection of the user.
#[derive(Clone, Debug, PartialEq)]
pub struct Viewing {
    /// Selected page.
    pub tab: ViewTab,
    /// True while the help is shown over the page.
    pub help: bool,
    /// Length of the displayed time range, in ns; `None`: the whole test.
    pub span: Option<i64>,
    /// End of the displayed time range, in ns since the start; `None`: follows the current time.
    pub end: Option<i64>,
    /// Position of the time cursor, as a share of the displayed time range; `None`: no cursor.
    pub cursor: Option<f64>,
    /// Index of the selected figure among the figures that apply to the target.
    pub figure: usize,
    /// Selected target.
    pub target: usize,
    /// Column by which targets are sorted, counted from the left.
    pub sort: usize,
    /// True if the largest values come first.
    pub falling: bool,
}

/// Minimum length of the displayed time range, in ns.
const MIN_SPAN_NS: i64 = 100_000_000;

impl Viewing {
    /// Creates the initial selection for this number of targets.
    pub fn new(targets: usize) -> Viewing {
        Viewing {
            tab: if targets > 1 { ViewTab::Targets } else { ViewTab::Overview },
            help: false,
            span: None,
            end: None,
            cursor: None,
            figure: 0,
            target: 0,
            sort: 0,
            falling: false,
        }
    }

    /// Pages of a view with this number of targets.
    pub fn tabs(targets: usize) -> &'static [(ViewTab, &'static str)] {
        if targets > 1 { &TABS } else { &TABS[1..] }
    }

    /// Returns the start and end of the displayed time range, in ns since the start of the selected test.
    pub fn window(&self, board: &Board, now: SteadyTime) -> [i64; 2] {
        let all = board.target(self.target).map_or(1_000_000_000, |state| state.end(now));
        selection::window(self.span, self.end, all)
    }

    /// Handles a key; returns a request if the key does more than change the selection.
    pub fn key(&mut self, key: KeyEvent, board: &Board, now: SteadyTime) -> Option<ViewerRequest> {
        let key = match Pressed::of(key) {
            Pressed::Key(key) => key,
            Pressed::Request(request) => return Some(request),
            Pressed::Nothing => return None,
        };
        let tabs = Viewing::tabs(board.targets.len());
        match key {
            KeyCode::Char('?') | KeyCode::F(1) => self.help = !self.help,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Esc => self.cursor = None,
            _ if self.help => self.help = false,
            KeyCode::Tab => self.tab = selection::turned(tabs, self.tab, 1),
            KeyCode::BackTab => self.tab = selection::turned(tabs, self.tab, tabs.len() - 1),
            KeyCode::Char('0') => (self.span, self.end) = (None, None),
            KeyCode::Char(digit @ '1'..='9') => self.tab = selection::numbered(tabs, self.tab, digit),
            KeyCode::Char('+' | '=') => self.zoom(board, now, true),
            KeyCode::Char('-') => self.zoom(board, now, false),
            KeyCode::Left => self.pass(board, now, -1),
            KeyCode::Right => self.pass(board, now, 1),
            KeyCode::Home => self.end = Some(0),
            KeyCode::End => self.end = None,
            KeyCode::Char(',') => self.point(-1),
            KeyCode::Char('.') => self.point(1),
            KeyCode::Up => self.choose(board, -1),
            KeyCode::Down => self.choose(board, 1),
            KeyCode::PageUp => self.choose(board, -10),
            KeyCode::PageDown => self.choose(board, 10),
            KeyCode::Char('s') => self.sort = (self.sort + 1) % COLUMNS.len(),
            KeyCode::Char('r') => self.falling = !self.falling,
            KeyCode::Enter if self.tab == ViewTab::Targets => self.tab = ViewTab::Overview,
            _ => {}
        }
        None
    }

    /// Zooms around the cursor if there is one, else around the end if it follows the current time, else around
    /// the middle.
    fn zoom(&mut self, board: &Board, now: SteadyTime, closer: bool) {
        let [from, to] = self.window(board, now);
        let span = to - from;
        let all = board.target(self.target).map_or(span, |state| state.end(now));
        let wanted = if closer { (span / 2).max(MIN_SPAN_NS) } else { span.saturating_mul(2) };
        if wanted >= all {
            (self.span, self.end) = (None, None);
            return;
        }
        self.span = Some(wanted);
        let at = match (self.cursor, self.end) {
            (Some(share), _) => share,
            (None, None) => return,
            (None, Some(_)) => 0.5,
        };
        let fixed = from + (span as f64 * at) as i64;
        let end = fixed + (wanted as f64 * (1.0 - at)) as i64;
        self.end = Some(end.clamp(wanted, all)).filter(|end| *end < all || self.end.is_some());
    }

    /// Scrolls by a quarter of the displayed time range.
    fn pass(&mut self, board: &Board, now: SteadyTime, way: i64) {
        let shown = self.window(board, now);
        let all = board.target(self.target).map_or(shown[1], |state| state.end(now));
        self.end = selection::scrolled(shown, all, way);
    }

    fn point(&mut self, way: i64) {
        let at = self.cursor.map_or(if way < 0 { 1.0 } else { 0.0 }, |at| at + way as f64 / 100.0);
        self.cursor = Some(at.clamp(0.0, 1.0));
    }

    fn choose(&mut self, board: &Board, by: i64) {
        let (at, most) = match self.tab {
            ViewTab::Targets => (&mut self.target, board.targets.len()),
            _ => (&mut self.figure, SCALARS.len()),
        };
        if self.tab == ViewTab::Targets {
            // Move in the displayed order.
            let order = board.order(self.sort, self.falling);
            let place = order.iter().position(|k| *k == *at).unwrap_or(0) as i64;
            let next = (place + by).clamp(0, most as i64 - 1);
            *at = usize::try_from(next).ok().and_then(|k| order.get(k)).copied().unwrap_or(0);
            return;
        }
        *at = (*at as i64 + by).clamp(0, most as i64 - 1) as usize;
    }
}

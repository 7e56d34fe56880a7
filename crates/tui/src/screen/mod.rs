//! The screen: a pure function of the tests' state, the user's selection and the terminal's capabilities.
//!
//! * [`overview`] – delay and loss over time, and a table; [`distribution`] – histogram and distribution function
//! * [`figures`] – all figures; [`hosts`] – the two hosts and their clocks; [`targets`] – many tests at once
//! * `plot` – curves; `table` – the table of streams; `help` – the keys

mod distribution;
mod figures;
pub(crate) mod help;
mod hosts;
mod overview;
pub(crate) mod plot;
mod table;
pub(crate) mod targets;

use super::Board;
use super::look::Look;
use super::viewing::{KEYS, ViewTab, Viewing};
use jitlat_core::live::{LivePhase, LiveState};
use jitlat_core::units::duration;
use jitlat_core::{Span, SteadyTime, Summary};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Everything that determines a screen.
#[derive(Clone, Copy, Debug)]
pub struct ScreenState<'a> {
    /// State of all tests.
    pub board: &'a Board,
    /// Selection of the user.
    pub viewing: &'a Viewing,
    /// Capabilities of the terminal.
    pub look: Look,
    /// Summary of each stream of the selected test; `None` if not computed.
    pub summaries: &'a [Option<Summary>],
    /// Current time, for running tests.
    pub now: SteadyTime,
}

impl<'a> ScreenState<'a> {
    fn state(&self) -> Option<&'a LiveState> {
        self.board.target(self.viewing.target)
    }
}

/// Minimum size of a screen.
const MIN_SIZE: (u16, u16) = (40, 10);

/// Draws the whole screen.
pub fn draw(shown: &ScreenState<'_>, buffer: &mut Buffer) {
    let area = buffer.area;
    if is_too_small(buffer) {
        return;
    }
    header(shown, buffer);
    footer(shown, buffer);
    let inner = Rect { y: area.y + 2, height: area.height - 3, ..area };
    match shown.viewing.tab {
        _ if shown.viewing.help => help::draw(&KEYS, shown.look, inner, buffer),
        ViewTab::Targets => targets::draw(shown, inner, buffer),
        ViewTab::Overview => overview::draw(shown, inner, buffer),
        ViewTab::Distribution => distribution::draw(shown, inner, buffer),
        ViewTab::Figures => figures::draw(shown, inner, buffer),
        ViewTab::Hosts => hosts::draw(shown, inner, buffer),
    }
    shown.look.adapt(buffer);
}

/// True if the screen is too small to draw on; writes this on the screen.
pub(crate) fn is_too_small(buffer: &mut Buffer) -> bool {
    let area = buffer.area;
    let is_small = area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1;
    if is_small {
        let text = format!("terminal too small: {} x {} characters needed", MIN_SIZE.0, MIN_SIZE.1);
        write(buffer, (area.x, area.y), area.right(), &text, Style::new());
    }
    is_small
}

/// Writes `text` at a position, truncated before column `end`; returns the next column.
pub(crate) fn write(buffer: &mut Buffer, (x, y): (u16, u16), end: u16, text: &str, style: Style) -> u16 {
    if x >= end || y >= buffer.area.bottom() {
        return x;
    }
    // Names come from hosts and users, and may contain control characters.
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    buffer.set_stringn(x, y, plain, usize::from(end - x), style).0
}

/// Draws the first two lines: the test with its progress, and the names of the pages.
fn header(shown: &ScreenState<'_>, buffer: &mut Buffer) {
    let (area, look) = (buffer.area, shown.look);
    let name = match shown.viewing.tab {
        ViewTab::Targets => format!("{} targets", shown.board.targets.len()),
        _ => shown.state().map(|state| state.name.clone()).unwrap_or_default(),
    };
    let phase = shown.state().map(|state| phase(state, shown.now)).unwrap_or_default();
    let phase = if shown.viewing.tab == ViewTab::Targets { String::new() } else { phase };
    let x = write(buffer, (area.x, area.y), area.right(), &format!("jitlat  {name}  "), look.title());
    write(buffer, (x, area.y), area.right(), &phase, Style::new());
    let mut x = area.x;
    let names = |short: bool| {
        let tabs = Viewing::tabs(shown.board.targets.len()).iter().enumerate();
        tabs.map(move |(k, (tab, name))| {
            let name = if short { &name[..4] } else { name };
            (*tab, format!("{} {name}", k + 1))
        })
    };
    let width: usize = names(false).map(|(_, name)| name.len() + 2).sum();
    for (tab, name) in names(width > usize::from(area.width)) {
        let style = if tab == shown.viewing.tab { look.chosen() } else { Style::new() };
        x = write(buffer, (x, area.y + 1), area.right(), &name, style);
        x = write(buffer, (x, area.y + 1), area.right(), "  ", Style::new());
    }
}

/// Describes the progress of a test.
fn phase(state: &LiveState, now: SteadyTime) -> String {
    match &state.phase {
        LivePhase::Waiting => String::new(),
        LivePhase::Connecting(address, false) => format!("connecting to {address}"),
        LivePhase::Connecting(address, true) => format!("{address}: no answer yet"),
        LivePhase::Probing(done, of) => format!("measuring the clocks: {done} of {of}"),
        LivePhase::Running => {
            let elapsed = state.elapsed(now).unwrap_or(0.0);
            let of = state.planned().map_or_else(String::new, |ns| format!(" of {}", duration(Span(ns))));
            format!("{elapsed:.1} s{of}")
        }
        LivePhase::Collecting(done, of) => format!("collecting results: {done} of {of}"),
        LivePhase::Over => format!("{:.1} s", state.end(now) as f64 / 1e9),
        LivePhase::Failed(why) => why.clone(),
    }
}

/// Draws the last line: values at the time cursor, or the most important keys.
fn footer(shown: &ScreenState<'_>, buffer: &mut Buffer) {
    let area = buffer.area;
    let saved = shown.board.saved;
    let end = if saved { "q leave" } else { "q end the test" };
    let keys = match shown.viewing.tab {
        _ if shown.viewing.help => "any key: back".to_owned(),
        ViewTab::Targets => format!("? help  {end}  s sort  r reverse  Enter open  Tab page"),
        ViewTab::Figures => format!("? help  {end}  ↑↓ choose  Tab page"),
        ViewTab::Overview => format!("? help  {end}  Tab page  + - zoom  ← → time  , . cursor"),
        _ => format!("? help  {end}  Tab page"),
    };
    write(buffer, (area.x, area.bottom() - 1), area.right(), &keys, shown.look.faint());
}

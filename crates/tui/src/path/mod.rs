//! Full-screen view of a path while it is probed: [`PathView`] controls the terminal, [`draw`] draws a [`PathScreenState`].
//!
//! * `viewing` – the user's selection, and the effects of keys; `hops` – the table of hops, and the selected one in detail
//! * `over_time` – the selected hop over time, and the changes of the route

mod hops;
mod over_time;
#[cfg(test)]
mod tests;
mod viewing;

pub use viewing::{PATH_KEYS, PathTab, PathViewing};

use crate::look::Look;
use crate::screen::{help, is_too_small, write};
use crate::selection::ViewerRequest;
use crate::terminal::{Drawing, LiveScreen, ViewError, lock};
use jitlat_core::path_history::{FlowNumber, PathEvent, PathHistory};
use jitlat_core::units::duration;
use jitlat_core::{Dscp, Span, SteadyTime};
use jitlat_instruments::Stop;
use jitlat_net::clock::{steady, wall};
use jitlat_net::names::{AddressNames, Names};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyEvent;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// State of a path that is probed.
#[derive(Clone, Debug)]
pub struct PathBoard {
    /// Name of the far host, as the user wrote it.
    pub host: String,
    /// Description of the probes, such as `UDP port 33434`.
    pub probes: String,
    /// DSCP of the probes.
    pub dscp: Dscp,
    /// Number of flows.
    pub flows: FlowNumber,
    /// Planned number of rounds; `None`: until the user ends the test.
    pub planned: Option<u32>,
    /// The hops.
    pub history: PathHistory,
}

/// Everything that determines the screen of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathScreenState<'a> {
    /// State of the path.
    pub board: &'a PathBoard,
    /// Selection of the user.
    pub viewing: &'a PathViewing,
    /// Names of routers that are known so far.
    pub names: &'a HashMap<IpAddr, AddressNames>,
    /// Capabilities of the terminal.
    pub look: Look,
    /// Current time.
    pub now: SteadyTime,
}

impl PathScreenState<'_> {
    /// Returns the name of an address with its autonomous system; the address instead of the name if it has none, or if the user has
    /// selected addresses.
    fn name(&self, address: IpAddr) -> String {
        let known = self.names.get(&address);
        let name = known.and_then(|known| known.name.clone()).filter(|_| !self.viewing.addresses);
        let text = name.unwrap_or_else(|| address.to_string());
        match known.and_then(|known| known.origin.as_deref()) {
            Some(origin) => format!("{text} {origin}"),
            None => text,
        }
    }
}

/// Draws the whole screen.
pub fn draw(shown: &PathScreenState<'_>, buffer: &mut Buffer) {
    let area = buffer.area;
    if is_too_small(buffer) {
        return;
    }
    header(shown, buffer);
    let keys = match shown.viewing.tab {
        _ if shown.viewing.help => "any key: back",
        PathTab::Hops => "? help  q end  ↑↓ hop  n names  Tab page",
        PathTab::History => "? help  q end  ↑↓ hop  + - zoom  ← → time  Tab page",
        PathTab::Changes => "? help  q end  Tab page",
    };
    write(buffer, (area.x, area.bottom() - 1), area.right(), keys, shown.look.faint());
    let inner = Rect { y: area.y + 2, height: area.height - 3, ..area };
    match shown.viewing.tab {
        _ if shown.viewing.help => help::draw(&PATH_KEYS, shown.look, inner, buffer),
        PathTab::Hops => hops::draw(shown, inner, buffer),
        PathTab::History => over_time::history(shown, inner, buffer),
        PathTab::Changes => over_time::changes(shown, inner, buffer),
    }
    shown.look.adapt(buffer);
}

/// Draws the first two lines: the path with its progress, and the names of the pages.
fn header(shown: &PathScreenState<'_>, buffer: &mut Buffer) {
    let (area, look, board) = (buffer.area, shown.look, shown.board);
    let x = write(
        buffer,
        (area.x, area.y),
        area.right(),
        &format!("jitlat path  {}  ", board.host),
        look.title(),
    );
    let elapsed = board.history.covered(shown.now);
    let rounds = match board.planned {
        Some(planned) => format!("round {} of {planned}", board.history.rounds),
        None => duration(Span(elapsed / 1_000_000_000 * 1_000_000_000)),
    };
    let flows = if board.flows > 1 { format!(", {} flows", board.flows) } else { String::new() };
    let text = format!("{rounds}  {}, DSCP {}{flows}", board.probes, board.dscp);
    write(buffer, (x, area.y), area.right(), &text, Style::new());
    let mut x = area.x;
    for (k, (tab, name)) in PathTab::ALL.iter().enumerate() {
        let count = match (tab, board.history.changes.len()) {
            (PathTab::Changes, changes) if changes > 0 => format!(" ({changes})"),
            _ => String::new(),
        };
        let style = if *tab == shown.viewing.tab { look.chosen() } else { Style::new() };
        x = write(buffer, (x, area.y + 1), area.right(), &format!("{} {name}{count}", k + 1), style);
        x = write(buffer, (x, area.y + 1), area.right(), "  ", Style::new());
    }
}

/// A view of a path on the terminal; drawn until it is dropped.
pub struct PathView {
    board: Arc<Mutex<PathBoard>>,
    names: Arc<Names>,
    _drawing: Drawing,
}

impl PathView {
    /// Takes over the terminal and draws `board`; a key that ends the examination requests `stop`. Addresses are looked up in
    /// `names`. `while_taken`, for example a guard that holds back other output, is dropped once the terminal is restored.
    ///
    /// # Errors
    /// [`ViewError`]; the terminal is unchanged in that case.
    pub fn start(
        board: PathBoard,
        names: Arc<Names>,
        look: Look,
        while_taken: impl Send + 'static,
        stop: &Stop,
    ) -> Result<PathView, ViewError> {
        let board = Arc::new(Mutex::new(board));
        let screen = PathScreen {
            board: board.clone(),
            names: names.clone(),
            known: HashMap::new(),
            viewing: PathViewing::default(),
            look,
        };
        Ok(PathView { board, names, _drawing: Drawing::start(screen, while_taken, stop)? })
    }

    /// Updates the view with an event of the path.
    pub fn event(&self, event: &PathEvent<'_>) {
        if let PathEvent::Answered(_, reply) = event {
            self.names.ask(reply.from);
        }
        lock(&self.board).history.event(event, steady(), wall());
    }
}

struct PathScreen {
    board: Arc<Mutex<PathBoard>>,
    names: Arc<Names>,
    known: HashMap<IpAddr, AddressNames>,
    viewing: PathViewing,
    look: Look,
}

impl LiveScreen for PathScreen {
    fn prepare(&mut self) {
        self.known = self.names.known();
        lock(&self.board).history.expire(steady());
    }

    fn draw(&self, picture: &mut Buffer) {
        let board = lock(&self.board);
        let PathScreen { known, viewing, look, .. } = self;
        draw(&PathScreenState { board: &board, viewing, names: known, look: *look, now: steady() }, picture);
    }

    fn key(&mut self, key: KeyEvent) -> Option<ViewerRequest> {
        let board = lock(&self.board);
        self.viewing.key(key, &board.history, steady())
    }
}

//! [`View`]: takes over the terminal, restores it, and runs the thread that draws on it.

use super::Board;
use super::look::Look;
use super::screen::{self, ScreenState};
use super::viewing::{ViewTab, ViewerRequest, Viewing};
use jitlat_core::Summary;
use jitlat_core::live::LivePhase;
use jitlat_core::live::{StreamState, summary};
use jitlat_core::observer::{Event as TestEvent, Observer};
use jitlat_instruments::Stop;
use jitlat_net::clock::steady;
use jitlat_net::pace;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use std::fs::File;
use std::io::{self, IsTerminal, Stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between two frames, unless a key is pressed.
const FRAME_INTERVAL: Duration = Duration::from_millis(250);
/// Time between two computations of all figures while the figures are visible.
const FIGURES_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout for the last frame, once the test is over.
const LAST_FRAME_TIMEOUT: Duration = Duration::from_secs(1);

/// True while the terminal is taken over.
static TERMINAL_TAKEN: AtomicBool = AtomicBool::new(false);

/// Restores the terminal, if it was taken over. Errors are ignored, because no message could be shown.
fn give_back() {
    if TERMINAL_TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// The terminal while it is taken over; restored when dropped, and when the program panics.
struct OwnedTerminal {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// Dropped once the terminal is restored.
    _while_taken: Box<dyn Send>,
}

/// Reason why a view could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// Neither standard input nor the controlling terminal can be read from.
    #[error("no terminal to read keys from")]
    Keyboard(#[source] io::Error),
    /// Standard output could not be switched to full screen.
    #[error("taking over the terminal")]
    Terminal(#[source] io::Error),
    /// The drawing thread could not be started.
    #[error("starting the drawing thread")]
    Thread(#[source] io::Error),
}

impl OwnedTerminal {
    fn take(while_taken: Box<dyn Send>) -> io::Result<OwnedTerminal> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                usual(panic);
            }));
        });
        enable_raw_mode()?;
        TERMINAL_TAKEN.store(true, Ordering::SeqCst);
        let taken = execute!(io::stdout(), EnterAlternateScreen, Hide).and_then(|()| {
            let backend = CrosstermBackend::new(io::stdout());
            Terminal::with_options(backend, TerminalOptions { viewport: Viewport::Fullscreen })
        });
        match taken {
            Ok(terminal) => Ok(OwnedTerminal { terminal, _while_taken: while_taken }),
            Err(e) => {
                give_back();
                Err(e)
            }
        }
    }
}

impl Drop for OwnedTerminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// A view on the terminal; drawn until [`View::finish`] is called or the view is dropped.
pub struct View {
    board: Arc<Mutex<Board>>,
    over: Arc<AtomicBool>,
    stop: Stop,
    drawing: Option<JoinHandle<()>>,
}

fn lock(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

impl View {
    /// Takes over the terminal and draws `board`; a key that ends the test requests `stop`. `while_taken`, for
    /// example a guard that holds back other output, is dropped once the terminal is restored.
    ///
    /// # Errors
    /// [`ViewError`]; the terminal is unchanged in that case.
    pub fn start(
        board: Board,
        look: Look,
        while_taken: impl Send + 'static,
        stop: &Stop,
    ) -> Result<View, ViewError> {
        let keyboard = keyboard().map_err(ViewError::Keyboard)?;
        let taken = OwnedTerminal::take(Box::new(while_taken)).map_err(ViewError::Terminal)?;
        let (board, over) = (Arc::new(Mutex::new(board)), Arc::new(AtomicBool::new(false)));
        let drawer = Drawer {
            taken,
            keyboard,
            viewing: Viewing::new(lock(&board).targets.len()),
            board: board.clone(),
            over: over.clone(),
            stop: stop.clone(),
            look,
            summaries: Vec::new(),
            computed: None,
        };
        let drawing = thread::Builder::new().name("view".to_owned()).spawn(move || drawer.run());
        let drawing = drawing.map_err(ViewError::Thread)?;
        Ok(View { board, over, stop: stop.clone(), drawing: Some(drawing) })
    }

    /// Returns an observer for the test of a target.
    pub fn follow(&self, target: usize) -> BoardObserver {
        BoardObserver { board: self.board.clone(), target }
    }

    /// Shows that the test of a target failed, and why.
    pub fn failed(&self, target: usize, why: String) {
        if let Some(state) = lock(&self.board).targets.get_mut(target) {
            state.phase = LivePhase::Failed(why);
        }
    }

    /// Waits until the user quits, or a stop is requested.
    pub fn wait(mut self) {
        while self.drawing.as_ref().is_some_and(|drawing| !drawing.is_finished()) && !self.stop.is_requested()
        {
            thread::sleep(Duration::from_millis(50));
        }
        self.finish();
    }

    /// Restores the terminal.
    pub fn finish(&mut self) {
        self.over.store(true, Ordering::Release);
        let Some(drawing) = self.drawing.take() else { return };
        let since = Instant::now();
        while !drawing.is_finished() && since.elapsed() < LAST_FRAME_TIMEOUT {
            thread::sleep(Duration::from_millis(5));
        }
        if drawing.is_finished() {
            // A panic in the thread has already restored the terminal and printed a message.
            let _ = drawing.join();
        } else {
            // A terminal that accepts no more output must not block the test.
            give_back();
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Updates the board with the events of a test.
pub struct BoardObserver {
    board: Arc<Mutex<Board>>,
    target: usize,
}

impl Observer for BoardObserver {
    fn event(&mut self, event: &TestEvent<'_>) {
        let now = steady();
        if let Some(state) = lock(&self.board).targets.get_mut(self.target) {
            state.event(event, now);
        }
    }
}

/// Opens the source of keys: standard input or the controlling terminal, as crossterm does.
fn keyboard() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        stdin.as_fd().try_clone_to_owned()
    } else {
        File::open("/dev/tty").map(OwnedFd::from)
    }
}

/// Waits until there is input, or until `limit` has passed.
///
/// # Errors
/// If the terminal is gone. In that case crossterm would read forever, so this function is called before every read.
fn wait_for_input(keyboard: &OwnedFd, limit: Duration) -> io::Result<()> {
    let mut waiting = [PollFd::new(keyboard.as_fd(), PollFlags::POLLIN)];
    let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO);
    match poll(&mut waiting, limit) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(e) => return Err(e.into()),
    }
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    if waiting[0].revents().is_some_and(|events| events.intersects(gone)) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

/// The thread that draws and reads keys.
struct Drawer {
    taken: OwnedTerminal,
    keyboard: OwnedFd,
    board: Arc<Mutex<Board>>,
    over: Arc<AtomicBool>,
    stop: Stop,
    viewing: Viewing,
    look: Look,
    summaries: Vec<Option<Summary>>,
    /// Time of the last computation of the figures, and their target; `None` before the first.
    computed: Option<(Instant, usize)>,
}

impl Drawer {
    fn run(mut self) {
        // Threads that handle packets have priority.
        pace::yield_to_others();
        let saved = lock(&self.board).saved;
        while !self.over.load(Ordering::Acquire) {
            if saved && self.stop.is_requested() {
                return;
            }
            self.compute_figures();
            // The terminal is gone: the test continues without it.
            if self.draw().is_err() {
                return;
            }
            match self.keys() {
                Ok(None) => {}
                // An error occurs again when the next frame is drawn.
                Ok(Some(ViewerRequest::Redraw)) => drop(self.taken.terminal.clear()),
                Ok(Some(ViewerRequest::End)) if saved => return,
                Ok(Some(ViewerRequest::End)) => self.stop.request(),
                Err(_) => return,
            }
        }
    }

    /// Draws one frame. The board is locked while the frame is rendered, but not while it is written to the terminal.
    fn draw(&mut self) -> io::Result<()> {
        let size = self.taken.terminal.size()?;
        let mut picture = Buffer::empty(Rect::new(0, 0, size.width, size.height));
        {
            let board = lock(&self.board);
            let Drawer { viewing, look, summaries, .. } = self;
            let shown = ScreenState { board: &board, viewing, look: *look, summaries, now: steady() };
            screen::draw(&shown, &mut picture);
        }
        self.taken.terminal.draw(|frame| {
            // The terminal may have been resized in the meantime.
            if frame.area() == picture.area {
                *frame.buffer_mut() = picture;
            }
        })?;
        Ok(())
    }

    /// Handles keys until the next frame is due, or something changes.
    fn keys(&mut self) -> io::Result<Option<ViewerRequest>> {
        wait_for_input(&self.keyboard, FRAME_INTERVAL)?;
        if !event::poll(Duration::ZERO)? {
            return Ok(None);
        }
        let mut request = None;
        // Limited, because held keys may arrive faster than frames are drawn.
        for _ in 0..64 {
            match event::read()? {
                Event::Key(key) => {
                    let board = lock(&self.board);
                    request = self.viewing.key(key, &board, steady()).or(request);
                }
                Event::Resize(..) => request = request.or(Some(ViewerRequest::Redraw)),
                _ => {}
            }
            if !event::poll(Duration::ZERO)? {
                break;
            }
        }
        Ok(request)
    }

    /// Computes all figures, if they are visible and due.
    fn compute_figures(&mut self) {
        let target = self.viewing.target;
        let fresh = |(at, of): (Instant, usize)| of == target && at.elapsed() < FIGURES_INTERVAL;
        if self.viewing.tab != ViewTab::Figures || self.computed.is_some_and(fresh) {
            return;
        }
        let (saved, analyses) = {
            let board = lock(&self.board);
            let streams = board.target(target).map(|state| &state.streams[..]).unwrap_or_default();
            (board.saved, streams.iter().map(StreamState::analysis).collect::<Vec<_>>())
        };
        if saved && self.computed.is_some_and(|(_, of)| of == target) {
            return;
        }
        self.summaries = analyses.into_iter().map(|analysis| analysis.map(summary)).collect();
        self.computed = Some((Instant::now(), target));
    }
}

//! [`View`]: takes over the terminal, restores it, and runs the thread that draws on it.

use super::Board;
use super::look::Look;
use super::screen::{self, ScreenState};
use super::selection::ViewerRequest;
use super::viewing::{ViewTab, Viewing};
use jitlat_core::live::LivePhase;
use jitlat_core::live::{StreamState, summary};
use jitlat_core::observer::{Event as TestEvent, Observer};
use jitlat_core::{Span, Summary};
use jitlat_instruments::Stop;
use jitlat_net::clock::steady;
use jitlat_net::pace;
use jitlat_net::wake::Keyboard;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyEvent};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use std::io::{self, Stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between two frames, unless a key is pressed.
const FRAME_INTERVAL: Span = Span::millis(250);
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

/// Content of a full-screen view.
pub(crate) trait LiveScreen: Send + 'static {
    /// Does slow computations before the next frame.
    fn prepare(&mut self) {}

    /// Draws one frame into an empty buffer.
    fn draw(&self, picture: &mut Buffer);

    /// Handles a key.
    fn key(&mut self, key: KeyEvent) -> Option<ViewerRequest>;

    /// True if nothing runs, so that quitting ends only the view.
    fn is_saved(&self) -> bool {
        false
    }
}

/// The thread that draws a [`LiveScreen`], until [`Drawing::finish`] is called or this value is dropped.
pub(crate) struct Drawing {
    over: Arc<AtomicBool>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Drawing {
    /// Takes over the terminal and draws `screen`; see [`View::start`].
    pub(crate) fn start(
        screen: impl LiveScreen,
        while_taken: impl Send + 'static,
        stop: &Stop,
    ) -> Result<Drawing, ViewError> {
        let keyboard = Keyboard::open().map_err(ViewError::Keyboard)?;
        let taken = OwnedTerminal::take(Box::new(while_taken)).map_err(ViewError::Terminal)?;
        let over = Arc::new(AtomicBool::new(false));
        let drawer = Drawer { taken, keyboard, screen, over: over.clone(), stop: stop.clone() };
        let thread = thread::Builder::new().name("view".to_owned()).spawn(move || drawer.run());
        Ok(Drawing { over, stop: stop.clone(), thread: Some(thread.map_err(ViewError::Thread)?) })
    }

    /// Waits until the user quits, or a stop is requested.
    fn wait(mut self) {
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && !self.stop.is_requested() {
            thread::sleep(Duration::from_millis(50));
        }
        self.finish();
    }

    /// Restores the terminal.
    pub(crate) fn finish(&mut self) {
        self.over.store(true, Ordering::Release);
        let Some(drawing) = self.thread.take() else { return };
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

impl Drop for Drawing {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A view on the terminal; drawn until [`View::finish`] is called or the view is dropped.
pub struct View {
    board: Arc<Mutex<Board>>,
    drawing: Drawing,
}

pub(crate) fn lock<T>(board: &Mutex<T>) -> MutexGuard<'_, T> {
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
        let viewing = Viewing::new(board.targets.len());
        let board = Arc::new(Mutex::new(board));
        let screen =
            TestScreen { board: board.clone(), viewing, look, summaries: Vec::new(), computed: None };
        Ok(View { board, drawing: Drawing::start(screen, while_taken, stop)? })
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
    pub fn wait(self) {
        self.drawing.wait();
    }

    /// Restores the terminal.
    pub fn finish(&mut self) {
        self.drawing.finish();
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

/// The thread that draws and reads keys.
struct Drawer<S> {
    taken: OwnedTerminal,
    keyboard: Keyboard,
    screen: S,
    over: Arc<AtomicBool>,
    stop: Stop,
}

impl<S: LiveScreen> Drawer<S> {
    fn run(mut self) {
        // Threads that handle packets have priority.
        pace::yield_to_others();
        let saved = self.screen.is_saved();
        while !self.over.load(Ordering::Acquire) {
            if saved && self.stop.is_requested() {
                return;
            }
            self.screen.prepare();
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

    fn draw(&mut self) -> io::Result<()> {
        let size = self.taken.terminal.size()?;
        let mut picture = Buffer::empty(Rect::new(0, 0, size.width, size.height));
        self.screen.draw(&mut picture);
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
        // If the terminal is gone, this fails; crossterm would read forever.
        self.keyboard.wait(FRAME_INTERVAL)?;
        if !event::poll(Duration::ZERO)? {
            return Ok(None);
        }
        let mut request = None;
        // Limited, because held keys may arrive faster than frames are drawn.
        for _ in 0..64 {
            match event::read()? {
                Event::Key(key) => request = self.screen.key(key).or(request),
                Event::Resize(..) => request = request.or(Some(ViewerRequest::Redraw)),
                _ => {}
            }
            if !event::poll(Duration::ZERO)? {
                break;
            }
        }
        Ok(request)
    }
}

/// Screen of one or more tests.
struct TestScreen {
    board: Arc<Mutex<Board>>,
    viewing: Viewing,
    look: Look,
    summaries: Vec<Option<Summary>>,
    /// Time of the last computation of the figures, and their target; `None` before the first.
    computed: Option<(Instant, usize)>,
}

impl LiveScreen for TestScreen {
    /// Computes all figures, if they are visible and due.
    fn prepare(&mut self) {
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

    /// Draws one frame. The board is locked while the frame is rendered, but not while it is written to the terminal.
    fn draw(&self, picture: &mut Buffer) {
        let board = lock(&self.board);
        let TestScreen { viewing, look, summaries, .. } = self;
        let shown = ScreenState { board: &board, viewing, look: *look, summaries, now: steady() };
        screen::draw(&shown, picture);
    }

    fn key(&mut self, key: KeyEvent) -> Option<ViewerRequest> {
        let board = lock(&self.board);
        self.viewing.key(key, &board, steady())
    }

    fn is_saved(&self) -> bool {
        lock(&self.board).saved
    }
}

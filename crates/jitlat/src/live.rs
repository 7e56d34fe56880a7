//! `--live`: full-screen views of running tests, and of logs (`jitlat -f LOG --live`), from `jitlat-tui`.

use crate::interrupt;
use anyhow::{Context, Result, bail};
use jitlat_core::live::LiveState;
use jitlat_core::observer::Event;
use jitlat_core::{PacketRecord, SteadyTime};
use jitlat_instruments::Stop;
use jitlat_net::names::Names;
use jitlat_output::terminal;
use jitlat_report::text::TextStyle;
use jitlat_store::log::LogReader;
use jitlat_tui::Look;
pub use jitlat_tui::path::{PathBoard, PathView};
pub use jitlat_tui::{Board, View};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::warn;

/// Number of records of a log that are passed to the view at once.
const RECORDS_PER_BATCH: usize = 4096;

/// Returns true if the requested view can be drawn. Returns false if the terminal cannot draw; in this case, the
/// command prints one line per second.
///
/// # Errors
/// Standard output is not a terminal.
pub fn is_possible() -> Result<bool> {
    if !terminal::is_terminal() {
        bail!(
            "--live draws on a terminal, but standard output is not a terminal: leave out --live, or do not redirect the output"
        );
    }
    if terminal::is_dumb() {
        warn!(
            "--live: this terminal does not support drawing (TERM=dumb); one line per second is printed instead"
        );
        return Ok(false);
    }
    Ok(true)
}

/// Draws `board` on this terminal; log lines wait until the terminal is released.
pub fn start(board: Board, stop: &Stop) -> Result<View> {
    View::start(board, look(), crate::log::hold(), stop).context("--live")
}

/// Draws the path `board` on this terminal, with names from `names`; log lines wait until the terminal is released.
pub fn start_path(board: PathBoard, names: Arc<Names>, stop: &Stop) -> Result<PathView> {
    PathView::start(board, names, look(), crate::log::hold(), stop).context("--live")
}

fn look() -> Look {
    Look { colour: terminal::style() == TextStyle::Colour, unicode: terminal::shows_unicode() }
}

/// Shows `logs` if they can be drawn on this terminal.
pub fn show_if_possible(logs: &[PathBuf]) -> Result<()> {
    if is_possible()? { show(logs, &interrupt::stop()?) } else { Ok(()) }
}

/// Shows `logs`, each as a stream, until the user quits or `stop` is requested.
fn show(logs: &[PathBuf], stop: &Stop) -> Result<()> {
    if logs.iter().any(|log| log.as_os_str() == "-") {
        bail!("--live reads the log twice, but standard input can be read only once: give a file");
    }
    let board = Board { targets: vec![read(logs)?], saved: true };
    start(board, stop)?.wait();
    Ok(())
}

/// Reads the logs of one test, or of several, into one state.
fn read(logs: &[PathBuf]) -> Result<LiveState> {
    let names: Vec<String> = logs.iter().map(|log| log.display().to_string()).collect();
    let mut state = LiveState::new(names.join(" ")).judged_by(jitlat_verdict::judge());
    let now = SteadyTime(0);
    let mut readers =
        logs.iter().map(|log| jitlat_output::input::open(log)).collect::<Result<Vec<_>, _>>()?;
    let sessions: Vec<_> = readers.iter().map(|reader| reader.session().clone()).collect();
    state.event(&Event::Started(&sessions), now);
    for (stream, (reader, log)) in readers.iter_mut().zip(logs).enumerate() {
        feed(reader, log, |records| state.event(&Event::Arrived { stream, records }, now));
    }
    let sessions: Vec<_> = readers.iter().map(|reader| reader.session().clone()).collect();
    state.event(&Event::Finished(&sessions), now);
    Ok(state)
}

fn feed(reader: &mut LogReader, log: &Path, mut each: impl FnMut(&[PacketRecord])) {
    let mut failure = None;
    let mut chunk = Vec::with_capacity(RECORDS_PER_BATCH);
    for record in reader.records(&mut failure) {
        chunk.push(record);
        if chunk.len() == RECORDS_PER_BATCH {
            each(&chunk);
            chunk.clear();
        }
    }
    each(&chunk);
    if let Some(e) = failure {
        warn!("{}: {e}", log.display());
    }
}

//! Table of streams, with remarks.

use super::{ScreenState, write};
use jitlat_core::live::{FigureSource, StreamState};
use jitlat_core::live::{LivePhase, LiveState};
use jitlat_core::so_far::ReceivedSoFar;
use jitlat_core::units::eng3;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// A column: its heading, its width, and a function for its cells.
type TableColumn = (&'static str, u16, fn(&StreamState, &ReceivedSoFar) -> String);

/// Columns, most important first, because a narrow screen shows fewer.
const COLUMNS: [TableColumn; 10] = [
    ("received", 9, |_, f| f.received.to_string()),
    ("lost", 7, |_, f| f.missing.to_string()),
    ("lost %", 8, |_, f| f.loss_pct().map_or_else(dash, |pct| format!("{pct:.2}"))),
    ("median", 9, |s, f| f.median().map_or_else(dash, |d| eng3(d.saturating_sub(s.shift()) as f64))),
    ("jitter", 9, |_, f| {
        let jitter = f.p99().zip(f.fastest()).map(|(high, low)| high.saturating_sub(low));
        jitter.map_or_else(dash, |j| eng3(j as f64))
    }),
    ("largest", 9, |s, f| {
        f.delays.map_or_else(dash, |d| eng3(d[d.len() - 1].saturating_sub(s.shift()) as f64))
    }),
    ("runs", 6, |_, f| f.runs.to_string()),
    ("longest", 8, |_, f| f.longest.to_string()),
    ("twice", 7, |_, f| f.duplicates.to_string()),
    ("late", 7, |_, f| f.reordered.to_string()),
];

/// Width of the names of streams.
const NAME_COLUMNS: u16 = 12;

fn dash() -> String {
    "-".to_owned()
}

/// Number of rows of the table with its remarks.
pub fn rows(shown: &ScreenState<'_>, state: &LiveState, _: u16) -> usize {
    1 + state.streams.len() + remarks(shown, state).len().max(1)
}

pub fn draw(shown: &ScreenState<'_>, state: &LiveState, area: Rect, buffer: &mut Buffer) {
    let look = shown.look;
    let mut x = area.x + NAME_COLUMNS;
    let mut columns: Vec<(u16, &TableColumn)> = Vec::new();
    for column in &COLUMNS {
        if x + column.1 > area.right() {
            break;
        }
        columns.push((x, column));
        x += column.1;
    }
    let right = |text: &str, width: u16| format!("{text:>width$}", width = usize::from(width));
    for (x, (head, width, _)) in &columns {
        write(buffer, (*x, area.y), area.right(), &right(head, *width), look.faint());
    }
    for (k, stream) in state.streams.iter().enumerate() {
        let y = area.y + 1 + k as u16;
        write(buffer, (area.x, y), area.right(), stream.label(), look.stream(k));
        let figures = stream.figures();
        for (x, (_, width, cell)) in &columns {
            let text = figures.as_ref().map_or_else(dash, |figures| cell(stream, figures));
            write(buffer, (*x, y), area.right(), &right(&text, *width), look.stream(k));
        }
    }
    for (row, (text, bad)) in remarks(shown, state).iter().enumerate() {
        let at = (area.x, area.y + 1 + state.streams.len() as u16 + row as u16);
        if at.1 < area.bottom() {
            write(buffer, at, area.right(), text, if *bad { look.bad() } else { look.faint() });
        }
    }
}

/// Returns remarks about the streams, each with true if it is a problem.
fn remarks(shown: &ScreenState<'_>, state: &LiveState) -> Vec<(String, bool)> {
    let mut all = Vec::new();
    if let LivePhase::Failed(why) = &state.phase {
        all.push((why.clone(), true));
    }
    for stream in &state.streams {
        let running = state.phase == LivePhase::Running;
        let label = stream.label();
        if let Some(silence) = stream.silence(shown.now).filter(|_| running) {
            all.push((format!("{label}: nothing received for {silence:.1} s"), true));
        }
        match stream.known() {
            FigureSource::Classic => {
                all.push((
                    format!("{label}: available at the end (not reported by the classic protocol)"),
                    false,
                ));
            }
            FigureSource::NotReported if running && state.elapsed(shown.now).is_some_and(|s| s > 3.0) => {
                let text = "available at the end (not reported by the server)";
                all.push((format!("{label}: {text}"), false));
            }
            _ => {}
        }
        if stream.overlooked > 0 {
            let text =
                format!("{label}: {} packets arrived faster than they could be shown", stream.overlooked);
            all.push((text, false));
        }
    }
    all
}

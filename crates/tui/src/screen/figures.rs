//! All figures of each stream, with the definition of the selected one.

use super::{ScreenState, write};
use jitlat_core::live::StreamState;
use jitlat_core::scalars::{ExactNumber, SCALARS, Scalar};
use jitlat_core::so_far::ReceivedSoFar;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Width of the names of figures, in columns.
const NAME_COLUMNS: u16 = 24;
const VALUE_COLUMNS: u16 = 14;
/// Number of rows for the definition.
const DEFINITION_ROWS: u16 = 3;

/// Placeholder for a figure that the far host does not report while the test runs.
const LATER: &str = "at the end";

/// Returns the figure `key` from the far host's reports about a stream; `None` if the reports do not contain it.
fn reported(key: &str, far: &ReceivedSoFar) -> Option<ExactNumber> {
    let count = |n: u64| Some(ExactNumber::Whole(i64::try_from(n).unwrap_or(i64::MAX)));
    let all = far.received + far.missing;
    match key {
        "sent" => count(all),
        "received" => count(far.received + far.duplicates),
        "unique-valid" => count(far.received),
        "duplicate" => count(far.duplicates),
        "lost" => count(far.missing),
        "out-of-sequence" => count(far.reordered),
        "loss" => far.loss_pct().map(|pct| ExactNumber::Real(pct / 100.0)),
        "loss-runs" => count(far.runs.into()),
        "loss-run-longest" => count(far.longest.into()),
        "latency-min" => far.fastest().map(ExactNumber::Whole),
        "latency-median" => far.median().map(ExactNumber::Whole),
        "latency-max" => far.delays.and_then(|delays| delays.last().copied()).map(ExactNumber::Whole),
        "rfc3550-final" => far.jitter.map(|jitter| ExactNumber::Whole(jitter.0)),
        _ => None,
    }
}

pub fn draw(shown: &ScreenState<'_>, area: Rect, buffer: &mut Buffer) {
    let Some(state) = shown.state() else { return };
    let look = shown.look;
    let two_way = state.streams.iter().any(StreamState::is_two_way);
    let applies = |f: &&Scalar| if two_way { f.applies.round_trips } else { f.applies.one_way };
    let all: Vec<&Scalar> = SCALARS.iter().filter(applies).collect();
    let chosen = shown.viewing.figure.min(all.len().saturating_sub(1));
    let right = |text: &str| format!("{text:>width$}", width = usize::from(VALUE_COLUMNS));
    for (k, stream) in state.streams.iter().enumerate() {
        let x = area.x + NAME_COLUMNS + k as u16 * VALUE_COLUMNS;
        write(buffer, (x, area.y), area.right(), &right(stream.label()), look.stream(k));
    }
    let rows = usize::from(area.height.saturating_sub(DEFINITION_ROWS + 2));
    let first = chosen.saturating_sub(rows / 2).min(all.len().saturating_sub(rows));
    for (row, (n, figure)) in all.iter().enumerate().skip(first).take(rows).enumerate() {
        let y = area.y + 1 + row as u16;
        let style = if n == chosen { look.chosen() } else { Style::new() };
        write(buffer, (area.x, y), area.x + NAME_COLUMNS, figure.label, style);
        for k in 0..state.streams.len() {
            let summary = shown.summaries.get(k).and_then(Option::as_ref);
            let stream = &state.streams[k];
            let value = match summary {
                Some(summary) => figure.of(summary),
                None => stream.figures().and_then(|far| reported(figure.key, &far)),
            };
            let later = summary.is_none() && !stream.is_received() && !shown.board.saved;
            let missing = if later { LATER } else { "-" };
            let text = right(value.map(|value| figure.show(value)).as_deref().unwrap_or(missing));
            write(
                buffer,
                (area.x + NAME_COLUMNS + k as u16 * VALUE_COLUMNS, y),
                area.right(),
                &text,
                look.stream(k),
            );
        }
    }
    let Some(figure) = all.get(chosen) else { return };
    let y = area.bottom().saturating_sub(DEFINITION_ROWS);
    let place = format!("{} of {}", chosen + 1, all.len());
    write(buffer, (area.x, y), area.right(), &format!("{}  ({place})", figure.key), look.title());
    let source = if figure.source.is_empty() { String::new() } else { format!(" ({})", figure.source) };
    let about = format!("{}{source}", figure.about);
    let width = usize::from(area.width).max(1);
    let (first, second) = split(&about, width);
    write(buffer, (area.x, y + 1), area.right(), first, Style::new());
    write(buffer, (area.x, y + 2), area.right(), second, look.faint());
}

/// Splits `text` at the last space before `width` columns.
fn split(text: &str, width: usize) -> (&str, &str) {
    let Some((cut, _)) = text.char_indices().nth(width) else { return (text, "") };
    let at = text[..cut].rfind(' ').unwrap_or(cut);
    (&text[..at], text[at..].trim_start())
}

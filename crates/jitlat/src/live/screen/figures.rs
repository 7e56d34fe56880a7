//! Every figure there is, of each stream; the definition of the chosen one.

use super::{Shown, write};
use crate::live::stream::StreamState;
use jitlat_core::figures::{FIGURES, Figure};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Columns of the names of figures, and of a value.
const NAMES: u16 = 24;
const VALUES: u16 = 14;
/// Rows of the definition.
const DEFINITION: u16 = 3;

pub fn draw(shown: &Shown<'_>, area: Rect, buffer: &mut Buffer) {
    let Some(state) = shown.state() else { return };
    let look = shown.look;
    let two_way = state.streams.iter().any(StreamState::is_two_way);
    let applies = |f: &&Figure| if two_way { f.applies.round_trips } else { f.applies.one_way };
    let all: Vec<&Figure> = FIGURES.iter().filter(applies).collect();
    let chosen = shown.viewing.figure.min(all.len().saturating_sub(1));
    let right = |text: &str| format!("{text:>width$}", width = usize::from(VALUES));
    for (k, stream) in state.streams.iter().enumerate() {
        let x = area.x + NAMES + k as u16 * VALUES;
        write(buffer, (x, area.y), area.right(), &right(stream.label()), look.stream(k));
    }
    let rows = usize::from(area.height.saturating_sub(DEFINITION + 2));
    let first = chosen.saturating_sub(rows / 2).min(all.len().saturating_sub(rows));
    for (row, (n, figure)) in all.iter().enumerate().skip(first).take(rows).enumerate() {
        let y = area.y + 1 + row as u16;
        let style = if n == chosen { look.chosen() } else { Style::new() };
        write(buffer, (area.x, y), area.x + NAMES, figure.label, style);
        for k in 0..state.streams.len() {
            let summary = shown.summaries.get(k).and_then(Option::as_ref);
            let value = summary.and_then(|summary| figure.of(summary)).map(|value| figure.show(value));
            let text = right(value.as_deref().unwrap_or("-"));
            write(buffer, (area.x + NAMES + k as u16 * VALUES, y), area.right(), &text, look.stream(k));
        }
    }
    let Some(figure) = all.get(chosen) else { return };
    let y = area.bottom().saturating_sub(DEFINITION);
    let place = format!("{} of {}", chosen + 1, all.len());
    write(buffer, (area.x, y), area.right(), &format!("{}  ({place})", figure.key), look.title());
    let source = if figure.source.is_empty() { String::new() } else { format!(" ({})", figure.source) };
    let about = format!("{}{source}", figure.about);
    let width = usize::from(area.width).max(1);
    let (first, second) = split(&about, width);
    write(buffer, (area.x, y + 1), area.right(), first, Style::new());
    let told = "a stream that arrives at the server has its figures at the end";
    let second = match state.streams.iter().any(|stream| !stream.is_received()) && second.is_empty() {
        true if !shown.board.saved => told,
        _ => second,
    };
    write(buffer, (area.x, y + 2), area.right(), second, look.faint());
}

/// `text` at the last space before `width` columns.
fn split(text: &str, width: usize) -> (&str, &str) {
    let Some((cut, _)) = text.char_indices().nth(width) else { return (text, "") };
    let at = text[..cut].rfind(' ').unwrap_or(cut);
    (&text[..at], text[at..].trim_start())
}

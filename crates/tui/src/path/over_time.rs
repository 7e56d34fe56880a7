//! A hop over time, and the changes of the route.

use super::PathScreenState;
use crate::screen::plot::{LABEL_COLUMNS, Plot, Stroke, clock, time};
use crate::screen::write;
use jitlat_core::WallTime;
use jitlat_core::path_history::HopHistory;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws the page of the selected hop.
pub fn history(shown: &PathScreenState<'_>, area: Rect, buffer: &mut Buffer) {
    let hops = shown.board.history.hops();
    let Some(hop) = hops.get(shown.viewing.hop.min(hops.len().saturating_sub(1))) else {
        write(buffer, (area.x, area.y), area.right(), "no router has answered yet", shown.look.faint());
        return;
    };
    plot(shown, hop, area, buffer);
}

/// Draws the round-trip times of a hop over time, and below them the probes without an answer.
pub fn plot(shown: &PathScreenState<'_>, hop: &HopHistory, area: Rect, buffer: &mut Buffer) {
    let look = shown.look;
    if area.height < 4 {
        return;
    }
    let name = hop.main_address().map_or_else(|| "*".to_owned(), |main| shown.name(main.address));
    let title = format!("round-trip time to hop {}  ", hop.ttl);
    let x = write(buffer, (area.x, area.y), area.right(), &title, look.title());
    write(buffer, (x, area.y), area.right(), &name, Style::new());
    let window = shown.viewing.window(&shown.board.history, shown.now);
    let body = Rect { y: area.y + 1, height: area.height - 2, ..area };
    let width = usize::from(body.width.saturating_sub(LABEL_COLUMNS));
    let columns = hop.history.columns(window, width * look.dots(0));
    let answered = || columns.iter().filter(|bucket| bucket.received > 0);
    let (low, high) = (answered().map(|b| b.low).min(), answered().map(|b| b.high).max());
    if let (Some(low), Some(high)) = (low, high) {
        let span = window.map(|ns| ns as f64);
        let drawn = Plot::new(body, span, [low as f64, high as f64]);
        drawn.axes(buffer, time, clock, look.faint());
        let step = (span[1] - span[0]) / columns.len().max(1) as f64;
        let strokes = columns.iter().enumerate().filter(|(_, bucket)| bucket.received > 0);
        let strokes = strokes.map(|(c, bucket)| {
            let x = span[0] + step * (c as f64 + 0.5);
            Stroke { from: (x, bucket.low as f64), to: (x, bucket.high as f64) }
        });
        drawn.strokes(buffer, 0, &strokes.collect::<Vec<_>>(), look);
    } else {
        write(buffer, (body.x + LABEL_COLUMNS, body.y), body.right(), "no answer", look.faint());
    }
    let y = area.bottom() - 1;
    let label = format!("{:>width$}", "lost", width = usize::from(LABEL_COLUMNS) - 1);
    write(buffer, (area.x, y), area.right(), &label, look.faint());
    for (c, bucket) in hop.history.columns(window, width).iter().enumerate() {
        let (symbol, style) = match (bucket.missing, bucket.received) {
            (0, 0) => continue,
            (0, _) => ("·", look.faint()),
            (missing, received) if missing < received => ("▒", look.bad()),
            _ => ("█", look.bad()),
        };
        write(buffer, (area.x + LABEL_COLUMNS + c as u16, y), area.right(), symbol, style);
    }
}

/// Draws the list of changes, newest first.
pub fn changes(shown: &PathScreenState<'_>, area: Rect, buffer: &mut Buffer) {
    let changes = &shown.board.history.changes;
    if changes.is_empty() {
        let text = "the routers have not changed since the first probe";
        write(buffer, (area.x, area.y), area.right(), text, shown.look.faint());
        return;
    }
    for (row, change) in changes.iter().rev().take(area.height.into()).enumerate() {
        let flow = if shown.board.flows > 1 { format!(", flow {}", change.flow) } else { String::new() };
        let [from, to] = [change.from, change.to].map(|address| shown.name(address));
        let text = format!("{}  hop {}{flow}: {to} instead of {from}", time_of_day(change.at), change.ttl);
        write(buffer, (area.x, area.y + row as u16), area.right(), &text, Style::new());
    }
}

/// Formats the time of day in UTC.
fn time_of_day(at: WallTime) -> String {
    let seconds = at.0.div_euclid(1_000_000_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

//! Delay over time in both directions on one axis, losses below it, and the table of streams.

use super::plot::{LABEL_COLUMNS, Plot, Stroke, clock, time};
use super::{ScreenState, distribution, table, write};
use jitlat_core::live::HistoryBucket;
use jitlat_core::live::LiveState;
use jitlat_core::live::{FigureSource, StreamState};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Minimum width at which the distribution is shown next to delay over time.
const MIN_WIDE_COLUMNS: u16 = 110;

pub fn draw(shown: &ScreenState<'_>, area: Rect, buffer: &mut Buffer) {
    let Some(state) = shown.state() else { return };
    let streams = state.streams.len() as u16;
    if streams == 0 {
        return;
    }
    let rows = table::rows(shown, state, area.width) as u16;
    let below = streams + 1 + rows;
    let mut plots = Rect { height: area.height.saturating_sub(below), ..area };
    if area.width >= MIN_WIDE_COLUMNS {
        let right_width = area.width / 3;
        plots.width -= right_width;
        let right = Rect { x: plots.right(), width: right_width, ..plots };
        distribution::cumulative(shown, state, right, buffer);
    }
    over_time(shown, state, plots, buffer);
    let strip = Rect { y: plots.bottom(), height: streams, width: plots.width, ..area };
    losses(shown, state, strip, buffer);
    let rest =
        Rect { y: strip.bottom() + 1, height: area.bottom().saturating_sub(strip.bottom() + 1), ..area };
    table::draw(shown, state, rest, buffer);
}

/// Draws delay over time: for each column, the median and the range from smallest to largest.
fn over_time(shown: &ScreenState<'_>, state: &LiveState, area: Rect, buffer: &mut Buffer) {
    let look = shown.look;
    let window = shown.viewing.window(shown.board, shown.now);
    let Some(body) = titled(shown, state, area, buffer) else { return };
    let width = usize::from(body.width.saturating_sub(LABEL_COLUMNS));
    let columns: Vec<(i64, Vec<HistoryBucket>)> = state
        .streams
        .iter()
        .enumerate()
        .map(|(k, stream)| (stream.shift(), stream.history.columns(window, width * look.dots(k))))
        .collect();
    let drawn =
        || columns.iter().flat_map(|(shift, c)| c.iter().filter(|b| b.received > 0).map(move |b| (shift, b)));
    let low = drawn().map(|(shift, b)| b.low.saturating_sub(*shift)).min();
    let high = drawn().map(|(shift, b)| b.high.saturating_sub(*shift)).max();
    let (Some(low), Some(high)) = (low, high) else {
        write(buffer, (body.x + LABEL_COLUMNS, body.y), body.right(), "nothing received", look.faint());
        return;
    };
    let span = window.map(|ns| ns as f64);
    let plot = Plot::new(body, span, [low as f64, high as f64]);
    plot.axes(buffer, time, clock, look.faint());
    let reported: Vec<bool> =
        state.streams.iter().map(|stream| stream.known() == FigureSource::Reported).collect();
    for (k, (shift, columns)) in columns.iter().enumerate() {
        let step = (span[1] - span[0]) / columns.len().max(1) as f64;
        let mut strokes = Vec::new();
        for (c, bucket) in columns.iter().enumerate().filter(|(_, b)| b.received > 0) {
            let x = span[0] + step * (c as f64 + 0.5);
            let [from, to] = [bucket.low, bucket.high].map(|y| y.saturating_sub(*shift) as f64);
            if reported[k] {
                // Draw the range per column: one band for the whole test would hide the other stream.
                let middle = bucket.middle().unwrap_or(from) - *shift as f64;
                let point = |y: f64| Stroke { from: (x, y), to: (x, y) };
                strokes.extend([from, middle, to].map(point));
            } else {
                strokes.push(Stroke { from: (x, from), to: (x, to) });
            }
        }
        plot.strokes(buffer, k, &strokes, look);
    }
    if let Some(share) = shown.viewing.cursor {
        plot.bar(buffer, share, look.title());
    }
}

/// Draws the title of the plot, which names the streams, or the values at the time cursor; returns the area below it,
/// or `None` if there is no room for it.
fn titled(shown: &ScreenState<'_>, state: &LiveState, area: Rect, buffer: &mut Buffer) -> Option<Rect> {
    if area.height < 3 {
        return None;
    }
    let (look, at) = (shown.look, (area.x, area.y));
    let window = shown.viewing.window(shown.board, shown.now);
    if let Some(share) = shown.viewing.cursor {
        let columns = usize::from(area.width.saturating_sub(LABEL_COLUMNS)).max(1);
        let place = (share * (columns - 1) as f64).round() as usize;
        let ns = window[0] as f64 + (window[1] - window[0]) as f64 * (place as f64 + 0.5) / columns as f64;
        let mut x = write(buffer, at, area.right(), &format!("at {}", clock(ns)), look.title());
        for (k, stream) in state.streams.iter().enumerate() {
            let bucket = stream.history.columns(window, columns)[place];
            let shift = stream.shift();
            let text = match bucket.middle() {
                Some(middle) => {
                    let [low, high] = [bucket.low, bucket.high].map(|ns| time((ns - shift) as f64));
                    format!("  {} {low} to {high}, mean {}", stream.label(), time(middle - shift as f64))
                }
                None => format!("  {} –", stream.label()),
            };
            x = write(buffer, (x, area.y), area.right(), &text, look.stream(k));
            if bucket.missing > 0 {
                x = write(
                    buffer,
                    (x, area.y),
                    area.right(),
                    &format!(", {} lost", bucket.missing),
                    look.bad(),
                );
            }
        }
    } else {
        let title = if state.streams.iter().any(StreamState::is_two_way) {
            "round-trip time"
        } else {
            "one-way delay"
        };
        let mut x = write(buffer, at, area.right(), title, look.title());
        if state.streams.len() > 1 {
            for (k, stream) in state.streams.iter().enumerate() {
                let mark = match look.marker(k) {
                    ratatui::symbols::Marker::Custom(mark) => mark,
                    ratatui::symbols::Marker::Dot => '•',
                    _ => '⣿',
                };
                x = write(
                    buffer,
                    (x, area.y),
                    area.right(),
                    &format!("  {mark} {}", stream.label()),
                    look.stream(k),
                );
            }
        }
        let raw =
            state.streams.iter().any(|s| !s.is_two_way() && s.shift() == 0 && s.clocks.offset_ns != Some(0));
        let clocks = match raw {
            true => "  clocks not corrected",
            false if state.streams.iter().any(StreamState::is_two_way) => "",
            false => "  clock offset subtracted",
        };
        write(buffer, (x, area.y), area.right(), clocks, look.faint());
    }
    Some(Rect { y: area.y + 1, height: area.height - 1, ..area })
}

/// Draws a line for each stream that shows where packets are missing.
fn losses(shown: &ScreenState<'_>, state: &LiveState, area: Rect, buffer: &mut Buffer) {
    let window = shown.viewing.window(shown.board, shown.now);
    let width = area.width.saturating_sub(LABEL_COLUMNS);
    for (k, stream) in state.streams.iter().enumerate().take(area.height.into()) {
        let y = area.y + k as u16;
        let label = if state.streams.len() > 1 { ["lost →", "lost ←"][k % 2] } else { "lost" };
        let label = format!("{label:>width$}", width = usize::from(LABEL_COLUMNS) - 1);
        write(buffer, (area.x, y), area.x + LABEL_COLUMNS, &label, shown.look.faint());
        for (c, bucket) in stream.history.columns(window, width.into()).iter().enumerate() {
            let all = bucket.received + bucket.missing;
            let (symbol, style) = match (bucket.missing, all) {
                (_, 0) => (" ", Style::new()),
                (0, _) => ("·", shown.look.faint()),
                (missing, all) if missing * 2 < all => ("▒", shown.look.bad()),
                _ => ("█", shown.look.bad()),
            };
            write(buffer, (area.x + LABEL_COLUMNS + c as u16, y), area.right(), symbol, style);
        }
    }
}

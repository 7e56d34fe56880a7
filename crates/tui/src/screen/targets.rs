//! Many tests at once, in one table that can be sorted.

use super::{ScreenState, overview, phase, write};
use crate::Board;
use jitlat_core::live::{LivePhase, LiveState};
use jitlat_core::so_far::ReceivedSoFar;
use jitlat_core::units::eng3;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// A column of the table of targets.
#[derive(Clone, Copy, Debug)]
pub struct TargetColumn {
    pub head: &'static str,
    width: u16,
    /// Returns the value by which the table is sorted; `None` comes last.
    value: fn(&LiveState) -> Option<f64>,
    show: fn(f64) -> String,
}

fn figures(state: &LiveState) -> Option<ReceivedSoFar> {
    state.streams.first()?.figures()
}

fn sent(state: &LiveState) -> Option<f64> {
    state.streams.first().map(|stream| stream.progress.sent.into())
}

/// Returns the loss in percent, without the latest requests, whose answers may still arrive.
fn loss(state: &LiveState) -> Option<f64> {
    let figures = figures(state)?;
    match (figures.loss_pct(), sent(state)) {
        (None, Some(sent)) if sent > 0.0 && state.ended.is_some() => Some(100.0),
        (loss, _) => loss,
    }
}

/// Columns to the right of the name.
pub const COLUMNS: [TargetColumn; 7] = [
    TargetColumn { head: "", width: 0, value: |_| None, show: |_| String::new() },
    TargetColumn { head: "sent", width: 7, value: sent, show: |x| format!("{x:.0}") },
    TargetColumn { head: "lost %", width: 8, value: loss, show: |x| format!("{x:.2}") },
    TargetColumn { head: "smallest", width: 9, value: |s| Some(figures(s)?.fastest()? as f64), show: eng3 },
    TargetColumn { head: "median", width: 9, value: |s| Some(figures(s)?.median()? as f64), show: eng3 },
    TargetColumn { head: "99 %", width: 9, value: |s| Some(figures(s)?.p99()? as f64), show: eng3 },
    TargetColumn {
        head: "jitter",
        width: 9,
        value: |s| figures(s).and_then(|f| Some((f.p99()? - f.fastest()?) as f64)),
        show: eng3,
    },
];

/// Minimum height of the selected target over time, below the table.
const MIN_OVERVIEW_ROWS: u16 = 9;
/// Minimum width of a name.
const MIN_NAME_COLUMNS: u16 = 16;

impl Board {
    /// Returns the indices of the targets, sorted by column `sort`, in descending order if `falling` is true.
    pub fn order(&self, sort: usize, falling: bool) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.targets.len()).collect();
        if sort == 0 {
            order.sort_by(|a, b| self.targets[*a].name.cmp(&self.targets[*b].name));
            if falling {
                order.reverse();
            }
            return order;
        }
        let value = |k: &usize| COLUMNS.get(sort).and_then(|column| (column.value)(&self.targets[*k]));
        order.sort_by(|a, b| match (value(a), value(b)) {
            (Some(a), Some(b)) if falling => b.total_cmp(&a),
            (Some(a), Some(b)) => a.total_cmp(&b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        });
        order
    }
}

/// Draws the table, and the selected target over time if the table leaves room for it.
pub fn draw(shown: &ScreenState<'_>, area: Rect, buffer: &mut Buffer) {
    let rows = (shown.board.targets.len() as u16).saturating_add(1);
    let below = area.height.saturating_sub(rows.saturating_add(2));
    if below < MIN_OVERVIEW_ROWS || shown.state().is_none_or(|state| state.streams.is_empty()) {
        return table(shown, area, buffer);
    }
    table(shown, Rect { height: rows, ..area }, buffer);
    let y = area.y + rows + 1;
    let name = shown.state().map(|state| state.name.clone()).unwrap_or_default();
    write(buffer, (area.x, y), area.right(), &name, shown.look.title());
    overview::draw(shown, Rect { y: y + 1, height: below, ..area }, buffer);
}

fn table(shown: &ScreenState<'_>, area: Rect, buffer: &mut Buffer) {
    let (look, viewing) = (shown.look, shown.viewing);
    let longest = shown.board.targets.iter().map(|t| t.name.chars().count()).max().unwrap_or(0) as u16;
    let names = (longest + 1).clamp(MIN_NAME_COLUMNS, (area.width / 3).max(MIN_NAME_COLUMNS));
    let mut x = area.x + names;
    let mut columns = Vec::new();
    for (k, column) in COLUMNS.iter().enumerate().skip(1) {
        if x + column.width > area.right() {
            break;
        }
        columns.push((k, x, column));
        x += column.width;
    }
    let arrow = if viewing.falling { "↓" } else { "↑" };
    let head =
        |k: usize, head: &str| if k == viewing.sort { format!("{arrow}{head}") } else { head.to_owned() };
    let right = |text: &str, width: u16| format!("{text:>width$}", width = usize::from(width));
    write(buffer, (area.x, area.y), area.x + names, &head(0, "target"), look.faint());
    for (k, x, column) in &columns {
        write(buffer, (*x, area.y), area.right(), &right(&head(*k, column.head), column.width), look.faint());
    }
    let rows = usize::from(area.height.saturating_sub(1));
    let order = shown.board.order(viewing.sort, viewing.falling);
    let chosen = order.iter().position(|k| *k == viewing.target).unwrap_or(0);
    let first = (chosen + 1).saturating_sub(rows);
    for (row, k) in order.iter().enumerate().skip(first).take(rows) {
        let y = area.y + 1 + (row - first) as u16;
        let target = &shown.board.targets[*k];
        let style = if row == chosen { look.chosen() } else { Style::new() };
        write(buffer, (area.x, y), area.x + names - 1, &target.name, style);
        if matches!(target.phase, LivePhase::Failed(_)) || target.streams.is_empty() {
            let bad = matches!(target.phase, LivePhase::Failed(_));
            let style = if bad { look.bad() } else { look.faint() };
            write(buffer, (area.x + names, y), area.right(), &phase(target, shown.now), style);
            continue;
        }
        for (_, x, column) in &columns {
            let text = (column.value)(target).map_or_else(|| "-".to_owned(), column.show);
            write(buffer, (*x, y), area.right(), &right(&text, column.width), Style::new());
        }
        let silence = target.streams[0].silence(shown.now).filter(|_| target.phase == LivePhase::Running);
        let x = columns.last().map_or(area.x + names, |(_, x, column)| x + column.width);
        if let Some(silence) = silence {
            write(buffer, (x, y), area.right(), &format!("  silent {silence:.0} s"), look.bad());
        }
    }
}

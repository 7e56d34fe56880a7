//! Curves in characters, with axes.

use super::write;
use crate::look::Look;
use jitlat_core::units::eng3;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{Canvas, Line, Points};

/// Width of the labels left of a plot, in columns.
pub const LABEL_COLUMNS: u16 = 9;

/// A straight stroke, in the units of the axes.
#[derive(Clone, Copy, Debug)]
pub struct Stroke {
    pub from: (f64, f64),
    pub to: (f64, f64),
}

/// A plot: its area and its axes.
#[derive(Clone, Copy, Debug)]
pub struct Plot {
    pub area: Rect,
    pub x: [f64; 2],
    pub y: [f64; 2],
}

impl Plot {
    /// Creates a plot in `area`, with room for the labels. An empty range is widened.
    pub fn new(area: Rect, x: [f64; 2], y: [f64; 2]) -> Plot {
        let inner = Rect {
            x: area.x + LABEL_COLUMNS.min(area.width),
            width: area.width.saturating_sub(LABEL_COLUMNS),
            height: area.height.saturating_sub(1),
            ..area
        };
        let wide = |[low, high]: [f64; 2]| if high > low { [low, high] } else { [low - 0.5, low + 0.5] };
        Plot { area: inner, x: wide(x), y: wide(y) }
    }

    /// Draws labels: at the left for the top, the middle and the bottom; below for both ends.
    pub fn axes(
        &self,
        buffer: &mut Buffer,
        y: impl Fn(f64) -> String,
        x: impl Fn(f64) -> String,
        style: Style,
    ) {
        let Plot { area, .. } = *self;
        if area.height == 0 || area.width == 0 {
            return;
        }
        let [low, high] = self.y;
        let rows = area.height - 1;
        let places = if area.height >= 5 { vec![0, rows / 2, rows] } else { vec![0, rows] };
        for row in places {
            let value = high - (high - low) * f64::from(row) / f64::from(rows.max(1));
            let label = y(value);
            let at = (area.x - LABEL_COLUMNS, area.y + row);
            write(
                buffer,
                at,
                area.x,
                &format!("{label:>width$}", width = usize::from(LABEL_COLUMNS) - 1),
                style,
            );
        }
        let [left, right] = self.x.map(x);
        let below = area.bottom();
        write(buffer, (area.x, below), area.right(), &left, style);
        let start = area.right().saturating_sub(right.chars().count() as u16);
        write(buffer, (start.max(area.x), below), area.right(), &right, style);
    }

    /// Draws the strokes of the `k`-th stream.
    pub fn strokes(&self, buffer: &mut Buffer, k: usize, strokes: &[Stroke], look: Look) {
        if self.area.height == 0 || self.area.width == 0 {
            return;
        }
        let colour = look.stream(k).fg.unwrap_or_default();
        let canvas = Canvas::default().x_bounds(self.x).y_bounds(self.y).marker(look.marker(k));
        let canvas = canvas.paint(|context| {
            for stroke in strokes {
                let ((x1, y1), (x2, y2)) = (stroke.from, stroke.to);
                if (x1, y1) == (x2, y2) {
                    context.draw(&Points { coords: &[(x1, y1)], color: colour });
                } else {
                    context.draw(&Line { x1, y1, x2, y2, color: colour });
                }
            }
        });
        canvas.render(self.area, buffer);
    }

    /// Draws a vertical bar at this share of the plot's width.
    pub fn bar(&self, buffer: &mut Buffer, share: f64, style: Style) {
        let column = (share * f64::from(self.area.width.saturating_sub(1))).round() as u16;
        for y in self.area.y..self.area.bottom() {
            if let Some(cell) = buffer.cell_mut((self.area.x + column, y)) {
                if matches!(cell.symbol(), " " | "\u{2800}") {
                    cell.set_symbol("│");
                }
                cell.set_style(style);
            }
        }
    }
}

/// Formats a time given in ns.
pub fn time(ns: f64) -> String {
    eng3(ns)
}

/// Formats a time since the start, given in ns, in seconds, minutes or hours.
pub fn clock(ns: f64) -> String {
    let seconds = ns / 1e9;
    match seconds {
        ..120.0 => format!("{seconds:.1} s"),
        ..7200.0 => format!("{:.1} min", seconds / 60.0),
        _ => format!("{:.2} h", seconds / 3600.0),
    }
}

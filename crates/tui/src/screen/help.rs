//! Help page with the keys.

use super::{ScreenState, write};
use crate::viewing::KEYS;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

pub fn draw(shown: &ScreenState<'_>, area: Rect, buffer: &mut Buffer) {
    for (row, (keys, what)) in KEYS.iter().enumerate().take(area.height.into()) {
        let y = area.y + row as u16;
        let x = area.x + 18;
        write(buffer, (area.x + 1, y), x, keys, shown.look.title());
        write(buffer, (x, y), area.right(), what, Style::new());
    }
}

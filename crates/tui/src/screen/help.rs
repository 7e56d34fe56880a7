//! Help page with the keys.

use super::write;
use crate::look::Look;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws `list`, each row with keys and their effect.
pub fn draw(list: &[(&str, &str)], look: Look, area: Rect, buffer: &mut Buffer) {
    for (row, (keys, what)) in list.iter().enumerate().take(area.height.into()) {
        let y = area.y + row as u16;
        let x = area.x + 18;
        write(buffer, (area.x + 1, y), x, keys, look.title());
        write(buffer, (x, y), area.right(), what, Style::new());
    }
}

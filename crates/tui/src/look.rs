//! [`Look`]: capabilities of a terminal.

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;

/// Capabilities of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// True if the terminal shows colours.
    pub colour: bool,
    /// True if the terminal shows characters beyond ASCII.
    pub unicode: bool,
}

impl Look {
    /// Style of the `k`-th stream, in colours that people with colour-vision deficiencies can distinguish.
    pub(crate) fn stream(self, k: usize) -> Style {
        const COLOURS: [Color; 2] = [Color::Cyan, Color::Yellow];
        self.coloured(COLOURS[k % COLOURS.len()])
    }

    /// Marker of the `k`-th stream, which distinguishes streams without colours.
    pub(crate) fn marker(self, k: usize) -> Marker {
        match (self.unicode, self.colour, k % 2) {
            (true, true, _) | (true, false, 0) => Marker::Braille,
            (true, false, _) => Marker::Dot,
            (false, _, 0) => Marker::Custom('*'),
            (false, _, _) => Marker::Custom('o'),
        }
    }

    /// Number of dots per column of the `k`-th stream's marker.
    pub(crate) fn dots(self, k: usize) -> usize {
        if self.marker(k) == Marker::Braille { 2 } else { 1 }
    }

    pub(crate) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn faint(self) -> Style {
        self.coloured(Color::DarkGray)
    }

    pub(crate) fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// Replaces characters that the terminal cannot show.
    pub(crate) fn adapt(self, buffer: &mut Buffer) {
        if self.unicode {
            return micro_units(buffer);
        }
        for cell in &mut buffer.content {
            let ascii = match cell.symbol() {
                s if s.is_ascii() => continue,
                "█" => "#",
                "▒" => "x",
                "·" => ".",
                "│" => "|",
                "─" => "-",
                "←" => "<",
                "→" => ">",
                "↑" => "^",
                "↓" => "v",
                "±" => "~",
                "…" => ".",
                "–" => "-",
                _ => "?",
            };
            cell.set_symbol(ascii);
        }
    }
}
/// Replaces the unit `us` after a number with µs.
fn micro_units(buffer: &mut Buffer) {
    for row in buffer.content.chunks_mut(usize::from(buffer.area.width.max(1))) {
        for k in 2..row.len().saturating_sub(1) {
            let is_digit = |cell: &Cell| cell.symbol().starts_with(|c: char| c.is_ascii_digit());
            let is_letter = |cell: &Cell| cell.symbol().starts_with(char::is_alphanumeric);
            let unit = [k - 1, k, k + 1].map(|k| row[k].symbol()) == [" ", "u", "s"];
            if unit && is_digit(&row[k - 2]) && !row.get(k + 2).is_some_and(is_letter) {
                row[k].set_symbol("µ");
            }
        }
    }
}

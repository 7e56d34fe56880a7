//! [`Page`]: builds a text report line by line.

use jitlat_core::summary::Level;
use std::fmt::Write;

/// Use of colours in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextStyle {
    /// No colours, for pipes and files.
    #[default]
    Plain,
    /// ANSI colours, for a terminal.
    Colour,
}

/// Options of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextOptions {
    /// True to also print the latency corrected by the clock estimate (`-C`), after the raw values.
    pub corrected: bool,
    /// Use of colours.
    pub style: TextStyle,
    /// Width in columns at which sentences are wrapped.
    pub width: usize,
    /// True if characters beyond ASCII can be shown.
    pub unicode: bool,
}

impl Default for TextOptions {
    fn default() -> TextOptions {
        TextOptions { corrected: false, style: TextStyle::Plain, width: 80, unicode: false }
    }
}

/// Removes terminal control characters from a text that comes from a log or a peer.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

pub(super) fn dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

/// Formats a ratio in percent with two decimals; `-` if `whole` is 0.
pub(super) fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.2}%", part as f64 * 100.0 / whole as f64) }
}

/// Formats a count: `1 packet`, `2 packets`.
pub fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Style of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordStyle {
    Heading,
    Good,
    Note,
    Poor,
    Bad,
}

impl WordStyle {
    pub(super) fn ansi(self) -> &'static str {
        match self {
            WordStyle::Heading => "1",
            WordStyle::Good => "32",
            WordStyle::Note => "36",
            WordStyle::Poor => "33",
            WordStyle::Bad => "1;31",
        }
    }
}

/// Returns the word for a level, and its style.
pub(super) fn mark(level: Level) -> (&'static str, WordStyle) {
    match level {
        Level::Good => ("good:", WordStyle::Good),
        Level::Note => ("note:", WordStyle::Note),
        Level::Poor => ("poor:", WordStyle::Poor),
        Level::Bad => ("bad:", WordStyle::Bad),
    }
}

/// The text so far, with methods for headings, statements, findings.
pub struct Page {
    pub(super) text: String,
    style: TextStyle,
    pub(super) width: usize,
}

impl Page {
    pub(super) const INDENT: &str = "    ";

    /// Creates an empty page.
    pub fn new(options: &TextOptions) -> Page {
        Page { text: String::new(), style: options.style, width: options.width.max(40) }
    }

    /// Adds a line unchanged.
    pub fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Adds an empty line.
    pub fn blank(&mut self) {
        self.text.push('\n');
    }

    pub(super) fn painted(&self, look: WordStyle, text: &str) -> String {
        match self.style {
            TextStyle::Plain => text.to_owned(),
            TextStyle::Colour => format!("\x1b[{}m{text}\x1b[0m", look.ansi()),
        }
    }

    /// Adds a section's title, with a blank line before it.
    pub fn heading(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.blank();
        }
        let title = self.painted(WordStyle::Heading, title);
        self.line(&title);
    }

    /// Adds a statement, indented and wrapped.
    pub fn item(&mut self, text: &str) {
        self.marked("", None, text);
    }

    /// Adds the first sentence of a verdict, wrapped, in the colour of `level`.
    pub fn lead(&mut self, level: Level, text: &str) {
        let (_, look) = mark(level);
        let mut line = String::new();
        for word in text.split_ascii_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > self.width {
                let painted = self.painted(look, &line);
                self.line(&painted);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        let painted = self.painted(look, &line);
        self.line(&painted);
    }

    /// Adds a statement after the word for `level`.
    pub fn finding(&mut self, level: Level, text: &str) {
        let (mark, look) = mark(level);
        self.marked(mark, Some(look), text);
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.text
    }

    /// Adds a statement after a mark.
    pub(super) fn marked(&mut self, mark: &str, look: Option<WordStyle>, text: &str) {
        let mut column = Page::INDENT.len() + mark.chars().count();
        let shown = look.map_or_else(|| mark.to_owned(), |look| self.painted(look, mark));
        let _ = write!(self.text, "{}{shown}", Page::INDENT);
        let mut first = mark.is_empty();
        for word in text.split_ascii_whitespace() {
            let width = word.chars().count();
            if !first && column + 1 + width > self.width {
                let _ = write!(self.text, "\n{}  ", Page::INDENT);
                column = Page::INDENT.len() + 2;
            } else if !first {
                self.text.push(' ');
                column += 1;
            }
            self.text.push_str(word);
            column += width;
            first = false;
        }
        self.blank();
    }
}

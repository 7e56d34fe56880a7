//! [`printable`]: text from files and from other hosts, made safe for terminals and for the formats of other programs.

use std::borrow::Cow;

/// True if a terminal or an editor interprets `c` instead of showing it: control characters, ends of lines, and characters that
/// change the direction of writing, so that text looks different from its content.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Replaces the characters that a terminal would interpret by U+FFFD.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.contains(is_unprintable) {
        Cow::Owned(
            text.chars().map(|c| if is_unprintable(c) { char::REPLACEMENT_CHARACTER } else { c }).collect(),
        )
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_interprets_remains() {
        for (text, shown) in [
            ("Zürich – 東京", "Zürich – 東京"),
            ("a\x1b[2Jb", "a\u{fffd}[2Jb"),
            ("a\r\n\tb\u{9b}c", "a\u{fffd}\u{fffd}\u{fffd}b\u{fffd}c"),
            ("gpj.\u{202e}exe", "gpj.\u{fffd}exe"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}

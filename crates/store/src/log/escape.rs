//! Escaping of free text within one line.

/// Escapes text so that it fits on one line, and cannot be mistaken for a single `-` or for the `=` of a tag.
pub(super) fn escape(text: &str) -> String {
    if text == "-" {
        return "\\-".to_owned();
    }
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

pub(super) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('e') => out.push('='),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            other => out.push(other),
        }
    }
    out
}

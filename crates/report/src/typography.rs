//! Converts text from the ASCII of the console to the symbols of pages and pictures.

/// Replaces `us`, `+/-` and the ASCII minus sign in `text` with µs, ± and −.
pub fn micro(text: &str) -> String {
    let digits = |w: &str| w.starts_with(|c: char| c.is_ascii_digit());
    let word = |w: &str| match w {
        "-" => "−".to_owned(),
        _ if w.starts_with("us") && w[2..].chars().all(|c| c.is_ascii_punctuation()) => {
            format!("µs{}", &w[2..])
        }
        _ => match (w.strip_prefix('-'), w.strip_prefix("(-")) {
            (Some(number), _) if digits(number) => format!("−{number}"),
            (_, Some(number)) if digits(number) => format!("(−{number}"),
            _ => w.to_owned(),
        },
    };
    text.replace("+/- ", "±").split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Formats a cell of a table: a dash if there is no value, and units joined to their number.
pub fn cell(text: &str) -> String {
    match text {
        "-" => "–".to_owned(),
        _ => micro(text).replace(' ', "\u{a0}"),
    }
}

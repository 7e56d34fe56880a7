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

/// Replaces the unit `us` in `text` with µs.
pub fn micro_unit(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for word in text.split_inclusive(' ') {
        let after_number = written.trim_end_matches(' ').ends_with(|c: char| c.is_ascii_digit());
        match word.strip_prefix("us").filter(|rest| after_number && rest.chars().all(is_no_letter)) {
            Some(rest) => {
                written.push_str("µs");
                written.push_str(rest);
            }
            None => written.push_str(word),
        }
    }
    written
}

fn is_no_letter(c: char) -> bool {
    c == ' ' || c.is_ascii_punctuation()
}

/// Formats a cell of a table: a dash if there is no value, and units joined to their number.
pub fn cell(text: &str) -> String {
    match text {
        "-" => "–".to_owned(),
        _ => micro(text).replace(' ', "\u{a0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_unit_becomes_micro() {
        assert_eq!(micro_unit("every 20.0 us, +/- 3 us (4 us)"), "every 20.0 µs, +/- 3 µs (4 µs)");
        assert_eq!(micro_unit("call us, 5 users, us"), "call us, 5 users, us");
    }
}

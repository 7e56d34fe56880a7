//! Escapes text for HTML, XML and SVG. Names, tags and host facts may come from untrusted peers.

/// Escapes `text` as content or attribute value of HTML, XML or SVG. Line feeds and tabs become spaces; other control
/// characters, which XML forbids even as entities, become U+FFFD.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Escapes the characters of a JSON text that could end a `<script>` element.
pub fn script_safe(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out() {
        assert_eq!(escape("<b a=\"x\" b='y'>&\u{0}"), "&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;\u{fffd}");
        let json = script_safe(r#"{"name":"</script><!--"}"#);
        assert!(!json.contains('<') && !json.contains('>'));
    }
}

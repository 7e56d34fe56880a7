//! Pictures on terminals that can show them: the figure of a report's first screen, by the protocol of kitty or that of iTerm2.

use crate::pages;
use crate::report::Report;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jitlat_report::PictureFormat;
use std::fmt::Write;

/// Width of a picture, in columns.
const COLUMNS: u16 = 80;
/// Maximum length of a part of a picture, in characters of base64 (protocol of kitty, "The graphics escape code").
const MAX_PART: usize = 4096;

/// A protocol by which a terminal receives pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PictureProtocol {
    /// Protocol of kitty, also used by Ghostty, WezTerm and Konsole: <https://sw.kovidgoyal.net/kitty/graphics-protocol/>.
    Kitty,
    /// Protocol of iTerm2: <https://iterm2.com/documentation-images.html>.
    Iterm,
}

impl PictureProtocol {
    /// Returns the protocol of the terminal that these environment variables describe; `None` if it is unknown whether the
    /// terminal shows pictures. The terminal itself is not queried, because one that does not answer would delay the report.
    fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Option<PictureProtocol> {
        // tmux and screen would pass the codes on as text.
        if variable("TMUX").is_some() || variable("STY").is_some() {
            return None;
        }
        let term = variable("TERM").unwrap_or_default();
        let program = variable("TERM_PROGRAM").unwrap_or_default();
        let konsole = variable("KONSOLE_VERSION").and_then(|version| version.parse::<u32>().ok());
        match (&*term, &*program) {
            ("xterm-kitty" | "xterm-ghostty", _) | (_, "WezTerm" | "ghostty") => Some(PictureProtocol::Kitty),
            (_, "iTerm.app") => Some(PictureProtocol::Iterm),
            // Konsole shows pictures from version 22.04 on.
            _ => konsole.filter(|version| *version >= 220_400).map(|_| PictureProtocol::Kitty),
        }
    }

    /// Returns the codes that show a PNG file.
    fn encode(self, png: &[u8]) -> String {
        let data = BASE64.encode(png);
        match self {
            PictureProtocol::Iterm => {
                format!("\x1b]1337;File=inline=1;width={COLUMNS};size={}:{data}\x07\n", png.len())
            }
            PictureProtocol::Kitty => {
                let mut codes = String::with_capacity(data.len() + data.len() / 256 + 64);
                let parts = data.len().div_ceil(MAX_PART);
                for k in 0..parts {
                    let part = &data[k * MAX_PART..data.len().min((k + 1) * MAX_PART)];
                    let more = u8::from(k + 1 < parts);
                    let first = if k == 0 { format!("f=100,a=T,q=2,c={COLUMNS},") } else { String::new() };
                    // Writing to a string does not fail.
                    let _ = write!(codes, "\x1b_G{first}m={more};{part}\x1b\\");
                }
                codes + "\n"
            }
        }
    }
}

/// Returns the codes that show the figure of a report's first screen on this terminal; `None` if it is not known that the
/// terminal shows pictures, or if there is no figure.
pub fn of_report(report: &dyn Report) -> Option<String> {
    let is_plain = !super::is_terminal() || super::is_dumb();
    let protocol = PictureProtocol::of_environment(|name| std::env::var(name).ok()).filter(|_| !is_plain)?;
    let figure = report.first_screen()?.figure?;
    let (_, png) = pages::files(&[figure], &[PictureFormat::Png]).next()?.ok()?;
    Some(protocol.encode(&png))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_that_show_pictures_are_known() {
        use PictureProtocol::{Iterm, Kitty};
        for (variables, protocol) in [
            (&[("TERM", "xterm-kitty")][..], Some(Kitty)),
            (&[("TERM", "xterm-ghostty")], Some(Kitty)),
            (&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "WezTerm")], Some(Kitty)),
            (&[("TERM", "xterm-256color"), ("KONSOLE_VERSION", "230804")], Some(Kitty)),
            (&[("TERM", "xterm-256color"), ("KONSOLE_VERSION", "210400")], None),
            (&[("TERM_PROGRAM", "iTerm.app")], Some(Iterm)),
            (&[("TERM", "xterm-256color")], None),
            (&[("TERM", "tmux-256color"), ("TERM_PROGRAM", "WezTerm"), ("TMUX", "/tmp/x")], None),
            (&[], None),
        ] {
            let value = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(PictureProtocol::of_environment(value), protocol, "{variables:?}");
        }
    }

    #[test]
    fn a_picture_arrives_whole_in_parts_of_limited_length() {
        let png: Vec<u8> = (0..10_000u32).map(|k| k as u8).collect();
        let codes = PictureProtocol::Kitty.encode(&png);
        let parts: Vec<&str> = codes.trim_end().split_terminator("\x1b\\").collect();
        let payload = |part: &&str| part.split_once(';').unwrap().1.to_owned();
        assert!(parts.iter().all(|part| part.starts_with("\x1b_G") && payload(part).len() <= MAX_PART));
        assert!(parts[0].contains("a=T") && parts[0].contains("m=1;"));
        assert!(parts.last().unwrap().contains("m=0;"));
        let data: String = parts.iter().map(payload).collect();
        assert_eq!(BASE64.decode(data).unwrap(), png);
        let codes = PictureProtocol::Iterm.encode(&png);
        let data = codes.trim_end().trim_end_matches('\x07').split_once(':').unwrap().1;
        assert_eq!(BASE64.decode(data).unwrap(), png);
    }
}

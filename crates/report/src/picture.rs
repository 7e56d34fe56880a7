//! [`PictureFormat`]: file formats in which figures are drawn.

use std::fmt;
use std::str::FromStr;

/// A file format of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// Scalable Vector Graphics, for pages.
    Svg,
    /// Portable Network Graphics, with two pixels for each unit of the SVG.
    Png,
    /// Portable Document Format, one page of the figure's size with its font, for papers.
    Pdf,
    /// Encapsulated PostScript with its font, for papers. Without transparency: colours are mixed with white.
    Eps,
}

impl PictureFormat {
    /// All formats.
    pub const ALL: [PictureFormat; 4] =
        [PictureFormat::Svg, PictureFormat::Png, PictureFormat::Pdf, PictureFormat::Eps];

    /// The formats that are drawn if none is requested.
    pub const DEFAULT: [PictureFormat; 2] = [PictureFormat::Svg, PictureFormat::Png];

    /// Returns the name, which is also the ending of the files.
    pub const fn name(self) -> &'static str {
        match self {
            PictureFormat::Svg => "svg",
            PictureFormat::Png => "png",
            PictureFormat::Pdf => "pdf",
            PictureFormat::Eps => "eps",
        }
    }
}

impl fmt::Display for PictureFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PictureFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<PictureFormat, String> {
        let of_name = |format: &PictureFormat| format.name().eq_ignore_ascii_case(text);
        PictureFormat::ALL.into_iter().find(of_name).ok_or_else(|| {
            let names: Vec<&str> = PictureFormat::ALL.iter().map(|format| format.name()).collect();
            let wrong = if text.is_empty() { "an entry of the list".to_owned() } else { format!("'{text}'") };
            let what = if text.is_empty() { "empty" } else { "not a format of figures" };
            format!("{wrong} is {what}: choose from {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_formats_are_read_in_any_case() {
        assert!("PDF".parse() == Ok(PictureFormat::Pdf) && "svg".parse() == Ok(PictureFormat::Svg));
        assert!("".parse::<PictureFormat>().is_err_and(|e| e.starts_with("an entry of the list is empty")));
        assert!("gif".parse::<PictureFormat>().is_err_and(|e| e.starts_with("'gif' is not a format")));
    }
}

//! Draws figures as SVG and PNG.
//!
//! [`layout`] turns a [`Figure`] into a list of shapes once; SVG and PNG are written from the same list, so
//! they cannot differ. Text is measured, and in PNG drawn, with an embedded subset of DejaVu Sans, so nothing
//! depends on the fonts of the machine.

mod card;
mod font;
mod layout;
mod palette;
mod png;
mod svg;

pub use card::card;
pub use layout::{Anchor, Drawing, Shape, TextBox, layout};
pub use palette::{Ink, Paint};

use crate::FirstScreen;
use crate::figure::Figure;

/// Colours of everything except the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Dark on white, for files and print.
    Paper,
    /// The colour of the surrounding text, without background, for pages.
    Inline,
}

/// Draws a figure as a standalone SVG document.
pub fn svg(figure: &Figure) -> String {
    svg::write(&layout(figure), Theme::Paper)
}

/// Draws a figure as an SVG element for a page that sets the text colour.
pub fn inline_svg(figure: &Figure) -> String {
    svg::write(&layout(figure), Theme::Inline)
}

/// Draws a figure as a PNG file with `scale` pixels per unit of the SVG (2 for screens and print).
///
/// # Errors
/// If `scale` is outside 0.1…16, or if the image cannot be encoded.
pub fn png(figure: &Figure, scale: f32) -> Result<Vec<u8>, DrawError> {
    png::write(&layout(figure), scale)
}

/// Returns name and content of the files that `--plots DIR` writes: an SVG and a PNG of each figure, generated
/// one at a time.
pub fn files(figures: &[Figure]) -> impl Iterator<Item = Result<(String, Vec<u8>), DrawError>> + '_ {
    figures.iter().flat_map(|figure| {
        let stem = layout(figure).id;
        let vector = Ok((format!("{stem}.svg"), svg(figure).into_bytes()));
        let pixels = png(figure, 2.0).map(|bytes| (format!("{stem}.png"), bytes));
        [vector, pixels]
    })
}

/// Returns the files of the card, `card.svg` and `card.png`: name and content.
pub fn card_files(first: &FirstScreen) -> impl Iterator<Item = Result<(String, Vec<u8>), DrawError>> {
    let drawing = card::card(first);
    let vector = Ok(("card.svg".to_owned(), svg::write(&drawing, Theme::Paper).into_bytes()));
    let pixels = png::write(&drawing, 2.0).map(|bytes| ("card.png".to_owned(), bytes));
    [vector, pixels].into_iter()
}

/// Reason why a figure could not be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DrawError {
    /// The scale is outside the supported range.
    #[error("cannot draw the figure: the scale {0} is out of range (0.1 to 16)")]
    Scale(String),
    /// The PNG encoder failed.
    #[error("cannot draw the figure: PNG encoding failed: {0}")]
    Encode(String),
}

//! Draws figures as SVG, PNG, PDF and EPS.
//!
//! [`layout`] turns a [`Figure`] into a list of shapes once; every format is written from the same list, so
//! they cannot differ. Text is measured with an embedded subset of DejaVu Sans. PNG draws text with it, and PDF and EPS
//! contain it, so nothing depends on the fonts of the machine.

mod card;
mod eps;
mod font;
mod layout;
mod palette;
mod pdf;
mod png;
mod svg;

pub use card::card;
pub use layout::{Anchor, Drawing, Shape, TextBox, layout};
pub use palette::{Ink, Paint};

use crate::figure::Figure;
use crate::{FirstScreen, PictureFormat};

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

/// Returns the file of `drawing` in `format`, dark on white.
///
/// # Errors
/// If the picture cannot be encoded.
pub fn encode(drawing: &Drawing, format: PictureFormat) -> Result<Vec<u8>, DrawError> {
    match format {
        PictureFormat::Svg => Ok(svg::write(drawing, Theme::Paper).into_bytes()),
        PictureFormat::Png => png::write(drawing, 2.0),
        PictureFormat::Pdf => pdf::write(drawing),
        PictureFormat::Eps => Ok(eps::write(drawing).into_bytes()),
    }
}

/// A file of `--plots DIR`, as name and content.
pub type PictureFile = Result<(String, Vec<u8>), DrawError>;

/// Returns the files that `--plots DIR` writes: each figure in each of `formats`, generated one at a time.
pub fn files(figures: &[Figure], formats: &[PictureFormat]) -> impl Iterator<Item = PictureFile> {
    figures.iter().flat_map(move |figure| files_of(layout(figure), formats))
}

/// Returns the files of the card in each of `formats`, `card.svg` and so on.
pub fn card_files(first: &FirstScreen, formats: &[PictureFormat]) -> impl Iterator<Item = PictureFile> {
    files_of(card::card(first), formats)
}

fn files_of(drawing: Drawing, formats: &[PictureFormat]) -> impl Iterator<Item = PictureFile> {
    formats.iter().map(move |format| Ok((format!("{}.{format}", drawing.id), encode(&drawing, *format)?)))
}

/// Reason why a figure could not be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DrawError {
    /// The scale is outside the supported range.
    #[error("cannot draw the figure: the scale {0} is out of range (0.1 to 16)")]
    Scale(String),
    /// The encoder failed.
    #[error("cannot draw the figure: encoding as {format} failed: {why}")]
    Encode {
        /// Name of the format.
        format: &'static str,
        /// The reason.
        why: String,
    },
}

//! The embedded font: widths for layout, outlines for PNG.

use std::sync::LazyLock;
use ttf_parser::{Face, OutlineBuilder};

/// A subset of DejaVu Sans: Latin, Greek, digits, punctuation (the licence is in the same folder).
const DEJAVU: &[u8] = include_bytes!("../../assets/DejaVuSans-subset.ttf");

/// Font families for SVG viewers: the same font, then one with the same widths.
pub const FAMILY: &str = "DejaVu Sans,Verdana,sans-serif";

// The file is part of the program and its parsing is tested; without it text would have a width but no outline.
static FACE: LazyLock<Option<Face<'static>>> = LazyLock::new(|| Face::parse(DEJAVU, 0).ok());

/// The width of `text` in font size `size`.
pub fn width(text: &str, size: f32) -> f32 {
    let Some(face) = FACE.as_ref() else { return text.chars().count() as f32 * size * 0.6 };
    let units: u32 = text.chars().map(|c| u32::from(advance(face, c))).sum();
    units as f32 * size / f32::from(face.units_per_em())
}

fn advance(face: &Face<'_>, c: char) -> u16 {
    let glyph = face.glyph_index(c).unwrap_or_default();
    face.glyph_hor_advance(glyph).unwrap_or(0)
}

/// Calls `outline` for each glyph of `text` with its position along the line and the scale from font
/// units, both for size `size`.
pub fn glyphs<B: OutlineBuilder>(
    text: &str,
    size: f32,
    mut builder: impl FnMut(f32, f32) -> B,
    mut done: impl FnMut(B),
) {
    let Some(face) = FACE.as_ref() else { return };
    let scale = size / f32::from(face.units_per_em());
    let mut x = 0.0;
    for c in text.chars() {
        let mut one = builder(x, scale);
        if face.outline_glyph(face.glyph_index(c).unwrap_or_default(), &mut one).is_some() {
            done(one);
        }
        x += f32::from(advance(face, c)) * scale;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_the_figures_use_is_in_the_subset() {
        let face = FACE.as_ref().expect("the embedded font parses");
        for c in "0123456789−–µσΔθα≤≥≈·×…\u{202f}%‰→°".chars().chain('!'..='~') {
            assert!(face.glyph_index(c).is_some(), "{c:?}");
        }
    }

    #[test]
    fn width_follows_size_and_text() {
        assert!((width("00", 10.0) - 2.0 * width("0", 10.0)).abs() < 1e-3);
        assert!((width("µs", 24.0) - 2.0 * width("µs", 12.0)).abs() < 1e-3);
        assert!(width("iiii", 12.0) < width("MMMM", 12.0));
    }
}

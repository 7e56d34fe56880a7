//! The embedded font: widths for layout, outlines for PNG, its file and glyphs for PDF and EPS.

use std::sync::LazyLock;

/// A subset of DejaVu Sans: Latin, Greek, digits, punctuation (its licence is in the same folder).
pub const FILE: &[u8] = include_bytes!("../../assets/DejaVuSans-subset.ttf");

/// Edges of the font's bounding box: left, bottom, right, top, in thousandths of the font size.
pub const BOUNDS: [f32; 4] = [-1021.0, -463.0, 1793.0, 1232.0];

/// Font families for SVG viewers: the same font, then one with the same widths.
pub const FAMILY: &str = "DejaVu Sans,Verdana,sans-serif";

// Parsed font; `None` cannot occur, because the font is part of the program and a test parses it. Without it,
// text would have a width but no outline.
static FACE: LazyLock<Option<Face>> = LazyLock::new(|| Face::parse(FILE));

/// Width of `text` in font size `size`.
pub fn width(text: &str, size: f32) -> f32 {
    let Some(face) = FACE.as_ref() else { return text.chars().count() as f32 * size * 0.6 };
    let units: u32 = text.chars().map(|c| u32::from(face.advance(face.glyph(c)))).sum();
    units as f32 * size / face.units_per_em
}

/// Returns the number of the glyph of `c`; 0, which is an empty box, if the font lacks the character.
pub fn glyph(c: char) -> u16 {
    FACE.as_ref().map_or(0, |face| face.glyph(c))
}

/// Returns the width of each glyph, in units of the font.
pub fn advances() -> &'static [u16] {
    FACE.as_ref().map_or(&[], |face| &face.advances)
}

/// Returns the number of font units in the font size (em).
pub fn units_per_em() -> f32 {
    FACE.as_ref().map_or(1000.0, |face| face.units_per_em)
}

/// Returns the glyph outlines of `text` in font size `size`. Coordinates are relative to the start of the text line,
/// and y points down.
pub fn outlines(text: &str, size: f32) -> Vec<Contour> {
    let Some(face) = FACE.as_ref() else { return Vec::new() };
    let scale = size / face.units_per_em;
    let mut contours = Vec::new();
    let mut x = 0.0;
    for c in text.chars() {
        let glyph = face.glyph(c);
        let from = contours.len();
        face.outline(glyph, (0, 0), MAX_NESTING, &mut contours);
        for point in contours[from..].iter_mut().flat_map(|contour: &mut Contour| &mut contour.0) {
            (point.x, point.y) = (x + point.x * scale, -point.y * scale);
        }
        x += f32::from(face.advance(glyph)) * scale;
    }
    contours
}

/// A closed curve: points on the curve, and between them control points of quadratic curves. Between two consecutive
/// control points, the point halfway is on the curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contour(pub Vec<ContourPoint>);

/// A point of a [`Contour`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContourPoint {
    pub x: f32,
    pub y: f32,
    /// True if the curve passes through the point.
    pub on_curve: bool,
}

/// Maximum depth of composite glyphs; the font only has one level.
const MAX_NESTING: u8 = 3;

/// Tables of a TrueType font that are needed to draw text. Supports only the features of this font: characters
/// of the Basic Multilingual Plane, short offsets, composite glyphs whose parts are moved but not scaled.
struct Face {
    units_per_em: f32,
    /// Segments of character codes: last code, first code, difference between code and glyph.
    segments: Vec<(u16, u16, u16)>,
    advances: Vec<u16>,
    /// Offsets into `glyf`: the start of each glyph, then the end of the last one.
    offsets: Vec<usize>,
    glyf: &'static [u8],
}

impl Face {
    fn parse(file: &'static [u8]) -> Option<Face> {
        let table = |name: &[u8; 4]| {
            let records = file.get(12..12 + 16 * usize::from(u16_at(file, 4)?))?;
            let record = records.chunks_exact(16).find(|record| record.starts_with(name))?;
            let (offset, length) = (u32_at(record, 8)?, u32_at(record, 12)?);
            file.get(offset..offset.checked_add(length)?)
        };
        let (head, cmap) = (table(b"head")?, table(b"cmap")?);
        let glyphs = usize::from(u16_at(table(b"maxp")?, 4)?);
        let (hmtx, loca) = (table(b"hmtx")?, table(b"loca")?);
        Some(Face {
            units_per_em: f32::from(u16_at(head, 18)?),
            segments: segments(cmap.get(u32_at(cmap, 8)?..)?)?,
            advances: (0..glyphs).map(|k| u16_at(hmtx, 4 * k)).collect::<Option<_>>()?,
            offsets: (0..=glyphs)
                .map(|k| Some(2 * usize::from(u16_at(loca, 2 * k)?)))
                .collect::<Option<_>>()?,
            glyf: table(b"glyf")?,
        })
    }

    /// Number of a character's glyph; 0, which is an empty box, if the font lacks the character.
    fn glyph(&self, c: char) -> u16 {
        let Ok(code) = u16::try_from(u32::from(c)) else { return 0 };
        let segment = self.segments.iter().find(|(last, _, _)| code <= *last);
        segment.filter(|(_, first, _)| *first <= code).map_or(0, |(_, _, delta)| code.wrapping_add(*delta))
    }

    fn advance(&self, glyph: u16) -> u16 {
        self.advances.get(usize::from(glyph)).copied().unwrap_or(0)
    }

    /// Appends the outline of a glyph, in font units with y up, moved by `by`. `None` for a glyph in an unexpected format.
    fn outline(&self, glyph: u16, by: (i16, i16), nesting: u8, out: &mut Vec<Contour>) -> Option<()> {
        let [from, to] = *self.offsets.get(usize::from(glyph)..)?.first_chunk()?;
        let mut bytes = FontBytes(self.glyf.get(from..to)?);
        let contours = bytes.i16()?;
        // Skip the bounding box.
        bytes.skip(8)?;
        match usize::try_from(contours) {
            Ok(contours) => simple(bytes, contours, by, out),
            Err(_) => self.composite(bytes, by, nesting.checked_sub(1)?, out),
        }
    }

    /// Appends the outline of a composite glyph; `None` if its format is unexpected.
    fn composite(
        &self,
        mut bytes: FontBytes,
        by: (i16, i16),
        nesting: u8,
        out: &mut Vec<Contour>,
    ) -> Option<()> {
        const WORDS: u16 = 1;
        const OFFSETS: u16 = 2;
        const SCALED: u16 = 0x08 | 0x40 | 0x80;
        const MORE: u16 = 0x20;
        loop {
            let (flags, part) = (bytes.u16()?, bytes.u16()?);
            let offset = match flags & WORDS {
                0 => (i16::from(bytes.u8()? as i8), i16::from(bytes.u8()? as i8)),
                _ => (bytes.i16()?, bytes.i16()?),
            };
            if flags & OFFSETS == 0 || flags & SCALED != 0 {
                return None;
            }
            self.outline(part, (by.0.checked_add(offset.0)?, by.1.checked_add(offset.1)?), nesting, out)?;
            if flags & MORE == 0 {
                return Some(());
            }
        }
    }
}

/// Returns the segments of a character map of format 4; `None` for a map that is not supported.
fn segments(table: &[u8]) -> Option<Vec<(u16, u16, u16)>> {
    let twice = usize::from(u16_at(table, 6)?);
    let segment = |k: usize| {
        let at = |array: usize| u16_at(table, array + 2 * k);
        let (last, first, delta) = (at(14)?, at(16 + twice)?, at(16 + 2 * twice)?);
        // Reject segments with a list of glyphs, which this font does not use.
        (at(16 + 3 * twice)? == 0).then_some((last, first, delta))
    };
    (u16_at(table, 0)? == 4).then(|| (0..twice / 2).map(segment).collect())?
}

/// Appends the contours of a simple glyph; `None` if its data is incomplete.
fn simple(mut bytes: FontBytes, contours: usize, by: (i16, i16), out: &mut Vec<Contour>) -> Option<()> {
    const ON_CURVE: u8 = 1;
    const REPEATED: u8 = 8;
    let ends = (0..contours).map(|_| bytes.u16().map(usize::from)).collect::<Option<Vec<_>>>()?;
    let points = ends.last().map_or(0, |last| last + 1);
    let instructions = bytes.u16()?;
    bytes.skip(instructions.into())?;
    let mut flags: Vec<u8> = Vec::with_capacity(points);
    while flags.len() < points {
        let flag = bytes.u8()?;
        let times = if flag & REPEATED == 0 { 1 } else { 1 + usize::from(bytes.u8()?) };
        flags.extend(core::iter::repeat_n(flag, times));
    }
    let xs = coordinates(&mut bytes, &flags, by.0, (0x02, 0x10))?;
    let ys = coordinates(&mut bytes, &flags, by.1, (0x04, 0x20))?;
    let point =
        |k: usize| ContourPoint { x: xs[k].into(), y: ys[k].into(), on_curve: flags[k] & ON_CURVE != 0 };
    let mut from = 0;
    for end in ends {
        out.push(Contour((from..=end).map(point).collect()));
        from = end + 1;
    }
    Some(())
}

/// Returns one coordinate of every point, from differences of 0, 1 or 2 bytes. `short` and `same` are bits of the
/// flags: with `short`, a difference has 1 byte and `same` is its sign.
fn coordinates(bytes: &mut FontBytes, flags: &[u8], start: i16, (short, same): (u8, u8)) -> Option<Vec<i16>> {
    let mut at = start;
    let each = flags.iter().map(|flag| {
        let difference = match (flag & short != 0, flag & same != 0) {
            (true, true) => bytes.u8()?.into(),
            (true, false) => -i16::from(bytes.u8()?),
            (false, true) => 0,
            (false, false) => bytes.i16()?,
        };
        at = at.checked_add(difference)?;
        Some(at)
    });
    each.collect()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|two| u16::from_be_bytes(*two))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_be_bytes(*four) as usize)
}

/// Unread bytes of the font.
struct FontBytes(&'static [u8]);

impl FontBytes {
    fn skip(&mut self, n: usize) -> Option<()> {
        self.0 = self.0.get(n..)?;
        Some(())
    }

    fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        let value = u16_at(self.0, 0)?;
        self.skip(2)?;
        Some(value)
    }

    fn i16(&mut self) -> Option<i16> {
        self.u16().map(u16::cast_signed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_the_figures_use_is_in_the_subset() {
        let face = FACE.as_ref().expect("the embedded font parses");
        for c in "0123456789−–µσΔθα≤≥≈·×…\u{202f}%‰→°".chars().chain('!'..='~') {
            assert_ne!(face.glyph(c), 0, "{c:?}");
        }
        assert_eq!(face.glyph('\u{4e00}'), 0);
    }

    #[test]
    fn every_glyph_has_its_outline_and_lies_in_the_box_that_the_font_states() {
        let face = FACE.as_ref().expect("the embedded font parses");
        for (glyph, offsets) in (0u16..).zip(face.offsets.windows(2)) {
            let mut contours = Vec::new();
            let found = face.outline(glyph, (0, 0), MAX_NESTING, &mut contours);
            if offsets[0] == offsets[1] {
                // A space.
                assert_eq!((found, contours.len()), (None, 0), "{glyph}");
                continue;
            }
            assert!(found.is_some() && !contours.is_empty(), "{glyph}");
            let bounds = &face.glyf[offsets[0] + 2..];
            let bound = |k: usize| f32::from(u16_at(bounds, 2 * k).unwrap().cast_signed());
            let on = || contours.iter().flat_map(|c| &c.0);
            let extreme =
                |of: fn(&ContourPoint) -> f32, pick: fn(f32, f32) -> f32| on().map(of).reduce(pick).unwrap();
            let found = [
                extreme(|p| p.x, f32::min),
                extreme(|p| p.y, f32::min),
                extreme(|p| p.x, f32::max),
                extreme(|p| p.y, f32::max),
            ];
            // The box stated by a composite glyph is rounded.
            for (k, found) in found.into_iter().enumerate() {
                assert!((found - bound(k)).abs() <= 1.0, "{glyph}: {found} instead of {}", bound(k));
            }
        }
    }

    #[test]
    fn a_character_outside_the_font_is_a_box_of_some_width() {
        assert!(width("\u{4e00}", 12.0) > 0.0);
        assert!(!outlines("\u{1f600}", 12.0).is_empty());
    }

    #[test]
    fn width_follows_size_and_text() {
        assert!((width("00", 10.0) - 2.0 * width("0", 10.0)).abs() < 1e-3);
        assert!((width("µs", 24.0) - 2.0 * width("µs", 12.0)).abs() < 1e-3);
        assert!(width("iiii", 12.0) < width("MMMM", 12.0));
    }
}

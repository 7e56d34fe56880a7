//! Writes a drawing as PDF: one page of the figure's size, with an embedded font.

use super::DrawError;
use super::font;
use super::layout::{Drawing, Rect, Shape, TextBox};
use super::palette::{Ink, Paint, rgb};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_writer::types::{CidFontType, FontFlags, LineCapStyle, LineJoinStyle, SystemInfo, UnicodeCmap};
use pdf_writer::{Content, Filter, Finish, Name, Pdf, Ref, Str, TextStr};
use std::collections::BTreeMap;
use std::io::Write;

/// Points per unit of a drawing: a unit is a pixel of CSS, 1/96 inch.
pub const POINTS: f32 = 0.75;

const CATALOG: Ref = Ref::new(1);
const PAGES: Ref = Ref::new(2);
const PAGE: Ref = Ref::new(3);
const CONTENT: Ref = Ref::new(4);
const INFO: Ref = Ref::new(5);
const FONT: Ref = Ref::new(6);
const CID_FONT: Ref = Ref::new(7);
const DESCRIPTOR: Ref = Ref::new(8);
const FONT_FILE: Ref = Ref::new(9);
const TO_UNICODE: Ref = Ref::new(10);
/// Number of the first object of those whose number differs between figures.
const FIRST_OTHER: i32 = 11;

/// Name of the font in the page's resources.
const FONT_NAME: Name = Name(b"F");
/// Name of the embedded font; the letters before + mean that it is a subset.
const BASE_FONT: Name = Name(b"JITLAT+DejaVuSans");
const IDENTITY: SystemInfo =
    SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 };

/// Writes `drawing`, dark on white.
pub fn write(drawing: &Drawing) -> Result<Vec<u8>, DrawError> {
    let mut page = PdfPage {
        content: Content::new(),
        images: Vec::new(),
        opacities: BTreeMap::new(),
        characters: BTreeMap::new(),
    };
    let height = drawing.height * POINTS;
    // The drawing's y points down.
    page.content.transform([POINTS, 0.0, 0.0, -POINTS, 0.0, height]);
    page.shape(&drawing.background());
    drawing.frame.iter().for_each(|s| page.shape(s));
    page.content.save_state();
    let Rect { x, y, w, h } = drawing.plot;
    page.content.rect(x, y, w, h).clip_nonzero().end_path();
    drawing.data.iter().for_each(|s| page.shape(s));
    page.content.restore_state();
    drawing.labels.iter().for_each(|s| page.shape(s));

    let mut pdf = Pdf::new();
    pdf.catalog(CATALOG).pages(PAGES);
    pdf.pages(PAGES).kids([PAGE]).count(1);
    let mut info = pdf.document_info(INFO);
    info.title(TextStr(&drawing.title)).subject(TextStr(&drawing.description)).creator(TextStr("jitlat"));
    info.finish();
    let mut sheet = pdf.page(PAGE);
    sheet.parent(PAGES).contents(CONTENT);
    sheet.media_box(pdf_writer::Rect::new(0.0, 0.0, drawing.width * POINTS, height));
    let mut resources = sheet.resources();
    resources.fonts().pair(FONT_NAME, FONT);
    let image = |k: usize| Ref::new(FIRST_OTHER + 2 * k as i32);
    let mut images = resources.x_objects();
    for k in 0..page.images.len() {
        images.pair(Name(image_name(k).as_bytes()), image(k));
    }
    images.finish();
    let mut states = resources.ext_g_states();
    for (opacity, name) in &page.opacities {
        let opacity = f32::from_bits(*opacity);
        let mut state =
            states.insert(Name(name.as_bytes())).start::<pdf_writer::writers::ExtGraphicsState<'_>>();
        state.stroking_alpha(opacity).non_stroking_alpha(opacity);
    }
    states.finish();
    resources.finish();
    sheet.finish();
    let PdfPage { content, images, characters, .. } = page;
    let content = deflated(&content.finish())?;
    pdf.stream(CONTENT, &content).filter(Filter::FlateDecode);
    for (k, cells) in images.iter().enumerate() {
        cells.write(&mut pdf, image(k))?;
    }
    write_font(&mut pdf, &characters)?;
    Ok(pdf.finish())
}

/// Content of the page, with the resources that it needs.
struct PdfPage {
    content: Content,
    images: Vec<PdfCells>,
    /// Names of the opacities in use, by the bits of the opacity.
    opacities: BTreeMap<u32, String>,
    /// Glyphs in use, with their characters.
    characters: BTreeMap<u16, char>,
}

impl PdfPage {
    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Rects { rects, fill } => {
                self.fill_with(*fill);
                for r in rects {
                    self.content.rect(r.x, r.y, r.w, r.h);
                }
                self.content.fill_nonzero();
            }
            Shape::Path { points, stroke, width, dashes } => {
                self.stroke_with(*stroke, *width, LineCapStyle::ButtCap);
                self.content.set_dash_pattern(dashes.iter().copied(), 0.0);
                for (i, (x, y)) in points.iter().enumerate() {
                    if i == 0 {
                        self.content.move_to(*x, *y)
                    } else {
                        self.content.line_to(*x, *y)
                    };
                }
                self.content.stroke();
            }
            Shape::Dots { points, radius, fill } => {
                // A line of length 0 with round ends is a dot.
                self.stroke_with(*fill, radius * 2.0, LineCapStyle::RoundCap);
                self.content.set_dash_pattern([], 0.0);
                for (x, y) in points {
                    self.content.move_to(*x, *y).line_to(*x, *y);
                }
                self.content.stroke();
            }
            Shape::Cells { rect, columns, rows, levels, ink } => {
                let cells = PdfCells { columns: *columns, rows: *rows, levels: levels.clone(), ink: *ink };
                let name = image_name(self.images.len());
                self.images.push(cells);
                self.opacity(1.0);
                // The first row of an image is at the end of its y axis.
                let place = [rect.w, 0.0, 0.0, -rect.h, rect.x, rect.y + rect.h];
                self.content.save_state().transform(place).x_object(Name(name.as_bytes())).restore_state();
            }
            Shape::Text(text) => self.text(text),
        }
    }

    fn text(&mut self, t: &TextBox) {
        self.fill_with(t.fill);
        let shift = t.shift();
        let place = match t.upright {
            true => [0.0, -1.0, -1.0, 0.0, t.x, t.y - shift],
            false => [1.0, 0.0, 0.0, -1.0, t.x + shift, t.y],
        };
        let glyphs = t.text.chars().map(|c| (font::glyph(c), c));
        let mut bytes = Vec::new();
        for (glyph, c) in glyphs {
            self.characters.entry(glyph).or_insert(c);
            bytes.extend(glyph.to_be_bytes());
        }
        self.content
            .begin_text()
            .set_font(FONT_NAME, t.size)
            .set_text_matrix(place)
            .show(Str(&bytes))
            .end_text();
    }

    fn fill_with(&mut self, paint: Paint) {
        let [r, g, b] = rgb(paint.ink);
        self.opacity(paint.opacity);
        self.content.set_fill_rgb(r, g, b);
    }

    fn stroke_with(&mut self, paint: Paint, width: f32, cap: LineCapStyle) {
        let [r, g, b] = rgb(paint.ink);
        self.opacity(paint.opacity);
        self.content.set_stroke_rgb(r, g, b).set_line_width(width).set_line_cap(cap);
        self.content.set_line_join(LineJoinStyle::RoundJoin);
    }

    fn opacity(&mut self, opacity: f32) {
        let next = format!("G{}", self.opacities.len());
        let name = self.opacities.entry(opacity.to_bits()).or_insert(next);
        self.content.set_parameters(Name(name.as_bytes()));
    }
}

fn image_name(k: usize) -> String {
    format!("I{k}")
}

/// A grid of cells: an image in one colour, with the opacity of each cell.
struct PdfCells {
    columns: usize,
    rows: usize,
    levels: Vec<u8>,
    ink: Ink,
}

impl PdfCells {
    /// Writes the image as object `id`, and its opacities as the next object.
    fn write(&self, pdf: &mut Pdf, id: Ref) -> Result<(), DrawError> {
        let opacities = Ref::new(id.get() + 1);
        let (columns, rows) = (self.columns as i32, self.rows as i32);
        // One bit for each pixel, all of them the first colour of a palette of one.
        let pixels = deflated(&vec![0; self.columns.div_ceil(8) * self.rows])?;
        let mut image = pdf.image_xobject(id, &pixels);
        image.filter(Filter::FlateDecode);
        image.width(columns).height(rows).bits_per_component(1);
        let color = rgb(self.ink).map(|c| (c * 255.0).round() as u8);
        image.color_space().indexed(Name(b"DeviceRGB"), 0, &color);
        image.s_mask(opacities);
        image.finish();
        let levels = deflated(&self.levels)?;
        let mut mask = pdf.image_xobject(opacities, &levels);
        mask.filter(Filter::FlateDecode);
        mask.width(columns).height(rows).bits_per_component(8);
        mask.color_space().device_gray();
        Ok(())
    }
}

/// Writes the font, and the character of each glyph in use, so that text can be searched and copied.
fn write_font(pdf: &mut Pdf, characters: &BTreeMap<u16, char>) -> Result<(), DrawError> {
    let mut font = pdf.type0_font(FONT);
    font.base_font(BASE_FONT).encoding_predefined(Name(b"Identity-H"));
    font.descendant_font(CID_FONT).to_unicode(TO_UNICODE);
    font.finish();
    let per_mille = 1000.0 / font::units_per_em();
    let mut cid = pdf.cid_font(CID_FONT);
    cid.subtype(CidFontType::Type2).base_font(BASE_FONT).system_info(IDENTITY).font_descriptor(DESCRIPTOR);
    cid.cid_to_gid_map_predefined(Name(b"Identity"));
    cid.widths().consecutive(0, font::advances().iter().map(|units| f32::from(*units) * per_mille));
    cid.finish();
    // Values of DejaVu Sans, in thousandths of the font size.
    let mut descriptor = pdf.font_descriptor(DESCRIPTOR);
    descriptor.name(BASE_FONT).flags(FontFlags::SYMBOLIC).font_file2(FONT_FILE);
    let [left, bottom, right, top] = font::BOUNDS;
    descriptor.bbox(pdf_writer::Rect::new(left, bottom, right, top)).italic_angle(0.0);
    descriptor.ascent(928.0).descent(-236.0).cap_height(729.0).stem_v(90.0);
    descriptor.finish();
    let file = deflated(font::FILE)?;
    pdf.stream(FONT_FILE, &file).filter(Filter::FlateDecode).pair(Name(b"Length1"), font::FILE.len() as i32);
    let mut map = UnicodeCmap::<u16>::new(Name(b"Custom"), IDENTITY);
    // Glyph 0 is the box for every character that the font lacks.
    characters.iter().filter(|(glyph, _)| **glyph != 0).for_each(|(glyph, c)| map.pair(*glyph, *c));
    let map = deflated(&map.finish())?;
    pdf.cmap(TO_UNICODE, &map).filter(Filter::FlateDecode);
    Ok(())
}

fn deflated(bytes: &[u8]) -> Result<Vec<u8>, DrawError> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.map_err(|e| DrawError::Encode { format: "PDF", why: e.to_string() })
}

//! Writes a drawing as Encapsulated PostScript, which contains its font. PostScript has no transparency: colours are
//! mixed with white, and cells of opacity 0 are not painted.

use super::font;
use super::layout::{Drawing, Rect, Shape, TextBox};
use super::palette::{Ink, Paint, rgb};
use super::pdf::POINTS;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Procedures: `m` and `l` make a path, and `d` adds a dot. `size x y shift (text) t` draws text; `u` instead of `t`
/// draws it upwards.
const PROCEDURES: &str =
    "/m { moveto } bind def /l { lineto } bind def /d { moveto 0 0 rlineto stroke } bind def
/t { 0 T } bind def /u { -90 T } bind def
/T { /A exch def /S exch def /H exch def gsave translate A rotate 1 -1 scale
F exch scalefont setfont H 0 moveto S show grestore } bind def";

/// Maximum length of the title, which is a comment: lines of comments have at most 255 characters.
const MAX_TITLE: usize = 200;

/// Writes `drawing`, dark on white.
pub fn write(drawing: &Drawing) -> String {
    let (w, h) = (drawing.width * POINTS, drawing.height * POINTS);
    let mut page = EpsPage { text: String::new(), codes: codes(drawing) };
    let title: String = drawing.title.chars().take(MAX_TITLE).map(printable).collect();
    page.line("%!PS-Adobe-3.0 EPSF-3.0");
    page.line(&format!("%%BoundingBox: 0 0 {} {}", w.ceil(), h.ceil()));
    page.line(&format!("%%HiResBoundingBox: 0 0 {} {}", n(w), n(h)));
    page.line(&format!("%%Title: {title}"));
    page.line("%%Creator: jitlat");
    page.line("%%LanguageLevel: 3");
    page.line("%%EndComments");
    page.line("save 20 dict begin");
    page.line(PROCEDURES);
    page.font();
    // The drawing's y points down.
    page.line(&format!("0 {} translate {POINTS} -{POINTS} scale 1 setlinejoin", n(h)));
    page.shape(&drawing.background());
    drawing.frame.iter().for_each(|s| page.shape(s));
    let Rect { x, y, w, h } = drawing.plot;
    page.line(&format!("gsave {} {} {} {} rectclip", n(x), n(y), n(w), n(h)));
    drawing.data.iter().for_each(|s| page.shape(s));
    page.line("grestore");
    drawing.labels.iter().for_each(|s| page.shape(s));
    page.line("end restore showpage");
    page.line("%%EOF");
    page.text
}

struct EpsPage {
    text: String,
    /// Code of each character in strings.
    codes: BTreeMap<char, u8>,
}

impl EpsPage {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Rects { rects, fill } => {
                self.paint(*fill);
                for r in rects {
                    self.line(&format!("{} {} {} {} rectfill", n(r.x), n(r.y), n(r.w), n(r.h)));
                }
            }
            Shape::Path { points, stroke, width, dashes } => {
                self.paint(*stroke);
                let dashes: Vec<String> = dashes.iter().map(|length| n(*length)).collect();
                self.line(&format!(
                    "{} setlinewidth 0 setlinecap [{}] 0 setdash",
                    n(*width),
                    dashes.join(" ")
                ));
                for (i, (x, y)) in points.iter().enumerate() {
                    self.line(&format!("{} {} {}", n(*x), n(*y), if i == 0 { 'm' } else { 'l' }));
                }
                self.line("stroke");
            }
            Shape::Dots { points, radius, fill } => {
                self.paint(*fill);
                // A line of length 0 with round ends is a dot.
                self.line(&format!("{} setlinewidth 1 setlinecap [] 0 setdash", n(radius * 2.0)));
                for (x, y) in points {
                    self.line(&format!("{} {} d", n(*x), n(*y)));
                }
            }
            Shape::Cells { rect, columns, rows, levels, ink } => {
                self.cells(*rect, (*columns, *rows), levels, *ink);
            }
            Shape::Text(text) => self.text(text),
        }
    }

    /// Draws an image whose colours are `ink` mixed with white according to the opacities `levels`; cells of opacity 0
    /// are not painted.
    fn cells(&mut self, rect: Rect, (columns, rows): (usize, usize), levels: &[u8], ink: Ink) {
        if columns == 0 || rows == 0 || levels.len() != columns * rows {
            return;
        }
        let [r, g, b] = rgb(ink).map(|c| n3(1.0 - c));
        self.line(&format!("gsave {} {} translate {} {} scale", n(rect.x), n(rect.y), n(rect.w), n(rect.h)));
        self.line(&format!(
            "[/Indexed /DeviceRGB 255 {{ 255 div dup {r} mul 1 exch sub exch dup {g} mul 1 exch sub exch {b} mul 1 exch sub }}] \
             setcolorspace"
        ));
        self.line(&format!(
            "<< /ImageType 4 /Width {columns} /Height {rows} /BitsPerComponent 8 /Decode [0 255] /MaskColor [0]"
        ));
        self.line(&format!(
            "/ImageMatrix [{columns} 0 0 {rows} 0 0] /DataSource currentfile /ASCII85Decode filter >> image"
        ));
        let data = ascii85(levels);
        self.line(&data);
        self.line("grestore");
    }

    fn text(&mut self, t: &TextBox) {
        self.paint(t.fill);
        let mut string = String::new();
        for c in t.text.chars() {
            let code = self.codes.get(&c).copied().unwrap_or_default();
            match code {
                b'(' | b')' | b'\\' => string.extend(['\\', char::from(code)]),
                0x20..=0x7e => string.push(char::from(code)),
                _ => {
                    let _ = write!(string, "\\{code:03o}");
                }
            }
        }
        let procedure = if t.upright { 'u' } else { 't' };
        self.line(&format!("{} {} {} {} ({string}) {procedure}", n(t.size), n(t.x), n(t.y), n(t.shift())));
    }

    fn paint(&mut self, paint: Paint) {
        let [r, g, b] = rgb(paint.ink).map(|c| n3(1.0 - paint.opacity * (1.0 - c)));
        self.line(&format!("{r} {g} {b} setrgbcolor"));
    }

    /// Defines the font: the TrueType file as it is, and the glyph of each code.
    fn font(&mut self) {
        self.line("10 dict begin");
        self.line("/FontType 42 def /FontName /JITLAT-DejaVuSans def /PaintType 0 def");
        let edges = font::BOUNDS.map(|v| n3(v / 1000.0)).join(" ");
        self.line(&format!("/FontMatrix [1 0 0 1 0 0] def /FontBBox [{edges}] def"));
        self.line("/Encoding 256 array 0 1 255 { 1 index exch /.notdef put } for");
        let glyphs: Vec<(char, u8)> = self.codes.iter().map(|(c, code)| (*c, *code)).collect();
        for (c, code) in &glyphs {
            self.line(&format!("dup {code} /uni{:04X} put", u32::from(*c)));
        }
        self.line("def");
        self.line(&format!("/CharStrings {} dict dup /.notdef 0 put", glyphs.len() + 1));
        for (c, _) in &glyphs {
            self.line(&format!("dup /uni{:04X} {} put", u32::from(*c), font::glyph(*c)));
        }
        self.line("def");
        self.text.push_str("/sfnts [<~");
        // Interpreters leave out the last byte of each string of a font file.
        let file = ascii85(&[font::FILE, &[0]].concat());
        self.line(&file);
        self.line("] def currentdict end /JITLAT-DejaVuSans exch definefont /F exch def");
    }
}

/// Returns the codes of the drawing's characters that the font has: printable ASCII characters keep their code, others
/// get codes from 128 on.
fn codes(drawing: &Drawing) -> BTreeMap<char, u8> {
    let shapes = [&drawing.frame, &drawing.data, &drawing.labels].into_iter().flatten();
    let texts = shapes.filter_map(|shape| match shape {
        Shape::Text(text) => Some(text),
        _ => None,
    });
    let mut codes = BTreeMap::new();
    let mut others = 0x80..=0xff;
    for c in texts.flat_map(|text| text.text.chars()).filter(|c| font::glyph(*c) != 0) {
        if codes.contains_key(&c) {
            continue;
        }
        let code = if (' '..='~').contains(&c) { u8::try_from(c).ok() } else { others.next() };
        codes.extend(code.map(|code| (c, code)));
    }
    codes
}

fn printable(c: char) -> char {
    if (' '..='~').contains(&c) { c } else { '?' }
}

/// Formats a coordinate or length.
fn n(v: f32) -> String {
    let text = format!("{v:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a component of a colour, or another number of this size.
fn n3(v: f32) -> String {
    let text = format!("{v:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Encodes bytes as ASCII85 in lines, with the end marker.
fn ascii85(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut column = 0;
    let mut push = |c: u8| {
        // A line must not begin as a comment does.
        if column >= 72 && c != b'%' {
            out.push('\n');
            column = 0;
        }
        out.push(char::from(c));
        column += 1;
    };
    for chunk in bytes.chunks(4) {
        let mut group = [0; 4];
        group[..chunk.len()].copy_from_slice(chunk);
        let mut value = u32::from_be_bytes(group);
        if value == 0 && chunk.len() == 4 {
            push(b'z');
            continue;
        }
        let mut digits = [0; 5];
        for digit in digits.iter_mut().rev() {
            *digit = b'!' + (value % 85) as u8;
            value /= 85;
        }
        digits[..=chunk.len()].iter().for_each(|digit| push(*digit));
    }
    out.push_str("~>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii85_of_known_bytes() {
        assert_eq!(ascii85(b"Man is distinguished"), "9jqo^BlbD-BleB1DJ+*+F(f,q~>");
        assert_eq!(ascii85(b"\0\0\0\0sure."), "zF*2M7/c~>");
        assert_eq!(ascii85(b""), "~>");
    }
}

//! Writes a drawing as SVG.

use super::layout::{Anchor, Drawing, Shape, TextBox};
use super::palette::{Ink, PAPER_TEXT, Paint};
use super::{Theme, font};
use crate::escape::escape;
use std::fmt::Write;

/// Writes `drawing` as an SVG document or element.
pub fn write(drawing: &Drawing, theme: Theme) -> String {
    let (w, h) = (drawing.width, drawing.height);
    let mut out = SvgWriter { text: String::new(), theme };
    let id = escape(&drawing.id);
    out.push(&format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" aria-labelledby="{id}-t {id}-d" font-family="{}">"#,
        font::FAMILY
    ));
    out.push(&format!(
        r#"<title id="{id}-t">{}</title><desc id="{id}-d">{}</desc>"#,
        escape(&drawing.title),
        escape(&drawing.description)
    ));
    if theme == Theme::Paper {
        out.push(&format!(r##"<rect width="{w}" height="{h}" fill="#fff"/>"##));
    }
    let p = drawing.plot;
    out.push(&format!(
        r#"<clipPath id="{id}-c"><rect x="{}" y="{}" width="{}" height="{}"/></clipPath>"#,
        n(p.x),
        n(p.y),
        n(p.w),
        n(p.h)
    ));
    for shape in &drawing.frame {
        out.shape(shape);
    }
    out.push(&format!(r#"<g clip-path="url(#{id}-c)">"#));
    for shape in &drawing.data {
        out.shape(shape);
    }
    out.push("</g>");
    for shape in &drawing.labels {
        out.shape(shape);
    }
    out.push("</svg>");
    out.text
}

struct SvgWriter {
    text: String,
    theme: Theme,
}

/// Formats a coordinate with as many decimals as a screen can show.
fn n(v: f32) -> String {
    let text = format!("{v:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

impl SvgWriter {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn paint(&self, property: &str, paint: Paint) -> String {
        let color = match (paint.ink, self.theme) {
            (Ink::Text, Theme::Inline) => "currentColor".to_owned(),
            (Ink::Text, Theme::Paper) => format!("#{PAPER_TEXT:06x}"),
            (Ink::Fixed(rgb), _) => format!("#{rgb:06x}"),
        };
        match paint.opacity {
            1.0 => format!(r#" {property}="{color}""#),
            o => format!(r#" {property}="{color}" {property}-opacity="{o}""#),
        }
    }

    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Rects { rects, fill } => {
                let mut d = String::new();
                for r in rects {
                    let _ = write!(d, "M{} {}h{}v{}h{}z", n(r.x), n(r.y), n2(r.w), n2(r.h), n2(-r.w));
                }
                let fill = self.paint("fill", *fill);
                self.push(&format!(r#"<path d="{d}"{fill}/>"#));
            }
            Shape::Path { points, stroke, width, dashes } => {
                let mut d = String::new();
                for (i, (x, y)) in points.iter().enumerate() {
                    let _ = write!(d, "{}{} {}", if i == 0 { 'M' } else { 'L' }, n(*x), n(*y));
                }
                let stroke = self.paint("stroke", *stroke);
                let dash = match dashes {
                    [] => String::new(),
                    list => {
                        let list: Vec<String> = list.iter().map(f32::to_string).collect();
                        format!(r#" stroke-dasharray="{}""#, list.join(" "))
                    }
                };
                self.push(&format!(
                    r#"<path d="{d}" fill="none"{stroke} stroke-width="{width}" stroke-linejoin="round"{dash}/>"#
                ));
            }
            Shape::Dots { points, radius, fill } => {
                let mut d = String::new();
                for (x, y) in points {
                    let _ = write!(d, "M{} {}h0", n(*x), n(*y));
                }
                let stroke = self.paint("stroke", *fill);
                self.push(&format!(
                    r#"<path d="{d}" fill="none"{stroke} stroke-width="{}" stroke-linecap="round"/>"#,
                    radius * 2.0
                ));
            }
            Shape::Cells { rect, columns, rows, levels, ink } => {
                let rgb = match ink {
                    Ink::Fixed(rgb) => *rgb,
                    Ink::Text => PAPER_TEXT,
                };
                let Some(png) = super::png::cells(*columns, *rows, levels, rgb) else { return };
                self.push(&format!(
                    r#"<image x="{}" y="{}" width="{}" height="{}" preserveAspectRatio="none" image-rendering="pixelated" href="data:image/png;base64,{}"/>"#,
                    n2(rect.x),
                    n2(rect.y),
                    n2(rect.w),
                    n2(rect.h),
                    base64(&png)
                ));
            }
            Shape::Text(text) => self.text(text),
        }
    }

    fn text(&mut self, t: &TextBox) {
        let anchor = match t.anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let place = match t.upright {
            true => format!(r#"transform="translate({} {})rotate(-90)""#, n(t.x), n(t.y)),
            false => format!(r#"x="{}" y="{}""#, n(t.x), n(t.y)),
        };
        let fill = self.paint("fill", t.fill);
        self.push(&format!(
            r#"<text {place} font-size="{}"{anchor}{fill}>{}</text>"#,
            t.size,
            escape(&t.text)
        ));
    }
}

/// Formats a length with two decimals, because rounding errors of many lengths add up.
fn n2(v: f32) -> String {
    let text = format!("{v:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Encodes bytes in standard base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0u32, |g, b| g << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let sextet = (group >> (18 - 6 * i) & 63) as usize;
            out.push(if i <= chunk.len() { char::from(ALPHABET[sextet]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_the_rfc_4648_vectors() {
        let vectors = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in vectors {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}

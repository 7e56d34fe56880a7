//! Writes a drawing as PNG.

use super::DrawError;
use super::font::{self, Contour, ContourPoint};
use super::layout::{Drawing, Rect, Shape, TextBox};
use super::palette::{Ink, PAPER_TEXT, Paint as Tint};
use tiny_skia::{
    Color, FillRule, FilterQuality, LineCap, LineJoin, Mask, Paint, PathBuilder, Pixmap, PixmapPaint,
    PremultipliedColorU8, Stroke, StrokeDash, Transform,
};

/// Writes `drawing` with `scale` pixels per unit, dark on white.
pub fn write(drawing: &Drawing, scale: f32) -> Result<Vec<u8>, DrawError> {
    let bad = || DrawError::Scale(scale.to_string());
    if !(0.1..=16.0).contains(&scale) {
        return Err(bad());
    }
    let (w, h) = ((drawing.width * scale).round() as u32, (drawing.height * scale).round() as u32);
    let mut canvas = PixelCanvas {
        pixels: Pixmap::new(w, h).ok_or_else(bad)?,
        to_pixels: Transform::from_scale(scale, scale),
        clip: None,
    };
    canvas.pixels.fill(Color::WHITE);
    drawing.frame.iter().for_each(|s| canvas.shape(s));
    canvas.clip = canvas.mask(drawing.plot);
    drawing.data.iter().for_each(|s| canvas.shape(s));
    canvas.clip = None;
    drawing.labels.iter().for_each(|s| canvas.shape(s));
    canvas.pixels.encode_png().map_err(|e| DrawError::Encode { format: "PNG", why: e.to_string() })
}

/// Returns a PNG in one colour; `levels` are the opacities of its pixels, in rows from the top. `None` if the image is
/// empty or too large.
pub fn cells(columns: usize, rows: usize, levels: &[u8], rgb: u32) -> Option<Vec<u8>> {
    cells_pixmap(columns, rows, levels, rgb)?.encode_png().ok()
}

fn cells_pixmap(columns: usize, rows: usize, levels: &[u8], rgb: u32) -> Option<Pixmap> {
    let mut pixels = Pixmap::new(u32::try_from(columns).ok()?, u32::try_from(rows).ok()?)?;
    let [_, r, g, b] = rgb.to_be_bytes();
    for (pixel, level) in pixels.pixels_mut().iter_mut().zip(levels) {
        let by = |c: u8| (u16::from(c) * u16::from(*level) / 255) as u8;
        *pixel = PremultipliedColorU8::from_rgba(by(r), by(g), by(b), *level)?;
    }
    Some(pixels)
}

struct PixelCanvas {
    pixels: Pixmap,
    to_pixels: Transform,
    clip: Option<Mask>,
}

impl PixelCanvas {
    fn mask(&self, r: Rect) -> Option<Mask> {
        let mut mask = Mask::new(self.pixels.width(), self.pixels.height())?;
        let path = PathBuilder::from_rect(tiny_skia::Rect::from_xywh(r.x, r.y, r.w, r.h)?);
        mask.fill_path(&path, FillRule::Winding, true, self.to_pixels);
        Some(mask)
    }

    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Rects { rects, fill } => {
                let mut path = PathBuilder::new();
                for r in rects {
                    if let Some(r) = tiny_skia::Rect::from_xywh(r.x, r.y, r.w.max(0.01), r.h.max(0.01)) {
                        path.push_rect(r);
                    }
                }
                self.fill(path, *fill);
            }
            Shape::Path { points, stroke, width, dashes } => {
                let mut path = PathBuilder::new();
                for (i, (x, y)) in points.iter().enumerate() {
                    if i == 0 { path.move_to(*x, *y) } else { path.line_to(*x, *y) }
                }
                let stroke_style = Stroke {
                    width: *width,
                    line_join: LineJoin::Round,
                    line_cap: LineCap::Butt,
                    dash: StrokeDash::new(dashes.to_vec(), 0.0),
                    ..Stroke::default()
                };
                if let Some(path) = path.finish() {
                    let paint = tint(*stroke);
                    self.pixels.stroke_path(&path, &paint, &stroke_style, self.to_pixels, self.clip.as_ref());
                }
            }
            Shape::Dots { points, radius, fill } => {
                // Draw one path per dot, so that overlapping dots look darker, as in SVG.
                let mut path = PathBuilder::new();
                for (x, y) in points {
                    path.push_circle(*x, *y, *radius);
                }
                self.fill(path, *fill);
            }
            Shape::Cells { rect, columns, rows, levels, ink } => {
                let rgb = match ink {
                    Ink::Fixed(rgb) => *rgb,
                    Ink::Text => PAPER_TEXT,
                };
                let Some(image) = cells_pixmap(*columns, *rows, levels, rgb) else { return };
                let place = Transform::from_row(
                    rect.w / *columns as f32,
                    0.0,
                    0.0,
                    rect.h / *rows as f32,
                    rect.x,
                    rect.y,
                );
                let paint = PixmapPaint { quality: FilterQuality::Nearest, ..PixmapPaint::default() };
                let place = place.post_concat(self.to_pixels);
                self.pixels.draw_pixmap(0, 0, image.as_ref(), &paint, place, self.clip.as_ref());
            }
            Shape::Text(text) => self.text(text),
        }
    }

    fn fill(&mut self, path: PathBuilder, fill: Tint) {
        if let Some(path) = path.finish() {
            let paint = tint(fill);
            self.pixels.fill_path(&path, &paint, FillRule::Winding, self.to_pixels, self.clip.as_ref());
        }
    }

    fn text(&mut self, t: &TextBox) {
        let shift = t.shift();
        let mut path = PathBuilder::new();
        for contour in font::outlines(&t.text, t.size) {
            trace(&mut path, &contour, shift);
        }
        let place = match t.upright {
            true => Transform::from_row(0.0, -1.0, 1.0, 0.0, t.x, t.y),
            false => Transform::from_translate(t.x, t.y),
        };
        if let Some(path) = path.finish().and_then(|p| p.transform(place)) {
            self.pixels.fill_path(&path, &tint(t.fill), FillRule::Winding, self.to_pixels, None);
        }
    }
}

fn tint(t: Tint) -> Paint<'static> {
    let rgb = match t.ink {
        Ink::Text => PAPER_TEXT,
        Ink::Fixed(rgb) => rgb,
    };
    let [_, r, g, b] = rgb.to_be_bytes();
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(r, g, b, (t.opacity * 255.0).round() as u8);
    paint
}

/// Adds a closed curve, moved to the right by `shift`.
fn trace(path: &mut PathBuilder, contour: &Contour, shift: f32) {
    let points = &contour.0;
    let halfway = |a: &ContourPoint, b: &ContourPoint| ((a.x + b.x) / 2.0 + shift, (a.y + b.y) / 2.0);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
    let start = match (first.on_curve, last.on_curve) {
        (true, _) => (first.x + shift, first.y),
        (false, true) => (last.x + shift, last.y),
        (false, false) => halfway(first, last),
    };
    path.move_to(start.0, start.1);
    for (k, point) in points.iter().enumerate() {
        let next = points.get(k + 1).unwrap_or(first);
        if point.on_curve {
            path.line_to(point.x + shift, point.y);
            continue;
        }
        let end = if next.on_curve { (next.x + shift, next.y) } else { halfway(point, next) };
        path.quad_to(point.x + shift, point.y, end.0, end.1);
    }
    path.close();
}

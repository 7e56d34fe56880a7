//! Layout: converts a [`Figure`] to a list of shapes.
//!
//! Margins follow from the measured width of the labels, so nothing is clipped; ticks are thinned until their labels do not
//! overlap.

use super::font;
use super::palette::{AXIS, GRID, Ink, MUTED, Paint, TEXT, dashes, ink, paint};
use crate::figure::{
    Axis, AxisOverflow, AxisScale, AxisTick, Bound, DensityCells, Figure, HistogramRow, Mark, MarkSeries,
    MeanRow, SpreadRow, Tone, group_thousands,
};

pub(super) const WIDTH: f32 = 760.0;
const PLOT_HEIGHT: f32 = 300.0;
pub(super) const EDGE: f32 = 14.0;
pub(super) const TITLE: f32 = 17.0;
pub(super) const BODY: f32 = 12.0;
pub(super) const LABEL: f32 = 11.5;
pub(super) const LINE: f32 = 16.0;
/// Width of the bar for values beyond the axis, including margins.
const OVERFLOW: f32 = 54.0;
/// Height of a rug: a strip in which losses are marked.
const RUG: f32 = 22.0;
/// Height of a row.
const ROW: f32 = 44.0;
/// Height of a row that holds a histogram.
const HISTOGRAM_ROW: f32 = 84.0;
/// Half the width of an error bar's cap.
const CAP: f32 = 3.5;

/// An axis-parallel rectangle; `y` points down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    /// Left edge.
    pub x: f32,
    /// Upper edge.
    pub y: f32,
    /// Width.
    pub w: f32,
    /// Height.
    pub h: f32,
}

/// Part of a text line to which the line's position refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Start of the text.
    Start,
    /// Middle of the text.
    Middle,
    /// End of the text.
    End,
}

/// One line of text.
#[derive(Clone, Debug, PartialEq)]
pub struct TextBox {
    /// The characters.
    pub text: String,
    /// Position of the anchor.
    pub x: f32,
    /// Position of the baseline.
    pub y: f32,
    /// Font size.
    pub size: f32,
    /// Part of the text that is at (x, y).
    pub anchor: Anchor,
    /// True if rotated by 90°, reading upwards.
    pub upright: bool,
    /// Colour.
    pub fill: Paint,
}

impl TextBox {
    /// Returns the width in drawing units.
    pub fn width(&self) -> f32 {
        font::width(&self.text, self.size)
    }

    /// Returns the distance along the line from the anchor to the start of the text; negative if the start is before
    /// the anchor.
    pub fn shift(&self) -> f32 {
        match self.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -self.width() / 2.0,
            Anchor::End => -self.width(),
        }
    }

    /// Returns the rectangle that the text covers.
    pub fn bounds(&self) -> Rect {
        let (w, up, down) = (self.width(), self.size * 0.76, self.size * 0.24);
        let before = -self.shift();
        match self.upright {
            false => Rect { x: self.x - before, y: self.y - up, w, h: up + down },
            true => Rect { x: self.x - up, y: self.y - (w - before), w: up + down, h: w },
        }
    }
}

/// A shape that a renderer has to draw.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Filled rectangles.
    Rects {
        /// The rectangles.
        rects: Vec<Rect>,
        /// Colour.
        fill: Paint,
    },
    /// A line through points.
    Path {
        /// The points.
        points: Vec<(f32, f32)>,
        /// Colour.
        stroke: Paint,
        /// Width of the line.
        width: f32,
        /// Lengths of dashes and gaps; empty: solid.
        dashes: &'static [f32],
    },
    /// Round dots.
    Dots {
        /// Centres of the dots.
        points: Vec<(f32, f32)>,
        /// Radius of the dots.
        radius: f32,
        /// Colour.
        fill: Paint,
    },
    /// A grid of cells of one colour and differing opacity.
    Cells {
        /// The whole grid.
        rect: Rect,
        /// Number of cells per row.
        columns: usize,
        /// Number of rows.
        rows: usize,
        /// Opacity of each cell, row by row from the top.
        levels: Vec<u8>,
        /// The colour.
        ink: Ink,
    },
    /// Text.
    Text(TextBox),
}

impl Shape {
    /// Returns the shape moved down by `by`.
    pub(super) fn moved_down(mut self, by: f32) -> Shape {
        match &mut self {
            Shape::Rects { rects, .. } => rects.iter_mut().for_each(|r| r.y += by),
            Shape::Path { points, .. } | Shape::Dots { points, .. } => {
                points.iter_mut().for_each(|p| p.1 += by);
            }
            Shape::Cells { rect, .. } => rect.y += by,
            Shape::Text(text) => text.y += by,
        }
        self
    }
}

/// A figure converted to shapes, 760 units wide and as high as needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// Name of the figure, valid as an identifier in SVG and HTML.
    pub id: String,
    /// Title.
    pub title: String,
    /// Description of the figure in text, for readers who cannot see it.
    pub description: String,
    /// Overall width.
    pub width: f32,
    /// Overall height.
    pub height: f32,
    /// Area of the plot; data are clipped to it.
    pub plot: Rect,
    /// Shapes behind the data: grid, axes.
    pub frame: Vec<Shape>,
    /// The data, clipped to the plot.
    pub data: Vec<Shape>,
    /// Shapes in front of the data: tick labels, titles, legend, notes.
    pub labels: Vec<Shape>,
}

impl Drawing {
    /// Returns the white rectangle behind a drawing on paper.
    pub(super) fn background(&self) -> Shape {
        let whole = Rect { x: 0.0, y: 0.0, w: self.width, h: self.height };
        Shape::Rects { rects: vec![whole], fill: paint(Ink::Fixed(0xff_ffff), 1.0) }
    }
}

/// Computes the layout of `figure`.
pub fn layout(figure: &Figure) -> Drawing {
    let mut sheet = FigureSheet { frame: Vec::new(), data: Vec::new(), labels: Vec::new() };
    let mut top = sheet.heading(figure);
    top = sheet.legend(figure, top);
    let ruled = figure.series.iter().any(|s| matches!(s.mark, Mark::Rule { .. } | Mark::Band { .. }));
    let plot = sheet.axes(figure, top + if ruled { 8.0 + LINE } else { 8.0 });
    let panel = Panel { figure, plot: data_area(figure, plot) };
    let mut rugs = 0;
    for series in &figure.series {
        rugs += usize::from(matches!(series.mark, Mark::Rug { .. }));
        panel.series(series, rugs, &mut sheet.data);
    }
    for series in &figure.series {
        match &series.mark {
            Mark::Rule { at, label } => sheet.rule(label, panel.rule(*at), plot),
            Mark::Band { from, to, label } => {
                sheet.rule(label, f32::midpoint(panel.rule(*from), panel.rule(*to)), plot);
            }
            _ => {}
        }
    }
    if let Some(overflow) = &figure.overflow {
        sheet.overflow(overflow, &panel, plot);
    }
    let bottom = sheet.notes(figure, plot.y + plot.h + 48.0);
    Drawing {
        id: figure.id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect(),
        title: figure.title.clone(),
        description: [&figure.subtitle, &figure.measured]
            .into_iter()
            .filter(|text| !text.is_empty())
            .map(|text| format!("{text}. "))
            .chain([figure.notes.join(" ")])
            .collect(),
        width: WIDTH,
        height: (bottom + EDGE).ceil(),
        plot,
        frame: sheet.frame,
        data: sheet.data,
        labels: sheet.labels,
    }
}

/// Returns the area of `plot` in which data are drawn; the rest holds the rugs at the bottom and the overflow bar at
/// the right.
fn data_area(figure: &Figure, plot: Rect) -> Rect {
    let side = if figure.overflow.is_some() { OVERFLOW } else { 0.0 };
    let rugs = figure.series.iter().filter(|s| matches!(s.mark, Mark::Rug { .. })).count();
    Rect { w: plot.w - side, h: plot.h - RUG * rugs as f32, ..plot }
}

/// Shapes collected so far.
struct FigureSheet {
    frame: Vec<Shape>,
    data: Vec<Shape>,
    labels: Vec<Shape>,
}

impl FigureSheet {
    fn text(&mut self, text: &str, x: f32, y: f32, size: f32, anchor: Anchor, fill: Paint) {
        let text = TextBox { text: text.to_owned(), x, y, size, anchor, upright: false, fill };
        self.labels.push(Shape::Text(text));
    }

    fn heading(&mut self, figure: &Figure) -> f32 {
        let mut y = EDGE + TITLE * 0.8;
        for line in wrapped(&figure.title, TITLE, WIDTH - 2.0 * EDGE) {
            self.text(&line, EDGE, y, TITLE, Anchor::Start, TEXT);
            y += TITLE + 4.0;
        }
        y -= 1.0;
        for text in [&figure.subtitle, &figure.measured] {
            for line in wrapped(text, BODY, WIDTH - 2.0 * EDGE) {
                self.text(&line, EDGE, y, BODY, Anchor::Start, MUTED);
                y += LINE;
            }
        }
        y - LINE + 8.0
    }

    /// Draws the legend in rows that wrap, left to right. A single series, or one without a name, has no
    /// legend. Returns the lower edge.
    fn legend(&mut self, figure: &Figure, top: f32) -> f32 {
        const KEY: f32 = 22.0;
        let named: Vec<&MarkSeries> = figure.legend().collect();
        if named.is_empty() {
            return top;
        }
        let (mut x, mut y) = (EDGE, top + 12.0);
        for series in named {
            let name = shortened(&series.name, LABEL, WIDTH - 2.0 * EDGE - KEY);
            let needs = KEY + 6.0 + font::width(&name, LABEL) + 20.0;
            if x > EDGE && x + needs - 20.0 > WIDTH - EDGE {
                (x, y) = (EDGE, y + LINE);
            }
            self.labels.extend(key(series, x, y - 4.0, KEY));
            self.text(&name, x + KEY + 6.0, y, LABEL, Anchor::Start, TEXT);
            x += needs;
        }
        y + 6.0
    }

    /// Draws axes and grid; returns the area of the plot.
    fn axes(&mut self, figure: &Figure, top: f32) -> Rect {
        let rows = figure.series.iter().find_map(|s| match &s.mark {
            Mark::Spread { rows } => Some((row_ticks(ROW, rows.iter().map(|r| r.name.as_str())), ROW)),
            Mark::Means { rows } => Some((row_ticks(ROW, rows.iter().map(|r| r.name.as_str())), ROW)),
            Mark::Histograms { rows, .. } => {
                Some((row_ticks(HISTOGRAM_ROW, rows.iter().map(|r| r.name.as_str())), HISTOGRAM_ROW))
            }
            _ => None,
        });
        let height = rows.as_ref().map_or(PLOT_HEIGHT, |(r, row)| (r.len() as f32 * row + 16.0).max(80.0));
        let rows = rows.map(|(ticks, _)| ticks);
        let left_ticks = rows.clone().unwrap_or_else(|| figure.y.ticks(6));
        let right_ticks = figure.right.as_ref().map(|a| a.ticks(6)).unwrap_or_default();
        let widest =
            |ticks: &[AxisTick]| ticks.iter().map(|t| font::width(&t.label, LABEL)).fold(0.0, f32::max);
        let title = LINE + 4.0;
        let y_title = if rows.is_some() { 0.0 } else { title };
        // A label may extend beyond either end of the horizontal axis.
        let half = EDGE + widest(&figure.x.ticks(9)) / 2.0;
        let left = (EDGE + y_title + widest(&left_ticks) + 9.0).max(half);
        let right = match figure.right {
            Some(_) => (widest(&right_ticks) + 9.0 + title + EDGE).max(half),
            None => half.max(EDGE + 16.0),
        };
        let plot = Rect { x: left, y: top, w: WIDTH - left - right, h: height };
        let area = data_area(figure, plot);

        let y_of = |axis: &Axis, v: f64| area.y + area.h - (axis.position(v) as f32) * area.h;
        for tick in &left_ticks {
            let y = if rows.is_some() { area.y + tick.at as f32 } else { y_of(&figure.y, tick.at) };
            if rows.is_none() {
                self.frame.push(line([(plot.x, y), (plot.x + plot.w, y)], GRID, 1.0));
            }
            self.text(&tick.label, plot.x - 7.0, y + 4.0, LABEL, Anchor::End, MUTED);
        }
        for tick in &right_ticks {
            let Some(axis) = &figure.right else { break };
            let y = y_of(axis, tick.at);
            self.text(&tick.label, plot.x + plot.w + 7.0, y + 4.0, LABEL, Anchor::Start, MUTED);
        }
        for tick in fitting(&figure.x, area.w) {
            let x = area.x + figure.x.position(tick.at) as f32 * area.w;
            if figure.x.names.is_empty() {
                self.frame.push(line([(x, plot.y), (x, plot.y + plot.h)], GRID, 1.0));
                self.frame.push(line([(x, plot.y + plot.h), (x, plot.y + plot.h + 4.0)], AXIS, 1.0));
            }
            self.text(&tick.label, x, plot.y + plot.h + 17.0, LABEL, Anchor::Middle, MUTED);
        }
        let corner = (plot.x, plot.y + plot.h);
        self.frame.push(line([corner, (plot.x + plot.w, corner.1)], AXIS, 1.0));
        self.frame.push(line([(plot.x, plot.y), corner], AXIS, 1.0));

        let middle = plot.y + area.h / 2.0;
        let x_title = shortened(&figure.x.title(), BODY, plot.w);
        self.text(&x_title, area.x + area.w / 2.0, plot.y + plot.h + 36.0, BODY, Anchor::Middle, TEXT);
        let mut upright = |text: String, x: f32| {
            let text = shortened(&text, BODY, plot.h + 20.0);
            let anchor = Anchor::Middle;
            let text = TextBox { text, x, y: middle, size: BODY, anchor, upright: true, fill: TEXT };
            self.labels.push(Shape::Text(text));
        };
        if rows.is_none() {
            upright(figure.y.title(), EDGE + BODY);
        }
        if let Some(axis) = &figure.right {
            upright(axis.title(), WIDTH - EDGE);
        }
        plot
    }

    /// Draws the label of a rule, above the plot and within its width.
    fn rule(&mut self, label: &str, x: f32, plot: Rect) {
        let half = font::width(label, LABEL) / 2.0;
        let x = x.max(plot.x + half).min(plot.x + plot.w - half);
        self.text(label, x, plot.y - 5.0, LABEL, Anchor::Middle, TEXT);
    }

    /// Draws the bar for packets beyond the axis, separate from the other bars, with its count above.
    fn overflow(&mut self, overflow: &AxisOverflow, panel: &Panel<'_>, plot: Rect) {
        let area = panel.plot;
        let x = area.x + area.w;
        self.frame.push(Shape::Path {
            points: vec![(x + 4.0, plot.y), (x + 4.0, plot.y + plot.h)],
            stroke: AXIS,
            width: 1.0,
            dashes: &[2.0, 3.0],
        });
        let height = panel.figure.y.position(overflow.count as f64).clamp(0.0, 1.0) as f32 * area.h;
        let height = height.max(2.0).min(area.h - LABEL - 6.0);
        let bar = Rect { x: x + 18.0, y: area.y + area.h - height, w: 22.0, h: height };
        self.data.push(Shape::Rects { rects: vec![bar], fill: paint(ink(Tone::Harm), 0.75) });
        let middle = bar.x + bar.w / 2.0;
        let count = format!("+{}", short_count(overflow.count));
        self.text(&count, middle, bar.y - 5.0, LABEL, Anchor::Middle, TEXT);
        self.text("beyond", middle, plot.y + plot.h + 17.0, LABEL, Anchor::Middle, MUTED);
    }

    fn notes(&mut self, figure: &Figure, mut y: f32) -> f32 {
        y += 8.0;
        for note in &figure.notes {
            for line in wrapped(note, LABEL, WIDTH - 2.0 * EDGE) {
                self.text(&line, EDGE, y, LABEL, Anchor::Start, MUTED);
                y += LINE;
            }
        }
        y - LINE
    }
}

/// The data area, with methods that draw in it.
struct Panel<'a> {
    figure: &'a Figure,
    plot: Rect,
}

impl Panel<'_> {
    fn place(&self, series: &MarkSeries, (x, y): (f64, f64)) -> (f32, f32) {
        let axis = self.figure.right.as_ref().filter(|_| series.on_right).unwrap_or(&self.figure.y);
        let at = |p: f64| p.clamp(-2.0, 3.0) as f32;
        let (px, py) = (at(self.figure.x.position(x)), at(axis.position(y)));
        (self.plot.x + px * self.plot.w, self.plot.y + self.plot.h - py * self.plot.h)
    }

    /// Draws `series`; if it is a rug, as rug number `rugs` from the top.
    fn series(&self, series: &MarkSeries, rugs: usize, out: &mut Vec<Shape>) {
        let color = ink(series.tone);
        let stroke = paint(color, 1.0);
        match &series.mark {
            Mark::Bars { start, width, heights } => {
                let bars = heights.iter().enumerate().filter(|(_, h)| **h > 0.0);
                let rects = bars.map(|(i, h)| {
                    let edge = |k: usize| start + width * k as f64;
                    self.bar(series, edge(i), edge(i + 1), *h, 0.5)
                });
                out.push(Shape::Rects { rects: rects.collect(), fill: paint(color, 0.72) });
            }
            Mark::Stems { points } => {
                let half = match self.figure.x.scale {
                    AxisScale::Linear => 0.36,
                    AxisScale::Log => 0.0,
                };
                let rects = points.iter().map(|(x, h)| self.bar(series, x - half, x + half, *h, 0.0));
                out.push(Shape::Rects { rects: rects.collect(), fill: paint(color, 0.8) });
            }
            Mark::Columns { width, bars } => {
                let rect = |b: &Bound| self.bar(series, b.at - width / 2.0, b.at + width / 2.0, b.value, 0.5);
                let rects = bars.iter().map(rect).collect();
                out.push(Shape::Rects { rects, fill: paint(color, 0.72) });
                for b in bars.iter().filter(|b| b.low < b.high) {
                    self.error_bar(series, b, paint(Ink::Text, 0.9), out);
                }
            }
            Mark::Line { points, dashed } => {
                let points = points.iter().map(|p| self.place(series, *p)).collect();
                let dashes = if *dashed { &[7.0, 4.0] } else { dashes(series.tone) };
                out.push(Shape::Path { points, stroke, width: 1.8, dashes });
            }
            Mark::Step { points } => {
                let points = staircase(points).map(|p| self.place(series, p)).collect();
                out.push(Shape::Path { points, stroke, width: 1.8, dashes: dashes(series.tone) });
            }
            Mark::Points { points } => {
                let radius = match points.len() {
                    0..40 => 2.6,
                    40..1500 => 1.6,
                    _ => 1.1,
                };
                let points = points.iter().map(|p| self.place(series, *p)).collect();
                out.push(Shape::Dots { points, radius, fill: paint(color, 0.6) });
            }
            Mark::Density(density) => out.push(self.cells(series, density, color)),
            Mark::Rug { stretches } => out.push(self.rug(stretches, rugs, color)),
            Mark::Rule { at, .. } => {
                let x = self.rule(*at);
                let points = vec![(x, self.plot.y), (x, self.plot.y + self.plot.h)];
                out.push(Shape::Path { points, stroke, width: 1.4, dashes: &[2.0, 3.0] });
            }
            Mark::Band { from, to, .. } => {
                let (left, right) = (self.rule(*from), self.rule(*to));
                let band = Rect { x: left, y: self.plot.y, w: (right - left).max(1.0), h: self.plot.h };
                out.push(Shape::Rects { rects: vec![band], fill: paint(color, 0.09) });
            }
            Mark::Spread { rows } => {
                for (i, row) in rows.iter().enumerate() {
                    self.spread(i, row, out);
                }
            }
            Mark::Bounds { points } => {
                for b in points {
                    self.error_bar(series, b, stroke, out);
                }
                let points = points.iter().map(|b| self.place(series, (b.at, b.value))).collect();
                out.push(Shape::Dots { points, radius: 3.2, fill: paint(color, 1.0) });
            }
            Mark::Means { rows } => {
                for (i, row) in rows.iter().enumerate() {
                    self.mean(i, row, out);
                }
            }
            Mark::Histograms { start, width, rows } => {
                for (i, row) in rows.iter().enumerate() {
                    out.extend(self.histogram(i, *start, *width, row));
                }
            }
        }
    }

    fn error_bar(&self, series: &MarkSeries, b: &Bound, stroke: Paint, out: &mut Vec<Shape>) {
        let [low, high] = [b.low, b.high].map(|v| self.place(series, (b.at, v)));
        out.push(line([low, high], stroke, 1.4));
        for (x, y) in [low, high] {
            out.push(line([(x - CAP, y), (x + CAP, y)], stroke, 1.4));
        }
    }

    /// Returns the bars of row `i`, which start at its bottom, and their base line. The highest bar is almost as high
    /// as the row.
    fn histogram(&self, i: usize, start: f64, width: f64, row: &HistogramRow) -> [Shape; 2] {
        let color = ink(Tone::Run(i as u8));
        let foot = self.plot.y + row_middle(HISTOGRAM_ROW, i) + HISTOGRAM_ROW / 2.0 - 4.0;
        let most = row.heights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let x = |v: f64| self.plot.x + self.figure.x.position(v).clamp(0.0, 1.0) as f32 * self.plot.w;
        let bars = row.heights.iter().zip(0u32..).filter(|(height, _)| **height > 0.0);
        let rects = bars.map(|(height, k)| {
            let [left, right] = [k, k + 1].map(|k| x(start + width * f64::from(k)));
            let h = ((height / most) as f32 * (HISTOGRAM_ROW - 12.0)).max(1.0);
            Rect { x: left, y: foot - h, w: (right - left - 0.6).max(1.0), h }
        });
        let base = line([(self.plot.x, foot), (self.plot.x + self.plot.w, foot)], paint(color, 0.6), 0.8);
        [Shape::Rects { rects: rects.collect(), fill: paint(color, 0.8) }, base]
    }

    fn rule(&self, at: f64) -> f32 {
        self.plot.x + self.figure.x.position(at).clamp(0.0, 1.0) as f32 * self.plot.w
    }

    /// Returns a bar from the bottom of the axis to `height`, at least one unit wide and one high, so that a single
    /// packet is visible.
    fn bar(&self, series: &MarkSeries, from: f64, to: f64, height: f64, gap: f32) -> Rect {
        let foot = self.plot.y + self.plot.h;
        let ((left, top), (right, _)) =
            (self.place(series, (from, height)), self.place(series, (to, height)));
        let gap = if right - left > 4.0 { gap } else { 0.0 };
        let least = if gap > 0.0 || right - left > 1.0 { 1.0 } else { 3.0 };
        let w = (right - left - 2.0 * gap).max(least);
        let top = top.min(foot - 1.0);
        Rect { x: (left + right - w) / 2.0, y: top, w, h: foot - top }
    }

    fn cells(&self, series: &MarkSeries, density: &DensityCells, ink: Ink) -> Shape {
        let DensityCells { x0, dx, columns, y0, dy, rows, cells } = density;
        let (left, bottom) = self.place(series, (*x0, *y0));
        let far = (x0 + dx * *columns as f64, y0 + dy * *rows as f64);
        let (right, top) = self.place(series, far);
        let most = cells.iter().map(|c| c.1).max().unwrap_or(1) as f32;
        let mut levels = vec![0u8; columns * rows];
        for (index, count) in cells {
            let (column, row) = (*index as usize / rows, *index as usize % rows);
            levels[(rows - 1 - row) * columns + column] = level(*count as f32, most);
        }
        let rect = Rect { x: left, y: top, w: right - left, h: bottom - top };
        Shape::Cells { rect, columns: *columns, rows: *rows, levels, ink }
    }

    fn rug(&self, stretches: &[(f64, f64, f64)], k: usize, ink: Ink) -> Shape {
        let foot = self.plot.y + self.plot.h + RUG * k as f32;
        let x = |v: f64| self.plot.x + self.figure.x.position(v).clamp(0.0, 1.0) as f32 * self.plot.w;
        let most = stretches.iter().map(|s| s.2).fold(f64::MIN_POSITIVE, f64::max);
        let rects = stretches.iter().map(|(from, to, share)| {
            let (left, right) = (x(*from), x(*to));
            let w = (right - left).max(1.2);
            let h = (RUG - 4.0) * ((share / most) as f32).clamp(0.2, 1.0);
            Rect { x: (left + right - w) / 2.0, y: foot - h, w, h }
        });
        Shape::Rects { rects: rects.collect(), fill: paint(ink, 0.9) }
    }

    /// Draws a dot for a mean, and a line with caps for its confidence interval.
    fn mean(&self, i: usize, row: &MeanRow, out: &mut Vec<Shape>) {
        let stroke = paint(ink(Tone::Run(i as u8)), 1.0);
        let y = self.plot.y + row_middle(ROW, i);
        let x = |v: f64| self.plot.x + self.figure.x.position(v).clamp(0.0, 1.0) as f32 * self.plot.w;
        if let Some(interval) = row.interval {
            let [low, high] = interval.map(x);
            out.push(line([(low, y), (high, y)], stroke, 1.6));
            for end in [low, high] {
                out.push(line([(end, y - 2.0 * CAP), (end, y + 2.0 * CAP)], stroke, 1.6));
            }
        }
        out.push(Shape::Dots { points: vec![(x(row.value), y)], radius: 4.0, fill: stroke });
    }

    /// Draws a thin line from minimum to maximum, a box from minimum to p90, a bar at the median, and a tick at p99.
    fn spread(&self, i: usize, row: &SpreadRow, out: &mut Vec<Shape>) {
        let color = ink(Tone::Run(i as u8));
        let y = self.plot.y + row_middle(ROW, i);
        let x = |v: f64| self.plot.x + self.figure.x.position(v).clamp(0.0, 1.0) as f32 * self.plot.w;
        let [min, median, p90, p99, max] = row.at.map(x);
        let upright = |x: f32, half: f32, w: f32| line([(x, y - half), (x, y + half)], paint(color, 1.0), w);
        out.push(line([(min, y), (max, y)], paint(color, 1.0), 1.5));
        let rects = vec![Rect { x: min, y: y - 11.0, w: (p90 - min).max(1.0), h: 22.0 }];
        out.push(Shape::Rects { rects, fill: paint(color, 0.45) });
        out.push(upright(median, 11.0, 3.0));
        out.push(upright(p99, 8.0, 2.0));
        out.push(upright(max, 4.0, 1.5));
    }
}

/// Returns the distance from the top of the plot to the middle of row `i`, if every row is `height` high.
fn row_middle(height: f32, i: usize) -> f32 {
    8.0 + height * (0.5 + i as f32)
}

/// Names of the rows; positions are in drawing units from the top.
fn row_ticks<'a>(height: f32, names: impl Iterator<Item = &'a str>) -> Vec<AxisTick> {
    let label = |name: &str| shortened(name, LABEL, 220.0);
    names
        .enumerate()
        .map(|(i, name)| AxisTick { at: row_middle(height, i).into(), label: label(name) })
        .collect()
}

/// Opacity of a cell: logarithmic, so that both a single packet and the densest cell are visible.
fn level(count: f32, most: f32) -> u8 {
    let share = if most > 1.0 { count.ln_1p() / most.ln_1p() } else { 1.0 };
    (70.0 + 185.0 * share) as u8
}

/// Returns horizontal ticks whose labels do not overlap.
fn fitting(axis: &Axis, width: f32) -> Vec<AxisTick> {
    if !axis.names.is_empty() {
        // Names, unlike numbers, cannot be interpolated: shorten each to the available width instead of
        // omitting some.
        let room = width / axis.names.len() as f32 - 6.0;
        let short = |t: AxisTick| AxisTick { label: shortened(&t.label, LABEL, room), ..t };
        return axis.ticks(0).into_iter().map(short).collect();
    }
    for most in (2..=9).rev() {
        let ticks = axis.ticks(most);
        let fits = |pair: &[AxisTick]| {
            let apart = (axis.position(pair[1].at) - axis.position(pair[0].at)) as f32 * width;
            let half = |t: &AxisTick| font::width(&t.label, LABEL) / 2.0;
            apart > half(&pair[0]) + half(&pair[1]) + 12.0
        };
        if ticks.windows(2).all(fits) {
            return ticks;
        }
    }
    axis.ticks(2).into_iter().take(1).collect()
}

/// Returns the corners of a step line through `points`.
fn staircase(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    let corners = points.windows(2).flat_map(|w| [(w[1].0, w[0].1), w[1]]);
    points.first().copied().into_iter().chain(corners)
}

/// Returns the shapes of a series' legend symbol.
fn key(series: &MarkSeries, x: f32, y: f32, w: f32) -> Vec<Shape> {
    let color = ink(series.tone);
    match &series.mark {
        Mark::Line { dashed, .. } => {
            let dashes = if *dashed { &[7.0, 4.0] } else { dashes(series.tone) };
            vec![Shape::Path {
                points: vec![(x, y), (x + w, y)],
                stroke: paint(color, 1.0),
                width: 1.8,
                dashes,
            }]
        }
        Mark::Step { .. } => {
            let dashes = dashes(series.tone);
            vec![Shape::Path {
                points: vec![(x, y), (x + w, y)],
                stroke: paint(color, 1.0),
                width: 1.8,
                dashes,
            }]
        }
        Mark::Points { .. } | Mark::Bounds { .. } | Mark::Means { .. } => {
            let points = [0.2, 0.5, 0.8].map(|f| (x + w * f, y)).to_vec();
            vec![Shape::Dots { points, radius: 2.0, fill: paint(color, 0.8) }]
        }
        Mark::Density(_) => {
            let shades = [0.3, 0.6, 1.0].into_iter().enumerate();
            let cell = |i: usize| Rect { x: x + w / 3.0 * i as f32, y: y - 5.0, w: w / 3.0, h: 10.0 };
            shades.map(|(i, o)| Shape::Rects { rects: vec![cell(i)], fill: paint(color, o) }).collect()
        }
        Mark::Rug { .. } => {
            let rects = [0.3, 0.5, 0.75].map(|f| Rect { x: x + w * f, y: y - 5.0, w: 1.6, h: 10.0 }).to_vec();
            vec![Shape::Rects { rects, fill: paint(color, 0.9) }]
        }
        Mark::Bars { .. }
        | Mark::Columns { .. }
        | Mark::Stems { .. }
        | Mark::Spread { .. }
        | Mark::Histograms { .. }
        | Mark::Band { .. }
        | Mark::Rule { .. } => {
            let rects = vec![Rect { x, y: y - 5.0, w, h: 10.0 }];
            vec![Shape::Rects { rects, fill: paint(color, 0.75) }]
        }
    }
}

pub(super) fn line(points: [(f32, f32); 2], stroke: Paint, width: f32) -> Shape {
    Shape::Path { points: points.to_vec(), stroke, width, dashes: &[] }
}

/// Formats a count in at most five characters.
fn short_count(n: u64) -> String {
    match n {
        0..=9_999 => n.to_string(),
        10_000..=9_999_999 => format!("{}k", group_thousands(&(n / 1000).to_string())),
        _ => format!("{}M", n / 1_000_000),
    }
}

/// Wraps `text` to lines no wider than `width`, broken at spaces; a longer word is shortened.
pub(super) fn wrapped(text: &str, size: f32, width: f32) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        let longer = if current.is_empty() { word.to_owned() } else { format!("{current} {word}") };
        if font::width(&longer, size) <= width {
            current = longer;
            continue;
        }
        if !current.is_empty() {
            lines.push(current);
        }
        current = shortened(word, size, width);
    }
    if !current.is_empty() {
        lines.push(current);
    }
    lines
}

/// Returns `text`, with its end replaced by … if it is wider than `width`.
pub(super) fn shortened(text: &str, size: f32, width: f32) -> String {
    if font::width(text, size) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if font::width(&kept, size) + font::width("…", size) > width {
            kept.pop();
            break;
        }
    }
    kept + "…"
}

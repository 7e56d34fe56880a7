//! Draws a [`FirstScreen`] as a single picture that can be understood without its page, for a ticket, a mail or a slide.

use super::font;
use super::layout::{
    Anchor, BODY, Drawing, EDGE, LABEL, LINE, Rect, Shape, TITLE, TextBox, WIDTH, layout, line, shortened,
    wrapped,
};
use super::palette::{GRID, Ink, MUTED, Paint, TEXT, level, paint};
use crate::FirstScreen;
use crate::figure::Figure;
use jitlat_core::summary::Level;

/// Font size of the verdicts, in drawing units.
const LEAD: f32 = 14.0;
/// Maximum number of verdicts.
const LEADS: usize = 8;
/// Maximum number of lines of the table.
const LINES: usize = 16;
/// Maximum number of causes.
const CAUSES: usize = 4;
/// Maximum number of lines that describe the measurement.
const WHAT: usize = 4;
/// Minimum distance between two columns.
const GAP: f32 = 14.0;
/// Width between the margins.
const INSIDE: f32 = WIDTH - 2.0 * EDGE;

/// Lays out `first` as a drawing that is 760 units wide and as high as needed.
pub fn card(first: &FirstScreen) -> Drawing {
    let mut sheet = CardSheet { frame: Vec::new(), labels: Vec::new(), y: EDGE };
    sheet.heading(first);
    let shown = if first.leads.len() > LEADS { LEADS - 1 } else { first.leads.len() };
    first.leads[..shown].iter().for_each(|(of, text)| sheet.lead(*of, text));
    if shown < first.leads.len() {
        sheet.paragraph(&format!("and {} more", first.leads.len() - shown), BODY, MUTED);
    }
    sheet.grades(first);
    sheet.uses(first);
    let drawn = first.figure.as_ref().map(|figure| sheet.figure(figure));
    sheet.table(first);
    sheet.causes(first);
    sheet.y += 10.0;
    sheet.paragraph(&first.made, LABEL, MUTED);
    let answers: Vec<&str> = first.leads.iter().map(|(_, text)| text.as_str()).collect();
    let mut card = Drawing {
        id: "card".to_owned(),
        title: first.title.clone(),
        description: [&first.what.join(". "), &answers.join(" ")].map(String::as_str).join(". "),
        width: WIDTH,
        height: (sheet.y + EDGE - 4.0).ceil(),
        plot: Rect { x: 0.0, y: 0.0, w: 1.0, h: 1.0 },
        frame: sheet.frame,
        data: Vec::new(),
        labels: sheet.labels,
    };
    if let Some((drawing, down)) = drawn {
        let moved = |shapes: Vec<Shape>| shapes.into_iter().map(move |shape| shape.moved_down(down));
        card.plot = Rect { y: drawing.plot.y + down, ..drawing.plot };
        card.frame.extend(moved(drawing.frame));
        card.data.extend(moved(drawing.data));
        card.labels.extend(moved(drawing.labels));
    }
    card
}

/// Shapes so far, and the upper edge of the next element.
struct CardSheet {
    frame: Vec<Shape>,
    labels: Vec<Shape>,
    y: f32,
}

impl CardSheet {
    fn text(&mut self, text: &str, x: f32, y: f32, size: f32, anchor: Anchor, fill: Paint) {
        let text = TextBox { text: text.to_owned(), x, y, size, anchor, upright: false, fill };
        self.labels.push(Shape::Text(text));
    }

    fn fill(&mut self, x: f32, y: f32, w: f32, h: f32, fill: Paint) {
        self.frame.push(Shape::Rects { rects: vec![Rect { x, y, w, h }], fill });
    }

    /// Adds text between the margins, in as many lines as it needs.
    fn paragraph(&mut self, text: &str, size: f32, fill: Paint) {
        for line in wrapped(text, size, INSIDE) {
            self.y += size + 4.0;
            self.text(&line, EDGE, self.y - 4.0 - size * 0.2, size, Anchor::Start, fill);
        }
    }

    fn heading(&mut self, first: &FirstScreen) {
        self.paragraph(&first.title, TITLE, TEXT);
        let shown = if first.what.len() > WHAT { WHAT - 1 } else { first.what.len() };
        for line in &first.what[..shown] {
            self.paragraph(line, BODY, MUTED);
        }
        if shown < first.what.len() {
            self.paragraph(&format!("and {} more", first.what.len() - shown), BODY, MUTED);
        }
        self.y += 8.0;
    }

    /// Adds a verdict on a coloured background, after a bar in its colour.
    fn lead(&mut self, of: Level, text: &str) {
        const BAR: f32 = 5.0;
        let lines = wrapped(text, LEAD, INSIDE - BAR - 22.0);
        let h = lines.len() as f32 * (LEAD + 5.0) + 11.0;
        self.fill(EDGE, self.y, INSIDE, h, paint(Ink::Text, 0.05));
        self.fill(EDGE, self.y, BAR, h, paint(level(of), 1.0));
        for (k, line) in lines.iter().enumerate() {
            let y = self.y + 5.0 + LEAD + k as f32 * (LEAD + 5.0);
            self.text(line, EDGE + BAR + 11.0, y, LEAD, Anchor::Start, TEXT);
        }
        self.y += h + 5.0;
    }

    /// Adds the grades in large letters, side by side.
    fn grades(&mut self, first: &FirstScreen) {
        const SIZE: f32 = 44.0;
        if first.grades.is_empty() {
            return;
        }
        let mut x = EDGE;
        for (of, grade, subject) in &first.grades {
            let subject = shortened(subject, BODY, INSIDE / 2.0);
            let w = font::width(grade, SIZE) + 12.0 + font::width(&subject, BODY) + 28.0;
            if x > EDGE && x + w > WIDTH - EDGE {
                (x, self.y) = (EDGE, self.y + SIZE + 6.0);
            }
            self.text(grade, x, self.y + SIZE * 0.85, SIZE, Anchor::Start, paint(level(*of), 1.0));
            let beside = x + font::width(grade, SIZE) + 12.0;
            self.text(&subject, beside, self.y + SIZE * 0.6, BODY, Anchor::Start, TEXT);
            x += w;
        }
        self.y += SIZE + 8.0;
    }

    /// Adds the verdict for each profile, in frames that wrap.
    fn uses(&mut self, first: &FirstScreen) {
        const PAD: f32 = 8.0;
        const HIGH: f32 = 23.0;
        if first.uses.is_empty() {
            return;
        }
        self.y += 4.0;
        let mut x = EDGE;
        for of in &first.uses {
            let [name, word] = [of.name.as_str(), of.word].map(|t| shortened(t, LABEL, INSIDE / 3.0));
            let [name_width, word_width] = [&name, &word].map(|t| font::width(t, LABEL));
            let fixed = 4.0 * PAD + name_width + word_width;
            let because = shortened(&of.because, LABEL, INSIDE - fixed);
            let w = fixed + font::width(&because, LABEL) - if because.is_empty() { PAD } else { 0.0 };
            if x > EDGE && x + w > WIDTH - EDGE {
                (x, self.y) = (EDGE, self.y + HIGH + 5.0);
            }
            self.frame.push(outline(Rect { x, y: self.y, w, h: HIGH }, paint(Ink::Text, 0.3), 1.0));
            let y = self.y + 15.5;
            let mut at = x + PAD;
            self.text(&name, at, y, LABEL, Anchor::Start, TEXT);
            at += name_width + PAD;
            self.text(&word, at, y, LABEL, Anchor::Start, paint(level(of.level), 1.0));
            // Underline the word, for readers who cannot see its colour.
            self.frame.push(line(
                [(at, y + 3.5), (at + word_width, y + 3.5)],
                paint(level(of.level), 1.0),
                weight(of.level),
            ));
            at += word_width + PAD;
            self.text(&because, at, y, LABEL, Anchor::Start, MUTED);
            x += w + 6.0;
        }
        self.y += HIGH + 5.0;
    }

    /// Lays out the figure, with its title and number of packets in one line. Returns the drawing and the distance by
    /// which to move it down.
    fn figure(&mut self, figure: &Figure) -> (Drawing, f32) {
        let subtitle = format!("{} · {}", figure.title, figure.subtitle);
        let drawing = layout(&Figure { title: String::new(), subtitle, ..figure.clone() });
        let down = self.y;
        self.y += drawing.height - EDGE + 4.0;
        (drawing, down)
    }

    /// Adds the table: one row per stream or, if that is too wide, one column per stream, as many as fit.
    fn table(&mut self, first: &FirstScreen) {
        if first.lines.is_empty() {
            return;
        }
        let head = first.heads.iter().map(|head| (head.clone(), None)).collect();
        let shown = if first.lines.len() > LINES { LINES - 1 } else { first.lines.len() };
        let lines: Vec<CardCells> =
            std::iter::once(head).chain(first.lines[..shown].iter().cloned()).collect();
        let all: f32 = widths(&lines, NAME).iter().sum();
        let lines = if all <= INSIDE { lines } else { turned(&lines) };
        // Names are cut if there is no room for them.
        let needed: f32 = widths(&lines, 0.0).iter().sum();
        let name = (INSIDE - needed).max(NAME);
        let widths = widths(&lines, name);
        let mut used = 0.0;
        let fits = widths.iter().take_while(|w| {
            used += **w;
            used <= INSIDE
        });
        let columns = fits.count().max(1);
        let spare = (INSIDE - widths[..columns].iter().sum::<f32>()).max(0.0);
        let gaps = widths[..columns].iter().skip(1).filter(|w| **w > 0.0).count().max(1);
        let between = (spare / gaps as f32).min(40.0);
        self.y += 4.0;
        for (k, cells) in lines.iter().enumerate() {
            self.y += LINE + 4.0;
            let mut right = EDGE;
            for (c, (text, of)) in cells.iter().take(columns).enumerate() {
                right += widths[c] + if c > 0 && widths[c] > 0.0 { between } else { 0.0 };
                let fill = match (k, of) {
                    (0, _) => MUTED,
                    (_, Some(of)) => paint(level(*of), 1.0),
                    _ => TEXT,
                };
                match c {
                    0 => {
                        self.text(
                            &shortened(text, BODY, name),
                            EDGE,
                            self.y - 6.0,
                            BODY,
                            Anchor::Start,
                            fill,
                        );
                    }
                    _ => self.text(text, right, self.y - 6.0, BODY, Anchor::End, fill),
                }
            }
            self.frame.push(line([(EDGE, self.y), (WIDTH - EDGE, self.y)], GRID, 1.0));
        }
        let left = (first.lines.len() - shown) + (widths.len() - columns);
        if left > 0 {
            self.y += 2.0;
            self.paragraph(&format!("and {left} more"), LABEL, MUTED);
        }
        self.y += 6.0;
    }

    fn causes(&mut self, first: &FirstScreen) {
        const WORD: f32 = 52.0;
        let shown = if first.causes.len() > CAUSES { CAUSES - 1 } else { first.causes.len() };
        for (of, word, text) in &first.causes[..shown] {
            for (k, row) in wrapped(text, BODY, INSIDE - WORD).iter().enumerate() {
                self.y += LINE + 1.0;
                if k == 0 {
                    let word = shortened(word, BODY, WORD - 6.0);
                    self.text(&word, EDGE, self.y - 4.0, BODY, Anchor::Start, paint(level(*of), 1.0));
                }
                self.text(row, EDGE + WORD, self.y - 4.0, BODY, Anchor::Start, TEXT);
            }
        }
        if shown < first.causes.len() {
            self.paragraph(&format!("and {} more", first.causes.len() - shown), BODY, MUTED);
        }
    }
}

/// Width that is always available for a name.
const NAME: f32 = 190.0;

type CardCells = Vec<(String, Option<Level>)>;

/// Returns the width of each column, including the distance from the previous column. The names have at most width
/// `name`; a column without text has width 0.
fn widths(lines: &[CardCells], name: f32) -> Vec<f32> {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |c: usize| {
        let of = lines.iter().filter_map(|cells| cells.get(c));
        of.map(|(text, _)| font::width(text, BODY)).fold(0.0, f32::max)
    };
    let width = |c: usize| match (c, widest(c)) {
        (0, w) => w.min(name),
        (_, 0.0) => 0.0,
        (_, w) => w + GAP,
    };
    (0..columns).map(width).collect()
}

fn turned(lines: &[CardCells]) -> Vec<CardCells> {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    (0..columns).map(|c| lines.iter().filter_map(|cells| cells.get(c).cloned()).collect()).collect()
}

/// Thickness of the underline of a verdict.
fn weight(of: Level) -> f32 {
    match of {
        Level::Good => 0.8,
        Level::Note => 1.2,
        Level::Poor => 1.8,
        Level::Bad => 2.6,
    }
}

fn outline(r: Rect, stroke: Paint, width: f32) -> Shape {
    let (right, bottom) = (r.x + r.w, r.y + r.h);
    let points = vec![(r.x, r.y), (right, r.y), (right, bottom), (r.x, bottom), (r.x, r.y)];
    Shape::Path { points, stroke, width, dashes: &[] }
}

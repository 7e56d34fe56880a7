//! A path over time as one drawing: for each direction delay (density, median, 99th percentile), losses and verdicts, all on
//! one time axis. Each period links to its own page; the table below the drawing has the same links for the keyboard.

use crate::numbers::share;
use crate::times;
use crate::verdict::TestVerdict;
use crate::zone::PageZone;
use jitlat_report::escape;
use jitlat_report::figure::{Axis, AxisScale, AxisUnit};
use std::fmt::Write;

/// A period to be drawn.
#[derive(Clone, Debug)]
pub struct ChartPeriod {
    /// Start and end, ns since 1970.
    pub span: (i64, i64),
    /// Delays in ns, each with its number of packets.
    pub delays: Vec<(i64, u64)>,
    /// Median and 99th percentile, ns; `None` without packets.
    pub percentiles: Option<(i64, i64)>,
    /// Share of the packets lost; `None` if none was sent.
    pub loss: Option<f64>,
    /// Worst verdict of the tests in the period; `None` if the verdicts were not read.
    pub verdict: Option<TestVerdict>,
    /// Address of the page of this period.
    pub address: String,
    /// Description in one line.
    pub about: String,
}

/// Lines that are drawn above those of the path, for comparison.
#[derive(Clone, Debug)]
pub struct ChartOverlay {
    /// Start and end (ns since 1970) of each period, and its median and 99th percentile in ns.
    pub steps: Vec<((i64, i64), (i64, i64))>,
}

/// An event at a point in time.
#[derive(Clone, Debug)]
pub struct ChartMark {
    /// Time, ns since 1970.
    pub at: i64,
    pub sign: &'static str,
    /// Description in one line.
    pub about: String,
}

/// One direction.
#[derive(Clone, Debug, Default)]
pub struct ChartSide {
    /// Names of its ends.
    pub title: String,
    /// Periods in order of time.
    pub columns: Vec<ChartPeriod>,
    /// Overlays; the position is also the number of the class.
    pub overlays: Vec<ChartOverlay>,
    /// Gaps without tests.
    pub gaps: Vec<(i64, i64)>,
    /// Times at which the direction becomes bad (true) or recovers (false).
    pub changes: Vec<(i64, bool)>,
    /// Route changes and host faults.
    pub marks: Vec<ChartMark>,
}

/// Contents of a chart.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// Start and end, ns since 1970.
    pub span: (i64, i64),
    pub zone: &'a PageZone,
    /// Name of the quantity that is drawn.
    pub quantity: &'a str,
    /// True if all directions have the same axis of the quantity.
    pub has_one_axis: bool,
    pub sides: &'a [ChartSide],
    pub size: ChartSize,
}

/// Size of the window that a chart is for. The style sheet shows the one that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartSize {
    Wide,
    /// For a phone: few labels, and no links, which would be too small to touch.
    Narrow,
}

impl ChartSize {
    /// Width, class, and number of labels of the time axis.
    fn layout(self) -> (f64, &'static str, i64) {
        match self {
            ChartSize::Wide => (1360.0, "chart", 10),
            ChartSize::Narrow => (560.0, "chart narrow", 4),
        }
    }
}

const LEFT: f64 = 96.0;
/// Space to the right of the axes.
const MARGIN: f64 = 8.0;
/// Half the width of the label of a time, and of the sign of a change.
const HALF_TICK: f64 = 26.0;
const HALF_SIGN: f64 = 34.0;
/// Width of the title: of a character of the names, and of the quantity after them, at most.
const BOLD_WIDTH: f64 = 8.0;
const QUANTITY_WIDTH: f64 = 270.0;
/// Height of the title above a direction, and of its delays if it is the only one, or one of two.
const TITLE: f64 = 26.0;
const DELAYS: [f64; 2] = [300.0, 190.0];
/// Heights of the lanes of losses and of verdicts, and of the space above each.
const LOSSES: f64 = 44.0;
const VERDICTS: f64 = 22.0;
const SPACE: f64 = 14.0;
/// Height of the labels of the time axis.
const LABELS: f64 = 30.0;
/// Number of rows of the density plot.
const ROWS: usize = 44;
const SHADES: usize = 5;
/// Ends of the axis of losses; the first that all losses fit into is taken.
const LOSS_ENDS: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];
/// Maximum number of marks of a direction that are drawn.
const MAX_MARKS: usize = 60;

/// Positions of the lanes of a direction, from top to bottom.
#[derive(Clone, Copy, Debug)]
struct Lanes {
    title: f64,
    delays: (f64, f64),
    losses: (f64, f64),
    verdicts: (f64, f64),
}

impl Lanes {
    fn new(k: usize, sides: usize) -> Lanes {
        let tall = DELAYS[usize::from(sides > 1)];
        let whole = TITLE + tall + SPACE + LOSSES + SPACE + VERDICTS + SPACE;
        let top = k as f64 * whole + TITLE;
        let losses = top + tall + SPACE;
        let verdicts = losses + LOSSES + SPACE;
        Lanes {
            title: top - 9.0,
            delays: (top, top + tall),
            losses: (losses, losses + LOSSES),
            verdicts: (verdicts, verdicts + VERDICTS),
        }
    }
}

/// A direction with its positions and scales.
struct PlacedSide<'a> {
    side: &'a ChartSide,
    lanes: Lanes,
    axis: Axis,
    /// Left and right end of each period.
    edges: Vec<(f64, f64)>,
    /// End of the axis of losses.
    most_lost: f64,
    size: ChartSize,
}

impl PlacedSide<'_> {
    /// Right end of the axes.
    fn right(&self) -> f64 {
        self.size.layout().0 - MARGIN
    }

    fn y(&self, value: f64) -> f64 {
        let (top, bottom) = self.lanes.delays;
        bottom - (bottom - top) * self.axis.position(value).clamp(0.0, 1.0)
    }
}

/// Chooses the range of delays, without single outliers that would flatten the rest.
fn axis(quantity: &str, sides: &[&ChartSide]) -> Axis {
    let columns = || sides.iter().flat_map(|side| &side.columns);
    let lines = || sides.iter().flat_map(|side| &side.overlays).flat_map(|overlay| &overlay.steps);
    let known = || columns().filter_map(|c| c.percentiles).chain(lines().map(|step| step.1));
    let least = columns().flat_map(|c| c.delays.iter().map(|d| d.0)).chain(lines().map(|step| step.1.0));
    let least = least.min().unwrap_or(0);
    let mut highs: Vec<i64> = known().map(|p| p.1).collect();
    highs.sort_unstable();
    let high = highs.last().copied().unwrap_or(1).max(least.saturating_add(1));
    let mut medians: Vec<i64> = known().map(|p| p.0).collect();
    medians.sort_unstable();
    let median = medians.get(medians.len() / 2).copied().unwrap_or(0);
    if least >= 0 && median > 0 && high / median >= 12 {
        let low = (least.max(median / 30).max(1)) as f64 * 0.9;
        return Axis::log(quantity, AxisUnit::Time, low, high as f64 * 1.5);
    }
    let margin = high.saturating_sub(least) as f64 * 0.06;
    Axis::linear(quantity, AxisUnit::Time, least as f64 - margin, high as f64 + 2.0 * margin)
}

/// Draws the chart. Returns it, and true if delays are on a logarithmic scale.
pub fn svg(chart: &Chart<'_>) -> (String, bool) {
    let (from, to) = chart.span;
    let length = to.saturating_sub(from).max(1) as f64;
    let (width, class, labels) = chart.size.layout();
    let right = width - MARGIN;
    let x = |at: i64| LEFT + (right - LEFT) * (at.saturating_sub(from) as f64 / length).clamp(0.0, 1.0);
    let all: Vec<&ChartSide> = chart.sides.iter().collect();
    let lost = all.iter().flat_map(|side| &side.columns).filter_map(|c| c.loss).fold(0.0, f64::max);
    let most_lost = LOSS_ENDS.into_iter().find(|end| *end >= lost).unwrap_or(1.0);
    let placed: Vec<PlacedSide<'_>> = (chart.sides.iter().enumerate())
        .map(|(k, side)| PlacedSide {
            side,
            lanes: Lanes::new(k, chart.sides.len()),
            axis: axis(chart.quantity, if chart.has_one_axis { &all } else { &all[k..=k] }),
            edges: side.columns.iter().map(|c| edges(x(c.span.0), x(c.span.1), right)).collect(),
            most_lost,
            size: chart.size,
        })
        .collect();
    let bottom = placed.last().map_or(0.0, |placed| placed.lanes.verdicts.1);
    let height = bottom + LABELS;
    let (from_ms, to_ms) = (from / 1_000_000, to / 1_000_000);
    let mut out = format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height:.0}\" aria-hidden=\"true\" focusable=\"false\" data-from=\"{from_ms}\" \
         data-to=\"{to_ms}\" data-left=\"{LEFT}\" data-right=\"{right}\" data-bottom=\"{bottom}\">"
    );
    for (at, label) in times::ticks(from, to, labels, chart.zone) {
        let (at, below) = (x(at), bottom + 18.0);
        for placed in &placed {
            let (top, bottom) = (placed.lanes.delays.0, placed.lanes.verdicts.1);
            let _ = write!(out, "<path class=\"grid\" d=\"M{at:.1} {top}V{bottom:.0}\"/>");
        }
        // A label at the end of the axis would be cut by the edge of the drawing.
        let end = format!("{width}");
        let (at, anchor) = if at + HALF_TICK > right { (end, "end") } else { (format!("{at:.1}"), "middle") };
        let _ = write!(
            out,
            "<text class=\"label\" x=\"{at}\" y=\"{below:.0}\" text-anchor=\"{anchor}\">{label}</text>"
        );
    }
    for placed in &placed {
        one_side(&mut out, placed, &x);
    }
    out.push_str("</svg>");
    (out, placed.iter().any(|placed| placed.axis.scale == AxisScale::Log))
}

fn one_side(out: &mut String, placed: &PlacedSide<'_>, x: &impl Fn(i64) -> f64) {
    let PlacedSide { side, lanes, edges, .. } = placed;
    frame(out, placed, x);
    density(out, placed);
    for (k, overlay) in side.overlays.iter().enumerate() {
        for (which, class) in [(1, "high"), (0, "mid")] {
            let step = |((from, to), values): &((i64, i64), (i64, i64))| {
                let value = if which == 0 { values.0 } else { values.1 };
                (self::edges(x(*from), x(*to), placed.right()), Some(placed.y(value as f64)))
            };
            steps(out, &format!("over{k} {class}"), overlay.steps.iter().map(step));
        }
    }
    for (which, class) in [(1, "p99"), (0, "p50")] {
        let value = |c: &ChartPeriod| c.percentiles.map(|p| if which == 0 { p.0 } else { p.1 });
        let columns = side.columns.iter().zip(edges);
        steps(out, class, columns.map(|(c, edges)| (*edges, value(c).map(|v| placed.y(v as f64)))));
    }
    for (column, edges) in side.columns.iter().zip(edges) {
        period(out, column, placed, *edges);
    }
    for (at, bad) in &side.changes {
        let class = if *bad { "turned bad" } else { "turned good" };
        let at = x(*at);
        let _ = write!(
            out,
            "<path class=\"{class}\" d=\"M{at:.1} {}V{:.0}\"/>",
            lanes.delays.0, lanes.verdicts.1
        );
        let sign = if *bad { "▼ worse" } else { "▲ better" };
        if side.changes.len() <= 8 && placed.size == ChartSize::Wide {
            // The title is above the left part of the drawing: there the sign is below it.
            let is_below = at - HALF_SIGN < QUANTITY_WIDTH + BOLD_WIDTH * side.title.chars().count() as f64;
            let y = lanes.delays.0 + if is_below { 13.0 } else { -5.0 };
            let (x, anchor) = if is_below { (at + 4.0, "start") } else { (at, "middle") };
            let _ = write!(
                out,
                "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.0}\" text-anchor=\"{anchor}\">{sign}</text>"
            );
        }
    }
    for mark in side.marks.iter().take(MAX_MARKS) {
        let at = x(mark.at);
        let _ = write!(
            out,
            "<g class=\"mark\"><title>{}</title><path d=\"M{at:.1} {}V{:.0}\"/><text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text></g>",
            escape(&mark.about),
            lanes.delays.0,
            lanes.verdicts.1,
            lanes.delays.0 + 13.0,
            mark.sign
        );
    }
}

/// Widens a period so that it is at least visible.
fn edges(left: f64, right: f64, end: f64) -> (f64, f64) {
    (left.min(end - 2.0), right.max(left + 2.0).min(end))
}

/// Draws gaps, titles, axes and their labels.
fn frame(out: &mut String, placed: &PlacedSide<'_>, x: &impl Fn(i64) -> f64) {
    let PlacedSide { side, lanes, axis, most_lost, .. } = placed;
    let (top, bottom) = lanes.delays;
    let end = placed.right();
    for (a, b) in &side.gaps {
        let (left, right) = edges(x(*a), x(*b), end);
        let (width, height) = (right - left, lanes.verdicts.1 - top);
        let _ = write!(
            out,
            "<rect class=\"gap\" x=\"{left:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height:.0}\"/>"
        );
        if width > 60.0 {
            let (middle, at) = ((left + right) / 2.0, top + 30.0);
            let _ = write!(
                out,
                "<text class=\"label\" x=\"{middle:.1}\" y=\"{at:.0}\" text-anchor=\"middle\">no tests</text>"
            );
        }
    }
    let mut label = |text: &str, y: f64| {
        let text = escape(text);
        let _ = write!(
            out,
            "<text class=\"label end\" x=\"{:.0}\" y=\"{:.1}\">{text}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    };
    let mut lines = String::new();
    for tick in axis.ticks(if bottom - top > 250.0 { 6 } else { 4 }) {
        let at = placed.y(tick.at);
        let _ = write!(lines, "M{LEFT} {at:.1}H{end}");
        label(&tick.label, at);
    }
    label(&share(Some(*most_lost)), lanes.losses.0 + 4.0);
    label("lost 0 %", lanes.losses.1 - 3.0);
    label("verdict", (lanes.verdicts.0 + lanes.verdicts.1) / 2.0);
    let (lost_top, lost_end) = lanes.losses;
    let _ = write!(
        out,
        "<path class=\"grid\" d=\"{lines}M{LEFT} {lost_top:.1}H{end}\"/><path class=\"axis\" d=\"M{LEFT} {top}V{bottom}H{end}M{LEFT} {lost_top}V{lost_end}H{end}\"/>"
    );
    let title = lanes.title;
    let _ = write!(
        out,
        "<text class=\"side\" x=\"4\" y=\"{title:.0}\">{} <tspan class=\"label\">{}</tspan></text>",
        escape(&side.title),
        escape(&axis.title())
    );
}

/// Returns the value at a relative position on the axis.
fn value_at(axis: &Axis, share: f64) -> f64 {
    match axis.scale {
        AxisScale::Linear => axis.lo + (axis.hi - axis.lo) * share,
        AxisScale::Log => axis.lo * (axis.hi / axis.lo).powf(share),
    }
}

/// Draws the density of delays: the darker a cell, the more packets. Each shade is one SVG path.
fn density(out: &mut String, placed: &PlacedSide<'_>) {
    let mut paths = vec![String::new(); SHADES];
    let (top, bottom) = placed.lanes.delays;
    let height = (bottom - top) / ROWS as f64;
    // Compute the ends of all rows first, so that thousands of delays need no logarithm each.
    let ends: Vec<f64> = (0..=ROWS).map(|k| value_at(&placed.axis, k as f64 / ROWS as f64)).collect();
    for (column, (left, right)) in placed.side.columns.iter().zip(&placed.edges) {
        let mut rows = [0u64; ROWS];
        for (delay, count) in &column.delays {
            let below = ends.partition_point(|end| *end <= *delay as f64);
            // Delays outside the range are not drawn.
            if let Some(row) = below.checked_sub(1).and_then(|k| rows.get_mut(k)) {
                *row += count;
            }
        }
        let most = rows.iter().copied().max().unwrap_or(0).max(1) as f64;
        let shade =
            |n: u64| (n > 0).then(|| (((n as f64 / most).sqrt() * SHADES as f64) as usize).min(SHADES - 1));
        let mut row = 0;
        while row < ROWS {
            let this = shade(rows[row]);
            let end = (row..ROWS).find(|k| shade(rows[*k]) != this).unwrap_or(ROWS);
            if let Some(path) = this.and_then(|k| paths.get_mut(k)) {
                let (top, tall) = (bottom - end as f64 * height, (end - row) as f64 * height);
                let _ = write!(path, "M{left:.1} {top:.1}H{right:.1}v{tall:.1}H{left:.1}z");
            }
            row = end;
        }
    }
    for (k, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let _ = write!(out, "<path class=\"shade{}\" d=\"{path}\"/>", k + 1);
    }
}

/// Draws a line with one step per period (its ends, and its position), interrupted where periods are not adjacent.
fn steps(out: &mut String, class: &str, columns: impl Iterator<Item = ((f64, f64), Option<f64>)>) {
    let mut path = String::new();
    let mut end: Option<f64> = None;
    for ((left, right), at) in columns {
        let Some(at) = at else {
            end = None;
            continue;
        };
        let joined = end.is_some_and(|end| left - end < 1.0);
        let _ = match joined {
            true => write!(path, "V{at:.1}H{right:.1}"),
            false => write!(path, "M{left:.1} {at:.1}H{right:.1}"),
        };
        end = Some(right);
    }
    let _ = write!(out, "<path class=\"{class}\" d=\"{path}\"/>");
}

/// Draws loss and verdict of a period, and its link.
fn period(out: &mut String, column: &ChartPeriod, placed: &PlacedSide<'_>, (left, right): (f64, f64)) {
    let (width, lanes) = (right - left, placed.lanes);
    let is_linked = placed.size == ChartSize::Wide;
    if is_linked {
        link(out, column, lanes, (left, width));
    }
    if let Some(loss) = column.loss.filter(|loss| *loss > 0.0) {
        // Even the smallest loss is visible.
        let tall = ((loss / placed.most_lost).min(1.0) * (lanes.losses.1 - lanes.losses.0)).max(2.5);
        let top = lanes.losses.1 - tall;
        let _ = write!(
            out,
            "<rect class=\"lost\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{tall:.1}\"/>"
        );
    }
    if let Some(verdict) = column.verdict {
        let tall = VERDICTS
            * match verdict {
                TestVerdict::Good => 0.33,
                TestVerdict::Fair => 0.5,
                TestVerdict::Unknown => 0.17,
                TestVerdict::Poor => 0.75,
                TestVerdict::Bad => 1.0,
            };
        let top = lanes.verdicts.1 - tall;
        let shown = if width > 4.0 { width - 0.8 } else { width };
        let _ = write!(
            out,
            "<rect class=\"verdict-{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{shown:.1}\" height=\"{tall:.1}\"/>",
            verdict.word()
        );
    }
    if is_linked {
        out.push_str("</a>");
    }
}

/// Begins the link of a period.
fn link(out: &mut String, column: &ChartPeriod, lanes: Lanes, (left, width): (f64, f64)) {
    let _ = write!(
        out,
        "<a href=\"{}\" tabindex=\"-1\"><title>{}</title>",
        escape(&column.address),
        escape(&column.about)
    );
    let (top, tall) = (lanes.delays.0, lanes.verdicts.1 - lanes.delays.0);
    let _ = write!(
        out,
        "<rect class=\"hit\" x=\"{left:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{tall:.0}\"/>"
    );
}

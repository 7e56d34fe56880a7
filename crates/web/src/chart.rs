//! A path over time as one drawing: delay (density, median, 99th percentile), losses and verdicts on one time axis. Each
//! period links to its own page; the table below the drawing has the same links for the keyboard.

use crate::times;
use crate::verdict::TestVerdict;
use jitlat_report::escape;
use jitlat_report::figure::{Axis, AxisScale, AxisUnit, value_label};
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

/// Contents of a chart.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// Start and end, ns since 1970.
    pub span: (i64, i64),
    /// Name of the quantity that is drawn.
    pub quantity: &'a str,
    /// Periods in order of time.
    pub columns: &'a [ChartPeriod],
    /// Gaps without tests.
    pub gaps: &'a [(i64, i64)],
    /// Times at which the path becomes bad (true) or recovers (false).
    pub changes: &'a [(i64, bool)],
    /// Times at which the route changed.
    pub marks: &'a [i64],
}

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 986.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 300.0;
const LOSS: (f64, f64) = (316.0, 356.0);
const VERDICT: (f64, f64) = (368.0, 392.0);
const TICKS: f64 = 410.0;
const HEIGHT: f64 = 420.0;
/// Number of rows of the density plot.
const ROWS: usize = 44;
const SHADES: usize = 5;
/// Loss whose bar has the full height. Smaller losses have bars that are at least visible.
const FULL_SCALE_LOSS: f64 = 0.1;

/// Chooses the range of delays, without single outliers that would flatten the rest.
fn axis(chart: &Chart<'_>) -> Axis {
    let known = || chart.columns.iter().filter_map(|c| c.percentiles);
    let least = chart.columns.iter().flat_map(|c| c.delays.iter().map(|d| d.0)).min().unwrap_or(0);
    let mut highs: Vec<i64> = known().map(|p| p.1).collect();
    highs.sort_unstable();
    let high = highs.last().copied().unwrap_or(1).max(least.saturating_add(1));
    let mut medians: Vec<i64> = known().map(|p| p.0).collect();
    medians.sort_unstable();
    let median = medians.get(medians.len() / 2).copied().unwrap_or(0);
    if least >= 0 && median > 0 && high / median >= 12 {
        return Axis::log(
            chart.quantity,
            AxisUnit::Time,
            (least.max(median / 30).max(1)) as f64 * 0.9,
            high as f64 * 1.5,
        );
    }
    let margin = high.saturating_sub(least) as f64 * 0.06;
    Axis::linear(chart.quantity, AxisUnit::Time, least as f64 - margin, high as f64 + 2.0 * margin)
}

/// Draws the chart. Returns it, and true if delays are on a logarithmic scale.
pub fn svg(chart: &Chart<'_>) -> (String, bool) {
    let (from, to) = chart.span;
    let length = to.saturating_sub(from).max(1) as f64;
    let x = |at: i64| LEFT + (RIGHT - LEFT) * (at.saturating_sub(from) as f64 / length).clamp(0.0, 1.0);
    let axis = axis(chart);
    let y = |v: f64| BOTTOM - (BOTTOM - TOP) * axis.position(v).clamp(0.0, 1.0);
    let mut out = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" aria-hidden=\"true\" focusable=\"false\">"
    );
    frame(&mut out, chart, &axis, &x, &y);
    let edges: Vec<(f64, f64)> = chart.columns.iter().map(|c| edges(x(c.span.0), x(c.span.1))).collect();
    density(&mut out, chart, &axis, &edges);
    for (which, class) in [(1, "p99"), (0, "p50")] {
        let value = |c: &ChartPeriod| c.percentiles.map(|p| if which == 0 { p.0 } else { p.1 });
        steps(&mut out, chart, &edges, class, |c| value(c).map(|v| y(v as f64)));
    }
    let middle = (LOSS.0 + LOSS.1) / 2.0 + 4.0;
    let _ = write!(out, "<text x=\"{:.0}\" y=\"{middle:.0}\" class=\"label end\">loss</text>", LEFT - 8.0);
    let middle = (VERDICT.0 + VERDICT.1) / 2.0 + 4.0;
    let _ = write!(out, "<text x=\"{:.0}\" y=\"{middle:.0}\" class=\"label end\">verdict</text>", LEFT - 8.0);
    for (column, (left, right)) in chart.columns.iter().zip(&edges) {
        period(&mut out, column, *left, *right);
    }
    for (at, bad) in chart.changes {
        let class = if *bad { "turned bad" } else { "turned good" };
        let at = x(*at);
        let _ = write!(out, "<path class=\"{class}\" d=\"M{at:.1} {TOP}V{:.0}\"/>", VERDICT.1);
        let sign = if *bad { "▼ worse" } else { "▲ better" };
        if chart.changes.len() <= 8 {
            let _ = write!(
                out,
                "<text class=\"{class}\" x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{sign}</text>",
                TOP - 6.0
            );
        }
    }
    for at in chart.marks {
        let at = x(*at);
        let _ = write!(
            out,
            "<path class=\"gap\" d=\"M{at:.1} {TOP}V{:.0}\"/><text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">◆</text>",
            VERDICT.1,
            TOP + 12.0
        );
    }
    out.push_str("</svg>");
    (out, axis.scale == AxisScale::Log)
}

/// Widens a period so that it is at least visible.
fn edges(left: f64, right: f64) -> (f64, f64) {
    (left.min(RIGHT - 2.0), right.max(left + 2.0).min(RIGHT))
}

fn frame(out: &mut String, chart: &Chart<'_>, axis: &Axis, x: &impl Fn(i64) -> f64, y: &impl Fn(f64) -> f64) {
    for (a, b) in chart.gaps {
        let (left, right) = edges(x(*a), x(*b));
        let (width, height) = (right - left, VERDICT.1 - TOP);
        let _ = write!(
            out,
            "<rect class=\"gap\" x=\"{left:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height:.0}\"/>"
        );
        if width > 60.0 {
            let middle = (left + right) / 2.0;
            let _ = write!(
                out,
                "<text class=\"label\" x=\"{middle:.1}\" y=\"{:.0}\" text-anchor=\"middle\">no tests</text>",
                TOP + 16.0
            );
        }
    }
    for tick in axis.ticks(6) {
        let at = y(tick.at);
        let label = escape(&tick.label);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/><text class=\"label end\" x=\"{:.0}\" y=\"{:.1}\">{label}</text>",
            LEFT - 8.0,
            at + 4.0
        );
    }
    let _ = write!(out, "<text class=\"label\" x=\"4\" y=\"14\">{}</text>", escape(&axis.title()));
    for (at, label) in times::ticks(chart.span.0, chart.span.1, 9) {
        let at = x(at);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{at:.1} {TOP}V{:.0}\"/><text class=\"label\" x=\"{at:.1}\" y=\"{TICKS}\" text-anchor=\"middle\">{label}</text>",
            VERDICT.1
        );
    }
    let _ =
        write!(out, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}M{LEFT} {}H{RIGHT}\"/>", LOSS.1);
}

/// Returns the value at a relative position on the axis.
fn value_at(axis: &Axis, share: f64) -> f64 {
    match axis.scale {
        AxisScale::Linear => axis.lo + (axis.hi - axis.lo) * share,
        AxisScale::Log => axis.lo * (axis.hi / axis.lo).powf(share),
    }
}

/// Draws the density of delays: the darker a cell, the more packets. Each shade is one SVG path.
fn density(out: &mut String, chart: &Chart<'_>, axis: &Axis, edges: &[(f64, f64)]) {
    let mut paths = vec![String::new(); SHADES];
    let height = (BOTTOM - TOP) / ROWS as f64;
    // Compute the ends of all rows first, so that thousands of delays need no logarithm each.
    let ends: Vec<f64> = (0..=ROWS).map(|k| value_at(axis, k as f64 / ROWS as f64)).collect();
    for (column, (left, right)) in chart.columns.iter().zip(edges) {
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
                let (top, tall) = (BOTTOM - end as f64 * height, (end - row) as f64 * height);
                let _ = write!(path, "M{left:.1} {top:.1}H{right:.1}v{tall:.1}H{left:.1}z");
            }
            row = end;
        }
    }
    for (k, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let _ = write!(out, "<path class=\"shade{}\" d=\"{path}\"/>", k + 1);
    }
}

/// Draws a line with one step per period, interrupted where periods are not adjacent.
fn steps(
    out: &mut String,
    chart: &Chart<'_>,
    edges: &[(f64, f64)],
    class: &str,
    y: impl Fn(&ChartPeriod) -> Option<f64>,
) {
    let mut path = String::new();
    let mut end: Option<f64> = None;
    for (column, (left, right)) in chart.columns.iter().zip(edges) {
        let Some(at) = y(column) else {
            end = None;
            continue;
        };
        let joined = end.is_some_and(|end| left - end < 1.0);
        let _ = match joined {
            true => write!(path, "V{at:.1}H{right:.1}"),
            false => write!(path, "M{left:.1} {at:.1}H{right:.1}"),
        };
        end = Some(*right);
    }
    let _ = write!(out, "<path class=\"{class}\" d=\"{path}\"/>");
}

/// Draws loss and verdict of a period, and its link.
fn period(out: &mut String, column: &ChartPeriod, left: f64, right: f64) {
    let width = right - left;
    let _ = write!(
        out,
        "<a href=\"{}\" tabindex=\"-1\"><title>{}</title>",
        escape(&column.address),
        escape(&column.about)
    );
    let _ = write!(
        out,
        "<rect class=\"hit\" x=\"{left:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{:.0}\"/>",
        VERDICT.1 - TOP
    );
    if let Some(loss) = column.loss.filter(|loss| *loss > 0.0) {
        let tall = ((loss / FULL_SCALE_LOSS).sqrt().min(1.0) * (LOSS.1 - LOSS.0)).max(3.0);
        let _ = write!(
            out,
            "<rect class=\"lost\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{tall:.1}\"/>",
            LOSS.1 - tall
        );
    }
    if let Some(verdict) = column.verdict {
        let (top, tall) = match verdict {
            TestVerdict::Good => (VERDICT.0 + 16.0, 8.0),
            TestVerdict::Fair => (VERDICT.0 + 12.0, 12.0),
            TestVerdict::Unknown => (VERDICT.0 + 20.0, 4.0),
            TestVerdict::Poor => (VERDICT.0 + 6.0, 18.0),
            TestVerdict::Bad => (VERDICT.0, 24.0),
        };
        let shown = if width > 4.0 { width - 0.8 } else { width };
        let _ = write!(
            out,
            "<rect class=\"verdict-{}\" x=\"{left:.1}\" y=\"{top}\" width=\"{shown:.1}\" height=\"{tall}\"/>",
            verdict.word()
        );
    }
    out.push_str("</a>");
}

/// Formats a delay; a dash if it is undefined.
pub fn time(ns: Option<i64>) -> String {
    ns.map_or_else(|| "–".to_owned(), |ns| value_label(AxisUnit::Time, ns as f64))
}

/// Formats a share; a dash if it is undefined.
pub fn share(part: Option<f64>) -> String {
    part.map_or_else(|| "–".to_owned(), |part| value_label(AxisUnit::Share, part))
}

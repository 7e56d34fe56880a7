//! Distributions: latency, jitter, delay variation, send error.

use super::axis::exact;
use super::{
    Axis, AxisOverflow, AxisUnit, DrawnRun, Figure, Mark, MarkSeries, PointGrid, Tone, group_thousands,
    value_label,
};
use jitlat_core::summary::Distribution;

/// Number of bars of a histogram that is not part of the summary.
const BARS: usize = 90;

/// Title and texts of the histogram of a quantity.
struct HistogramText {
    id: &'static str,
    title: String,
    quantity: &'static str,
    about: &'static str,
}

/// Draws the histogram of latency with its cumulative distribution (DRDC TM 2011-047); `None` without a histogram.
pub fn latency(run: &DrawnRun<'_>) -> Option<Figure> {
    let subject = HistogramText {
        id: "latency",
        title: run.titled(if run.correction().is_some() { "Latency, clocks corrected" } else { "Latency" }),
        quantity: run.delay(),
        about: "Distribution of delay, and its cumulative share (line, right axis). One narrow peak is an idle \
                path; a long tail is queueing; several peaks are several paths or states.",
    };
    let mut figure = distribution(&subject, &run.summary.latency, run.correction().unwrap_or(0))?;
    figure.notes.extend(run.position());
    Some(figure)
}

/// Draws the histogram of jitter as defined in DRDC TM 2011-047: delay above the smallest delay. `None` without a
/// histogram.
pub fn jitter(run: &DrawnRun<'_>) -> Option<Figure> {
    let subject = HistogramText {
        id: "jitter",
        title: run.titled("Jitter (packet delay variation)"),
        quantity: "delay above the minimum",
        about: "Delay above that of the fastest packet, which a play-out buffer must absorb. Read the line at 99 \
                % for a buffer that 1 % of packets exceed. Independent of any constant clock error.",
    };
    distribution(&subject, &run.summary.pdv, 0)
}

fn distribution(subject: &HistogramText, d: &Distribution, shift: i64) -> Option<Figure> {
    let h = d.shown_histogram()?;
    let (start, width) = (h.lo.checked_sub(shift)? as f64, h.binsize as f64);
    let heights: Vec<f64> = h.counts.iter().map(|c| *c as f64).collect();
    // The last bins may lie completely above p99: end the axis with the counted range.
    let end = (start + width * heights.len() as f64).min((h.hi.checked_sub(shift)? as f64) + width);
    let cumulative = cumulative(start, width, 0, &heights, d.n);
    let mut figure = frame(subject, start, end, d.n, width, heights);
    let written = |m: i64| match figure.x.origin {
        0.0 => value_label(AxisUnit::Time, m as f64),
        _ => exact(m as f64),
    };
    let until = d.max.and_then(|m| m.checked_sub(shift)).map(written);
    figure.series.push(cumulative);
    figure.right = Some(Axis::linear("cumulative share of packets", AxisUnit::Share, 0.0, 1.0));
    if let (1.., Some(until)) = (h.overflow, &until) {
        figure.notes.push(format!(
            "The axis ends at the 99th percentile; {} of {} packets ({}) lie beyond it, up to {until}.",
            group_thousands(&h.overflow.to_string()),
            group_thousands(&d.n.to_string()),
            value_label(AxisUnit::Share, h.overflow as f64 / d.n as f64),
        ));
        figure.overflow = Some(AxisOverflow { count: h.overflow, until: until.clone() });
    }
    if d.approx {
        figure.notes.push("Counted in constant memory: values are exact to 0.1 %.".into());
    }
    Some(figure)
}

/// Returns the cumulative share of `n` values at the edges of the bars; `before` is the number of values below
/// the first bar.
fn cumulative(start: f64, width: f64, before: u64, heights: &[f64], n: u64) -> MarkSeries {
    let n = n as f64;
    let mut sum = before as f64;
    let mut points = vec![(start, sum / n)];
    points.extend(heights.iter().zip(1..).map(|(height, k)| {
        sum += height;
        (start + width * f64::from(k), sum / n)
    }));
    let line = Mark::Line { points, dashed: false };
    MarkSeries::new("cumulative share (right axis)", Tone::Cumulative, line).on_right()
}

/// Draws the histogram of latency over its full range, from the trace; `None` without packets.
pub fn latency_full(run: &DrawnRun<'_>) -> Option<Figure> {
    let trace = run.trace.filter(|trace| trace.n() > 0)?;
    let subject = HistogramText {
        id: "latency-full",
        title: run.titled("Latency, full range"),
        quantity: run.delay(),
        about: "The latency histogram with all packets, which shows the whole tail.",
    };
    let (min, max) = (run.summary.latency.min? as f64, run.summary.latency.max? as f64);
    let mut bars = rebinned(&trace.delays, min, max, BARS);
    bars.start -= run.correction().unwrap_or(0) as f64;
    let most = bars.heights.iter().copied().fold(0.0, f64::max);
    let mut figure = frame(&subject, bars.start, bars.end(), trace.n(), bars.width, bars.heights);
    figure.y = Axis::counts("packets", 1.0, most);
    figure.notes.extend(run.position());
    Some(figure)
}

/// Draws the histogram of delay variation between consecutive packets, from the trace; `None` without such pairs.
pub fn ipdv(run: &DrawnRun<'_>) -> Option<Figure> {
    let trace = run.trace?;
    let summary = &run.summary.ipdv;
    let n = trace.ipdv.n();
    if n == 0 {
        return None;
    }
    let subject = HistogramText {
        id: "ipdv",
        title: run.titled("Delay variation between consecutive packets (IPDV)"),
        quantity: "delay − delay of the previous packet",
        about: "A symmetric, narrow peak is a quiet path. A second hump on each side, at a fixed distance, is \
                competing traffic of one packet size or a scheduler's time slot.",
    };
    let reach = |p: Option<i64>| p.map_or(0.0, |v| (v as f64).abs());
    let reach = reach(summary.p0_1).max(reach(summary.p99_9));
    let reach = if reach > 0.0 { reach } else { reach.max(summary.max.unwrap_or(0) as f64).max(500.0) };
    let bars = rebinned(&trace.ipdv, -reach, reach, BARS);
    let inside = bars.heights.iter().sum::<f64>() as u64;
    let cumulative = cumulative(bars.start, bars.width, bars.before, &bars.heights, n);
    let mut figure = frame(&subject, bars.start, bars.end(), n, bars.width, bars.heights);
    figure.series.push(cumulative);
    figure.right = Some(Axis::linear("cumulative share of pairs", AxisUnit::Share, 0.0, 1.0));
    figure.subtitle = format!(
        "n = {} pairs of consecutive packets · {} per bar{}",
        group_thousands(&n.to_string()),
        value_label(AxisUnit::Time, bars.width),
        summary.iqr.map_or(String::new(), |i| format!(" · IQR {}", value_label(AxisUnit::Time, i as f64))),
    );
    figure.y.quantity = "pairs".into();
    figure.series[0].name = "pairs per bar".into();
    if let (1.., Some(min), Some(max)) = (n - inside, summary.min, summary.max) {
        figure.overflow = Some(AxisOverflow {
            count: n - inside,
            until: value_label(AxisUnit::Time, (max.max(-min)) as f64),
        });
        figure.notes.push(format!(
            "The axis covers all but 0.1 % on either side: {} pairs lie outside, from {} to {}.",
            group_thousands(&(n - inside).to_string()),
            value_label(AxisUnit::Time, min as f64),
            value_label(AxisUnit::Time, max as f64),
        ));
    }
    if summary.undefined > 0 {
        figure.notes.push(format!(
            "{} more pairs have no value: one of the two packets was lost.",
            group_thousands(&summary.undefined.to_string())
        ));
    }
    Some(figure)
}

/// Draws the histogram of the sender's schedule error, from the trace; `None` if the error is unknown.
pub fn send_error(run: &DrawnRun<'_>) -> Option<Figure> {
    let (trace, error) = (run.trace?, run.summary.schedule_error.as_ref()?);
    let offset = error.anchor_ns.checked_sub(trace.schedule_base()?)? as f64;
    let subject = HistogramText {
        id: "send-error",
        title: run.titled("Send error"),
        quantity: "sent later than due by",
        about: "Delay of the sender behind its schedule. If this is as wide as the jitter, the jitter is caused \
                by the sending host, not by the path.",
    };
    // The reference is the first percentile, so at most 1 % of packets are earlier.
    let (p99, min) = (error.p99.max(1) as f64, error.min as f64);
    let (low, high) = (min.max(-p99 / 4.0) + offset, p99 + offset);
    let bars = rebinned(&trace.lateness, low, high, BARS);
    let inside = bars.heights.iter().sum::<f64>() as u64;
    let beyond = trace.n().saturating_sub(inside);
    let (start, end) = (bars.start - offset, bars.end() - offset);
    let mut figure = frame(&subject, start, end, trace.n(), bars.width, bars.heights);
    if beyond > 0 {
        let until = value_label(AxisUnit::Time, error.max as f64);
        figure.notes.push(format!(
            "The axis ends at the 99th percentile; {} packets lie outside, from {} to {until}.",
            group_thousands(&beyond.to_string()),
            value_label(AxisUnit::Time, min),
        ));
        figure.overflow = Some(AxisOverflow { count: beyond, until });
    }
    Some(figure)
}

/// Creates a histogram without a cumulative line.
fn frame(subject: &HistogramText, start: f64, end: f64, n: u64, width: f64, heights: Vec<f64>) -> Figure {
    let most = heights.iter().copied().fold(0.0, f64::max);
    Figure {
        id: subject.id.into(),
        title: subject.title.clone(),
        subtitle: format!(
            "n = {} packets · {} per bar",
            group_thousands(&n.to_string()),
            value_label(AxisUnit::Time, width)
        ),
        measured: String::new(),
        about: subject.about.into(),
        x: Axis::linear(subject.quantity, AxisUnit::Time, start, end),
        y: Axis::linear("packets", AxisUnit::Count, 0.0, (most * 1.06).max(1.0)),
        right: None,
        series: vec![MarkSeries::new("packets per bar", Tone::Data, Mark::Bars { start, width, heights })],
        overflow: None,
        notes: Vec::new(),
    }
}

/// Bars of equal width over a part of a distribution.
pub(super) struct Bars {
    /// Number of values below the bars.
    pub(super) before: u64,
    pub(super) start: f64,
    pub(super) width: f64,
    pub(super) heights: Vec<f64>,
}

impl Bars {
    pub(super) fn end(&self) -> f64 {
        self.start + self.width * self.heights.len() as f64
    }
}

/// Returns the counts of `grid` along its vertical axis between `low` and `high`, merged to at most `most` bars. Bars begin
/// and end at cells, so no count is split.
pub(super) fn rebinned(grid: &PointGrid, low: f64, high: f64, most: usize) -> Bars {
    let (origin, cell, counts) = grid.marginal();
    let index =
        |v: f64| (((v - origin) / cell).floor().max(0.0) as usize).min(counts.len().saturating_sub(1));
    let (first, last) = (index(low), index(high));
    let before = counts.iter().take(first).sum();
    let counts = counts.get(first..=last).unwrap_or_default();
    let merge = counts.len().div_ceil(most).max(1);
    let heights = counts.chunks(merge).map(|c| c.iter().sum::<u64>() as f64).collect();
    Bars { before, start: origin + cell * first as f64, width: cell * merge as f64, heights }
}

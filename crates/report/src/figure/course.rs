//! Delay over time of several streams on one time axis, with their losses.

use super::series::{drawn, extent};
use super::{Axis, AxisUnit, Figure, Mark, MarkSeries, Tone, Trace, group_thousands, measured_of_several};
use jitlat_core::spec::Direction;
use jitlat_core::summary::{Summary, TrendVerdict};

/// Maximum number of streams in a figure; more cannot be distinguished.
const MAX_STREAMS: usize = 7;

/// A stream drawn in the same figure as others.
#[derive(Clone, Copy, Debug)]
pub struct DrawnStream<'a> {
    /// Name of the stream in the legend; empty for a single stream.
    pub label: &'a str,
    /// Summary of the stream.
    pub summary: &'a Summary,
    /// Packets of the stream.
    pub trace: &'a Trace,
    /// Value subtracted from each raw delay, in ns; `None` if only differences of delays are meaningful.
    pub minus: Option<i64>,
}

/// Draws delay and losses of `streams` over time. The two directions of one test share the time of the client's clock; other
/// streams each start at zero. `None` without packets.
pub fn delay_over_time(streams: &[DrawnStream<'_>]) -> Option<Figure> {
    let known: Vec<&DrawnStream<'_>> = streams.iter().filter(|s| s.trace.n() > 0).collect();
    known.first()?;
    let all = known.len();
    let known = &known[..all.min(MAX_STREAMS)];
    let relative = known.iter().any(|s| s.minus.is_none());
    let starts = starts(known);
    let mut series = Vec::new();
    let (mut from, mut to) = (0.0f64, 0.0f64);
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for (k, (stream, start)) in known.iter().zip(&starts).enumerate() {
        let s = stream.summary;
        let (cloud, [least, most]) = match &stream.trace.stepless {
            Some((cloud, range)) => (cloud, *range),
            None => (&stream.trace.delay, [s.latency.min?, s.latency.max?]),
        };
        let minus = stream.minus.filter(|_| !relative).unwrap_or(least) as f64;
        let tone = if known.len() == 1 { Tone::Data } else { Tone::Run(k as u8) };
        let (mark, _) = drawn(cloud, minus)?;
        let name = if known.len() == 1 { String::new() } else { stream.label.to_owned() };
        series.push(MarkSeries::new(name, tone, mark.later(*start)));
        let (begin, end) = extent(cloud)?;
        (from, to) = (from.min(begin + start), to.max(end + start));
        (low, high) = (low.min(least as f64 - minus), high.max(most as f64 - minus));
        let losses = stream.trace.losses(s.counts.sent);
        if losses.is_empty() {
            continue;
        }
        (from, to) = losses.iter().fold((from, to), |(a, b), l| (a.min(l.0 + start), b.max(l.1 + start)));
        let stretches = losses.into_iter().map(|(a, b, share)| (a + start, b + start, share)).collect();
        let of = if known.len() == 1 { String::new() } else { format!("{}: ", stream.label) };
        let what = if s.counts_losses() { "lost" } else { "not answered in time" };
        let name = format!("{of}{} {what}", group_thousands(&s.counts.lost.to_string()));
        let tone = if known.len() == 1 { Tone::Harm } else { tone };
        series.push(MarkSeries::new(name, tone, Mark::Rug { stretches }));
    }
    if let [only] = known {
        series.extend(trend(only, relative, [from, to]));
    }
    let margin = (high - low).max(1.0) * 0.04;
    let round_trip = known.iter().all(|s| s.summary.is_round_trip());
    let quantity = match (round_trip, relative) {
        (true, false) => "round trip",
        (true, true) => "round trip above the smallest",
        (false, false) => "one-way delay",
        (false, true) => "one-way delay above the smallest",
    };
    let n: u64 = known.iter().map(|s| s.trace.n()).sum();
    let mut notes = Vec::new();
    if all > MAX_STREAMS {
        notes.push(format!("The first {MAX_STREAMS} of {all} runs are drawn."));
    }
    let set = known.iter().filter(|s| s.trace.stepless.is_some());
    notes.extend(set.filter_map(|stream| {
        let without = stream.summary.answer.as_ref()?.without_clock_step.as_ref()?;
        let of = if known.len() == 1 { String::new() } else { format!("{}: ", stream.label) };
        Some(format!("{of}{}.", jitlat_verdict::drawn_without_clock_step(without)))
    }));
    if relative {
        notes.push(
            "The clock offset is not known well enough: delays are shown above the smallest of each stream."
                .into(),
        );
    }
    let marks = if known.iter().any(|s| s.summary.loss_observable()) {
        "Marks along the lower edge are losses, at their times. "
    } else {
        ""
    };
    Some(Figure {
        id: "delay-over-time".into(),
        title: "Delay over time".into(),
        subtitle: format!("n = {} packets that arrived", group_thousands(&n.to_string())),
        measured: measured_of_several(known.iter().map(|s| (s.label, s.summary.measured()))),
        about: format!("{marks}A ramp is a queue that fills, a gap an outage, a step another route."),
        x: Axis::linear("time since the first packet", AxisUnit::Elapsed, from, to),
        y: Axis::linear(quantity, AxisUnit::Time, low - margin, high + margin),
        right: None,
        series,
        overflow: None,
        notes,
    })
}

/// Returns the trend of a stream as a line, if it has a significant one that is not a step of a clock.
fn trend(of: &DrawnStream<'_>, relative: bool, ends: [f64; 2]) -> Option<MarkSeries> {
    let summary = of.summary;
    summary.trend.as_ref().filter(|trend| trend.verdict != TrendVerdict::None)?;
    let fit = summary.regression_arrival.as_ref().filter(|_| of.trace.stepless.is_none())?;
    let minus = of.minus.filter(|_| !relative).or(summary.latency.min)? as f64;
    let points = ends.map(|x| (x, fit.b + fit.m * x - minus)).to_vec();
    Some(MarkSeries::new("trend", Tone::Fit, Mark::Line { points, dashed: true }))
}

/// Start of each stream, in ns after the earliest start; zero for all streams unless they are the two directions of one
/// test.
fn starts(streams: &[&DrawnStream<'_>]) -> Vec<f64> {
    let info = |s: &DrawnStream<'_>| (s.summary.session.id.clone(), s.summary.direction());
    let one_test = match streams {
        [a, b] => {
            let ((a, first), (b, second)) = (info(a), info(b));
            a.is_some() && a == b && first.is_some() && second.is_some() && first != second
        }
        _ => false,
    };
    // On the client's clock: the arrival times of one direction, and the arrival times minus the smallest delay (which
    // includes the clock offset) of the other.
    let at = |s: &&DrawnStream<'_>| match s.summary.direction() {
        Some(Direction::Up) => Some(s.trace.start()?.saturating_sub(s.summary.latency.min?)),
        _ => s.trace.start(),
    };
    let at: Option<Vec<i64>> = streams.iter().map(at).collect();
    match at.filter(|_| one_test) {
        Some(at) => {
            let first = at.iter().copied().min().unwrap_or_default();
            at.iter().map(|t| t.saturating_sub(first) as f64).collect()
        }
        None => vec![0.0; streams.len()],
    }
}

//! Figures of latency and send error over time, and of loss and voice quality by buffer size.

use super::trace::Cloud;
use super::{Axis, AxisUnit, DrawnRun, Figure, Mark, MarkSeries, Tone, group_thousands, value_label};
use jitlat_core::summary::{Dejitter, TrendVerdict};

/// Name of the figure of delay over arrival time.
pub const BURSTINESS: &str = "burstiness";
/// Number of columns of cells in a drawn density: finer than visible, coarse enough for a small file.
const COLUMNS: usize = 256;
const ROWS: usize = 150;

/// Delay over arrival time, as several figures draw it.
pub(super) struct DelayByArrival {
    /// The packets.
    pub cloud: Mark,
    /// Addition to the subtitle.
    pub how: String,
    /// Delay that is subtracted from all delays, in ns.
    pub correction: f64,
    /// Losses, as [`Trace::losses`](super::trace::Trace::losses) returns them.
    pub losses: Vec<(f64, f64, f64)>,
    /// Arrival times of the first and the last packet, in ns.
    pub packets: [f64; 2],
    /// Ends of the time axis: packets and losses.
    pub x: [f64; 2],
    /// Ends of the delay axis, with a margin.
    pub y: [f64; 2],
}

impl DelayByArrival {
    /// Returns the packets and losses of `run`; `None` without packets.
    pub fn of(run: &DrawnRun<'_>) -> Option<DelayByArrival> {
        let (trace, summary) = (run.trace?, run.summary);
        let correction = run.correction().unwrap_or(0) as f64;
        let (cloud, how) = drawn(&trace.delay, correction)?;
        let (low, high) =
            (summary.latency.min? as f64 - correction, summary.latency.max? as f64 - correction);
        let losses = trace.losses(summary.counts.sent);
        let (first, last) = extent(&trace.delay)?;
        let x = [
            losses.iter().map(|l| l.0).fold(first, f64::min),
            losses.iter().map(|l| l.1).fold(last, f64::max),
        ];
        let margin = (high - low).max(1.0) * 0.04;
        let y = [low - margin, high + margin];
        Some(DelayByArrival { cloud, how, correction, losses, packets: [first, last], x, y })
    }
}

/// Draws delay over time (the burstiness plot of DRDC TM 2011-047): latency by arrival time, with the fitted line, the
/// lower convex hull, and losses at their times. `None` without packets.
pub fn burstiness(run: &DrawnRun<'_>) -> Option<Figure> {
    let (trace, summary) = (run.trace?, run.summary);
    let n = trace.n();
    let DelayByArrival { cloud, how, correction, losses, packets: [first, last], x, y } =
        DelayByArrival::of(run)?;
    let mut figure = Figure {
        id: BURSTINESS.into(),
        title: run.titled("Delay over arrival time, with its trend"),
        subtitle: format!("n = {} packets{how}", group_thousands(&n.to_string())),
        measured: String::new(),
        about:
            "Gaps are pauses in delivery, diagonals falling to the right are packets released together after a \
             pause, a rising floor is a filling queue or a drifting clock."
                .into(),
        x: Axis::linear("arrival time since the first packet", AxisUnit::Elapsed, x[0], x[1]),
        y: Axis::linear(run.delay(), AxisUnit::Time, y[0], y[1]),
        right: None,
        series: vec![MarkSeries::new("packets", Tone::Data, cloud)],
        overflow: None,
        notes: Vec::new(),
    };
    let mut slopes = Vec::new();
    if let Some(fit) = &summary.regression_arrival {
        let at = |x: f64| (x, fit.b + fit.m * x - correction);
        let points = vec![at(first), at(last)];
        slopes.push(format!("least squares, m = {}", slope(fit.m)));
        figure.series.push(MarkSeries::new("trend", Tone::Fit, Mark::Line { points, dashed: true }));
    }
    if let Some(hull) = &summary.skew_hull {
        let end = (last - first).max(1.0);
        let at = |t: f64| {
            let delay = hull.beta_ns + hull.alpha * t;
            trace.arrival_of(t, delay).map(|x| (x, delay - correction))
        };
        if let (Some(a), Some(b)) = (at(0.0), at(end)) {
            let mark = Mark::Line { points: vec![a, b], dashed: false };
            slopes.push(format!("line below all packets, {}", slope(hull.alpha)));
            figure.series.push(MarkSeries::new("below all packets", Tone::Bound, mark));
        }
    }
    if !losses.is_empty() {
        let name = format!("{} lost", group_thousands(&summary.counts.lost.to_string()));
        figure.series.push(MarkSeries::new(name, Tone::Harm, Mark::Rug { stretches: losses }));
    }
    figure.notes.extend(run.position());
    if let Some(without) = summary.answer.as_ref().and_then(|answer| answer.without_clock_step.as_ref()) {
        figure.notes.push(format!("{}.", jitlat_verdict::with_clock_step(without)));
    }
    if let Some(trend) = &summary.trend {
        figure.notes.push(format!("Trend: {}.", verdict_words(trend.verdict)));
    }
    if !slopes.is_empty() {
        figure.notes.push(format!("Slopes: {}.", slopes.join("; ")));
    }
    Some(figure)
}

fn verdict_words(verdict: TrendVerdict) -> &'static str {
    match verdict {
        TrendVerdict::None => "not significant",
        TrendVerdict::Skew => "the clocks run at different rates",
        TrendVerdict::Overload => "overload: a queue is filling",
        TrendVerdict::Draining => "delay falls; a queue is emptying or TCP's window is opening",
        TrendVerdict::Undecided => "present, but the evidence is contradictory",
    }
}

/// Draws the time that packets spent in the queue of the sending host's interface; `None` if it was always
/// below 1 ms.
pub fn local_queue(run: &DrawnRun<'_>) -> Option<Figure> {
    let (trace, queue) = (run.trace?, run.summary.local_queue.as_ref()?);
    let (cloud, how) = drawn(&trace.queue, 0.0)?;
    let (first, last) = extent(&trace.queue)?;
    let drawn = trace.queue.grid.n();
    let rest = queue.n.saturating_sub(drawn);
    let mut notes = vec![
        "It adds to the delay of the path: applications see both, but the delays of this test exclude it."
            .into(),
    ];
    if rest > 0 {
        notes.push(format!(
            "{} packets left within 1 ms and are not drawn.",
            group_thousands(&rest.to_string())
        ));
    }
    Some(Figure {
        id: "local-queue-course".into(),
        title: run.titled("Queue in the sending host over time"),
        subtitle: format!(
            "n = {} packets{how} · median {}, 99 % below {}",
            group_thousands(&queue.n.to_string()),
            value_label(AxisUnit::Time, queue.median),
            value_label(AxisUnit::Time, queue.p99 as f64),
        ),
        measured: String::new(),
        about: "Time from entering the queue of the sending host's interface to leaving it. A ramp means that \
                more is sent than the interface can carry, a plateau is a full queue, a sawtooth is bursts of \
                other traffic."
            .into(),
        x: Axis::linear("send time since the first packet", AxisUnit::Elapsed, first, last.max(first + 1.0)),
        y: Axis::linear("in the sender's own queue", AxisUnit::Time, 0.0, 1.04 * queue.max as f64),
        right: None,
        series: vec![MarkSeries::new("", Tone::Data, cloud)],
        overflow: None,
        notes,
    })
}

/// Draws the sender's schedule error over time; `None` if the error is unknown.
pub fn schedule(run: &DrawnRun<'_>) -> Option<Figure> {
    let (trace, error) = (run.trace?, run.summary.schedule_error.as_ref()?);
    let offset = error.anchor_ns.checked_sub(trace.schedule_base()?)? as f64;
    let (cloud, how) = drawn(&trace.schedule, offset)?;
    let (first, last) = extent(&trace.schedule)?;
    let (low, high) = (error.min as f64, error.max as f64);
    let margin = (high - low).max(1.0) * 0.04;
    let mut notes = Vec::new();
    if error.over_half_period > 0 {
        notes.push(format!(
            "{} packets were sent more than half a period late; their delays are listed separately in the table.",
            group_thousands(&error.over_half_period.to_string())
        ));
    }
    Some(Figure {
        id: "send-error-course".into(),
        title: run.titled("Send error over time"),
        subtitle: format!(
            "n = {} packets{how} · median {}, 99 % below {}",
            group_thousands(&trace.n().to_string()),
            value_label(AxisUnit::Time, error.median),
            value_label(AxisUnit::Time, error.p99 as f64),
        ),
        measured: String::new(),
        about:
            "Spikes are moments when the sending host could not send in time because of its scheduler, its disk \
             or its virtual machine. A ramp is a clock that runs at a different rate than the timer."
                .into(),
        x: Axis::linear("send time since the first packet", AxisUnit::Elapsed, first, last),
        y: Axis::linear("sent later than due by", AxisUnit::Time, low - margin, high + margin),
        right: None,
        series: vec![MarkSeries::new("", Tone::Data, cloud)],
        overflow: None,
        notes,
    })
}

/// Draws loss and voice quality by the size of a fixed play-out buffer; `None` without packets.
pub fn dejitter(run: &DrawnRun<'_>) -> Option<Figure> {
    let summary = run.summary;
    let curve = summary.dejitter.as_ref()?;
    let sent = summary.counts.sent.max(1) as f64;
    let reach = reach(run, curve)?;
    let x = |ms: f64| ms * 1e6;
    let floor = 0.5 / sent;
    let foot =
        if summary.counts.lost > 0 { (summary.counts.lost as f64 / sent * 0.5).max(floor) } else { floor };
    let share = |n: u64| (n as f64 / sent).max(floor);
    let losses = match run.trace {
        Some(_) => fine_losses(run, reach, floor)?,
        None => curve.curve.iter().map(|p| (x(p.buffer_ms), share(p.total_loss))).collect(),
    };
    let worst = losses.iter().map(|l| l.1).fold(floor, f64::max);
    let shown = curve.curve.iter().filter(|p| x(p.buffer_ms) <= reach * 1.000_1);
    let quality: Vec<_> = shown.map(|p| (x(p.buffer_ms), p.mos)).collect();
    // Continue the line to the edge of the figure, which lies before the next size.
    let mut clipped = quality.clone();
    let beyond = curve.curve.iter().find(|p| x(p.buffer_ms) > reach * 1.000_1);
    if let Some((&(from, mos), next)) = quality.last().zip(beyond).filter(|((from, _), _)| *from < reach) {
        clipped.push((reach, mos + (next.mos - mos) * (reach - from) / (x(next.buffer_ms) - from)));
    }
    let mut series =
        vec![MarkSeries::new("lost or too late (left)", Tone::Harm, Mark::Step { points: losses })];
    series.push(
        MarkSeries::new(
            format!("estimated voice quality, {} (right)", curve.codec.split(' ').next().unwrap_or_default()),
            Tone::Data,
            Mark::Line { points: clipped, dashed: true },
        )
        .on_right(),
    );
    series.push(MarkSeries::new("", Tone::Data, Mark::Points { points: quality }).on_right());
    let best = curve.best_buffer_ms;
    if let Some(best) = best.filter(|b| x(*b) <= reach) {
        let label = format!("best quality: {}", value_label(AxisUnit::Time, x(best)));
        series.push(MarkSeries::new("", Tone::Bound, Mark::Rule { at: x(best), label }));
    }
    let mut notes = Vec::new();
    if let Some(b) = curve.buffer_for_1pct_late_ns {
        notes.push(format!(
            "A buffer of {} is too small for 1 % of packets.",
            value_label(AxisUnit::Time, b as f64)
        ));
    }
    if summary.counts.lost > 0 {
        notes.push(format!(
            "The network itself loses {}: no buffer reduces the loss below that.",
            value_label(AxisUnit::Share, summary.counts.lost as f64 / sent)
        ));
    } else if worst > floor {
        notes.push(format!(
            "The lower edge stands for no loss; one packet of this run is {}.",
            value_label(AxisUnit::Share, 1.0 / sent)
        ));
    }
    Some(Figure {
        id: "dejitter".into(),
        title: run.titled("De-jitter buffer: loss and voice quality by its size"),
        subtitle: format!(
            "n = {} packets sent · fixed buffer above the smallest delay",
            group_thousands(&summary.counts.sent.to_string())
        ),
        measured: String::new(),
        about:
            "A larger buffer saves late packets but adds delay. Take the smallest size after which the loss no \
             longer falls; at the peak of the voice quality, both are in balance."
                .into(),
        x: Axis::linear("buffer", AxisUnit::Time, 0.0, reach),
        y: Axis::log("packets lost or too late, log scale", AxisUnit::Share, foot, (worst * 1.3).min(1.0)),
        right: Some(Axis::linear("MOS (E-model)", AxisUnit::Plain, 1.0, 4.5)),
        series,
        overflow: None,
        notes,
    })
}

/// Returns the largest buffer size to draw, in ns: a little beyond the largest one that a decision depends on. `None`
/// without a curve.
fn reach(run: &DrawnRun<'_>, curve: &Dejitter) -> Option<f64> {
    let best = curve.best_buffer_ms.unwrap_or(0.0) * 1e6;
    let late = curve.buffer_for_1pct_late_ns.unwrap_or(0) as f64;
    let tail = run.summary.pdv.max.unwrap_or(0) as f64;
    let wanted = (best * 1.6).max(late * 2.0).max(tail * 1.1);
    // The first point of the curve at or beyond the requested buffer, so that the curve of voice quality reaches that
    // buffer.
    let mut points = curve.curve.iter().map(|p| p.buffer_ms * 1e6);
    let until = points.clone().find(|b| *b >= wanted).or_else(|| points.next_back())?;
    (until > 0.0).then_some(until.min(wanted * 1.5))
}

/// Returns pairs of buffer size, in ns, and share of packets lost or late, in the resolution of the trace; `None`
/// without a trace.
fn fine_losses(run: &DrawnRun<'_>, reach: f64, floor: f64) -> Option<Vec<(f64, f64)>> {
    const STEPS: f64 = 400.0;
    let (sent, lost) = (run.summary.counts.sent.max(1) as f64, run.summary.counts.lost);
    let min = run.summary.latency.min? as f64;
    let (origin, cell, counts) = run.trace?.delays.marginal();
    let mut late: u64 = counts.iter().sum();
    let share = |late: u64| ((lost + late) as f64 / sent).max(floor);
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (k, count) in counts.iter().enumerate() {
        late -= count;
        // Delays up to the end of this cell are counted: a buffer one nanosecond shorter than the start of the next
        // cell absorbs them.
        let buffer = origin + cell * (k + 1) as f64 - 1.0 - min;
        let far = points.last().is_none_or(|p| buffer - p.0 >= reach / STEPS);
        if *count > 0 && buffer >= 0.0 && far {
            points.push((buffer, share(late)));
        }
        if buffer > reach || late == 0 {
            break;
        }
    }
    if let (Some(last), 0) = (points.last_mut(), late) {
        last.1 = share(0);
    }
    let first = points.first().map(|p| p.0)?;
    if first > 0.0 {
        points.insert(0, (0.0, share(run.trace?.n())));
    }
    points.push((reach, points.last()?.1));
    Some(points)
}

/// Draws a cloud as single points if there are few, otherwise as a density. Returns the mark, and a text that
/// names its form.
pub(super) fn drawn(cloud: &Cloud, minus: f64) -> Option<(Mark, String)> {
    if let Some(points) = &cloud.points {
        let points = points.iter().map(|(x, y)| (*x as f64, *y as f64 - minus)).collect();
        return (cloud.grid.n() > 0).then_some((Mark::Points { points }, ", each a dot".into()));
    }
    let mut density = cloud.grid.density(COLUMNS, ROWS)?;
    density.y0 -= minus;
    let most = density.cells.iter().map(|c| c.1).max().unwrap_or(0);
    let how = format!(
        " drawn as density, {} × {} cells; darkest = {} packets",
        density.columns,
        density.rows,
        group_thousands(&most.to_string())
    );
    Some((Mark::Density(density), how))
}

/// Returns the first and last position of a cloud on the horizontal axis; `None` without points.
pub(super) fn extent(cloud: &Cloud) -> Option<(f64, f64)> {
    if let Some(points) = &cloud.points {
        let xs = points.iter().map(|p| p.0);
        return Some((xs.clone().min()? as f64, xs.max()? as f64));
    }
    let d = cloud.grid.density(usize::MAX, 1)?;
    Some((d.x0, d.x0 + d.dx * d.columns as f64))
}

/// Formats a slope in seconds per second, with the digits of the report (DRDC TM 2011-047), or with an exponent if these
/// would only show zeros.
fn slope(m: f64) -> String {
    let text = if m != 0.0 && m.abs() < 1e-6 { format!("{m:.1e}") } else { format!("{m:.6}") };
    text.replace('-', "−")
}

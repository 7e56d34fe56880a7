//! Figures of a running test, from packets that this host received, or from reports about packets that the far host
//! received.

use super::{Axis, AxisUnit, DrawnRun, Figure, Mark, MarkSeries, Tone, Trace, group_thousands};
use super::{histogram, lengths, series};
use jitlat_core::live::{FigureSource, Function, HistoryBucket, StreamState};
use jitlat_core::summary::Summary;

/// Number of columns into which the time is divided.
const COLUMNS: usize = 240;
/// Minimum width of a column, in ns.
const MIN_COLUMN_NS: i64 = 10_000_000;

/// A stream of a running test.
#[derive(Clone, Copy, Debug)]
pub struct LiveStream<'a> {
    /// Name of the stream.
    pub label: &'a str,
    /// State of the stream.
    pub state: &'a StreamState,
    /// Summary and packets of the stream so far; `None` if another host receives the packets, or if none has arrived
    /// yet.
    pub seen: Option<(&'a Summary, &'a Trace)>,
}

/// A kind of figure for running tests.
#[derive(Clone, Copy)]
pub struct LivePlot {
    /// Short name, for addresses.
    pub id: &'static str,
    /// Name in the list.
    pub name: &'static str,
    /// Text to show while the required data are missing.
    pub needs: &'static str,
    /// Draws the figures.
    pub draw: fn(&[LiveStream<'_>]) -> Vec<Figure>,
}

const PACKETS: &str = "This figure needs single packets, which are known for packets that arrive at this host. \
                       For packets that arrive at the far host, the final report has it.";

/// All kinds of figures, the most useful first.
pub const LIVE_PLOTS: [LivePlot; 8] = [
    LivePlot {
        id: "delay",
        name: "Delay over time",
        needs: "Nothing received yet.",
        draw: |streams| delay(streams).into_iter().collect(),
    },
    LivePlot {
        id: "distribution",
        name: "Distribution of the delay",
        needs: "Nothing received yet.",
        draw: |streams| distribution(streams).into_iter().collect(),
    },
    LivePlot {
        id: "losses",
        name: "Losses over time",
        needs: "No packet has been lost so far.",
        draw: |streams| losses(streams).into_iter().collect(),
    },
    LivePlot { id: "jitter", name: "Jitter", needs: PACKETS, draw: |s| each(s, histogram::jitter) },
    LivePlot {
        id: "variation",
        name: "Delay variation (IPDV)",
        needs: PACKETS,
        draw: |s| each(s, histogram::ipdv),
    },
    LivePlot {
        id: "packets",
        name: "Delay of every packet",
        needs: PACKETS,
        draw: |s| each(s, series::burstiness),
    },
    LivePlot { id: "runs", name: "Loss burst lengths", needs: PACKETS, draw: |s| each(s, lengths::losses) },
    LivePlot {
        id: "buffer",
        name: "Loss by play-out buffer",
        needs: PACKETS,
        draw: |s| each(s, series::dejitter),
    },
];

/// Draws one figure for each stream whose packets are known.
fn each(streams: &[LiveStream<'_>], draw: fn(&DrawnRun<'_>) -> Option<Figure>) -> Vec<Figure> {
    let of = |(k, stream): (usize, &LiveStream<'_>)| {
        let (summary, trace) = stream.seen?;
        let label = if streams.len() == 1 { "" } else { stream.label };
        let mut figure = draw(&DrawnRun { label, summary, trace: Some(trace), corrected: false })?;
        figure.id = format!("{}-{}", figure.id, k + 1);
        Some(figure)
    };
    streams.iter().enumerate().filter_map(of).collect()
}

/// Name of a stream in a legend, with its tone.
fn named(streams: &[LiveStream<'_>], k: usize) -> (String, Tone) {
    match streams {
        [_] => (String::new(), Tone::Data),
        _ => (streams[k].label.to_owned(), Tone::Run(k as u8)),
    }
}

/// Name of the delays of `streams`: round trip or one-way delay, and whether it is corrected for the clocks.
fn quantity(streams: &[LiveStream<'_>]) -> String {
    let state = || streams.iter().map(|s| s.state);
    let what = if state().all(StreamState::is_two_way) { "round trip" } else { "one-way delay" };
    let raw = state().any(|s| !s.is_two_way() && s.shift() == 0);
    if raw { format!("{what}, not corrected") } else { what.to_owned() }
}

/// Divides the time so far into columns. Returns their width in ns, and for each stream the contents of each column.
fn columns(streams: &[LiveStream<'_>]) -> Option<(i64, Vec<Vec<HistoryBucket>>)> {
    let end = streams.iter().map(|s| s.state.history.end()).max().filter(|end| *end > 0)?;
    let width = (end / COLUMNS as i64).max(MIN_COLUMN_NS);
    let n = usize::try_from(end / width).unwrap_or(COLUMNS).max(1);
    let span = [0, width.saturating_mul(n as i64)];
    Some((width, streams.iter().map(|s| s.state.history.columns(span, n)).collect()))
}

fn arrived(streams: &[LiveStream<'_>]) -> String {
    let n: u64 = streams.iter().filter_map(|s| s.state.figures()).map(|f| f.received).sum();
    let reported = streams.iter().any(|s| s.state.known() == FigureSource::Reported);
    let how = if reported { ", as reported by the far host once per second" } else { "" };
    format!("n = {} packets so far{how}", group_thousands(&n.to_string()))
}

fn figure(
    id: &str,
    title: &str,
    streams: &[LiveStream<'_>],
    x: Axis,
    y: Axis,
    series: Vec<MarkSeries>,
) -> Figure {
    Figure {
        id: id.into(),
        title: title.into(),
        subtitle: arrived(streams),
        measured: String::new(),
        about: String::new(),
        x,
        y,
        right: None,
        series,
        overflow: None,
        notes: Vec::new(),
    }
}

/// Draws mean and largest delay over time; `None` before the first packet.
fn delay(streams: &[LiveStream<'_>]) -> Option<Figure> {
    let (width, all) = columns(streams)?;
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut drawn = Vec::new();
    for (k, (stream, buckets)) in streams.iter().zip(&all).enumerate() {
        let shift = stream.state.shift() as f64;
        let filled = || buckets.iter().enumerate().filter(|(_, b)| b.received > 0);
        let at = |c: usize| (c as f64 + 0.5) * width as f64;
        let middle = filled().filter_map(|(c, b)| Some((at(c), b.middle()? - shift)));
        let middle: Vec<(f64, f64)> = middle.collect();
        if middle.is_empty() {
            continue;
        }
        let largest: Vec<(f64, f64)> = filled().map(|(c, b)| (at(c), b.high as f64 - shift)).collect();
        low = filled().map(|(_, b)| b.low as f64 - shift).fold(low, f64::min);
        high = largest.iter().map(|p| p.1).fold(high, f64::max);
        let (name, tone) = named(streams, k);
        let of = if name.is_empty() { String::new() } else { format!("{name}: ") };
        drawn.push(MarkSeries::new(format!("{of}mean"), tone, Mark::Line { points: middle, dashed: false }));
        drawn.push(MarkSeries::new(format!("{of}largest"), tone, Mark::Points { points: largest }));
        let stretches = stretches(buckets, width);
        if !stretches.is_empty() {
            let lost: u64 = buckets.iter().map(|b| u64::from(b.missing)).sum();
            let name = format!("{of}{} missing", group_thousands(&lost.to_string()));
            let tone = if streams.len() == 1 { Tone::Harm } else { tone };
            drawn.push(MarkSeries::new(name, tone, Mark::Rug { stretches }));
        }
    }
    if drawn.is_empty() {
        return None;
    }
    let margin = (high - low).max(1.0) * 0.04;
    let end = all.iter().map(Vec::len).max().unwrap_or(1) as f64 * width as f64;
    let x = Axis::linear("time since the first packet", AxisUnit::Elapsed, 0.0, end);
    let y = Axis::linear(quantity(streams), AxisUnit::Time, low - margin, high + margin);
    let mut figure = figure("live-delay", "Delay over time", streams, x, y, drawn);
    figure.about = "Marks along the lower edge are missing packets. A ramp is a queue that fills, a gap an \
                    outage, a step another route."
        .into();
    Some(figure)
}

/// Returns the intervals in which packets are missing: start and end in ns, and the share missing.
fn stretches(buckets: &[HistoryBucket], width: i64) -> Vec<(f64, f64, f64)> {
    let at = |c: usize| c as f64 * width as f64;
    let missing = buckets.iter().enumerate().filter(|(_, b)| b.missing > 0);
    let share =
        |b: &HistoryBucket| f64::from(b.missing) / f64::from(b.missing.saturating_add(b.received)).max(1.0);
    missing.map(|(c, b)| (at(c), at(c + 1), share(b))).collect()
}

/// Draws the cumulative distribution of delay; `None` before the first packet.
fn distribution(streams: &[LiveStream<'_>]) -> Option<Figure> {
    let functions: Vec<Function> = streams.iter().map(|s| s.state.cdf()).collect();
    let ends = functions.iter().filter_map(|f| {
        let last = f.iter().find(|(_, share)| *share >= 0.99).or(f.last())?;
        Some((f.first()?.0, last.0))
    });
    let (low, high) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    let margin = ((high - low) * 0.1).max(1.0);
    let end = high + margin;
    let beyond = functions.iter().any(|f| f.last().is_some_and(|last| last.0 > end));
    let mut drawn = Vec::new();
    for (k, function) in functions.iter().enumerate().filter(|(_, f)| !f.is_empty()) {
        let (name, tone) = named(streams, k);
        // The far host reports only a few points; draw straight lines between them.
        let mark = match function.len() < 16 && streams[k].state.known() == FigureSource::Reported {
            true => Mark::Line { points: function.clone(), dashed: false },
            false => Mark::Step { points: thinned(function) },
        };
        drawn.push(MarkSeries::new(name, tone, mark));
    }
    let x = Axis::linear(quantity(streams), AxisUnit::Time, low, end);
    let y = Axis::linear("cumulative share of packets", AxisUnit::Share, 0.0, 1.0);
    let mut figure = figure("live-distribution", "Distribution of the delay", streams, x, y, drawn);
    figure.about =
        "Cumulative distribution of delay. A steep line is an idle path, a long slope queueing, a step \
                    another path or state."
            .into();
    if beyond {
        figure.notes.push("The axis ends a little after the 99th percentile.".into());
    }
    Some(figure)
}

/// Reduces a function to at most a thousand points, including its ends.
fn thinned(function: &Function) -> Function {
    let every = (function.len() / 1000).max(1);
    let mut points: Function = function.iter().step_by(every).copied().collect();
    points.extend(function.last().filter(|last| points.last() != Some(last)).copied());
    points
}

/// Draws the share of missing packets over time; `None` if none is missing.
fn losses(streams: &[LiveStream<'_>]) -> Option<Figure> {
    let (width, all) = columns(streams)?;
    let share =
        |b: &HistoryBucket| f64::from(b.missing) / f64::from(b.missing.saturating_add(b.received)).max(1.0);
    let mut drawn = Vec::new();
    let mut most = 0.0f64;
    for (k, buckets) in all.iter().enumerate() {
        let lost: u64 = buckets.iter().map(|b| u64::from(b.missing)).sum();
        if lost == 0 {
            continue;
        }
        let points: Vec<(f64, f64)> =
            buckets.iter().enumerate().map(|(c, b)| (c as f64 * width as f64, share(b))).collect();
        most = points.iter().map(|p| p.1).fold(most, f64::max);
        let (name, tone) = named(streams, k);
        let of = if name.is_empty() { String::new() } else { format!("{name}: ") };
        let name = format!("{of}{} missing", group_thousands(&lost.to_string()));
        let tone = if streams.len() == 1 { Tone::Harm } else { tone };
        drawn.push(MarkSeries::new(name, tone, Mark::Step { points }));
    }
    if drawn.is_empty() {
        return None;
    }
    let end = all.iter().map(Vec::len).max().unwrap_or(1) as f64 * width as f64;
    let x = Axis::linear("time since the first packet", AxisUnit::Elapsed, 0.0, end);
    let y = Axis::linear("missing", AxisUnit::Share, 0.0, (most * 1.1).min(1.0));
    let mut figure = figure("live-losses", "Losses over time", streams, x, y, drawn);
    figure.about =
        "Share of the packets sent in each time slot that are missing; some may still arrive.".into();
    Some(figure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::live::{LiveState, summary};
    use jitlat_core::observer::Event;
    use jitlat_core::so_far::{Latest, ReceivedSoFar};
    use jitlat_core::{
        Direction, PacketRecord, Schedule, Session, Span, SteadyTime, TestSpec, Transport, WallTime,
    };

    const MS: i64 = 1_000_000;

    /// Both directions for two seconds: down with all packets except ten, up with the far host's reports.
    fn both() -> (LiveState, Trace) {
        let spec = |way| TestSpec::new(way, Transport::Udp, 200, 80, Span::millis(20), Schedule::Periodic);
        let sessions = [Direction::Up, Direction::Down].map(|way| Session::new(spec(way).unwrap()));
        let mut live = LiveState::new("oslo");
        live.event(&Event::Started(&sessions), SteadyTime(0));
        let mut trace = Trace::new(&sessions[1]);
        let records: Vec<PacketRecord> = (0..100i64)
            .filter(|k| !(40..50).contains(k))
            .map(|k| {
                let (sent, delay) = (k * 20 * MS, 5 * MS + k % 7 * MS);
                trace.accept(k as u32, sent, delay);
                PacketRecord::one_way(k, WallTime(sent), WallTime(sent + delay))
            })
            .collect();
        live.event(&Event::Arrived { stream: 1, records: &records }, SteadyTime(2_000 * MS));
        let delays = [5, 5, 6, 7, 8, 9, 12, 30].map(|ms| ms * MS);
        let latest = Latest { received: 45, delays: Some([5 * MS, 7 * MS, 12 * MS, 30 * MS]) };
        let so_far = ReceivedSoFar {
            received: 45,
            missing: 5,
            delays: Some(delays),
            latest,
            ..ReceivedSoFar::default()
        };
        live.event(&Event::FarReceived { stream: 0, so_far: &so_far }, SteadyTime(1_000 * MS));
        (live, trace)
    }

    #[test]
    fn every_plot_shows_what_is_known_of_each_direction() {
        let (live, trace) = both();
        let summary = summary(live.streams[1].analysis().unwrap());
        let streams = [
            LiveStream { label: "up", state: &live.streams[0], seen: None },
            LiveStream { label: "down", state: &live.streams[1], seen: Some((&summary, &trace)) },
        ];
        let drawn = |id: &str| (LIVE_PLOTS.iter().find(|p| p.id == id).unwrap().draw)(&streams);
        let names = |figure: &Figure| figure.legend().map(|s| s.name.clone()).collect::<Vec<_>>().join(", ");
        let delay = drawn("delay").remove(0);
        assert_eq!(
            names(&delay),
            "up: mean, up: largest, up: 5 missing, down: mean, down: largest, down: \
             10 missing"
        );
        assert!(
            delay.subtitle.starts_with("n = 135 packets so far, as reported by the far host"),
            "{}",
            delay.subtitle
        );
        assert_eq!(names(&drawn("losses")[0]), "up: 5 missing, down: 10 missing");
        assert_eq!(names(&drawn("distribution")[0]), "up, down");
        // Single packets are only known for the direction that arrived here.
        for id in ["jitter", "variation", "packets", "runs", "buffer"] {
            let figures = drawn(id);
            assert!(figures.len() == 1 && figures[0].id.ends_with("-2"), "{id}");
            assert!(crate::draw::inline_svg(&figures[0]).starts_with("<svg"));
        }
        assert!(LIVE_PLOTS.iter().all(|p| (p.draw)(&[]).is_empty() && (p.draw)(&streams[..1]).len() < 2));
    }
}

//! Passive round trips: over time with their bands, as histogram and cumulative distributions (per pair, per unit of
//! time, compared with ping), the rate of pairs, and the delay variation of both ways.

use super::histogram::rebinned;
use super::series::{drawn, extent};
use super::stretches::{Most, Stretches, Sum};
use super::trace::Cloud;
use super::{Axis, Figure, Grid, Mark, Series, Tone, Unit, group_thousands, value_label};
use jitlat_core::observer::{Event, Observer};
use jitlat_core::passive::{Level, Resampler, Way};
use jitlat_core::time::Span;

/// Cells of a distribution.
const TALLY: usize = 1 << 16;
/// Bars of the histogram: narrow, so that bands are visible.
const BARS: usize = 240;
/// Stretches in the moving average of the pair rate.
const AVERAGED: usize = 10;
/// Bands drawn as lines.
const LINES: usize = 40;
/// Expected length of the capture, in ns.
const EXPECTED: i64 = 600_000_000_000;

/// What the figures need of the pairs, of ping and of single packets, in constant size.
#[derive(Clone, Debug)]
pub struct PassiveTrace {
    origin: Option<i64>,
    rtt: Cloud,
    pairs: Grid,
    resampler: Resampler,
    instants: Grid,
    pings: Cloud,
    ping: Grid,
    rate: Stretches<Sum>,
    variation: [Stretches<Most>; 2],
    least: [Option<i64>; 2],
}

impl PassiveTrace {
    /// A trace that also samples round trips every `every`.
    pub fn new(every: Span) -> PassiveTrace {
        let tally = || Grid::new(2, TALLY, 1);
        PassiveTrace {
            origin: None,
            rtt: Cloud::new(EXPECTED),
            pairs: tally(),
            resampler: Resampler::new(every),
            instants: tally(),
            pings: Cloud::new(EXPECTED),
            ping: tally(),
            rate: Stretches::new(every.0.max(1_000_000)),
            variation: [(); 2].map(|()| Stretches::new(10_000_000)),
            least: [None; 2],
        }
    }

    fn x(&mut self, at: i64) -> i64 {
        at.saturating_sub(*self.origin.get_or_insert(at))
    }

    /// Adds a pair: its time on the reference clock and its round trip, in ns.
    pub fn pair(&mut self, at: i64, rtt: i64) {
        let x = self.x(at);
        self.rtt.add(x, rtt);
        self.pairs.add(0, rtt);
        if let Some((_, v)) = self.resampler.push(at, rtt) {
            self.instants.add(0, v);
        }
        self.rate.add(x, 1);
    }

    /// Adds a round trip of ping: its time and its value, in ns.
    pub fn ping(&mut self, at: i64, rtt: i64) {
        let x = self.x(at);
        self.pings.add(x, rtt);
        self.ping.add(0, rtt);
    }

    /// Adds a packet that arrived: its time at the reference point and its raw delay, in ns.
    #[inline]
    pub fn packet(&mut self, way: Way, at: i64, delay: i64) {
        let x = self.x(at);
        let least = self.least[way as usize].get_or_insert(delay);
        *least = (*least).min(delay);
        self.variation[way as usize].add(x, delay);
    }
}

/// Receives pairs and matched packets.
impl Observer for PassiveTrace {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Pairs(pairs) => pairs.iter().for_each(|e| self.pair(e.pair.middle().0, e.pair.rtt().0)),
            Event::Matched(list) => {
                list.iter().for_each(|r| self.packet(r.way, r.reference.0, r.delay().0));
            }
            _ => {}
        }
    }
}

fn n(count: u64) -> String {
    group_thousands(&count.to_string())
}

fn time(ns: f64) -> String {
    value_label(Unit::Time, ns)
}

/// A quantile of a distribution in cells, interpolated between their lower edges.
fn quantile(grid: &Grid, share: f64) -> f64 {
    let (start, width, counts) = grid.marginal();
    let rank = share * grid.n() as f64;
    let mut seen = 0.0;
    for (k, c) in counts.iter().enumerate() {
        seen += *c as f64;
        if seen >= rank {
            return start + width * k as f64;
        }
    }
    start + width * counts.len() as f64
}

fn least(grid: &Grid) -> f64 {
    quantile(grid, 0.0f64.max(0.5 / grid.n().max(1) as f64))
}

/// All figures of a passive measurement; `levels` are the bands found in its round trips.
pub fn of_passive(trace: &PassiveTrace, levels: &[Level]) -> Vec<Figure> {
    if trace.pairs.n() == 0 {
        return variation(trace).into_iter().collect();
    }
    [
        round_trips(trace, levels),
        pings(trace),
        histogram(trace, levels),
        cdf(trace),
        rate(trace),
        variation(trace),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn blank(id: &str, title: &str, x: Axis, y: Axis) -> Figure {
    Figure {
        id: id.into(),
        title: title.into(),
        subtitle: String::new(),
        about: String::new(),
        x,
        y,
        right: None,
        series: Vec::new(),
        overflow: None,
        notes: Vec::new(),
    }
}

fn margins(low: f64, high: f64) -> (f64, f64) {
    let m = (high - low).max(1.0) * 0.04;
    (low - m, high + m)
}

/// The range of times of both clouds.
fn times(trace: &PassiveTrace) -> Option<(f64, f64)> {
    let (a, b) = extent(&trace.rtt)?;
    Some(extent(&trace.pings).map_or((a, b), |(c, d)| (a.min(c), b.max(d))))
}

fn round_trips(trace: &PassiveTrace, levels: &[Level]) -> Option<Figure> {
    let (mark, how) = drawn(&trace.rtt, 0.0)?;
    let (from, to) = times(trace)?;
    let (low, high) = (least(&trace.pairs), quantile(&trace.pairs, 1.0));
    let (lo, hi) = margins(low, high);
    let mut f = blank(
        "rtt",
        "Round trip against time",
        Axis::linear("time since the first pair", Unit::Elapsed, from, to),
        Axis::linear("round-trip time", Unit::Time, lo, hi),
    );
    f.subtitle = format!("n = {} synthetic pairs{}", n(trace.pairs.n()), how.replace("packets", "pairs"));
    f.about = "The round trip the application's own packets had. Horizontal bands are packets queued before a slow \
               link, one packet apart; a sawtooth is TCP filling that queue; gaps are times when the application was \
               silent."
        .into();
    if let Some(level) = levels.iter().find(|l| !l.of_differences) {
        let q = level.spacing_ns;
        let first = band_phase(trace, q, low);
        let lines = ((high - first) / q + 0.25).floor().max(0.0) as usize + 1;
        if lines <= LINES {
            for k in 0..lines {
                let y = first + q * k as f64;
                let name = if k == 0 { format!("bands, {} apart", time(q)) } else { String::new() };
                f.series.push(Series::new(
                    name,
                    Tone::Bound,
                    Mark::Line { points: vec![(from, y), (to, y)], dashed: true },
                ));
            }
        }
    }
    f.notes.extend(levels.iter().map(band_note));
    f.series.push(Series::new("pairs", Tone::Data, mark));
    Some(f)
}

fn band_note(l: &Level) -> String {
    let what =
        if l.of_differences { "Neighbouring round trips mostly differ by" } else { "The bands are apart by" };
    let fine =
        l.steps_per_coarser.map_or(String::new(), |k| format!(", {k} of which make one of the coarser"));
    let why = if l.explained.is_empty() { String::new() } else { format!(": {}", l.explained.join("; ")) };
    format!("{what} {}{fine}{why}.", time(l.spacing_ns))
}

/// The lowest band at or above `low`: the phase that most values have.
fn band_phase(trace: &PassiveTrace, q: f64, low: f64) -> f64 {
    let (start, width, counts) = trace.pairs.marginal();
    let (mut c, mut s) = (0.0, 0.0);
    for (k, n) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
        let (sin, cos) = (std::f64::consts::TAU * (start + width * (k as f64 + 0.5)) / q).sin_cos();
        c += *n as f64 * cos;
        s += *n as f64 * sin;
    }
    let phase = s.atan2(c) / std::f64::consts::TAU * q;
    phase + ((low - 0.25 * q - phase) / q).ceil() * q
}

fn pings(trace: &PassiveTrace) -> Option<Figure> {
    let (spp, how) = drawn(&trace.rtt, 0.0)?;
    let (ping, _) = drawn(&trace.pings, 0.0)?;
    let (from, to) = times(trace)?;
    let low = least(&trace.pairs).min(least(&trace.ping));
    let high = quantile(&trace.pairs, 1.0).max(quantile(&trace.ping, 1.0));
    let (lo, hi) = margins(low, high);
    let mut f = blank(
        "rtt-ping",
        "Round trip against time, beside ping",
        Axis::linear("time since the first packet", Unit::Elapsed, from, to),
        Axis::linear("round-trip time", Unit::Time, lo, hi),
    );
    f.subtitle = format!(
        "{} pairs{}, {} pings",
        n(trace.pairs.n()),
        how.replace("packets", "pairs"),
        n(trace.ping.n())
    );
    f.about = "What the application had and what ping would have said of it. They part where the network treats the two \
               differently, or where ping's own packets meet another queue."
        .into();
    f.series.push(Series::new("pairs", Tone::Data, spp));
    f.series.push(Series::new("ping", Tone::Run(1), ping));
    Some(f)
}

fn histogram(trace: &PassiveTrace, levels: &[Level]) -> Option<Figure> {
    let (low, high) = (least(&trace.pairs), quantile(&trace.pairs, 0.995));
    let bars = rebinned(&trace.pairs, low, high, BARS);
    let most = bars.heights.iter().copied().fold(0.0, f64::max);
    let mut f = blank(
        "rtt-histogram",
        "Round trips, histogram",
        Axis::linear("round-trip time", Unit::Time, bars.start, bars.end()),
        Axis::linear("pairs", Unit::Count, 0.0, (most * 1.06).max(1.0)),
    );
    let inside: f64 = bars.heights.iter().sum();
    let beyond = trace.pairs.n().saturating_sub(inside as u64);
    f.subtitle = format!("n = {} pairs · {} per bar", n(trace.pairs.n()), time(bars.width));
    f.about =
        "Peaks at equal distances are whole packets, or ATM cells, waited for; one peak is a path that \
               queues nothing."
            .into();
    if beyond > 0 {
        let most = time(quantile(&trace.pairs, 1.0));
        f.notes.push(format!("The axis ends at 99.5 %; {} pairs lie beyond, up to {most}.", n(beyond)));
    }
    f.notes.extend(levels.iter().map(band_note));
    let mark = Mark::Bars { start: bars.start, width: bars.width, heights: bars.heights };
    f.series.push(Series::new("pairs per bar", Tone::Data, mark));
    Some(f)
}

fn steps(grid: &Grid) -> Vec<(f64, f64)> {
    let (start, width, counts) = grid.marginal();
    let total = grid.n().max(1) as f64;
    let merge = counts.len().div_ceil(2000).max(1);
    let mut sum = 0u64;
    let mut points = Vec::new();
    for (k, chunk) in counts.chunks(merge).enumerate() {
        let here: u64 = chunk.iter().sum();
        if here > 0 {
            sum += here;
            points.push((start + width * (k * merge) as f64, sum as f64 / total));
        }
    }
    points
}

fn cdf(trace: &PassiveTrace) -> Option<Figure> {
    let mut instants = trace.instants.clone();
    if let Some((_, v)) = trace.resampler.last() {
        instants.add(0, v);
    }
    let runs = [("per pair", &trace.pairs), ("per unit of time", &instants), ("ping", &trace.ping)];
    let shown: Vec<_> = runs.into_iter().zip(0u8..).filter(|((_, g), _)| g.n() > 0).collect();
    let low = shown.iter().map(|((_, g), _)| least(g)).fold(f64::INFINITY, f64::min);
    let p99 = |g: &Grid| quantile(g, 0.99);
    let high = shown.iter().map(|((_, g), _)| p99(g)).fold(f64::NEG_INFINITY, f64::max);
    let nearest = shown.iter().map(|((_, g), _)| p99(g)).fold(f64::INFINITY, f64::min);
    // Ping in another class of service may take a hundred times as long.
    let ratio = low > 0.0 && high / nearest > 25.0;
    let x = match ratio {
        true => Axis::log("round-trip time, log scale", Unit::Time, low * 0.9, high * 1.1),
        false => Axis::linear("round-trip time", Unit::Time, low, high + (high - low) * 0.02),
    };
    let mut f = blank(
        "rtt-cdf",
        "Round trips, cumulative distributions",
        x,
        Axis::linear("no slower", Unit::Share, 0.0, 1.0),
    );
    f.subtitle = shown
        .iter()
        .map(|((name, g), _)| format!("{name}: n = {}", n(g.n())))
        .collect::<Vec<_>>()
        .join(" · ");
    f.about = "Per pair is what the application's packets had, so busy times count more; per unit of time is what a \
               regular probe would have met, and the one to compare with ping."
        .into();
    f.notes.push("The axis ends at the largest 99th percentile.".into());
    f.series = shown
        .into_iter()
        .map(|((name, g), k)| {
            let mut points = vec![(least(g), 0.0)];
            points.extend(steps(g));
            Series::new(name, Tone::Run(k), Mark::Step { points })
        })
        .collect();
    Some(f)
}

fn rate(trace: &PassiveTrace) -> Option<Figure> {
    let width = trace.rate.width() as f64;
    let per_second = 1e9 / width;
    let mut points: Vec<_> = trace.rate.all().map(|(x, c)| (x, c.unwrap_or(0) as f64 * per_second)).collect();
    if points.len() < 3 {
        return None;
    }
    // The last stretch is incomplete, and would look like a drop.
    points.pop();
    let end = points.last()?.0 + width;
    let mut sum = 0.0;
    let average: Vec<_> = points
        .iter()
        .enumerate()
        .map(|(i, (x, r))| {
            sum += r;
            if i >= AVERAGED {
                sum -= points[i - AVERAGED].1;
            }
            (x + width, sum / (i + 1).min(AVERAGED) as f64)
        })
        .collect();
    points.push((end, points.last()?.1));
    let most = points.iter().map(|p| p.1).fold(0.0, f64::max);
    let mut f = blank(
        "pair-rate",
        "Pair rate",
        Axis::linear("time since the first pair", Unit::Elapsed, 0.0, end),
        Axis::linear("pairs a second", Unit::Plain, 0.0, (most * 1.06).max(1.0)),
    );
    f.subtitle =
        format!("counted every {}; moving average of {}", time(width), time(width * AVERAGED as f64));
    f.about = "How often the two ways alternate: a proxy for the rate of the application's packets. High round trips at a \
               high rate are the application's own queue; at a low rate, that of other traffic."
        .into();
    f.series.push(Series::new("pairs a second", Tone::Data, Mark::Step { points }));
    f.series.push(Series::new("moving average", Tone::Fit, Mark::Line { points: average, dashed: true }));
    Some(f)
}

fn variation(trace: &PassiveTrace) -> Option<Figure> {
    let mut series = Vec::new();
    let (mut end, mut most) = (0.0f64, 0.0f64);
    for (way, name) in [(Way::Out, "OUT"), (Way::In, "IN")] {
        let (stretches, Some(least)) = (&trace.variation[way as usize], trace.least[way as usize]) else {
            continue;
        };
        let points: Vec<(f64, f64)> =
            stretches.values().into_iter().map(|(x, v)| (x, v.saturating_sub(least) as f64)).collect();
        for p in &points {
            (end, most) = (end.max(p.0), most.max(p.1));
        }
        series.push(Series::new(name, Tone::Run(way as u8), Mark::Line { points, dashed: false }));
    }
    if series.is_empty() || end <= 0.0 {
        return None;
    }
    let width = trace.variation.iter().map(Stretches::width).max().unwrap_or(1) as f64;
    let mut f = blank(
        "variation",
        "One-way delay variation, both ways",
        Axis::linear("time since the first packet", Unit::Elapsed, 0.0, end),
        Axis::linear("delay above the least", Unit::Time, 0.0, (most * 1.06).max(1000.0)),
    );
    f.subtitle = format!("all matched packets, not only pairs; the largest of every {}", time(width));
    f.about = "Which way the delay comes from: the way whose line rises is the one with the queue. Free of the offset \
               between the clocks; a steady slope both ways, up in one and down in the other, is their skew."
        .into();
    f.series = series;
    Some(f)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace() -> PassiveTrace {
        let mut t = PassiveTrace::new(Span::seconds(1));
        for i in 0..600i64 {
            let at = 1_700_000_000_000_000_000 + i * 100_000_000;
            t.pair(at, 79_000_000 + i % 4 * 26_500_000);
            t.packet(Way::Out, at, 5_000_000 + i % 4 * 26_500_000);
            t.packet(Way::In, at, -3_000_000);
        }
        t
    }

    fn ids(t: &PassiveTrace) -> Vec<String> {
        of_passive(t, &[]).into_iter().map(|f| f.id).collect()
    }

    #[test]
    fn every_figure_is_there_and_ping_only_with_pings() {
        let mut t = trace();
        assert_eq!(ids(&t), ["rtt", "rtt-histogram", "rtt-cdf", "pair-rate", "variation"]);
        t.ping(1_700_000_001_000_000_000, 8_000_000_000);
        assert_eq!(ids(&t)[1], "rtt-ping");
        assert!(ids(&PassiveTrace::new(Span::seconds(1))).is_empty());
    }

    #[test]
    fn bands_lie_on_the_values() {
        let t = trace();
        let level = Level {
            spacing_ns: 26.5e6,
            strength: 1.0,
            p: Some(0.0),
            of_differences: false,
            steps_per_coarser: None,
            explained: Vec::new(),
        };
        let f = &of_passive(&t, &[level])[0];
        let lines: Vec<f64> = f
            .series
            .iter()
            .filter_map(|s| match &s.mark {
                Mark::Line { points, .. } => Some(points[0].1),
                _ => None,
            })
            .collect();
        let expected = [79.0e6, 105.5e6, 132.0e6, 158.5e6];
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.2e6), "{lines:?}");
    }

    #[test]
    fn a_year_of_pairs_stays_bounded_and_none_is_lost() {
        let mut t = PassiveTrace::new(Span::seconds(1));
        for i in 0..10_000i64 {
            t.pair(i * 3_600_000_000_000, 1_000_000);
        }
        assert_eq!(t.rate.values().iter().map(|v| v.1).sum::<i64>(), 10_000);
        t.pair(i64::MAX, 1);
        t.packet(Way::Out, i64::MIN, i64::MAX);
    }
}

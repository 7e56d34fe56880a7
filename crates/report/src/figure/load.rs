//! Delay idle and under load over time, next to the throughput of the load.

use super::series::{drawn, extent};
use super::{Axis, AxisUnit, Figure, Mark, MarkSeries, Tone, Trace, group_thousands};
use jitlat_core::load::TestLoad;
use jitlat_core::spec::Direction;
use jitlat_core::summary::Summary;

/// One phase of a test, as drawn.
#[derive(Clone, Copy, Debug)]
pub struct PhaseDrawing<'a> {
    /// Summary of the phase.
    pub summary: &'a Summary,
    /// Packets of the phase.
    pub trace: &'a Trace,
    /// Value subtracted from each raw delay, in ns.
    pub base: i64,
}

/// Throughput is drawn in Mbit/s.
const MEGABIT: f64 = 1e6;

/// Draws the delays of both phases and the throughput of `load` on one time axis. `None` if nothing arrived in a phase.
pub fn under_load(phases: [PhaseDrawing<'_>; 2], load: &TestLoad) -> Option<Figure> {
    let [idle, _] = phases;
    let known = idle.summary.is_round_trip() || idle.summary.correction().is_some();
    // Without an estimate of the offset both phases are shown above the smallest idle delay: the clocks are the same.
    let above = if known { 0 } else { idle.summary.latency.min?.saturating_sub(idle.base) };
    let origin = idle.began()?;
    let mut series = Vec::new();
    let (mut to, mut low, mut high) = (0.0f64, f64::INFINITY, f64::NEG_INFINITY);
    let mut n = 0;
    let mut idle_end = 0.0f64;
    // The load begins before the packets of its phase, so that it has filled the path.
    let starts = load.throughput.iter().map(|throughput| throughput.start.0);
    let load_from = starts.chain(phases[1].began()).min()?.saturating_sub(origin) as f64;
    for (k, (phase, name)) in phases.iter().zip(["idle", "under load"]).enumerate() {
        let minus = phase.base.saturating_add(above) as f64;
        let start = phase.began()?.saturating_sub(origin) as f64;
        let (mark, _) = drawn(&phase.trace.delay, minus)?;
        series.push(MarkSeries::new(name, Tone::Run(k as u8), mark.later(start)));
        let (_, end) = extent(&phase.trace.delay)?;
        if k == 0 {
            idle_end = end + start;
        }
        to = to.max(end + start);
        low = low.min(phase.summary.latency.min? as f64 - minus);
        high = high.max(phase.summary.latency.max? as f64 - minus);
        n += phase.trace.n();
    }
    let losses = phases[1].trace.losses(phases[1].summary.counts.sent);
    if !losses.is_empty() {
        let start = phases[1].began()?.saturating_sub(origin) as f64;
        let stretches = losses.into_iter().map(|(a, b, share)| (a + start, b + start, share)).collect();
        let name = format!("{} lost under load", group_thousands(&phases[1].summary.counts.lost.to_string()));
        series.push(MarkSeries::new(name, Tone::Harm, Mark::Rug { stretches }));
    }
    let mut fastest = 0.0f64;
    for (k, throughput) in load.throughput.iter().enumerate() {
        let at = |k: usize| {
            (throughput.start.0.saturating_sub(origin)) as f64 + k as f64 * throughput.interval.0 as f64
        };
        let mut points = vec![(at(0), 0.0)];
        points.extend(throughput.bps.iter().enumerate().map(|(k, bps)| (at(k), bps / MEGABIT)));
        points.push((at(throughput.bps.len()), throughput.bps.last().copied()? / MEGABIT));
        fastest = points.iter().map(|point| point.1).fold(fastest, f64::max);
        let name = match throughput.direction {
            Direction::Up => "load up (right)",
            Direction::Down => "load down (right)",
        };
        series.push(MarkSeries::new(name, Tone::Run(2 + k as u8), Mark::Step { points }).on_right());
    }
    for (k, band) in bands(load, [idle_end, load_from, to]).into_iter().enumerate() {
        series.insert(k, MarkSeries::new("", Tone::Run(k as u8), band));
    }
    let margin = (high - low).max(1.0) * 0.04;
    let quantity = match (idle.summary.is_round_trip(), known) {
        (true, _) => "round trip",
        (false, true) => "one-way delay",
        (false, false) => "one-way delay above the smallest idle one",
    };
    let direction = match idle.summary.direction().filter(|_| !idle.summary.is_round_trip()) {
        None => "",
        Some(Direction::Up) => " up",
        Some(Direction::Down) => " down",
    };
    let right =
        (fastest > 0.0).then(|| Axis::linear("load received, Mbit/s", AxisUnit::Plain, 0.0, fastest * 1.06));
    Some(Figure {
        id: format!("under-load{}", direction.replace(' ', "-")),
        title: format!("Delay{direction} and throughput, idle and under load"),
        subtitle: format!("n = {} packets that arrived", group_thousands(&n.to_string())),
        measured: String::new(),
        about: "The step from idle to loaded delay is what the load adds: a queue. If the throughput is flat and the delay \
                high, the path is full and its buffer large; if the throughput falls now and then, the load does not fill it."
            .into(),
        x: Axis::linear("time since the first idle packet", AxisUnit::Elapsed, 0.0, to),
        y: Axis::linear(quantity, AxisUnit::Time, low - margin, high + margin),
        right,
        series,
        overflow: None,
        notes: Vec::new(),
    })
}

/// Returns the bands of the idle phase, which ends at `idle_end`, and of the load, from `load_from` to `end`. The label of the
/// load names its directions.
fn bands(load: &TestLoad, [idle_end, load_from, end]: [f64; 3]) -> [Mark; 2] {
    let has = |direction| load.streams.iter().any(|stream| stream.direction == direction);
    let name = match (has(Direction::Up), has(Direction::Down)) {
        (true, true) => "load up and down",
        (true, false) => "load up",
        (false, true) => "load down",
        (false, false) => "load",
    };
    let band =
        |from: f64, to: f64, label: &str| Mark::Band { from, to: to.max(from), label: label.to_owned() };
    [band(0.0, idle_end, "idle"), band(load_from, end, name)]
}

impl PhaseDrawing<'_> {
    /// Returns the arrival time of the first packet, on the clock of the client.
    fn began(&self) -> Option<i64> {
        let correction = match self.summary.direction() {
            Some(Direction::Up) if !self.summary.is_round_trip() => self.base,
            _ => 0,
        };
        Some(self.trace.start()?.saturating_sub(correction))
    }
}

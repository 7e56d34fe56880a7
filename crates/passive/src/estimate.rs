//! [`PairEstimator`]: results of the matched packets of two captures, updated as they arrive, in bounded
//! memory.

use super::capture_point::CapturePoint;
use super::clocks::{ClockComparison, ClockDifference};
use super::levels::{BandSpacing, QueueLength, ThinnedTimes, explain_levels};
use super::matcher::{MatchCounts, MatchObserver};
use super::pairing::{Pairer, Record, SyntheticPair};
use super::part::CapturePart;
use super::serialisation::{Lengths, Serialisation};
use super::sizes::SizeFigures;
use super::spread::{SpanSpread, SpreadFigures};
use jitlat_core::link::AccessLink;
use jitlat_core::time::{SECOND, Span, WallTime};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// A pair, with the rate of pairs at its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatedPair {
    /// The pair.
    pub pair: SyntheticPair,
    /// Pairs per second over the interval that ends with this pair.
    pub rate: f64,
}

/// Results for one direction, from all matched packets and not only from paired ones. Values are `None` without
/// packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatchedFigures {
    /// Counts of the packets.
    #[serde(flatten)]
    pub counts: MatchCounts,
    /// Number of lost packets divided by the number that should have arrived; `None` if the bounds differ by more than
    /// one percent of the packets.
    pub loss_ratio: Option<f64>,
    /// Smallest and largest loss ratio that are possible if packets are counted whose fate is unknown, because their
    /// identity is not unique or memory was short. `None` if the fate of all packets is known.
    pub loss_bounds: Option<[f64; 2]>,
    /// Raw one-way delay, including the clock offset.
    pub delay_raw_ns: Option<SpreadFigures>,
    /// One-way delay above its minimum, that is, queueing. Independent of the clock offset.
    pub delay_variation_ns: Option<SpreadFigures>,
    /// Absolute difference of consecutive packets' delays (RFC 3393). Independent of the clock offset.
    pub ipdv_ns: Option<SpreadFigures>,
    /// Mean length of the matched IP packets, in bytes.
    pub mean_length: Option<f64>,
    /// Serialisation time per byte in this direction, from the smallest delay of each packet length.
    pub serialisation: Option<Serialisation>,
}

/// Results for the path between two capture points. Values are `None` without pairs or packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PassiveSummary {
    /// Number of synthetic pairs.
    pub pairs: u64,
    /// Time of the first pair on the reference clock, in ns.
    pub first_pair: Option<WallTime>,
    /// Time of the last pair on the reference clock, in ns.
    pub last_pair: Option<WallTime>,
    /// Number of pairs per second between the first and the last pair.
    pub pair_rate: Option<f64>,
    /// Number of pairs divided by the number of matched packets in both directions. One half if the
    /// directions alternate strictly, less if several packets in a row go in one direction. `None` without
    /// packets.
    pub pairs_per_packet: Option<f64>,
    /// Round-trip time of every pair, as experienced by the application's packets.
    pub rtt_ns: Option<SpreadFigures>,
    /// Round-trip time at regular instants, comparable with ping. Idle times have no value.
    pub rtt_per_time_ns: Option<SpreadFigures>,
    /// Time between the instants of `rtt_per_time_ns`, in ns.
    pub per_time_interval_ns: Span,
    /// Time between the two packets of a pair at the monitor: the far host's processing time if one packet
    /// answers the other.
    pub turnaround_ns: Option<SpreadFigures>,
    /// Spacings of the bands in which round trips lie, largest first.
    pub levels: Vec<BandSpacing>,
    /// Length of the queue that explains the bands; `None` if no link is given, or its queue does not explain them.
    pub queue: Option<QueueLength>,
    /// Comparison of the two clocks.
    pub clocks: ClockDifference,
    /// Results for packets from the reference to the monitor point.
    pub out: MatchedFigures,
    /// Results for packets from the monitor to the reference point.
    #[serde(rename = "in")]
    pub back: MatchedFigures,
}

/// Largest difference of the loss bounds at which losses count as known.
const MAX_LOSS_UNCERTAINTY: f64 = 0.01;

impl MatchedFigures {
    /// True if the fate of so many packets is unknown that the loss is unknown.
    pub fn is_loss_unknown(&self) -> bool {
        is_too_wide(self.loss_bounds)
    }

    /// Number of packets seen at the source point whose fate is unknown, because their identity is not unique or memory
    /// was short. `source` is the point that packets of this direction pass first.
    pub fn undecided(&self, source: CapturePoint) -> u64 {
        undecided(&self.counts, source)
    }
}

fn undecided(c: &MatchCounts, source: CapturePoint) -> u64 {
    let seen = match source {
        CapturePoint::Reference => c.seen_at_reference,
        CapturePoint::Monitor => c.seen_at_monitor,
    };
    let decided = c.matched.saturating_add(c.lost).saturating_add(c.outside);
    seen.saturating_sub(decided).min(c.ambiguous.saturating_add(c.given_up))
}

fn is_too_wide(bounds: Option<[f64; 2]>) -> bool {
    bounds.is_some_and(|[low, high]| high - low > MAX_LOSS_UNCERTAINTY)
}

/// Returns [`MatchedFigures::loss_bounds`].
fn loss_bounds(c: &MatchCounts, source: CapturePoint) -> Option<[f64; 2]> {
    let undecided = undecided(c, source);
    let all = c.matched.saturating_add(c.lost).saturating_add(undecided);
    let share = |lost: u64| lost as f64 / all as f64;
    (undecided > 0).then(|| [share(c.lost), share(c.lost.saturating_add(undecided))])
}

impl PassiveSummary {
    /// Explains the bands by `link`. `sizes` are the round trips by packet size.
    pub fn explain(&mut self, link: &AccessLink, sizes: &[SizeFigures]) {
        let packet = explain_levels(&mut self.levels, link, sizes);
        self.queue = packet.and_then(|packet| QueueLength::of(packet, sizes));
    }
}

/// Maximum number of size combinations.
const MAX_SIZE_PAIRS: usize = 4096;

#[derive(Debug, Default)]
struct DirectionDelays {
    delay: SpanSpread,
    ipdv: SpanSpread,
    last: Option<i64>,
    bytes: u128,
    lengths: Lengths,
}

/// Selects, for each multiple of an interval, the nearest value, as an estimate of what a regular probe would have
/// measured. Idle times have no value.
#[derive(Clone, Debug)]
pub struct Resampler {
    interval: i64,
    /// Current instant, and the value nearest to it so far with its distance: instant, distance, value.
    nearest: Option<(i64, i64, i64)>,
}

impl Resampler {
    /// Creates a resampler for instants that are `interval` apart.
    pub fn new(interval: Span) -> Resampler {
        Resampler { interval: interval.0.max(1), nearest: None }
    }

    /// Adds a value at time `at`; returns the previous instant and its value if a new instant begins.
    pub fn push(&mut self, at: i64, value: i64) -> Option<(i64, i64)> {
        let tick =
            at.saturating_add(self.interval / 2).div_euclid(self.interval).saturating_mul(self.interval);
        let distance = at.saturating_sub(tick).saturating_abs();
        match &mut self.nearest {
            Some((t, d, v)) if *t == tick => {
                if distance < *d {
                    (*d, *v) = (distance, value);
                }
                None
            }
            // Pairs are slightly out of order: a late value does not reopen an instant that has ended.
            Some((t, ..)) if tick < *t && t.saturating_sub(tick) <= self.interval.saturating_mul(2) => None,
            other => other.replace((tick, distance, value)).map(|(t, _, v)| (t, v)),
        }
    }

    /// Returns the current instant and its value so far.
    pub fn last(&self) -> Option<(i64, i64)> {
        self.nearest.map(|(t, _, v)| (t, v))
    }
}

/// Receives the results of a [`Matcher`](super::Matcher) and computes statistics.
#[derive(Debug)]
pub struct PairEstimator {
    pairer: Pairer,
    /// Pairs made since the last call of [`Self::take_pairs`].
    fresh: Vec<RatedPair>,
    recent: VecDeque<i64>,
    max_turnaround: Option<Span>,
    rtt: SpanSpread,
    turnaround: SpanSpread,
    per_time: Resampler,
    instants: SpanSpread,
    levels: ThinnedTimes,
    clocks: ClockComparison,
    directions: [DirectionDelays; 2],
    pairs: u64,
    span: Option<(WallTime, WallTime)>,
    /// Part of the captures to evaluate; `None`: the whole captures.
    part: Option<CapturePart>,
    /// Round trips by the lengths of both packets.
    sizes: BTreeMap<(u32, u32), SpanSpread>,
}

impl PairEstimator {
    /// Creates an estimator. `interval` is the period of the resampled values and of the moving average of
    /// the pair rate; pairs more than `max_turnaround` apart at the monitor are omitted.
    pub fn new(interval: Span, max_turnaround: Option<Span>) -> PairEstimator {
        PairEstimator {
            pairer: Pairer::default(),
            fresh: Vec::new(),
            recent: VecDeque::new(),
            max_turnaround,
            rtt: SpanSpread::default(),
            turnaround: SpanSpread::default(),
            per_time: Resampler::new(interval),
            instants: SpanSpread::default(),
            levels: ThinnedTimes::default(),
            clocks: ClockComparison::default(),
            directions: Default::default(),
            pairs: 0,
            span: None,
            part: None,
            sizes: BTreeMap::new(),
        }
    }

    /// Counts only the pairs and packets of `part`; `None`: all.
    pub fn of_part(self, part: Option<CapturePart>) -> PairEstimator {
        PairEstimator { part, ..self }
    }

    fn counts(&self, at_monitor: WallTime) -> bool {
        self.part.is_none_or(|part| part.contains(CapturePoint::Monitor, at_monitor))
    }

    /// Returns the pairs made since the last call of [`Self::take_pairs`].
    pub fn pairs(&self) -> &[RatedPair] {
        &self.fresh
    }

    /// Removes and returns the pairs made since the last call.
    pub fn take_pairs(&mut self) -> std::vec::Drain<'_, RatedPair> {
        self.fresh.drain(..)
    }

    /// Adds a pair.
    pub fn pair(&mut self, pair: SyntheticPair) {
        if self.max_turnaround.is_some_and(|m| pair.turnaround() > m) {
            return;
        }
        let at = pair.middle();
        let interval = self.per_time.interval;
        self.recent.push_back(at.0);
        while self.recent.len() > 1 && self.recent[0] <= at.0.saturating_sub(interval) {
            self.recent.pop_front();
        }
        // A pair belongs to the same part as its first packet.
        if !self.counts(pair.out.monitor) {
            return;
        }
        self.pairs += 1;
        self.span = Some(self.span.map_or((at, at), |(a, _)| (a, at)));
        self.rtt.push(pair.rtt().0);
        let size = (pair.out.length, pair.back.length);
        if self.sizes.len() < MAX_SIZE_PAIRS || self.sizes.contains_key(&size) {
            self.sizes.entry(size).or_insert_with(SpanSpread::of_size).push(pair.rtt().0);
        }
        self.turnaround.push(pair.turnaround().0);
        if let Some((_, v)) = self.per_time.push(at.0, pair.rtt().0) {
            self.instants.push(v);
        }
        self.levels.push(pair.rtt().0);
        let rate = self.recent.len() as f64 * SECOND as f64 / interval as f64;
        self.fresh.push(RatedPair { pair, rate });
    }

    /// Adds a matched packet, in arrival order.
    pub fn packet(&mut self, r: &Record) {
        let delay = r.delay();
        let counts = self.counts(r.monitor);
        let direction = &mut self.directions[r.direction as usize];
        let last = direction.last.replace(delay.0);
        if !counts {
            return;
        }
        direction.delay.push(delay.0);
        if let Some(last) = last {
            direction.ipdv.push(delay.0.saturating_sub(last).saturating_abs());
        }
        direction.bytes += u128::from(r.length);
        direction.lengths.push(r.length, delay.0);
        self.clocks.push(r);
    }

    /// Round trips by the packet sizes of the pair, for the first 4096 combinations.
    pub fn sizes(&self) -> Vec<SizeFigures> {
        self.sizes.iter().filter_map(|(size, rtt)| SizeFigures::of(*size, rtt)).collect()
    }

    fn per_time_figures(&self) -> Option<SpreadFigures> {
        let mut all = self.instants.clone();
        if let Some((_, v)) = self.per_time.last() {
            all.push(v);
        }
        all.figures(0)
    }

    /// Returns all results; `counts` are the counts of the matcher.
    pub fn summary_of(&self, counts: [MatchCounts; 2]) -> PassiveSummary {
        let clocks = self.clocks.difference();
        let span = self.span.map_or(0.0, |(a, b)| (b - a).0 as f64);
        let drift = clocks.skew_ppm.unwrap_or(0.0) * 1e-6 * span;
        let [out, back] = [0, 1].map(|w| {
            let (state, counts) = (&self.directions[w], counts[w]);
            let due = counts.matched + counts.lost;
            let delay = state.delay.figures(0);
            let bounds = loss_bounds(&counts, [CapturePoint::Reference, CapturePoint::Monitor][w]);
            let is_known = due > 0 && !is_too_wide(bounds);
            MatchedFigures {
                counts,
                loss_ratio: is_known.then(|| counts.lost as f64 / due as f64),
                loss_bounds: bounds,
                delay_variation_ns: delay.and_then(|d| state.delay.figures(d.min)),
                delay_raw_ns: delay,
                ipdv_ns: state.ipdv.figures(0),
                mean_length: (state.delay.count() > 0)
                    .then(|| state.bytes as f64 / state.delay.count() as f64),
                serialisation: state.lengths.serialisation(drift),
            }
        });
        let packets: u64 = self.directions.iter().map(|w| w.delay.count()).sum();
        let seconds = self.span.map_or(0.0, |(a, b)| (b - a).as_seconds());
        PassiveSummary {
            pairs: self.pairs,
            first_pair: self.span.map(|s| s.0),
            last_pair: self.span.map(|s| s.1),
            pair_rate: (seconds > 0.0).then(|| (self.pairs - 1) as f64 / seconds),
            pairs_per_packet: (packets > 0).then(|| self.pairs as f64 / packets as f64),
            rtt_ns: self.rtt.figures(0),
            rtt_per_time_ns: self.per_time_figures(),
            per_time_interval_ns: Span(self.per_time.interval),
            turnaround_ns: self.turnaround.figures(0),
            levels: self.levels.find(),
            queue: None,
            clocks,
            out,
            back,
        }
    }
}

impl MatchObserver for PairEstimator {
    fn record(&mut self, r: Record) {
        if let Some(p) = self.pairer.push(r) {
            self.pair(p);
        }
    }

    fn arrived(&mut self, _seq: u64, r: Record, copy: bool) {
        if !copy {
            self.packet(&r);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::spec::Direction;

    #[test]
    fn values_per_time_are_those_nearest_the_instants() {
        let picked = |list: &[(i64, i64)]| {
            let mut r = Resampler::new(Span(100));
            let mut all: Vec<_> = list.iter().filter_map(|(at, v)| r.push(*at, *v)).collect();
            all.extend(r.last());
            all
        };
        // A busy second with long round trips, a single short round trip, an idle gap.
        let list = [(90, 9), (95, 8), (104, 7), (130, 6), (205, 1), (500, 2)];
        assert_eq!(picked(&list), [(100, 7), (200, 1), (500, 2)]);
        // With equal distances before and after the instant, the first value is selected.
        assert_eq!(picked(&[(95, 1), (105, 2)]), [(100, 1)]);
        // Times go back and forth over the boundary between two instants.
        let list = [140, 149, 151, 148, 152, 190].map(|at| (at, at));
        assert_eq!(picked(&list), [(100, 140), (200, 190)]);
    }

    /// An OUT packet and an IN packet, `turnaround` apart at the monitor; times in ms.
    fn exchange(e: &mut PairEstimator, at: i64, delay: [i64; 2], turnaround: i64, lengths: [u32; 2]) {
        let ms = |t: i64| WallTime(t * 1_000_000);
        let (there, leaves) = (at + delay[0], at + delay[0] + turnaround);
        let record = |direction, reference: i64, monitor: i64, length| Record {
            direction,
            reference: ms(reference),
            monitor: ms(monitor),
            length,
            flow: 0,
        };
        for r in [
            record(Direction::Up, at, there, lengths[0]),
            record(Direction::Down, leaves + delay[1], leaves, lengths[1]),
        ] {
            e.arrived(0, r, false);
            e.arrived(0, Record { length: 9999, ..r }, true);
            e.record(r);
        }
    }

    #[test]
    fn every_figure_of_three_pairs() {
        let mut e = PairEstimator::new(Span::seconds(1), Some(Span::millis(10)));
        assert_eq!(e.summary_of([MatchCounts::default(); 2]).out.mean_length, None);
        exchange(&mut e, 0, [5, 5], 10, [60, 40]);
        assert_eq!(e.summary_of([MatchCounts::default(); 2]).pair_rate, None, "one has no rate");
        exchange(&mut e, 1000, [7, 5], 10, [60, 40]);
        exchange(&mut e, 2000, [5, 5], 10, [100, 40]);
        let rates: Vec<_> = e.pairs().iter().map(|p| p.rate).collect();
        assert_eq!(rates, [1.0, 1.0, 2.0]);
        let sizes: Vec<_> = e
            .sizes()
            .into_iter()
            .map(|s| (s.out_length, s.in_length, s.pairs, s.min_rtt_ns, s.median_rtt_ns, s.mean_rtt_ns))
            .collect();
        assert_eq!(
            sizes,
            [(60, 40, 2, 10_000_000, 10_000_000, 11e6), (100, 40, 1, 10_000_000, 10_000_000, 10e6)]
        );
        let percentiles = &e.sizes()[0].percentiles;
        assert_eq!((percentiles.len(), percentiles[100], percentiles[101]), (201, 10_000_000, 12_000_000));
        let out = MatchCounts { matched: 3, lost: 1, ..MatchCounts::default() };
        let s = e.summary_of([out, MatchCounts::default()]);
        assert_eq!((s.pairs, s.pair_rate, s.per_time_interval_ns), (3, Some(1.0), Span::seconds(1)));
        assert_eq!(s.pairs_per_packet, Some(0.5));
        assert_eq!((s.first_pair, s.last_pair), (Some(WallTime(10_000_000)), Some(WallTime(2_010_000_000))));
        let range = |f: Option<SpreadFigures>| f.map(|f| (f.count, f.min / 1_000_000, f.max / 1_000_000));
        assert_eq!((range(s.rtt_ns), range(s.turnaround_ns)), (Some((3, 10, 12)), Some((3, 10, 10))));
        assert_eq!(range(s.rtt_per_time_ns), Some((3, 10, 12)));
        assert_eq!(
            (range(s.out.delay_raw_ns), range(s.out.delay_variation_ns)),
            (Some((3, 5, 7)), Some((3, 0, 2)))
        );
        assert_eq!((range(s.out.ipdv_ns), range(s.back.ipdv_ns)), (Some((2, 2, 2)), Some((2, 0, 0))));
        assert_eq!((s.out.loss_ratio, s.back.loss_ratio), (Some(0.25), None));
        assert_eq!((s.out.mean_length, s.back.mean_length), (Some(220.0 / 3.0), Some(40.0)));
    }

    #[test]
    fn a_byte_costs_what_it_does_between_clocks_that_agree() {
        let mut e = PairEstimator::new(Span::seconds(1), None);
        // 1 ms per 100 bytes, over 190 s.
        for i in 0..20 {
            exchange(&mut e, i * 10_000, [5 + i % 2, 5], 10, [100 + 100 * (i % 2) as u32, 40]);
        }
        let s = e.summary_of([MatchCounts::default(); 2]);
        assert_eq!(s.out.serialisation.map(|s| (s.ns_per_byte, s.lengths)), Some((10_000.0, 2)));
        // The same with a fast monitor clock: 1 ppm adds up to a fifth of the millisecond, 2 ppm are too
        // much.
        for (ppm, known) in [(1, true), (2, false), (100, false)] {
            let mut e = PairEstimator::new(Span::seconds(1), None);
            for i in 0..20 {
                let at = i * 10 * SECOND;
                let monitor = |t: i64| WallTime(t + t / 1_000_000 * ppm);
                let (there, back) = (at + (5 + i % 2) * 1_000_000, at + 20_000_000);
                let out = Record {
                    direction: Direction::Up,
                    reference: WallTime(at),
                    monitor: monitor(there),
                    length: 100 + 100 * (i % 2) as u32,
                    flow: 0,
                };
                let answer = Record {
                    direction: Direction::Down,
                    reference: WallTime(back + 5_000_000),
                    monitor: monitor(back),
                    ..out
                };
                for r in [out, answer] {
                    e.arrived(0, r, false);
                    e.record(r);
                }
            }
            let s = e.summary_of([MatchCounts::default(); 2]);
            assert_eq!(s.out.serialisation.is_some(), known, "{ppm} {:?}", s.clocks);
        }
    }

    #[test]
    fn sizes_kept_apart_are_bounded() {
        let mut e = PairEstimator::new(Span::seconds(1), None);
        for i in 0..MAX_SIZE_PAIRS as u32 + 5 {
            exchange(&mut e, i64::from(i) * 100, [5, 5], 10, [i, 40]);
        }
        assert_eq!(e.sizes().len(), MAX_SIZE_PAIRS);
    }

    #[test]
    fn pairs_too_far_apart_can_be_left_out_and_the_rate_moves() {
        let mut e = PairEstimator::new(Span::seconds(1), Some(Span::millis(50)));
        let ms = |t: i64| WallTime(t * 1_000_000);
        for (out, back) in [(0, 10), (100, 110), (200, 300), (5000, 5010)] {
            e.record(Record {
                direction: Direction::Up,
                reference: ms(out),
                monitor: ms(out + 5),
                length: 60,
                flow: 0,
            });
            e.record(Record {
                direction: Direction::Down,
                reference: ms(back + 10),
                monitor: ms(back + 5),
                length: 60,
                flow: 0,
            });
        }
        let made: Vec<_> = e.take_pairs().map(|e| (e.pair.rtt().0 / 1_000_000, e.rate)).collect();
        assert_eq!(made, [(10, 1.0), (10, 2.0), (10, 1.0)]);
        let s = e.summary_of([MatchCounts::default(); 2]);
        assert_eq!((s.pairs, s.out.loss_ratio, s.rtt_ns.map(|r| r.median)), (3, None, Some(10_000_000)));
    }

    proptest::proptest! {
        /// Clocks that differ by years and are set back and forth give no meaningful values, but must not
        /// cause a panic.
        #[test]
        fn any_times_at_all_come_to_an_end(list in proptest::collection::vec(proptest::prelude::any::<(bool, i64, i64, u32)>(), 0..40)) {
            let mut e = PairEstimator::new(Span::seconds(1), None);
            for (out, reference, monitor, length) in list {
                let direction = if out { Direction::Up } else { Direction::Down };
                let r = Record { direction, reference: WallTime(reference), monitor: WallTime(monitor), length, flow: 0 };
                e.arrived(0, r, false);
                e.record(r);
            }
            let _ = (e.take_pairs().count(), e.sizes().len());
            let _ = e.summary_of([MatchCounts::default(); 2]);
        }
    }
}

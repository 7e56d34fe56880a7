//! [`PassiveTrace`]: data of pairs, ping and single packets for figures, in constant size.

use super::parts::n;
use super::range::FigureRange;
use crate::figure::grid::PointGrid;
use crate::figure::series::extent;
use crate::figure::stretches::{MaxJoin, SumJoin, TimeBins};
use crate::figure::trace::Cloud;
use jitlat_core::spec::Direction;
use jitlat_core::time::Span;
use jitlat_passive::{BandSpacing, PingSource, Resampler, SyntheticPair, ThinnedTimes};
use jitlat_passive::{CaptureEvent, CaptureObserver};

/// Maximum number of cells of a distribution.
const MAX_CELLS: usize = 1 << 16;
/// Expected length of the capture, in ns.
const EXPECTED_CAPTURE_NS: i64 = 600_000_000_000;
/// Expected packet sizes, in bytes.
const EXPECTED_SIZE_BYTES: i64 = 2048;

/// Data of pairs, ping and single packets for figures, in constant size.
#[derive(Clone, Debug)]
pub struct PassiveTrace {
    range: FigureRange,
    origin: Option<i64>,
    pub(super) rtt: Cloud,
    pub(super) pairs: PointGrid,
    pub(super) resampler: Resampler,
    pub(super) instants: PointGrid,
    /// Round trips of pairs of two packets with the same IP length, over that length in bytes.
    pub(super) equal_sizes: Cloud,
    /// Round trips of all pairs, over the sum of the two IP lengths in bytes.
    pub(super) both_sizes: Cloud,
    /// Number of pairs outside the range of the figures.
    pub(super) left_out: u64,
    levels: ThinnedTimes,
    /// Round trips of ping, by [`PingSource`].
    pings: [(Cloud, PointGrid); 2],
    pub(super) rate: TimeBins<SumJoin>,
    /// Number of matched packets of both directions, per time bin.
    pub(super) packets: TimeBins<SumJoin>,
    pub(super) variation: [TimeBins<MaxJoin>; 2],
    pub(super) least: [Option<i64>; 2],
}

impl PassiveTrace {
    /// Creates a trace of the pairs within `range`. Their round trips are also sampled once per `every`.
    pub fn new(every: Span, range: FigureRange) -> PassiveTrace {
        let tally = || PointGrid::new(2, MAX_CELLS, 1);
        let width = every.0.max(1_000_000);
        PassiveTrace {
            range,
            equal_sizes: Cloud::new(EXPECTED_SIZE_BYTES),
            both_sizes: Cloud::new(EXPECTED_SIZE_BYTES),
            left_out: 0,
            levels: ThinnedTimes::default(),
            packets: TimeBins::new(width),
            origin: None,
            rtt: Cloud::new(EXPECTED_CAPTURE_NS),
            pairs: tally(),
            resampler: Resampler::new(every),
            instants: tally(),
            pings: [(); 2].map(|()| (Cloud::new(EXPECTED_CAPTURE_NS), tally())),
            rate: TimeBins::new(width),
            variation: [(); 2].map(|()| TimeBins::new(10_000_000)),
            least: [None; 2],
        }
    }

    fn x(&mut self, at: i64) -> i64 {
        at.saturating_sub(*self.origin.get_or_insert(at))
    }

    /// Adds a pair.
    pub fn pair(&mut self, pair: &SyntheticPair) {
        let (at, rtt) = (pair.middle().0, pair.rtt().0);
        let x = self.x(at);
        if !self.range.has(x, rtt) {
            self.left_out += 1;
            return;
        }
        self.rtt.add(x, rtt);
        self.levels.push(rtt);
        self.pairs.add(0, rtt);
        let [out, back] = [pair.out.length, pair.back.length].map(i64::from);
        if out == back {
            self.equal_sizes.add(out, rtt);
        }
        self.both_sizes.add(out + back, rtt);
        if let Some((_, v)) = self.resampler.push(at, rtt) {
            self.instants.add(0, v);
        }
        self.rate.add(x, 1);
    }

    /// Adds a round trip of ping: its source, its time and its value, in ns.
    pub fn ping(&mut self, source: PingSource, at: i64, rtt: i64) {
        let x = self.x(at);
        if !self.range.has(x, rtt) {
            return;
        }
        let (cloud, tally) = &mut self.pings[source as usize];
        cloud.add(x, rtt);
        tally.add(0, rtt);
    }

    /// Returns the round trips of ping over time, and their distribution, by source.
    pub(super) fn pings(&self) -> impl Iterator<Item = (PingSource, &Cloud, &PointGrid)> {
        PingSource::BOTH
            .into_iter()
            .zip(&self.pings)
            .filter_map(|(source, (cloud, tally))| (tally.n() > 0).then_some((source, cloud, tally)))
    }

    /// Adds a packet that arrived: its time at the reference point and its raw delay, in ns.
    #[inline]
    pub fn packet(&mut self, direction: Direction, at: i64, delay: i64) {
        let x = self.x(at);
        if !self.range.has_time(x) {
            return;
        }
        self.packets.add(x, 1);
        let least = self.least[direction as usize].get_or_insert(delay);
        *least = (*least).min(delay);
        self.variation[direction as usize].add(x, delay);
    }

    /// Returns the bands within the displayed range, which may be finer than those of all pairs. `None` if the
    /// range is unlimited.
    pub fn levels_of_range(&self) -> Option<Vec<BandSpacing>> {
        (self.left_out > 0).then(|| self.levels.find())
    }

    /// Returns a note about pairs that are not shown; `None` if all are.
    pub(super) fn left_out_note(&self) -> Option<String> {
        (self.left_out > 0).then(|| format!("Only {}; {} pairs are outside.", self.range, n(self.left_out)))
    }

    /// Range of times of all clouds; `None` without pairs.
    pub(super) fn times(&self) -> Option<(f64, f64)> {
        let all = self.pings().filter_map(|(_, cloud, _)| extent(cloud));
        Some(all.fold(extent(&self.rtt)?, |(a, b), (c, d)| (a.min(c), b.max(d))))
    }
}

/// Receives pairs and matched packets.
impl CaptureObserver for PassiveTrace {
    fn capture_event(&mut self, event: &CaptureEvent<'_>) {
        match event {
            CaptureEvent::Pairs(pairs) => pairs.iter().for_each(|e| self.pair(&e.pair)),
            CaptureEvent::Matched(list) => {
                list.iter().for_each(|r| self.packet(r.direction, r.reference.0, r.delay().0));
            }
            _ => {}
        }
    }
}

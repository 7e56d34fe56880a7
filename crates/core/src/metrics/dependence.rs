//! Confidence intervals of dependent packets (metrics §17): shares by events, quantiles by blocks.
//!
//! Losses come in bursts, and neighbouring packets wait in the same queue. An interval for independent packets is then
//! too narrow. The *design effect* is the variance of a share, divided by that of independent packets. The *effective
//! number* is the number of packets divided by the design effect. The usual intervals are valid for this number.

use super::stat::{Z95, beta_below, quantile_of_beta, t_quantile};
use crate::distribution::percentile::Percent;
use crate::distribution::sample::Sample;
use serde::{Deserialize, Serialize};

/// Number of separations that are tried: 1, 2, 4 … 2²⁰ packets.
const LEVELS: usize = 21;
/// Largest expected number of other events within the separation. A larger one would merge independent events.
const MAX_CHANCE: f64 = 0.2;
/// Weight, in events, of the assumption that the sizes of events vary as in a geometric distribution. A few events do
/// not show how much their sizes vary.
const PRIOR_EVENTS: f64 = 5.0;
/// Smallest design effect of a share. It limits the precision that evenly spaced losses suggest.
const MIN_SHARE_EFFECT: f64 = 0.5;
/// Offset of the parameters of the beta distribution: 0 is the interval of Clopper and Pearson, ½ that of Jeffreys.
const BETA_OFFSET: f64 = 0.25;

/// Packets of one kind, for example lost ones, grouped into events: at each separation 2^k, packets with fewer other
/// packets between them belong to one event. Needs constant memory and one pass in ascending order; adjacent parts
/// are [appended](EventCounts::append).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventCounts {
    count: u64,
    levels: Vec<Level>,
}

impl Default for EventCounts {
    fn default() -> EventCounts {
        EventCounts { count: 0, levels: vec![Level::default(); LEVELS] }
    }
}

/// Position of an event, and the number of counted packets in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Cluster {
    start: u64,
    end: u64,
    count: u64,
}

/// The events at one separation. A cycle is from the start of an event to the start of the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Level {
    events: u64,
    first: Option<Cluster>,
    /// Start of the second event.
    second: Option<u64>,
    last: Option<Cluster>,
    /// Sums over the cycles of all events except the first and the last, which may still grow.
    sums: CycleSums,
}

/// Sums over cycles of count², count × length and length². They are integers below 2⁵³ in nearly all tests, so that
/// the order of additions does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct CycleSums {
    counts: f64,
    products: f64,
    lengths: f64,
}

impl CycleSums {
    fn add(&mut self, count: u64, length: u64) {
        let (x, c) = (count as f64, length as f64);
        self.merge(CycleSums { counts: x * x, products: x * c, lengths: c * c });
    }

    fn merge(&mut self, other: CycleSums) {
        self.counts += other.counts;
        self.products += other.products;
        self.lengths += other.lengths;
    }
}

impl Level {
    fn push(&mut self, separation: u64, next: Cluster) {
        match self.last {
            Some(last) if next.start.saturating_sub(last.end) < separation => {
                let count = last.count.saturating_add(next.count);
                self.last = Some(Cluster { end: next.end, count, ..last });
                if self.events == 1 {
                    self.first = self.last;
                }
            }
            Some(last) => {
                self.close(last, next.start);
                (self.last, self.events) = (Some(next), self.events.saturating_add(1));
            }
            None => (self.first, self.last, self.events) = (Some(next), Some(next), 1),
        }
    }

    /// Ends the cycle of `last` where the next event begins.
    fn close(&mut self, last: Cluster, next: u64) {
        if self.second.is_none() {
            self.second = Some(next);
        } else {
            self.sums.add(last.count, next.saturating_sub(last.start));
        }
    }

    fn append(&mut self, separation: u64, later: &Level) {
        let Some(first) = later.first else { return };
        self.push(separation, first);
        if let (Some(second), Some(last)) = (later.second, self.last) {
            self.close(last, second);
            self.sums.merge(later.sums);
            self.last = later.last;
            self.events = self.events.saturating_add(later.events).saturating_sub(1);
        }
    }

    fn shift(&mut self, by: u64) {
        for event in [&mut self.first, &mut self.last].into_iter().flatten() {
            event.start = event.start.saturating_add(by);
            event.end = event.end.saturating_add(by);
        }
        self.second = self.second.map(|start| start.saturating_add(by));
    }

    /// Returns the sums over all cycles of `end` packets. The packets before the first event belong to the cycle of
    /// the last.
    fn cycles(&self, end: u64) -> CycleSums {
        let mut sums = self.sums;
        if let (Some(first), Some(last)) = (self.first, self.last) {
            if let Some(second) = self.second {
                sums.add(first.count, second.saturating_sub(first.start));
            }
            sums.add(last.count, end.saturating_sub(last.start).saturating_add(first.start));
        }
        sums
    }

    fn is_possible(&self, next: u64, count: u64) -> bool {
        let within = |c: &Cluster| c.start < c.end && c.end <= next && (1..=count).contains(&c.count);
        let sums = [self.sums.counts, self.sums.products, self.sums.lengths];
        let ends = match (&self.first, &self.last) {
            (Some(first), Some(last)) => within(first) && within(last) && self.events > 0,
            (None, None) => self.events == 0 && count == 0,
            _ => false,
        };
        ends && self.events <= count
            && self.second.is_some() == (self.events > 1)
            && self.second.is_none_or(|start| start < next)
            && sums.iter().all(|sum| sum.is_finite() && *sum >= 0.0)
    }
}

impl EventCounts {
    /// Adds `len` consecutive packets of the counted kind, the first of which has the number `start`.
    pub fn push(&mut self, start: u64, len: u64) {
        self.count = self.count.saturating_add(len);
        let cluster = Cluster { start, end: start.saturating_add(len), count: len };
        (0..).zip(&mut self.levels).for_each(|(k, level)| level.push(1 << k, cluster));
    }

    /// Appends a later part, whose number 0 is the number `start` of this part. The result is the same as that of one
    /// pass.
    pub fn append(&mut self, later: &EventCounts, start: u64) {
        self.count = self.count.saturating_add(later.count);
        for ((k, level), mut later) in (0..).zip(&mut self.levels).zip(later.levels.iter().copied()) {
            later.shift(start);
            level.append(1 << k, &later);
        }
    }

    /// Returns the number of packets of the counted kind.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns true if this can be the state after the packets below `next`, of which `count` are of the counted kind.
    pub(crate) fn is_possible(&self, next: u64, count: u64) -> bool {
        self.count == count
            && self.levels.len() == LEVELS
            && self.levels.iter().all(|level| level.is_possible(next, count))
    }

    /// Returns the share of the counted kind among the packets below `end`, `n` of which are known, with its interval.
    pub fn share(&self, end: u64, n: u64) -> ShareInterval {
        let n = n.max(self.count);
        let mut found = ShareInterval { absent: Some(NoInterval::NoEvent), ..ShareInterval::default() };
        let Some((k, level)) = self.level(end) else { return found };
        found.events = level.events;
        found.separation = Some(1 << k);
        found.absent = Some(NoInterval::OneEvent);
        if self.count >= end {
            return found;
        }
        let design_effect = design_effect_of_share(level, self.count, end);
        let effective_n = n as f64 / design_effect;
        found.design_effect = Some(design_effect);
        found.effective_n = Some(effective_n);
        if level.events < 2 {
            return found;
        }
        // As many degrees of freedom as events and assumed ones.
        let wider = (t_quantile(0.975, level.events.saturating_add(4)) / Z95).powi(2);
        found.ci95 = beta_interval(self.count as f64 / n as f64, effective_n / wider);
        found.absent = None;
        found
    }

    /// Returns the largest separation at which few independent events would be merged, as an exponent of 2, and the
    /// events at this separation; `None` without events.
    fn level(&self, end: u64) -> Option<(usize, &Level)> {
        let few =
            |k: usize, level: &Level| (level.events as f64) * (1u64 << k) as f64 <= MAX_CHANCE * end as f64;
        let more = self.levels.iter().enumerate().skip(1).take_while(|(k, level)| few(*k, level)).count();
        self.levels.get(more).filter(|level| level.events > 0).map(|level| (more, level))
    }
}

/// Returns the design effect of the share `count`/`end`: its variance over the cycles of a renewal process, mixed
/// with that of events of geometric size.
fn design_effect_of_share(level: &Level, count: u64, end: u64) -> f64 {
    let (events, share) = (level.events as f64, count as f64 / end as f64);
    let geometric = (2.0 * count as f64 / events * (1.0 - share) - 1.0).max(MIN_SHARE_EFFECT);
    if level.events < 2 {
        return geometric;
    }
    let sums = level.cycles(end);
    let squares = sums.counts - 2.0 * share * sums.products + share * share * sums.lengths;
    let measured = squares.max(0.0) * events / (events - 1.0) / (end as f64 * share * (1.0 - share));
    ((events * measured + PRIOR_EVENTS * geometric) / (events + PRIOR_EVENTS)).max(MIN_SHARE_EFFECT)
}

/// Returns the 95 % interval of a share observed among `n` effective packets; `None` without packets.
pub fn beta_interval(share: f64, n: f64) -> Option<[f64; 2]> {
    (n > 0.0 && (0.0..=1.0).contains(&share)).then(|| {
        let (of, others) = (share * n, (1.0 - share) * n);
        let low = quantile_of_beta(0.025, of + BETA_OFFSET, others + 1.0 - BETA_OFFSET);
        let high = quantile_of_beta(0.975, of + 1.0 - BETA_OFFSET, others + BETA_OFFSET);
        [if share > 0.0 { low } else { 0.0 }, if share < 1.0 { high } else { 1.0 }]
    })
}

/// Returns true if the lower end of [`beta_interval`] is above `limit`. Needs less time than the interval.
pub fn share_exceeds(share: f64, n: f64, limit: f64) -> bool {
    let is_possible = n > 0.0 && share > 0.0 && share <= 1.0;
    let (of, others) = (share * n, (1.0 - share) * n);
    is_possible && beta_below(limit, of + BETA_OFFSET, others + 1.0 - BETA_OFFSET) < 0.025
}

/// A share of packets, for example of lost ones, with an interval that accounts for bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ShareInterval {
    /// Number of events. An event is a group of the counted packets, for example lost ones, with fewer than
    /// `separation` other packets between neighbours.
    pub events: u64,
    /// Separation of events, in packets; `None` without events.
    pub separation: Option<u64>,
    /// Variance of the share divided by that of independent packets; if there is only one event, computed for events of
    /// geometric size.
    pub design_effect: Option<f64>,
    /// Number of independent packets that would determine the share as precisely; `None` if it is unknown.
    pub effective_n: Option<f64>,
    /// 95 % interval of the share; `None` if there is none, for the reason in `absent`.
    pub ci95: Option<[f64; 2]>,
    /// Reason why there is no interval; `None` if there is one.
    pub absent: Option<NoInterval>,
}

/// Reason why there is no confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NoInterval {
    /// There is no event.
    NoEvent,
    /// There is only one event, which does not show how the number and the sizes of events vary.
    OneEvent,
    /// Too few packets, or too few independent ones.
    TooFew,
    /// The positions of the packets are not known: an analysis in bounded memory, or packets whose fate is unknown.
    NotRecorded,
}

/// Smallest effective number of packets for an interval of the median.
pub const MIN_EFFECTIVE_MEDIAN: f64 = 25.0;
/// Smallest effective number of packets for an interval of the 99th percentile: on average, three of them exceed it.
pub const MIN_EFFECTIVE_P99: f64 = 300.0;
/// Smallest number of packets for an interval of a quantile: the correlation is estimated from up to 40 blocks.
const MIN_PACKETS: usize = 40;
/// Smallest design effect of a quantile.
const MIN_QUANTILE_EFFECT: f64 = 0.7;

/// A quantile of dependent packets, with its precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct QuantileInterval {
    /// Number of independent packets that would determine the quantile as precisely; `None` if it is unknown.
    pub effective_n: Option<f64>,
    /// Smallest effective number for which there is an interval.
    pub required_n: f64,
    /// 95 % interval, in ns; `None` if there is none, for the reason in `absent`.
    pub ci95: Option<[i64; 2]>,
    /// Reason why there is no interval; `None` if there is one.
    pub absent: Option<NoInterval>,
}

/// A quantile for which intervals were tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalOf {
    /// The median.
    Median,
    /// The 99th percentile.
    P99,
    /// Another percentile above the median.
    Upper(Percent),
}

impl IntervalOf {
    fn probability(self) -> f64 {
        match self {
            IntervalOf::Median => 0.5,
            IntervalOf::P99 => 0.99,
            IntervalOf::Upper(percent) => f64::from(percent.0) / 1e5,
        }
    }

    fn required_n(self) -> f64 {
        match self {
            IntervalOf::Median => MIN_EFFECTIVE_MEDIAN,
            IntervalOf::P99 => MIN_EFFECTIVE_P99,
            // As many packets exceed it as exceed the 99th percentile.
            IntervalOf::Upper(_) => {
                (MIN_EFFECTIVE_P99 * 0.01 / (1.0 - self.probability())).max(MIN_EFFECTIVE_MEDIAN)
            }
        }
    }
}

/// Returns the result without an interval, for packets that are not in memory.
pub fn unknown_quantile(of: IntervalOf) -> QuantileInterval {
    let required_n = of.required_n();
    QuantileInterval { required_n, absent: Some(NoInterval::NotRecorded), ..QuantileInterval::default() }
}

/// Returns the interval of a quantile of `delays`, which are in send order; `sample` contains the same delays.
/// `acf1` is the correlation of neighbouring delays.
pub fn quantile_interval(
    of: IntervalOf,
    delays: &[i64],
    sample: &Sample,
    acf1: Option<f64>,
) -> QuantileInterval {
    let (n, p, required_n) = (delays.len(), of.probability(), of.required_n());
    let too_few =
        QuantileInterval { required_n, absent: Some(NoInterval::TooFew), ..QuantileInterval::default() };
    let quantile = sample.at(((p * n as f64) as usize).min(n.saturating_sub(1)));
    let Some(quantile) = quantile.filter(|_| n >= MIN_PACKETS) else { return too_few };
    if sample.at(0) == sample.at(n - 1) {
        let ci95 = Some([quantile; 2]);
        return QuantileInterval { effective_n: Some(n as f64), ci95, absent: None, ..too_few };
    }
    let above: Vec<bool> = delays.iter().map(|delay| *delay > quantile).collect();
    let (effect, df) = match of {
        IntervalOf::Median => design_effect_adaptive(&above),
        IntervalOf::P99 | IntervalOf::Upper(_) => design_effect_fixed(&above),
    };
    let by_blocks = n as f64 / effect;
    // The correlation of a short series is too small by about (1 + 3r)/n on average (Kendall 1954).
    let unbiased = acf1.map(|r| (r + (1.0 + 3.0 * r) / n as f64).clamp(-1.0, 1.0));
    let by_neighbours = unbiased.map_or(f64::INFINITY, |r| n as f64 * (1.0 - r) / (1.0 + r));
    let effective = by_blocks.min(by_neighbours).min(n as f64);
    let found = QuantileInterval { effective_n: Some(effective), ..too_few };
    if effective < required_n {
        return found;
    }
    let wider = (t_quantile(0.975, df) / Z95).powi(2);
    let Some(ranks) = ranks_of_quantile(by_blocks / wider, p) else { return found };
    let ci95 = ranks.map(|share| value_at(sample, n, share));
    let [Some(low), Some(high)] = ci95 else { return found };
    QuantileInterval { ci95: Some([low, high]), absent: None, ..found }
}

/// Returns the correlation of neighbouring `values`; `None` if they do not vary.
pub fn lag1(values: &[i64]) -> Option<f64> {
    let mean = values.iter().map(|x| *x as f64).sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|x| (*x as f64 - mean).powi(2)).sum();
    let products: f64 = values.windows(2).map(|w| (w[0] as f64 - mean) * (w[1] as f64 - mean)).sum();
    (squares > 0.0).then(|| products / squares)
}

/// Returns the value at `share` (0…1) of the sorted delays, interpolated linearly between neighbours; `None` without
/// delays.
fn value_at(sample: &Sample, n: usize, share: f64) -> Option<i64> {
    let rank = (share * (n as f64 + 1.0)).clamp(1.0, n as f64);
    let low = (rank.floor() as usize).saturating_sub(1);
    let [a, b] = [sample.at(low)?, sample.at((low + 1).min(n - 1))?];
    Some(a.saturating_add(((i128::from(b) - i128::from(a)) as f64 * (rank - rank.floor())) as i64))
}

/// Returns the shares between which the p-quantile lies with 95 % confidence among `n` effective packets. Where the
/// largest value is below the quantile in more than 2.5 % of cases, the lower end is lowered in exchange. `None` if `n`
/// is below 1.
fn ranks_of_quantile(n: f64, p: f64) -> Option<[f64; 2]> {
    let all_below = p.powf(n);
    let (low, high) =
        if all_below > 0.025 { ((0.05 - all_below).max(0.004), None) } else { (0.025, Some(0.025)) };
    // P(value of rank k is at most the quantile) falls with k.
    let rank = |probability: f64| {
        let at_most = |k: f64| super::stat::beta_below(p, k, n + 1.0 - k);
        super::stat::bisect(0.0, n + 1.0, |k| k <= 0.0 || (k < n + 1.0 && at_most(k) > probability))
    };
    let ends = [rank(1.0 - low), high.map_or(n, |high| rank(high).min(n))];
    (n >= 1.0).then(|| ends.map(|k| k / (n + 1.0)))
}

/// Returns the design effect of the share of true values in `above`, with its degrees of freedom. It is computed from
/// 20 and from 40 blocks, and the difference between the two corrects for the correlation that remains between blocks.
/// Used for rare packets.
pub fn design_effect_fixed(above: &[bool]) -> (f64, u64) {
    let [long, short] = [20, 40].map(|blocks| design_effect_of_blocks(above, above.len() / blocks));
    ((2.0 * long - short).max(long).max(MIN_QUANTILE_EFFECT), 14)
}

/// Returns the design effect of the share of true values in `above`, with its degrees of freedom, from blocks that are
/// as long as the correlation requires.
pub fn design_effect_adaptive(above: &[bool]) -> (f64, u64) {
    let n = above.len();
    let least = ((n as f64).cbrt().ceil() as usize).max(1);
    let most = (n / 8).max(least);
    let mut block = least;
    for _ in 0..4 {
        let effect = design_effect_of_blocks(above, block);
        block = ((n as f64 * effect * effect * 1.5).cbrt().ceil() as usize).clamp(least, most);
    }
    let [long, short] = [block, block / 2].map(|block| design_effect_of_blocks(above, block));
    let df = (0.7 * (n / block) as f64) as u64;
    ((2.0 * long - short).max(long).max(MIN_QUANTILE_EFFECT), df.max(1))
}

/// Returns the variance of the number of true values of `above` in blocks of `block` packets, divided by that of
/// independent packets; 1 below two blocks or without variation.
fn design_effect_of_blocks(above: &[bool], block: usize) -> f64 {
    let (n, block) = (above.len(), block.max(1));
    let count = |these: &[bool]| these.iter().filter(|x| **x).count() as f64;
    let share = count(above) / n.max(1) as f64;
    let (blocks, variance) = (n / block, share * (1.0 - share));
    if blocks < 2 || variance <= 0.0 {
        return 1.0;
    }
    let expected = share * block as f64;
    let squares: f64 = above.chunks_exact(block).map(|these| (count(these) - expected).powi(2)).sum();
    squares / (blocks - 1) as f64 / block as f64 / variance
}

#[cfg(test)]
mod coverage;
#[cfg(test)]
mod tests;

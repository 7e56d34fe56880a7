//! [`coincidences`]: quantities of the interface that change together with loss or delay.
//!
//! Loss comes in bursts, signals fade slowly, and unrelated trends resemble each other, so a correlation of the values
//! proves little. The rule therefore compares changes from each interval to the next, by rank, and asks two questions: is
//! their agreement larger than in all but one of 1999 orders in which short blocks of one of them are shuffled (a block preserves
//! what follows a change)? And is it clearly larger than with either of them delayed (otherwise both merely have the same
//! period)? Unrelated series pass both in less than one of a thousand comparisons.

use crate::case::Case;
use jitlat_core::answer::{Coincidence, PacketEffect};
use jitlat_core::interface::{InterfaceHistory, InterfaceQuantity};
use jitlat_core::session::Session;
use jitlat_core::spec::Direction;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Minimum number of intervals, and of changes of each of the two series.
const MIN_INTERVALS: usize = 20;
const MIN_CHANGES: usize = 6;
/// Maximum number of intervals.
const MAX_INTERVALS: usize = 1024;
/// Minimum length of an interval, in seconds: the time between samples.
const MIN_INTERVAL_S: f64 = 1.0;
/// Minimum number of packets that are due in an interval.
const MIN_DUE: f64 = 4.0;
/// Number of orders, of which this many may agree as well.
const ORDERS: u32 = 1999;
const MAX_AS_GOOD: u32 = 1;
/// Length of the blocks that keep their order, in intervals.
const BLOCK: usize = 4;
/// Shortest delay of one series relative to the other that is tried, in intervals. Samples and packets may be assigned to
/// neighbouring intervals.
const MIN_SHIFT: usize = 2;
/// Agreement with a delayed series, as a share of the agreement without delay, above which the rule decides nothing.
const MAX_SHIFTED: f64 = 0.8;
/// Minimum ratio of the effect in the worst quarter of the intervals to the effect in the others.
const MIN_RATIO: f64 = 1.2;

/// Returns the coincidences in `case`; empty if the interface was not sampled.
pub fn coincidences(case: &Case<'_>) -> Vec<Coincidence> {
    let session = case.material.session;
    let Some(history) = &session.client.interface else { return Vec::new() };
    let Some(intervals) = Intervals::of(case, history) else { return Vec::new() };
    let mut found = Vec::new();
    for (effect, values) in [(PacketEffect::Loss, &intervals.loss), (PacketEffect::Delay, &intervals.delay)] {
        if effect == PacketEffect::Loss && !case.material.shows_loss() {
            continue;
        }
        for quantity in InterfaceQuantity::ALL {
            let Some(badness) = intervals.badness(history, quantity) else { continue };
            if !coincide(values, &badness) {
                continue;
            }
            let [worst_quarter, others] = by_quarter(values, &badness);
            if worst_quarter > 0.0 && worst_quarter >= MIN_RATIO * others {
                found.push(Coincidence {
                    effect,
                    quantity,
                    interface: history.name.clone(),
                    interval_s: intervals.length,
                    intervals: values.len() as u64,
                    worst_quarter,
                    others,
                });
            }
        }
    }
    found
}

/// Loss and delay in equal intervals of a stream.
struct Intervals {
    /// Start of the first interval, in seconds since the first packet, on the clock of the samples.
    start: f64,
    /// Length of an interval, in seconds.
    length: f64,
    /// Time of the first packet on the clock of the samples, in ns.
    origin: i64,
    /// Share of packets lost.
    loss: Vec<f64>,
    /// Mean delay above the smallest delay, in ns.
    delay: Vec<f64>,
}

impl Intervals {
    /// Divides the part of the stream in which the interface was sampled; `None` if it is too short.
    fn of(case: &Case<'_>, history: &InterfaceHistory) -> Option<Intervals> {
        let series = case.material.series;
        if series.len() < MIN_INTERVALS {
            return None;
        }
        let by_arrival = is_by_arrival(case.material.session, case.material.round_trip);
        let first = series.get(0);
        let origin = if by_arrival { first.sent.saturating_add(first.delay) } else { first.sent };
        let seconds = |at: i64| at.saturating_sub(origin) as f64 / 1e9;
        let (from, to) = (history.samples.first()?, history.samples.last()?);
        let start = seconds(from.at.0).max(0.0);
        let span = seconds(to.at.0).min(case.duration) - start;
        let due = MIN_DUE * case.duration / case.known.sent.max(1) as f64;
        let length = MIN_INTERVAL_S.max(due).max(span / MAX_INTERVALS as f64);
        let count = (span / length) as usize;
        if count < MIN_INTERVALS {
            return None;
        }
        let mut tallies = vec![Tally::default(); count];
        let place = |seconds: f64| {
            let place = ((seconds - start) / length).floor();
            (0.0..count as f64).contains(&place).then_some(place as usize)
        };
        case.each_wait(|k, wait| {
            let late = if by_arrival { case.delays.delay(k) as f64 / 1e9 } else { 0.0 };
            if let Some(place) = place(case.delays.seconds(k) + late) {
                tallies[place].delays += 1.0;
                tallies[place].delay += wait as f64;
            }
        });
        for k in 0..case.delays.len() {
            if let Some(place) = place(case.delays.seconds(k)) {
                tallies[place].received += 1.0;
            }
        }
        for run in case.losses.runs.iter().chain(&case.lost_at_steps) {
            let [first, last] = [run.start, run.start + run.len.max(1) - 1].map(|seq| case.seconds(seq));
            // A long run is spread evenly over its time.
            let parts = run.len.min(4 * MAX_INTERVALS as u64);
            for part in 0..parts {
                let at = first + (last - first) * (part as f64 + 0.5) / parts as f64;
                if let Some(place) = place(at) {
                    tallies[place].lost += run.len as f64 / parts as f64;
                }
            }
        }
        let share = |sum: f64, of: f64| (of > 0.0).then(|| sum / of);
        let loss = tallies.iter().map(|t| share(t.lost, t.received + t.lost));
        let delay = tallies.iter().map(|t| share(t.delay, t.delays));
        Some(Intervals { start, length, origin, loss: continued(loss), delay: continued(delay) })
    }

    /// Returns how bad the quantity was in each interval: the increase of a counter, or the mean of a level with its sign
    /// reversed. `None` if it is unknown.
    fn badness(&self, history: &InterfaceHistory, quantity: InterfaceQuantity) -> Option<Vec<f64>> {
        let known = |s: &jitlat_core::interface::InterfaceSample| {
            Some((s.at.0.saturating_sub(self.origin) as f64 / 1e9, quantity.of(s)?))
        };
        let mut known: Vec<(f64, f64)> = history.samples.iter().filter_map(known).collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        if known.len() < 2 {
            return None;
        }
        let edge = |k: usize| self.start + k as f64 * self.length;
        let value = |k: usize| match quantity.is_counter() {
            true => interpolated(&known, edge(k + 1)) - interpolated(&known, edge(k)),
            false => -(interpolated(&known, edge(k)) + interpolated(&known, edge(k + 1))) / 2.0,
        };
        Some((0..self.loss.len()).map(value).collect())
    }
}

#[derive(Clone, Copy, Default)]
struct Tally {
    received: f64,
    lost: f64,
    /// Number of packets on the path whose delay is known, and the sum of their delays.
    delays: f64,
    delay: f64,
}

/// Returns true if the clock of the samples is that of the arrivals: the client samples, and the server sends.
fn is_by_arrival(session: &Session, round_trip: bool) -> bool {
    !round_trip && session.spec.direction() == Direction::Down
}

/// Replaces unknown values by the previous ones, which changes nothing.
fn continued(values: impl Iterator<Item = Option<f64>>) -> Vec<f64> {
    let mut last = 0.0;
    values
        .map(|value| {
            last = value.unwrap_or(last);
            last
        })
        .collect()
}

/// Returns the value at `at` between the `known` ones, which are ascending in time.
fn interpolated(known: &[(f64, f64)], at: f64) -> f64 {
    let after = known.partition_point(|k| k.0 <= at);
    match (after.checked_sub(1).map(|k| known[k]), known.get(after)) {
        (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (at - a.0) / (b.0 - a.0),
        (Some(a), None) => a.1,
        (None, b) => b.map_or(0.0, |b| b.1),
    }
}

/// Returns the mean of `values` in the quarter of the intervals with the largest badness, and in the others.
fn by_quarter(values: &[f64], badness: &[f64]) -> [f64; 2] {
    let mut sorted = badness.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let limit = sorted[sorted.len() - sorted.len().div_ceil(4)];
    // A quantity that is mostly at its best is bad only where it is not.
    let is_bad = |value: f64| value >= limit && value > sorted[0];
    let mean = |bad: bool| {
        let (mut sum, mut count) = (0.0, 0u64);
        for (value, _) in values.iter().zip(badness).filter(|(_, badness)| is_bad(**badness) == bad) {
            (sum, count) = (sum + value, count + 1);
        }
        sum / count.max(1) as f64
    };
    [mean(true), mean(false)]
}

/// Returns true if `values` and `others` change together more often than unrelated series do in one of a thousand
/// comparisons.
pub fn coincide(values: &[f64], others: &[f64]) -> bool {
    let [Some(a), Some(b)] = [values, others].map(changes) else { return false };
    let n = a.len();
    if n < MIN_INTERVALS - 1 || b.len() != n {
        return false;
    }
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let agreement = product(&a, &b);
    let each = agreement / n as f64;
    let shifted =
        |k: usize| product(&a[..n - k], &b[k..]).max(product(&b[..n - k], &a[k..])) / (n - k) as f64;
    if agreement <= 0.0 || (MIN_SHIFT..n / 2).any(|k| shifted(k) >= MAX_SHIFTED * each) {
        return false;
    }
    // The same orders in every run, so that a report can be repeated.
    let mut orders = ChaCha8Rng::seed_from_u64(0);
    let mut as_good = 0;
    let mut blocks: Vec<usize> = (0..n).step_by(BLOCK).collect();
    for _ in 0..ORDERS {
        let offset = below(n, &mut orders);
        let at = |k: usize| b[(k + offset) % n];
        for k in (1..blocks.len()).rev() {
            blocks.swap(k, below(k + 1, &mut orders));
        }
        let order = blocks.iter().flat_map(|from| *from..(from + BLOCK).min(n));
        let sum: f64 = a.iter().zip(order).map(|(a, k)| a * at(k)).sum();
        as_good += u32::from(sum >= agreement);
        if as_good > MAX_AS_GOOD {
            return false;
        }
    }
    true
}

/// Returns the ranks of the changes from each value to the next, with mean 0; `None` if there are too few changes.
fn changes(values: &[f64]) -> Option<Vec<f64>> {
    let changes: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if changes.iter().filter(|change| **change != 0.0).count() < MIN_CHANGES {
        return None;
    }
    let mut order: Vec<usize> = (0..changes.len()).collect();
    order.sort_by(|a, b| changes[*a].total_cmp(&changes[*b]));
    let mean = (changes.len() - 1) as f64 / 2.0;
    let mut ranks = vec![0.0; changes.len()];
    let mut from = 0;
    for equal in order.chunk_by(|a, b| changes[*a] == changes[*b]) {
        let rank = from as f64 + (equal.len() - 1) as f64 / 2.0 - mean;
        equal.iter().for_each(|k| ranks[*k] = rank);
        from += equal.len();
    }
    Some(ranks)
}

/// Returns a random number below `n`, which must be far below 2³².
fn below(n: usize, random: &mut ChaCha8Rng) -> usize {
    ((u64::from(random.next_u32()) * n as u64) >> 32) as usize
}

#[cfg(test)]
mod tests;

//! [`LossPeriod`]: period of losses that repeat at regular intervals, or after a fixed number of packets.

use super::losses::{LossTimes, Scattered};

/// Minimum number of events from which a period is derived.
const MIN_EVENTS: usize = 6;
/// Minimum number of events from which a period is derived if all are exactly the same number of packets apart.
const MIN_EXACT_EVENTS: usize = 5;
/// Minimum number of events from which a period is derived if there are other losses between them.
const MIN_EVENTS_AMONG_OTHERS: u64 = 10;
/// Minimum share of all lost packets that are lost in the events if there are other losses between them.
const MIN_LONG_SHARE: f64 = 0.7;
/// Divisor of the longest distance between losses: losses closer to each other than the quotient belong to one event.
const SAME_EVENT: u64 = 4;
/// Maximum deviation of a distance from the nearest multiple of the period, as a share of the period.
const MAX_DEVIATION: f64 = 0.06;
/// Maximum time between packets, as a share of the loss period. With longer intervals, the times of losses are not
/// precise enough.
const MAX_PACKET_SHARE: f64 = 0.15;
/// Minimum share of distances that are multiples of the period.
const MIN_FIT: f64 = 0.9;
/// Minimum share of distances that are exactly one period.
const MIN_SINGLE: f64 = 0.7;
/// Minimum period, in packets, unless the period is exact: shorter distances almost always fit to within a packet.
const MIN_PACKETS: f64 = 8.0;

/// Period of losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossPeriod {
    /// Time from one event to the next, in ns.
    pub ns: f64,
    /// Mean number of packets from one event to the next.
    pub packets: f64,
    /// True if all events are the same number of packets apart.
    pub exact: bool,
    /// Number of loss events.
    pub events: u64,
    /// Mean number of packets lost in an event.
    pub length: f64,
    /// Number of packets before the first event.
    pub first: u64,
}

impl LossPeriod {
    /// Returns the period of the losses in `part`, with send times from `departures`; `None` if there is none.
    ///
    /// If all loss bursts together have no period, shorter bursts between long ones are ignored.
    pub fn of(part: &Scattered, departures: &LossTimes<'_, '_>) -> Option<LossPeriod> {
        LossPeriod::of_all(part, departures).or_else(|| {
            let longest = part.runs.iter().map(|(run, _)| run.len).max()?;
            let long = Scattered {
                sent: part.sent,
                runs: part.runs.iter().filter(|(run, _)| 2 * run.len > longest).copied().collect(),
            };
            let most = long.lost() as f64 >= MIN_LONG_SHARE * part.lost() as f64;
            let found = LossPeriod::of_all(&long, departures).filter(|_| most && longest > 1)?;
            (found.events >= MIN_EVENTS_AMONG_OTHERS).then_some(found)
        })
    }

    fn of_all(part: &Scattered, departures: &LossTimes<'_, '_>) -> Option<LossPeriod> {
        let distances = part.runs.windows(2).map(|w| w[1].1.start - w[0].1.start);
        let longest = distances.max()?;
        let mut starts: Vec<u64> = Vec::new();
        for (k, (_, run)) in part.runs.iter().enumerate() {
            let before = k.checked_sub(1).map(|k| part.runs[k].1.start);
            if before.is_none_or(|before| SAME_EVENT * (run.start - before) > longest) {
                starts.push(run.start);
            }
        }
        if starts.len() < MIN_EXACT_EVENTS {
            return None;
        }
        let times: Vec<f64> = starts.iter().map(|seq| departures.of(*seq) as f64).collect();
        let numbers: Vec<f64> = starts.iter().map(|seq| *seq as f64).collect();
        let exact = numbers.windows(3).all(|w| w[1] - w[0] == w[2] - w[1]);
        let packets = (numbers[numbers.len() - 1] - numbers[0]) / (numbers.len() - 1) as f64;
        let each = (times[times.len() - 1] - times[0]) / (numbers[numbers.len() - 1] - numbers[0]).max(1.0);
        let of_numbers = period(&numbers, 1.01);
        let of_times = period(&times, 1.5 * each).filter(|p| each <= MAX_PACKET_SHARE * p);
        let (ns, packets) = match (of_times, of_numbers) {
            _ if starts.len() < MIN_EVENTS && (!exact || packets < MIN_PACKETS) => return None,
            _ if exact => (packets * each, packets),
            (Some(ns), _) if ns / each.max(1.0) >= MIN_PACKETS => (ns, ns / each.max(1.0)),
            (_, Some(packets)) if packets >= MIN_PACKETS => (packets * each, packets),
            _ => return None,
        };
        let (events, first) = (starts.len() as u64, part.runs.first().map_or(0, |(run, _)| run.start));
        Some(LossPeriod { ns, packets, exact, events, length: part.lost() as f64 / events as f64, first })
    }
}

/// Returns the period of ascending `events`, each of which has an error of at most `error`; `None` if there is none.
fn period(events: &[f64], error: f64) -> Option<f64> {
    let distances: Vec<f64> = events.windows(2).map(|w| w[1] - w[0]).collect();
    let mut sorted = distances.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted[sorted.len() / 2];
    if middle <= 0.0 {
        return None;
    }
    let steps = |d: f64, period: f64| (d / period).round().max(1.0);
    let total: f64 = distances.iter().map(|d| steps(*d, middle)).sum();
    let period = distances.iter().sum::<f64>() / total;
    let tolerance = (MAX_DEVIATION * period).max(error);
    let fits = |d: &&f64| (**d - period * steps(**d, period)).abs() <= tolerance;
    let share = |n: usize| n as f64 / distances.len() as f64;
    let single = distances.iter().filter(|d| steps(**d, period) == 1.0).count();
    let fit = distances.iter().filter(fits).count();
    (tolerance < period / 4.0 && share(fit) >= MIN_FIT && share(single) >= MIN_SINGLE).then_some(period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, Test, every, scattered};

    fn of(lost: impl IntoIterator<Item = (u64, u64)>) -> Option<LossPeriod> {
        let test = Test::new(3000, 20 * MS, &every(20 * MS, 3000, |_| Some(0)));
        let delays = test.delays();
        LossPeriod::of(&scattered(3000, lost), &LossTimes::new(&delays, &test.session))
    }

    #[test]
    fn losses_at_regular_times_have_a_period() {
        let every_half_second = of((0..60).map(|k| (7 + 25 * k, 1))).unwrap();
        assert!(every_half_second.exact && every_half_second.first == 7);
        assert!((every_half_second.ns - 500e6).abs() < 1e3, "{every_half_second:?}");
        // 0.81 s are 40.5 packets, so distances alternate between 40 and 41.
        let between = of((0..40).map(|k| (k * 81 / 2, 1))).unwrap();
        assert!(!between.exact && (between.ns - 810e6).abs() < 10e6, "{between:?}");
        // Three packets per event, with one event missing.
        let groups = (0..20).filter(|k| *k != 7).flat_map(|k| [(100 * k, 2), (100 * k + 4, 1)]);
        let groups = of(groups).unwrap();
        assert!((groups.ns - 2e9).abs() < 1e7 && groups.events == 19 && groups.length == 3.0, "{groups:?}");
    }

    #[test]
    fn losses_without_a_period_have_none() {
        assert_eq!(of([]), None);
        assert_eq!(of((0..4).map(|k| (100 * k, 1))), None, "too few");
        assert_eq!(of((0..5).map(|k| (100 * k + k / 4, 1))), None, "too few for distances that differ");
        assert!(of((0..5).map(|k| (40 * k, 1))).unwrap().exact);
        let mut state = 1u64;
        for _ in 0..200 {
            let mut seq = 0;
            let lost: Vec<(u64, u64)> = (0..40)
                .map(|_| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    seq += 2 + (state >> 33) % 140;
                    (seq, 1)
                })
                .collect();
            assert_eq!(of(lost.clone()), None, "{lost:?}");
        }
    }
}

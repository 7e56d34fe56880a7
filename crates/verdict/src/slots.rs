//! [`slot`]: detects the time slots in which a link forwards packets, from delays.

use super::delays::{Delays, at_shares};
use super::levels::median_slope;
use std::ops::RangeInclusive;

/// Shortest and longest detectable slot, in ns.
const SLOT_RANGE: [i64; 2] = [2_500_000, MAX_SLOT_NS];
/// Longest detectable slot, in ns.
pub const MAX_SLOT_NS: i64 = 25_000_000;
/// Minimum number of pairs of packets from which a slot is derived.
const MIN_PAIRS: usize = 12;
/// Approximate maximum number of pairs that are compared.
const MAX_PAIRS: usize = 1 << 15;
/// Minimum share of the pairs whose delays differ by whole slots.
const MIN_WHOLE: f64 = 0.85;

/// Returns the length of the slots in which a link forwards packets sent every `period` ns, in ns; `None` if delays show no
/// slots.
///
/// A packet that misses its slot waits for the next one. The delays of two packets that were sent a multiple of the
/// slot apart therefore differ by whole slots, or hardly at all. If the slots and the sender follow different clocks,
/// the smallest delay rises or falls slowly and then changes by one slot.
pub fn slot(delays: &Delays<'_>, period: i64) -> Option<i64> {
    (1..=4).find_map(|lag| of_pairs(delays, period, lag))
}

/// Returns the length of the slots, in ns, if all packets reach them at the same phase; `None` if there are no slots.
/// The smallest delays `min` at `time` must change slowly along a straight line, with occasional jumps by one slot in
/// the opposite direction.
pub fn slipped(time: &[f64], min: &[i64]) -> Option<i64> {
    let value: Vec<f64> = min.iter().map(|m| *m as f64).collect();
    let slope = median_slope(time, &value, (min.len() / 12).max(2))?;
    let rest: Vec<f64> = value.iter().zip(time).map(|(value, t)| value - slope * t).collect();
    let changes: Vec<f64> = rest.windows(2).map(|w| w[1] - w[0]).collect();
    let largest = changes.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs()))?;
    let slot = largest.abs();
    let drift = (slope * (time[time.len() - 1] - time[0])).abs();
    let is_slide = SLIDE_RANGE.contains(&slope.abs()) && slope * largest < 0.0 && drift >= slot / 10.0;
    // Each change is small or one slot in this direction, and delays span at most about one slot.
    let is_slot = |change: f64| (change - largest).abs() <= slot / 4.0;
    let others = changes.iter().filter(|change| !is_slot(**change)).all(|change| change.abs() <= slot / 5.0);
    let range = min.iter().max()?.saturating_sub(*min.iter().min()?) as f64;
    let slips = changes.iter().filter(|change| is_slot(**change)).count();
    let is_staircase = others && range <= 1.25 * slot && slips * 10 <= changes.len();
    (is_slide && is_staircase && SLIPPED_SLOT_RANGE.contains(&slot)).then_some(slot as i64)
}

/// Returns true if slots of `length` ns may slide at this `rate`.
pub fn may_slip(rate: f64, length: f64) -> bool {
    SLIDE_RANGE.contains(&rate.abs()) && SLIPPED_SLOT_RANGE.contains(&length)
}

/// Returns true if packets may slide by `change` ns within slots at this `rate` without missing a slot.
pub fn may_slide(rate: f64, change: f64) -> bool {
    SLIDE_RANGE.contains(&rate.abs()) && change <= *SLIPPED_SLOT_RANGE.end()
}

/// Range of the rate at which the slots' clock drifts relative to the sender's. Free-running clocks differ by less than
/// 100 ppm, synchronised ones by less than 6 ppm: a step with a rate outside this range is a route change.
const SLIDE_RANGE: RangeInclusive<f64> = 6e-6..=1e-4;
/// Range of the slots of radio links, in ns. A larger step is a route change.
const SLIPPED_SLOT_RANGE: RangeInclusive<f64> = 2.5e6..=12e6;

/// Returns the result of [`slot`], computed from pairs of packets whose sequence numbers are `lag` apart.
fn of_pairs(delays: &Delays<'_>, period: i64, lag: usize) -> Option<i64> {
    let n = delays.len();
    let [shortest, longest] = SLOT_RANGE;
    let step = (n / MAX_PAIRS).max(1);
    let pairs = (lag..n).step_by(step).filter(|k| delays.seq(*k) - delays.seq(k - lag) == lag as u64);
    let differ = |k: usize| delays.delay(k).saturating_sub(delays.delay(k - lag)).saturating_abs();
    let mut far: Vec<i64> = pairs.map(differ).filter(|d| *d > shortest / 2).collect();
    if far.len() < MIN_PAIRS {
        return None;
    }
    let [low] = at_shares(&mut far, [10]);
    let mut once: Vec<i64> =
        far.iter().copied().filter(|d| *d >= low - low / 4 && *d <= low + low / 2).collect();
    let [slot] = at_shares(&mut once, [50]);
    if !(shortest..=longest).contains(&slot) {
        return None;
    }
    // The interval between the two packets must be a multiple of the slot.
    let apart = period.saturating_mul(lag as i64);
    let remainder = |x: i64| (x + slot / 2).rem_euclid(slot) - slot / 2;
    let slots = (apart + slot / 2) / slot;
    if slots == 0 || (apart - slots * slot).abs() > (slot / 10).max(slots * slot / 50) {
        return None;
    }
    let whole = far.iter().filter(|d| remainder(**d).abs() <= slot * 3 / 20).count();
    (whole as f64 >= MIN_WHOLE * far.len() as f64).then_some(slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, US, delays, every};

    /// Packets every 20 ms, sent up to 2 ms late, through 10 ms slots whose phase changes by `slide` ns per packet.
    fn sliding(slide: i64) -> Vec<jitlat_core::metrics::classify::AcceptedPacket> {
        every(20 * MS, 1000, |k| {
            let late = i64::from(k * 7919 % 20) * 100 * US;
            let phase = i64::from(k) * slide;
            Some(20 * MS + late + (-(late + phase)).rem_euclid(10 * MS))
        })
    }

    #[test]
    fn a_slot_is_seen_where_packets_miss_it() {
        assert_eq!(slot(&delays(&sliding(20 * US)), 20 * MS).map(|s| (s + MS / 2) / MS), Some(10));
        // No slot if no packet misses one, or if delays vary arbitrarily.
        assert_eq!(slot(&delays(&every(20 * MS, 1000, |_| Some(20 * MS))), 20 * MS), None);
        let varied = every(20 * MS, 1000, |k| Some(i64::from(k * 7919 % 1000) * 12 * US));
        assert_eq!(slot(&delays(&varied), 20 * MS), None);
        // All packets miss it at once.
        let time: Vec<f64> = (0..100).map(|k| k as f64 * 1e9).collect();
        let min = |slope: i64, jump: i64| -> Vec<i64> {
            (0..100).map(|k| k * slope + if k < 60 { 0 } else { jump } + k * 7919 % 5 * 100 * US).collect()
        };
        assert_eq!(slipped(&time, &min(-50 * US, 8 * MS)).map(|s| (s + MS) / (2 * MS)), Some(4));
        // A step in the direction of the drift, or without any, is not a slot.
        assert_eq!([slipped(&time, &min(50 * US, 8 * MS)), slipped(&time, &min(0, 8 * MS))], [None; 2]);
        // Another period does not fit the slots.
        assert_eq!(slot(&delays(&sliding(20 * US)), 17 * MS), None);
    }
}

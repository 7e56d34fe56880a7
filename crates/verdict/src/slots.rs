//! [`slot`]: the slots in which a link forwards packets, where delays show them.

use super::delays::{Delays, at_shares};

/// Shortest and longest slot that is looked for, in ns.
const SLOT_RANGE: [i64; 2] = [2_500_000, MAX_SLOT_NS];
/// Longest slot that is looked for, in ns.
pub const MAX_SLOT_NS: i64 = 25_000_000;
/// Pairs of packets that a slot is seen in at least.
const MIN_PAIRS: usize = 12;
/// Most pairs that are compared.
const MAX_PAIRS: usize = 1 << 15;
/// Share of the pairs that differ by whole slots.
const MIN_WHOLE: f64 = 0.85;

/// Length in ns of the slots in which a link forwards packets sent every `period` ns; `None` if delays show none.
///
/// A packet that misses its slot waits for the next one: two packets whose distance is a multiple of the slot differ by
/// whole slots or hardly at all. If the clock of the slots and that of the sender run at different rates, the smallest delay
/// rises or falls slowly and then changes by a slot.
pub fn slot(delays: &Delays<'_>, period: i64) -> Option<i64> {
    (1..=4).find_map(|lag| of_pairs(delays, period, lag))
}

/// The same from packets `lag` numbers apart.
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
    // The distance of the two is a multiple of it.
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

    /// Packets every 20 ms whose slot of 10 ms slides by so many ns from packet to packet, sent up to 2 ms late.
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
        // Where none does, or where packets vary by anything, there is none.
        assert_eq!(slot(&delays(&every(20 * MS, 1000, |_| Some(20 * MS))), 20 * MS), None);
        let varied = every(20 * MS, 1000, |k| Some(i64::from(k * 7919 % 1000) * 12 * US));
        assert_eq!(slot(&delays(&varied), 20 * MS), None);
        // Another period does not fit the slots.
        assert_eq!(slot(&delays(&sliding(20 * US)), 17 * MS), None);
    }
}

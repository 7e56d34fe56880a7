//! [`wandering`]: a queue that fills and drains all the time, so that no packet shows the delay of the empty path.

use super::delays::{DelayNoise, Delays, at_shares};
use super::episodes::Episode;

/// Minimum number of packets in a group whose median delay is compared with that of other groups.
const MIN_GROUP: usize = 8;
/// Minimum duration of a group, in ns: a single held packet delays the packets sent after it for less than that.
const MIN_GROUP_NS: i64 = 100_000_000;
/// Maximum number of groups.
const MAX_GROUPS: usize = 400;
/// Minimum number of groups.
const MIN_GROUPS: usize = 24;
/// Minimum range of the group medians, relative to the 90th percentile of the differences between neighbouring packets.
/// The medians of eight independent delays vary by a quarter of this difference, those of a link's slots by the whole
/// difference.
const MIN_RATIO: f64 = 1.25;
/// Minimum range of the group medians, in ns. The medians of a link's slots have at most the range of a slot.
const MIN_RANGE_NS: i64 = 10_000_000;
/// Minimum range, in ns, of delays that rise gradually, but faster than clocks drift apart.
const MIN_GRADUAL_RANGE_NS: i64 = 3_000_000;
/// Minimum number of groups of a gradual rise.
const MIN_RISE_GROUPS: usize = 3;
/// Minimum rate at which the delay of a queue changes, if its range is below [`MIN_RANGE_NS`]. Crystals differ by
/// less than half of it.
const MIN_FAST_RATE: f64 = 250e-6;
/// Minimum number of times that the medians rise from the lower quarter of their range to its upper quarter.
const MIN_RISES: usize = 3;

/// Returns a queue that fills and drains throughout the test: the delay, without its variation from packet to packet,
/// rises and falls by far more than neighbouring packets differ. `None` if it does not.
pub fn wandering(delays: &Delays<'_>, noise: DelayNoise, burst: usize) -> Option<Episode> {
    let n = delays.len();
    let duration = delays.time(n.checked_sub(1)?).max(1);
    let in_least_time = (n as i128 * i128::from(MIN_GROUP_NS) / i128::from(duration)) as usize;
    let size = MIN_GROUP.max(2 * burst).max(n.div_ceil(MAX_GROUPS)).max(in_least_time);
    let count = n / size;
    if count < MIN_GROUPS {
        return None;
    }
    let medians: Vec<i64> =
        (0..count).filter_map(|g| delays.quantile(g * size, (g + 1) * size, 0.5)).collect();
    // Stalls and holds of a few groups do not change this range, which is 0.6 of that of a sawtooth.
    let [low, high] = at_shares(&mut medians.clone(), [20, 80]);
    let range = high.saturating_sub(low);
    let quarter = range / 4;
    if range < MIN_GRADUAL_RANGE_NS || (range as f64) < MIN_RATIO * noise.p90 as f64 {
        return None;
    }
    // The number of rises from the lower quarter of the range to its upper quarter.
    let (mut rises, mut low_at, mut first, mut last) = (Vec::new(), None, None, 0);
    for (g, median) in medians.iter().enumerate() {
        if *median > high - quarter {
            rises.extend(low_at.take().map(|from| g - from));
        } else if *median < low + quarter {
            low_at = Some(g);
        }
        if *median > low + quarter {
            first = first.or(Some(g));
            last = g;
        }
    }
    let each = duration as f64 / count as f64;
    if rises.len() < MIN_RISES {
        return None;
    }
    rises.sort_unstable();
    let rise = rises[rises.len() / 2];
    let is_gradual = rise >= MIN_RISE_GROUPS && range as f64 / 2.0 > MIN_FAST_RATE * each * rise as f64;
    if range < MIN_RANGE_NS && !is_gradual {
        return None;
    }
    let near = |g: usize, end: usize| g.abs_diff(end) * 10 <= count;
    let from = first.filter(|g| !near(*g, 0)).map_or(0, |g| g * size);
    let to = if near(last, count) { n } else { (last + 1) * size };
    let height = delays.quantile(from, to, 0.95)?.saturating_sub(delays.quantile(0, n, 0.01)?);
    Some(Episode { from, to, height, count: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, US, delays, every};
    use jitlat_core::metrics::classify::AcceptedPacket;

    fn found(packets: &[AcceptedPacket]) -> Option<Episode> {
        let delays = delays(packets);
        wandering(&delays, delays.noise(), delays.together())
    }

    /// Pseudo-random delay of up to 2 ms.
    fn noise(k: u32) -> i64 {
        i64::from(k.wrapping_mul(2_654_435_761) >> 16) % 1000 * 2 * US
    }

    #[test]
    fn a_queue_that_never_empties_is_seen_by_its_rise_and_fall() {
        // Seven teeth of 100 packets, from 20 to 60 ms.
        let saw = every(20 * MS, 700, |k| Some(20 * MS + i64::from(k % 100) * 400 * US + noise(k)));
        let queue = found(&saw).unwrap();
        assert_eq!((queue.from, queue.to), (0, 700));
        assert!((36 * MS..42 * MS).contains(&queue.height), "{queue:?}");
        // Two teeth are not enough, and neither is one level after another.
        let two = every(20 * MS, 700, |k| Some(20 * MS + i64::from(k % 350) * 100 * US + noise(k)));
        assert_eq!(found(&two), None);
        let levels = every(20 * MS, 700, |k| Some(if k < 350 { 20 * MS } else { 50 * MS } + noise(k)));
        assert_eq!(found(&levels), None);
    }

    #[test]
    fn independent_jitter_and_slots_are_no_queue() {
        let wide = every(20 * MS, 3000, |k| Some(20 * noise(k)));
        assert_eq!(found(&wide), None);
        let slots = every(20 * MS, 3000, |k| Some((noise(k) / MS) * 10 * MS));
        assert_eq!(found(&slots), None);
        // The phase of slots of 10 ms slides by 50 ppm and slips four times.
        let slide = every(20 * MS, 40_000, |k| Some(i64::from(k) * US % (10 * MS) + noise(k) / 10));
        assert_eq!(found(&slide), None);
        assert_eq!(found(&every(20 * MS, 100, |_| Some(MS))), None);
    }
}

//! [`Lead`]: estimate of the time from reading the clock to a packet's departure, so that a packet can carry its
//! departure time.

use jitlat_core::{Span, SteadyTime, WallTime};
use std::net::IpAddr;

/// Maximum number of packets in the estimate.
const MAX_PACKETS: usize = 128;
/// Minimum number of packets for an estimate. The first packets take longer than later ones.
const MIN_PACKETS: usize = 16;
/// Maximum plausible lead. Longer times include a wait for the processor or in a queue, which the next packet
/// may not have, so they are ignored.
const MAX_LEAD: Span = Span::micros(100);
/// Minimum time between two stamped packets once [`MAX_PACKETS`] values are stored. Each stamp costs a system call, so
/// not every packet of a fast stream is stamped. Packets that are not stamped leave somewhat sooner, and thus before the
/// time in them.
const STAMP_PAUSE: Span = Span::micros(500);

/// Estimator of the time from reading the clock to a packet's departure.
///
/// A sender writes the time into a packet before the packet leaves, so the rest of its path through this host would
/// count as delay of the network. RFC 2679 (section 3.7.2) corrects host times by the known difference from wire times.
/// `Lead` measures this difference with the kernel stamps of some packets.
#[derive(Clone, Debug)]
pub(crate) struct Lead {
    /// Measured times of the last packets, in ns.
    recent: [i64; MAX_PACKETS],
    noted: usize,
    /// Time after which the next packet is to be stamped.
    next: SteadyTime,
    estimate: Span,
}

impl Lead {
    pub fn new() -> Lead {
        Lead { recent: [0; MAX_PACKETS], noted: 0, next: SteadyTime(i64::MIN), estimate: Span::ZERO }
    }

    /// Returns the estimated time from a clock reading to the departure of a packet to `to`, at most the smallest
    /// measured value, because a send time that is too late would make a packet seem impossibly fast. Zero
    /// until there are enough values, and for packets that stay on this host.
    pub fn of(&self, to: IpAddr) -> Span {
        if to.to_canonical().is_loopback() { Span::ZERO } else { self.estimate }
    }

    /// True if a packet sent at `now` should be stamped.
    pub fn is_due(&mut self, now: SteadyTime) -> bool {
        let due = self.noted < MAX_PACKETS || now >= self.next;
        if due {
            self.next = now + STAMP_PAUSE;
        }
        due
    }

    /// Adds a measurement: `left` is the departure stamp of a packet, `read` the clock reading before the
    /// packet was sent.
    pub fn note(&mut self, read: WallTime, left: WallTime) {
        let Some(took) = left.checked_since(read).filter(|took| (0..=MAX_LEAD.0).contains(&took.0)) else {
            return;
        };
        self.recent[self.noted % MAX_PACKETS] = took.0;
        self.noted += 1;
        let mut known = self.recent;
        let known = &mut known[..self.noted.min(MAX_PACKETS)];
        if known.len() >= MIN_PACKETS {
            self.estimate = Span(least_possible(known));
        }
    }
}

/// Estimates the smallest possible value from some measured ones: as far below the smallest of them as the lower quartile
/// is above it. The smallest itself is too large for the next packet in one of `values.len() + 1` cases.
fn least_possible(values: &mut [i64]) -> i64 {
    let (below, quartile, _) = values.select_nth_unstable(values.len() / 4);
    let least = below.iter().copied().min().unwrap_or(*quartile);
    (2 * least - *quartile).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(took: impl IntoIterator<Item = i64>) -> Lead {
        let mut lead = Lead::new();
        took.into_iter().for_each(|ns| lead.note(WallTime(1000), WallTime(1000 + ns)));
        lead
    }

    #[test]
    fn the_estimate_is_below_the_smallest_of_the_last_packets_that_did_not_wait() {
        let far = "192.0.2.1".parse().unwrap();
        assert_eq!(noted([9000; MIN_PACKETS - 1]).of(far), Span::ZERO, "too few");
        assert_eq!(noted((50..114).map(|k| k * 100)).of(far), Span(2 * 5000 - 6600));
        assert_eq!(noted((5..69).map(|k| k * 100)).of(far), Span::ZERO, "too different");
        assert_eq!(
            noted((0..64).map(|_| 100).chain([50_000; MAX_PACKETS])).of(far),
            Span(50_000),
            "the last ones"
        );
        let alike = [7000; MIN_PACKETS];
        assert_eq!(noted(alike.into_iter().chain([40_000_000])).of(far), Span(7000), "one was held up");
        let none = noted(alike.into_iter().skip(1).chain([-5_000_000, 3_000_000]));
        assert_eq!(none.of(far), Span::ZERO, "the clock was set; a queue");
    }

    /// RFC 4656 sessions between hosts with one clock had negative delays in one of 33 packets.
    #[test]
    fn hardly_any_packet_leaves_before_the_time_in_it() {
        let far = "192.0.2.1".parse().unwrap();
        // Uniform numbers (SplitMix64).
        let mut state = 7_u64;
        let mut unit = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        };
        // A smallest cost, a smooth variation above it, and an interrupt in one of 20 packets.
        let mut cost = || {
            let varies = -2000.0 * (unit() * unit()).ln();
            (5000.0 + varies) as i64 + if unit() < 0.05 { 20_000 } else { 0 }
        };
        let (mut lead, mut early, mut bias) = (Lead::new(), 0, 0);
        for _ in 0..20_000 {
            let (took, estimate) = (cost(), lead.of(far).0);
            early += i32::from(estimate > took);
            bias += took - estimate;
            lead.note(WallTime(0), WallTime(took));
        }
        assert!(early < 100, "{early} of 20000");
        assert!(bias < 20_000 * 9000, "{bias}");
    }

    #[test]
    fn nothing_leaves_a_host_that_asks_itself() {
        for own in ["127.0.0.2", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(noted([9000; 64]).of(own.parse().unwrap()), Span::ZERO, "{own}");
        }
    }

    #[test]
    fn two_thousand_packets_a_second_are_stamped_after_the_first() {
        let mut lead = Lead::new();
        let mut stamped = 0;
        // One packet every 100 us.
        for k in 0..20_000 {
            if lead.is_due(SteadyTime(k * 100_000)) {
                stamped += 1;
                lead.note(WallTime(0), WallTime(5000));
            }
        }
        assert!((4000..4200).contains(&stamped), "{stamped}");
    }
}

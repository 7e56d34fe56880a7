//! [`Lead`]: estimate of the time from reading the clock to a packet's departure, so that a packet can carry its
//! departure time.

use jitlat_core::{Span, SteadyTime, WallTime};
use std::net::IpAddr;

/// Maximum number of packets in the estimate.
const MAX_PACKETS: usize = 32;
/// Minimum number of packets for an estimate.
const MIN_PACKETS: usize = 4;
/// Maximum plausible lead. Longer times include a wait for the processor or in a queue, which the next packet
/// may not have, so they are ignored.
const MAX_LEAD: Span = Span::micros(100);
/// Minimum time between two stamped packets once [`MAX_PACKETS`] values are stored. Each stamp costs a system call, so
/// not every packet is stamped.
const STAMP_PAUSE: Span = Span::millis(10);

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

    /// Returns the estimated time from a clock reading to the departure of a packet to `to`: the smallest
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
        let known = &self.recent[..self.noted.min(MAX_PACKETS)];
        if let (Some(least), MIN_PACKETS..) = (known.iter().min(), known.len()) {
            self.estimate = Span(*least);
        }
    }
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
    fn the_smallest_of_the_last_packets_that_did_not_wait() {
        let far = "192.0.2.1".parse().unwrap();
        assert_eq!(noted([9000; 3]).of(far), Span::ZERO, "too few");
        assert_eq!(noted((5..37).map(|k| k * 100)).of(far), Span(500));
        assert_eq!(noted((0..32).map(|k| k * 100).chain([50_000; 23])).of(far), Span(2300), "the last ones");
        assert_eq!(noted([7000, 7000, 7000, 7000, 40_000_000]).of(far), Span(7000), "one was held up");
        let none = noted([7000, -5_000_000, 7000, 7000, 3_000_000]);
        assert_eq!(none.of(far), Span::ZERO, "the clock was set; a queue");
    }

    #[test]
    fn nothing_leaves_a_host_that_asks_itself() {
        for own in ["127.0.0.2", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(noted([9000; 8]).of(own.parse().unwrap()), Span::ZERO, "{own}");
        }
    }

    #[test]
    fn a_hundred_packets_a_second_are_stamped_after_the_first() {
        let mut lead = Lead::new();
        let mut stamped = 0;
        for ms in 0..2000 {
            if lead.is_due(SteadyTime(ms * 1_000_000)) {
                stamped += 1;
                lead.note(WallTime(0), WallTime(5000));
            }
        }
        assert!((220..240).contains(&stamped), "{stamped}");
    }
}

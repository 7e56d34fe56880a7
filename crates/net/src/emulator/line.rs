//! [`DelayLine`]: a queue of packets, ordered by delivery time.

use core::cmp::Ordering;
use jitlat_core::time::{SECOND, Span, SteadyTime};
use nix::poll::{PollFd, ppoll};
use nix::sys::time::TimeSpec;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Maximum total size of the packets in an emulator, in bytes; further packets are dropped and counted.
const MAX_HELD_BYTES: usize = 64 << 20;
/// Memory used per packet in addition to the packet's bytes.
const PACKET_OVERHEAD: usize = 64;

/// Reads the steady clock.
pub(super) fn now() -> SteadyTime {
    crate::clock::steady()
}

/// Waits until one of `fds` is ready or `deadline` on the steady clock has passed, for at most one second.
pub(super) fn wait(fds: &mut [PollFd<'_>], deadline: Option<SteadyTime>) -> nix::Result<()> {
    let left = deadline.map_or(Span(SECOND), |d| d - now());
    let left = left.0.clamp(0, SECOND);
    match ppoll(fds, Some(TimeSpec::from(Duration::from_nanos(left.unsigned_abs()))), None) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(e) => Err(e),
    }
}

/// Lateness of packet deliveries, compared with the delivery times of the model.
#[derive(Clone, Debug)]
pub struct DeliveryLateness {
    /// Number of packets delivered.
    pub deliveries: u64,
    /// Largest lateness.
    pub max: Span,
    /// Number of deliveries by lateness; the index is the number of significant bits of the lateness in ns.
    bits: [u64; 64],
}

impl Default for DeliveryLateness {
    fn default() -> DeliveryLateness {
        DeliveryLateness { deliveries: 0, max: Span::ZERO, bits: [0; 64] }
    }
}

impl DeliveryLateness {
    fn note(&mut self, late: Span) {
        let ns = late.0.max(0) as u64;
        self.deliveries += 1;
        self.max = self.max.max(Span(ns as i64));
        self.bits[(64 - ns.leading_zeros()).min(63) as usize] += 1;
    }

    /// Returns a quantile of the lateness, exact to a factor of two: at most a `share` (0…1) of the
    /// deliveries were later.
    pub fn quantile(&self, share: f64) -> Span {
        let wanted = (share.clamp(0.0, 1.0) * self.deliveries as f64).ceil() as u64;
        let mut seen = 0;
        for (bits, n) in self.bits.iter().enumerate() {
            seen += n;
            if seen >= wanted {
                return Span((1i64 << bits) - 1).min(self.max);
            }
        }
        self.max
    }
}

struct DelayedItem<T> {
    due: SteadyTime,
    order: u64,
    bytes: usize,
    what: T,
}

impl<T> PartialEq for DelayedItem<T> {
    fn eq(&self, o: &DelayedItem<T>) -> bool {
        self.cmp(o) == Ordering::Equal
    }
}
impl<T> Eq for DelayedItem<T> {}
impl<T> PartialOrd for DelayedItem<T> {
    fn partial_cmp(&self, o: &DelayedItem<T>) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}
impl<T> Ord for DelayedItem<T> {
    /// The packet that is due first is the greatest; of packets due at the same time, the one that arrived
    /// first.
    fn cmp(&self, o: &DelayedItem<T>) -> Ordering {
        (o.due, o.order).cmp(&(self.due, self.order))
    }
}

/// Packets in transit, delivered in the order in which they are due.
pub(super) struct DelayLine<T> {
    heap: BinaryHeap<DelayedItem<T>>,
    arrivals: u64,
    held: usize,
    pub lateness: DeliveryLateness,
    pub overflow: u64,
}

impl<T> DelayLine<T> {
    pub fn new() -> DelayLine<T> {
        DelayLine {
            heap: BinaryHeap::new(),
            arrivals: 0,
            held: 0,
            lateness: DeliveryLateness::default(),
            overflow: 0,
        }
    }

    /// Holds `what`, a packet of `bytes` bytes, until `due`. The packet is dropped if the limit of held bytes
    /// is reached.
    pub fn push(&mut self, due: SteadyTime, bytes: usize, what: T) {
        let bytes = bytes + PACKET_OVERHEAD;
        if self.held + bytes > MAX_HELD_BYTES {
            self.overflow += 1;
            return;
        }
        self.held += bytes;
        self.arrivals += 1;
        self.heap.push(DelayedItem { due, order: self.arrivals, bytes, what });
    }

    /// Returns the time at which the next packet is due; `None` if the line is empty.
    pub(crate) fn next_due(&self) -> Option<SteadyTime> {
        self.heap.peek().map(|h| h.due)
    }

    /// Removes and returns the next packet if it is due.
    pub fn pop(&mut self, now: SteadyTime) -> Option<T> {
        if self.next_due()? > now {
            return None;
        }
        let h = self.heap.pop()?;
        self.held -= h.bytes;
        self.lateness.note(now - h.due);
        Some(h.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_when_due_and_in_the_order_they_came() {
        let mut line = DelayLine::new();
        for (due, what) in [(30, 'c'), (10, 'a'), (30, 'd'), (20, 'b')] {
            line.push(SteadyTime(due), 100, what);
        }
        assert_eq!(line.next_due(), Some(SteadyTime(10)));
        assert_eq!(
            (line.pop(SteadyTime(9)), line.pop(SteadyTime(10)), line.pop(SteadyTime(19))),
            (None, Some('a'), None)
        );
        let rest: String = core::iter::from_fn(|| line.pop(SteadyTime(35))).collect();
        assert_eq!(rest, "bcd");
        assert_eq!((line.lateness.deliveries, line.lateness.max, line.held), (4, Span(15), 0));
        assert_eq!((line.lateness.quantile(0.2), line.lateness.quantile(1.0)), (Span(0), Span(15)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut line = DelayLine::new();
        for i in 0..3 {
            line.push(SteadyTime(i), MAX_HELD_BYTES / 2 - PACKET_OVERHEAD, i);
        }
        assert_eq!((line.overflow, line.heap.len()), (1, 2));
        line.pop(SteadyTime(5));
        line.push(SteadyTime(9), 1000, 9);
        assert_eq!(line.overflow, 1);
    }
}

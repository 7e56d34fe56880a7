//! Ring buffer that passes records from the packet threads to the control thread; filled without allocating, locking or
//! blocking.

use jitlat_core::spec::TestSpec;
use jitlat_core::time::SECOND;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the maximum number of records that a test of `spec` may produce: all packets, with ample room for
/// duplicates.
fn most_records(spec: &TestSpec) -> usize {
    let packets = spec.packets() as usize;
    packets.saturating_add(packets / 4).saturating_add(4096)
}

/// Returns the number of slots of a ring: two seconds of the stream, at most a sixteenth of its records, and at
/// least 8192.
fn slots(spec: &TestSpec) -> usize {
    let two_seconds = (2 * SECOND / spec.period().0.max(1)) as usize;
    let share = most_records(spec) / 16;
    two_seconds.min(share).clamp(1 << 13, 1 << 19).min(most_records(spec))
}

/// Creates a ring for one stream of `spec`; returns its writing end and its reading end.
pub fn ring<T>(spec: &TestSpec) -> (RingIntake<T>, Outlet<T>) {
    of_slots(slots(spec))
}

/// Creates a ring with `slots` slots.
pub(crate) fn of_slots<T>(slots: usize) -> (RingIntake<T>, Outlet<T>) {
    let (producer, consumer) = rtrb::RingBuffer::new(slots);
    let overflow = Arc::new(AtomicU64::new(0));
    (RingIntake { ring: producer, overflow: overflow.clone() }, Outlet { ring: consumer, overflow })
}

/// Writing end of a ring, used by the packet thread.
pub(crate) struct RingIntake<T> {
    ring: rtrb::Producer<T>,
    overflow: Arc<AtomicU64>,
}

impl<T> RingIntake<T> {
    /// Adds an item. If the ring is full, the item is dropped and counted.
    #[inline]
    pub fn push(&mut self, item: T) {
        if self.ring.push(item).is_err() {
            self.overflow.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Reading end of a ring.
pub(crate) struct Outlet<T> {
    ring: rtrb::Consumer<T>,
    overflow: Arc<AtomicU64>,
}

impl<T> Outlet<T> {
    /// Removes the items in the ring and passes them to `each`, in order, in at most two slices.
    pub fn drain(&mut self, mut each: impl FnMut(&[T])) {
        let waiting = self.ring.slots();
        if let Ok(chunk) = self.ring.read_chunk(waiting) {
            let (first, second) = chunk.as_slices();
            for run in [first, second] {
                if !run.is_empty() {
                    each(run);
                }
            }
            chunk.commit_all();
        }
    }

    /// Returns the number of items lost since the last call because the ring was full.
    pub(crate) fn take_overflow(&mut self) -> u64 {
        self.overflow.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::time::Span;
    use jitlat_core::{Direction, Schedule, Transport};

    fn spec(packets: u64, period: Span) -> TestSpec {
        TestSpec::new(Direction::Up, Transport::Udp, packets, 80, period, Schedule::Periodic).unwrap()
    }

    #[test]
    fn a_full_ring_counts_what_it_loses() {
        let (mut intake, mut outlet) = ring(&spec(10, Span::millis(20)));
        let room = most_records(&spec(10, Span::millis(20))) as u64;
        for i in 0..room + 3 {
            intake.push(i);
        }
        let mut seen = Vec::new();
        outlet.drain(|run| seen.extend_from_slice(run));
        assert_eq!((seen.len() as u64, outlet.take_overflow(), outlet.take_overflow()), (room, 3, 0));
        intake.push(7);
        outlet.drain(|run| assert_eq!(run, [7]));
    }

    #[test]
    fn rings_are_much_smaller_than_the_streams_they_carry() {
        for (n, period) in
            [(1_000_000, Span::micros(10)), (i32::MAX as u64, Span(1)), (100, Span::seconds(1))]
        {
            let spec = spec(n, period);
            assert!(slots(&spec) <= (most_records(&spec) / 16).max(1 << 13), "{n}");
        }
    }
}

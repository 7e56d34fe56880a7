//! [`BatchPacing`]: pauses of a receiver, so that one wake-up takes several packets.
//!
//! For a receiver, waking up costs more than reading the packets. In a fast stream with kernel stamps, the
//! receiver reads all packets that have arrived, pauses for up to a millisecond, and reads again. The results
//! do not depend on when packets are read, because the kernel stamps them. Each pause is short enough that
//! the expected packets fit into a part of the socket's buffer. Once the kernel has dropped a packet because
//! the buffer was full, no more pauses are made.

use jitlat_core::{Schedule, Span, SteadyTime, TestSpec};

/// Maximum pause, shorter than [`TestSpec::read_pause`] permits: the difference allows for late wake-ups.
const MAX_PAUSE: Span = Span::micros(900);
/// Minimum number of packets expected in a pause; for fewer packets, a pause does not pay off.
const MIN_PACKETS: u64 = 4;
/// Divisor of the socket's buffer size: the quotient is the part that may fill up during a pause.
const BUFFER_SHARE: u64 = 4;
/// Memory that the kernel charges for a packet in addition to its payload, in bytes: a page of the adapter's
/// memory, and the packet's descriptor.
const OVERHEAD: u64 = 4096 + 512;

/// Determines the pause of a receiver after each reading.
#[derive(Debug)]
pub(super) struct BatchPacing {
    /// Maximum number of packets that may arrive during a pause; 0: no pauses.
    room: u64,
    /// Number of packets that arrive together.
    burst: u64,
    /// Time at which the socket was last found empty; `None` if it never was.
    emptied: Option<SteadyTime>,
    taken: u64,
    /// Number of datagrams that the kernel had dropped by the last reading.
    drops: u32,
    longest: Span,
}

/// Result of one reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchReading {
    /// Number of packets that were read.
    pub packets: usize,
    /// True if the reading took the maximum number of packets, so that more may be waiting.
    pub full: bool,
    /// True if all packets have arrival stamps of the kernel or the adapter.
    pub stamped: bool,
    /// Number of datagrams that the kernel has dropped so far because the socket's buffer was full; `None` if
    /// unknown.
    pub drops: Option<u32>,
}

impl BatchPacing {
    /// Creates the pacing for a stream of `spec` that is received through a socket with a buffer of `buffer`
    /// bytes.
    pub fn new(spec: &TestSpec, buffer: usize) -> BatchPacing {
        let bytes = u64::from(spec.payload()).next_power_of_two() + OVERHEAD;
        let room = if spec.read_pause() == Span::ZERO { 0 } else { buffer as u64 / BUFFER_SHARE / bytes };
        let burst = match spec.schedule() {
            Schedule::Burst { size } => size.into(),
            _ => 1,
        };
        BatchPacing { room, burst, emptied: None, taken: 0, drops: 0, longest: Span::ZERO }
    }

    /// Returns the length of the pause after a reading at `now`.
    pub fn pause(&mut self, now: SteadyTime, reading: BatchReading) -> Span {
        if self.room == 0 {
            return Span::ZERO;
        }
        let drops = reading.drops.unwrap_or(self.drops);
        if drops != self.drops || !reading.stamped {
            // A pause would falsify results from here on: dropped packets count as lost, and unstamped
            // packets seem to arrive late if they are read late.
            self.room = 0;
            return Span::ZERO;
        }
        self.taken += reading.packets as u64;
        // More packets may be queued, so read on at once.
        if reading.full {
            return Span::ZERO;
        }
        let taken = std::mem::take(&mut self.taken);
        let Some(since) = self.emptied.replace(now) else { return Span::ZERO };
        let pause = self.within(taken, now - since);
        self.longest = self.longest.max(pause);
        pause
    }

    /// Returns the pause for a stream that delivered `taken` packets within `time`.
    fn within(&self, taken: u64, time: Span) -> Span {
        let (taken, time) = (taken.max(1), time.0.max(1).unsigned_abs());
        // A burst may arrive at any time during the pause.
        let room = self.room.saturating_sub(self.burst);
        let fitting = room.saturating_mul(time) / taken;
        let pause = fitting.min(MAX_PAUSE.0.unsigned_abs());
        let expected = pause.saturating_mul(taken) / time;
        if expected < MIN_PACKETS { Span::ZERO } else { Span(pause as i64) }
    }

    /// Returns the longest pause so far; `None` if there was none.
    pub fn longest(&self) -> Option<Span> {
        Some(self.longest).filter(|pause| *pause > Span::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::{Direction, Transport};

    /// Typical sizes of socket buffers without and with privileges.
    const SMALL: usize = 425_984;
    const LARGE: usize = 16 << 20;

    fn batches(period: Span, schedule: Schedule, buffer: usize) -> BatchPacing {
        let spec = TestSpec::new(Direction::Up, Transport::Udp, 1000, 80, period, schedule).unwrap();
        BatchPacing::new(&spec, buffer)
    }

    /// Returns the pauses, in µs, of a receiver that always wakes in time and reads at most 32 packets per
    /// call; `rate` packets arrive per millisecond.
    fn pauses(mut batches: BatchPacing, rate: i64) -> Vec<i64> {
        let (mut now, mut read, mut pauses) = (0, 0, Vec::new());
        for _ in 0..2000 {
            let waiting = now * rate / 1_000_000 - read;
            let packets = waiting.clamp(1, 32);
            // If no packet is queued, the call lasts until the next one arrives.
            now = now.max((read + packets) * 1_000_000 / rate);
            read += packets;
            let reading = BatchReading {
                packets: packets as usize,
                full: packets == 32,
                stamped: true,
                drops: Some(0),
            };
            let pause = batches.pause(SteadyTime(now), reading);
            now += pause.0 + 2000;
            pauses.push(pause.0 / 1000);
        }
        pauses
    }

    fn most(pauses: &[i64]) -> i64 {
        *pauses.iter().max().unwrap()
    }

    #[test]
    fn fast_streams_are_read_about_once_a_millisecond() {
        for (rate, per_wake) in [(10, 8), (100, 85), (300, 255)] {
            let pauses = pauses(batches(Span(1_000_000 / rate), Schedule::Periodic, LARGE), rate);
            let pausing = pauses.iter().filter(|us| **us > 0).count() as i64;
            let readings = pauses.len() as i64;
            assert!(most(&pauses) <= 900, "{rate}");
            // For each pause: full readings of 32 packets, and one reading that is not full.
            assert!(pausing * (per_wake / 32 + 2) >= readings * 9 / 10, "{rate}: {pausing} of {readings}");
        }
    }

    #[test]
    fn slow_streams_are_read_packet_by_packet() {
        for rate in [1, 2, 3] {
            assert_eq!(most(&pauses(batches(Span::micros(1000 / rate), Schedule::Periodic, LARGE), rate)), 0);
        }
        // The stream is fast according to its specification, but arrives slowly.
        assert_eq!(most(&pauses(batches(Span::micros(10), Schedule::Periodic, LARGE), 3)), 0);
    }

    #[test]
    fn what_comes_in_a_pause_has_room_in_a_quarter_of_the_buffer() {
        for (buffer, rate) in [(SMALL, 10), (SMALL, 100), (SMALL, 1000), (LARGE, 1000), (LARGE, 4000)] {
            let pause = most(&pauses(batches(Span(1_000_000 / rate), Schedule::Periodic, buffer), rate));
            assert!(pause > 0 && pause * rate / 1000 * 4736 <= buffer as i64 / 4, "{buffer} {rate}: {pause}");
        }
        // A burst may arrive at any time: if the buffer cannot hold a burst, no pause is made, regardless of
        // earlier arrivals.
        let of = |size| most(&pauses(batches(Span::micros(10), Schedule::Burst { size }, SMALL), 100));
        assert_eq!((of(10) > 0, of(1000)), (true, 0));
    }

    #[test]
    fn a_dropped_packet_or_one_without_a_stamp_ends_the_pauses() {
        let reading = BatchReading { packets: 10, full: false, stamped: true, drops: Some(0) };
        for bad in [
            BatchReading { drops: Some(1), ..reading },
            BatchReading { stamped: false, ..reading },
            BatchReading { drops: Some(1), full: true, ..reading },
        ] {
            let mut batches = batches(Span::micros(10), Schedule::Periodic, LARGE);
            let mut at = |us: i64, reading| batches.pause(SteadyTime(us * 1000), reading);
            assert_eq!(at(0, reading), Span::ZERO, "nothing is known of the rate yet");
            assert_eq!(at(100, reading), MAX_PAUSE);
            assert_eq!(
                at(1000, BatchReading { drops: None, ..reading }),
                MAX_PAUSE,
                "the kernel said nothing"
            );
            assert_eq!(at(1100, bad), Span::ZERO);
            assert_eq!([1200, 1300, 9000].map(|us| at(us, reading)), [Span::ZERO; 3]);
            assert_eq!(batches.longest(), Some(MAX_PAUSE));
        }
    }

    #[test]
    fn any_times_and_counts_are_survived() {
        let mut batches = batches(Span(1), Schedule::Periodic, usize::MAX);
        for at in [i64::MAX, 0, i64::MIN + 1, 5, 5] {
            let reading = BatchReading { packets: usize::MAX, full: false, stamped: true, drops: None };
            let pause = batches.pause(SteadyTime(at), reading);
            assert!((Span::ZERO..=MAX_PAUSE).contains(&pause));
        }
    }
}

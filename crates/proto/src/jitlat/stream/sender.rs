//! [`StreamSender`]: schedules packets and sentinels.

use super::sentinel_interval;
use crate::jitlat::packet::SENTINEL;
use jitlat_core::schedule::Deadlines;
use jitlat_core::{Span, SteadyTime, TestSpec};

/// Time for which a sender repeats unanswered sentinels. Normally the control state machine stops it much
/// earlier; this limit is for senders that are no longer controlled.
const SENTINEL_TIMEOUT: Span = Span::seconds(60);

/// A packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledPacket {
    /// Time at which the packet is due, on the steady clock. If this time has passed, the sender is late and
    /// sends at once.
    pub at: SteadyTime,
    /// Sequence number of the packet; −1 for a sentinel.
    pub seq: i32,
}

impl ScheduledPacket {
    /// True if this is a sentinel, not a data packet.
    pub fn is_sentinel(&self) -> bool {
        self.seq == SENTINEL
    }
}

/// Sender of one stream: sends data packets at absolute due times, then sentinels until the receiver has
/// answered.
///
/// ```text
/// while let Some(due) = sender.due() { sleep until due.at; send; sender.sent(now) }
/// ```
#[derive(Clone, Debug)]
pub struct StreamSender {
    start: SteadyTime,
    deadlines: Deadlines,
    interval: Span,
    due: Option<ScheduledPacket>,
    attempted: u32,
    failed: u32,
    sentinels: u32,
    /// Time until which unanswered sentinels are sent; valid once the last packet has been sent.
    until: SteadyTime,
}

impl StreamSender {
    /// Creates a sender of `spec` whose first packet is due at `start` on the steady clock.
    pub fn new(spec: &TestSpec, start: SteadyTime) -> StreamSender {
        let mut sender = StreamSender {
            start,
            deadlines: Deadlines::new(spec),
            interval: sentinel_interval(spec),
            due: None,
            attempted: 0,
            failed: 0,
            sentinels: 0,
            until: start,
        };
        sender.step(start);
        sender
    }

    /// Returns the next packet to send; `None` once the stream is over.
    #[inline]
    pub fn due(&self) -> Option<ScheduledPacket> {
        self.due
    }

    /// Records that the [due](StreamSender::due) packet was sent at `now`.
    #[inline]
    pub fn sent(&mut self, now: SteadyTime) {
        let Some(due) = self.due else { return };
        if due.is_sentinel() {
            self.sentinels += 1;
        } else {
            self.attempted += 1;
        }
        self.step(now);
    }

    /// Records that the [due](StreamSender::due) packet could not be sent. It is not sent again, because a
    /// late packet would be a wrong measurement.
    pub fn failed(&mut self, now: SteadyTime) {
        if self.due.is_some_and(|d| !d.is_sentinel()) {
            self.failed += 1;
        }
        self.sent(now);
    }

    /// Ends the stream early: from `now` on, only sentinels are sent.
    pub fn cut(&mut self, now: SteadyTime) {
        if self.is_streaming() {
            self.until = now + SENTINEL_TIMEOUT;
            self.due = Some(ScheduledPacket { at: now, seq: SENTINEL });
        }
    }

    /// Stops sending, because the receiver has answered or the test is given up.
    pub fn stop(&mut self) {
        self.due = None;
    }

    /// True if more data packets are due.
    pub fn is_streaming(&self) -> bool {
        self.due.is_some_and(|d| !d.is_sentinel())
    }

    /// Returns the number of data packets so far, including those that the system did not accept; this is the
    /// last sequence number plus one.
    pub fn attempted(&self) -> u32 {
        self.attempted
    }

    /// Returns the number of data packets that the system refused to send.
    pub fn failures(&self) -> u32 {
        self.failed
    }

    #[inline]
    fn step(&mut self, now: SteadyTime) {
        let sentinel = self.due.is_some_and(|d| d.is_sentinel());
        self.due = match self.deadlines.next() {
            Some(offset) if !sentinel => {
                Some(ScheduledPacket { at: self.start + offset, seq: self.attempted as i32 })
            }
            _ => {
                if !sentinel {
                    self.until = now + self.interval + SENTINEL_TIMEOUT;
                }
                let at = now + self.interval;
                (at <= self.until).then_some(ScheduledPacket { at, seq: SENTINEL })
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::spec::{Direction, Schedule, Transport};

    fn spec(n: u64, period: Span, schedule: Schedule) -> TestSpec {
        TestSpec::new(Direction::Up, Transport::Udp, n, 80, period, schedule).unwrap()
    }

    /// Sends everything exactly on time. Returns all packets, up to the sentinel number `stop_after`.
    fn run(spec: &TestSpec, stop_after: usize) -> Vec<ScheduledPacket> {
        let mut sender = StreamSender::new(spec, SteadyTime(1000));
        let (mut all, mut sentinels) = (Vec::new(), 0);
        while let Some(due) = sender.due() {
            all.push(due);
            sentinels += usize::from(due.is_sentinel());
            if sentinels == stop_after {
                sender.stop();
            } else {
                sender.sent(due.at);
            }
        }
        all
    }

    #[test]
    fn packets_on_the_grid_then_sentinels_at_a_tenth_of_the_rate() {
        let p = 20_000_000;
        let all = run(&spec(3, Span(p), Schedule::Periodic), 3);
        let want = [(0, 0), (p, 1), (2 * p, 2), (12 * p, -1), (22 * p, -1), (32 * p, -1)];
        assert_eq!(all, want.map(|(at, seq)| ScheduledPacket { at: SteadyTime(1000 + at), seq }));
    }

    #[test]
    fn every_stream_ends_in_bounded_time() {
        for period in [Span(1), Span::micros(1), Span::millis(20), Span::seconds(3600)] {
            let all = run(&spec(3, period, Schedule::Periodic), usize::MAX);
            let last_packet = all[2].at;
            let last = all.last().unwrap();
            assert!(last.is_sentinel() && last.at - last_packet <= Span::seconds(70), "{last:?}");
            assert!(all.len() < 70_000 && all.len() >= 8, "{} dues at {period:?}", all.len());
        }
    }

    #[test]
    fn a_cut_stream_turns_to_sentinels_at_once() {
        let mut sender = StreamSender::new(&spec(1000, Span::millis(20), Schedule::Periodic), SteadyTime(0));
        for _ in 0..5 {
            let due = sender.due().unwrap();
            sender.sent(due.at);
        }
        sender.cut(SteadyTime(90_000_000));
        assert_eq!(sender.due(), Some(ScheduledPacket { at: SteadyTime(90_000_000), seq: SENTINEL }));
        sender.sent(SteadyTime(90_000_000));
        assert_eq!(sender.due(), Some(ScheduledPacket { at: SteadyTime(290_000_000), seq: SENTINEL }));
        assert_eq!((sender.attempted(), sender.is_streaming()), (5, false));
        sender.stop();
        assert_eq!(sender.due(), None);
    }

    #[test]
    fn a_packet_that_cannot_be_sent_keeps_its_number() {
        let mut sender = StreamSender::new(&spec(3, Span(10), Schedule::Burst { size: 2 }), SteadyTime(0));
        sender.failed(SteadyTime(0));
        assert_eq!(sender.due(), Some(ScheduledPacket { at: SteadyTime(0), seq: 1 }));
        sender.sent(SteadyTime(1));
        sender.sent(SteadyTime(20));
        assert_eq!((sender.attempted(), sender.failures()), (3, 1));
    }
}

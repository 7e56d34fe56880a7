//! [`Greeter`]: checks the test path before the stream (version 3).

use crate::jitlat::packet::{HEADER_LEN, PacketHeader};
use jitlat_core::{Span, SteadyTime};

/// Minimum number of greetings. Sending several also gives the kernels time to start timestamping, which is
/// asynchronous.
const MIN_GREETINGS: u32 = 4;
/// Initial time between greetings; the time grows to one second.
const FIRST_GAP: Span = Span::millis(20);
const MAX_GAP: Span = Span::seconds(1);

/// Client's greeting on one test socket: sends HELLO packets until one is returned.
#[derive(Clone, Debug)]
pub struct Greeter {
    token: u64,
    sent: u32,
    answered: bool,
    due: SteadyTime,
    gap: Span,
    until: SteadyTime,
}

impl Greeter {
    /// Creates a greeter that sends `token`, starting at `now` on the steady clock, for at most `timeout`.
    pub fn new(token: u64, now: SteadyTime, timeout: Span) -> Greeter {
        Greeter { token, sent: 0, answered: false, due: now, gap: FIRST_GAP, until: now + timeout }
    }

    /// Returns the greeting to send at `now`, if one is due.
    pub fn poll_send(&mut self, now: SteadyTime) -> Option<[u8; HEADER_LEN]> {
        if now < self.due || self.is_done() || self.gave_up(now) {
            return None;
        }
        self.sent += 1;
        self.due = now + self.gap;
        if self.sent >= MIN_GREETINGS {
            self.gap = Span(self.gap.times(2).0.min(MAX_GAP.0));
        }
        Some(PacketHeader::hello(self.token).to_bytes())
    }

    /// Handles a packet received on the test socket. Returns true if it is this greeter's greeting, returned
    /// by the server.
    pub fn handle(&mut self, packet: &[u8]) -> bool {
        let ours = PacketHeader::parse(packet).and_then(|h| h.hello_token()) == Some(self.token);
        self.answered |= ours;
        ours
    }

    /// True if the path works and timestamping has started.
    pub fn is_done(&self) -> bool {
        self.answered && self.sent >= MIN_GREETINGS
    }

    /// True if no greeting was answered in time.
    pub fn gave_up(&self, now: SteadyTime) -> bool {
        !self.answered && now >= self.until
    }

    /// Returns the time of the next action, on the steady clock.
    pub fn deadline(&self) -> SteadyTime {
        if self.answered { self.due } else { self.due.min(self.until) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greets_until_answered_and_at_least_four_times() {
        let mut greeter = Greeter::new(7, SteadyTime(0), Span::seconds(5));
        let hello = greeter.poll_send(SteadyTime(0)).unwrap();
        assert!(greeter.poll_send(SteadyTime(1)).is_none(), "not before the next is due");
        assert!(!greeter.handle(&PacketHeader::hello(8).to_bytes()), "another's token");
        assert!(greeter.handle(&hello));
        let mut times = vec![];
        while !greeter.is_done() {
            let now = greeter.deadline();
            times.push(now.0 / 1_000_000);
            assert!(greeter.poll_send(now).is_some());
        }
        assert_eq!(times, [20, 40, 60]);
        assert!(!greeter.gave_up(SteadyTime(i64::MAX)));
    }

    #[test]
    fn gives_up_in_bounded_time_with_few_packets() {
        let mut greeter = Greeter::new(7, SteadyTime(0), Span::seconds(8));
        let mut sent = 0;
        let mut now = SteadyTime(0);
        while !greeter.gave_up(now) {
            sent += u32::from(greeter.poll_send(now).is_some());
            assert!(greeter.deadline() > now);
            now = greeter.deadline();
        }
        assert_eq!(now, SteadyTime(8_000_000_000));
        assert!((8..20).contains(&sent), "{sent}");
    }
}

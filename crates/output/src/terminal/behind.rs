//! [`SenderLag`]: detects, while a stream runs, that its sender is falling behind its schedule.

use jitlat_verdict::rate;
use std::time::{Duration, Instant};

/// Minimum lag, in seconds. A sender with less lag may still catch up.
const MIN_LAG: f64 = 0.5;
/// Minimum lag as a share of the elapsed time. It allows for the error of timers.
const MIN_LAG_SHARE: f64 = 0.02;
/// Number of consecutive increases of the lag after which it is reported.
const MIN_CONSECUTIVE: u32 = 4;

/// Lag of a sender compared with its schedule.
#[derive(Debug, Default)]
pub struct SenderLag {
    /// Time of the first call of [`look`](Self::look) after packets were sent, and the number of packets at that time.
    first: Option<(Instant, u32)>,
    /// Lag at the last call, in seconds.
    seconds: f64,
    /// Number of consecutive calls in which the lag increased.
    growing: u32,
    is_said: bool,
}

impl SenderLag {
    /// Returns a message if the sender keeps falling behind its schedule, but only once; otherwise `None`. `sent` is
    /// the number of packets sent by `now`, `period` the time between packets in seconds. A lag of up to one period is
    /// ignored, because the next packet may not be due earlier.
    pub fn look(&mut self, now: Instant, sent: u32, period: f64) -> Option<String> {
        let (since, before) = match self.first {
            None if sent == 0 => return None,
            first => *self.first.insert(first.unwrap_or((now, sent))),
        };
        let elapsed = now.saturating_duration_since(since).as_secs_f64();
        let packets = f64::from(sent.saturating_sub(before));
        let seconds = elapsed - (packets + 1.0) * period;
        self.growing = if seconds > self.seconds { self.growing + 1 } else { 0 };
        self.seconds = seconds;
        let far = seconds > MIN_LAG.max(MIN_LAG_SHARE * elapsed) && self.growing >= MIN_CONSECUTIVE;
        if !far || std::mem::replace(&mut self.is_said, true) {
            return None;
        }
        Some(format!(
            "this host sends only about {} of {} packets per second and is {:.1?} behind schedule; \
             --pace spin may help",
            rate(packets / elapsed),
            rate(1.0 / period),
            Duration::from_secs_f64(seconds)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the messages about a sender of one packet per 10 µs, each with the time at which it appears, in fifths of a second;
    /// `sent` returns the number of packets sent by such a time.
    fn said(sent: impl Fn(u32) -> u32) -> Vec<(u32, String)> {
        said_of(1e-5, 60, sent)
    }

    /// Like [`said`], with one packet per `period` seconds, over `fifths` fifths of a second.
    fn said_of(period: f64, fifths: u32, sent: impl Fn(u32) -> u32) -> Vec<(u32, String)> {
        let (start, mut behind) = (Instant::now(), SenderLag::default());
        let look = |k: u32| {
            let now = start + Duration::from_millis(200) * k;
            Some((k, behind.look(now, sent(k), period)?))
        };
        (0..fifths).filter_map(look).collect()
    }

    #[test]
    fn a_sender_that_falls_behind_is_said_once() {
        let slow = said(|k| k * 15_000);
        assert_eq!(slow.len(), 1);
        let (when, text) = &slow[0];
        assert!((10..=12).contains(when), "{slow:?}");
        assert!(text.starts_with("this host sends only about 75000 of 100000 packets per second"), "{text}");
    }

    #[test]
    fn one_that_keeps_its_schedule_or_catches_up_is_not() {
        assert_eq!(said(|k| k * 20_000), []);
        // A stall of 0.8 s, after which the sender catches up at once.
        assert_eq!(said(|k| if (10..14).contains(&k) { 200_000 } else { k * 20_000 }), []);
        assert_eq!(said(|k| k * 19_800), [], "1 % is a timer's");
        assert_eq!(said(|_| 0), [], "it has not begun");
    }
    #[test]
    fn between_two_packets_of_a_slow_stream_nothing_is_overdue() {
        for ms in [500, 700, 1000, 2500, 10_000, 60_000] {
            let sent = |k: u32| 1 + k * 200 / ms;
            assert_eq!(said_of(f64::from(ms) / 1e3, 2000, sent), [], "one packet per {ms} ms");
        }
    }

    #[test]
    fn a_slow_stream_that_falls_behind_has_its_rates_in_the_message() {
        // One packet per 1.4 s instead of 0.7 s.
        let slow = said_of(0.7, 100, |k| 1 + k * 200 / 1400);
        assert_eq!(slow.len(), 1, "{slow:?}");
        let text = &slow[0].1;
        assert!(
            text.starts_with("this host sends only about 0.") && text.contains(" of 1.4 packets per second"),
            "{text}"
        );
    }
}

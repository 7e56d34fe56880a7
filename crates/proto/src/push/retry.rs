//! [`Retry`]: pauses between a sender's attempts.

use jitlat_core::SteadyTime;
use jitlat_core::time::Span;

/// First pause after a failure, and longest pause.
const PAUSE_RANGE: (Span, Span) = (Span::seconds(5), Span::seconds(300));

/// Computes pauses that grow with every failure and differ between hosts, so that hosts do not all reconnect at once.
#[derive(Clone, Debug)]
pub struct Retry {
    failures: u32,
    /// State of the generator of random numbers that shorten pauses.
    random: u64,
    until: Option<SteadyTime>,
}

impl Retry {
    /// Creates a `Retry` without failures; `seed` must differ between hosts.
    pub fn new(seed: u64) -> Retry {
        Retry { failures: 0, random: seed | 1, until: None }
    }

    /// Records a failed attempt at `now`; `pause` is the pause that the collector requested. Returns the
    /// pause until the next attempt.
    pub fn failed(&mut self, now: SteadyTime, pause: Span) -> Span {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let grown = PAUSE_RANGE.0.times(1 << self.failures.min(10)).min(PAUSE_RANGE.1).max(pause);
        self.failures = self.failures.saturating_add(1);
        // Shorten the pause at random by up to a quarter, but not below the pause that the collector
        // requested.
        let shorter = Span((grown.0 / 4 / 1000) * (self.random % 1000) as i64);
        let wait = Span(grown.0 - shorter.0).max(pause);
        self.until = Some(now + wait);
        wait
    }

    /// Records a successful attempt.
    pub fn succeeded(&mut self) {
        (self.failures, self.until) = (0, None);
    }

    /// Returns the time from which the next attempt is allowed; `None`: at once.
    pub fn due(&self) -> Option<SteadyTime> {
        self.until
    }

    /// True if an attempt is allowed at `now`.
    pub fn may_try(&self, now: SteadyTime) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// Returns the number of consecutive failures.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

//! [`Retry`]: when a sender tries again.

use jitlat_core::SteadyTime;
use jitlat_core::time::Span;

/// The first pause, and the longest.
const PAUSE_RANGE: (Span, Span) = (Span::seconds(5), Span::seconds(300));

/// Pauses that grow with every failure, and differ between hosts, so that not all come back at once.
#[derive(Clone, Debug)]
pub struct Retry {
    failures: u32,
    /// State of the numbers by which pauses are shortened.
    random: u64,
    until: Option<SteadyTime>,
}

impl Retry {
    /// Nothing has failed; `seed` is another one on each host.
    pub fn new(seed: u64) -> Retry {
        Retry { failures: 0, random: seed | 1, until: None }
    }

    /// It failed at `now`, and the collector asked for `pause`; how long is waited.
    pub fn failed(&mut self, now: SteadyTime, pause: Span) -> Span {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let grown = PAUSE_RANGE.0.times(1 << self.failures.min(10)).min(PAUSE_RANGE.1).max(pause);
        self.failures = self.failures.saturating_add(1);
        // Between three quarters of it and the whole, but never less than the collector asks for.
        let shorter = Span((grown.0 / 4 / 1000) * (self.random % 1000) as i64);
        let wait = Span(grown.0 - shorter.0).max(pause);
        self.until = Some(now + wait);
        wait
    }

    /// It went well.
    pub fn succeeded(&mut self) {
        (self.failures, self.until) = (0, None);
    }

    /// When it may be tried again; `None`: at once.
    pub fn due(&self) -> Option<SteadyTime> {
        self.until
    }

    /// Whether it may be tried at `now`.
    pub fn may_try(&self, now: SteadyTime) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// How often in a row it has failed.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

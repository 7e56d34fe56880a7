//! [`Police`]: a token bucket that drops packets above a rate, without delaying any.

use jitlat_core::time::{SECOND, Span, SteadyTime};

/// Settings of a token bucket, which is full at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Police {
    /// Permitted rate in bits per second.
    pub bits: u64,
    /// Number of bytes that may pass at once.
    pub burst: u64,
    /// Interval at which the bucket is filled; zero: continuously.
    pub every: Span,
}

/// State of a token bucket while packets pass through it.
#[derive(Clone, Debug)]
pub(super) struct Policer {
    law: Police,
    tokens: f64,
    last: Option<SteadyTime>,
}

impl Policer {
    pub fn new(law: Police) -> Policer {
        Policer { law, tokens: law.burst as f64, last: None }
    }

    /// Returns true if a packet that arrives at `now` passes.
    pub fn passes(&mut self, now: SteadyTime, bytes: usize) -> bool {
        let last = *self.last.get_or_insert(now);
        let every = self.law.every.0;
        let elapsed = (now - last).0.max(0);
        let counted = if every > 0 { elapsed - elapsed % every } else { elapsed };
        self.last = Some(last + Span(counted));
        let added = counted as f64 * self.law.bits as f64 / (8 * SECOND) as f64;
        self.tokens = (self.tokens + added).min(self.law.burst as f64);
        let passes = self.tokens >= bytes as f64;
        self.tokens -= if passes { bytes as f64 } else { 0.0 };
        passes
    }
}

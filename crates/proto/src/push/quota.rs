//! [`PushUse`]: what one host pushes, against its [`PushQuota`].

use jitlat_core::{Span, SteadyTime};

/// Time for which the number of tests per second may be used at once.
const BURST: Span = Span::seconds(20);
const DAY: Span = Span::seconds(86_400);

/// Limits of what one host pushes to a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushQuota {
    /// Tests per second, on average over 20 s.
    pub tests_per_second: u32,
    /// Bytes of logs per day.
    pub bytes_per_day: u64,
    /// Bytes of logs whose packets the collector keeps.
    pub bytes: u64,
}

impl Default for PushQuota {
    fn default() -> PushQuota {
        PushQuota { tests_per_second: 200, bytes_per_day: 100_000_000_000, bytes: 2_000_000_000_000 }
    }
}

/// Reason why a test exceeds a quota, and the time until it may fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct OverQuota {
    /// Quota that is exceeded.
    pub what: String,
    /// Time until the next attempt is useful.
    pub wait: Span,
}

/// Use that one host makes of its quota.
#[derive(Clone, Debug)]
pub struct PushUse {
    /// Tests that were pushed, each counted as the time in which the rate permits one.
    tests: Level,
    /// Bytes of logs that were pushed, counted as their share of a day.
    bytes: Level,
}

/// Level that falls as time passes and must not exceed a limit.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Time that the level needs to fall to zero.
    full: Span,
    at: SteadyTime,
}

impl Level {
    fn now(&self, now: SteadyTime) -> Span {
        Span((self.full.0.saturating_sub((now - self.at).0.max(0))).max(0))
    }

    /// Returns the time until `cost` fits below `limit`; zero if it fits now.
    fn wait(&self, now: SteadyTime, cost: Span, limit: Span) -> Span {
        Span(self.now(now).0.saturating_add(cost.0).saturating_sub(limit.0).max(0))
    }

    fn add(&mut self, now: SteadyTime, cost: Span) {
        *self = Level { full: Span(self.now(now).0.saturating_add(cost.0)), at: now };
    }
}

/// Returns the part of a day in which a quota of `per_day` bytes permits `bytes`.
fn share(bytes: u64, per_day: u64) -> Span {
    let share = u128::from(bytes) * DAY.0 as u128 / u128::from(per_day.max(1));
    Span(i64::try_from(share).unwrap_or(i64::MAX))
}

impl PushUse {
    /// Creates the use of a host that pushed `bytes` within the last day.
    pub fn new(quota: &PushQuota, bytes: u64, now: SteadyTime) -> PushUse {
        let level = |full| Level { full, at: now };
        PushUse { tests: level(Span::ZERO), bytes: level(share(bytes, quota.bytes_per_day).min(DAY)) }
    }

    /// Counts a test of `bytes`, if the quota leaves room for it; `stored` is the number of bytes of the host's logs that the
    /// collector keeps.
    ///
    /// # Errors
    /// [`OverQuota`]; nothing is counted.
    pub fn take(
        &mut self,
        quota: &PushQuota,
        bytes: u64,
        stored: u64,
        now: SteadyTime,
    ) -> Result<(), OverQuota> {
        let PushQuota { tests_per_second, bytes_per_day, bytes: in_all } = *quota;
        let test = Span(1_000_000_000 / i64::from(tests_per_second.max(1)));
        let wait = self.tests.wait(now, test, BURST);
        if wait > Span::ZERO {
            return Err(OverQuota { what: format!("more than {tests_per_second} tests/s"), wait });
        }
        let day = share(bytes, bytes_per_day);
        let wait = self.bytes.wait(now, day, DAY);
        if wait > Span::ZERO {
            return Err(OverQuota { what: format!("more than {bytes_per_day} bytes in a day"), wait });
        }
        if stored.saturating_add(bytes) > in_all {
            // Only retention makes room.
            return Err(OverQuota {
                what: format!("more than {in_all} bytes in all"),
                wait: Span::seconds(600),
            });
        }
        self.tests.add(now, test);
        self.bytes.add(now, day);
        Ok(())
    }
}

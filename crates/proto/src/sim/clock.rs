//! [`SimClock`]: a host's clock relative to the true time.

use crate::Tick;
use jitlat_core::{Span, SteadyTime, WallTime};

/// Start time of the simulation on a perfect wall clock: the second in which the first packet of DRDC TM 2011-047,
/// Figure 6, was sent.
pub const EPOCH: WallTime = WallTime(1_246_650_331_000_000_000);

/// A clock with a fixed offset and a constant rate error. Both clocks of a host run at the same rate; only
/// the wall clock has the offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimClock {
    /// Wall clock minus true time at the start.
    pub offset: Span,
    /// Rate error in parts per billion; positive: fast.
    pub skew_ppb: i64,
}

impl SimClock {
    /// Returns the readings of both clocks at true time `t` since the start.
    pub fn tick(&self, t: Span) -> Tick {
        let steady = SteadyTime(t.0 + self.drift(t.0));
        Tick { wall: EPOCH + self.offset + Span(steady.0), steady }
    }

    /// Returns the first true time at which the steady clock shows `at` or later.
    pub fn when(&self, at: SteadyTime) -> Span {
        let billion = 1_000_000_000_i128;
        let guess = i128::from(at.0) * billion / (billion + i128::from(self.skew_ppb));
        let mut t = Span((guess as i64).saturating_sub(2).max(0));
        while self.tick(t).steady < at {
            t = t + Span(1);
        }
        t
    }

    fn drift(&self, t: i64) -> i64 {
        (i128::from(t) * i128::from(self.skew_ppb) / 1_000_000_000) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_is_the_inverse_of_tick() {
        for skew_ppb in [-120_000, 0, 7, 120_000] {
            let clock = SimClock { offset: Span::seconds(31), skew_ppb };
            for at in [0, 1, 999_999_999, 3_600_000_000_000] {
                let t = clock.when(SteadyTime(at));
                assert!(clock.tick(t).steady >= SteadyTime(at));
                assert!(t.0 == 0 || clock.tick(t - Span(1)).steady < SteadyTime(at), "{skew_ppb} {at}");
            }
        }
        let fast = SimClock { offset: Span::ZERO, skew_ppb: 120_000 };
        assert_eq!(fast.tick(Span::seconds(1000)).steady, SteadyTime(1_000_120_000_000));
    }
}

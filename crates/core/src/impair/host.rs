//! [`Host`]: one end of a test, as imperfect as hosts are.

use super::{Choice, Competition, Jitter, Rate};
use crate::time::{Source, Span, WallTime};

/// One end of a test. The default is a perfect one whose programs take their own stamps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// Its clock.
    pub clock: Clock,
    /// How late its program wakes up for each packet it sends.
    pub wake: Jitter,
    /// Times at which its program does not run: what it should send then leaves at the end, and what comes then is
    /// read at the end.
    pub stalls: Vec<Pause>,
    /// The rate and queue of its own interface.
    pub interface: Option<Rate>,
    /// Others of its programs that use that interface.
    pub competition: Vec<Competition>,
    /// Packets its kernel refuses to send.
    pub refused: Choice,
    /// From a packet's arrival to its reading by the program.
    pub reading: Jitter,
    /// Where its stamps are taken: by the program, or by the kernel as the interface takes the packet over.
    pub stamps: Source,
    /// Smallest step of its stamps; zero = a nanosecond.
    pub resolution: Span,
}

/// A time during which something stands still, counted from when the first packet is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Its beginning.
    pub from: Span,
    /// Its length.
    pub length: Span,
}

/// A wall clock's error over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Wall clock minus true time when the first packet is due.
    pub offset: Span,
    /// Rate error in parts per billion, > 0 = fast.
    pub skew_ppb: i64,
    /// What was done to it, ascending.
    pub shifts: Vec<Shift>,
}

/// A change of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// When, from when the first packet is due.
    pub at: Span,
    /// By how much.
    pub by: Span,
    /// Over how long: zero is a step, anything else a slew.
    pub over: Span,
}

impl Clock {
    /// What it shows `t` after the first packet is due, which is at `epoch` by a perfect clock.
    pub fn at(&self, epoch: WallTime, t: Span) -> WallTime {
        let drift = (i128::from(t.0) * i128::from(self.skew_ppb) / 1_000_000_000) as i64;
        let shifted = self.shifts.iter().map(|s| s.by_time(t)).fold(Span::ZERO, |sum, by| sum + by);
        epoch + t + self.offset + Span(drift) + shifted
    }
}

impl Shift {
    fn by_time(&self, t: Span) -> Span {
        if t < self.at {
            Span::ZERO
        } else if t >= self.at + self.over {
            self.by
        } else {
            Span((self.by.0 as f64 * (t - self.at).0 as f64 / self.over.0 as f64) as i64)
        }
    }
}

impl Host {
    /// A stamp `t` after the first packet is due.
    pub(super) fn stamp(&self, epoch: WallTime, t: Span) -> WallTime {
        let exact = self.clock.at(epoch, t);
        WallTime(exact.0 - exact.0.rem_euclid(self.resolution.0.max(1)))
    }

    /// When its program, due to run at `t`, does.
    pub(super) fn runs(&self, t: Span) -> Span {
        let stall = self.stalls.iter().find(|s| t >= s.from && t < s.from + s.length);
        stall.map_or(t, |s| s.from + s.length)
    }
}

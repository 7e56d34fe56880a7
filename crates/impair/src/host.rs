//! [`HostModel`]: an imperfect host at one end of a test.

use super::{Choice, Competition, Jitter, RateBottleneck};
use jitlat_core::time::{Span, StampSource, WallTime};

/// One end of a test. The default is a perfect host whose programs take the stamps themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostModel {
    /// Its clock.
    pub clock: Clock,
    /// How late its program wakes up for each packet it sends.
    pub wake: Jitter,
    /// Times during which its program does not run: what it should send leaves at the end, and what arrives is read at
    /// the end.
    pub stalls: Vec<Pause>,
    /// The rate and queue of its own interface.
    pub interface: Option<RateBottleneck>,
    /// Other programs of the host that use that interface.
    pub competition: Vec<Competition>,
    /// Packets its kernel refuses to send.
    pub refused: Choice,
    /// From a packet's arrival to its reading by the program.
    pub reading: Jitter,
    /// Source of its stamps: the program, or the kernel when the interface takes the packet.
    pub stamps: StampSource,
    /// Packets whose entry into the queue of the interface its kernel stamps, too, where the stamps are the kernel's.
    pub entries: Choice,
    /// Resolution of its stamps; zero = a nanosecond.
    pub resolution: Span,
}

/// An interruption, relative to the time when the first packet is due.
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
    /// Changes of the clock, ascending.
    pub shifts: Vec<ClockChange>,
}

/// A change of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockChange {
    /// Time, relative to when the first packet is due.
    pub at: Span,
    /// Amount.
    pub by: Span,
    /// Duration: zero is a step, anything else a slew.
    pub over: Span,
}

impl Clock {
    /// Its reading `t` after the first packet is due, which is at `epoch` by a perfect clock.
    pub fn at(&self, epoch: WallTime, t: Span) -> WallTime {
        let drift = (i128::from(t.0) * i128::from(self.skew_ppb) / 1_000_000_000) as i64;
        let shifted = self.shifts.iter().map(|s| s.by_time(t)).fold(Span::ZERO, |sum, by| sum + by);
        epoch + t + self.offset + Span(drift) + shifted
    }
}

impl ClockChange {
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

impl HostModel {
    /// A stamp `t` after the first packet is due.
    pub(super) fn stamp(&self, epoch: WallTime, t: Span) -> WallTime {
        let exact = self.clock.at(epoch, t);
        WallTime(exact.0 - exact.0.rem_euclid(self.resolution.0.max(1)))
    }

    /// When its program runs if it should at `t`.
    pub(super) fn runs(&self, t: Span) -> Span {
        let stall = self.stalls.iter().find(|s| t >= s.from && t < s.from + s.length);
        stall.map_or(t, |s| s.from + s.length)
    }
}

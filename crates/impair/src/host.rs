//! [`HostModel`]: an imperfect host at one end of a test.

use super::{Choice, Competition, Jitter, RateBottleneck};
use jitlat_core::time::{Span, StampSource, WallTime};

/// One end of a test. The default is a perfect host whose stamps are clock readings of its program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostModel {
    /// Clock of the host.
    pub clock: Clock,
    /// Delay with which the program wakes up for each packet that it sends.
    pub wake: Jitter,
    /// Times during which the program does not run. Packets that are due during such a time are sent at its end, and
    /// packets that arrive during it are read at its end.
    pub stalls: Vec<Pause>,
    /// Rate and queue of the host's own interface; `None`: unlimited rate.
    pub interface: Option<RateBottleneck>,
    /// Traffic of other programs of the host through the same interface.
    pub competition: Vec<Competition>,
    /// Packets that the kernel refuses to send.
    pub refused: Choice,
    /// Time from the arrival of a packet until the program reads it.
    pub reading: Jitter,
    /// Source of stamps: the program, or the kernel when the interface sends the packet.
    pub stamps: StampSource,
    /// Packets for which the kernel also stamps the entry into the interface's queue, if the source of stamps
    /// is the kernel.
    pub entries: Choice,
    /// Resolution of stamps; zero means a nanosecond.
    pub resolution: Span,
}

/// An interruption; times are relative to the due time of the first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Start of the interruption.
    pub from: Span,
    /// Length of the interruption.
    pub length: Span,
}

/// Error of a wall clock over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Wall clock minus true time at the due time of the first packet.
    pub offset: Span,
    /// Rate error in parts per billion; positive = fast.
    pub skew_ppb: i64,
    /// Changes of the clock, ascending.
    pub shifts: Vec<ClockChange>,
}

/// A change of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockChange {
    /// Time, relative to the due time of the first packet.
    pub at: Span,
    /// Amount of the change.
    pub by: Span,
    /// Duration of the change: zero for a step, otherwise a slew.
    pub over: Span,
}

impl Clock {
    /// Returns the clock's reading at `t` after the due time of the first packet; a perfect clock reads
    /// `epoch` at that due time.
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
    /// Returns a stamp at `t` after the due time of the first packet.
    pub(super) fn stamp(&self, epoch: WallTime, t: Span) -> WallTime {
        let exact = self.clock.at(epoch, t);
        WallTime(exact.0 - exact.0.rem_euclid(self.resolution.0.max(1)))
    }

    /// Returns the time at which the program performs an action due at `t`: `t` itself, or the end of the interruption
    /// that contains `t`.
    pub(super) fn runs(&self, t: Span) -> Span {
        let stall = self.stalls.iter().find(|s| t >= s.from && t < s.from + s.length);
        stall.map_or(t, |s| s.from + s.length)
    }
}

//! The two clocks of a host, the kernel's estimate of the wall clock's error, and steps of the wall clock
//! during a run.
//!
//! Timestamps are on the **wall** clock (`CLOCK_REALTIME`, nanoseconds since 1970, comparable between hosts).
//! Waiting uses the **steady** clock (`CLOCK_MONOTONIC`, which never jumps).

use crate::stamp::StampMode;
use crate::{adapter_clock, sys};
use jitlat_core::clock::{AdapterClock, SyncState};
use jitlat_core::ntp::{ErrorEstimate, TimeFormat};
use jitlat_core::session::HostFacts;
use jitlat_core::time::{Span, SteadyTime, WallTime};
use jitlat_proto::Tick;
use std::net::IpAddr;

/// Reads the wall clock: nanoseconds since 1970 UTC.
#[inline]
pub fn wall() -> WallTime {
    WallTime(sys::wall_ns())
}

/// Reads the steady clock: nanoseconds since an arbitrary instant before the program started.
#[inline]
pub fn steady() -> SteadyTime {
    SteadyTime(sys::steady_ns())
}

/// Reads both clocks, one after the other; the result is the current time for protocol state machines.
pub fn tick() -> Tick {
    Tick { wall: wall(), steady: steady() }
}

/// Returns the wall clock minus the steady clock. Each of five wall readings is taken between two steady
/// readings; the closest pair of these determines the result. The error is at most half the cost of a
/// reading, tens of nanoseconds.
pub(crate) fn wall_minus_steady() -> Span {
    let bracket = |_| {
        let before = steady();
        let wall = wall();
        let after = steady();
        let width = after - before;
        (width, Span(wall.0 - before.0) - Span(width.0 / 2))
    };
    (0..5).map(bracket).min_by_key(|(width, _)| *width).map_or(Span::ZERO, |(_, offset)| offset)
}

/// Detects steps of the wall clock relative to the steady clock. NTP changes the rate of both clocks in the
/// same way, so a difference between them is a step, not slewing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockSteps {
    start: Span,
    worst: Span,
}

impl ClockSteps {
    /// Records both clocks as the reference for later checks.
    pub fn start() -> ClockSteps {
        ClockSteps { start: wall_minus_steady(), worst: Span::ZERO }
    }

    /// Reads both clocks and returns the largest deviation since the start, in ns; positive if the wall clock
    /// was set forward. A step forward and back is detected only if a check is made in between.
    pub fn check(&mut self) -> Span {
        let now = wall_minus_steady() - self.start;
        if now.0.unsigned_abs() > self.worst.0.unsigned_abs() {
            self.worst = now;
        }
        self.worst
    }
}

/// Returns the synchronisation state of the wall clock; `None` if the system does not report it.
pub fn sync_state() -> Option<SyncState> {
    sys::sync_state()
}

/// Returns the name of the clock source in use, for example `tsc`; `None` if unknown.
pub fn source() -> Option<String> {
    sys::clock_source()
}

/// Returns the name of this host; `None` if unknown.
pub fn host_name() -> Option<String> {
    sys::names().0
}

/// Returns the facts about this host at the start of a test. `sync_after`, `clock_step` and `notes` are
/// filled in at the end of the test.
pub fn host_facts() -> HostFacts {
    let (name, system) = sys::names();
    HostFacts { name, system, clock_source: source(), sync_before: sync_state(), ..HostFacts::default() }
}

/// Reads the clock of the adapter that stamps packets from the address `local`; `None` unless `stamps` is
/// [`StampMode::Hardware`], or if it cannot be read.
pub(crate) fn stamping_clock(local: IpAddr, stamps: StampMode) -> Option<AdapterClock> {
    if stamps == StampMode::Hardware { adapter_clock::of_address(local) } else { None }
}

/// Returns the worse of two readings of an adapter's clock.
pub(crate) fn worse_clock(before: Option<AdapterClock>, after: Option<AdapterClock>) -> Option<AdapterClock> {
    match (before, after) {
        (Some(before), Some(after)) => Some(before.worse(after)),
        (before, after) => before.or(after),
    }
}

/// Clock error of this host, as sent in STAMP, TWAMP and OWAMP packets; refreshed every few seconds.
pub(crate) struct ClockError {
    estimate: ErrorEstimate,
    looked: SteadyTime,
}

impl ClockError {
    /// Time after which the error is read again.
    const LIFETIME: Span = Span::seconds(5);

    /// Reads the clock error now.
    pub fn read() -> ClockError {
        let estimate = ErrorEstimate::of_clock(sync_state(), TimeFormat::Ntp);
        ClockError { estimate, looked: steady() }
    }

    /// Returns the error at `now`, from a reading at most five seconds old.
    pub fn at(&mut self, now: SteadyTime) -> ErrorEstimate {
        if now - self.looked >= ClockError::LIFETIME {
            *self = ClockError::read();
        }
        self.estimate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_agree_about_the_passing_of_time() {
        let mut steps = ClockSteps::start();
        let (first, second) = (tick(), tick());
        assert!(second.steady >= first.steady);
        assert!(((second.wall - first.wall) - (second.steady - first.steady)).0.abs() < 50_000_000);
        assert!(steps.check().0.abs() < 50_000_000);
    }

    #[test]
    fn the_host_describes_itself() {
        let facts = host_facts();
        assert!(facts.system.is_some_and(|s| s.starts_with("Linux ")));
        assert!(facts.sync_before.is_some_and(|s| s.maximum_error.0 >= 0));
    }
}

//! The two clocks of a host, the kernel's estimate of the wall clock's error, and steps of the wall clock
//! during a run.
//!
//! Timestamps are on the **wall** clock (`CLOCK_REALTIME`, nanoseconds since 1970, comparable between hosts).
//! Waiting uses the **steady** clock (`CLOCK_MONOTONIC`, which never jumps).

use crate::stamp::StampMode;
use crate::{adapter_clock, android, sys};
use jitlat_core::clock::{AdapterClock, SyncState};
use jitlat_core::ntp::{ErrorEstimate, TimeFormat};
use jitlat_core::session::HostFacts;
use jitlat_core::time::{Span, SteadyTime, WallTime};
use jitlat_proto::Tick;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use std::net::IpAddr;

/// Reads `CLOCK_REALTIME`: nanoseconds since 1970 UTC.
#[inline]
pub fn wall() -> WallTime {
    WallTime(read(ClockId::CLOCK_REALTIME))
}

/// Reads `CLOCK_MONOTONIC`: nanoseconds since an arbitrary instant before the program started.
#[inline]
pub fn steady() -> SteadyTime {
    SteadyTime(read(ClockId::CLOCK_MONOTONIC))
}

#[inline]
fn read(clock: ClockId) -> i64 {
    // Neither clock can fail on Linux, except for seconds that do not fit into 32 bits (2038); and a time of 1970 would be noticed at once.
    clock_gettime(clock).map_or_else(|_| sys::wide_clock(clock.as_raw()).unwrap_or(0), nanoseconds)
}

/// Converts a time of the kernel, whose fields have 32 bits on some processors, to nanoseconds.
#[inline]
pub(crate) fn nanoseconds(time: TimeSpec) -> i64 {
    let (seconds, rest): (i64, i64) = (time.tv_sec() as _, time.tv_nsec() as _);
    seconds * 1_000_000_000 + rest
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

/// Returns the synchronisation state of the wall clock; `None` if the kernel does not report it, or does not permit the question.
pub fn sync_state() -> Option<SyncState> {
    if android::is_here() {
        return None;
    }
    let (state, clock) = sys::kernel_clock().ok()?;
    Some(account_of(state, &clock))
}

/// Converts the state that `adjtimex` reports.
fn account_of(state: libc::c_int, clock: &libc::timex) -> SyncState {
    // Without STA_NANO, the kernel's offset is in microseconds.
    // The fields have 32 bits on some processors.
    let frequency: i64 = clock.freq as _;
    let unit = if clock.status & libc::STA_NANO != 0 { 1 } else { 1000 };
    SyncState {
        synchronised: state != libc::TIME_ERROR && clock.status & libc::STA_UNSYNC == 0,
        offset: Span(clock.offset as _).times(unit),
        estimated_error: Span::micros(clock.esterror as _),
        maximum_error: Span::micros(clock.maxerror as _),
        // The kernel counts in 2⁻¹⁶ ppm.
        frequency_ppb: frequency.saturating_mul(1000) >> 16,
    }
}

/// Returns the name of the clock source in use, for example `tsc`; `None` if unknown.
pub fn source() -> Option<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(path).ok().map(|s| s.trim().to_owned())
}

/// Returns the facts about this host at the start of a test. `sync_after`, `clock_step` and `notes` are
/// filled in at the end of the test.
pub fn host_facts() -> HostFacts {
    let text = |s: &std::ffi::OsStr| s.to_string_lossy().into_owned();
    let system = nix::sys::utsname::uname().ok();
    HostFacts {
        name: system.as_ref().map(|u| text(u.nodename())),
        system: system.as_ref().map(|u| format!("{} {}", text(u.sysname()), text(u.release()))),
        clock_source: source(),
        sync_before: sync_state(),
        ..HostFacts::default()
    }
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

    /// On a 32-bit processor the C library fails from 2038 on, and the kernel's own call is used instead.
    #[test]
    #[cfg(target_pointer_width = "32")]
    fn a_clock_is_read_with_wide_seconds() {
        let before = wall();
        let wide = sys::wide_clock(libc::CLOCK_REALTIME).unwrap();
        assert!(wide >= before.0 && wide <= wall().0);
        assert_eq!(sys::wide_clock(-1), None);
    }

    #[test]
    fn times_of_the_kernel_become_nanoseconds() {
        let last = i32::MAX;
        assert_eq!(
            nanoseconds(TimeSpec::new(last as _, 999_999_999)),
            i64::from(last) * 1_000_000_000 + 999_999_999
        );
        assert_eq!(nanoseconds(TimeSpec::new(-1, 1)), -999_999_999);
    }

    /// Returns the state of a simulated kernel clock (RFC 5905) after `seconds` without an update: the error
    /// grows by 500 ppm; above 16 s the kernel reports the clock as unsynchronised.
    fn disciplined(seconds: i64, nanoseconds: bool) -> (libc::c_int, libc::timex) {
        let (_, mut clock) = sys::kernel_clock().unwrap();
        (clock.offset, clock.freq) = (if nanoseconds { -3500 } else { -3 }, -(12 << 16) - (1 << 15));
        (clock.esterror, clock.maxerror) = (17, (900 + 500 * seconds) as _);
        clock.status = libc::STA_PLL | if nanoseconds { libc::STA_NANO } else { 0 };
        if clock.maxerror > 16_000_000 {
            clock.maxerror = 16_000_000;
            clock.status |= libc::STA_UNSYNC;
        }
        let lost = clock.status & libc::STA_UNSYNC != 0;
        (if lost { libc::TIME_ERROR } else { libc::TIME_OK }, clock)
    }

    #[test]
    fn the_kernels_discipline_is_read_as_it_is() {
        let state_of = |(state, clock): (libc::c_int, libc::timex)| account_of(state, &clock);
        let good = state_of(disciplined(0, true));
        assert_eq!(
            good,
            SyncState {
                synchronised: true,
                offset: Span(-3_500),
                estimated_error: Span::micros(17),
                maximum_error: Span::micros(900),
                frequency_ppb: -12_500,
            }
        );
        assert_eq!(state_of(disciplined(0, false)).offset, Span::micros(-3), "microseconds without STA_NANO");
        assert_eq!(state_of(disciplined(60, true)).maximum_error, Span::micros(30_900));
        let lost = state_of(disciplined(40_000, true));
        assert_eq!((lost.synchronised, lost.maximum_error), (false, Span::seconds(16)));
        // A pending leap second means that the clock is synchronised; an error state without the
        // "unsynchronised" flag does not.
        let (_, clock) = disciplined(0, true);
        assert!(account_of(libc::TIME_INS, &clock).synchronised);
        assert!(!account_of(libc::TIME_ERROR, &clock).synchronised);
    }

    #[test]
    fn the_host_describes_itself() {
        let facts = host_facts();
        assert!(facts.system.is_some_and(|s| s.starts_with("Linux ")));
        assert!(facts.sync_before.is_some_and(|s| s.maximum_error.0 >= 0));
    }
}

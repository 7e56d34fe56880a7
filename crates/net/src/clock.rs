//! The two clocks of a host, how well the kernel believes the wall clock to be kept, and whether it
//! stepped during a run.
//!
//! Stamps are on the **wall** clock (`CLOCK_REALTIME`, nanoseconds since 1970, comparable between
//! hosts), waiting is on the **steady** clock (`CLOCK_MONOTONIC`, which never jumps).

use crate::sys;
use jitlat_core::clock::SyncState;
use jitlat_core::session::HostFacts;
use jitlat_core::time::{Span, SteadyTime, WallTime};
use jitlat_proto::Tick;
use nix::time::{ClockId, clock_gettime};

/// `CLOCK_REALTIME`: nanoseconds since 1970 UTC.
#[inline]
pub fn wall() -> WallTime {
    WallTime(read(ClockId::CLOCK_REALTIME))
}

/// `CLOCK_MONOTONIC`: nanoseconds since some instant before the program began.
#[inline]
pub fn steady() -> SteadyTime {
    SteadyTime(read(ClockId::CLOCK_MONOTONIC))
}

#[inline]
fn read(clock: ClockId) -> i64 {
    // Neither clock can fail on Linux; 1970 would stand out at once.
    clock_gettime(clock).map_or(0, |t| t.tv_sec() * 1_000_000_000 + t.tv_nsec())
}

/// Both clocks, read one after the other: what a protocol machine is given for "now".
pub fn tick() -> Tick {
    Tick { wall: wall(), steady: steady() }
}

/// Wall − steady, from the tightest of a few bracketed readings: the error is half the cost of a
/// reading, some tens of nanoseconds.
pub fn wall_minus_steady() -> Span {
    let bracket = |_| {
        let before = steady();
        let wall = wall();
        let after = steady();
        let width = after - before;
        (width, Span(wall.0 - before.0) - Span(width.0 / 2))
    };
    (0..5).map(bracket).min_by_key(|(width, _)| *width).map_or(Span::ZERO, |(_, offset)| offset)
}

/// Watches the wall clock for steps: anything that moves it against the steady clock. Both run at the
/// same, NTP-disciplined rate, so that what is seen here is a jump, not slewing.
#[derive(Clone, Copy, Debug)]
pub struct StepWatch {
    start: Span,
    worst: Span,
}

impl StepWatch {
    /// Starts watching.
    pub fn start() -> StepWatch {
        StepWatch { start: wall_minus_steady(), worst: Span::ZERO }
    }

    /// Looks at the clocks and returns the largest deviation from the start seen so far, signed: how
    /// far the wall clock was set forward. A clock that steps away and back is seen if a look falls between.
    pub fn look(&mut self) -> Span {
        let now = wall_minus_steady() - self.start;
        if now.0.unsigned_abs() > self.worst.0.unsigned_abs() {
            self.worst = now;
        }
        self.worst
    }
}

/// The kernel's own account of the wall clock, or `None` where it gives none.
pub fn sync_state() -> Option<SyncState> {
    let (state, clock) = sys::kernel_clock().ok()?;
    Some(account_of(state, &clock))
}

/// What a state and the variables of `adjtimex` say.
fn account_of(state: libc::c_int, clock: &libc::timex) -> SyncState {
    let unit = if clock.status & libc::STA_NANO != 0 { 1 } else { 1000 };
    SyncState {
        synchronised: state != libc::TIME_ERROR && clock.status & libc::STA_UNSYNC == 0,
        offset: Span(clock.offset).times(unit),
        estimated_error: Span::micros(clock.esterror),
        maximum_error: Span::micros(clock.maxerror),
        // The kernel counts in 2⁻¹⁶ ppm.
        frequency_ppb: clock.freq.saturating_mul(1000) >> 16,
    }
}

/// The clock source in use, e.g. `tsc`.
pub fn source() -> Option<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(path).ok().map(|s| s.trim().to_owned())
}

/// What this host says of itself at the start of a test. `sync_after`, `clock_step` and `notes` are
/// filled in by whoever ends it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_agree_about_the_passing_of_time() {
        let mut watch = StepWatch::start();
        let (first, second) = (tick(), tick());
        assert!(second.steady >= first.steady);
        assert!(((second.wall - first.wall) - (second.steady - first.steady)).0.abs() < 50_000_000);
        assert!(watch.look().0.abs() < 50_000_000);
    }

    /// The kernel's discipline, simulated: RFC 5905's clock after `seconds` without an update, 500 ppm of error added
    /// each second; beyond 16 s the kernel gives it up.
    fn disciplined(seconds: i64, nanoseconds: bool) -> (libc::c_int, libc::timex) {
        let (_, mut clock) = sys::kernel_clock().unwrap();
        (clock.offset, clock.freq) = (if nanoseconds { -3500 } else { -3 }, -(12 << 16) - (1 << 15));
        (clock.esterror, clock.maxerror) = (17, 900 + 500 * seconds);
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
        let told = |(state, clock): (libc::c_int, libc::timex)| account_of(state, &clock);
        let good = told(disciplined(0, true));
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
        assert_eq!(told(disciplined(0, false)).offset, Span::micros(-3), "microseconds without STA_NANO");
        assert_eq!(told(disciplined(60, true)).maximum_error, Span::micros(30_900));
        let lost = told(disciplined(40_000, true));
        assert_eq!((lost.synchronised, lost.maximum_error), (false, Span::seconds(16)));
        // A leap second pending is a synchronised clock; an error state without the flag is none.
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

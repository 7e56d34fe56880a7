//! Clocks, threads, names and interfaces of this host.

use super::{kernel_clock, wide_clock};
use crate::android;
use jitlat_core::Span;
use jitlat_core::clock::SyncState;
use jitlat_core::time::SteadyTime;
use nix::net::if_::InterfaceFlags;
use nix::sched::sched_getaffinity;
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use nix::unistd::Pid;
use std::fs::Metadata;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

/// Description of the parts that were never run on this system; `None`: everything was run.
pub(crate) const NEVER_RUN: Option<&str> = None;
/// Time before a deadline at which a thread that spins stops sleeping: longer than almost every wake-up latency of an idle
/// machine, but only 6 % of a processor at 1000 packets per second.
pub(crate) const SPIN_TIME: Span = Span::micros(60);
/// True if a thread must spin before every deadline, because the timers of the system are too coarse.
pub(crate) const COARSE_TIMERS: bool = false;

/// Reads `CLOCK_REALTIME`: nanoseconds since 1970 UTC.
#[inline]
pub(crate) fn wall_ns() -> i64 {
    read(ClockId::CLOCK_REALTIME)
}

/// Reads `CLOCK_MONOTONIC`: nanoseconds since an arbitrary instant before the program started.
#[inline]
pub(crate) fn steady_ns() -> i64 {
    read(ClockId::CLOCK_MONOTONIC)
}

#[inline]
fn read(clock: ClockId) -> i64 {
    // Neither clock can fail on Linux, except for seconds that do not fit into 32 bits (2038); and a time of 1970 would be noticed at
    // once.
    clock_gettime(clock).map_or_else(|_| wide_clock(clock.as_raw()).unwrap_or(0), nanoseconds)
}

/// Converts a time of the kernel, whose fields have 32 bits on some processors, to nanoseconds.
#[inline]
pub(crate) fn nanoseconds(time: TimeSpec) -> i64 {
    let (seconds, rest): (i64, i64) = (time.tv_sec() as _, time.tv_nsec() as _);
    seconds * 1_000_000_000 + rest
}

/// Returns the synchronisation state of the wall clock; `None` if the kernel does not report it, or does not permit the question.
pub(crate) fn sync_state() -> Option<SyncState> {
    if android::is_here() {
        return None;
    }
    let (state, clock) = kernel_clock().ok()?;
    Some(account_of(state, &clock))
}

/// Converts the state that `adjtimex` reports.
fn account_of(state: libc::c_int, clock: &libc::timex) -> SyncState {
    // The fields have 32 bits on some processors.
    let frequency: i64 = clock.freq as _;
    // Without STA_NANO, the kernel's offset is in microseconds.
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
pub(crate) fn clock_source() -> Option<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(path).ok().map(|s| s.trim().to_owned())
}

/// Returns the name of this host, and name and release of its system.
pub(crate) fn names() -> (Option<String>, Option<String>) {
    let text = |s: &std::ffi::OsStr| s.to_string_lossy().into_owned();
    let system = nix::sys::utsname::uname().ok();
    let name = system.as_ref().map(|u| text(u.nodename()));
    (name, system.map(|u| format!("{} {}", text(u.sysname()), text(u.release()))))
}

/// Sleeps until the steady clock reaches `until`, or a signal arrives.
pub(crate) fn sleep_until(until: SteadyTime) {
    // An absolute time, so that a delay before the call does not prolong the sleep.
    let at = TimeSpec::from(Duration::from_nanos(until.0.max(0).unsigned_abs()));
    // The call fails only for a signal or an invalid time, and callers check the clock again.
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at);
}

/// Pause of a spinning thread between two checks of its condition: none, because a check takes less than a microsecond.
#[inline]
pub(crate) fn spin() {}

/// Makes the timers of the calling thread as exact as the system permits: by default, the kernel may delay them by
/// 50 µs, to combine wake-ups.
pub(crate) fn sharpen_timers() -> io::Result<()> {
    Ok(nix::sys::prctl::set_timerslack(1)?)
}

/// Pins the calling thread to a processor.
pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    let mut set = nix::sched::CpuSet::new();
    set.set(cpu)?;
    // For this call, 0 means the calling thread, not the whole process.
    Ok(nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set)?)
}

/// Locks the whole program into memory.
pub(crate) fn lock_memory() -> io::Result<()> {
    // MCL_FUTURE also covers memory that is allocated later, such as the stacks of threads.
    Ok(mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE)?)
}

/// Returns the number of threads that run or wait for a processor; `None` if unknown.
pub(crate) fn running_threads() -> Option<usize> {
    running(&std::fs::read_to_string("/proc/loadavg").ok()?)
}

/// Returns the number of threads that run or wait for a processor, from the text of `/proc/loadavg`; `None`
/// if it cannot be parsed.
fn running(load: &str) -> Option<usize> {
    load.split(' ').nth(3)?.split('/').next()?.parse().ok()
}

/// True if the kernel accepts a priority for each message: Linux 6.14 or later.
pub(crate) fn has_message_priority() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or_default();
    (next(), next()) >= (6, 14)
}

/// True if rights of an administrator can be granted one by one.
pub(crate) const HAS_CAPABILITIES: bool = true;

/// True if this process has the capability, for example `CAP_NET_RAW`.
pub(crate) fn has_capability(name: &str) -> bool {
    name.parse().is_ok_and(|c| caps::has_cap(None, caps::CapSet::Effective, c).unwrap_or(false))
}

/// True if this process runs as the administrator.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Returns the number of processors that this program may use.
pub(crate) fn processors() -> usize {
    let set = sched_getaffinity(Pid::from_raw(0)).ok();
    let counted = set.map(|s| (0..nix::sched::CpuSet::count()).filter(|i| s.is_set(*i) == Ok(true)).count());
    counted.unwrap_or(1)
}

/// Returns the highest `SCHED_FIFO` priority that a program without a capability may use; `None` if unknown.
pub(crate) fn priority_limit() -> Option<u64> {
    getrlimit(Resource::RLIMIT_RTPRIO).ok().map(|l| l.0 as _)
}

/// Returns the maximum time by which a timer of this thread may fire late, in ns; `None` if unknown.
pub(crate) fn timer_slack() -> Option<u64> {
    nix::sys::prctl::get_timerslack().ok().map(|ns| ns as u64)
}

/// Permission bits of a file.
pub(crate) fn mode_of(about: &Metadata) -> Option<u32> {
    Some(about.permissions().mode() & 0o777)
}

/// True if an open file has lost its path.
pub(crate) fn is_removed(about: &Metadata) -> bool {
    about.nlink() == 0
}

/// An address of an interface.
pub(crate) struct InterfaceAddress {
    pub name: String,
    /// Number of the interface.
    pub index: u32,
    /// IP address; `None` for addresses of other kinds.
    pub address: Option<IpAddr>,
    /// Length of the network's prefix, in bits; `None` if unknown.
    pub prefix_length: Option<u8>,
    pub is_up: bool,
    pub is_loopback: bool,
    /// True if the interface supports multicast.
    pub is_multicast: bool,
}

/// Returns all addresses of all interfaces of this host.
///
/// # Errors
/// Errors of the operating system.
pub(crate) fn interfaces() -> io::Result<Vec<InterfaceAddress>> {
    let found = nix::ifaddrs::getifaddrs()?.filter_map(|entry| {
        let index = interface_index(&entry.interface_name).ok()?;
        let v4 = entry.address.as_ref().and_then(|a| a.as_sockaddr_in()).map(|s| IpAddr::V4(s.ip()));
        let v6 = || entry.address.as_ref().and_then(|a| a.as_sockaddr_in6()).map(|s| IpAddr::V6(s.ip()));
        let address = v4.or_else(v6);
        let mask = entry.netmask.as_ref();
        let v4 = mask.and_then(|m| m.as_sockaddr_in()).map(|m| m.ip().to_bits().leading_ones());
        let v6 = || mask.and_then(|m| m.as_sockaddr_in6()).map(|m| m.ip().to_bits().leading_ones());
        let prefix_length = v4.or_else(v6).and_then(|length| u8::try_from(length).ok());
        Some(InterfaceAddress {
            index,
            address,
            prefix_length,
            is_up: entry.flags.contains(InterfaceFlags::IFF_UP),
            is_loopback: entry.flags.contains(InterfaceFlags::IFF_LOOPBACK),
            is_multicast: entry.flags.contains(InterfaceFlags::IFF_MULTICAST),
            name: entry.interface_name,
        })
    });
    Ok(found.collect())
}

/// Returns the number of the interface `name`.
///
/// # Errors
/// There is no such interface.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    Ok(nix::net::if_::if_nametoindex(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a 32-bit processor the C library fails from 2038 on, and the kernel's own call is used instead.
    #[test]
    #[cfg(target_pointer_width = "32")]
    fn a_clock_is_read_with_wide_seconds() {
        let before = wall_ns();
        let wide = wide_clock(libc::CLOCK_REALTIME).unwrap();
        assert!(wide >= before && wide <= wall_ns());
        assert_eq!(wide_clock(-1), None);
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
        let (_, mut clock) = kernel_clock().unwrap();
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
    fn the_kernels_text_about_its_load() {
        assert_eq!(running("0.57 1.20 1.53 3/412 7\n"), Some(3));
        assert_eq!(running("unknown"), None);
    }
}

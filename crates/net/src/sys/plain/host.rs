//! Clocks and names of this host.

use jitlat_core::clock::SyncState;
use jitlat_core::time::SteadyTime;
use std::fs::Metadata;
use std::io;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// True: a thread must spin before every deadline, because the timers of these systems are too coarse.
pub(crate) const COARSE_TIMERS: bool = true;

/// Reads the wall clock: nanoseconds since 1970 UTC.
#[inline]
pub(crate) fn wall_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

/// Reading of the steady clock when this process first read it, in ns. Times shortly before are positive, too.
const FIRST_READING: i64 = 3_600_000_000_000;

fn first() -> Instant {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    *FIRST.get_or_init(Instant::now)
}

/// Reads the steady clock: nanoseconds since an arbitrary instant before the program started.
#[inline]
pub(crate) fn steady_ns() -> i64 {
    let first = first();
    FIRST_READING + Instant::now().saturating_duration_since(first).as_nanos() as i64
}

/// Returns `None`: the synchronisation of the clock is unknown.
pub(crate) fn sync_state() -> Option<SyncState> {
    None
}

/// Returns `None`: the hardware behind the clock is unknown.
pub(crate) fn clock_source() -> Option<String> {
    None
}

/// Sleeps until the steady clock reaches `until`.
pub(crate) fn sleep_until(until: SteadyTime) {
    let left = until.0 - steady_ns();
    if left > 0 {
        super::sleep(std::time::Duration::from_nanos(left.unsigned_abs()));
    }
}

/// Pauses between two checks of a spinning thread, because a check is a system call, which is slow on some systems.
pub(crate) fn spin() {
    let until = steady_ns() + 50_000;
    while steady_ns() < until {
        std::hint::spin_loop();
    }
}

/// Returns an error: memory is not locked.
pub(crate) fn lock_memory() -> io::Result<()> {
    super::only_linux("locking memory")
}

/// Returns `None`: the number of running threads is unknown.
pub(crate) fn running_threads() -> Option<usize> {
    None
}

/// Returns false: these systems have no priority for each message.
pub(crate) fn has_message_priority() -> bool {
    false
}

/// False: rights of an administrator cannot be granted one by one.
pub(crate) const HAS_CAPABILITIES: bool = false;

/// Returns false: these systems have no capabilities.
pub(crate) fn has_capability(_: &str) -> bool {
    false
}

/// Returns false: the rights of the user who runs this process are not examined on these systems.
pub(crate) fn is_root() -> bool {
    false
}

/// Returns the number of processors that this program may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns `None`: the limit of priorities is unknown.
pub(crate) fn priority_limit() -> Option<u64> {
    None
}

/// Returns `None`: the exactness of timers is unknown.
pub(crate) fn timer_slack() -> Option<u64> {
    None
}

/// Permission bits of a file; `None` where files have none.
pub(crate) fn mode_of(about: &Metadata) -> Option<u32> {
    #[cfg(unix)]
    return Some(std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o777);
    #[cfg(not(unix))]
    {
        let _ = about;
        None
    }
}

/// True if an open file has lost its path, as far as the system reports it.
pub(crate) fn is_removed(about: &Metadata) -> bool {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::nlink(about) == 0;
    #[cfg(not(unix))]
    {
        let _ = about;
        false
    }
}

/// An address of an interface.
pub(crate) struct InterfaceAddress {
    pub name: String,
    /// Number of the interface.
    pub index: u32,
    /// IP address; `None` for addresses of other kinds.
    pub address: Option<std::net::IpAddr>,
    /// Length of the network's prefix, in bits; `None` if unknown.
    pub prefix_length: Option<u8>,
    pub is_up: bool,
    pub is_loopback: bool,
    /// True if the interface supports multicast.
    pub is_multicast: bool,
}

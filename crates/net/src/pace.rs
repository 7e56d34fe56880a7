//! Waits for absolute deadlines.
//!
//! A deadline is a time on the steady clock, never "a period from now": a late packet does not delay later
//! packets, and the mean rate has no error except that of the clock.

use crate::clock::steady;
use crate::privilege::{Capability, how_to_grant};
use crate::sys;
use jitlat_core::time::{SECOND, Span, SteadyTime, WallTime};
use jitlat_core::units::eng4;
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use std::time::Duration;

/// Method of waiting for a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaceMode {
    /// Sleep until the deadline. The processor is free meanwhile; the lateness is the kernel's wake-up
    /// latency.
    Sleep,
    /// Sleep until shortly before the deadline, then spin.
    Hybrid,
    /// Spin all the time. Occupies a processor completely, so it is for machines with spare processors.
    Spin,
    /// Sleep until shortly before a packet is due. The queue of the interface, which must support launch
    /// times (`SO_TXTIME`), releases the packet on time. Only for UDP streams of jitlat's own protocol.
    Etf,
}

impl std::fmt::Display for PaceMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PaceMode::Sleep => "sleep",
            PaceMode::Hybrid => "hybrid",
            PaceMode::Spin => "spin",
            PaceMode::Etf => "etf",
        })
    }
}

/// Settings of a packet thread. Settings that are not permitted are skipped, with a note.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pacing {
    /// Method of waiting; `None`: [`PaceMode::Spin`] from 50 000 packets per second, but only if two
    /// processors are idle (the receiver and the kernel need one, too), otherwise [`PaceMode::Sleep`].
    pub mode: Option<PaceMode>,
    /// Priority (1…99) at which the sending thread runs under `SCHED_FIFO`; `None`: normal scheduling. Needs
    /// `CAP_SYS_NICE`.
    pub realtime: Option<u8>,
    /// True to lock the whole program into memory, so that no page fault delays a packet. Needs
    /// `CAP_IPC_LOCK` or a sufficient `RLIMIT_MEMLOCK`.
    pub lock_memory: bool,
    /// Processor to which the sending thread is pinned; `None`: any.
    pub cpu: Option<usize>,
}

/// Settings for sending the packets of a test.
#[derive(Clone, Debug, Default)]
pub struct SendSettings {
    /// Scheduling and waiting method of the packet threads.
    pub pacing: Pacing,
    /// Priority of sent packets on this host (`SO_PRIORITY`); `None`: the system's default.
    pub priority: Option<u32>,
    /// Time of the first packet of a stream of jitlat's own protocol; `None`: as soon as the stream is set up.
    pub start: Option<WallTime>,
    /// True if packets that are due together may be sent in one buffer, which the kernel or the adapter cuts
    /// (`UDP_SEGMENT`). Only for load, whose packets need no stamps; never for packets that are measured.
    pub segmented: bool,
}

/// Describes a start that was later than requested.
pub(crate) fn late_start_note(late: Span) -> String {
    format!(
        "the first packet was sent {} after the requested start: setting up the test took longer",
        eng4(late.0)
    )
}

/// Gives the calling thread, for example one that serves a display, the lowest processor priority, so that threads that
/// handle packets run first. If the system refuses, the priority stays unchanged.
pub fn yield_to_others() {
    let _ = sys::yield_to_others();
}

/// Longest period for which spinning is chosen automatically: at 50 000 packets per second, waking up costs as much
/// processor time as spinning.
const MAX_SPIN_PERIOD: Span = Span::micros(20);

impl Pacing {
    /// Returns the method of waiting for a stream of one packet per `period`, from a sender without launch
    /// times. Adds a note if the method differs from the setting or if spinning was chosen automatically.
    pub fn mode_at(&self, period: Span) -> (PaceMode, Option<String>) {
        self.mode_on(period, is_processor_to_spare)
    }

    fn mode_on(
        &self,
        period: Span,
        is_processor_to_spare: impl FnOnce() -> bool,
    ) -> (PaceMode, Option<String>) {
        match self.mode {
            Some(PaceMode::Etf) => {
                let note = "launch times (etf) are for UDP streams of jitlat's own protocol: this sender sleeps instead";
                (PaceMode::Sleep, Some(note.to_owned()))
            }
            Some(mode) => (mode, None),
            None if period <= MAX_SPIN_PERIOD && is_processor_to_spare() => {
                let rate = SECOND / period.0.max(1);
                let note = format!(
                    "the sender spins instead of sleeping: {rate} packets per second, and processors were idle"
                );
                (PaceMode::Spin, Some(note))
            }
            None => (PaceMode::Sleep, None),
        }
    }

    /// Applies all settings except the mode to the calling thread (memory is locked for the whole process);
    /// returns notes about settings that were not permitted. Timer slack is always set to 1 ns.
    pub fn apply(&self) -> Vec<String> {
        let mut notes = Vec::new();
        // By default, the kernel may delay the timers of a thread by 50 µs, to combine wake-ups.
        if let Err(e) = nix::sys::prctl::set_timerslack(1) {
            notes.push(format!("timer slack stays at the system's default: {}", e.desc()));
        }
        if let Some(cpu) = self.cpu
            && let Err(e) = pin(cpu)
        {
            notes.push(format!("not pinned to processor {cpu}: {}", e.desc()));
        }
        let mut lacking = Vec::new();
        // MCL_FUTURE also covers memory that is allocated later, such as the stacks of threads.
        if self.lock_memory
            && let Err(e) = mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE)
        {
            notes.push(format!("memory is not locked: {}", e.desc()));
            lacking.push(Capability::IpcLock);
        }
        if let Some(priority) = self.realtime
            && let Err(e) = sys::schedule_fifo(priority)
        {
            notes.push(format!("cannot set SCHED_FIFO priority {priority}: {e}"));
            lacking.push(Capability::SysNice);
        }
        lacking.retain(|c| !c.is_held());
        // A single command for all capabilities, because setcap replaces those granted earlier.
        if !lacking.is_empty() {
            let names: Vec<String> = lacking.iter().map(ToString::to_string).collect();
            notes.push(format!("{} missing: {}", names.join(" and "), how_to_grant(&lacking)));
        }
        notes
    }
}

/// True if at least one processor would stay idle while this thread spins on one and the receiver and the kernel use
/// another.
fn is_processor_to_spare() -> bool {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    // The calling thread is one of the running threads.
    load.as_deref().and_then(running).is_some_and(|running| running + 1 < processors)
}

/// Returns the number of threads that run or wait for a processor, from the text of `/proc/loadavg`; `None`
/// if it cannot be parsed.
fn running(load: &str) -> Option<usize> {
    load.split(' ').nth(3)?.split('/').next()?.parse().ok()
}

fn pin(cpu: usize) -> nix::Result<()> {
    let mut set = nix::sched::CpuSet::new();
    set.set(cpu)?;
    // For this call, 0 means the calling thread, not the whole process.
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set)
}

/// Time before the deadline at which [`PaceMode::Hybrid`] begins to spin: longer than almost every wake-up
/// latency of an idle machine, but only 6 % of a processor at 1000 packets per second.
const SPIN_TIME: Span = Span::micros(60);
/// Maximum uninterrupted sleep, so that a stop is noticed soon.
const MAX_SLEEP: Span = Span::millis(100);

/// Waits for deadlines in one mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    mode: PaceMode,
}

impl Pacer {
    /// Creates a pacer that waits in this mode.
    pub fn new(mode: PaceMode) -> Pacer {
        Pacer { mode }
    }

    /// Waits until the steady clock reaches `due`, and returns the clock's reading at that time. Returns at
    /// once if `due` has passed, and returns `None` within a tenth of a second once `interrupted` returns
    /// true.
    #[inline]
    pub fn wait_until(&self, due: SteadyTime, interrupted: impl Fn() -> bool) -> Option<SteadyTime> {
        let wake = match self.mode {
            PaceMode::Sleep | PaceMode::Etf => due,
            PaceMode::Hybrid => due - SPIN_TIME,
            PaceMode::Spin => SteadyTime(i64::MIN),
        };
        let mut now = steady();
        while now < due {
            if interrupted() {
                return None;
            }
            if now < wake {
                sleep_until(wake.min(now + MAX_SLEEP));
            } else {
                std::hint::spin_loop();
            }
            now = steady();
        }
        (!interrupted()).then_some(now)
    }
}

/// Sleeps until the steady clock reaches `until`, or a signal arrives.
pub(crate) fn sleep_until(until: SteadyTime) {
    // An absolute time, so that a delay before the call does not prolong the sleep.
    let at = TimeSpec::from(Duration::from_nanos(until.0.max(0).unsigned_abs()));
    // The call fails only for a signal or an invalid time, and callers check the clock again.
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_early_in_any_mode() {
        for mode in [PaceMode::Sleep, PaceMode::Hybrid, PaceMode::Spin] {
            let pacer = Pacer::new(mode);
            let due = steady() + Span::micros(300);
            assert!(pacer.wait_until(due, || false).unwrap() >= due);
            assert!(pacer.wait_until(due, || false).is_some(), "a deadline in the past is due at once");
        }
    }

    #[test]
    fn a_stop_ends_the_wait() {
        for mode in [PaceMode::Sleep, PaceMode::Hybrid, PaceMode::Spin] {
            assert_eq!(Pacer::new(mode).wait_until(steady() + Span::seconds(1000), || true), None);
        }
    }

    #[test]
    fn fast_streams_spin_where_a_processor_is_to_spare() {
        let by_rate = |period, idle| Pacing::default().mode_on(period, || idle);
        let (mode, note) = by_rate(Span::micros(20), true);
        assert_eq!(mode, PaceMode::Spin);
        assert!(note.unwrap().contains("50000 packets per second"));
        assert_eq!(by_rate(Span::micros(20), false), (PaceMode::Sleep, None));
        assert_eq!(by_rate(Span::micros(21), true), (PaceMode::Sleep, None));
        let asked = Pacing { mode: Some(PaceMode::Hybrid), ..Pacing::default() };
        assert_eq!(asked.mode_on(Span::micros(1), || true), (PaceMode::Hybrid, None));
        assert_eq!(running("0.57 1.20 1.53 3/412 7\n"), Some(3));
        assert_eq!(running("unknown"), None);
    }

    #[test]
    fn launch_times_are_not_for_every_sender() {
        let (mode, note) =
            Pacing { mode: Some(PaceMode::Etf), ..Pacing::default() }.mode_at(Span::millis(20));
        assert_eq!((mode, note.is_some_and(|note| note.contains("etf"))), (PaceMode::Sleep, true));
    }

    #[test]
    fn what_cannot_be_had_is_said() {
        let notes = Pacing { cpu: Some(100_000), ..Pacing::default() }.apply();
        assert_eq!(notes.len(), 1, "{notes:?}");
    }
}

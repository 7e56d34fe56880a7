//! Repeats measurements that failed while this host stalled: measurements only count on an undisturbed host.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Largest number of attempts.
const ATTEMPTS: u32 = 5;
/// Length of a stall that disturbs a measurement: a thread was not run for this long after its sleep.
const STALL: Duration = Duration::from_millis(20);

/// Number of times that the watching thread has read the clock.
static LOOKS: AtomicU64 = AtomicU64::new(0);

/// Runs `measurement`, which may panic like a test. If it panics and the host stalled meanwhile, it is repeated;
/// otherwise the first failure counts.
pub fn undisturbed(measurement: impl Fn()) {
    for attempt in 1..=ATTEMPTS {
        let started = Instant::now();
        let _ = stalls();
        let Err(failure) = catch_unwind(AssertUnwindSafe(&measurement)) else { return };
        let longest = longest_stall(started);
        if attempt == ATTEMPTS || longest < STALL {
            resume_unwind(failure);
        }
        let _ = writeln!(std::io::stderr(), "measured again: this host stalled for {longest:?}");
    }
}

/// Length of the longest stall that ended since `started`.
fn longest_stall(started: Instant) -> Duration {
    // A stall in progress ends first: the watching thread reads the clock afterwards.
    let looks = LOOKS.load(Ordering::Relaxed);
    jitlat_waiting::within(10 * STALL, || LOOKS.load(Ordering::Relaxed) > looks + 1);
    let all = stalls().lock().unwrap();
    all.iter().filter(|(ended, _)| *ended >= started).map(|(_, length)| *length).max().unwrap_or_default()
}

/// End and length of each stall of this process. A thread that sleeps and reads the clock fills the list from the
/// first call on.
fn stalls() -> &'static Mutex<Vec<(Instant, Duration)>> {
    static ALL: OnceLock<Mutex<Vec<(Instant, Duration)>>> = OnceLock::new();
    ALL.get_or_init(|| {
        std::thread::spawn(|| {
            let pause = STALL / 4;
            let mut last = Instant::now();
            jitlat_waiting::at_pace(pause, || {
                let late = last.elapsed().saturating_sub(pause);
                last = Instant::now();
                if late >= STALL {
                    stalls().lock().unwrap().push((last, late));
                }
                LOOKS.fetch_add(1, Ordering::Relaxed);
                true
            });
        });
        Mutex::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_failure_on_a_host_that_ran_is_a_failure() {
        let calls = Cell::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            undisturbed(|| {
                calls.set(calls.get() + 1);
                panic!("wrong");
            });
        }));
        assert!(outcome.is_err() && (1..=ATTEMPTS).contains(&calls.get()));
    }

    #[test]
    fn a_failure_while_the_host_stood_still_is_measured_again() {
        let calls = Cell::new(0);
        undisturbed(|| {
            calls.set(calls.get() + 1);
            if calls.get() == 1 {
                stalls().lock().unwrap().push((Instant::now(), 2 * STALL));
                panic!("disturbed");
            }
        });
        assert_eq!(calls.get(), 2);
    }
}

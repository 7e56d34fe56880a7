//! Waiting in tests: for a condition, with a limit. This is the only place where a test sleeps.
//!
//! A test that sleeps for "long enough" is slow on a quiet machine and wrong on a busy one. These functions
//! check a condition again and again and return as soon as it is true. If it is not true within a limit, the
//! test fails with a message that describes the expected event.
//!
//! ```
//! use std::time::Duration;
//!
//! let file = std::env::temp_dir().join(format!("waiting-{}", std::process::id()));
//! let writer = std::thread::spawn({
//!     let file = file.clone();
//!     move || std::fs::write(file, "done")
//! });
//! jitlat_waiting::until("the file", Duration::from_secs(20), || file.exists());
//! # writer.join().unwrap().unwrap();
//! # std::fs::remove_file(file).unwrap();
//! ```

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Shortest pause between two checks.
const PAUSE: Duration = Duration::from_millis(5);
/// Longest pause between two expensive checks.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Waits until `condition` is true.
///
/// # Panics
/// If it is not true within `limit`; the message contains `what`.
#[track_caller]
pub fn until(what: &str, limit: Duration, condition: impl FnMut() -> bool) {
    assert!(within(limit, condition), "waited {limit:?} for {what} without success");
}

/// Waits until `find` returns a value, and returns this value.
///
/// # Panics
/// If `find` returns no value within `limit`; the message contains `what`.
#[track_caller]
pub fn for_value<T>(what: &str, limit: Duration, mut find: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    until(what, limit, || {
        found = find();
        found.is_some()
    });
    found.expect("the condition above")
}

/// Waits until `condition` is true, but at most for `limit`. Returns true if `condition` became true. It is checked at
/// least once, and again after the limit.
pub fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        // A check after the limit counts: on a busy machine the pause may have been much longer than requested.
        let last = begun.elapsed() >= limit;
        let looked = Instant::now();
        if condition() {
            return true;
        }
        if last {
            return false;
        }
        sleep(looked.elapsed().clamp(PAUSE, LONGEST_PAUSE).min(limit.saturating_sub(begun.elapsed())));
    }
}

/// Checks that `condition` stays true for `period`: an event must not happen, or a state must last.
///
/// # Panics
/// At the first check that finds it false; the message contains `what`.
#[track_caller]
pub fn while_true(what: &str, period: Duration, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    assert!(!within(period, || !condition()), "after {:?} no longer true: {what}", begun.elapsed());
}

/// Calls `step` once per `period` until it returns `false`. A late call does not delay the calls after it.
pub fn at_pace(period: Duration, mut step: impl FnMut() -> bool) {
    let mut due = Instant::now();
    while step() {
        due += period;
        sleep(due.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    const SHORT: Duration = Duration::from_millis(30);

    #[test]
    fn a_wait_ends_with_its_condition_and_not_with_its_limit() {
        let mut looks = 0;
        let begun = Instant::now();
        until("the third look", Duration::from_secs(600), || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
        assert!(begun.elapsed() < Duration::from_secs(600));
        let mut values = [None, None, Some(7)].into_iter();
        assert_eq!(for_value("a value", Duration::from_secs(600), || values.next().flatten()), 7);
    }

    #[test]
    fn a_wait_in_vain_fails_and_names_what_was_missing() {
        let failure = catch_unwind(|| until("rain", SHORT, || false)).unwrap_err();
        let message = failure.downcast::<String>().unwrap();
        assert!(message.contains("30ms") && message.contains("for rain"), "{message}");
        let mut looks = 0;
        assert!(!within(Duration::ZERO, || {
            looks += 1;
            false
        }));
        assert_eq!(looks, 1, "without time it looks once");
    }

    #[test]
    fn what_must_stay_true_is_looked_at_for_the_whole_period() {
        let begun = Instant::now();
        while_true("nothing", SHORT, || true);
        assert!(begun.elapsed() >= SHORT);
        let failure = catch_unwind(|| while_true("silence", SHORT, || false)).unwrap_err();
        assert!(failure.downcast::<String>().unwrap().ends_with("no longer true: silence"));
    }

    #[test]
    fn steps_are_a_period_apart_on_average() {
        let (begun, mut steps) = (Instant::now(), 0);
        at_pace(Duration::from_millis(2), || {
            steps += 1;
            steps < 20
        });
        assert_eq!(steps, 20);
        assert!(begun.elapsed() >= Duration::from_millis(2 * 19));
    }
}

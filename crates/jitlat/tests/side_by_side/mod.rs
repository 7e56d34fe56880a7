//! Runs cases that do not depend on each other, several at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `check` for each of `cases`, `at_a_time` of them in parallel; panics if one of them does.
pub fn side_by_side<T: Sync>(at_a_time: usize, cases: &[T], check: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..at_a_time.min(cases.len()) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(case);
                }
            });
        }
    });
}

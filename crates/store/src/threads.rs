//! [`Threads`]: number of threads that may read and analyse one log.

use jitlat_core::helpers::Helpers;
use std::num::NonZero;
use std::thread;

/// Number of threads, including the one that waits for the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads(pub NonZero<usize>);

impl Threads {
    /// Only the thread of the caller.
    pub const ONE: Threads = Threads(NonZero::<usize>::MIN);

    /// Returns the number of processors that this process may use.
    pub fn available() -> Threads {
        thread::available_parallelism().map_or(Threads::ONE, Threads)
    }
}

impl Helpers for Threads {
    fn run(&self, pieces: usize, work: &(dyn Fn() + Sync)) {
        thread::scope(|scope| {
            for _ in 1..self.0.get().min(pieces) {
                let helper = thread::Builder::new().name("helper".to_owned());
                if helper.spawn_scoped(scope, work).is_err() {
                    // If a thread cannot be started, fewer threads share the work.
                    break;
                }
            }
            work();
        });
    }
}

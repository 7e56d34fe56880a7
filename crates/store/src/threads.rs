//! [`Threads`]: how many processors the reading and the analysis of one log may use.

use jitlat_core::helpers::Helpers;
use std::num::NonZero;
use std::thread;

/// So many threads, the one that waits for the result among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads(pub NonZero<usize>);

impl Threads {
    /// The caller's alone.
    pub const ONE: Threads = Threads(NonZero::<usize>::MIN);

    /// As many as this process may use processors.
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
                    // This thread does it all, only later.
                    break;
                }
            }
            work();
        });
    }
}

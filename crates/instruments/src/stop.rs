//! [`Stop`]: ends a running instrument early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Request to end early, from any thread or a signal handler. Clones share the request.
///
/// A test that is stopped retains all packets received so far, and still fetches the far host's results. A
/// second request during that time ends the test at once.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl From<Arc<AtomicBool>> for Stop {
    /// Creates a stop that uses `flag`.
    fn from(flag: Arc<AtomicBool>) -> Stop {
        Stop(flag)
    }
}

impl Stop {
    /// Creates a [`Stop`] without a request.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Requests an early end.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// True if an early end is requested. A test clears the request while it ends, to notice a second one,
    /// and restores it before it returns.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Returns the flag, for signal handlers and drivers.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.0
    }
}

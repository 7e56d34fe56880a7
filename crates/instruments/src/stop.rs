//! [`Stop`]: ends a running instrument early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to end early, made from any thread or by a signal handler. Clones share it.
///
/// A test that is asked to stop keeps all it has received and still fetches what the far host has; asked once
/// more while it does, it leaves that, too.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Nothing is requested yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks for an early end.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether an early end is requested. A running test takes the request back while it ends, to notice the
    /// next, and makes it again when it returns.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// The flag itself, for signal handlers and drivers.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.0
    }
}

//! [`StopFlags`]: end requests to a running packet thread.

use crate::wake::Waker;
use jitlat_core::time::Span;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

/// End requests to a running packet thread; never withdrawn. The thread stores the number of requests at its
/// last check, so that it cannot miss one.
#[derive(Debug)]
pub(crate) struct StopFlags {
    /// Number of requests, incremented after a request's flag is set: a thread that has read this number also sees the
    /// flags of the counted requests.
    requests: AtomicU32,
    /// Time for which a receiver continues after a cut (an early end), in ns; negative while no cut is
    /// requested.
    cut: AtomicI64,
    stop: AtomicBool,
    close: AtomicBool,
    /// Woken with every request.
    pub waker: Waker,
}

impl StopFlags {
    /// Creates flags without requests.
    pub fn new() -> std::io::Result<StopFlags> {
        Ok(StopFlags {
            requests: AtomicU32::new(0),
            cut: AtomicI64::new(-1),
            stop: AtomicBool::new(false),
            close: AtomicBool::new(false),
            waker: Waker::new()?,
        })
    }

    /// Requests an early end of the stream; a receiver continues to receive for `linger`.
    pub fn cut(&self, linger: Span) {
        self.cut.store(linger.0.max(0), Ordering::Release);
        self.requested();
    }

    /// Requests an immediate end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.requested();
    }

    /// Requests that the flow release everything and send no further report.
    pub fn close(&self) {
        self.close.store(true, Ordering::Release);
        self.stop();
    }

    fn requested(&self) {
        self.requests.fetch_add(1, Ordering::Release);
        self.waker.wake();
    }

    /// Returns the number of requests so far. A thread that then reads the flags sees all of these requests.
    #[inline]
    pub fn requests(&self) -> u32 {
        self.requests.load(Ordering::Acquire)
    }

    /// True if the flow is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.close.load(Ordering::Acquire)
    }

    /// True if an immediate end is requested.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Returns the time to continue after a cut; `None` if no cut is requested.
    pub(crate) fn is_cut(&self) -> Option<Span> {
        let linger = self.cut.load(Ordering::Acquire);
        (linger >= 0).then_some(Span(linger))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Can be run under Miri (`cargo +nightly miri test stop_flags`), which models the weakest memory
    /// ordering that the language allows.
    #[test]
    fn a_stop_just_after_a_cut_is_not_missed() {
        for _ in 0..if cfg!(miri) { 50 } else { 2000 } {
            let flags = StopFlags::new().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    flags.cut(Span(5));
                    flags.stop();
                });
                let mut seen = 0;
                let mut stopped = false;
                while seen < 2 {
                    let requests = flags.requests();
                    if requests != seen {
                        seen = requests;
                        assert_eq!(flags.is_cut(), Some(Span(5)));
                        stopped = flags.is_stopped();
                    }
                }
                assert!(stopped, "two requests were seen, the stop among them");
            });
        }
    }
}

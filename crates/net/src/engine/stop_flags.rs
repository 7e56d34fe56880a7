//! [`StopFlags`]: requests to a running packet thread to end.

use super::waker::Waker;
use jitlat_core::time::Span;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

/// Requests to a running packet thread, made once and never taken back. A thread that follows them remembers how
/// many there were when it looked last, so that none can be missed between two looks.
#[derive(Debug)]
pub struct StopFlags {
    /// Raised with every request, after the flag: who reads this number sees what it counts.
    requests: AtomicU32,
    /// How long a receiver is to linger, in ns; negative while no cut is requested.
    cut: AtomicI64,
    stop: AtomicBool,
    close: AtomicBool,
    /// Used with every request.
    pub waker: Waker,
}

impl StopFlags {
    /// Nothing is requested yet.
    pub fn new() -> nix::Result<StopFlags> {
        Ok(StopFlags {
            requests: AtomicU32::new(0),
            cut: AtomicI64::new(-1),
            stop: AtomicBool::new(false),
            close: AtomicBool::new(false),
            waker: Waker::new()?,
        })
    }

    /// End the stream early; a receiver lingers.
    pub fn cut(&self, linger: Span) {
        self.cut.store(linger.0.max(0), Ordering::Release);
        self.requested();
    }

    /// Be done at once.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.requested();
    }

    /// Release everything and report nothing more.
    pub fn close(&self) {
        self.close.store(true, Ordering::Release);
        self.stop();
    }

    fn requested(&self) {
        self.requests.fetch_add(1, Ordering::Release);
        self.waker.wake();
    }

    /// Requests so far. Whoever reads the flags after it sees all that it counts.
    #[inline]
    pub fn requests(&self) -> u32 {
        self.requests.load(Ordering::Acquire)
    }

    /// Whether closed.
    pub fn is_closed(&self) -> bool {
        self.close.load(Ordering::Acquire)
    }

    /// Whether stopped.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// How long to linger, if cut.
    pub fn is_cut(&self) -> Option<Span> {
        let linger = self.cut.load(Ordering::Acquire);
        (linger >= 0).then_some(Span(linger))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Run under Miri (`cargo +nightly miri test stop_flags`), whose memory is as weak as the language allows.
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

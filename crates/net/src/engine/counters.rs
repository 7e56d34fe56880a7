//! [`Counters`]: how far a stream is, for whoever displays it.

use jitlat_core::observer::StreamProgress;
use std::sync::atomic::{AtomicU32, Ordering};

/// The counters of one stream at one host. Written by its packet thread alone, read by anyone.
#[derive(Debug, Default)]
pub struct Counters {
    sent: AtomicU32,
    received: AtomicU32,
    highest: AtomicU32,
    /// Waits of the flow's thread.
    #[cfg(test)]
    pub waits: AtomicU32,
}

impl Counters {
    /// Data packets attempted so far.
    #[inline]
    pub fn set_sent(&self, sent: u32) {
        self.sent.store(sent, Ordering::Relaxed);
    }

    /// Data packets received so far, and one more than the highest sequence number among them.
    #[inline]
    pub fn set_received(&self, received: u32, highest: u32) {
        self.received.store(received, Ordering::Relaxed);
        self.highest.store(highest, Ordering::Relaxed);
    }

    /// What a display wants to know of a stream of so many `packets`.
    pub fn progress(&self, packets: u32) -> StreamProgress {
        let received = self.received.load(Ordering::Relaxed);
        StreamProgress {
            packets,
            sent: self.sent.load(Ordering::Relaxed),
            received,
            missing: self.highest.load(Ordering::Relaxed).saturating_sub(received),
        }
    }
}

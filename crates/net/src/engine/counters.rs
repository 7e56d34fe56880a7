//! [`StreamCounters`]: progress of a stream, for progress displays.

use jitlat_core::observer::StreamProgress;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counters of one stream on one host. Only the stream's packet thread writes them; any thread may read them.
#[derive(Debug, Default)]
pub struct StreamCounters {
    sent: AtomicU32,
    received: AtomicU32,
    highest: AtomicU32,
    /// Number of times that the flow's thread has waited.
    #[cfg(test)]
    pub waits: AtomicU32,
}

impl StreamCounters {
    /// Sets the number of data packets sent (or attempted) so far.
    #[inline]
    pub(crate) fn set_sent(&self, sent: u32) {
        self.sent.store(sent, Ordering::Relaxed);
    }

    /// Sets the number of data packets received so far, and the highest sequence number among them plus one.
    #[inline]
    pub(crate) fn set_received(&self, received: u32, highest: u32) {
        self.received.store(received, Ordering::Relaxed);
        self.highest.store(highest, Ordering::Relaxed);
    }

    /// Returns the progress of a stream of `packets` packets.
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

//! What a packet thread and the thread that converses share: counters, orders and a bell.

use jitlat_core::observer::StreamProgress;
use jitlat_core::time::Span;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

/// The counters of one stream at one host. Written by its packet thread alone, read by anyone.
#[derive(Debug, Default)]
pub struct Counters {
    sent: AtomicU32,
    received: AtomicU32,
    highest: AtomicU32,
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

/// Orders to a running packet thread. Given once, never taken back.
#[derive(Debug)]
pub struct Orders {
    /// Any of the others was given: what a pacer looks at.
    pub urgent: AtomicBool,
    /// End early: how long a receiver is to linger, in ns; negative while not ordered.
    cut: AtomicI64,
    stop: AtomicBool,
    close: AtomicBool,
    /// Rung with every order.
    pub bell: Bell,
}

impl Orders {
    /// No orders yet.
    pub fn new() -> nix::Result<Orders> {
        let bell = Bell::new()?;
        Ok(Orders {
            urgent: AtomicBool::new(false),
            cut: AtomicI64::new(-1),
            stop: AtomicBool::new(false),
            close: AtomicBool::new(false),
            bell,
        })
    }

    /// End the stream early; a receiver lingers.
    pub fn cut(&self, linger: Span) {
        self.cut.store(linger.0.max(0), Ordering::Relaxed);
        self.give();
    }

    /// Be done at once.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.give();
    }

    /// Release everything and say nothing more.
    pub fn close(&self) {
        self.close.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Whether closed.
    pub fn is_closed(&self) -> bool {
        self.close.load(Ordering::Relaxed)
    }

    fn give(&self) {
        self.urgent.store(true, Ordering::Release);
        self.bell.ring();
    }

    /// How long to linger, if cut.
    #[inline]
    pub fn is_cut(&self) -> Option<Span> {
        let linger = self.cut.load(Ordering::Relaxed);
        (linger >= 0).then_some(Span(linger))
    }

    /// Whether stopped.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Wakes the thread that converses when a packet thread has something to say.
#[derive(Clone, Debug)]
pub struct Bell(Arc<EventFd>);

impl Bell {
    /// A silent bell.
    pub fn new() -> nix::Result<Bell> {
        EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC).map(|fd| Bell(Arc::new(fd)))
    }

    /// Rings it. Never waits.
    pub fn ring(&self) {
        let _ = self.0.write(1);
    }

    /// Silences it.
    pub fn hush(&self) {
        let _ = self.0.read();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

//! What a packet thread and the thread that converses share: counters, a stop flag and a bell.

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

/// A snapshot of a running stream, for progress displays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Packets to send.
    pub packets: u32,
    /// Packets sent so far, where this host sends.
    pub sent: u32,
    /// Test packets received so far, duplicates included, where this host receives.
    pub received: u32,
    /// Packets missing below the highest sequence number received. Late packets and duplicates make
    /// it an estimate.
    pub missing: u32,
}

/// The shared state of one stream at one host. Written by its packet thread with relaxed stores, read
/// by anyone.
#[derive(Debug, Default)]
pub struct Counters {
    /// Packets handed to the kernel (or refused by it): the sender's count.
    pub sent: AtomicU32,
    /// Test packets received.
    pub received: AtomicU32,
    /// One more than the highest sequence number received.
    pub highest: AtomicU32,
    /// Datagrams that are not of the protocol.
    pub garbage: AtomicU32,
    /// Datagrams the kernel dropped at the socket for want of room.
    pub drops: AtomicU64,
    /// When the last packet arrived, on the steady clock; 0 before the first.
    pub last_arrival: AtomicI64,
    /// Every packet was sent.
    pub all_sent: AtomicBool,
    /// A sentinel was received.
    pub sentinel: AtomicBool,
    /// The stream is broken: its TCP connection closed or failed.
    pub broken: AtomicBool,
}

impl Counters {
    /// What a display wants to know.
    pub fn progress(&self, packets: u32) -> Progress {
        let received = self.received.load(Ordering::Relaxed);
        Progress {
            packets,
            sent: self.sent.load(Ordering::Relaxed),
            received,
            missing: self.highest.load(Ordering::Relaxed).saturating_sub(received),
        }
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

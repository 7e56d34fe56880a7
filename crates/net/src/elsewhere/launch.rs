//! Launch times of packets, which only Linux has.

use crate::sys::BorrowedFd;
use jitlat_core::{Span, SteadyTime};
use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::net::IpAddr;

/// A queueing discipline of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Discipline {
    /// Kind.
    pub kind: String,
    /// Parameters of an `etf` queue.
    pub etf: Option<Etf>,
}

/// A queue that releases packets at their launch times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Etf {
    /// True if the adapter releases packets at their launch times.
    pub offload: bool,
}

/// Host functions that launch times require: none on this system.
pub(crate) trait LaunchHost: Sync {}

/// The host that this program runs on.
pub(crate) struct ThisHost;

impl LaunchHost for ThisHost {}

/// Reason why launch times cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("--pace etf: jitlat can do this only on Linux; --pace hybrid works here")]
pub(crate) struct LaunchError;

/// Launch-time settings of one socket, of which there are none on this system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    /// Time before the launch time at which a packet is passed to the kernel.
    pub advance: Span,
    never: Infallible,
}

impl Launch {
    /// Returns an error.
    pub fn prepare(_: &dyn LaunchHost, _: BorrowedFd<'_>, _: IpAddr) -> Result<Launch, LaunchError> {
        Err(LaunchError)
    }

    /// Sends a datagram at its launch time.
    pub fn send(self, _: BorrowedFd<'_>, _: &[IoSlice<'_>], _: SteadyTime) -> io::Result<usize> {
        match self.never {}
    }

    /// Sends a datagram with the earliest possible launch time.
    pub fn send_soon(self, _: BorrowedFd<'_>, _: &[u8]) -> io::Result<usize> {
        match self.never {}
    }
}

/// Returns an error: this system does not show its queues.
pub(crate) fn disciplines(_: u32) -> io::Result<Vec<Discipline>> {
    Err(crate::elsewhere::refusal("reading the queues of an interface"))
}

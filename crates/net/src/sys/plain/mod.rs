//! Every system but Linux: packets are exchanged one by one, so that the program reads the clock right after each call, and
//! what a system does not have is refused.

mod host;
mod options;
mod packets;
#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;
mod wait;

pub use system::{AsFd, BorrowedFd, OwnedFd};
#[cfg(windows)]
pub use system::{Keyboard, on_interrupt, stderr_is_ready};

pub(crate) use host::*;
pub(crate) use options::*;
pub(crate) use packets::*;
pub(crate) use system::*;
pub(crate) use wait::*;

use std::io;

/// Maximum number of packets exchanged with the kernel in one call.
pub(crate) const MAX_BATCH: usize = 1;

/// Returns an error: this system cannot do `what`.
fn only_linux<T>(what: &str) -> io::Result<T> {
    Err(crate::elsewhere::refusal(what))
}

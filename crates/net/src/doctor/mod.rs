//! What this host adds to every figure measured on it, and why: measured if possible, otherwise read from the kernel.
//! Needs no privilege; what cannot be determined is absent.
//!
//! * [`clock`] – what reading the clock costs, and how often it stalls
//! * [`wake`] – how late this host wakes up
//! * [`loopback`] – the delay of a stream through this host alone
//! * [`machine`] – processors, power saving, load, scheduling
//! * [`interfaces`] – network interfaces and the time stamps they support
//! * [`sockets`] – sizes of socket buffers

pub mod clock;
pub mod interfaces;
pub mod loopback;
pub mod machine;
pub mod sockets;
pub mod wake;

use std::path::Path;

/// The first line of a kernel file, trimmed; `None` if it is missing, empty or unreadable.
fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned)
}

/// A number in a kernel file.
fn number<T: std::str::FromStr>(path: impl AsRef<Path>) -> Option<T> {
    line(path)?.parse().ok()
}

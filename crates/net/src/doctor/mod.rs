//! Delays that this host adds to every measurement, and their causes: measured if possible, otherwise read
//! from the kernel. No privilege is needed. Values that cannot be determined are omitted.
//!
//! * [`clock`] – cost of reading the clock, and number of stalls
//! * [`wake`] – wake-up delays of this host
//! * [`loopback`] – delay of a stream over the loopback interface
//! * [`machine`] – processors, power saving, load, scheduling
//! * [`interfaces`] – network interfaces, and the timestamps that they support
//! * [`sockets`] – sizes of socket buffers

pub mod clock;
pub mod interfaces;
pub mod loopback;
pub mod machine;
pub mod sockets;
pub mod wake;

use std::path::Path;

/// Describes the parts that were never run on this system; `None` on Linux, where tests run everything.
pub fn never_run() -> Option<&'static str> {
    crate::sys::NEVER_RUN
}

/// Reads the first line of a kernel file, trimmed; `None` if the file is missing, empty or unreadable.
fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned)
}

/// Reads a number from a kernel file; `None` if that is not possible.
fn number<T: std::str::FromStr>(path: impl AsRef<Path>) -> Option<T> {
    line(path)?.parse().ok()
}

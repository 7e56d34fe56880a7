//! What this host adds to every figure measured on it, and why: measured where it can be, read from the kernel
//! where not. Nothing here needs a privilege; what cannot be learnt is missing.
//!
//! * [`clock`] – what reading the clock costs, and how often it stalls
//! * [`wake`] – how late this host wakes up
//! * [`loopback`] – what a stream suffers on its way through nothing but this host
//! * [`machine`] – processors, power saving, load, scheduling
//! * [`interfaces`] – adapters and the stamps they can take
//! * [`sockets`] – room for packets

pub mod clock;
pub mod interfaces;
pub mod loopback;
pub mod machine;
pub mod sockets;
pub mod wake;

use std::path::Path;

/// The first line of a file of the kernel, trimmed; `None` where it is missing, empty or unreadable.
fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned)
}

/// A number in a file of the kernel.
fn number<T: std::str::FromStr>(path: impl AsRef<Path>) -> Option<T> {
    line(path)?.parse().ok()
}

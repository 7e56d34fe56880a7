//! Clocks of network adapters, which are read only on Linux.

use jitlat_core::clock::AdapterClock;
use std::io;
use std::net::IpAddr;

/// Returns an error: this system does not show the clocks of adapters.
///
/// # Errors
/// Always.
pub fn read(_number: u32) -> io::Result<AdapterClock> {
    Err(crate::elsewhere::refusal("reading the clock of an adapter"))
}

/// Returns `None`: this system does not show the clocks of adapters.
pub fn of_address(_local: IpAddr) -> Option<AdapterClock> {
    None
}

//! Requests to the drivers of network adapters.

use super::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Makes the driver of `interface` stamp every packet that it sends and receives. The setting belongs to the
/// adapter and affects all programs. Needs `CAP_NET_ADMIN`.
pub(crate) fn stamp_in_hardware(socket: BorrowedFd<'_>, interface: &str) -> io::Result<()> {
    const TX_ON: libc::c_int = 1;
    const FILTER_ALL: libc::c_int = 1;
    // SAFETY: both structures are plain data for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let mut config: libc::hwtstamp_config = unsafe { std::mem::zeroed() };
    // The kernel's name ends in a zero byte, so a name that fills the array is too long.
    if interface.len() >= request.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    config.tx_type = TX_ON;
    config.rx_filter = FILTER_ALL;
    request.ifr_ifru.ifru_data = (&raw mut config).cast();
    // SAFETY: SIOCSHWTSTAMP takes an ifreq whose data points to an hwtstamp_config; both outlive the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSHWTSTAMP as _, &raw mut request) }).map(drop)
}

/// Queries the driver of `interface`. The request begins with the command (`ETHTOOL_GET_TS_INFO`, …), and is
/// overwritten by the driver's answer. Settings cannot be changed: only known read commands of the right size
/// are passed on.
pub(crate) fn query_adapter<const N: usize>(
    socket: BorrowedFd<'_>,
    interface: &str,
    command: u32,
) -> io::Result<[u32; N]> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    // Size in 32-bit words of the kernel's structure for each command: ethtool_coalesce, ethtool_ts_info.
    let fits = matches!((command, N), (0x0e, 23) | (0x41, 11));
    // SAFETY: ifreq is plain data for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if !fits || interface.len() >= request.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    let mut fields = [0u32; N];
    fields[0] = command;
    request.ifr_ifru.ifru_data = (&raw mut fields).cast();
    // SAFETY: SIOCETHTOOL takes an ifreq whose data points to the command's structure, which has exactly as many
    // 32-bit words as `fields`; both outlive the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) })?;
    Ok(fields)
}

/// Returns the driver's statistics of `interface`: the names, 32 bytes each, padded with zeros, and the
/// values; empty if the driver has no statistics.
pub(crate) fn adapter_statistics(socket: BorrowedFd<'_>, interface: &str) -> io::Result<(Vec<u8>, Vec<u64>)> {
    const HOW_MANY: u32 = 0x37;
    const NAMES: u32 = 0x1b;
    const VALUES: u32 = 0x1d;
    /// Identifier of the string set that contains the names of the statistics.
    const STATISTICS: u32 = 1;
    const NAME: usize = 32;
    const MOST: usize = 4096;
    let pair = |a: u32, b: u32| {
        let ([a, b, c, d], [e, f, g, h]) = (a.to_ne_bytes(), b.to_ne_bytes());
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    };
    let first = |word: u64| {
        let [a, b, c, d, ..] = word.to_ne_bytes();
        u32::from_ne_bytes([a, b, c, d])
    };
    // Structure ethtool_sset_info: command, reserved, mask of sets, size of the only set.
    let mut sizes = [pair(HOW_MANY, 0), 1 << STATISTICS, 0];
    ethtool(socket, interface, &mut sizes)?;
    let count = if sizes[1] == 0 { 0 } else { first(sizes[2]) as usize };
    if count == 0 || count > MOST {
        return Ok((Vec::new(), Vec::new()));
    }
    // Older kernels write all current counters, and there may be more by then, so leave room for twice the
    // number.
    let room = 2 * count + 64;
    // Structure ethtool_gstrings: command, set, number, names.
    let mut names = vec![0; (12 + room * NAME).div_ceil(8)];
    names[0] = pair(NAMES, STATISTICS);
    names[1] = pair(count as u32, 0);
    ethtool(socket, interface, &mut names)?;
    // Structure ethtool_stats: command, number, values.
    let mut values = vec![0; 1 + room];
    values[0] = pair(VALUES, count as u32);
    ethtool(socket, interface, &mut values)?;
    let (head, bytes) = (12, names.iter().flat_map(|word| word.to_ne_bytes()));
    Ok((bytes.skip(head).take(count * NAME).collect(), values.into_iter().skip(1).take(count).collect()))
}

/// Passes `request`, which begins with a read command, to the driver of `interface`. The buffer must be large
/// enough for the kernel's answer.
fn ethtool(socket: BorrowedFd<'_>, interface: &str, request: &mut [u64]) -> io::Result<()> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    // SAFETY: ifreq is plain data for which all zeros is a value.
    let mut asked: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= asked.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in asked.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    asked.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
    // SAFETY: SIOCETHTOOL takes an ifreq whose data points to the command's structure; `adapter_statistics`, the only
    // caller, gives each as much room as it states the kernel may fill. Both outlive the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut asked) }).map(drop)
}

//! macOS and the BSDs.

use super::{StampFlags, only_linux};
use crate::cmsg::ReceivedInfo;
use crate::sys::ReceiveMode;
use jitlat_core::time::{SECOND, Span, Stamp, StampSource, WallTime};
use nix::errno::Errno;
use nix::net::if_::InterfaceFlags;
use nix::poll::PollTimeout;
use socket2::{SockRef, Socket};
use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

pub use nix::poll::{PollFd, PollFlags};
pub use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Number of the error of a connection attempt that continues in the background.
pub(crate) const IN_PROGRESS: i32 = libc::EINPROGRESS;
/// Number of the error of a datagram that is too long.
pub(crate) const MESSAGE_TOO_LONG: i32 = libc::EMSGSIZE;
/// Description of the parts that were never run on this system.
pub(crate) const NEVER_RUN: Option<&str> = Some(
    "this version was compiled and linked, but never run: waits, stamps on arrival, TTL and DSCP of received packets, ICMP \
     and the live view are untested",
);
/// Time before a deadline at which a thread stops sleeping and spins: the waits for sockets have steps of 1 ms.
pub(crate) const SPIN_TIME: Span = Span::millis(1);

/// Number of a descriptor.
pub(crate) type RawDescriptor = RawFd;

/// Returns the number of `descriptor`.
pub(crate) fn raw(descriptor: BorrowedFd<'_>) -> RawDescriptor {
    descriptor.as_raw_fd()
}

/// Waits for `events` of the descriptor with the number `raw`.
pub(crate) fn poll_fd<'a>(raw: RawDescriptor, events: PollFlags) -> PollFd<'a> {
    // SAFETY: the number is only passed to `poll`, which reports a closed descriptor.
    PollFd::new(unsafe { BorrowedFd::borrow_raw(raw) }, events)
}

/// Waits until one of `fds` is ready, for at most `timeout`, rounded up to whole milliseconds; `None`: without a limit.
/// Returns the number of ready descriptors: 0 after `timeout`, or if a signal arrived.
///
/// # Errors
/// Errors of the operating system.
pub(crate) fn poll(fds: &mut [PollFd<'_>], timeout: Option<Span>) -> io::Result<usize> {
    let milliseconds = timeout.map(|span| span.0.max(0).unsigned_abs().div_ceil(1_000_000));
    let timeout =
        milliseconds.map_or(PollTimeout::NONE, |ms| PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX));
    match nix::poll::poll(fds, timeout) {
        Ok(count) => Ok(count as usize),
        Err(Errno::EINTR) => Ok(0),
        Err(e) => Err(e.into()),
    }
}

/// Size of the buffer for the control messages of one packet, in bytes.
const CONTROL_BYTES: usize = 256;

#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Receives a datagram. Returns its length, its sender, and what the system reported about it.
pub(super) fn receive_one(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    mode: ReceiveMode,
    peek: bool,
) -> io::Result<(usize, Option<SocketAddr>, ReceivedInfo)> {
    let mut flags = if mode == ReceiveMode::Queued { libc::MSG_DONTWAIT } else { 0 };
    if peek {
        flags |= libc::MSG_PEEK;
    }
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is plain data for which all zeros is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    let mut received = 0;
    // SAFETY: the closure stores the length of a name that the kernel has written to the storage.
    let (_, name) = unsafe {
        socket2::SockAddr::try_init(|storage, length| {
            message.msg_name = storage.cast();
            message.msg_namelen = *length;
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = CONTROL_BYTES as _;
            received = libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags);
            *length = message.msg_namelen;
            if received < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        })?
    };
    Ok((received as usize, name.as_socket(), reported(&message)))
}

/// Reads the control messages of a received packet.
fn reported(message: &libc::msghdr) -> ReceivedInfo {
    let mut info = ReceivedInfo::default();
    // SAFETY: the kernel has written well-formed control messages, of the length that it stored, to live memory.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !at.is_null() {
        // SAFETY: the pointer is to a header within the control messages, whose data follows it.
        let (header, data) = unsafe { (&*at, libc::CMSG_DATA(at)) };
        // SAFETY: each type's data has at least the size that is read, and any alignment.
        unsafe {
            match (header.cmsg_level, header.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_RECVTTL) => info.ttl = Some(*data),
                (libc::IPPROTO_IP, libc::IP_RECVTOS) => info.traffic_class = Some(*data),
                (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    info.ttl = u8::try_from(data.cast::<c_int>().read_unaligned()).ok();
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    info.traffic_class = u8::try_from(data.cast::<c_int>().read_unaligned()).ok();
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMP) => {
                    let time = data.cast::<libc::timeval>().read_unaligned();
                    let (seconds, microseconds): (i64, i64) = (time.tv_sec as _, time.tv_usec as _);
                    let at = WallTime(seconds.saturating_mul(SECOND).saturating_add(microseconds * 1000));
                    info.stamp = Some(Stamp { at, source: StampSource::Kernel });
                }
                _ => {}
            }
        }
        // SAFETY: as for the first message.
        at = unsafe { libc::CMSG_NXTHDR(message, at) };
    }
    info
}

fn set_flag(socket: &impl AsFd, level: c_int, name: c_int, on: bool) -> io::Result<()> {
    let value = c_int::from(on);
    // SAFETY: the kernel reads one int, which outlives the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Enables facts about each received packet. Options that the system does not support are skipped.
pub(crate) fn observe(socket: &impl AsFd, v6: bool) {
    if v6 {
        let _ = set_flag(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, true);
        let _ = set_flag(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, true);
    } else {
        let _ = set_flag(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, true);
        let _ = set_flag(socket, libc::IPPROTO_IP, libc::IP_RECVTTL, true);
    }
}

/// Requests stamps of received packets. These systems do not stamp sent packets.
pub(crate) fn set_stamps(socket: &impl AsFd, flags: StampFlags) -> io::Result<()> {
    if flags.received {
        set_flag(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMP, true)?;
    }
    if flags.sent { only_linux("stamps of the kernel for sent packets") } else { Ok(()) }
}

/// Sets the octet of DSCP and ECN field of sent packets.
pub(crate) fn set_traffic_class(socket: &impl AsFd, octet: u8) -> io::Result<()> {
    let socket = socket.as_fd();
    let socket = SockRef::from(&socket);
    match socket.local_addr()?.is_ipv6() {
        true => socket.set_tclass_v6(octet.into()),
        false => socket.set_tos_v4(octet.into()),
    }
}

/// Sends and receives only through the interface `name`.
#[cfg(target_vendor = "apple")]
pub(crate) fn bind_device(socket: &Socket, name: &str, v6: bool) -> io::Result<()> {
    let index = std::num::NonZeroU32::new(interface_index(name)?);
    if v6 { socket.bind_device_by_index_v6(index) } else { socket.bind_device_by_index_v4(index) }
}

/// Returns an error: the interface cannot be chosen.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn bind_device(_: &Socket, _: &str, _: bool) -> io::Result<()> {
    let why = "--interface: not on this system; use --bind with an address of the interface";
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

/// Sleeps for `span`.
pub(super) fn sleep(span: Duration) {
    std::thread::sleep(span);
}

/// Does nothing: the timers of these systems have no setting.
pub(crate) fn sharpen_timers() -> io::Result<()> {
    Ok(())
}

/// Returns an error: threads are not pinned.
pub(crate) fn pin(_: usize) -> io::Result<()> {
    only_linux("pinning a thread to a processor")
}

/// Runs the calling thread under `SCHED_FIFO`.
pub(crate) fn schedule_fifo(priority: u8) -> io::Result<()> {
    // SAFETY: sched_param is plain data for which all zeros is a value.
    let mut parameters: libc::sched_param = unsafe { MaybeUninit::zeroed().assume_init() };
    parameters.sched_priority = priority.into();
    // SAFETY: the calling thread exists, and the pointer is to a live, initialised structure.
    match unsafe {
        libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_FIFO, &raw const parameters)
    } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Does nothing: threads of normal priority stay as they are.
pub(crate) fn yield_to_others() -> io::Result<()> {
    Ok(())
}

/// Returns the name of this host, and name and release of its system.
pub(crate) fn names() -> (Option<String>, Option<String>) {
    let text = |s: &std::ffi::OsStr| s.to_string_lossy().into_owned();
    let system = nix::sys::utsname::uname().ok();
    let name = system.as_ref().map(|u| text(u.nodename()));
    (name, system.map(|u| format!("{} {}", text(u.sysname()), text(u.release()))))
}

/// Returns all addresses of all interfaces of this host.
///
/// # Errors
/// Errors of the operating system.
pub(crate) fn interfaces() -> io::Result<Vec<super::InterfaceAddress>> {
    let found = nix::ifaddrs::getifaddrs()?.filter_map(|entry| {
        let index = interface_index(&entry.interface_name).ok()?;
        let v4 = entry.address.as_ref().and_then(|a| a.as_sockaddr_in()).map(|s| IpAddr::V4(s.ip()));
        let v6 = || entry.address.as_ref().and_then(|a| a.as_sockaddr_in6()).map(|s| IpAddr::V6(s.ip()));
        let mask = entry.netmask.as_ref();
        let short = mask.and_then(|m| m.as_sockaddr_in()).map(|m| m.ip().to_bits().leading_ones());
        let long = || mask.and_then(|m| m.as_sockaddr_in6()).map(|m| m.ip().to_bits().leading_ones());
        Some(super::InterfaceAddress {
            index,
            address: v4.or_else(v6),
            prefix_length: short.or_else(long).and_then(|length| u8::try_from(length).ok()),
            is_up: entry.flags.contains(InterfaceFlags::IFF_UP),
            is_loopback: entry.flags.contains(InterfaceFlags::IFF_LOOPBACK),
            is_multicast: entry.flags.contains(InterfaceFlags::IFF_MULTICAST),
            name: entry.interface_name,
        })
    });
    Ok(found.collect())
}

/// Returns the number of the interface `name`.
///
/// # Errors
/// There is no such interface.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    Ok(nix::net::if_::if_nametoindex(name)?)
}

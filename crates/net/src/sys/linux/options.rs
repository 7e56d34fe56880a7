//! Options of sockets.

use crate::stamp::{StampMode, StampedPackets};
use jitlat_core::Span;
use jitlat_core::time::SECOND;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, getsockopt, recv, setsockopt, sockopt};
use nix::sys::time::TimeVal;
use socket2::{SockRef, Socket};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Options that request stamps on a socket.
pub(crate) type StampFlags = nix::sys::socket::TimestampingFlag;

/// Longest wait in a receive call; `None`: without a limit, because a shutdown of the socket ends it.
pub(crate) const LONGEST_WAIT: Option<std::time::Duration> = None;

/// Returns the text of an error, without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => Errno::from_raw(number).desc().to_owned(),
        None => error.to_string(),
    }
}

/// Buffer size to request in each direction, in bytes: enough for tens of thousands of small packets.
const BUFFER: usize = 8 << 20;

/// Enlarges the socket's buffers, beyond the system's limit if permitted, otherwise up to the limit.
pub(crate) fn enlarge(socket: &impl AsFd) {
    // The "force" options exceed the system's limit but need CAP_NET_ADMIN; the others are capped at the
    // limit.
    if setsockopt(socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        let _ = setsockopt(socket, sockopt::RcvBuf, &BUFFER);
    }
    if setsockopt(socket, sockopt::SndBufForce, &BUFFER).is_err() {
        let _ = setsockopt(socket, sockopt::SndBuf, &BUFFER);
    }
}

/// Requests a receive buffer of `bytes`.
pub(crate) fn set_receive_buffer(socket: &impl AsFd, bytes: usize) {
    let _ = setsockopt(socket, sockopt::RcvBuf, &bytes);
}

/// Returns the size of the receive buffer, in bytes.
pub(crate) fn receive_buffer(socket: &impl AsFd) -> Option<usize> {
    getsockopt(socket, sockopt::RcvBuf).ok()
}

/// Returns the size of the send buffer, in bytes.
pub(crate) fn send_buffer(socket: &impl AsFd) -> Option<usize> {
    getsockopt(socket, sockopt::SndBuf).ok()
}

/// Enables facts about each received packet. Options that the kernel does not support are skipped.
pub(crate) fn observe(socket: &impl AsFd, v6: bool) {
    if v6 {
        let _ = setsockopt(socket, sockopt::Ipv6RecvTClass, &true);
        let _ = setsockopt(socket, sockopt::Ipv6RecvHopLimit, &true);
    }
    // An IPv6 socket may have an IPv4 peer (v4-mapped address), whose fields only these options report.
    let _ = setsockopt(socket, sockopt::IpRecvTos, &true);
    let _ = setsockopt(socket, sockopt::Ipv4RecvTtl, &true);
}

/// Makes the kernel report how many packets it dropped because the socket's buffer was full.
pub(crate) fn observe_drops(socket: &impl AsFd) {
    let _ = setsockopt(socket, sockopt::RxqOvfl, &1);
}

/// Makes the kernel report the address to which each packet was sent.
pub(crate) fn observe_destination(socket: &impl AsFd, v6: bool) -> io::Result<()> {
    let set = match v6 {
        true => setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true),
        false => setsockopt(socket, sockopt::Ipv4PacketInfo, &true),
    };
    set.map_err(io::Error::from)
}

/// Sets the octet of DSCP and ECN field of sent packets.
pub(crate) fn set_traffic_class(socket: &impl AsFd, octet: u8) -> io::Result<()> {
    let octet = i32::from(octet);
    let v4 = setsockopt(socket, sockopt::Ipv4Tos, &octet);
    // An IPv6 socket has both options, an IPv4 socket only that of IPv4.
    let v6 = setsockopt(socket, sockopt::Ipv6TClass, &octet);
    Ok(v6.or(v4)?)
}

/// Sets the priority of sent packets on this host (`SO_PRIORITY`).
pub(crate) fn set_priority(socket: &impl AsFd, priority: u32) -> io::Result<()> {
    Ok(setsockopt(socket, sockopt::Priority, &priority.cast_signed())?)
}

/// Sends and receives only through the interface `name`.
pub(crate) fn bind_device(socket: &Socket, name: &str, _v6: bool) -> io::Result<()> {
    socket.bind_device(Some(name.as_bytes()))
}

/// Makes the kernel divide sent data into datagrams of `payload` bytes; 0: the kernel sends them undivided.
pub(crate) fn set_segment(socket: &impl AsFd, payload: u16) -> io::Result<()> {
    Ok(setsockopt(socket, sockopt::UdpGsoSegment, &payload.into())?)
}

/// Sends the concatenated `parts` without waiting.
pub(crate) fn send_parts(socket: &impl AsFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    SockRef::from(socket).send_vectored_with_flags(parts, libc::MSG_DONTWAIT)
}

/// True if the kernel cannot send segmented buffers to this peer: the adapter does not compute checksums,
/// IPsec is used, or segments exceed the path MTU.
pub(crate) fn refuses_segments(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP | libc::ENOPROTOOPT)
    )
}

/// Requests stamps on a socket, or none if `flags` is empty.
pub(crate) fn set_stamps(socket: &impl AsFd, flags: StampFlags) -> io::Result<()> {
    Ok(setsockopt(socket, sockopt::Timestamping, &flags)?)
}

/// Makes the kernel number the packets that it stamps from 0 again.
pub(crate) fn restart_stamps(socket: &impl AsFd, flags: StampFlags) -> io::Result<()> {
    // The kernel restarts its count when this option is switched on, so it is switched off and on.
    set_stamps(socket, flags - StampFlags::SOF_TIMESTAMPING_OPT_ID)?;
    set_stamps(socket, flags)
}

/// Returns the options that request the stamps `want`.
pub(crate) fn stamp_flags(want: StampMode, stamped: StampedPackets) -> StampFlags {
    use StampFlags as F;
    let mut all = F::empty();
    if want == StampMode::User {
        return all;
    }
    all |= F::SOF_TIMESTAMPING_SOFTWARE;
    if stamped.received {
        all |= F::SOF_TIMESTAMPING_RX_SOFTWARE;
    }
    let sent = stamped.sent && want > StampMode::KernelReceive;
    if sent {
        all |= F::SOF_TIMESTAMPING_TX_SOFTWARE | F::SOF_TIMESTAMPING_OPT_ID | F::SOF_TIMESTAMPING_OPT_TSONLY;
        // Also stamp the entry into the interface's queue, because this host, not the path, causes the wait
        // in the queue.
        all |= F::from_bits_retain(libc::SOF_TIMESTAMPING_TX_SCHED);
    }
    if want == StampMode::Hardware {
        all |= F::SOF_TIMESTAMPING_RAW_HARDWARE;
        all.set(F::SOF_TIMESTAMPING_RX_HARDWARE, stamped.received);
        if sent {
            // Request both stamps of each packet, so that the software stamp can replace a missing hardware
            // stamp.
            all |= F::SOF_TIMESTAMPING_TX_HARDWARE;
            all |= F::from_bits_retain(libc::SOF_TIMESTAMPING_OPT_TX_SWHW);
        }
    }
    all
}

/// Returns the options of a socket that answers: stamp all received packets, and sent packets that request a stamp.
pub(crate) fn answer_stamp_flags() -> StampFlags {
    // With OPT_TSONLY, the error queue does not return the packets themselves.
    StampFlags::SOF_TIMESTAMPING_SOFTWARE
        | StampFlags::SOF_TIMESTAMPING_RX_SOFTWARE
        | StampFlags::SOF_TIMESTAMPING_OPT_ID
        | StampFlags::SOF_TIMESTAMPING_OPT_TSONLY
}

/// Makes the next receive call wait for `span`; returns false if that is not possible.
pub(crate) fn receive_within(socket: &impl AsFd, span: Span) -> bool {
    let limit = TimeVal::new((span.0 / SECOND) as _, ((span.0 % SECOND) / 1000) as _);
    (limit.tv_sec() > 0 || limit.tv_usec() > 0) && setsockopt(socket, sockopt::ReceiveTimeout, &limit).is_ok()
}

/// Receives a queued datagram without waiting. With `peek`, the datagram stays queued. A longer datagram is cut.
///
/// # Errors
/// `WouldBlock` if none is queued. Any other error concerns an earlier send and is cleared by this call.
pub(crate) fn receive_queued(socket: &impl AsFd, buffer: &mut [u8], peek: bool) -> io::Result<usize> {
    let peek = if peek { MsgFlags::MSG_PEEK } else { MsgFlags::empty() };
    Ok(recv(socket.as_fd().as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT | peek)?)
}

/// Discards what is in the socket's error queue: while it has entries, every wait ends at once.
pub(crate) fn discard_error_queue(socket: BorrowedFd<'_>) {
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    while recv(socket.as_raw_fd(), &mut [], flags).is_ok() {}
}

/// True if connecting continues in the background.
pub(crate) fn is_in_progress(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINPROGRESS)
}

/// True if the system does not let the socket send to this address: over IPv4 and without `SO_BROADCAST`, a broadcast
/// address.
pub(crate) fn is_access_denied(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EACCES)
}

/// True if this host's firewall does not let the packets out.
pub(crate) fn is_own_firewall(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EPERM)
}

/// True if the error means that a host on the path prohibits the packets of a connected UDP socket (ICMP
/// codes 9, 10 and 13; ICMPv6 code 1). Destinations that are unreachable for another reason cause no error on
/// such a socket.
pub(crate) fn is_prohibition(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EACCES))
}

/// True if the error may report that an earlier packet was larger than a link on the path can carry (ICMP). The
/// kernel has lowered the path MTU, and sends the next packet in fragments.
pub(crate) fn is_mtu_report(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::EMSGSIZE)
}

/// True if there is no such device.
pub(crate) fn is_no_device(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::ENODEV)
}

/// True if the system does not accept an argument, for example an address of another interface.
pub(crate) fn is_invalid(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::EINVAL)
}

/// Delivers only packets of multicast groups that this socket has joined, not of those that another socket has.
pub(crate) fn receive_own_groups(socket: &Socket, v6: bool) -> io::Result<()> {
    if v6 { socket.set_multicast_all_v6(false) } else { socket.set_multicast_all_v4(false) }
}

//! Options of sockets.

use super::{AsFd, BorrowedFd};
use crate::stamp::{StampMode, StampedPackets};
use jitlat_core::Span;
use socket2::SockRef;
use std::io::{self, ErrorKind, IoSlice};

/// Options that request stamps on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StampFlags {
    pub(super) received: bool,
    pub(super) sent: bool,
}

/// Longest wait in a receive call. It is limited, because a shutdown of the socket does not end the call on these systems.
pub(crate) const LONGEST_WAIT: Option<std::time::Duration> = Some(std::time::Duration::from_millis(100));

/// Returns the kind and number of an error of the system, because Windows has texts in the user's language, and Wine has none.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => format!("{} (error {number} of the system)", error.kind()),
        None => error.to_string(),
    }
}

/// Buffer size to request in each direction, in bytes: enough for tens of thousands of small packets, and permitted
/// everywhere.
const BUFFER: usize = 4 << 20;

/// Enlarges the socket's buffers, as far as the system permits.
pub(crate) fn enlarge(socket: &impl AsFd) {
    let socket = socket.as_fd();
    let socket = SockRef::from(&socket);
    let mut bytes = BUFFER;
    // These systems refuse a size above their limit instead of reducing it.
    while bytes >= 1 << 16 && socket.set_recv_buffer_size(bytes).is_err() {
        bytes /= 2;
    }
    bytes = BUFFER;
    while bytes >= 1 << 16 && socket.set_send_buffer_size(bytes).is_err() {
        bytes /= 2;
    }
}

/// Requests a receive buffer of `bytes`.
pub(crate) fn set_receive_buffer(socket: &impl AsFd, bytes: usize) {
    let socket = socket.as_fd();
    let _ = SockRef::from(&socket).set_recv_buffer_size(bytes);
}

/// Returns the size of the receive buffer, in bytes.
pub(crate) fn receive_buffer(socket: &impl AsFd) -> Option<usize> {
    let socket = socket.as_fd();
    SockRef::from(&socket).recv_buffer_size().ok()
}

/// Returns the size of the send buffer, in bytes.
pub(crate) fn send_buffer(socket: &impl AsFd) -> Option<usize> {
    let socket = socket.as_fd();
    SockRef::from(&socket).send_buffer_size().ok()
}

/// Does nothing: the number of packets that the system dropped is unknown.
pub(crate) fn observe_drops(_: &impl AsFd) {}

/// Does nothing: answers have the source address that the system chooses.
pub(crate) fn observe_destination(_: &impl AsFd, _: bool) -> io::Result<()> {
    Ok(())
}

/// Returns an error: packets have no priority on this host.
pub(crate) fn set_priority(_: &impl AsFd, _: u32) -> io::Result<()> {
    super::only_linux("--priority")
}

/// Returns an error: these systems do not divide buffers into datagrams.
pub(crate) fn set_segment(_: &impl AsFd, _: u16) -> io::Result<()> {
    super::only_linux("cutting buffers into datagrams")
}

/// Sends the concatenated `parts`.
pub(crate) fn send_parts(socket: &impl AsFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    let socket = socket.as_fd();
    SockRef::from(&socket).send_vectored(parts)
}

/// Returns true: these systems do not divide buffers into datagrams.
pub(crate) fn refuses_segments(_: &io::Error) -> bool {
    true
}

/// Makes the kernel number the packets that it stamps from 0 again.
pub(crate) fn restart_stamps(socket: &impl AsFd, flags: StampFlags) -> io::Result<()> {
    super::set_stamps(socket, flags)
}

/// Returns the options that request the stamps `want`.
pub(crate) fn stamp_flags(want: StampMode, stamped: StampedPackets) -> StampFlags {
    StampFlags {
        received: stamped.received && want != StampMode::User,
        sent: stamped.sent && want > StampMode::KernelReceive,
    }
}

/// Returns the options of a socket that answers.
pub(crate) fn answer_stamp_flags() -> StampFlags {
    StampFlags { received: true, sent: true }
}

/// Returns false: the timeout of a receive call is coarse.
pub(crate) fn receive_within(_: &impl AsFd, _: Span) -> bool {
    false
}

/// Does nothing: there is no error queue.
pub(crate) fn discard_error_queue(_: BorrowedFd<'_>) {}

/// True if connecting continues in the background. Windows reports that it would block.
pub(crate) fn is_in_progress(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(super::IN_PROGRESS)
}

/// True if the system does not let the socket send to this address: over IPv4 and without `SO_BROADCAST`, a broadcast
/// address.
pub(crate) fn is_access_denied(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied
}

/// True if this host's firewall does not let the packets out.
pub(crate) fn is_own_firewall(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied
}

/// True if the error means that a host on the path prohibits the packets of a connected UDP socket.
pub(crate) fn is_prohibition(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable)
}

/// True if there is no such device.
pub(crate) fn is_no_device(_: &io::Error) -> bool {
    false
}

/// True if the system does not accept an argument, for example an address of another interface.
pub(crate) fn is_invalid(error: &io::Error) -> bool {
    error.kind() == ErrorKind::InvalidInput
}

/// True if the error reports that a packet was larger than a link on the path can carry.
pub(crate) fn is_mtu_report(error: &io::Error) -> bool {
    error.raw_os_error() == Some(super::MESSAGE_TOO_LONG)
}

/// Does nothing: only Linux delivers packets of groups that another socket has joined.
pub(crate) fn receive_own_groups(_: &socket2::Socket, _: bool) -> io::Result<()> {
    Ok(())
}

//! Sockets of test streams: their options, and non-blocking writes.

use crate::sockets::{PacketMarker, enlarge, observe, prefer};
use crate::stamp::{self, StampMode, StampedPackets};
use crate::sys::{self, AsFd, PollFd, PollFlags, poll};
use jitlat_core::Span;
use std::io::{self, IoSlice, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

/// Maximum wait of a packet thread, so that it notices a stop.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// Marks of a sender's packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    /// DSCP and ECN fields of the packets.
    pub marker: PacketMarker,
    /// Priority on this host (`SO_PRIORITY`); `None`: the system's default.
    pub priority: Option<u32>,
}

impl Marks {
    /// Sets the marks on `socket`; returns notes about marks that could not be set.
    fn set(self, socket: &impl AsFd) -> Vec<String> {
        let marked = self.marker.plain(socket).err().map(|e| e.to_string());
        let preferred = prefer(socket, self.priority).err().map(|e| e.to_string());
        marked.into_iter().chain(preferred).collect()
    }
}

/// Sets all options that a stream needs, except the peer. Returns the kinds of stamps to expect, and notes
/// about settings that were not possible. Should be called some time before the stream, because the kernel starts to
/// stamp received packets only after a while.
pub(crate) fn prepare_udp(
    socket: &UdpSocket,
    stamped: StampedPackets,
    marks: Marks,
    stamps: StampMode,
) -> io::Result<(StampMode, Vec<String>)> {
    let local = socket.local_addr()?;
    let marked = match stamped.sent {
        true => marks.set(socket),
        false => {
            // Packets dropped by this host would otherwise look like loss on the path.
            sys::observe_drops(socket);
            observe(socket, local.is_ipv6());
            Vec::new()
        }
    };
    enlarge(socket);
    socket.set_read_timeout(Some(MAX_WAIT))?;
    let (stamps, mut notes) = stamp::enable(socket.as_fd(), local.ip(), stamps, stamped);
    notes.extend(marked);
    Ok((stamps, notes))
}

/// Sets all options that a stream needs; returns notes about settings that were not possible. Disables
/// Nagle's algorithm, so that a record is sent as soon as it is written. `marks` is set for a sender.
pub(crate) fn prepare_tcp(stream: &TcpStream, marks: Option<Marks>) -> io::Result<Vec<String>> {
    stream.set_nodelay(true)?;
    // The rendezvous makes its connections non-blocking.
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(MAX_WAIT))?;
    Ok(marks.map(|m| m.set(stream)).unwrap_or_default())
}

/// Waits until `stream` accepts more bytes, for at most `timeout`; returns true if it does.
pub(crate) fn writable(stream: &TcpStream, timeout: Span) -> bool {
    let mut queue = [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)];
    poll(&mut queue, Some(timeout)).is_ok_and(|n| n > 0)
}

/// Writes as much of the concatenated `parts`, starting at byte `done`, as the kernel accepts without
/// blocking.
pub(crate) fn write_some(mut stream: &TcpStream, parts: [&[u8]; 2], done: usize) -> io::Result<usize> {
    let [head, tail] = parts;
    let rest = [&head[done.min(head.len())..], &tail[done.saturating_sub(head.len()).min(tail.len())..]];
    match stream.write_vectored(&rest.map(IoSlice::new)) {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        other => other,
    }
}

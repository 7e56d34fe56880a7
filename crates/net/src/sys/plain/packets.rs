//! Sending and receiving datagrams, one by one.

use super::{AsFd, BorrowedFd, receive_one};
use crate::cmsg::{LocalAddress, ReceivedInfo, TransmitStamp};
use crate::sys::{ReceiveMode, SendOptions};
use core::ops::Range;
use jitlat_core::tcp::TcpMoment;
use jitlat_core::twoway::TcpSample;
use socket2::{SockRef, Socket};
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;

/// Length of the longest datagram, in bytes.
const LONGEST: usize = 1 << 16;

/// Sends the first of `packets` as a datagram on a connected socket; returns the number of datagrams sent.
pub(crate) fn send_batch(socket: BorrowedFd<'_>, packets: &[[IoSlice<'_>; 2]]) -> io::Result<usize> {
    match packets.first() {
        Some(parts) => SockRef::from(&socket).send_vectored(parts).map(|_| 1).map_err(about_earlier_packet),
        None => Ok(0),
    }
}

/// Sends `datagram` on a connected socket. These systems do not leave checksums to virtual adapters.
pub(crate) fn send_summed(socket: &Socket, datagram: &[u8]) -> io::Result<()> {
    socket.send(datagram).map(drop).map_err(about_earlier_packet)
}

/// Windows reports as "connection reset" that nothing listens where an earlier datagram was sent; the others as
/// "connection refused".
fn about_earlier_packet(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::ConnectionReset => ErrorKind::ConnectionRefused.into(),
        _ => error,
    }
}

/// Receives a queued datagram without waiting. With `peek`, the datagram stays queued. A longer datagram is cut.
///
/// # Errors
/// `WouldBlock` if none is queued. Any other error concerns an earlier send and is cleared by this call.
pub(crate) fn receive_queued(socket: &impl AsFd, buffer: &mut [u8], peek: bool) -> io::Result<usize> {
    let mut whole = [0; LONGEST];
    let received = receive_one(socket.as_fd(), &mut whole, ReceiveMode::Queued, peek);
    let (length, _, _) = received.map_err(about_earlier_packet)?;
    let length = length.min(buffer.len());
    buffer[..length].copy_from_slice(&whole[..length]);
    Ok(length)
}

/// Answers collected for sending.
pub(crate) struct Outbox {
    answers: Vec<(Vec<u8>, SocketAddr)>,
    /// Index of the first answer that has not been passed to the kernel yet.
    next: usize,
}

impl Outbox {
    /// Creates an outbox.
    pub fn new(_bytes: usize) -> Outbox {
        Outbox { answers: Vec::new(), next: 0 }
    }

    /// True if the outbox must be sent before another answer can be added.
    pub fn is_full(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Adds an answer to `to`. The system chooses the source address, and the socket has the traffic class.
    pub fn push(&mut self, answer: &[u8], to: SocketAddr, _from: Option<LocalAddress>, _how: SendOptions) {
        self.answers.push((answer.to_vec(), to));
    }

    /// True if the outbox holds no answers.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Sends the next answer. Returns its index, also if the kernel rejected it; `None` once all have been sent.
    pub(crate) fn send_next(&mut self, socket: BorrowedFd<'_>) -> Option<Result<Range<usize>, usize>> {
        let (answer, to) = self.answers.get(self.next)?;
        let sent = SockRef::from(&socket).send_to(answer, &(*to).into());
        let index = self.next;
        self.next += 1;
        Some(sent.map(|_| index..index + 1).map_err(|_| index))
    }

    /// Removes all answers.
    pub fn clear(&mut self) {
        self.answers.clear();
        self.next = 0;
    }
}

/// Preallocated memory for one received datagram.
pub(crate) struct Inbox {
    whole: Box<[u8]>,
    /// Maximum number of bytes that are passed on.
    slot: usize,
    arrival: Option<(usize, Option<SocketAddr>, ReceivedInfo)>,
    /// True if its sockets do not block.
    nonblocking: bool,
}

/// One datagram in an [`Inbox`].
#[derive(Clone, Copy)]
pub struct Datagram<'a> {
    /// Beginning of the datagram, at most the size of a slot.
    pub data: &'a [u8],
    /// Length of the whole datagram.
    pub length: usize,
    sender: Option<SocketAddr>,
    info: ReceivedInfo,
}

impl Inbox {
    /// Creates an inbox for the first `slot` bytes of a datagram.
    pub fn new(_slots: usize, slot: usize) -> Inbox {
        // Some systems refuse a datagram that is longer than the buffer, so there is room for the longest.
        Inbox { whole: vec![0; LONGEST].into(), slot, arrival: None, nonblocking: false }
    }

    /// Senders are always known.
    pub fn without_senders(self) -> Inbox {
        self
    }

    /// Prepares the inbox for sockets that do not block: a receive call then need not check first whether a datagram is queued.
    pub fn of_nonblocking(self) -> Inbox {
        Inbox { nonblocking: true, ..self }
    }

    /// Receives one datagram, and returns the number of datagrams received.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, mode: ReceiveMode) -> io::Result<usize> {
        self.arrival = None;
        if mode == ReceiveMode::ErrorQueue {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mode = if self.nonblocking { ReceiveMode::Wait } else { mode };
        let received = receive_one(socket, &mut self.whole, mode, false).map_err(about_earlier_packet)?;
        self.arrival = Some(received);
        Ok(1)
    }

    /// Iterates over the datagrams of the last [`Self::receive`].
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.arrival.iter().map(|(length, sender, info)| Datagram {
            data: &self.whole[..(*length).min(self.slot)],
            length: *length,
            sender: *sender,
            info: *info,
        })
    }
}

impl Datagram<'_> {
    /// Returns the sender; `None` if it is not an IP address.
    pub fn sender(&self) -> Option<SocketAddr> {
        self.sender
    }

    /// Returns what the system reported about the datagram.
    pub fn info(&self) -> ReceivedInfo {
        self.info
    }

    /// Returns `None`: these systems give no stamps of sent packets.
    pub(crate) fn transmit_stamp(&self) -> Option<TransmitStamp> {
        None
    }

    /// Returns false: these systems have no launch times.
    pub(crate) fn is_launch_missed(&self) -> bool {
        false
    }
}

/// Returns an error: the path MTU is not known.
pub(crate) fn path_mtu(_: BorrowedFd<'_>, _: bool) -> io::Result<u32> {
    super::only_linux("reading the path MTU")
}

/// Returns an error: the state of a TCP connection is not known.
pub(crate) fn tcp_info(_: BorrowedFd<'_>) -> io::Result<TcpSample> {
    super::only_linux("reading the state of a TCP connection")
}

/// Returns an error: the state of a TCP connection is not known.
pub(crate) fn tcp_moment(_: BorrowedFd<'_>) -> io::Result<TcpMoment> {
    super::only_linux("reading the state of a TCP connection")
}

/// Returns an error: the state of a TCP connection is not known.
pub(crate) fn tcp_bytes_acknowledged(_: BorrowedFd<'_>) -> io::Result<u64> {
    super::only_linux("reading the state of a TCP connection")
}

/// Returns an error: no adapter is asked for stamps.
pub(crate) fn stamp_in_hardware(_: BorrowedFd<'_>, _: &str) -> io::Result<()> {
    super::only_linux("stamps of the network adapter")
}

/// Returns an error: drivers are not asked.
pub(crate) fn query_adapter<const N: usize>(_: BorrowedFd<'_>, _: &str, _: u32) -> io::Result<[u32; N]> {
    super::only_linux("asking the driver of an adapter")
}

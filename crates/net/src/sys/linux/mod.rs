//! Linux: system calls and structures that nix does not wrap, or whose wrappers are too slow for packets, and the options
//! of sockets.

mod adapter;
pub mod control;
mod host;
mod options;
mod packet;
mod phc;
mod wait;

pub use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub(crate) use adapter::*;
pub(crate) use host::*;
pub(crate) use options::*;
pub(crate) use wait::*;

pub(crate) use packet::{
    Ring, RingPacket, bind_packet, enable_packet_details, packet_drops, receive_everything,
};

pub(crate) use phc::{adapter_clock_beside, adapter_clock_between};

use super::{ReceiveMode, SendOptions};
use crate::cmsg::{LocalAddress, ReceivedInfo, TransmitStamp};
use control::ControlBuffer;
use core::ops::Range;
use jitlat_core::tcp::TcpMoment;
use jitlat_core::twoway::TcpSample;
use socket2::Socket;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

/// Maximum number of packets exchanged with the kernel in one call.
pub(crate) const MAX_BATCH: usize = 32;

/// Size of the buffer for the control messages of one packet, in bytes: stamps (64), extended error with its
/// address (up to 64), TTL, traffic class and drop counter (24 each), and a reserve.
const CONTROL_BYTES: usize = 256;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Runs the calling thread under `SCHED_FIFO` at `priority` (1…99).
pub(crate) fn schedule_fifo(priority: u8) -> io::Result<()> {
    // SAFETY: sched_param is plain data for which all zeros is a value; musl has fields beyond priority.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority.into();
    // SAFETY: pid 0 is the calling thread; the pointer is to a live, initialised structure.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) }).map(drop)
}

/// Makes `folder` the folder of temporary files of this process. Must be called while the process has one thread.
pub(crate) fn use_temporary_folder(folder: &std::path::Path) {
    // SAFETY: no other thread reads the environment: the caller has started none.
    unsafe { std::env::set_var("TMPDIR", folder) };
}

/// Gives the calling thread the lowest processor priority.
pub(crate) fn yield_to_others() -> io::Result<()> {
    // SAFETY: takes and returns integers; 0 is the calling thread.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) }).map(drop)
}

/// Reads a clock, in ns, with 64 bits for its seconds; `None` if the kernel has no such call (before Linux 5.1). The C libraries of 32-bit processors have 32 bits
/// for them, and fail from 19 January 2038 on.
#[cfg(target_pointer_width = "32")]
pub(crate) fn wide_clock(clock: libc::clockid_t) -> Option<i64> {
    /// Number of `clock_gettime64`, the same on all 32-bit processors.
    const CLOCK_GETTIME64: libc::c_long = 403;
    let mut time = [0_i64; 2];
    // SAFETY: the pointer is to a live array of the size and layout of the kernel's `__kernel_timespec`.
    let status = unsafe { libc::syscall(CLOCK_GETTIME64, clock, time.as_mut_ptr()) };
    (status == 0).then(|| time[0].saturating_mul(1_000_000_000).saturating_add(time[1]))
}

/// Returns `None`: on 64-bit processors a clock that cannot be read with the C library cannot be read at all.
#[cfg(not(target_pointer_width = "32"))]
pub(crate) fn wide_clock(_clock: libc::clockid_t) -> Option<i64> {
    None
}

/// Reads the clock's state (`TIME_OK`…`TIME_ERROR`) and the kernel's clock variables with `adjtimex`, without changing
/// them.
pub(crate) fn kernel_clock() -> io::Result<(libc::c_int, libc::timex)> {
    // SAFETY: timex is plain data for which all zeros is a value; `modes` = 0 asks to change nothing.
    let mut clock: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live, initialised structure that the kernel may write.
    let state = check(unsafe { libc::adjtimex(&raw mut clock) })?;
    Ok((state, clock))
}

/// Turns an open `/dev/net/tun` into the TUN device `name`, without a packet-information header, in the
/// namespace in which it was opened. Needs `CAP_NET_ADMIN`.
pub(crate) fn attach_tun(file: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    // SAFETY: ifreq is plain data for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // With the packet-information header, each packet would begin with four bytes more than its IP header.
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF takes an ifreq with a name and flags, which outlives the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) }).map(drop)
}

/// Sends each element of `packets` (at most [`MAX_BATCH`]) as a datagram on a connected socket; returns the
/// number of datagrams sent. Returns an error only if the first datagram could not be sent.
pub(crate) fn send_batch(socket: BorrowedFd<'_>, packets: &[[IoSlice<'_>; 2]]) -> io::Result<usize> {
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; MAX_BATCH];
    let count = packets.len().min(MAX_BATCH);
    for (header, parts) in headers.iter_mut().zip(packets) {
        // SAFETY: mmsghdr is plain data for which all zeros is a value (no name, no control, no flags).
        let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        // IoSlice is guaranteed to have the layout of iovec; the kernel only reads what a send points to.
        message.msg_hdr.msg_iov = parts.as_ptr().cast_mut().cast();
        message.msg_hdr.msg_iovlen = parts.len() as _;
        header.write(message);
    }
    // SAFETY: the first `count` headers are initialised and point to iovecs and bytes that `packets`
    // borrows for longer than this call.
    check(unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count as libc::c_uint,
            libc::MSG_DONTWAIT as _,
        )
    })
    .map(|n| n as usize)
}

/// Sends the concatenated `parts` as one datagram on a connected socket, with the control messages in `control`.
pub(crate) fn send_controlled<const N: usize>(
    socket: BorrowedFd<'_>,
    parts: &[IoSlice<'_>],
    control: &ControlBuffer<N>,
) -> io::Result<usize> {
    // SAFETY: msghdr is plain data for which all zeros is a value (no name, no flags).
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // IoSlice is guaranteed to have the layout of iovec; the kernel only reads what a send points to.
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len() as _;
    let control = control.as_bytes();
    message.msg_control = control.as_ptr().cast_mut().cast();
    message.msg_controllen = control.len() as _;
    // SAFETY: the header is initialised and points to iovecs, bytes and control messages borrowed for longer than this call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// Sends `datagram` on a connected socket and makes the kernel compute its checksum: the kernel never leaves
/// the checksum of a datagram sent in pieces to the adapter. A virtual adapter never computes checksums, so a
/// program that reads whole frames at the other end would see a wrong one.
pub(crate) fn send_summed(socket: &Socket, datagram: &[u8]) -> io::Result<()> {
    socket.send_with_flags(datagram, libc::MSG_MORE | libc::MSG_DONTWAIT)?;
    uncork(socket.as_fd())
}

/// Ends a datagram that was sent with `MSG_MORE`.
fn uncork(socket: BorrowedFd<'_>) -> io::Result<()> {
    let off: libc::c_int = 0;
    // SAFETY: the kernel reads one int, which outlives the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_UDP,
            libc::UDP_CORK,
            (&raw const off).cast(),
            size_of_val(&off) as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Size of the buffer for the control messages of one answer, in bytes: address (40), traffic class (24),
/// priority (24), timestamping (24).
const ANSWER_CONTROL: usize = 112;

/// Destination and options of one answer.
struct Envelope {
    data: Range<usize>,
    summed: bool,
    to: libc::sockaddr_storage,
    to_len: libc::socklen_t,
    control: ControlBuffer<ANSWER_CONTROL>,
}

/// Answers collected for sending in one call. Memory is allocated only once.
pub(crate) struct Outbox {
    data: Vec<u8>,
    envelopes: Vec<Envelope>,
    /// Index of the first answer that has not been passed to the kernel yet.
    next: usize,
}

impl Outbox {
    /// Creates an outbox for [`MAX_BATCH`] answers with a total of `bytes` bytes; more bytes make its memory
    /// grow.
    pub fn new(bytes: usize) -> Outbox {
        Outbox { data: Vec::with_capacity(bytes), envelopes: Vec::with_capacity(MAX_BATCH), next: 0 }
    }

    /// True if the outbox must be sent before another answer can be added.
    pub fn is_full(&self) -> bool {
        self.envelopes.len() >= MAX_BATCH
    }

    /// Adds an answer to `to`, with the source address `from`.
    pub fn push(&mut self, answer: &[u8], to: SocketAddr, from: Option<LocalAddress>, how: SendOptions) {
        let start = self.data.len();
        self.data.extend_from_slice(answer);
        let (name, to_len) = name_of(to);
        let mut envelope = Envelope {
            data: start..self.data.len(),
            summed: how.summed,
            to: name,
            to_len,
            control: ControlBuffer::EMPTY,
        };
        let control = &mut envelope.control;
        if let Some(local) = from {
            local.write(control, how.same_link);
        }
        if let Some(class) = how.class {
            let class = libc::c_int::from(class).to_ne_bytes();
            match to {
                SocketAddr::V4(_) => control.push(libc::IPPROTO_IP, libc::IP_TOS, &class),
                SocketAddr::V6(_) => control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class),
            }
            // Added after the traffic class, because the last control message takes effect.
            if let Some(priority) = how.priority {
                control.push(libc::SOL_SOCKET, libc::SO_PRIORITY, &priority.to_ne_bytes());
            }
        }
        if let Some(stamped) = how.stamped {
            let options = if stamped { libc::SOF_TIMESTAMPING_TX_SOFTWARE } else { 0 };
            control.push(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &options.to_ne_bytes());
        }
        self.envelopes.push(envelope);
    }

    /// True if the outbox holds no answers.
    pub fn is_empty(&self) -> bool {
        self.envelopes.is_empty()
    }

    /// Sends the next answers. Returns the indices of the answers that the kernel accepted, or of the answer
    /// that it rejected; `None` once all have been sent.
    pub(crate) fn send_next(&mut self, socket: BorrowedFd<'_>) -> Option<Result<Range<usize>, usize>> {
        let first = self.next;
        if first >= self.envelopes.len() {
            return None;
        }
        let sent = self.send(socket);
        self.next += sent.as_ref().map_or(1, |n| (*n).max(1));
        Some(sent.map(|_| first..self.next).map_err(|_| first))
    }

    /// Removes all answers.
    pub fn clear(&mut self) {
        self.envelopes.clear();
        self.data.clear();
        self.next = 0;
    }

    /// Sends the next answers; an answer whose checksum the kernel must compute is sent alone.
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let envelopes = &mut self.envelopes[self.next..];
        let summed = envelopes.first().is_some_and(|e| e.summed);
        // With `MSG_MORE`, the kernel would append the next answer to the same datagram, so such an answer is
        // sent alone.
        let run = if summed { 1 } else { envelopes.iter().take_while(|e| !e.summed).count() };
        let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; MAX_BATCH];
        let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; MAX_BATCH];
        let mut count = 0;
        for (envelope, (header, part)) in envelopes[..run].iter_mut().zip(headers.iter_mut().zip(&mut parts))
        {
            let bytes = &self.data[envelope.data.clone()];
            // The kernel only reads what a send points to.
            let part =
                part.write(libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() });
            // SAFETY: mmsghdr is plain data for which all zeros is a value.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_name = (&raw mut envelope.to).cast();
            message.msg_hdr.msg_namelen = envelope.to_len;
            message.msg_hdr.msg_iov = &raw mut *part;
            message.msg_hdr.msg_iovlen = 1;
            // The kernel only reads the control messages.
            let control = envelope.control.as_bytes();
            message.msg_hdr.msg_control = control.as_ptr().cast_mut().cast();
            message.msg_hdr.msg_controllen = control.len() as _;
            header.write(message);
            count += 1;
        }
        let flags = libc::MSG_DONTWAIT | if summed { libc::MSG_MORE } else { 0 };
        // SAFETY: the first `count` headers are initialised and point to names, iovecs, bytes and control messages
        // that `self` or this frame owns and keeps in place for the whole call.
        let sent = check(unsafe {
            libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr().cast(), count as libc::c_uint, flags as _)
        })?;
        if summed {
            uncork(socket)?;
        }
        Ok(sent as usize)
    }
}

/// Converts an address to the kernel's format.
fn name_of(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: sockaddr_storage is plain data for which all zeros is a value.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let length = match address {
        SocketAddr::V4(v4) => {
            // SAFETY: storage is large and aligned enough for every address type, and zeroed.
            let name = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in>() };
            name.sin_family = libc::AF_INET as _;
            name.sin_port = v4.port().to_be();
            name.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above.
            let name = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in6>() };
            name.sin6_family = libc::AF_INET6 as _;
            name.sin6_port = v6.port().to_be();
            name.sin6_flowinfo = v6.flowinfo();
            name.sin6_addr.s6_addr = v6.ip().octets();
            name.sin6_scope_id = v6.scope_id();
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, length as libc::socklen_t)
}

/// Reads a socket option as 32-bit words.
fn option<const N: usize>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<[u32; N]> {
    let mut fields = [0u32; N];
    let mut length = size_of_val(&fields) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `fields`, of which every bit pattern is valid; both
    // pointers are to live variables.
    check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, fields.as_mut_ptr().cast(), &raw mut length)
    })?;
    Ok(fields)
}

/// Returns the path MTU to the peer of a connected socket, in bytes, as currently known to the kernel.
pub(crate) fn path_mtu(socket: BorrowedFd<'_>, v6: bool) -> io::Result<u32> {
    let (level, name) =
        if v6 { (libc::IPPROTO_IPV6, libc::IPV6_MTU) } else { (libc::IPPROTO_IP, libc::IP_MTU) };
    option::<1>(socket, level, name).map(|[mtu]| mtu)
}

/// Reads the kernel's TCP_INFO of a connection.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpSample> {
    // The first 104 bytes of `tcp_info`, whose beginning never changes: eight bytes of flags, then 32-bit fields.
    let fields = option::<26>(socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    Ok(TcpSample { mss: fields[4], srtt_us: fields[17], cwnd: fields[20], retransmissions: fields[25] })
}

/// Reads the state of a sending connection from the kernel's TCP_INFO, without its time.
pub(crate) fn tcp_moment(socket: BorrowedFd<'_>) -> io::Result<TcpMoment> {
    // Older kernels write fewer than these 192 bytes; the rest stays zero.
    let fields = option::<48>(socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    // The kernel writes 64-bit fields in its own byte order.
    let long = |k: usize| {
        let [a, b] = [fields[k], fields[k + 1]].map(u32::to_ne_bytes);
        u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]])
    };
    Ok(TcpMoment {
        window: fields[20],
        slow_start: fields[20] < fields[19],
        unacknowledged: fields[6],
        unsent: fields[36],
        round_trip_us: fields[17],
        retransmissions: fields[25],
        busy_us: long(42),
        receive_window_us: long(44),
        send_buffer_us: long(46),
        ..TcpMoment::default()
    })
}

/// Returns the number of bytes that the peer of a TCP connection has acknowledged, including the SYN; 0 if this kernel
/// does not count them.
pub(crate) fn tcp_bytes_acknowledged(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let fields = option::<32>(socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    let [a, b] = [fields[30], fields[31]].map(u32::to_ne_bytes);
    Ok(u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]))
}

/// Data about the packet in one slot of an [`Inbox`].
#[derive(Clone, Copy, Default)]
struct InboxSlot {
    /// Length of the whole datagram, even if the slot contains only its beginning.
    length: usize,
    named: bool,
}

/// Preallocated memory for a batch of received datagrams: the beginning of each, its control messages and its
/// sender.
pub(crate) struct Inbox {
    slot: usize,
    data: Box<[u8]>,
    control: Box<[ControlBuffer<CONTROL_BYTES>]>,
    names: Box<[libc::sockaddr_storage]>,
    /// True if senders are requested from the kernel.
    named: bool,
    arrivals: [InboxSlot; MAX_BATCH],
    received: usize,
}

/// One datagram in an [`Inbox`].
#[derive(Clone, Copy)]
pub struct Datagram<'a> {
    /// Beginning of the datagram, at most the size of a slot.
    pub data: &'a [u8],
    /// Length of the whole datagram.
    pub length: usize,
    /// Control messages, in the kernel's layout.
    pub control: &'a [u8],
    name: Option<&'a libc::sockaddr_storage>,
}

impl Inbox {
    /// Creates an inbox with `slots` slots (at most [`MAX_BATCH`]), each for the first `slot` bytes of a
    /// datagram.
    pub fn new(slots: usize, slot: usize) -> Inbox {
        let slots = slots.clamp(1, MAX_BATCH);
        // SAFETY: sockaddr_storage is plain data for which all zeros is a value.
        let name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        Inbox {
            slot,
            data: vec![0; slots * slot].into(),
            control: vec![ControlBuffer::EMPTY; slots].into(),
            names: vec![name; slots].into(),
            named: true,
            arrivals: [InboxSlot::default(); MAX_BATCH],
            received: 0,
        }
    }

    /// Turns off requests for the senders; for a connected socket, which has only one sender.
    pub fn without_senders(self) -> Inbox {
        Inbox { named: false, ..self }
    }

    /// Prepares the inbox for sockets that do not block. On Linux nothing changes, because each call states whether it may block.
    pub fn of_nonblocking(self) -> Inbox {
        self
    }

    /// Receives the datagrams that have arrived, up to the number of slots, and returns their number.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, mode: ReceiveMode) -> io::Result<usize> {
        let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; MAX_BATCH];
        let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; MAX_BATCH];
        let flags = match mode {
            ReceiveMode::Queued => libc::MSG_DONTWAIT,
            ReceiveMode::Wait => libc::MSG_WAITFORONE,
            ReceiveMode::ErrorQueue => libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
        };
        let count = self.control.len();
        self.received = 0;
        let slots = self.data.chunks_exact_mut(self.slot).zip(&mut self.control).zip(&mut self.names);
        for (((data, control), name), (header, part)) in slots.zip(headers.iter_mut().zip(&mut parts)) {
            let part = part.write(libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() });
            // SAFETY: mmsghdr is plain data for which all zeros is a value.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            if self.named {
                message.msg_hdr.msg_name = (&raw mut *name).cast();
                message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as _;
            }
            message.msg_hdr.msg_iov = &raw mut *part;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.room().as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = CONTROL_BYTES as _;
            header.write(message);
        }
        // SAFETY: the first `count` headers are initialised; each points to its own iovec, data, control
        // and name, all exclusively borrowed from `self` or this frame for the whole call. No timeout.
        let got = check(unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr().cast(),
                count as libc::c_uint,
                // With MSG_TRUNC, the length is that of the whole datagram.
                (flags | libc::MSG_TRUNC) as _,
                std::ptr::null_mut(),
            )
        })? as usize;
        let arrivals = self.arrivals.iter_mut().zip(&mut self.control).zip(&headers);
        for ((arrival, control), header) in arrivals.take(got) {
            // SAFETY: `got` ≤ `count`, and those headers were initialised above.
            let message = unsafe { header.assume_init_ref() };
            *arrival =
                InboxSlot { length: message.msg_len as usize, named: message.msg_hdr.msg_namelen != 0 };
            control.set_length(message.msg_hdr.msg_controllen as _);
        }
        self.received = got;
        Ok(got)
    }

    /// Iterates over the datagrams of the last [`Self::receive`].
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        let slots = self.data.chunks_exact(self.slot).zip(&self.control).zip(&self.names);
        slots.zip(&self.arrivals).take(self.received).map(|(((data, control), name), arrival)| Datagram {
            data: &data[..arrival.length.min(data.len())],
            length: arrival.length,
            control: control.as_bytes(),
            name: arrival.named.then_some(name),
        })
    }
}

impl Datagram<'_> {
    /// Returns what the kernel reported about the datagram.
    #[inline]
    pub fn info(&self) -> ReceivedInfo {
        ReceivedInfo::parse(self.control)
    }

    /// Returns the transmit stamp in an entry of the error queue; `None` for other entries.
    pub(crate) fn transmit_stamp(&self) -> Option<TransmitStamp> {
        control::transmit_stamp(self.control)
    }

    /// True if an entry of the error queue reports that a packet missed its launch time.
    pub(crate) fn is_launch_missed(&self) -> bool {
        control::is_launch_missed(self.control)
    }

    /// Returns the sender; `None` if it was not requested or is not an IP address.
    pub fn sender(&self) -> Option<SocketAddr> {
        let name = self.name?;
        match name.ss_family.into() {
            libc::AF_INET => {
                // SAFETY: the family says that the kernel wrote a sockaddr_in, and storage is large and
                // aligned enough for every address type.
                let v4 = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in>() };
                let address = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddrV4::new(address, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above, a sockaddr_in6.
                let v6 = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in6>() };
                let address = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddrV6::new(address, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }

    /// Returns the network protocol (an EtherType) and the packet type (`PACKET_…`) of a datagram from a packet socket;
    /// `None` for other sockets.
    pub fn link(&self) -> Option<(u16, u8)> {
        let name = self.name.filter(|n| libc::c_int::from(n.ss_family) == libc::AF_PACKET)?;
        // SAFETY: the family says that the kernel wrote a sockaddr_ll, and storage is large and aligned
        // enough for every address type.
        let link = unsafe { &*(&raw const *name).cast::<libc::sockaddr_ll>() };
        Some((u16::from_be(link.sll_protocol), link.sll_pkttype))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn a_batch_goes_out_and_comes_in_whole() {
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        let long = [7u8; 100];
        let packets = [[IoSlice::new(b"ab"), IoSlice::new(b"c")], [IoSlice::new(b"d"), IoSlice::new(&long)]];
        assert_eq!(send_batch(from.as_fd(), &packets).unwrap(), 2);
        let mut inbox = Inbox::new(8, 16);
        assert_eq!(inbox.receive(to.as_fd(), ReceiveMode::Wait).unwrap(), 2);
        let seen: Vec<_> = inbox.datagrams().map(|d| (d.data.to_vec(), d.length)).collect();
        assert_eq!(seen[0], (b"abc".to_vec(), 3));
        assert_eq!((seen[1].0.len(), seen[1].1), (16, 101));
    }

    #[test]
    fn answers_go_where_they_are_addressed_and_are_stamped_where_asked() {
        use nix::sys::socket::{TimestampingFlag as F, setsockopt, sockopt};
        for (host, from) in [
            ("127.0.0.1:0", LocalAddress::V4([127, 0, 0, 2], 0)),
            ("[::1]:0", LocalAddress::V6(Ipv6Addr::LOCALHOST.octets(), 0)),
        ] {
            let Ok(socket) = UdpSocket::bind(host.replace("127.0.0.1", "0.0.0.0").replace("[::1]", "[::]"))
            else {
                // This host has no IPv6.
                continue;
            };
            let flags =
                F::SOF_TIMESTAMPING_SOFTWARE | F::SOF_TIMESTAMPING_OPT_ID | F::SOF_TIMESTAMPING_OPT_TSONLY;
            setsockopt(&socket, sockopt::Timestamping, &flags).unwrap();
            let peers = [0, 1].map(|_| UdpSocket::bind(host).unwrap());
            peers.iter().for_each(|p| p.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap());
            peers.iter().for_each(|p| crate::sockets::observe(p, host.starts_with('[')));
            let mut outbox = Outbox::new(64);
            outbox.push(
                b"one",
                peers[0].local_addr().unwrap(),
                Some(from),
                SendOptions { class: Some(184), stamped: Some(false), ..SendOptions::default() },
            );
            outbox.push(
                b"three",
                peers[1].local_addr().unwrap(),
                None,
                SendOptions { stamped: Some(true), ..SendOptions::default() },
            );
            assert_eq!(outbox.send_next(socket.as_fd()), Some(Ok(0..2)));
            assert_eq!(outbox.send_next(socket.as_fd()), None);
            let mut inbox = Inbox::new(2, 16);
            inbox.receive(peers[0].as_fd(), ReceiveMode::Wait).unwrap();
            let first = inbox.datagrams().next().unwrap();
            assert_eq!((first.data, first.info().traffic_class), (&b"one"[..], Some(184)));
            if let LocalAddress::V4(address, _) = from {
                assert_eq!(first.sender().unwrap().ip(), Ipv4Addr::from(address));
            }
            inbox.receive(peers[1].as_fd(), ReceiveMode::Wait).unwrap();
            assert_eq!(inbox.datagrams().next().unwrap().data, b"three");
            inbox.receive(socket.as_fd(), ReceiveMode::ErrorQueue).unwrap();
            let stamps: Vec<_> =
                inbox.datagrams().filter_map(|d| d.transmit_stamp()).map(|d| d.number).collect();
            assert_eq!(stamps, [0], "only the one that was to be stamped");
        }
    }

    #[test]
    fn the_kernel_describes_its_clock() {
        let (state, clock) = kernel_clock().unwrap();
        assert!((0..=5).contains(&state) && clock.tick > 0);
    }
}

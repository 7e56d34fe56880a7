//! [`InterfaceCapture`]: captures the packets on an interface of this host, in both directions, through a
//! packet socket.
//!
//! The kernel stamps packets in nanoseconds, truncates them to the snap length, and counts the packets that
//! it drops because its buffer is full. It writes them into a ring of memory blocks shared with this program,
//! and hands over a block when it is full or 4 ms old, so that a busy interface causes few wake-ups per
//! second. If the system refuses a ring, packets are read from the socket's queue, up to 32 per system call.

mod filter;

use super::Frame;
pub use crate::settings::InterfaceSettings;

use crate::privilege::{Capability, needs};
use crate::sys::control::{ControlMessages, instants};
use crate::sys::{self, Datagram, Inbox, MAX_BATCH, ReceiveMode, Ring, RingPacket};
use jitlat_core::prefix::Prefix;
use jitlat_core::time::{Span, WallTime};
use jitlat_passive::LinkType;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Socket, Type};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Reason why packets cannot be captured on an interface.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterfaceError {
    /// The interface does not exist.
    #[error("this host has no interface '{name}'; it has {known}")]
    NoInterface {
        /// Requested name.
        name: String,
        /// Names of the existing interfaces.
        known: String,
    },
    /// The process is not permitted to capture.
    #[error("capturing on {0} {needs}", needs = needs(Capability::NetRaw))]
    NotPermitted(String),
    /// The interface was removed during the capture.
    #[error("the interface {0} was removed")]
    Gone(String),
    /// Another system error.
    #[error("cannot capture on {interface}: {source}")]
    Io {
        /// Name of the interface.
        interface: String,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Maximum snap length, in bytes.
const MAX_SNAP_BYTES: u32 = 1 << 17;
const ARPHRD_ETHER: u16 = libc::ARPHRD_ETHER;
const ARPHRD_LOOPBACK: u16 = libc::ARPHRD_LOOPBACK;
/// Maximum time from a packet's timestamp until the packet is in the socket's queue.
const MAX_QUEUE_DELAY: Span = Span::millis(2);
/// Maximum time from a packet's timestamp until the kernel hands over the packet's block: several times the
/// requested block timeout, because the kernel's timer may be late.
const MAX_RING_DELAY: Span = Span::millis(20);
/// Time to wait for more packets on an interface that is not busy, so that one wake-up takes several packets
/// from the queue.
const GATHER_TIME: Duration = Duration::from_millis(2);

/// A running capture on an interface.
pub struct InterfaceCapture {
    socket: Socket,
    interface: String,
    snap: u32,
    packets: KernelQueue,
    intake: PacketIntake,
    drops: u64,
    downs: u64,
}

/// Source from which captured packets are read.
enum KernelQueue {
    Ring(Ring),
    /// The socket's queue; the flag is true if the last system call emptied it.
    Queue(Box<Inbox>, bool),
}

/// Converts and counts the packets of one capture.
struct PacketIntake {
    link: LinkType,
    /// True for the loopback device, on which every packet appears twice: outgoing and incoming.
    only_incoming: bool,
    tagged: Vec<u8>,
    frames: u64,
}

impl InterfaceCapture {
    /// Starts to capture on `interface`. Packets sent before the call returns are not delivered.
    pub fn open(interface: &str, settings: InterfaceSettings) -> Result<InterfaceCapture, InterfaceError> {
        let failed = |source: io::Error| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => InterfaceError::NotPermitted(interface.to_owned()),
            _ => InterfaceError::Io { interface: interface.to_owned(), source },
        };
        let index = index(interface)?;
        // Protocol 0: nothing is received before the socket is bound to the interface.
        let open = |kind| Socket::new(Domain::PACKET, kind, None).map_err(failed);
        // A DGRAM socket, without link-layer headers, until the type of the interface is known.
        let mut socket = open(Type::DGRAM)?;
        // No packet may be queued before the type of the socket and its filter are final.
        socket.attach_filter(&filter::nothing()).map_err(failed)?;
        let hardware = sys::bind_packet(socket.as_fd(), index).map_err(failed)?;
        let (link, kind) = match hardware {
            ARPHRD_ETHER | ARPHRD_LOOPBACK => (LinkType::ETHERNET, Type::RAW),
            _ => (LinkType::RAW, Type::DGRAM),
        };
        if kind == Type::RAW {
            socket = open(kind)?;
        }
        let snap = settings.snap.clamp(64, MAX_SNAP_BYTES);
        // Exceeding the system's limit requires a privilege; without it, a smaller buffer has to do.
        if setsockopt(&socket, sockopt::RcvBufForce, &settings.buffer).is_err() {
            let _ = socket.set_recv_buffer_size(settings.buffer);
        }
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true).map_err(|e| failed(e.into()))?;
        sys::enable_packet_details(socket.as_fd()).map_err(failed)?;
        socket.attach_filter(&filter::everything(snap)).map_err(failed)?;
        if settings.promiscuous {
            sys::receive_everything(socket.as_fd(), index).map_err(failed)?;
        }
        // With a ring, the socket has no queue.
        let packets = match settings.ring.then(|| Ring::of(socket.as_fd(), settings.buffer)) {
            Some(Ok(ring)) => KernelQueue::Ring(ring),
            // The failed attempt may have changed the socket, so start again with a new one.
            Some(Err(_)) => {
                return InterfaceCapture::open(interface, InterfaceSettings { ring: false, ..settings });
            }
            None => KernelQueue::Queue(Box::new(Inbox::new(MAX_BATCH, snap as usize)), false),
        };
        sys::bind_packet(socket.as_fd(), index).map_err(failed)?;
        let tagged = Vec::with_capacity(snap as usize + 4);
        Ok(InterfaceCapture {
            socket,
            interface: interface.to_owned(),
            snap,
            packets,
            intake: PacketIntake { link, only_incoming: hardware == ARPHRD_LOOPBACK, tagged, frames: 0 },
            drops: 0,
            downs: 0,
        })
    }

    /// Limits the capture to IP packets from or to `hosts`; an empty list captures all packets. The kernel
    /// does the filtering.
    pub fn limit_to(&self, hosts: &[Prefix]) -> Result<(), InterfaceError> {
        self.socket
            .attach_filter(&filter::hosts(hosts, self.snap))
            .map_err(|source| InterfaceError::Io { interface: self.interface.clone(), source })
    }

    /// Waits up to `timeout` for captured packets and passes a batch of them to `each`. Returns the number of
    /// packets taken from the kernel, including packets that this program filtered out. 0 means that the
    /// kernel had no packets, so all packets stamped at least [`InterfaceCapture::delay`] before the call
    /// have been passed on.
    pub fn poll(
        &mut self,
        timeout: Duration,
        mut each: impl FnMut(Frame<'_>),
    ) -> Result<usize, InterfaceError> {
        if let KernelQueue::Ring(_) = self.packets {
            let taken = self.take_block(&mut each);
            if taken > 0 || timeout.is_zero() {
                return Ok(taken);
            }
            return Ok(if self.is_ready(timeout)? { self.take_block(&mut each) } else { 0 });
        }
        if !timeout.is_zero() {
            if !self.is_ready(timeout)? {
                return Ok(0);
            }
            if matches!(self.packets, KernelQueue::Queue(_, true)) && timeout > GATHER_TIME {
                std::thread::sleep(GATHER_TIME);
            }
        }
        let KernelQueue::Queue(inbox, emptied) = &mut self.packets else { return Ok(0) };
        let taken = loop {
            match inbox.receive(self.socket.as_fd(), ReceiveMode::Queued) {
                Ok(taken) => break taken,
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => return Ok(0),
                    _ => self.downs += went_down(&self.interface, e)?,
                },
            }
        };
        *emptied = taken < MAX_BATCH;
        inbox
            .datagrams()
            .filter_map(|d| KernelPacket::of_datagram(&d))
            .for_each(|c| self.intake.take(&c, &mut each));
        Ok(taken)
    }

    /// Passes on the packets of the next block handed over by the kernel; returns their number.
    fn take_block(&mut self, each: &mut impl FnMut(Frame<'_>)) -> usize {
        let KernelQueue::Ring(ring) = &mut self.packets else { return 0 };
        // An empty block must not be reported as an empty ring.
        while let Some(block) = ring.block() {
            let mut taken = 0;
            for packet in block.packets() {
                taken += 1;
                self.intake.take(&KernelPacket::of_ring(&packet), each);
            }
            if taken > 0 {
                return taken;
            }
        }
        0
    }

    /// Waits until the kernel has packets; `false` if the timeout passed or a signal arrived.
    fn is_ready(&mut self, timeout: Duration) -> Result<bool, InterfaceError> {
        let wait = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        let mut ready = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        if matches!(nix::poll::poll(&mut ready, wait), Ok(0) | Err(Errno::EINTR)) {
            return Ok(false);
        }
        let failed = ready[0].revents().is_some_and(|r| r.contains(PollFlags::POLLERR));
        // Reading a queue reports socket errors. A ring is read without the socket, so its error is queried
        // here.
        if failed
            && matches!(self.packets, KernelQueue::Ring(_))
            && let Ok(Some(e)) = self.socket.take_error()
        {
            self.downs += went_down(&self.interface, e)?;
        }
        Ok(true)
    }

    /// Returns the maximum time from a packet's timestamp until [`InterfaceCapture::poll`] can pass the
    /// packet on.
    pub fn delay(&self) -> Span {
        match self.packets {
            KernelQueue::Ring(_) => MAX_RING_DELAY,
            KernelQueue::Queue(..) => MAX_QUEUE_DELAY,
        }
    }

    /// Sleeps until [`InterfaceCapture::poll`] can pass on every packet stamped before this call.
    pub fn settle(&self) {
        std::thread::sleep(Duration::from_nanos(self.delay().0 as u64));
    }

    /// Returns the number of packets dropped so far because they were not read in time.
    pub fn drops(&mut self) -> u64 {
        // The kernel resets its counter at every reading. If reading fails, the sum stays the same.
        self.drops += sys::packet_drops(self.socket.as_fd()).map_or(0, u64::from);
        self.drops
    }

    /// Returns the number of frames delivered so far.
    pub fn frames(&self) -> u64 {
        self.intake.frames
    }

    /// Returns how often the interface went down during the capture.
    pub fn downs(&self) -> u64 {
        self.downs
    }

    /// Returns the link type of the frames.
    pub fn link(&self) -> LinkType {
        self.intake.link
    }

    /// Returns the snap length: the maximum number of bytes stored per packet.
    pub fn snap(&self) -> u32 {
        self.snap
    }

    /// Returns the name of the interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }
}

/// Returns 1 if `e` only reports that the interface went down, which does not end the capture; otherwise returns the
/// error that ends it. The kernel reports this once, before the packets that are still queued.
fn went_down(interface: &str, e: io::Error) -> Result<u64, InterfaceError> {
    match e.raw_os_error() {
        Some(libc::ENETDOWN) if index(interface).is_ok() => Ok(1),
        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => Err(InterfaceError::Gone(interface.to_owned())),
        _ => Err(InterfaceError::Io { interface: interface.to_owned(), source: e }),
    }
}

impl PacketIntake {
    fn take(&mut self, captured: &KernelPacket<'_>, each: &mut impl FnMut(Frame<'_>)) {
        let (protocol, kind) = captured.link;
        if self.only_incoming && kind == libc::PACKET_OUTGOING {
            return;
        }
        // Without a link-layer header, only IP packets can be recognised.
        if self.link == LinkType::RAW && !matches!(i32::from(protocol), libc::ETH_P_IP | libc::ETH_P_IPV6) {
            return;
        }
        let Some(at) = captured.at else { return };
        let mut frame = Frame { at, link: self.link, wire_length: captured.length, data: captured.data };
        if let Some(tag) = captured.tag
            && self.link == LinkType::ETHERNET
            && let Some((addresses, rest)) = frame.data.split_at_checked(12)
        {
            self.tagged.clear();
            self.tagged.extend_from_slice(addresses);
            self.tagged.extend_from_slice(&tag);
            self.tagged.extend_from_slice(rest);
            frame.data = &self.tagged;
            // The kernel's length does not include the tag that was removed.
            frame.wire_length = frame.wire_length.saturating_add(4);
        }
        self.frames += 1;
        each(frame);
    }
}

fn index(interface: &str) -> Result<libc::c_int, InterfaceError> {
    nix::net::if_::if_nametoindex(interface).map(|i| i as libc::c_int).map_err(|_| {
        let name = interface.to_owned();
        InterfaceError::NoInterface { name, known: interfaces().join(", ") }
    })
}

/// Returns the names of this host's interfaces.
pub fn interfaces() -> Vec<String> {
    let Ok(list) = nix::net::if_::if_nameindex() else { return Vec::new() };
    list.iter().map(|i| i.name().to_string_lossy().into_owned()).collect()
}

/// Returns the name of the interface that has `address`; `None` if there is none.
pub fn find_interface(address: std::net::IpAddr) -> Option<String> {
    let ours = |a: &nix::ifaddrs::InterfaceAddress| {
        a.address.is_some_and(|s| match address {
            std::net::IpAddr::V4(ip) => s.as_sockaddr_in().is_some_and(|s| s.ip() == ip),
            std::net::IpAddr::V6(ip) => s.as_sockaddr_in6().is_some_and(|s| s.ip() == ip),
        })
    };
    nix::ifaddrs::getifaddrs().ok()?.find(ours).map(|a| a.interface_name)
}

/// A packet as the kernel captured it.
struct KernelPacket<'a> {
    at: Option<WallTime>,
    /// Length on the wire; `data` may contain only the first part of the packet.
    length: u32,
    data: &'a [u8],
    /// VLAN tag that the kernel or the adapter removed, in wire format; `None` if no tag was removed.
    tag: Option<[u8; 4]>,
    /// EtherType, and packet type (`PACKET_HOST`, `PACKET_OUTGOING`, …).
    link: (u16, u8),
}

impl<'a> KernelPacket<'a> {
    fn of_datagram(datagram: &Datagram<'a>) -> Option<KernelPacket<'a>> {
        let details = Details::of(datagram);
        Some(KernelPacket {
            at: details.at,
            length: details.length.unwrap_or(datagram.length as u32),
            data: datagram.data,
            tag: details.tag,
            link: datagram.link()?,
        })
    }

    fn of_ring(packet: &RingPacket<'a>) -> KernelPacket<'a> {
        let (seconds, ns) = packet.time;
        KernelPacket {
            at: Some(WallTime(i64::from(seconds) * 1_000_000_000 + i64::from(ns))),
            length: packet.length,
            data: packet.data,
            tag: removed_tag(packet.status, packet.tag),
            link: packet.link,
        }
    }
}

/// Returns the VLAN tag that the kernel or the adapter removed, given a packet's status, tag and tag protocol; `None`
/// if no tag was removed.
fn removed_tag(status: u32, (tag, protocol): (u16, u16)) -> Option<[u8; 4]> {
    // Older kernels do not report the tag protocol; 0x8100 is the usual one.
    let kind = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { protocol } else { 0x8100 };
    let ([a, b], [c, d]) = (kind.to_be_bytes(), tag.to_be_bytes());
    (status & libc::TP_STATUS_VLAN_VALID != 0).then_some([a, b, c, d])
}

/// Facts about a packet from its control messages.
#[derive(Default)]
struct Details {
    at: Option<WallTime>,
    length: Option<u32>,
    /// VLAN tag that the kernel or the adapter removed, in wire format; `None` if no tag was removed.
    tag: Option<[u8; 4]>,
}

impl Details {
    fn of(datagram: &Datagram<'_>) -> Details {
        let mut details = Details::default();
        for message in ControlMessages(datagram.control) {
            match (message.level, message.kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => [details.at, ..] = instants(message.data),
                (libc::SOL_PACKET, libc::PACKET_AUXDATA) => details.auxiliary(message.data),
                _ => {}
            }
        }
        details
    }

    /// Reads `struct tpacket_auxdata`: status, length and snap length (32 bits each), two offsets, tag and
    /// tag protocol (16 bits each).
    fn auxiliary(&mut self, data: &[u8]) {
        let Some(d) = data.first_chunk::<20>() else { return };
        let word = |at: usize| u32::from_ne_bytes([d[at], d[at + 1], d[at + 2], d[at + 3]]);
        let half = |at: usize| u16::from_ne_bytes([d[at], d[at + 1]]);
        self.length = Some(word(4));
        self.tag = removed_tag(word(0), (half(16), half(18)));
    }
}

#[cfg(test)]
mod tests;

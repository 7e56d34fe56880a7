//! [`InterfaceCapture`]: captures the packets at an interface of this host, in both directions, through a packet
//! socket.
//!
//! The kernel stamps them with nanoseconds, cuts them to the snap length, and counts those it drops because the
//! socket's buffer is full. One system call takes up to 32 packets; a memory-mapped ring would save copying the first
//! bytes, but would need `unsafe` throughout.

mod filter;

use super::Frame;
use crate::cmsg::{ControlMessages, instants};
use crate::sys::{self, BATCH, Datagram, Inbox};
use jitlat_core::passive::{LinkType, Prefix};
use jitlat_core::time::WallTime;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Socket, Type};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Why packets cannot be captured at an interface.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterfaceError {
    /// There is no such interface.
    #[error("there is no interface '{name}' here; there are {known}")]
    NoInterface {
        /// The name that was given.
        name: String,
        /// The names of the existing interfaces.
        known: String,
    },
    /// The process may not capture.
    #[error(
        "capturing on {0} needs the capability CAP_NET_RAW: run as root, or grant it once with \
         `sudo setcap cap_net_raw+ep $(command -v jitlat)`"
    )]
    NotPermitted(String),
    /// The interface was removed during the capture.
    #[error("the interface {0} is gone")]
    Gone(String),
    /// Another error of the system.
    #[error("cannot capture on {interface}: {source}")]
    Io {
        /// The interface.
        interface: String,
        /// The system's error.
        source: io::Error,
    },
}

/// How to capture at an interface.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceSettings {
    /// Bytes kept of each packet.
    pub snap: u32,
    /// Size of the kernel's buffer for captured packets, in bytes.
    pub buffer: usize,
    /// Whether to capture packets that are not addressed to this host: at a mirror port, on a bridge.
    pub promiscuous: bool,
}

impl Default for InterfaceSettings {
    /// Enough to identify packets: 256 bytes of each, a buffer of 16 MiB.
    fn default() -> InterfaceSettings {
        InterfaceSettings { snap: 256, buffer: 16 << 20, promiscuous: false }
    }
}

/// Bytes kept of each packet at most.
const MAX_SNAP: u32 = 1 << 17;
const ARPHRD_ETHER: u16 = libc::ARPHRD_ETHER;
const ARPHRD_LOOPBACK: u16 = libc::ARPHRD_LOOPBACK;

/// A running capture at an interface.
pub struct InterfaceCapture {
    socket: Socket,
    interface: String,
    link: LinkType,
    /// Every packet of the loopback device passes twice, out and in.
    only_incoming: bool,
    snap: u32,
    inbox: Inbox,
    tagged: Vec<u8>,
    drops: u64,
    frames: u64,
    downs: u64,
}

impl InterfaceCapture {
    /// Starts to capture at `interface`. Packets from before the return are not delivered.
    pub fn open(interface: &str, settings: InterfaceSettings) -> Result<InterfaceCapture, InterfaceError> {
        let failed = |source: io::Error| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => InterfaceError::NotPermitted(interface.to_owned()),
            _ => InterfaceError::Io { interface: interface.to_owned(), source },
        };
        let index = index(interface)?;
        // Protocol 0: nothing arrives before the socket is bound.
        let open = |kind| Socket::new(Domain::PACKET, kind, None).map_err(failed);
        // Without a link-layer header, until the type of the interface is known.
        let mut socket = open(Type::DGRAM)?;
        socket.attach_filter(&filter::nothing()).map_err(failed)?;
        let hardware = sys::bind_packet(socket.as_fd(), index).map_err(failed)?;
        let (link, kind) = match hardware {
            ARPHRD_ETHER | ARPHRD_LOOPBACK => (LinkType::ETHERNET, Type::RAW),
            _ => (LinkType::RAW, Type::DGRAM),
        };
        if kind == Type::RAW {
            socket = open(kind)?;
        }
        let snap = settings.snap.clamp(64, MAX_SNAP);
        // More than the system's limit needs a privilege; a smaller buffer works, too.
        if setsockopt(&socket, sockopt::RcvBufForce, &settings.buffer).is_err() {
            let _ = socket.set_recv_buffer_size(settings.buffer);
        }
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true).map_err(|e| failed(e.into()))?;
        sys::enable_packet_details(socket.as_fd()).map_err(failed)?;
        socket.attach_filter(&filter::everything(snap)).map_err(failed)?;
        if settings.promiscuous {
            sys::receive_everything(socket.as_fd(), index).map_err(failed)?;
        }
        sys::bind_packet(socket.as_fd(), index).map_err(failed)?;
        Ok(InterfaceCapture {
            socket,
            interface: interface.to_owned(),
            link,
            only_incoming: hardware == ARPHRD_LOOPBACK,
            snap,
            inbox: Inbox::new(BATCH, snap as usize),
            tagged: Vec::with_capacity(snap as usize + 4),
            drops: 0,
            frames: 0,
            downs: 0,
        })
    }

    /// From now on, captures only IP packets from or to these prefixes (all packets, if there are none); the kernel
    /// filters.
    pub fn limit_to(&self, hosts: &[Prefix]) -> Result<(), InterfaceError> {
        self.socket
            .attach_filter(&filter::hosts(hosts, self.snap))
            .map_err(|source| InterfaceError::Io { interface: self.interface.clone(), source })
    }

    /// Passes a batch of captured packets to `each`, after waiting up to `patience` for the first. Returns how many
    /// packets were taken from the kernel's queue, including those filtered out; 0 means that the queue was empty.
    pub fn poll(
        &mut self,
        patience: Duration,
        mut each: impl FnMut(Frame<'_>),
    ) -> Result<usize, InterfaceError> {
        let wait = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        let mut ready = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        if !patience.is_zero() && matches!(nix::poll::poll(&mut ready, wait), Ok(0) | Err(Errno::EINTR)) {
            return Ok(0);
        }
        let taken = loop {
            match self.inbox.receive(self.socket.as_fd(), libc::MSG_DONTWAIT) {
                Ok(taken) => break taken,
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => return Ok(0),
                    _ => self.pass_over(e)?,
                },
            }
        };
        for datagram in self.inbox.datagrams() {
            let Some((protocol, kind)) = datagram.link() else { continue };
            if self.only_incoming && kind == libc::PACKET_OUTGOING {
                continue;
            }
            // Without a link-layer header only IP can be recognised.
            if self.link == LinkType::RAW && !matches!(i32::from(protocol), libc::ETH_P_IP | libc::ETH_P_IPV6)
            {
                continue;
            }
            let details = Details::of(&datagram);
            let Some(at) = details.at else { continue };
            let mut frame = Frame {
                at,
                link: self.link,
                wire_length: details.length.unwrap_or(datagram.length as u32),
                data: datagram.data,
            };
            if let Some(tag) = details.tag
                && self.link == LinkType::ETHERNET
                && let Some((addresses, rest)) = frame.data.split_at_checked(12)
            {
                self.tagged.clear();
                self.tagged.extend_from_slice(addresses);
                self.tagged.extend_from_slice(&tag);
                self.tagged.extend_from_slice(rest);
                frame.data = &self.tagged;
                frame.wire_length = frame.wire_length.saturating_add(4);
            }
            self.frames += 1;
            each(frame);
        }
        Ok(taken)
    }

    /// Counts errors that do not end the capture: the interface went down. Such an error is reported once, before the
    /// packets still in the queue.
    fn pass_over(&mut self, e: io::Error) -> Result<(), InterfaceError> {
        match e.raw_os_error() {
            Some(libc::ENETDOWN) if index(&self.interface).is_ok() => {
                self.downs += 1;
                Ok(())
            }
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                Err(InterfaceError::Gone(self.interface.clone()))
            }
            _ => Err(InterfaceError::Io { interface: self.interface.clone(), source: e }),
        }
    }

    /// Packets dropped so far because they were not read in time.
    pub fn drops(&mut self) -> u64 {
        // The kernel resets its counter with every reading; a failed reading changes nothing.
        self.drops += sys::packet_drops(self.socket.as_fd()).map_or(0, u64::from);
        self.drops
    }

    /// Frames delivered so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// How often the interface went down during the capture.
    pub fn downs(&self) -> u64 {
        self.downs
    }

    /// The link type of its frames.
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// Bytes kept of each packet at most.
    pub fn snap(&self) -> u32 {
        self.snap
    }

    /// The name of the interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }
}

fn index(interface: &str) -> Result<libc::c_int, InterfaceError> {
    nix::net::if_::if_nametoindex(interface).map(|i| i as libc::c_int).map_err(|_| {
        let name = interface.to_owned();
        InterfaceError::NoInterface { name, known: interfaces().join(", ") }
    })
}

/// The names of this host's interfaces.
pub fn interfaces() -> Vec<String> {
    let Ok(list) = nix::net::if_::if_nameindex() else { return Vec::new() };
    list.iter().map(|i| i.name().to_string_lossy().into_owned()).collect()
}

/// The interface that has this address; `None` if there is none.
pub fn find_interface(address: std::net::IpAddr) -> Option<String> {
    let ours = |a: &nix::ifaddrs::InterfaceAddress| {
        a.address.is_some_and(|s| match address {
            std::net::IpAddr::V4(ip) => s.as_sockaddr_in().is_some_and(|s| s.ip() == ip),
            std::net::IpAddr::V6(ip) => s.as_sockaddr_in6().is_some_and(|s| s.ip() == ip),
        })
    };
    nix::ifaddrs::getifaddrs().ok()?.find(ours).map(|a| a.interface_name)
}

/// What the control messages say about a packet.
#[derive(Default)]
struct Details {
    at: Option<WallTime>,
    length: Option<u32>,
    /// The VLAN tag that the kernel or the adapter removed, in wire format.
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

    /// `struct tpacket_auxdata`: status, length, snap length (32 bits each), two offsets, tag, tag protocol (16).
    fn auxiliary(&mut self, data: &[u8]) {
        let Some(d) = data.first_chunk::<20>() else { return };
        let word = |at: usize| u32::from_ne_bytes([d[at], d[at + 1], d[at + 2], d[at + 3]]);
        let half = |at: usize| u16::from_ne_bytes([d[at], d[at + 1]]);
        let status = word(0);
        self.length = Some(word(4));
        if status & libc::TP_STATUS_VLAN_VALID != 0 {
            let kind = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { half(18) } else { 0x8100 };
            let ([a, b], [c, d]) = (kind.to_be_bytes(), half(16).to_be_bytes());
            self.tag = Some([a, b, c, d]);
        }
    }
}

#[cfg(test)]
mod tests;

//! Sockets of two-way tests: UDP and ICMP, connected to the far host, stamped both ways.

use crate::clock;
use crate::privilege::{Capability, needs};
use crate::stamp::{self, Stamps};
use crate::sys::{self, BATCH, Inbox};
use crate::twoway::raw::{self, Framing};
use jitlat_core::{Dscp, Source, WallTime};
use nix::sys::socket::{TimestampingFlag as F, setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

/// Room asked for in the kernel, each way.
const BUFFER: usize = 8 << 20;

/// What carries a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Datagrams.
    Udp,
    /// ICMP or ICMPv6 echo.
    Icmp,
    /// Datagrams in frames made here, through a packet socket.
    Raw,
}

/// How packets are to be marked and from where they go.
#[derive(Clone, Debug, Default)]
pub struct Marking {
    /// Local address, where not the system's choice.
    pub bind: Option<IpAddr>,
    /// Local port; 0 = the system chooses.
    pub port: u16,
    /// Interface, by name.
    pub interface: Option<String>,
    /// Code point.
    pub dscp: Dscp,
    /// Priority within this host (`SO_PRIORITY`: queueing discipline, Wi-Fi access category).
    pub priority: Option<u32>,
    /// Time to live or hop limit; `None` = the system's.
    pub ttl: Option<u8>,
}

/// A socket ready for a test.
pub struct Prepared {
    /// Connected to the far host.
    pub socket: Socket,
    /// Stamps that can be expected.
    pub stamps: Stamps,
    /// What had to be reduced.
    pub notes: Vec<String>,
    /// Whether the kernel chooses the identifier of echo requests.
    pub kernel_id: bool,
    /// Whether what is received begins with an IPv4 header.
    pub ip_header: bool,
    /// Of a packet socket: puts datagrams into frames and takes them out.
    pub framing: Option<Box<Framing>>,
    /// This host's address and port.
    pub local: SocketAddr,
}

/// Opens, marks, stamps and connects a socket to `to`, for requests of `payload` bytes.
///
/// # Errors
/// Those of the system; `Unsupported` where hardware stamps are wanted and the adapter takes none.
pub fn open(
    carrier: Carrier,
    to: SocketAddr,
    marking: &Marking,
    stamps: Stamps,
    payload: usize,
) -> io::Result<Prepared> {
    if carrier == Carrier::Raw {
        return raw::open(to, marking, stamps, payload);
    }
    let domain = Domain::for_address(to);
    let mut notes = Vec::new();
    let (socket, raw) = match carrier {
        Carrier::Udp | Carrier::Raw => (Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?, false),
        Carrier::Icmp => {
            let protocol = if to.is_ipv4() { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
            match Socket::new(domain, Type::DGRAM, Some(protocol)) {
                Ok(socket) => (socket, false),
                // The group may not use ping sockets: a raw one, where permitted.
                Err(denied) => (Socket::new(domain, Type::RAW, Some(protocol)).map_err(|_| denied)?, true),
            }
        }
    };
    mark(&socket, to, marking, &mut notes)?;
    let v6 = to.is_ipv6();
    observe(&socket, v6);
    enlarge(&socket);
    socket.connect(&to.into())?;
    if carrier == Carrier::Udp {
        note_fragments(&socket, v6, payload, &mut notes);
    }
    let local = socket.local_addr()?.as_socket().unwrap_or(to);
    let stamps = stamp(&socket, local.ip(), stamps, &mut notes)?;
    socket.set_nonblocking(true)?;
    Ok(Prepared {
        socket,
        stamps,
        notes,
        kernel_id: carrier == Carrier::Icmp && !raw,
        ip_header: raw && !v6,
        framing: None,
        local,
    })
}

/// Binds and marks a socket that is to be connected to `to`. What could not be set is among the notes.
pub(crate) fn mark(
    socket: &Socket,
    to: SocketAddr,
    marking: &Marking,
    notes: &mut Vec<String>,
) -> io::Result<()> {
    if let Some(name) = &marking.interface {
        socket.bind_device(Some(name.as_bytes()))?;
    }
    let any = match to {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    if marking.bind.is_some() || marking.port != 0 {
        socket.bind(&SocketAddr::new(marking.bind.unwrap_or(any), marking.port).into())?;
    }
    let v6 = to.is_ipv6();
    let octet = i32::from(marking.dscp.octet());
    let marked = if v6 {
        setsockopt(socket, sockopt::Ipv6TClass, &octet)
    } else {
        setsockopt(socket, sockopt::Ipv4Tos, &octet)
    };
    if let Err(e) = marked {
        notes.push(format!("DSCP {} was not set: {}", marking.dscp, e.desc()));
    }
    if let Some(priority) = marking.priority
        && let Err(e) = setsockopt(socket, sockopt::Priority, &(priority as i32))
    {
        let why = if priority > 6 { needs(Capability::NetAdmin) } else { e.desc().to_owned() };
        notes.push(format!("priority {priority} was not set: {why}"));
    }
    if let Some(ttl) = marking.ttl {
        if v6 { socket.set_unicast_hops_v6(ttl.into())? } else { socket.set_ttl_v4(ttl.into())? }
    }
    Ok(())
}

/// Says so where requests are larger than the way there carries in one piece.
fn note_fragments(socket: &Socket, v6: bool, payload: usize, notes: &mut Vec<String>) {
    let packet = payload + if v6 { 40 } else { 20 } + 8;
    if let Ok(mtu) = sys::path_mtu(socket.as_fd(), v6)
        && packet > mtu as usize
    {
        notes.push(format!(
            "requests make packets of {packet} bytes, more than the {mtu} that fit the path in one piece: each \
             travels in fragments, and is lost with any of them"
        ));
    }
}

/// Asks for what can be seen of each packet received. What a kernel does not offer stays missing.
pub(crate) fn observe(socket: &impl AsFd, v6: bool) {
    if v6 {
        let _ = setsockopt(socket, sockopt::Ipv6RecvTClass, &true);
        let _ = setsockopt(socket, sockopt::Ipv6RecvHopLimit, &true);
    } else {
        let _ = setsockopt(socket, sockopt::IpRecvTos, &true);
        let _ = setsockopt(socket, sockopt::Ipv4RecvTtl, &true);
    }
}

/// Makes the socket's buffers large: past the system's limit where permitted, up to it otherwise.
pub(crate) fn enlarge(socket: &impl AsFd) {
    if setsockopt(socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        let _ = setsockopt(socket, sockopt::RcvBuf, &BUFFER);
    }
    if setsockopt(socket, sockopt::SndBufForce, &BUFFER).is_err() {
        let _ = setsockopt(socket, sockopt::SndBuf, &BUFFER);
    }
}

/// Has the kernel stamp both ways.
pub(crate) fn stamp(
    socket: &Socket,
    local: IpAddr,
    want: Stamps,
    notes: &mut Vec<String>,
) -> io::Result<Stamps> {
    if want == Stamps::User {
        return Ok(Stamps::User);
    }
    if want == Stamps::Hardware {
        stamp::enable_adapter(socket.as_fd(), local).map_err(|why| {
            let hint = "`jitlat doctor` says what each adapter can; --stamps kernel works with any";
            io::Error::new(io::ErrorKind::Unsupported, format!("no hardware stamps ({why}): {hint}"))
        })?;
    }
    let received = F::SOF_TIMESTAMPING_SOFTWARE | F::SOF_TIMESTAMPING_RX_SOFTWARE;
    let sent = F::SOF_TIMESTAMPING_TX_SOFTWARE | F::SOF_TIMESTAMPING_OPT_ID | F::SOF_TIMESTAMPING_OPT_TSONLY;
    let (all, stamps) = match want {
        Stamps::KernelReceive => (received, want),
        // Received packets carry both stamps, so that an adapter's clock of its own is noticed. Sent ones are
        // asked for the adapter's only: one entry in the error queue each.
        Stamps::Hardware => {
            let adapter = F::SOF_TIMESTAMPING_RAW_HARDWARE | F::SOF_TIMESTAMPING_RX_HARDWARE;
            (
                received
                    | adapter
                    | F::SOF_TIMESTAMPING_TX_HARDWARE
                    | F::SOF_TIMESTAMPING_OPT_ID
                    | F::SOF_TIMESTAMPING_OPT_TSONLY,
                want,
            )
        }
        _ => (received | sent, Stamps::Kernel),
    };
    match setsockopt(socket, sockopt::Timestamping, &all) {
        Ok(()) => Ok(stamps),
        Err(e) => {
            notes.push(format!("no kernel stamps ({}): user stamps instead", e.desc()));
            Ok(Stamps::User)
        }
    }
}

/// No request: a packet of the conversation.
const NONE: u32 = u32::MAX;
/// Packets remembered while their stamps are under way; a power of two.
const UNDER_WAY: usize = 1 << 13;

/// Joins transmit stamps, which come back through the error queue, to the requests they belong to.
pub struct Departures {
    inbox: Inbox,
    /// Which request the kernel's n-th packet was.
    requests: Box<[u32]>,
    next: u32,
    awaited: u32,
}

impl Departures {
    /// Nothing sent yet.
    pub fn new() -> Departures {
        Departures {
            inbox: Inbox::new(BATCH, 1),
            requests: vec![NONE; UNDER_WAY].into(),
            next: 0,
            awaited: 0,
        }
    }

    /// A packet was handed over, which was this request or none. Failed sends do not count.
    pub fn sent(&mut self, request: Option<u32>) {
        self.requests[self.next as usize % UNDER_WAY] = request.unwrap_or(NONE);
        self.next = self.next.wrapping_add(1);
        self.awaited = (self.awaited + 1).min(UNDER_WAY as u32);
    }

    /// Whether stamps are under way.
    pub fn awaited(&self) -> bool {
        self.awaited > 0
    }

    /// Takes one batch of stamps, without waiting, and returns how many entries the queue gave.
    pub fn collect(&mut self, socket: &Socket, mut stamped: impl FnMut(u32, WallTime)) -> usize {
        let Ok(count) = self.inbox.receive(socket.as_fd(), libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) else {
            return 0;
        };
        let now = clock::wall();
        for (id, stamp) in self.inbox.datagrams().filter_map(|d| crate::stamp::transmitted(d.control)) {
            if self.next.wrapping_sub(id).wrapping_sub(1) >= UNDER_WAY as u32 {
                continue;
            }
            self.awaited = self.awaited.saturating_sub(1);
            let request = self.requests[id as usize % UNDER_WAY];
            // An adapter with a clock of its own tells nothing: the program's reading stays.
            let at = match stamp.source {
                Source::Hardware => stamp::on_system_clock(stamp.at, now),
                _ => Some(stamp.at),
            };
            if let Some(at) = at.filter(|_| request != NONE) {
                stamped(request, at);
            }
        }
        count
    }
}

impl Default for Departures {
    fn default() -> Departures {
        Departures::new()
    }
}

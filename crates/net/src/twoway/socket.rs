//! Sockets of two-way tests: UDP and ICMP, connected to the far host, with timestamps in both directions.

use crate::lamp_frame::LampLink;
use crate::resolve::local_address;
use crate::sockets::{self, PacketMarker, enlarge, observe};
use crate::stamp::{self, StampMode, StampedPackets};
use crate::sys::{self, AsFd};
use crate::twoway::raw::{self, PacketFraming};
use jitlat_core::{Dscp, EcnMarking};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Kind of packets in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// UDP datagrams.
    Udp,
    /// ICMP or ICMPv6 echo.
    Icmp,
    /// UDP datagrams in Ethernet frames built by this program, through a packet socket.
    Raw,
    /// LaMP packets in Ethernet frames without IP, through a packet socket.
    Ethernet(LampLink),
}

/// Error message if round trips to a broadcast address are requested.
const BROADCAST: &str = "this is a broadcast address, and hosts do not answer requests to it: name one host, or send requests \
                         to the whole segment with --proto lamp --broadcast";

/// Addresses, DSCP, priority and TTL of packets.
#[derive(Clone, Debug, Default)]
pub struct Marking {
    /// Local address; `None`: chosen by the system.
    pub bind: Option<IpAddr>,
    /// Local port; 0: the system chooses.
    pub port: u16,
    /// Name of the interface to send through; `None`: chosen by the routing table.
    pub interface: Option<String>,
    /// DSCP of the packets.
    pub dscp: Dscp,
    /// Marks (ECN fields) of the packets.
    pub ecn: EcnMarking,
    /// Priority on this host (`SO_PRIORITY`), which determines the queueing discipline and the Wi-Fi access
    /// category; `None`: the system's default.
    pub priority: Option<u32>,
    /// TTL or hop limit; `None`: the system's default.
    pub ttl: Option<u8>,
    /// True if the far host may be the broadcast address of the local segment.
    pub broadcast: bool,
    /// True if answers may come from any UDP port of the far host.
    pub any_port: bool,
}

impl Marking {
    /// Returns the setter of DSCP and ECN fields.
    pub(crate) fn marker(&self) -> PacketMarker {
        PacketMarker::new(self.dscp, self.ecn)
    }
}

/// A socket ready for a test.
pub struct PreparedSocket {
    /// Socket, connected to the far host.
    pub socket: Socket,
    /// Kind of timestamps to expect.
    pub stamps: StampMode,
    /// Notes about settings that were not possible.
    pub notes: Vec<String>,
    /// True if the kernel chooses the identifier of echo requests.
    pub kernel_id: bool,
    /// True if received packets begin with an IPv4 header.
    pub ip_header: bool,
    /// Second socket, for packets that the far host sends from other UDP ports; `None` for carriers other than UDP and
    /// for broadcasts, or if it could not be opened.
    pub elsewhere: Option<Socket>,
    /// Framing of packets on a packet socket; `None` for other sockets.
    pub framing: Option<Box<PacketFraming>>,
    /// Local address and port.
    pub local: SocketAddr,
}

/// Opens, marks and connects a socket to `to`, with timestamps enabled, for requests of `payload` bytes.
///
/// # Errors
/// Errors of the operating system; `Unsupported` if hardware stamps are requested but the adapter has none.
pub fn open(
    carrier: Carrier,
    to: SocketAddr,
    marking: &Marking,
    stamps: StampMode,
    payload: usize,
) -> io::Result<PreparedSocket> {
    match carrier {
        Carrier::Raw => return raw::open(to, marking, stamps, payload),
        Carrier::Ethernet(link) => return raw::open_ethernet(link, to, marking, stamps, payload),
        Carrier::Udp | Carrier::Icmp => {}
    }
    let domain = Domain::for_address(to);
    let mut notes = Vec::new();
    let (socket, raw) = match carrier {
        Carrier::Udp | Carrier::Raw | Carrier::Ethernet(_) => {
            (Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?, false)
        }
        Carrier::Icmp => {
            let protocol = if to.is_ipv4() { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
            match Socket::new(domain, Type::DGRAM, Some(protocol)) {
                Ok(socket) => (socket, false),
                // The process may not use ping sockets, so use a raw socket if permitted.
                Err(denied) => (Socket::new(domain, Type::RAW, Some(protocol)).map_err(|_| denied)?, true),
            }
        }
    };
    mark(&socket, to, marking, &mut notes)?;
    let v6 = to.is_ipv6();
    observe(&socket, v6);
    enlarge(&socket);
    socket.connect(&to.into()).map_err(|e| match sys::is_access_denied(&e) {
        true if v6 || marking.broadcast => e,
        // Over IPv4 and without SO_BROADCAST, this error always means a broadcast address.
        true => io::Error::new(io::ErrorKind::Unsupported, BROADCAST),
        false => e,
    })?;
    if carrier == Carrier::Udp {
        note_fragments(&socket, v6, payload, &mut notes);
    }
    let mut local = socket.local_addr()?.as_socket().unwrap_or(to);
    if carrier == Carrier::Icmp {
        // Echo requests have no port: the system returns their identifier or the protocol number instead.
        local.set_port(0);
    }
    let stamps = stamp(&socket, local.ip(), stamps, &mut notes)?;
    socket.set_nonblocking(true)?;
    let elsewhere = match elsewhere(&socket, local, marking, stamps) {
        Ok(elsewhere) => Some(elsewhere),
        Err(e) if carrier == Carrier::Udp && marking.any_port => return Err(e),
        Err(_) => None,
    };
    Ok(PreparedSocket {
        socket,
        stamps,
        notes,
        kernel_id: carrier == Carrier::Icmp && !raw,
        ip_header: raw && !v6,
        elsewhere: elsewhere.filter(|_| carrier == Carrier::Udp && !marking.broadcast),
        framing: None,
        local,
    })
}

/// Opens a second socket on the address and port of `socket`, which is connected and so receives packets from
/// only one port of the far host.
fn elsewhere(socket: &Socket, local: SocketAddr, marking: &Marking, stamps: StampMode) -> io::Result<Socket> {
    let second = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    if let Some(name) = &marking.interface {
        sys::bind_device(&second, name, local.is_ipv6())?;
    }
    // Shared only while binding, so that no other program can share the port later.
    let share = |share| socket.set_reuse_address(share).and_then(|()| second.set_reuse_address(share));
    share(true)?;
    let bound = second.bind(&local.into());
    share(false)?;
    bound?;
    observe(&second, local.is_ipv6());
    // Nothing is sent on this socket, so receive stamps are sufficient.
    stamp(&second, local.ip(), stamps.min(StampMode::KernelReceive), &mut Vec::new())?;
    second.set_nonblocking(true)?;
    Ok(second)
}

/// Binds and marks a socket that will be connected to `to`. Adds notes about settings that were not possible.
pub(crate) fn mark(
    socket: &Socket,
    to: SocketAddr,
    marking: &Marking,
    notes: &mut Vec<String>,
) -> io::Result<()> {
    if let Some(name) = &marking.interface {
        sys::bind_device(socket, name, to.is_ipv6())?;
    }
    let any = match to {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    if marking.bind.is_some() || marking.port != 0 {
        socket.bind(&local_address(marking.bind.unwrap_or(any), marking.port).into())?;
    }
    let v6 = to.is_ipv6();
    socket.set_broadcast(marking.broadcast)?;
    notes.extend(marking.marker().begin(socket).err().map(|e| e.to_string()));
    notes.extend(sockets::prefer(socket, marking.priority).err().map(|e| e.to_string()));
    if let Some(ttl) = marking.ttl {
        if v6 { socket.set_unicast_hops_v6(ttl.into())? } else { socket.set_ttl_v4(ttl.into())? }
    }
    Ok(())
}

/// Adds a note if requests are larger than the path MTU.
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

/// Makes the kernel stamp sent and received packets.
pub(crate) fn stamp(
    socket: &Socket,
    local: IpAddr,
    want: StampMode,
    notes: &mut Vec<String>,
) -> io::Result<StampMode> {
    if want == StampMode::User {
        return Ok(StampMode::User);
    }
    if want == StampMode::Hardware {
        stamp::enable_adapter(socket.as_fd(), local).map_err(|why| {
            let hint = "`jitlat doctor` shows what each adapter supports; --stamps kernel works with any";
            io::Error::new(io::ErrorKind::Unsupported, format!("no hardware stamps ({why}): {hint}"))
        })?;
    }
    match sys::set_stamps(socket, sys::stamp_flags(want, StampedPackets::BOTH)) {
        Ok(()) => Ok(want),
        Err(e) => {
            notes.push(stamp::no_stamps(&e));
            Ok(StampMode::User)
        }
    }
}

//! UDP: listening ports, and a socket towards the server for each client address.

use super::{Forward, Interest, ReadyToken};
use crate::emulator::Numbering;
use crate::emulator::line::{self, DelayLine};
use jitlat_core::time::SteadyTime;
use jitlat_impair::{Impairment, PathPacket, PathTally};
use nix::poll::PollFlags;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

/// Maximum number of client addresses; a new address replaces the one that has been silent longest.
const MAX_FLOWS: usize = 256;
/// Maximum number of datagrams read from one socket before deadlines are checked again.
const MAX_DATAGRAMS_PER_READ: usize = 32;
/// Buffer size requested for each socket, so that a burst is queued rather than dropped.
const SOCKET_BUFFER: usize = 4 << 20;

/// A port that receives datagrams from clients.
pub struct RelayPort {
    socket: UdpSocket,
    to: SocketAddr,
}

impl RelayPort {
    pub fn new(forward: Forward) -> io::Result<RelayPort> {
        Ok(RelayPort { socket: open(forward.listen)?, to: forward.to })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// State of one client address at one port.
struct RelayedFlow {
    id: u64,
    port: usize,
    client: SocketAddr,
    upstream: UdpSocket,
    last_used: SteadyTime,
}

/// A datagram in transit.
pub struct RelayedDatagram {
    flow: u64,
    towards: Towards,
    traffic_class: u8,
    payload: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Towards {
    Server = 0,
    Client = 1,
}

pub struct RelayedFlows {
    ports: Vec<RelayPort>,
    flows: Vec<RelayedFlow>,
    next_id: u64,
    paths: [Impairment; 2],
    numbering: Numbering,
    buffer: Vec<u8>,
}

impl RelayedFlows {
    pub fn new(ports: Vec<RelayPort>, paths: [Impairment; 2], numbering: Numbering) -> RelayedFlows {
        RelayedFlows { ports, flows: Vec::new(), next_id: 0, paths, numbering, buffer: vec![0; 65_536] }
    }

    pub fn interest<'a>(&'a self, out: &mut Interest<'a>) {
        for (i, port) in self.ports.iter().enumerate() {
            out.add(ReadyToken::Port(i), port.socket.as_fd(), PollFlags::POLLIN);
        }
        for flow in &self.flows {
            out.add(ReadyToken::Flow(flow.id), flow.upstream.as_fd(), PollFlags::POLLIN);
        }
    }

    /// Reads the datagrams that clients sent to a port, and queues them in the direction of the server.
    pub(crate) fn read_client(&mut self, port: usize, line: &mut DelayLine<RelayedDatagram>) {
        for _ in 0..MAX_DATAGRAMS_PER_READ {
            let Ok(Some(got)) = receive(&self.ports[port].socket, &mut self.buffer) else { return };
            let Some(client) = got.from else { continue };
            // If no socket can be opened for this client, the datagram is lost.
            let Ok(flow) = self.flow_of(port, client) else {
                line.overflow += 1;
                continue;
            };
            self.carry(flow, Towards::Server, &got, line);
        }
    }

    /// Reads the server's answers to one client, and queues them in the direction of the client.
    pub(crate) fn read_server(&mut self, id: u64, line: &mut DelayLine<RelayedDatagram>) {
        for _ in 0..MAX_DATAGRAMS_PER_READ {
            let Some(i) = self.index(id) else { return };
            match receive(&self.flows[i].upstream, &mut self.buffer) {
                Ok(Some(got)) => {
                    self.flows[i].last_used = line::now();
                    self.carry(id, Towards::Client, &got, line);
                }
                Ok(None) => return,
                // The server's port is closed; the socket reports this once.
                Err(_) => {}
            }
        }
    }

    fn carry(
        &mut self,
        flow: u64,
        towards: Towards,
        got: &ReceivedDatagram,
        line: &mut DelayLine<RelayedDatagram>,
    ) {
        let payload = &self.buffer[..got.length];
        let headers = if got.ipv6 { 48 } else { 28 };
        let path = &mut self.paths[towards as usize];
        let packet = PathPacket { bytes: payload.len() + headers, traffic_class: got.traffic_class };
        let deliveries = self.numbering.pass(path, line::now(), packet, payload);
        let traffic_class = deliveries.traffic_class();
        for &at in deliveries.iter() {
            let datagram = RelayedDatagram { flow, towards, traffic_class, payload: payload.to_vec() };
            line.push(at, payload.len(), datagram);
        }
    }

    /// Sends a datagram that is due; `false` if the system did not accept it.
    pub fn deliver(&mut self, d: &RelayedDatagram) -> bool {
        let Some(i) = self.index(d.flow) else { return false };
        let flow = &self.flows[i];
        let sent = match d.towards {
            Towards::Server => send(&flow.upstream, None, flow.client.is_ipv6(), d),
            Towards::Client => {
                let socket = &self.ports[flow.port].socket;
                send(socket, Some(flow.client), flow.client.is_ipv6(), d)
            }
        };
        // ECONNREFUSED reports that an earlier datagram reached a closed port; this one was not sent.
        matches!(sent, Ok(_) | Err(nix::errno::Errno::ECONNREFUSED))
    }

    pub(crate) fn tallies(self) -> [PathTally; 2] {
        self.paths.map(|p| p.tally().clone())
    }

    fn index(&self, id: u64) -> Option<usize> {
        self.flows.iter().position(|f| f.id == id)
    }

    fn flow_of(&mut self, port: usize, client: SocketAddr) -> io::Result<u64> {
        let now = line::now();
        if let Some(flow) = self.flows.iter_mut().find(|f| f.port == port && f.client == client) {
            flow.last_used = now;
            return Ok(flow.id);
        }
        let to = self.ports[port].to;
        let any = match to {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let upstream = open(any)?;
        upstream.connect(to)?;
        if self.flows.len() >= MAX_FLOWS
            && let Some(oldest) = (0..self.flows.len()).min_by_key(|&i| self.flows[i].last_used)
        {
            self.flows.swap_remove(oldest);
        }
        self.next_id += 1;
        self.flows.push(RelayedFlow { id: self.next_id, port, client, upstream, last_used: now });
        Ok(self.next_id)
    }
}

fn open(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
        socket.set_recv_tclass_v6(true)?;
    } else {
        socket.set_recv_tos_v4(true)?;
    }
    // The system may grant a smaller buffer, which is sufficient for test streams.
    let _ = SockRef::from(&socket).set_recv_buffer_size(SOCKET_BUFFER);
    let _ = SockRef::from(&socket).set_send_buffer_size(SOCKET_BUFFER);
    socket.bind(&address.into())?;
    Ok(socket.into())
}

struct ReceivedDatagram {
    length: usize,
    from: Option<SocketAddr>,
    ipv6: bool,
    traffic_class: u8,
}

/// Returns the next datagram; `None` if none is queued.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> nix::Result<Option<ReceivedDatagram>> {
    let mut control = nix::cmsg_space!(i32, i32);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = match recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut parts,
        Some(&mut control),
        MsgFlags::empty(),
    ) {
        Ok(message) => message,
        Err(nix::errno::Errno::EAGAIN) => return Ok(None),
        Err(e) => return Err(e),
    };
    let from = message.address.as_ref().and_then(|a| {
        let v4 = a.as_sockaddr_in().map(|a| SocketAddr::from((a.ip(), a.port())));
        v4.or_else(|| a.as_sockaddr_in6().map(|a| SocketAddr::from((a.ip(), a.port()))))
    });
    let (mut ipv6, mut traffic_class) = (from.is_some_and(|a| a.is_ipv6()), 0);
    for m in message.cmsgs()? {
        match m {
            ControlMessageOwned::Ipv4Tos(tos) => traffic_class = tos,
            ControlMessageOwned::Ipv6TClass(tclass) => (ipv6, traffic_class) = (true, tclass as u8),
            _ => {}
        }
    }
    Ok(Some(ReceivedDatagram { length: message.bytes, from, ipv6, traffic_class }))
}

fn send(socket: &UdpSocket, to: Option<SocketAddr>, ipv6: bool, d: &RelayedDatagram) -> nix::Result<usize> {
    let parts = [IoSlice::new(&d.payload)];
    let to = to.map(SockaddrStorage::from);
    let (tos, tclass) = (d.traffic_class, i32::from(d.traffic_class));
    let control = if ipv6 { ControlMessage::Ipv6TClass(&tclass) } else { ControlMessage::Ipv4Tos(&tos) };
    sendmsg(socket.as_raw_fd(), &parts, &[control], MsgFlags::MSG_DONTWAIT, to.as_ref())
}

//! LaMP in whole Ethernet frames, beside this host's own IP and UDP, as `LaTe -s -r` answers.

use super::{Admission, Counters, LARGEST, NOTICE};
use crate::clock;
use crate::random;
use crate::stamp::{Meta, Stamps};
use crate::sys::{BATCH, Inbox};
use crate::twoway::client::tick;
use crate::twoway::raw::{self, Mac};
use crate::twoway::socket::{self, Marking, enlarge};
use jitlat_core::{Dscp, Source, Span, SteadyTime};
use jitlat_proto::lamp::{self, FollowUp, Reaction};
use jitlat_proto::twoway::reflect::{Arrival, Limiter, Silence};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where reports go is remembered this long after a client was heard last.
const REMEMBERED: Span = Span::seconds(120);
/// Clients remembered at a time.
const CLIENTS: usize = 16_384;

/// The way to one client, which no table of the kernel needs to know.
#[derive(Clone, Copy)]
struct Way {
    mac: Mac,
    from: SocketAddrV4,
    to: SocketAddrV4,
    dscp: Dscp,
    seen: SteadyTime,
}

/// A packet socket that answers.
pub(super) struct Frames {
    socket: Socket,
    mac: Mac,
    addresses: Vec<Ipv4Addr>,
    frame: Vec<u8>,
    admission: Arc<Admission>,
    limiter: Limiter,
    counters: Arc<Counters>,
    /// Clients of one-way sessions.
    ways: HashMap<SocketAddr, Way>,
    /// Owns the port, so that the host calls it reachable; what arrives there is dropped by its filter.
    owner: UdpSocket,
}

impl Frames {
    /// Listens at `interface` to what goes to `port`.
    pub fn open(
        interface: &str,
        port: u16,
        admission: &Arc<Admission>,
        counters: Arc<Counters>,
    ) -> io::Result<Frames> {
        let (mac, addresses) = raw::addresses(interface)?;
        let Some(first) = addresses.first() else {
            let why = format!("{interface} is no interface with an IPv4 address");
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        };
        if first.is_loopback() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, raw::LOOPBACK));
        }
        let owner = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        owner.attach_filter(&[SockFilter::new(0x06, 0, 0, 0)])?;
        owner.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
        let port = owner.local_addr()?.as_socket().map_or(port, |a| a.port());
        let socket = raw::packet_socket(interface, &raw::only_to(port))?;
        socket.set_read_timeout(Some(NOTICE))?;
        enlarge(&socket);
        socket::stamp(&socket, IpAddr::V4(*first), Stamps::KernelReceive, &mut Vec::new())?;
        let mut seed = [0; 8];
        random::fill(&mut seed)?;
        Ok(Frames {
            socket,
            mac,
            addresses,
            frame: Vec::with_capacity(2048),
            admission: admission.clone(),
            limiter: Limiter::new(admission.rate, u64::from_be_bytes(seed)),
            counters,
            ways: HashMap::new(),
            owner: owner.into(),
        })
    }

    /// The port, at the interface's first address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let port = self.owner.local_addr()?.port();
        Ok((self.addresses.first().copied().unwrap_or(Ipv4Addr::UNSPECIFIED), port).into())
    }

    /// Answers until `stop`.
    pub fn serve(mut self, stop: &AtomicBool) {
        let rules = lamp::ServerRules { receive_stamps: Source::Kernel, ..lamp::ServerRules::default() };
        let mut server = lamp::Server::new(rules);
        let mut inbox = Inbox::new(BATCH, LARGEST);
        let mut answer = Vec::with_capacity(2048);
        while !stop.load(Ordering::Relaxed) {
            if inbox.receive(self.socket.as_fd(), libc::MSG_WAITFORONE).is_ok() {
                for datagram in inbox.datagrams() {
                    let came = datagram.link().is_none_or(|(_, way)| way != libc::PACKET_OUTGOING);
                    if let Some(request) = raw::parse(datagram.data).filter(|_| came) {
                        self.answer(&mut server, &request, Meta::parse(datagram.control), &mut answer);
                    }
                }
            }
            answer.clear();
            while let Some(to) = server.poll_transmit(tick(), &mut answer) {
                if let Some(way) = self.ways.get(&to).copied() {
                    self.send(&way, &answer);
                }
                answer.clear();
            }
        }
    }

    fn answer(
        &mut self,
        server: &mut lamp::Server,
        request: &raw::Carried<'_>,
        meta: Meta,
        out: &mut Vec<u8>,
    ) {
        if !self.addresses.contains(request.to.ip()) {
            return;
        }
        let now = tick();
        let from = SocketAddr::V4(request.from);
        let silent = match () {
            () if !self.admission.admits(from.ip()) => Some(Silence::NotAllowed),
            () if !self.limiter.allows(from.ip(), now.steady) => Some(Silence::Limited),
            () => None,
        };
        if let Some(why) = silent {
            return self.counters.silent(why);
        }
        let class = request.traffic_class;
        let at = meta.stamp.map_or(now.wall, |s| s.at);
        let arrival = Arrival { from, at, ttl: Some(request.ttl), traffic_class: Some(class) };
        let way = Way {
            mac: request.source,
            from: request.to,
            to: request.from,
            dscp: Dscp::new(u32::from(class >> 2)).unwrap_or_default(),
            seen: now.steady,
        };
        out.clear();
        match server.handle(request.payload, &arrival, now, out) {
            Ok(Reaction::Taken) => self.remember(from, way),
            Ok(Reaction::Answer) => {
                if super::opens(out) {
                    self.remember(from, way);
                }
                self.send(&way, out);
            }
            Ok(Reaction::AnswerAndFollow(kind)) => {
                let began = if kind == FollowUp::Application { now.wall } else { at };
                // Before it is sent: the sending of a frame may take it all the way to the client.
                let took = clock::wall() - began;
                self.send(&way, out);
                let Some(h) = lamp::Header::parse(out) else { return };
                out.clear();
                server.follow_up(h.id, h.seq, took, out);
                self.send(&way, out);
            }
            Err(why) => self.counters.silent(why),
        }
    }

    fn remember(&mut self, client: SocketAddr, way: Way) {
        if self.ways.len() >= CLIENTS && !self.ways.contains_key(&client) {
            self.ways.retain(|_, w| way.seen - w.seen < REMEMBERED);
        }
        if self.ways.len() < CLIENTS || self.ways.contains_key(&client) {
            self.ways.insert(client, way);
        }
    }

    /// What cannot be sent is lost, as on any path.
    fn send(&mut self, way: &Way, payload: &[u8]) {
        let marking = Marking { dscp: way.dscp, ..Marking::default() };
        let headers = raw::headers(self.mac, way.mac, way.from, way.to, &marking);
        raw::fill(&mut self.frame, &headers, payload);
        if self.socket.send(&self.frame).is_ok() {
            self.counters.answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

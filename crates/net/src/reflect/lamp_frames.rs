//! LaMP in whole Ethernet frames, bypassing this host's own IP and UDP, as `LaTe -s -r` answers.

use super::udp::LARGEST;
use super::{LOOK_AROUND, Opened, Reflector, Shared};
use crate::clock;
use crate::cmsg::ReceivedInfo;
use crate::frame::{self, Ends, Mac, UdpFrame};
use crate::random;
use crate::sockets::enlarge;
use crate::stamp::Stamps;
use crate::sys::{BATCH, Inbox};
use crate::twoway::raw;
use crate::twoway::socket;
use jitlat_core::{Dscp, Source};
use jitlat_proto::access::RateLimiter;
use jitlat_proto::lamp::{self, FollowUp, Header, Reaction, ServerRules};
use jitlat_proto::twoway::reflect::{Arrival, Silence};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;

/// Answers LaMP over IPv4 in whole frames at one interface.
#[derive(Clone, Debug)]
pub struct LampFrameReflector {
    /// Its UDP port.
    pub port: u16,
    /// The interface.
    pub interface: String,
}

impl Reflector for LampFrameReflector {
    fn name(&self) -> &'static str {
        "LaMP (raw frames)"
    }

    /// One address, whatever the host's addresses are.
    fn addresses(&self, _ips: &[IpAddr]) -> Vec<SocketAddr> {
        vec![(Ipv4Addr::UNSPECIFIED, self.port).into()]
    }

    fn open(&self, at: SocketAddr, shared: &Shared) -> io::Result<Opened> {
        let frames = Frames::open(&self.interface, at.port(), shared)?;
        Ok(Opened { address: frames.address()?, run: Box::new(move || frames.serve()) })
    }
}

/// The route to one client; the kernel's tables are not needed.
#[derive(Clone, Copy)]
struct Way {
    mac: Mac,
    from: SocketAddrV4,
    to: SocketAddrV4,
    dscp: Dscp,
}

/// A packet socket that answers.
struct Frames {
    socket: Socket,
    mac: Mac,
    addresses: Vec<Ipv4Addr>,
    frame: Vec<u8>,
    shared: Shared,
    limiter: RateLimiter,
    /// Reserves the port, so that the host reports it as reachable; its filter drops everything that arrives.
    owner: UdpSocket,
}

impl Frames {
    /// Receives packets to `port` at `interface`.
    fn open(interface: &str, port: u16, shared: &Shared) -> io::Result<Frames> {
        let (mac, addresses) = raw::addresses(interface)?;
        let Some(first) = addresses.first() else {
            let why = format!("{interface} is no interface with an IPv4 address");
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        };
        if first.is_loopback() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, raw::LOOPBACK));
        }
        let owner = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        owner.attach_filter(&frame::nothing())?;
        owner.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
        let port = owner.local_addr()?.as_socket().map_or(port, |a| a.port());
        let socket = raw::packet_socket(interface, &frame::only_to(port))?;
        socket.set_read_timeout(Some(LOOK_AROUND))?;
        enlarge(&socket);
        shared.prefer(&socket);
        socket::stamp(&socket, IpAddr::V4(*first), Stamps::KernelReceive, &mut Vec::new())?;
        let mut seed = [0; 8];
        random::fill(&mut seed)?;
        Ok(Frames {
            socket,
            mac,
            addresses,
            frame: Vec::with_capacity(2048),
            shared: shared.clone(),
            limiter: RateLimiter::new(shared.access.packets_per_second, u64::from_be_bytes(seed)),
            owner: owner.into(),
        })
    }

    /// The port, at the interface's first address.
    fn address(&self) -> io::Result<SocketAddr> {
        let port = self.owner.local_addr()?.port();
        Ok((self.addresses.first().copied().unwrap_or(Ipv4Addr::UNSPECIFIED), port).into())
    }

    /// Answers until the server stops.
    fn serve(mut self) {
        let rules = ServerRules { receive_stamps: Source::Kernel, ..ServerRules::default() };
        let mut server = lamp::Server::<Way>::new(rules);
        let mut inbox = Inbox::new(BATCH, LARGEST);
        let mut answer = Vec::with_capacity(2048);
        while !self.shared.is_stopping() {
            if inbox.receive(self.socket.as_fd(), libc::MSG_WAITFORONE).is_ok() {
                for datagram in inbox.datagrams() {
                    let came = datagram.link().is_none_or(|(_, way)| way != libc::PACKET_OUTGOING);
                    if let Some(request) = frame::parse(datagram.data).filter(|_| came) {
                        self.answer(
                            &mut server,
                            &request,
                            ReceivedInfo::parse(datagram.control),
                            &mut answer,
                        );
                    }
                }
            }
            answer.clear();
            while let Some((_, way)) = server.poll_transmit(clock::tick(), &mut answer) {
                self.send(&way, &answer);
                answer.clear();
            }
        }
    }

    fn answer(
        &mut self,
        server: &mut lamp::Server<Way>,
        request: &UdpFrame<'_>,
        info: ReceivedInfo,
        out: &mut Vec<u8>,
    ) {
        if !self.addresses.contains(request.to.ip()) {
            return;
        }
        let now = clock::tick();
        let from = SocketAddr::V4(request.from);
        let silent = match () {
            () if !self.shared.access.admits(from.ip()) => Some(Silence::NotAllowed),
            () if !self.limiter.allows(from.ip(), now.steady) => Some(Silence::Limited),
            () => None,
        };
        if let Some(why) = silent {
            return self.shared.counters.silent(why);
        }
        let class = request.traffic_class;
        let at = info.stamp.map_or(now.wall, |s| s.at);
        let arrival = Arrival { from, at, ttl: Some(request.ttl), traffic_class: Some(class) };
        let way = Way {
            mac: request.source,
            from: request.to,
            to: request.from,
            dscp: Dscp::new(u32::from(class >> 2)).unwrap_or_default(),
        };
        out.clear();
        match server.handle(request.payload, &arrival, way, now, out) {
            Ok(Reaction::Taken) => {}
            Ok(Reaction::Counted { last }) => self.shared.keep(request.payload, &arrival, last),
            Ok(Reaction::Answer) => self.send(&way, out),
            Ok(Reaction::AnswerAndFollow(kind)) => {
                let began = if kind == FollowUp::Application { now.wall } else { at };
                // Before it is sent: sending a frame may deliver it to the client at once.
                let took = clock::wall() - began;
                self.send(&way, out);
                let Some(h) = Header::parse(out) else { return };
                out.clear();
                server.follow_up(h.id, h.seq, took, out);
                self.send(&way, out);
            }
            Err(why) => self.shared.counters.silent(why),
        }
    }

    /// A frame that cannot be sent is lost, as on any path.
    fn send(&mut self, way: &Way, payload: &[u8]) {
        let ends = Ends { from_mac: self.mac, to_mac: way.mac, from: way.from, to: way.to };
        let headers = frame::headers(&ends, way.dscp.octet(), raw::DEFAULT_TTL);
        frame::fill(&mut self.frame, &headers, payload);
        if self.socket.send(&self.frame).is_ok() {
            self.shared.counters.answered(1);
        }
    }
}

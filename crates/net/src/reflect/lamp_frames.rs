//! LaMP in whole Ethernet frames, which bypass this host's network stack: with IP and UDP headers built by
//! this program, like `LaTe -s -r`, or without IP and UDP.

use super::lamp::{secret as lamp_secret, table as lamp_table};
use super::udp::MAX_DATAGRAM;
use super::{OpenReflector, Reflector, ReflectorContext};
use crate::audit::BegunTests;
use crate::clock;
use crate::cmsg::ReceivedInfo;
use crate::frame::{self, Ends, Mac};
use crate::lamp_frame::{self, LampLink};
use crate::sockets::enlarge;
use crate::stamp::StampMode;
use crate::sys::{Inbox, MAX_BATCH, ReceiveMode};
use crate::twoway::raw;
use crate::twoway::socket;
use jitlat_core::prefix::Prefix;
use jitlat_core::{Dscp, StampSource};
use jitlat_proto::lamp::{self, LampFollowUp, LampHeader, LampReaction, ServerRules};
use jitlat_proto::policy::{self, Service};
use jitlat_proto::twoway::reflect::{RequestArrival, Silence};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

/// Reflector for LaMP over IPv4 and IPv6, in whole frames on one interface.
#[derive(Clone, Debug)]
pub struct LampFrameReflector {
    /// UDP port.
    pub port: u16,
    /// Name of the interface.
    pub interface: String,
    /// See [`super::LampReflector::trusted`].
    pub trusted: Vec<Prefix>,
}

impl Reflector for LampFrameReflector {
    fn name(&self) -> &'static str {
        "LaMP (raw frames)"
    }

    fn service(&self) -> Service {
        policy::LAMP
    }

    fn needs_raw_packets(&self) -> bool {
        true
    }

    /// Returns a single address, because frames are received regardless of the host's addresses.
    fn addresses(&self, _ips: &[IpAddr]) -> Vec<SocketAddr> {
        vec![(Ipv4Addr::UNSPECIFIED, self.port).into()]
    }

    fn open(&self, at: SocketAddr, shared: &ReflectorContext) -> io::Result<OpenReflector> {
        let (frames, address) = Frames::open(&self.interface, at.port(), shared)?;
        let (secret, trusted) = (lamp_secret()?, self.trusted.clone());
        Ok(OpenReflector { address, run: Box::new(move || frames.serve(secret, trusted)) })
    }
}

/// Reflector for LaMP in Ethernet frames without IP and UDP, on one interface.
#[derive(Clone, Debug)]
pub struct LampEthernetReflector {
    /// Protocol between Ethernet and LaMP.
    pub link: LampLink,
    /// Interface name.
    pub interface: String,
    /// See [`super::LampReflector::trusted`].
    pub trusted: Vec<Prefix>,
}

impl Reflector for LampEthernetReflector {
    fn name(&self) -> &'static str {
        match self.link {
            LampLink::Ethernet => "LaMP (Ethernet)",
            LampLink::Wsmp(_) => "LaMP (WSMP)",
        }
    }

    fn service(&self) -> Service {
        policy::LAMP
    }

    fn needs_raw_packets(&self) -> bool {
        true
    }

    /// Returns a single address: that of the interface.
    fn addresses(&self, _ips: &[IpAddr]) -> Vec<SocketAddr> {
        vec![(Ipv6Addr::UNSPECIFIED, self.link.ethertype()).into()]
    }

    fn open(&self, _at: SocketAddr, shared: &ReflectorContext) -> io::Result<OpenReflector> {
        let (mac, addresses) = raw::addresses(&self.interface)?;
        if !lamp_frame::is_unicast(mac) {
            let why = format!("{} is not an Ethernet interface", self.interface);
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let socket = raw::packet_socket(&self.interface, &lamp_frame::only_to(self.link, mac))?;
        let ip = addresses.first().copied().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let frames = Frames::new(socket, ip, Ethernet { link: self.link, mac }, shared)?;
        let (secret, trusted) = (lamp_secret()?, self.trusted.clone());
        Ok(OpenReflector {
            address: lamp_frame::address_of(self.link, mac),
            run: Box::new(move || frames.serve(secret, trusted)),
        })
    }
}

/// A LaMP packet parsed from a frame.
struct LampFrameRequest<'a, W> {
    from: SocketAddr,
    route: W,
    payload: &'a [u8],
    ttl: Option<u8>,
    traffic_class: Option<u8>,
}

/// Protocol layers below LaMP in a frame.
trait LowerLayer: Send + 'static {
    /// Return route to a client, which is used instead of the kernel's routing tables.
    type Route: Copy;

    /// Parses the packet in `frame`; `None` if it is not addressed to this host.
    fn parse<'a>(&self, frame: &'a [u8]) -> Option<LampFrameRequest<'a, Self::Route>>;

    /// Builds the frame of an answer.
    fn fill(&self, frame: &mut Vec<u8>, route: &Self::Route, payload: &[u8]);
}

/// LaMP over UDP and IP.
struct Datagrams {
    mac: Mac,
    addresses: Vec<IpAddr>,
    /// Socket that reserves the port, so that the host does not report the port as unreachable. A filter on
    /// the socket drops all packets.
    _owner: UdpSocket,
}

/// Return route of a datagram.
#[derive(Clone, Copy)]
struct FrameRoute {
    mac: Mac,
    from: SocketAddr,
    to: SocketAddr,
    dscp: Dscp,
}

impl LowerLayer for Datagrams {
    type Route = FrameRoute;

    fn parse<'a>(&self, frame: &'a [u8]) -> Option<LampFrameRequest<'a, FrameRoute>> {
        let datagram = frame::parse(frame)
            .filter(|d| self.addresses.contains(&d.to.ip()))
            .filter(|d| d.destination == self.mac && lamp_frame::is_unicast(d.source))?;
        let class = datagram.traffic_class;
        let route = FrameRoute {
            mac: datagram.source,
            from: datagram.to,
            to: datagram.from,
            dscp: Dscp::new(u32::from(class >> 2)).unwrap_or_default(),
        };
        Some(LampFrameRequest {
            from: datagram.from,
            route,
            payload: datagram.payload,
            ttl: Some(datagram.ttl),
            traffic_class: Some(class),
        })
    }

    fn fill(&self, frame: &mut Vec<u8>, route: &FrameRoute, payload: &[u8]) {
        let ends = Ends { from_mac: self.mac, to_mac: route.mac, from: route.from, to: route.to };
        let headers = frame::headers(&ends, route.dscp.octet(), raw::DEFAULT_TTL);
        frame::fill(frame, &headers, payload);
    }
}

/// Layers below LaMP without IP and UDP: Ethernet and, if `link` requires it, WSMP.
struct Ethernet {
    link: LampLink,
    mac: Mac,
}

impl LowerLayer for Ethernet {
    type Route = Mac;

    fn parse<'a>(&self, frame: &'a [u8]) -> Option<LampFrameRequest<'a, Mac>> {
        // Packets sent to a broadcast address, or claiming to come from one, are never answered.
        let found = lamp_frame::parse(self.link, frame)
            .filter(|f| f.destination == self.mac && lamp_frame::is_unicast(f.source))?;
        let from = lamp_frame::address_of(self.link, found.source);
        Some(LampFrameRequest {
            from,
            route: found.source,
            payload: found.packet,
            ttl: None,
            traffic_class: None,
        })
    }

    fn fill(&self, frame: &mut Vec<u8>, route: &Mac, payload: &[u8]) {
        lamp_frame::fill(self.link, frame, self.mac, *route, payload);
    }
}

/// A packet socket on which requests are answered.
struct Frames<B> {
    socket: Socket,
    beneath: B,
    frame: Vec<u8>,
    shared: ReflectorContext,
}

impl Frames<Datagrams> {
    /// Opens a packet socket for requests to `port` on `interface`. Also returns the local address and port.
    fn open(
        interface: &str,
        port: u16,
        shared: &ReflectorContext,
    ) -> io::Result<(Frames<Datagrams>, SocketAddr)> {
        let (mac, addresses) = raw::addresses(interface)?;
        let Some(first) = addresses.first() else {
            let why = format!("{interface} does not exist or has no address");
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        };
        if first.is_loopback() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, raw::LOOPBACK));
        }
        let owner = owner(port)?;
        let port = owner.local_addr()?.as_socket().map_or(port, |a| a.port());
        let socket = raw::packet_socket(interface, &frame::only_to(port))?;
        let address = (*first, port).into();
        let beneath = Datagrams { mac, addresses: addresses.clone(), _owner: owner.into() };
        Ok((Frames::new(socket, *first, beneath, shared)?, address))
    }
}

/// Binds a socket to `port` for both IP families, or for IPv4 if the host has no IPv6. The socket drops all
/// packets.
fn owner(port: u16) -> io::Result<Socket> {
    let of = |domain, any: IpAddr| {
        let owner = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        if any.is_ipv6() {
            owner.set_only_v6(false)?;
        }
        owner.attach_filter(&frame::nothing())?;
        owner.bind(&SocketAddr::new(any, port).into())?;
        Ok(owner)
    };
    of(Domain::IPV6, Ipv6Addr::UNSPECIFIED.into()).or_else(|error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => Err(error),
        _ => of(Domain::IPV4, Ipv4Addr::UNSPECIFIED.into()),
    })
}

impl<B: LowerLayer> Frames<B> {
    /// Prepares `socket`, which belongs to an interface with the address `ip`, for answering requests.
    fn new(socket: Socket, ip: IpAddr, beneath: B, shared: &ReflectorContext) -> io::Result<Frames<B>> {
        enlarge(&socket);
        shared.prefer(&socket);
        socket::stamp(&socket, ip, StampMode::KernelReceive, &mut Vec::new())?;
        Ok(Frames { socket, beneath, frame: Vec::with_capacity(2048), shared: shared.clone() })
    }

    /// Answers requests until the server stops.
    fn serve(mut self, secret: [u8; 32], trusted: Vec<Prefix>) {
        let rules = ServerRules { receive_stamps: StampSource::Kernel, trusted, ..ServerRules::default() };
        let (rules, _table) = lamp_table::<B::Route>(rules, &self.shared);
        let mut server = lamp::Server::<B::Route>::new(rules, secret);
        let mut inbox = Inbox::new(MAX_BATCH, MAX_DATAGRAM);
        let mut answer = Vec::with_capacity(2048);
        let mut tests = BegunTests::new(policy::LAMP);
        let mut due = None;
        while self.shared.wait(&self.socket, due) {
            if inbox.receive(self.socket.as_fd(), ReceiveMode::Queued).is_ok() {
                for datagram in inbox.datagrams() {
                    let incoming = datagram.link().is_none_or(|(_, kind)| kind != libc::PACKET_OUTGOING);
                    if let Some(request) = self.beneath.parse(datagram.data).filter(|_| incoming) {
                        self.answer(&mut server, &request, datagram.info(), &mut answer);
                        if let Some(begun) = server.take_begun() {
                            tests.began(request.from, begun);
                        }
                    }
                }
            }
            answer.clear();
            let now = clock::tick();
            let lines_due = tests.write(now.steady).map(|left| now.steady + left);
            while let Some((to, route)) = server.poll_transmit(now, &mut answer) {
                if self.shared.take(to.ip(), answer.len(), now.steady).is_ok() {
                    self.send(&route, &answer);
                }
                answer.clear();
            }
            due = server.poll_timeout().into_iter().chain(lines_due).min();
        }
    }

    fn answer(
        &mut self,
        server: &mut lamp::Server<B::Route>,
        request: &LampFrameRequest<'_, B::Route>,
        info: ReceivedInfo,
        out: &mut Vec<u8>,
    ) {
        let now = clock::tick();
        let (from, route) = (request.from, request.route);
        let silent = match () {
            () if !self.shared.admits(from.ip()) => Some(Silence::NotAllowed),
            () if self.shared.take(from.ip(), request.payload.len(), now.steady).is_err() => {
                Some(Silence::Limited)
            }
            () => None,
        };
        if let Some(why) = silent {
            return self.shared.counters.silent(why);
        }
        let at = info.stamp.map_or(now.wall, |s| s.at);
        let arrival = RequestArrival { from, at, ttl: request.ttl, traffic_class: request.traffic_class };
        out.clear();
        match server.handle(request.payload, &arrival, route, now, out) {
            Ok(LampReaction::Taken) => {}
            Ok(LampReaction::Counted { last }) => self.shared.keep(request.payload, &arrival, last),
            Ok(LampReaction::Answer) => self.send(&route, out),
            Ok(LampReaction::AnswerAndFollow(kind)) => {
                let began = if kind == LampFollowUp::Application { now.wall } else { at };
                // Measured before sending, because sending a frame may deliver it to the client at once.
                let took = clock::wall() - began;
                self.send(&route, out);
                let Some(h) = LampHeader::parse(out).filter(|_| self.shared.may_follow_up(from)) else {
                    return;
                };
                out.clear();
                server.follow_up(h.id, h.seq, took, out);
                self.send(&route, out);
            }
            Err(why) => self.shared.counters.silent(why),
        }
    }

    /// Sends an answer. A frame that cannot be sent counts as lost on the path.
    fn send(&mut self, route: &B::Route, payload: &[u8]) {
        self.beneath.fill(&mut self.frame, route, payload);
        if self.socket.send(&self.frame).is_ok() {
            self.shared.counters.answered(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_proto::wsmp::Psid;

    #[test]
    fn frames_to_or_from_groups_are_no_requests() {
        let (here, there) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let at = |host: u8, port: u16| SocketAddr::from(([10, 9, 0, host], port));
        let owner = UdpSocket::bind("127.0.0.1:0").unwrap();
        let datagrams = Datagrams { mac: here, addresses: vec![at(2, 0).ip()], _owner: owner };
        let request = |from_mac: Mac, to_mac: Mac, to: u8| {
            let ends = Ends { from_mac, to_mac, from: at(1, 46_772), to: at(to, lamp::PORT) };
            let mut frame = Vec::new();
            frame::fill(
                &mut frame,
                &frame::headers(&ends, 0, 64),
                &LampHeader::new(lamp::LampKind::Init, 7, 0, 1).to_bytes(),
            );
            datagrams.parse(&frame).is_some()
        };
        assert!(request(there, here, 2));
        assert!(!request(there, [0xff; 6], 2) && !request(there, [1, 0, 0x5e, 0, 0, 1], 2));
        assert!(!request([0xff; 6], here, 2), "an answer would reach everybody");
        assert!(!request(there, here, 255) && !request(there, here, 3));
    }

    #[test]
    fn wave_short_messages_to_or_from_groups_or_of_other_services_are_no_requests() {
        let (here, there) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let link = LampLink::Wsmp(Psid::TESTING);
        let reflector = Ethernet { link, mac: here };
        let request = |link: LampLink, from: Mac, to: Mac| {
            let mut frame = Vec::new();
            let packet = LampHeader::new(lamp::LampKind::Init, 7, 0, 1).to_bytes();
            lamp_frame::fill(link, &mut frame, from, to, &packet);
            reflector.parse(&frame).map(|found| found.from.to_string())
        };
        assert_eq!(request(link, there, here).as_deref(), Some("[fe80::ff:fe00:2]:35036"));
        for (from, to) in
            [(there, [0xff; 6]), (there, [1, 0, 0x5e, 0, 0, 1]), ([0xff; 6], here), (there, there)]
        {
            assert_eq!(request(link, from, to), None, "{from:?} {to:?}");
        }
        assert_eq!(request(LampLink::Wsmp(Psid::new(5).unwrap()), there, here), None);
        assert_eq!(request(LampLink::Ethernet, there, here), None);
    }
}

//! [`Reflectors`]: answers other hosts' two-way tests, one thread a socket.

use crate::clock;
use crate::privilege::{Capability, needs};
use crate::random;
use crate::stamp::{ControlMessages, Meta, transmitted};
use crate::sys::{BATCH, Inbox, Leave, Local, Outbox};
use crate::twoway::client::tick;
use crate::twoway::request_response;
use crate::twoway::socket::{enlarge, observe};
use jitlat_core::ntp::{ErrorEstimate, Format};
use jitlat_core::passive::Prefix;
use jitlat_core::{Source, Span, WallTime};
use jitlat_proto::lamp::{self, FollowUp, Reaction};
use jitlat_proto::stamp;
use jitlat_proto::twoway::reflect::{Arrival, Limiter, Silence};
use nix::sys::socket::{TimestampingFlag as F, setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is answered, where.
#[derive(Clone, Debug)]
pub struct Service {
    /// Addresses to answer on.
    pub bind: Vec<IpAddr>,
    /// Port of the STAMP and TWAMP Light reflector; `None` = none.
    pub stamp_port: Option<u16>,
    /// Its key, for the authenticated mode.
    pub stamp_key: Option<stamp::auth::Key>,
    /// STAMP sessions whose answers are counted; 0 = stateless.
    pub stamp_sessions: usize,
    /// Port of the LaMP server; `None` = none.
    pub lamp_port: Option<u16>,
    /// Interface where LaMP over IPv4 is answered in whole frames, and nowhere else then.
    pub lamp_raw: Option<String>,
    /// Port of the TCP responder; `None` = none.
    pub tcp_port: Option<u16>,
    /// The TWAMP control server; `None` = none.
    pub twamp: Option<twamp::Settings>,
    /// Connections of the responder at a time.
    pub connections: usize,
    /// Packets a second answered of one address.
    pub rate: u32,
    /// The only hosts answered; empty = all.
    pub allow: Vec<Prefix>,
}

impl Default for Service {
    fn default() -> Service {
        Service {
            bind: vec![IpAddr::from([0, 0, 0, 0])],
            stamp_port: Some(stamp::PORT),
            stamp_key: None,
            stamp_sessions: 16_384,
            lamp_port: Some(lamp::PORT),
            lamp_raw: None,
            tcp_port: Some(jitlat_proto::reqresp::PORT),
            twamp: Some(twamp::Settings::default()),
            connections: 64,
            rate: 200_000,
            allow: Vec::new(),
        }
    }
}

/// Packets answered, and those met with silence by reason.
#[derive(Debug, Default)]
pub struct Counters {
    /// Answered.
    pub answered: AtomicU64,
    /// By [`Silence`].
    pub silent: [AtomicU64; Silence::ALL.len()],
}

impl Counters {
    fn silent(&self, why: Silence) {
        self.silent[why as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Who is answered, and how much.
struct Admission {
    rate: u32,
    allow: Vec<Prefix>,
}

impl Admission {
    fn admits(&self, client: IpAddr) -> bool {
        self.allow.is_empty() || self.allow.iter().any(|p| p.contains(client.to_canonical()))
    }
}

/// Running reflectors; dropping them stops them.
pub struct Reflectors {
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    counters: Arc<Counters>,
    listening: Vec<(&'static str, SocketAddr)>,
    failures: Vec<String>,
}

/// How soon a thread notices that it is to stop.
const NOTICE: Duration = Duration::from_millis(100);
/// Between two looks at the state of this host's clock.
const CLOCK_STATE: Span = Span::seconds(5);

impl Reflectors {
    /// Starts what `service` asks for. What cannot be had (a port in use, or below 1024 without the
    /// privilege) is among the [failures](Reflectors::failures); the rest runs.
    pub fn start(service: &Service) -> Reflectors {
        let mut all = Reflectors {
            threads: Vec::new(),
            stop: Arc::default(),
            counters: Arc::default(),
            listening: Vec::new(),
            failures: Vec::new(),
        };
        let admission = Arc::new(Admission { rate: service.rate, allow: service.allow.clone() });
        if let Some((port, interface)) = service.lamp_port.zip(service.lamp_raw.as_deref()) {
            all.frames(interface, port, &admission);
        }
        for ip in &service.bind {
            if let Some(port) = service.stamp_port {
                let at = SocketAddr::new(*ip, port);
                let rules = stamp::Rules {
                    key: service.stamp_key.clone(),
                    sessions: service.stamp_sessions,
                    stamps: Source::Kernel,
                    ..stamp::Rules::default()
                };
                all.udp("STAMP", at, &admission, move |port, stop| reflect_stamp(port, rules, stop));
            }
            if let Some(port) = service.lamp_port.filter(|_| service.lamp_raw.is_none() || ip.is_ipv6()) {
                let rules =
                    lamp::ServerRules { receive_stamps: Source::Kernel, ..lamp::ServerRules::default() };
                let at = SocketAddr::new(*ip, port);
                all.udp("LaMP", at, &admission, move |port, stop| serve_lamp(port, rules, stop));
            }
            if let Some(settings) = &service.twamp {
                all.twamp(*ip, settings, &admission);
            }
            if let Some(port) = service.tcp_port {
                all.tcp(SocketAddr::new(*ip, port), service.connections, &admission);
            }
        }
        all
    }

    /// What is answered, and where.
    pub fn listening(&self) -> &[(&'static str, SocketAddr)] {
        &self.listening
    }

    /// What could not be started, in sentences.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Packets answered and not.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn udp(
        &mut self,
        name: &'static str,
        at: SocketAddr,
        admission: &Arc<Admission>,
        body: impl FnOnce(&mut Port, &AtomicBool) + Send + 'static,
    ) {
        let started = Port::bind(at, admission, self.counters.clone()).and_then(|mut port| {
            let bound = port.socket.local_addr()?;
            let stop = self.stop.clone();
            let named = std::thread::Builder::new().name(name.to_lowercase());
            Ok((bound, named.spawn(move || body(&mut port, &stop))?))
        });
        self.note(name, at, started);
    }

    fn frames(&mut self, interface: &str, port: u16, admission: &Arc<Admission>) {
        let opened = lamp_raw::Frames::open(interface, port, admission, self.counters.clone());
        let stop = self.stop.clone();
        let started = opened.and_then(|frames| {
            let bound = frames.address()?;
            let named = std::thread::Builder::new().name("lamp".to_owned());
            Ok((bound, named.spawn(move || frames.serve(&stop))?))
        });
        self.note("LaMP (raw frames)", (Ipv4Addr::UNSPECIFIED, port).into(), started);
    }

    fn tcp(&mut self, at: SocketAddr, connections: usize, admission: &Arc<Admission>) {
        let admission = admission.clone();
        let (stop, counters) = (self.stop.clone(), self.counters.clone());
        let started = listen(at).and_then(|listener| {
            let bound = listener.local_addr()?;
            let named = std::thread::Builder::new().name("responder".to_owned());
            Ok((bound, named.spawn(move || accept(&listener, connections, &admission, &stop, &counters))?))
        });
        self.note("TCP request-response", at, started);
    }

    fn twamp(&mut self, ip: IpAddr, settings: &twamp::Settings, admission: &Arc<Admission>) {
        let at = SocketAddr::new(ip, settings.port);
        let started = listen(at).and_then(|listener| {
            let bound = listener.local_addr()?;
            let host = twamp::Host::new(settings, admission, self.counters.clone(), self.stop.clone());
            let named = std::thread::Builder::new().name("twamp".to_owned());
            Ok((bound, named.spawn(move || twamp::accept(&listener, &host))?))
        });
        self.note("TWAMP-Control", at, started);
    }

    fn note(
        &mut self,
        name: &'static str,
        at: SocketAddr,
        started: io::Result<(SocketAddr, JoinHandle<()>)>,
    ) {
        match started {
            Ok((bound, thread)) => {
                self.listening.push((name, bound));
                self.threads.push(thread);
            }
            Err(e) => {
                let hint = match e.kind() {
                    io::ErrorKind::PermissionDenied if at.port() < 1024 => {
                        format!(" (a port below 1024 {})", needs(Capability::NetBindService))
                    }
                    io::ErrorKind::AddrInUse => " (another program has it)".to_owned(),
                    _ => String::new(),
                };
                self.failures.push(format!("no {name} reflector on {at}: {e}{hint}"));
            }
        }
    }
}

impl Drop for Reflectors {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A reflector that panicked has already said so.
            let _ = thread.join();
        }
    }
}

/// A UDP socket that answers.
struct Port {
    socket: UdpSocket,
    inbox: Inbox,
    admission: Arc<Admission>,
    limiter: Limiter,
    counters: Arc<Counters>,
    outbox: Outbox,
    departures: StampedAnswers,
    /// Whether the socket has one address.
    bound: bool,
    /// Whether the kernel can say when answers left.
    stamps_sent: bool,
}

/// The largest datagram.
const LARGEST: usize = 65_507;

impl Port {
    fn bind(at: SocketAddr, admission: &Arc<Admission>, counters: Arc<Counters>) -> io::Result<Port> {
        Port::with_slot(at, admission, counters, LARGEST)
    }

    /// Keeps no more than the first `slot` bytes of a datagram.
    fn with_slot(
        at: SocketAddr,
        admission: &Arc<Admission>,
        counters: Arc<Counters>,
        slot: usize,
    ) -> io::Result<Port> {
        let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
        let v6 = at.is_ipv6();
        if v6 {
            socket.set_only_v6(true)?;
        }
        socket.bind(&at.into())?;
        socket.set_read_timeout(Some(NOTICE))?;
        observe(&socket, v6);
        enlarge(&socket);
        // Answers leave from the address that was asked; hop limits tell the asker the distance.
        if v6 {
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
            socket.set_unicast_hops_v6(255)?;
        } else {
            setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
            socket.set_ttl_v4(255)?;
        }
        // All that arrives is stamped; of what leaves, only answers that ask for it.
        let received = F::SOF_TIMESTAMPING_SOFTWARE | F::SOF_TIMESTAMPING_RX_SOFTWARE;
        let sent = F::SOF_TIMESTAMPING_OPT_ID | F::SOF_TIMESTAMPING_OPT_TSONLY;
        let stamps_sent = setsockopt(&socket, sockopt::Timestamping, &(received | sent)).is_ok();
        let mut seed = [0; 8];
        random::fill(&mut seed)?;
        Ok(Port {
            socket: socket.into(),
            inbox: Inbox::new(BATCH, slot),
            admission: admission.clone(),
            limiter: Limiter::new(admission.rate, u64::from_be_bytes(seed)),
            counters,
            outbox: Outbox::new(BATCH * 1500),
            departures: StampedAnswers::new(),
            bound: !at.ip().is_unspecified(),
            stamps_sent,
        })
    }

    /// Waits for a batch, or a tenth of a second, and hands each datagram over with where it came in.
    fn receive(&mut self, mut each: impl FnMut(&mut Answering<'_>, &[u8], &Arrival, Option<Local>)) {
        if self.inbox.receive(self.socket.as_fd(), libc::MSG_WAITFORONE).is_err() {
            return;
        }
        let steady = clock::steady();
        let wall = clock::wall();
        let mut answering = Answering {
            socket: &self.socket,
            outbox: &mut self.outbox,
            departures: &mut self.departures,
            counters: &self.counters,
            bound: self.bound,
        };
        for datagram in self.inbox.datagrams() {
            let Some(from) = datagram.sender() else { continue };
            if !self.admission.admits(from.ip()) {
                answering.counters.silent(Silence::NotAllowed);
                continue;
            }
            if !self.limiter.allows(from.ip(), steady) {
                answering.counters.silent(Silence::Limited);
                continue;
            }
            let meta = Meta::parse(datagram.control);
            let arrival = Arrival {
                from,
                at: meta.stamp.map_or(wall, |s| s.at),
                ttl: meta.ttl,
                traffic_class: meta.traffic_class,
            };
            each(&mut answering, datagram.data, &arrival, asked_address(datagram.control));
        }
        answering.flush();
    }
}

/// The sending half of a [`Port`]. Answers of one batch of requests leave together.
struct Answering<'a> {
    socket: &'a UdpSocket,
    outbox: &'a mut Outbox,
    departures: &'a mut StampedAnswers,
    counters: &'a Counters,
    /// Answers need not be told where they leave from: the socket has one address.
    bound: bool,
}

/// The local address a packet was sent to.
fn asked_address(control: &[u8]) -> Option<Local> {
    ControlMessages(control).find_map(|m| match (m.level, m.kind) {
        // in_pktinfo: interface index, local address, address in the header.
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => Some(Local::V4(*m.data.get(4..8)?.first_chunk()?)),
        // in6_pktinfo: address, interface index.
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let index = m.data.get(16..20)?.first_chunk()?;
            Some(Local::V6(*m.data.first_chunk()?, u32::from_ne_bytes(*index)))
        }
        _ => None,
    })
}

/// How an answer to `to` is to leave. LaTe's raw clients, known by their port, read whole frames and drop those
/// whose checksum was left to an adapter that is not there.
fn leave(to: SocketAddr, dscp: u8, stamped: bool) -> Leave {
    Leave { class: dscp << 2, stamped, summed: to.port() == lamp::RAW_PORT }
}

impl Answering<'_> {
    /// Has `answer` sent with the rest of the batch.
    fn send(&mut self, answer: &[u8], to: SocketAddr, from: Option<Local>, dscp: u8) {
        if self.outbox.is_full() {
            self.flush();
        }
        self.outbox.push(answer, to, from.filter(|_| !self.bound), leave(to, dscp, false));
    }

    /// Sends `answer` now, after all before it, and returns when it left by the kernel's stamp: `None` if that
    /// does not come at once.
    fn send_stamped(
        &mut self,
        answer: &[u8],
        to: SocketAddr,
        from: Option<Local>,
        dscp: u8,
    ) -> Option<WallTime> {
        self.flush();
        self.outbox.push(answer, to, from.filter(|_| !self.bound), leave(to, dscp, true));
        self.flush();
        self.departures.next(self.socket)
    }

    fn flush(&mut self) {
        let sent = self.outbox.flush(self.socket.as_fd());
        self.counters.answered.fetch_add(sent, Ordering::Relaxed);
    }
}

/// When single answers left, from the error queue.
struct StampedAnswers {
    inbox: Inbox,
    /// How many answers were to be stamped: the number the kernel gives the next one.
    asked: u32,
}

/// A driver stamps a packet on handing it to the adapter, nearly always before the call returns.
const STAMP_PATIENCE: Duration = Duration::from_millis(1);

impl StampedAnswers {
    fn new() -> StampedAnswers {
        StampedAnswers { inbox: Inbox::new(4, 1), asked: 0 }
    }

    /// Waits for the stamp of the answer just sent, but not long: others are to be answered too.
    fn next(&mut self, socket: &UdpSocket) -> Option<WallTime> {
        let wanted = self.asked;
        self.asked = self.asked.wrapping_add(1);
        let until = Instant::now() + STAMP_PATIENCE;
        loop {
            if self.inbox.receive(socket.as_fd(), libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT).is_ok() {
                let found = self.inbox.datagrams().filter_map(|d| transmitted(d.control));
                let found = found.filter(|(id, _)| *id == wanted).map(|(_, stamp)| stamp.at).last();
                if found.is_some() {
                    return found;
                }
            }
            if Instant::now() >= until {
                return None;
            }
            std::hint::spin_loop();
        }
    }
}

fn reflect_stamp(port: &mut Port, rules: stamp::Rules, stop: &AtomicBool) {
    let stamps_sent = port.stamps_sent;
    let mut reflector = stamp::Reflector::new(rules);
    let mut answer = vec![0; LARGEST];
    let (mut error, mut looked) = (ErrorEstimate::UNKNOWN, None);
    while !stop.load(Ordering::Relaxed) {
        let steady = clock::steady();
        if looked.is_none_or(|l| steady - l >= CLOCK_STATE) {
            looked = Some(steady);
            error = ErrorEstimate::of_clock(clock::sync_state(), Format::Ntp);
        }
        port.receive(|out, request, arrival, local| {
            let now = tick();
            match reflector.reflect(request, arrival, now, error, &mut answer) {
                // Only sessions that ask when answers left have them stamped, each by itself.
                Ok(r) if r.follow_up && stamps_sent => {
                    if let Some(at) = out.send_stamped(&answer[..r.len], arrival.from, local, r.dscp) {
                        reflector.left(arrival.from, r.ssid, at);
                    }
                }
                Ok(r) => out.send(&answer[..r.len], arrival.from, local, r.dscp),
                Err(why) => out.counters.silent(why),
            }
        });
    }
}

/// Whether a LaMP answer opens a session.
fn opens(answer: &[u8]) -> bool {
    lamp::Header::parse(answer).is_some_and(|h| h.kind == lamp::Kind::Ack)
}

fn serve_lamp(port: &mut Port, rules: lamp::ServerRules, stop: &AtomicBool) {
    let send_stamps = if port.stamps_sent { Source::Kernel } else { Source::User };
    let mut server = lamp::Server::new(lamp::ServerRules { send_stamps, ..rules });
    let mut answer = Vec::with_capacity(LARGEST);
    // The addresses that clients asked: their reports leave from there.
    let mut asked: HashMap<SocketAddr, Local> = HashMap::new();
    let bound = port.bound;
    while !stop.load(Ordering::Relaxed) {
        port.receive(|out, request, arrival, local| {
            answer.clear();
            let dscp = arrival.traffic_class.map_or(0, |c| c >> 2);
            let now = tick();
            let began = now.wall;
            match server.handle(request, arrival, now, &mut answer) {
                Ok(Reaction::Taken) => {}
                Ok(Reaction::Answer) => {
                    if let Some(local) = local.filter(|_| !bound && opens(&answer)) {
                        if asked.len() >= rules.sessions {
                            asked.clear();
                        }
                        asked.insert(arrival.from, local);
                    }
                    out.send(&answer, arrival.from, local, dscp);
                }
                Ok(Reaction::AnswerAndFollow(kind)) => {
                    let leaving = match kind {
                        FollowUp::Kernel => out.send_stamped(&answer, arrival.from, local, dscp),
                        _ => {
                            out.send(&answer, arrival.from, local, dscp);
                            Some(clock::wall())
                        }
                    };
                    let began = if kind == FollowUp::Application { began } else { arrival.at };
                    let Some(h) = lamp::Header::parse(&answer) else { return };
                    answer.clear();
                    server.follow_up(h.id, h.seq, leaving.unwrap_or_else(clock::wall) - began, &mut answer);
                    out.send(&answer, arrival.from, local, dscp);
                }
                Err(why) => out.counters.silent(why),
            }
        });
        answer.clear();
        while let Some(to) = server.poll_transmit(tick(), &mut answer) {
            port.outbox.push(&answer, to, asked.get(&to).copied(), leave(to, 0, false));
            port.outbox.flush(port.socket.as_fd());
            answer.clear();
        }
    }
}

fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&at.into())?;
    socket.listen(64)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn accept(
    listener: &TcpListener,
    connections: usize,
    admission: &Admission,
    stop: &Arc<AtomicBool>,
    counters: &Arc<Counters>,
) {
    let open = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((_, peer)) if !admission.admits(peer.ip()) => counters.silent(Silence::NotAllowed),
            Ok((stream, _)) if open.load(Ordering::Relaxed) < connections => {
                let (stop, counters, count) = (stop.clone(), counters.clone(), open.clone());
                open.fetch_add(1, Ordering::Relaxed);
                let body = move || {
                    let blocking = stream.set_nonblocking(false);
                    let answered = blocking.and_then(|()| request_response::serve(stream, &stop));
                    counters.answered.fetch_add(answered.unwrap_or(0), Ordering::Relaxed);
                    count.fetch_sub(1, Ordering::Relaxed);
                };
                if std::thread::Builder::new().name("response".to_owned()).spawn(body).is_err() {
                    open.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Ok(_) => counters.silent(Silence::Limited),
            Err(_) => std::thread::sleep(NOTICE / 4),
        }
    }
}

mod lamp_raw;
pub mod twamp;

#[cfg(test)]
mod tests;

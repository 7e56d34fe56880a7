//! Finds the routers on a path by probes with small TTLs and the ICMP errors that they cause.
//!
//! Errors are read from a raw socket, because only a raw socket provides the quoted packet. This socket receives every
//! ICMP error sent to this host; errors that do not quote one of this program's probes are ignored.

use crate::clock;
use crate::privilege::{Capability, needs};
use crate::sockets;
use crate::stamp::StampMode;
use crate::sys::{self, Inbox, MAX_BATCH, ReceiveMode};
use crate::twoway::socket;
use jitlat_core::path::{Path, PathEnd};
use jitlat_core::path_history::PathEvent;
use jitlat_core::{Span, SteadyTime, Transport, WallTime};
use jitlat_proto::path::{DueProbe, IcmpFamily, ProbeAnswer, Quotation, TracePlan, Tracer};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of bytes read from an ICMP error; no router quotes more.
const MAX_ERROR_BYTES: usize = 2048;
/// Maximum wait before the stop flag is checked.
const MAX_WAIT: Span = Span::millis(50);
/// Maximum number of batches of errors read before deadlines are checked, so that a flood cannot keep probes
/// from being sent.
const MAX_ROUNDS: usize = 8;

/// Reason why the path cannot be probed.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot trace the path to {to}: {doing}: {source}{}",
    if source.raw_os_error() == Some(libc::EINVAL) {
        "; is there a route from the address or interface of --bind to that host?"
    } else {
        ""
    }
)]
pub struct PathError {
    /// Destination.
    pub to: IpAddr,
    /// Description of the failed operation.
    pub doing: &'static str,
    /// Error of the operating system.
    pub source: io::Error,
}

/// Returns the source address of packets from this host to `to`.
///
/// # Errors
/// [`PathError`] if there is no route.
pub fn source_address(to: SocketAddr, bind: Option<IpAddr>) -> Result<IpAddr, PathError> {
    if let Some(ip) = bind {
        return Ok(ip);
    }
    let look = || {
        let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
        socket.connect(&to.into())?;
        let local = socket.local_addr()?.as_socket();
        local.map(|a| a.ip()).ok_or_else(|| io::Error::other("the kernel reports no address"))
    };
    look().map_err(|source| PathError { to: to.ip(), doing: "looking up the route", source })
}

/// Runs `plan`; passes each probe, answer and completed round to `observer`.
///
/// # Errors
/// [`PathError`], usually because raw sockets are not permitted.
pub fn trace(
    plan: TracePlan,
    stop: &AtomicBool,
    observer: &mut dyn FnMut(&PathEvent<'_>),
) -> Result<Path, PathError> {
    let to = plan.destination;
    let failed = |doing| move |source| PathError { to, doing, source };
    let mut notes = Vec::new();
    let errors =
        IcmpErrors::open(&plan, &mut notes).map_err(failed("opening a raw socket for ICMP errors"))?;
    let probes = Probes::open(&plan, &mut notes).map_err(failed("opening a socket for probes"))?;
    let mut run = TraceRun { tracer: Tracer::new(plan, clock::steady()), errors, probes };
    let mut round = 0;
    while !run.tracer.is_over(clock::steady()) && !stop.load(Ordering::Relaxed) {
        while let Some(due) = run.tracer.poll_probe(clock::steady()) {
            run.send(due, observer).map_err(failed("sending a probe"))?;
        }
        run.wait().map_err(failed("waiting for answers"))?;
        run.read_errors(observer).map_err(failed("reading ICMP errors"))?;
        run.connections(observer);
        if run.tracer.round() > round {
            round = run.tracer.round();
            observer(&PathEvent::Round(round));
        }
        // By the end of the first round, every router that answers at all has answered at least once.
        if round >= 2 {
            run.tracer.forget_silence();
        }
    }
    let mut path = run.tracer.path();
    path.notes = notes;
    Ok(path)
}

struct TraceRun {
    tracer: Tracer,
    errors: IcmpErrors,
    probes: Probes,
}

impl TraceRun {
    fn send(&mut self, due: DueProbe, observer: &mut dyn FnMut(&PathEvent<'_>)) -> io::Result<()> {
        let plan = self.tracer.plan().clone();
        let at = clock::wall();
        // A probe that this host cannot send does not count as sent, because it was not lost on the path.
        match self.probes.send(&plan, due) {
            Ok(()) => observer(&PathEvent::Sent(self.tracer.sent(due, at, clock::steady()))),
            Err(e) if is_passing(&e) => tracing::debug!("probe with time to live {}: {e}", due.ttl),
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<()> {
        let left = (self.tracer.deadline() - clock::steady()).max(Span::ZERO).min(MAX_WAIT);
        let mut ready = vec![PollFd::new(self.errors.socket.as_fd(), PollFlags::POLLIN)];
        ready.extend(self.probes.pending().map(|c| PollFd::new(c.as_fd(), PollFlags::POLLOUT)));
        let millis = u16::try_from(left.0.div_euclid(1_000_000) + 1).unwrap_or(u16::MAX);
        match poll(&mut ready, PollTimeout::from(millis)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn read_errors(&mut self, observer: &mut dyn FnMut(&PathEvent<'_>)) -> io::Result<()> {
        let TraceRun { tracer, errors, probes } = self;
        for _ in 0..MAX_ROUNDS {
            match errors.inbox.receive(errors.socket.as_fd(), ReceiveMode::Queued) {
                Ok(0) => break,
                Ok(_) => {}
                Err(e) if sockets::waits(&e) => break,
                Err(e) => return Err(e),
            }
            let now = clock::steady();
            for datagram in errors.inbox.datagrams() {
                let Some(from) = datagram.sender() else { continue };
                let at = datagram.info().stamp.map_or_else(clock::wall, |s| s.at);
                let message = match errors.family {
                    IcmpFamily::V4 => without_ip_header(datagram.data),
                    IcmpFamily::V6 => datagram.data,
                };
                let Ok(quotation) = Quotation::parse(errors.family, message) else { continue };
                let slot = tracer.slot(&quotation, &probes.ports, |port| probes.slot_of_port(port));
                let Some(slot) = slot else { continue };
                let answer = ProbeAnswer::of_quotation(quotation, from.ip().to_canonical(), at);
                let known = if probes.is_repeated(slot) {
                    tracer.reason(slot, answer)
                } else {
                    tracer.answer(slot, answer, now)
                };
                if let Some((probe, reply)) = known {
                    observer(&PathEvent::Answered(probe, &reply));
                }
                probes.done(slot);
            }
        }
        Ok(())
    }

    /// Checks for connection attempts that the destination has accepted or refused.
    fn connections(&mut self, observer: &mut dyn FnMut(&PathEvent<'_>)) {
        let (destination, now) = (self.tracer.plan().destination, clock::steady());
        for (slot, at) in self.probes.answered(now) {
            let end = Some(PathEnd::Destination);
            let answer = ProbeAnswer { from: destination, at, traffic_class: None, labels: Vec::new(), end };
            if let Some((probe, reply)) = self.tracer.answer(slot, answer, now) {
                observer(&PathEvent::Answered(probe, &reply));
            }
        }
    }
}

/// True if the failure to send a probe is temporary.
fn is_passing(e: &io::Error) -> bool {
    let passing = [libc::ENOBUFS, libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::ENETUNREACH, libc::EAGAIN];
    e.raw_os_error().is_some_and(|code| passing.contains(&code))
}

fn without_ip_header(packet: &[u8]) -> &[u8] {
    // The header length is in the lower half of the first byte, in 32-bit words.
    let length = packet.first().map_or(0, |b| usize::from(b & 0x0f) * 4);
    packet.get(length..).unwrap_or_default()
}

/// Socket that receives ICMP errors.
struct IcmpErrors {
    family: IcmpFamily,
    socket: Socket,
    inbox: Inbox,
}

impl IcmpErrors {
    fn open(plan: &TracePlan, notes: &mut Vec<String>) -> io::Result<IcmpErrors> {
        let (family, domain, protocol) = match plan.destination {
            IpAddr::V4(_) => (IcmpFamily::V4, Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (IcmpFamily::V6, Domain::IPV6, Protocol::ICMPV6),
        };
        let socket = Socket::new(domain, Type::RAW, Some(protocol)).map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => io::Error::new(e.kind(), needs(Capability::NetRaw)),
            _ => e,
        })?;
        sockets::enlarge(&socket);
        socket::stamp(&socket, plan.source, StampMode::Kernel, notes)?;
        socket.set_nonblocking(true)?;
        Ok(IcmpErrors { family, socket, inbox: Inbox::new(MAX_BATCH, MAX_ERROR_BYTES) })
    }
}

/// Sockets that send probes.
enum ProbeSockets {
    /// One socket per flow.
    Udp(Vec<Socket>),
    /// One connection attempt per probe, until the attempt is answered or given up.
    Tcp(Vec<Option<Attempt>>),
}

struct Attempt {
    /// `None` once the attempt is given up. Its port is still known, because a router may report later that the destination
    /// is unreachable.
    socket: Option<Socket>,
    port: u16,
    until: SteadyTime,
    /// True once the kernel has given up the attempt. An ICMP error that caused this also arrives on the raw
    /// socket.
    over: bool,
}

struct Probes {
    sockets: ProbeSockets,
    /// Source port of the UDP probes of each flow.
    ports: Vec<u16>,
    /// Payload of the longest probe.
    padding: Vec<u8>,
}

impl Probes {
    fn open(plan: &TracePlan, notes: &mut Vec<String>) -> io::Result<Probes> {
        let mut ports = Vec::new();
        let sockets = match plan.transport {
            Transport::Udp => {
                let mut flows = Vec::new();
                for flow in 0..plan.flows.max(1) {
                    let socket = bound(plan, Type::DGRAM, Protocol::UDP)?;
                    let marked = sockets::mark(&socket, plan.dscp, plan.mark);
                    notes.extend(marked.err().filter(|_| flow == 0).map(|e| e.to_string()));
                    ports.push(socket.local_addr()?.as_socket().map_or(0, |a| a.port()));
                    flows.push(socket);
                }
                ProbeSockets::Udp(flows)
            }
            Transport::Tcp => ProbeSockets::Tcp((0..jitlat_proto::path::MAX_PROBES).map(|_| None).collect()),
        };
        Ok(Probes { sockets, ports, padding: vec![0; 1024] })
    }

    fn send(&mut self, plan: &TracePlan, due: DueProbe) -> io::Result<()> {
        let to = at(plan, plan.destination, plan.port);
        match &mut self.sockets {
            ProbeSockets::Udp(flows) => {
                let socket = &flows[usize::from(due.flow.saturating_sub(1)) % flows.len()];
                set_ttl(socket, plan, due.ttl)?;
                socket.send_to(&self.padding[..due.payload().into()], &to.into()).map(drop)
            }
            ProbeSockets::Tcp(attempts) => {
                let socket = bound(plan, Type::STREAM, Protocol::TCP)?;
                // If marking fails, this was already reported for the first probe.
                let _ = sockets::mark(&socket, plan.dscp, plan.mark);
                set_ttl(&socket, plan, due.ttl)?;
                socket.set_nonblocking(true)?;
                let port = socket.local_addr()?.as_socket().map_or(0, |a| a.port());
                match socket.connect(&to.into()) {
                    Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => return Err(e),
                    _ => {}
                }
                let until = clock::steady() + plan.timeout;
                // The kernel may assign the port of an attempt that was given up.
                attempts.iter_mut().for_each(|entry| drop(entry.take_if(|attempt| attempt.port == port)));
                if let Some(entry) = attempts.get_mut(usize::from(due.slot)) {
                    *entry = Some(Attempt { socket: Some(socket), port, until, over: false });
                }
                Ok(())
            }
        }
    }

    fn attempts(&self) -> &[Option<Attempt>] {
        match &self.sockets {
            ProbeSockets::Udp(_) => &[],
            ProbeSockets::Tcp(attempts) => attempts,
        }
    }

    fn pending(&self) -> impl Iterator<Item = &Socket> {
        self.attempts().iter().flatten().filter(|a| !a.over).filter_map(|a| a.socket.as_ref())
    }

    fn slot_of_port(&self, port: u16) -> Option<u16> {
        (0..)
            .zip(self.attempts())
            .find(|(_, a)| a.as_ref().is_some_and(|a| a.port == port))
            .map(|(slot, _)| slot)
    }

    /// True if the kernel has sent the probe of `slot` more than once, because a SYN was not answered within its initial
    /// timeout of a second: it is unknown which SYN an answer belongs to, and probably the first was lost.
    fn is_repeated(&self, slot: u16) -> bool {
        let attempt = self.attempts().get(usize::from(slot)).and_then(Option::as_ref);
        attempt.and_then(|attempt| attempt.socket.as_ref()).is_some_and(was_retransmitted)
    }

    /// Marks the probe of `slot` as answered.
    fn done(&mut self, slot: u16) {
        if let ProbeSockets::Tcp(attempts) = &mut self.sockets
            && let Some(entry) = attempts.get_mut(usize::from(slot))
        {
            *entry = None;
        }
    }

    /// Returns the connection attempts that the destination has accepted or refused by `now`, without those that it answered
    /// after a retransmission. Expired attempts are closed.
    fn answered(&mut self, now: SteadyTime) -> Vec<(u16, WallTime)> {
        let ProbeSockets::Tcp(attempts) = &mut self.sockets else { return Vec::new() };
        let mut answered = Vec::new();
        for (slot, entry) in (0..).zip(attempts) {
            let Some(attempt) = entry else { continue };
            let Some(socket) = &attempt.socket else { continue };
            // A socket has a peer address only once its connection is established.
            let accepted = socket.peer_addr().is_ok();
            let error = socket.take_error().ok().flatten();
            let refused = error.as_ref().and_then(io::Error::raw_os_error) == Some(libc::ECONNREFUSED);
            if (accepted || refused) && !was_retransmitted(socket) {
                answered.push((slot, clock::wall()));
            }
            // Another error, such as "host unreachable", comes from a router whose ICMP message is read
            // separately.
            attempt.over |= error.is_some();
            if accepted || refused {
                *entry = None;
            } else if now > attempt.until {
                attempt.socket = None;
            }
        }
        answered
    }
}

/// True if the kernel has retransmitted a segment of `socket`.
fn was_retransmitted(socket: &Socket) -> bool {
    sys::tcp_info(socket.as_fd()).is_ok_and(|info| info.retransmissions > 0)
}

/// Returns a socket address on the link of `plan`.
fn at(plan: &TracePlan, ip: IpAddr, port: u16) -> SocketAddr {
    match ip {
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, plan.scope).into(),
        IpAddr::V4(_) => SocketAddr::new(ip, port),
    }
}

fn bound(plan: &TracePlan, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let local = at(plan, plan.source, 0);
    let socket = Socket::new(Domain::for_address(local), kind, Some(protocol))?;
    socket.bind(&local.into())?;
    Ok(socket)
}

fn set_ttl(socket: &Socket, plan: &TracePlan, ttl: u8) -> io::Result<()> {
    match plan.destination {
        IpAddr::V4(_) => socket.set_ttl_v4(ttl.into()),
        IpAddr::V6(_) => socket.set_unicast_hops_v6(ttl.into()),
    }
}

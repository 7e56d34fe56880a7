//! Answers two-way tests of other hosts. Each protocol has its own file with a [`Reflector`].
//!
//! ```no_run
//! use jitlat_net::reflect::{Reflectors, StampReflector};
//! use jitlat_proto::policy::Policy;
//!
//! let mut reflectors = Reflectors::new(Policy::default())?;
//! reflectors.start(&StampReflector::default(), &["::1".parse().unwrap()]);
//! for (name, address) in reflectors.listening() {
//!     println!("answering {name} on {address}");
//! }
//! // They answer until `reflectors` is dropped.
//! # Ok::<(), std::io::Error>(())
//! ```

mod control;
mod ipsla;
mod irtt;
mod lamp;
#[cfg_attr(not(target_os = "linux"), path = "../elsewhere/lamp_frames.rs")]
mod lamp_frames;
mod owamp;
mod stamp;
mod tcp;
mod twamp;
mod udp;

pub use ipsla::IpslaReflector;
pub use irtt::IrttReflector;
pub use lamp::LampReflector;
pub use lamp_frames::{LampEthernetReflector, LampFrameReflector};
pub use owamp::OwampServer;
pub use stamp::StampReflector;
pub use tcp::TcpResponder;
pub use twamp::TwampServer;

use crate::clock::{self, ClockError};
use crate::privilege::{Capability, needs};
use crate::resolve::local_address;
use crate::sockets;
use crate::sys::{AsFd, LONGEST_WAIT};
use crate::wake::{self, StopSignal};
use jitlat_core::prefix::Prefix;
use jitlat_core::record::Moment;
use jitlat_core::{PacketRecord, Span, Stamp, StampSource, SteadyTime};
use jitlat_proto::accounts::Accounts;
use jitlat_proto::lamp::LampHeader;
use jitlat_proto::lamp::packet::HEADER_LEN;
use jitlat_proto::policy::{Gate, Meters, Networks, Policy, Service};
use jitlat_proto::twoway::reflect::{RequestArrival, Silence};
use socket2::{SockRef, Socket};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Answers the tests of one protocol on one port. New protocols implement this trait.
pub trait Reflector {
    /// Returns the name of the protocol, for example `STAMP`.
    fn name(&self) -> &'static str;

    /// Returns the service whose admission rules apply.
    fn service(&self) -> Service;

    /// True if only clients that prove a key are answered.
    fn authenticates(&self) -> bool {
        false
    }

    /// Returns the addresses to listen on, for a host that serves the addresses `ips`.
    fn addresses(&self, ips: &[IpAddr]) -> Vec<SocketAddr>;

    /// True if the reflector opens packet sockets, which requires `CAP_NET_RAW`.
    fn needs_raw_packets(&self) -> bool {
        false
    }

    /// Opens the socket on `at`, one of the [`addresses`](Self::addresses). Requests are answered while
    /// [`OpenReflector::run`] runs. That function must return once the server stops;
    /// [`ReflectorContext::wait`] waits for packets and for the stop.
    fn open(&self, at: SocketAddr, shared: &ReflectorContext) -> io::Result<OpenReflector>;
}

/// A reflector whose socket is open.
pub struct OpenReflector {
    /// Local address, with the actual port number.
    pub address: SocketAddr,
    /// Answers requests; should be called on a separate thread.
    pub run: Box<dyn FnOnce() + Send>,
}

/// State shared by all reflectors of a server, with the rules of one service. Clones share the state.
#[derive(Clone)]
pub struct ReflectorContext {
    /// Admits clients and their sessions.
    pub(crate) gate: Gate,
    /// Networks allowed for all services, and networks allowed for this service; a client must be in both.
    networks: Arc<[Networks]>,
    /// Rate meters of the answers.
    meters: Meters,
    pub(crate) priority: Option<u32>,
    /// Receiver of the packets of one-way tests; `None`: these packets are not stored.
    pub(crate) packets: Option<SyncSender<OneWayPacket>>,
    pub(crate) counters: Arc<AnswerCounters>,
    pub(crate) stop: StopSignal,
    /// Sockets on which threads wait for packets.
    waited: Arc<Mutex<Vec<UdpSocket>>>,
}

impl ReflectorContext {
    /// True once reflectors must stop.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_requested()
    }

    /// Waits until `socket` can be read, or until `deadline`; returns false once reflectors must stop.
    pub fn wait(&self, socket: &impl AsFd, deadline: Option<SteadyTime>) -> bool {
        wake::wait(&[socket.as_fd(), self.stop.as_fd()], deadline);
        !self.is_stopping()
    }

    /// Makes receive calls on `socket` return once reflectors must stop, so that no separate wait is needed
    /// before each call.
    pub(crate) fn end_waits_on(&self, socket: &Socket) -> io::Result<()> {
        if let Some(longest) = LONGEST_WAIT {
            socket.set_read_timeout(Some(longest))?;
        }
        let socket = socket.try_clone()?.into();
        self.waited.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
        Ok(())
    }

    /// Sets the priority of answers on `socket` and returns it. If this fails, logs the reason.
    pub(crate) fn prefer(&self, socket: &impl AsFd) -> Option<u32> {
        match sockets::prefer(socket, self.priority) {
            Ok(()) => self.priority,
            Err(e) => {
                tracing::warn!("{e}");
                None
            }
        }
    }

    /// True if a LaMP follow-up may be sent to `client`; the follow-up then counts as an answered packet.
    fn may_follow_up(&self, client: SocketAddr) -> bool {
        self.take(client.ip(), HEADER_LEN, clock::steady()).is_ok()
    }

    /// Passes a packet of a one-way LaMP test to the thread that stores one-way tests.
    fn keep(&self, datagram: &[u8], arrival: &RequestArrival, last: bool) {
        if let Some(packets) = &self.packets
            && let Some(packet) = OneWayPacket::of_lamp(datagram, arrival, last)
        {
            // If the queue is full, the packet is not stored, but the report of the test still counts it.
            let _ = packets.try_send(packet);
        }
    }

    /// Returns a context with the rules of `service`.
    fn of(&self, service: Service) -> ReflectorContext {
        let policy = self.gate.policy();
        let own = policy.services.get(service).map(|rules| rules.networks.clone());
        let networks = [policy.networks.clone()].into_iter().chain(own).collect();
        ReflectorContext { networks, meters: self.meters.of(policy, service), ..self.clone() }
    }

    /// True if packets from `address` may be answered.
    pub fn admits(&self, address: IpAddr) -> bool {
        self.networks.iter().all(|networks| networks.admit(address))
    }

    /// Returns the rules of all services.
    pub fn policy(&self) -> &Policy {
        self.gate.policy()
    }

    /// Counts a packet of `bytes` bytes, answered or sent, against the limits of `peer`. If a limit is
    /// reached, returns the time to wait.
    pub fn take(&self, peer: IpAddr, bytes: usize, now: SteadyTime) -> Result<(), Span> {
        self.meters.take(peer, bytes, now)
    }
}

/// A packet of a one-way test that is recorded only on the receiving host.
#[derive(Clone, Copy, Debug)]
pub struct OneWayPacket {
    /// Address of the client.
    pub from: SocketAddr,
    /// Identifier of the test.
    pub id: u16,
    /// True if this is the last packet of the test.
    pub last: bool,
    /// Send and arrival time of the packet, and its sequence number.
    pub record: PacketRecord,
}

impl OneWayPacket {
    /// Parses the LaMP packet `datagram`, which arrived as described by `arrival`; `None` if it is not a LaMP
    /// packet.
    fn of_lamp(datagram: &[u8], arrival: &RequestArrival, last: bool) -> Option<OneWayPacket> {
        let header = LampHeader::parse(datagram)?;
        let mut record = PacketRecord::new(i64::from(header.seq));
        let stamp = |at, source| Stamp { at, source };
        if let Some(at) = header.time() {
            record.set(Moment::Sent, stamp(at, StampSource::User));
        }
        record.set(Moment::Arrived, stamp(arrival.at, StampSource::Kernel));
        record.set_size(u16::try_from(datagram.len()).ok());
        record.set_ttl(arrival.ttl);
        record.set_traffic_class(arrival.traffic_class);
        Some(OneWayPacket { from: arrival.from, id: header.id, last, record })
    }
}

/// Numbers of answered packets and, by reason, of packets without an answer.
#[derive(Debug, Default)]
pub struct AnswerCounters {
    /// Number of answered packets.
    pub answered: AtomicU64,
    /// Number of packets without an answer, by reason ([`Silence`]).
    pub silent: [AtomicU64; Silence::ALL.len()],
}

impl AnswerCounters {
    pub(crate) fn answered(&self, packets: u64) {
        self.answered.fetch_add(packets, Ordering::Relaxed);
    }

    pub(crate) fn silent(&self, why: Silence) {
        self.silent[why as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// A reflector that could not start; the other reflectors are running.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the {name} reflector on {address}: {source}{}", hint(.address, .source))]
pub struct ReflectorError {
    /// Name of the protocol.
    pub name: &'static str,
    /// Address on which the reflector should have listened.
    pub address: SocketAddr,
    /// Error of the operating system.
    pub source: io::Error,
}

fn hint(address: &SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied if address.port() < 1024 => {
            format!(" (a port below 1024 {})", needs(Capability::NetBindService))
        }
        io::ErrorKind::AddrInUse => " (another program uses this port)".to_owned(),
        _ => String::new(),
    }
}

/// Describes `failures`, one line each. Those that only lack a privilege share a line, because an ordinary user who
/// starts every reflector would otherwise get six lines of the same advice.
pub fn describe_failures(failures: &[ReflectorError]) -> Vec<String> {
    let is_privilege =
        |f: &&ReflectorError| f.source.kind() == io::ErrorKind::PermissionDenied && f.address.port() < 1024;
    let (unprivileged, others): (Vec<_>, Vec<_>) = failures.iter().partition(is_privilege);
    let mut lines: Vec<String> = others.iter().map(ToString::to_string).collect();
    let mut names: Vec<String> =
        unprivileged.iter().map(|f| format!("{} (port {})", f.name, f.address.port())).collect();
    // Addresses of the same reflector follow one another.
    names.dedup();
    if !names.is_empty() {
        lines.push(format!(
            "not answering {}: a port below 1024 {}",
            names.join(", "),
            needs(Capability::NetBindService)
        ));
    }
    lines
}

/// Maximum time until a connection's thread notices a stop.
const MAX_WAIT: Span = Span::millis(100);

/// Running reflectors. Dropping this value stops them.
pub struct Reflectors {
    shared: ReflectorContext,
    threads: Vec<JoinHandle<()>>,
    listening: Vec<(&'static str, SocketAddr)>,
    failures: Vec<ReflectorError>,
}

impl Reflectors {
    /// Creates an empty set. Reflectors that are added answer the clients that `policy` allows.
    ///
    /// # Errors
    /// The process has no free descriptors.
    pub fn new(policy: Policy) -> io::Result<Reflectors> {
        Reflectors::sharing(Gate::new(policy))
    }

    /// Like [`new`](Self::new), for reflectors that share `gate` with other services.
    ///
    /// # Errors
    /// The process has no free descriptors.
    pub fn sharing(gate: Gate) -> io::Result<Reflectors> {
        // The hash keys of a new map are random, so they serve as a seed.
        let seed = RandomState::new().hash_one(());
        let shared = ReflectorContext {
            networks: [gate.policy().networks.clone()].into(),
            meters: Meters::new(gate.policy(), seed),
            gate,
            priority: None,
            packets: None,
            counters: Arc::default(),
            stop: StopSignal::new()?,
            waited: Arc::default(),
        };
        Ok(Reflectors { shared, threads: Vec::new(), listening: Vec::new(), failures: Vec::new() })
    }

    /// Sets the priority of answers on this host (`SO_PRIORITY`), for reflectors that are started later.
    pub fn with_priority(mut self, priority: Option<u32>) -> Reflectors {
        self.shared.priority = priority;
        self
    }

    /// Makes reflectors that are started later pass the packets of one-way tests to `packets`; packets are
    /// dropped if the queue is full.
    pub fn with_packets(mut self, packets: Option<SyncSender<OneWayPacket>>) -> Reflectors {
        self.shared.packets = packets;
        self
    }

    /// Starts `reflector` on a host that serves the addresses `ips`. An address that is not available (port
    /// in use, or below 1024 without privilege) is added to the [failures](Reflectors::failures).
    pub fn start(&mut self, reflector: &dyn Reflector, ips: &[IpAddr]) {
        let name = reflector.name();
        let shared = self.shared.of(reflector.service());
        for address in reflector.addresses(ips) {
            let opened = reflector.open(address, &shared).and_then(|opened| {
                let thread = std::thread::Builder::new().name(name.to_lowercase());
                Ok((opened.address, thread.spawn(opened.run)?))
            });
            match opened {
                Ok((bound, thread)) => {
                    self.listening.push((name, bound));
                    self.threads.push(thread);
                }
                Err(source) => self.failures.push(ReflectorError { name, address, source }),
            }
        }
    }

    /// Returns the protocols that are answered, with their addresses.
    pub fn listening(&self) -> &[(&'static str, SocketAddr)] {
        &self.listening
    }

    /// Returns the reflectors that could not start.
    pub fn failures(&self) -> &[ReflectorError] {
        &self.failures
    }

    /// Returns the accounts of the clients, for services that share the limits.
    pub fn accounts(&self) -> Arc<Accounts> {
        self.shared.meters.clients()
    }

    /// Returns the numbers of packets with and without an answer.
    pub fn counters(&self) -> &AnswerCounters {
        &self.shared.counters
    }
}

impl Drop for Reflectors {
    fn drop(&mut self) {
        self.shared.stop.request();
        for socket in self.shared.waited.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // Linux reports that the socket is not connected, but nevertheless ends current and later waits
            // for packets.
            let _ = SockRef::from(&socket).shutdown(Shutdown::Read);
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a reflector's thread panicked");
            }
        }
    }
}

/// Returns the networks of the loopback interface, whose addresses cannot come from another host.
fn loopback() -> impl Iterator<Item = Prefix> {
    let networks = [(Ipv4Addr::LOCALHOST.into(), 8), (Ipv6Addr::LOCALHOST.into(), 128)];
    networks.into_iter().filter_map(|(address, length)| Prefix::new(address, length))
}

/// Combines each of `ips` with `port`.
fn at_port(ips: &[IpAddr], port: u16) -> Vec<SocketAddr> {
    ips.iter().map(|ip| local_address(*ip, port)).collect()
}

#[cfg(test)]
mod tests;

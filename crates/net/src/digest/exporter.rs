//! [`DigestExporter`]: captures packets for collectors on other hosts, with one thread per collector.

use super::{entropy, is_own};
use crate::accept::{Acceptor, ConnectionService, RunningService};
use crate::audit;
use crate::capture::interface::{InterfaceCapture, InterfaceError, InterfaceSettings};
use crate::clock;
use crate::clock::tick;
use crate::sockets;
use crate::wake::StopSignal;
use jitlat_core::prefix::Prefix;
use jitlat_core::time::WallTime;
use jitlat_passive::echo::is_echo;
use jitlat_passive::identity::salted;
use jitlat_passive::packet::decode;
use jitlat_passive::{IpPacket, PacketPreview, PreviewLayer};
use jitlat_proto::Machine;
use jitlat_proto::digest::DigestError;
use jitlat_proto::digest::{
    CaptureTotals, Digest, DigestRefusal, DigestRule, Exporter, ExporterEvent, ExporterInput,
};
use jitlat_proto::policy::{self, Ask, DIGESTS, Gate, Grant, Policy, Service};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::info;

/// Timeout for a connection to prove its key and request a capture.
const INTRODUCTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time before an idle thread checks its connection.
const MAX_WAIT: Duration = Duration::from_millis(10);
/// Maximum number of packets taken from the kernel between two checks of the connection; the last batch may
/// exceed it.
const MAX_PACKETS: usize = 1024;
/// Memory that a capture may use, in bytes: the kernel's ring, and digests waiting to be sent.
const CAPTURE_MEMORY: u64 = 16 << 20;
/// Maximum number of bytes waiting to be sent; above it, no digests are created.
const MAX_OUTGOING: usize = 1 << 17;

/// Settings of a digest service.
#[derive(Clone, Debug)]
pub struct DigestExporter {
    /// Interfaces on which collectors may capture.
    pub interfaces: Vec<String>,
    /// Accepted keys; a collector must prove that it has one of them. Empty: no key is required.
    pub keys: crate::SharedKeys,
    /// Maximum number of digests per second sent to one collector.
    pub rate: u32,
    /// Settings of captures on the interfaces.
    pub settings: InterfaceSettings,
}

/// Reason why the service cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExporterError {
    /// Packets cannot be captured on an interface.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The service cannot listen on a port.
    #[error("cannot listen for collectors on {address}: {source}")]
    Bind {
        /// Address on which listening failed.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The system has no more threads or descriptors.
    #[error("cannot start the digest service: {0}")]
    Start(#[from] io::Error),
}

impl DigestExporter {
    /// Listens for collectors at `addresses`, with the default policy.
    pub fn serve(self, addresses: &[SocketAddr]) -> Result<RunningService, ExporterError> {
        self.serve_sharing(addresses, Gate::new(Policy::default()))
    }

    /// Listens for collectors at `addresses`, and shares `gate` with other services. A connection becomes a
    /// session once its collector has proved a key and requested an interface.
    pub fn serve_sharing(
        self,
        addresses: &[SocketAddr],
        gate: Gate,
    ) -> Result<RunningService, ExporterError> {
        self.serve_with_timeouts(addresses, gate, INTRODUCTION_TIMEOUT)
    }

    /// Like [`Self::serve_sharing`], but with the timeout `introduction` for a connection to request a capture.
    fn serve_with_timeouts(
        self,
        addresses: &[SocketAddr],
        gate: Gate,
        introduction: Duration,
    ) -> Result<RunningService, ExporterError> {
        for interface in &self.interfaces {
            // Check now that capturing works, instead of failing when a collector requests it.
            drop(InterfaceCapture::open(interface, self.settings)?);
        }
        let bind = |(address, source)| ExporterError::Bind { address, source };
        let stop = StopSignal::new()?;
        let acceptor = Acceptor::bind(addresses, gate.clone(), stop.clone()).map_err(bind)?;
        let serving = DigestConnections { service: self, stop, gate, introduction };
        Ok(acceptor.start(Arc::new(serving))?)
    }
}

/// State shared by all connections.
struct DigestConnections {
    service: DigestExporter,
    stop: StopSignal,
    gate: Gate,
    introduction: Duration,
}

impl ConnectionService for DigestConnections {
    fn name(&self) -> &'static str {
        "digests"
    }

    fn service(&self) -> Service {
        DIGESTS
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, grant: &Grant) {
        if let Err(why) = DigestConversation::begin(stream, self, peer, grant).and_then(|mut c| c.run()) {
            info!(%peer, "digests ended: {why}");
        }
    }

    fn turn_away(&self, mut stream: &TcpStream, _peer: SocketAddr, why: &policy::PolicyRefusal) {
        // If the message cannot be sent, the collector does not get the reason.
        let _ = stream.write(&Exporter::turn_away(DigestRefusal::Busy, &why.to_string()));
    }
}

/// Conversation with one collector.
struct DigestConversation<'a> {
    shared: &'a DigestConnections,
    peer: SocketAddr,
    grant: &'a Grant,
    stream: TcpStream,
    exporter: Exporter,
    port: u16,
    began: Instant,
    out: Vec<u8>,
    written: usize,
    buffer: Vec<u8>,
    capture: Option<Capturing>,
}

struct Capturing {
    live: InterfaceCapture,
    began: WallTime,
    available: usize,
    opens_tunnels: bool,
    salt: u64,
    rule: Option<DigestRule>,
    _session: Grant,
}

impl DigestConversation<'_> {
    fn begin<'a>(
        stream: TcpStream,
        shared: &'a DigestConnections,
        peer: SocketAddr,
        grant: &'a Grant,
    ) -> io::Result<DigestConversation<'a>> {
        stream.set_nodelay(true)?;
        sockets::notice_absence(&stream);
        stream.set_nonblocking(true)?;
        let port = stream.local_addr()?.port();
        let exporter = Exporter::new(shared.service.keys.current(), shared.service.rate, entropy()?, tick());
        Ok(DigestConversation {
            shared,
            peer,
            grant,
            stream,
            exporter,
            port,
            began: Instant::now(),
            out: Vec::new(),
            written: 0,
            buffer: vec![0; 1 << 14],
            capture: None,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let peer = self.peer;
        let mut ending = false;
        loop {
            if self.shared.stop.is_requested() && !ending {
                ending = true;
                self.exporter.handle(tick(), ExporterInput::End(vec!["the server was stopped".to_owned()]));
                if self.capture.is_none() {
                    return Ok(());
                }
            }
            if self.grant.is_evicted() {
                return Err(io::Error::other("closed while idle, to make room for others"));
            }
            let longest = self.shared.gate.policy().duration(DIGESTS);
            if longest.is_some_and(|longest| self.began.elapsed().as_nanos() as i64 > longest.0) {
                return Err(io::Error::new(ErrorKind::TimedOut, "the time limit for digests was reached"));
            }
            if self.capture.is_none() && self.began.elapsed() > self.shared.introduction {
                return Err(io::Error::new(ErrorKind::TimedOut, "no request arrived in time"));
            }
            self.read()?;
            self.exporter.handle_timeout(tick());
            while let Some(event) = self.exporter.poll_event() {
                match event {
                    ExporterEvent::Proved(name) => {
                        self.shared.gate.right_key(peer.ip());
                        self.grant.set_proven();
                        audit::accepted(DIGESTS, peer, format_args!("the key of {name}"));
                    }
                    ExporterEvent::Listen(ask, salt) => match self.open(&ask, salt) {
                        Ok(interface) => {
                            audit::accepted(DIGESTS, peer, format_args!("digests at {interface}"));
                            self.grant.set_busy();
                            self.exporter.handle(tick(), ExporterInput::Listening(interface));
                        }
                        Err((why, message)) => {
                            audit::refused(DIGESTS, peer, &message);
                            self.exporter.handle(tick(), ExporterInput::Refuse(why, message));
                        }
                    },
                    ExporterEvent::Rule(rule) => self.follow(rule),
                    ExporterEvent::Stop => {
                        if let Some(c) = &self.capture {
                            c.live.settle();
                        }
                        let _ = self.capture();
                        self.exporter.handle(tick(), ExporterInput::End(self.notes()));
                    }
                    ExporterEvent::Over(why) => {
                        if why == Some(DigestError::Proof) {
                            audit::wrong_key(&self.shared.gate, DIGESTS, peer);
                        }
                        // All messages, including the last ones, have been sent.
                        return why.map_or(Ok(()), |why| Err(io::Error::other(why)));
                    }
                }
            }
            if let Some(trouble) = self.capture() {
                self.exporter.handle(tick(), ExporterInput::End(vec![trouble]));
            }
            self.write()?;
        }
    }

    fn read(&mut self) -> io::Result<()> {
        loop {
            match self.stream.read(&mut self.buffer) {
                Ok(0) => self.exporter.handle(tick(), ExporterInput::Closed),
                Ok(n) => {
                    self.exporter.handle(tick(), ExporterInput::Bytes(&self.buffer[..n]));
                    if n == self.buffer.len() {
                        continue;
                    }
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(e) => return Err(e),
            }
            return Ok(());
        }
    }

    fn write(&mut self) -> io::Result<()> {
        while self.out.len() < MAX_OUTGOING && self.exporter.poll_transmit(tick(), &mut self.out) {}
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // The socket's buffer is full: digests wait, up to a limit.
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    fn open(
        &mut self,
        ask: &jitlat_proto::digest::Listen,
        salt: u64,
    ) -> Result<String, (DigestRefusal, String)> {
        let service = &self.shared.service;
        let resources = Ask::session(CAPTURE_MEMORY).proven(!service.keys.is_empty());
        let session = self
            .shared
            .gate
            .admit(DIGESTS, self.peer.ip(), resources, clock::steady())
            .map_err(|e| (DigestRefusal::Busy, e.to_string()))?;
        session.set_busy();
        let allowed = service.interfaces.iter().find(|i| ask.interface.is_empty() || **i == ask.interface);
        let Some(interface) = allowed else {
            let offered = service.interfaces.join(", ");
            return Err((
                DigestRefusal::Interface,
                format!("'{}' is not offered; offered: {offered}", ask.interface),
            ));
        };
        let live = InterfaceCapture::open(interface, service.settings)
            .and_then(|live| live.limit_to(&ask.hosts).map(|()| live))
            .map_err(|e| (DigestRefusal::Failed, e.to_string()))?;
        self.capture = Some(Capturing {
            live,
            began: clock::wall(),
            available: ask.available.into(),
            opens_tunnels: ask.opens_tunnels,
            salt,
            rule: None,
            _session: session,
        });
        Ok(interface.clone())
    }

    fn follow(&mut self, rule: DigestRule) {
        let Some(c) = &mut self.capture else { return };
        // The addresses of packets inside tunnels differ from those of the tunnels.
        let hosts: Vec<Prefix> = match rule.inside {
            true => Vec::new(),
            false => rule.sides.reference.iter().chain(&rule.sides.monitor).copied().collect(),
        };
        // If the kernel cannot filter, this thread does.
        let _ = c.live.limit_to(&hosts);
        c.began = clock::wall();
        c.rule = Some(rule);
    }

    fn notes(&self) -> Vec<String> {
        let Some(c) = &self.capture else { return Vec::new() };
        let downs = c.live.downs();
        let times = if downs == 1 { "once".to_owned() } else { format!("{downs} times") };
        let down = (downs > 0).then(|| format!("{} went down {times}", c.live.interface()));
        down.into_iter().collect()
    }

    /// Processes captured packets; waits briefly if there are none. Returns the reason if the capture has
    /// ended.
    fn capture(&mut self) -> Option<String> {
        let Some(c) = &mut self.capture else {
            std::thread::sleep(MAX_WAIT);
            return None;
        };
        let Capturing { live, began, available, opens_tunnels, salt, rule, .. } = c;
        let (exporter, port) = (&mut self.exporter, self.port);
        let mut all = 0;
        while all < MAX_PACKETS {
            let before = clock::wall();
            let timeout = if all == 0 { MAX_WAIT } else { Duration::ZERO };
            let polled = live.poll(timeout, |f| {
                let Ok(p) = decode(f.link, f.data, f.wire_length) else { return };
                if is_own(&p, port) {
                    return;
                }
                match rule {
                    None => previews(&p, f.at, (*available, *opens_tunnels))
                        .map(|g| PacketPreview { names: g.names.map(|n| salted(n, *salt)), ..g })
                        .for_each(|g| exporter.preview(g)),
                    Some(rule) => {
                        if let Some(d) = digest(rule, &p, f.at, *salt).filter(|d| d.at >= *began) {
                            exporter.digest(d);
                        }
                    }
                }
            });
            match polled {
                Ok(0) => {
                    let totals = CaptureTotals { frames: live.frames(), drops: live.drops() };
                    exporter.covers(*began, (before - live.delay()).max(*began), totals);
                    return None;
                }
                Ok(taken) => all += taken,
                Err(e) => {
                    let message = e.to_string();
                    self.capture = None;
                    return Some(message);
                }
            }
        }
        None
    }
}

/// Returns the preview of a packet and, if `opens_tunnels`, the preview of the packet inside it. `available` is the
/// number of bytes on which names depend.
fn previews(
    p: &IpPacket<'_>,
    at: WallTime,
    (available, opens_tunnels): (usize, bool),
) -> impl Iterator<Item = PacketPreview> {
    let inner = if opens_tunnels { p.inside().map(IpPacket::innermost) } else { None };
    let layer = if inner.is_some() { PreviewLayer::Tunnel } else { PreviewLayer::Plain };
    let outer = PacketPreview::of(p, at, available).map(|g| PacketPreview { layer, ..g });
    let inside = inner.and_then(|inner| PacketPreview::of(&inner, at, available));
    outer.into_iter().chain(inside.map(|g| PacketPreview { layer: PreviewLayer::Inside, ..g }))
}

fn digest(rule: &DigestRule, p: &IpPacket<'_>, at: WallTime, salt: u64) -> Option<Digest> {
    let p = &if rule.inside { p.innermost() } else { *p };
    let direction = rule.sides.direction(p)?;
    let protocol = rule.protocols.is_empty() || rule.protocols.contains(&p.protocol);
    let port = rule.port.is_none_or(|x| p.ports().is_some_and(|(a, b)| a == x || b == x));
    if !protocol || !port || rule.without_echoes && is_echo(p) {
        return None;
    }
    let id = salted(rule.identity.identify(p, Some(direction))?, salt);
    Some(Digest { at, id, length: p.length, direction })
}

#[cfg(test)]
mod tests;

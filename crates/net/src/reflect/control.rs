//! [`ControlConnection`]: code shared by the control connections of OWAMP and TWAMP servers.

use super::{MAX_WAIT, OpenReflector, ReflectorContext};
use crate::accept::{Acceptor, ConnectionService, Listener};
use crate::audit;
use crate::clock::{self, tick};
use crate::drive::Conversing;
use crate::random;
use crate::sockets::{self, TimeoutStream};
use crate::sys::{AsFd, ReadySet};
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::amp::{AcceptCode, ServerRandom};
use jitlat_proto::policy::{Ask, Grant, Service};
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of a write: either a message, which fits into any socket's buffer, or 16 kB of fetched data.
const WRITE_LIMIT: Duration = Duration::from_secs(5);
/// Identifier of the control connection in the set of descriptors.
const CONTROL: u64 = 0;
/// First identifier in the set of descriptors for descriptors other than the control connection.
pub(super) const FIRST_OTHER: u64 = 1;
/// Number of bytes read per call.
const READ_BUFFER: usize = 4096;

/// Listens on `at`; the service returned by `make` serves the connections.
pub(super) fn listen<S: ConnectionService>(
    at: SocketAddr,
    shared: &ReflectorContext,
    make: impl FnOnce(&Acceptor) -> S,
) -> io::Result<OpenReflector> {
    let listener = Listener::bind(at)?;
    let address = listener.local_addr()?;
    let acceptor = Acceptor::new(vec![listener], shared.gate.clone(), shared.stop.clone())?;
    let service = Arc::new(make(&acceptor));
    Ok(OpenReflector { address, run: Box::new(move || acceptor.run(&service)) })
}

/// A control connection, with the state machine of its protocol.
pub(super) struct ControlConnection<'a, M> {
    pub machine: M,
    pub shared: &'a ReflectorContext,
    pub peer: SocketAddr,
    /// Local address, including the scope of a link-local address.
    pub local: SocketAddr,
    pub grant: &'a Grant,
    service: Service,
    stream: TcpStream,
    /// Time at which the duration granted by the policy ends.
    ends: SteadyTime,
    ready: ReadySet,
}

impl<'a, M: Conversing> ControlConnection<'a, M> {
    /// Starts the conversation; `make` creates the state machine, given this host's address.
    pub fn new(
        (stream, peer): (TcpStream, SocketAddr),
        shared: &'a ReflectorContext,
        service: Service,
        grant: &'a Grant,
        make: impl FnOnce(SocketAddr, ServerRandom) -> M,
    ) -> io::Result<ControlConnection<'a, M>> {
        stream.set_nodelay(true)?;
        sockets::notice_absence(&stream);
        stream.set_nonblocking(false)?;
        let local = stream.local_addr()?;
        let mut bytes = [0; 52];
        random::fill(&mut bytes)?;
        let ready = ReadySet::new()?;
        ready.add(&stream, CONTROL)?;
        let longest = shared.policy().duration(service);
        Ok(ControlConnection {
            machine: make(local, ServerRandom::new(bytes)),
            shared,
            peer,
            local,
            grant,
            service,
            stream,
            ends: longest.map_or(SteadyTime(i64::MAX), |longest| clock::steady() + longest),
            ready,
        })
    }

    /// Passes an input to the state machine, with the current time.
    pub fn handle(&mut self, input: M::Input<'_>) {
        self.machine.handle(tick(), input);
    }

    /// Writes the next message of the state machine; returns false if there is none.
    pub fn write_next(&mut self) -> bool {
        let mut out = Vec::new();
        if !self.machine.poll_transmit(tick(), &mut out) {
            return false;
        }
        let peer = TimeoutStream::new(&self.stream, || self.shared.is_stopping());
        if peer.and_then(|peer| peer.write_all(&out, WRITE_LIMIT)).is_err() {
            self.handle(M::closed(None));
        }
        true
    }

    /// Returns true, and informs the state machine, if the duration granted by the policy is over.
    pub fn is_expired(&mut self) -> bool {
        let expired = clock::steady() >= self.ends;
        if expired {
            self.handle(M::closed(None));
        }
        expired
    }

    /// Adds `descriptor` to the set of descriptors, under an identifier of at least [`FIRST_OTHER`]. The descriptor is
    /// reported whenever it is ready, until it is closed.
    pub fn watch(&self, descriptor: &impl AsFd, id: u64) -> io::Result<()> {
        self.ready.add(descriptor, id)
    }

    /// Waits for a descriptor, `deadline`, or the state machine's timer, at most a tenth of a second. Returns
    /// the identifiers of the ready descriptors.
    pub fn wait(
        &mut self,
        deadline: Option<SteadyTime>,
    ) -> io::Result<impl Iterator<Item = u64> + Clone + use<M>> {
        let deadline = deadline.into_iter().chain(self.machine.poll_timeout()).min();
        let left = deadline.map_or(MAX_WAIT, |deadline| deadline - clock::steady());
        // Rounded up to whole milliseconds, so that waiting for a deadline is not a busy loop.
        let ms = left.clamp(Span::ZERO, MAX_WAIT).0.unsigned_abs().div_ceil(1_000_000) as u16;
        self.ready.wait(ms)
    }

    /// Reads from the connection if it is among the `ready` descriptors.
    pub fn read(&mut self, mut ready: impl Iterator<Item = u64>) {
        if !ready.any(|id| id == CONTROL) {
            return;
        }
        let mut buffer = [0; READ_BUFFER];
        match self.stream.read(&mut buffer) {
            Ok(n) if n > 0 => {
                self.grant.touch(clock::steady());
                self.handle(M::received(&buffer[..n]));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            _ => self.handle(M::closed(None)),
        }
    }

    /// Closes both directions of the connection while sessions continue, so that the client sees the end without
    /// waiting for the last packets of the sessions.
    pub fn hang_up(&self) {
        // A closed connection stays readable, and would end every wait at once.
        self.ready.remove(&self.stream);
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Closes only the sending direction. If the connection were closed with unread input, it would be reset before the
    /// client has read the end.
    pub fn finish(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Admits a session that needs the resources `ask`. If users are configured, the client must already have
    /// `proven` a passphrase.
    pub fn admit(&self, ask: Ask, proven: bool) -> Result<Grant, AcceptCode> {
        let gate = &self.shared.gate;
        let grant =
            gate.admit(self.service, self.peer.ip(), ask.proven(proven), clock::steady()).map_err(|why| {
                audit::refused(self.service, self.peer, why);
                AcceptCode::Temporary
            })?;
        if proven {
            gate.right_key(self.peer.ip());
            self.grant.set_proven();
        }
        Ok(grant)
    }

    /// Records that the client used a wrong passphrase.
    pub fn denied(&self) {
        audit::wrong_key(&self.shared.gate, self.service, self.peer);
    }

    /// Binds a session's socket to the local address of the connection: on the port `asked` if it is free and in
    /// `ports`, otherwise on another port in `ports`. If `ports` is `None`, every port is allowed, and the system
    /// chooses the other port.
    pub fn bind<T>(
        &self,
        ports: Option<&RangeInclusive<u16>>,
        asked: Option<u16>,
        bind: impl Fn(SocketAddr) -> io::Result<T>,
    ) -> io::Result<T> {
        let at = |port| {
            let mut at = self.local;
            at.set_port(port);
            bind(at)
        };
        match ports {
            None => asked.map_or_else(|| at(0), |port| at(port).or_else(|_| at(0))),
            Some(ports) => {
                let asked = asked.filter(|port| ports.contains(port));
                let bound = asked.into_iter().chain(ports.clone()).find_map(|port| at(port).ok());
                bound.ok_or_else(|| io::ErrorKind::AddrInUse.into())
            }
        }
    }
}

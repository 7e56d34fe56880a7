//! Accepts TCP connections in the same way for all services: one accept loop, one rule for admitting and refusing
//! clients.
//!
//! A [`Listener`] accepts connections and pauses while the system has no free descriptors. An [`Acceptor`]
//! runs a [`ConnectionService`] on its listeners, with one thread for each connection that the [`Gate`]
//! admits.

use crate::clock::steady;
use crate::sys::{AsFd, BorrowedFd};
use crate::wake::{self, StopSignal, Waker};
use crate::{audit, sockets};
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::policy::{Ask, Gate, Grant, OnEviction, PolicyRefusal, Service};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pauses after failures to accept: each failure doubles the pause, a success resets it.
#[derive(Debug, Default)]
struct AcceptBackOff {
    until: Option<SteadyTime>,
    pause: Span,
}

impl AcceptBackOff {
    const FIRST: Span = Span::millis(10);
    const LONGEST: Span = Span::seconds(1);

    fn failed(&mut self, now: SteadyTime) {
        self.pause = self.pause.times(2).clamp(AcceptBackOff::FIRST, AcceptBackOff::LONGEST);
        self.until = Some(now + self.pause);
    }

    /// Returns the end of the pause that is in progress at `now`; `None` if there is no such pause.
    fn end(&self, now: SteadyTime) -> Option<SteadyTime> {
        self.until.filter(|until| *until > now)
    }
}

/// A listening socket. It pauses when accepting fails because no descriptors or memory are free: the connection stays
/// in the queue, so polling again would return immediately.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    back_off: Mutex<AcceptBackOff>,
}

impl Listener {
    /// Listens on `local`. With port 0, the system chooses the port.
    pub fn bind(local: SocketAddr) -> io::Result<Listener> {
        Ok(Listener { socket: sockets::listen_tcp(local)?, back_off: Mutex::default() })
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns the descriptor to poll for connections; `None` during a pause.
    pub(crate) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.pause_end().is_none().then(|| self.socket.as_fd())
    }

    /// Returns the time at which to accept again; `None` if no pause is in progress.
    pub fn pause_end(&self) -> Option<SteadyTime> {
        lock(&self.back_off).end(steady())
    }

    /// Returns the next connection in the queue; `None` if the queue is empty or a pause is in progress.
    pub fn accept(&self) -> Option<(TcpStream, SocketAddr)> {
        if self.pause_end().is_some() {
            return None;
        }
        loop {
            match self.socket.accept() {
                Ok(accepted) => {
                    *lock(&self.back_off) = AcceptBackOff::default();
                    return Some(accepted);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                // These errors concern a single connection that no longer exists; the next one may succeed.
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {}
                Err(e) => {
                    let mut back_off = lock(&self.back_off);
                    // Logged once per series of failures, not at every retry.
                    if back_off.pause == Span::ZERO {
                        tracing::warn!(error = %e, listener = ?self.local_addr().ok(), "cannot accept connections for now");
                    }
                    back_off.failed(steady());
                    return None;
                }
            }
        }
    }
}

/// A service that runs one control connection per client.
pub(crate) trait ConnectionService: Send + Sync + 'static {
    /// Returns the name of the service's threads, also used in messages.
    fn name(&self) -> &'static str;

    /// Returns the service whose admission rules apply.
    fn service(&self) -> Service;

    /// Serves `peer` on a separate thread until the connection ends or the grant is evicted. Reads and writes
    /// on the stream block.
    fn serve(&self, stream: TcpStream, peer: SocketAddr, grant: &Grant);

    /// Sends `peer` the reason for the refusal, if the protocol has a message for it. The stream does not
    /// block, so the message must be short enough to fit into the socket's buffer.
    fn turn_away(&self, _stream: &TcpStream, _peer: SocketAddr, _why: &PolicyRefusal) {}

    /// Frees resources that have expired at `now`; returns the time of the next expiry, or `None`. Called after every
    /// wait, which ends with a new connection, the end of a connection, an eviction by the [`Gate`], a wake-up through
    /// [`Acceptor::waker`], or at the time that the last call returned.
    fn expire(&self, _now: SteadyTime) -> Option<SteadyTime> {
        None
    }
}

/// Maximum number of refused connections that stay open, each for [`LEAVING_TIME`]. Closing one with unread bytes
/// from the client would reset it, and the client would not get the reason.
const MAX_LEAVING: usize = 32;
/// Time for a refused client to read the reason before its connection is closed.
const LEAVING_TIME: Span = Span::seconds(2);
/// Maximum number of connections accepted from one listener before the other listeners are checked.
const MAX_ACCEPTED: usize = 64;

/// A running service. Dropping it ends the service.
#[derive(Debug)]
pub struct RunningService {
    name: &'static str,
    stop: StopSignal,
    thread: Option<JoinHandle<()>>,
    addresses: Vec<SocketAddr>,
}

impl RunningService {
    /// Returns the addresses that the service listens on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Drop for RunningService {
    fn drop(&mut self) {
        self.stop.request();
        if self.thread.take().is_some_and(|t| t.join().is_err()) {
            tracing::error!(service = self.name, "the thread that accepts connections panicked");
        }
    }
}

/// Accepts the connections of one service.
pub(crate) struct Acceptor {
    listeners: Vec<Listener>,
    gate: Gate,
    stop: StopSignal,
    ended: Arc<EndedThreads>,
    _on_eviction: OnEviction,
}

/// Numbers of connection threads that have ended, and the waker that notifies the acceptor of them.
struct EndedThreads {
    numbers: Mutex<Vec<u64>>,
    waker: Waker,
}

/// Reports the end of a thread when this value is dropped.
struct ThreadEndGuard(u64, Arc<EndedThreads>);

impl Drop for ThreadEndGuard {
    fn drop(&mut self) {
        lock(&self.1.numbers).push(self.0);
        self.1.waker.wake();
    }
}

impl Acceptor {
    /// Creates an acceptor for the clients on `listeners` that `gate` admits; runs until `stop`.
    ///
    /// # Errors
    /// The process has no free descriptors.
    pub(crate) fn new(listeners: Vec<Listener>, gate: Gate, stop: StopSignal) -> io::Result<Acceptor> {
        let waker = Waker::new()?;
        let woken = waker.clone();
        let on_eviction: OnEviction = Arc::new(move || woken.wake());
        gate.notify_of_evictions(&on_eviction);
        let ended = Arc::new(EndedThreads { numbers: Mutex::default(), waker });
        Ok(Acceptor { listeners, gate, stop, ended, _on_eviction: on_eviction })
    }

    /// Listens on all `addresses`.
    ///
    /// # Errors
    /// The first address on which listening fails, with the reason.
    pub fn bind(
        addresses: &[SocketAddr],
        gate: Gate,
        stop: StopSignal,
    ) -> Result<Acceptor, (SocketAddr, io::Error)> {
        let listen = |&address: &SocketAddr| Listener::bind(address).map_err(|e| (address, e));
        let listeners = addresses.iter().map(listen).collect::<Result<_, _>>()?;
        let first = addresses.first().copied().unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into());
        Acceptor::new(listeners, gate, stop).map_err(|e| (first, e))
    }

    /// Returns the addresses that the service listens on.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|l| l.local_addr().ok()).collect()
    }

    /// Returns a waker that makes the acceptor call [`ConnectionService::expire`] again.
    pub(crate) fn waker(&self) -> Waker {
        self.ended.waker.clone()
    }

    /// Starts serving on a separate thread. Dropping the returned [`RunningService`] requests a stop and
    /// waits for that thread.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn start<S: ConnectionService>(self, service: Arc<S>) -> io::Result<RunningService> {
        let (name, addresses, stop) = (service.name(), self.addresses(), self.stop.clone());
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || self.run(&service))?;
        Ok(RunningService { name, stop, thread: Some(thread), addresses })
    }

    /// Serves until a stop is requested, then waits for the service's threads, which receive the same
    /// request.
    pub fn run<S: ConnectionService>(mut self, service: &Arc<S>) {
        let mut threads = HashMap::new();
        let mut number = 0;
        let mut leaving: VecDeque<(SteadyTime, TcpStream)> = VecDeque::new();
        let mut expires = service.expire(steady());
        while !self.stop.is_requested() {
            self.wait(leaving.front().map(|(until, _)| *until).into_iter().chain(expires).min());
            for listener in &self.listeners {
                for _ in 0..MAX_ACCEPTED {
                    let Some((stream, peer)) = listener.accept() else { break };
                    number += 1;
                    let reports_end = ThreadEndGuard(number, Arc::clone(&self.ended));
                    match admit(service, &self.gate, stream, peer, reports_end) {
                        Admitted::Served(thread) => drop(threads.insert(number, thread)),
                        Admitted::TurnedAway(stream) => leaving.push_back((steady() + LEAVING_TIME, stream)),
                        Admitted::Dropped => {}
                    }
                }
                if listener.pause_end().is_some() {
                    // Descriptors are scarce, so close refused connections: served clients need the
                    // descriptors more.
                    leaving.clear();
                }
            }
            let now = steady();
            while leaving.len() > MAX_LEAVING || leaving.front().is_some_and(|(until, _)| *until <= now) {
                leaving.pop_front();
            }
            for ended in std::mem::take(&mut *lock(&self.ended.numbers)) {
                threads.remove(&ended).into_iter().for_each(|t| join(service.name(), t));
            }
            expires = service.expire(now);
        }
        // Close the listeners at once, so that no new client waits for an answer.
        self.listeners.clear();
        threads.into_values().for_each(|t| join(service.name(), t));
    }

    /// Waits for a connection, the waker, a stop, or `deadline` (`None`: no deadline).
    fn wait(&self, deadline: Option<SteadyTime>) {
        let again = self.listeners.iter().filter_map(Listener::pause_end).min();
        let mut readable = vec![self.stop.as_fd(), self.ended.waker.as_fd()];
        readable.extend(self.listeners.iter().filter_map(Listener::poll_fd));
        // The reason for waking does not matter, because all listeners are tried.
        wake::wait(&readable, deadline.into_iter().chain(again).min());
        self.ended.waker.clear();
    }
}

/// Result of admitting a connection.
enum Admitted {
    Served(JoinHandle<()>),
    TurnedAway(TcpStream),
    Dropped,
}

fn admit<S: ConnectionService>(
    service: &Arc<S>,
    gate: &Gate,
    stream: TcpStream,
    peer: SocketAddr,
    reports_end: ThreadEndGuard,
) -> Admitted {
    let grant = match gate.admit(service.service(), peer.ip(), Ask::CONNECTION, steady()) {
        Ok(grant) => grant,
        Err(why) => {
            audit::refused(service.service(), peer, &why);
            // A client that does not read must not block the thread that accepts connections.
            if stream.set_nonblocking(true).is_ok() {
                service.turn_away(&stream, peer, &why);
                // Only this direction: closing the connection with unread input would reset it before the
                // client has read the reason.
                let _ = stream.shutdown(Shutdown::Write);
            }
            return Admitted::TurnedAway(stream);
        }
    };
    let serving = Arc::clone(service);
    let serve = move || {
        let _reports_end = reports_end;
        serving.serve(stream, peer, &grant);
        // Release the grant before waking the acceptor, so that the acceptor sees the free capacity.
        drop(grant);
    };
    match std::thread::Builder::new().name(service.name().to_owned()).spawn(serve) {
        Ok(thread) => Admitted::Served(thread),
        Err(e) => {
            tracing::warn!(%peer, error = %e, "{}: cannot start a thread for another connection", service.name());
            Admitted::Dropped
        }
    }
}

fn join(service: &str, thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("{service}: a connection's thread panicked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_proto::policy::Policy;
    use std::io::{Read, Write};
    use std::time::{Duration, Instant};

    const LIMIT: Duration = Duration::from_secs(20);

    const ECHO: Service = "echo";

    fn gate(total: usize, per_client: usize) -> Gate {
        let mut policy = Policy::default();
        policy.service(ECHO).total.connections = Some(total);
        policy.service(ECHO).client.connections = Some(per_client);
        Gate::new(policy)
    }

    #[test]
    fn pauses_double_up_to_a_second_and_end_with_success() {
        let mut back_off = AcceptBackOff::default();
        let now = steady();
        assert_eq!(back_off.end(now), None);
        let pauses: Vec<_> = (0..9)
            .map(|_| {
                back_off.failed(now);
                back_off.end(now).unwrap() - now
            })
            .collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000].map(Span::millis));
        assert_eq!(back_off.end(now + AcceptBackOff::LONGEST), None);
    }

    /// Echoes until the client closes or the server stops.
    struct Echo {
        stop: StopSignal,
    }

    impl ConnectionService for Echo {
        fn name(&self) -> &'static str {
            "echo"
        }

        fn service(&self) -> Service {
            ECHO
        }

        fn serve(&self, mut stream: TcpStream, _peer: SocketAddr, grant: &Grant) {
            stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let mut bytes = [0; 16];
            while !self.stop.is_requested() && !grant.is_evicted() {
                match stream.read(&mut bytes) {
                    Ok(0) => return,
                    Ok(n) => stream.write_all(&bytes[..n]).unwrap(),
                    Err(_) => {}
                }
            }
        }

        fn turn_away(&self, mut stream: &TcpStream, _peer: SocketAddr, why: &PolicyRefusal) {
            stream.write_all(why.to_string().as_bytes()).unwrap();
        }
    }

    struct Running {
        address: SocketAddr,
        _service: RunningService,
    }

    fn run(gate: Gate) -> Running {
        let stop = StopSignal::new().unwrap();
        let at = [(Ipv4Addr::LOCALHOST, 0).into()];
        let acceptor = Acceptor::bind(&at, gate, stop.clone()).unwrap();
        let service = acceptor.start(Arc::new(Echo { stop })).unwrap();
        Running { address: service.addresses()[0], _service: service }
    }

    impl Running {
        fn connect(&self) -> TcpStream {
            let stream = TcpStream::connect_timeout(&self.address, LIMIT).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            stream
        }
    }

    fn echoes(mut stream: &TcpStream) -> bool {
        let mut bytes = [0; 4];
        stream.write_all(b"ping").is_ok() && stream.read_exact(&mut bytes).is_ok() && &bytes == b"ping"
    }

    fn reason(mut stream: TcpStream) -> String {
        let mut reason = String::new();
        stream.read_to_string(&mut reason).unwrap();
        reason
    }

    #[test]
    fn a_client_without_a_slot_gets_the_reason_and_a_closed_connection_frees_its_slot() {
        let gate = gate(8, 1);
        let server = run(gate.clone());
        let first = server.connect();
        assert!(echoes(&first));
        assert_eq!(
            reason(server.connect()),
            "max-connections-per-client is limited to 1 on this server (one more requested)"
        );
        drop(first);
        jitlat_waiting::until("the slot to be free", LIMIT, || gate.held(ECHO).connections == 0);
        assert!(echoes(&server.connect()));
    }

    #[test]
    fn when_full_an_idle_connection_of_who_holds_more_makes_room() {
        let server = run(gate(2, 2));
        let held = [server.connect(), server.connect()];
        assert!(held.iter().all(echoes));
        let connect = || {
            let honest = std::net::IpAddr::from([127, 0, 0, 2]);
            sockets::connect_tcp(Some(honest), server.address, LIMIT, || false).unwrap()
        };
        jitlat_waiting::until("a connection that makes room", LIMIT, || echoes(&connect()));
    }

    #[test]
    fn a_client_that_is_not_allowed_gets_the_reason() {
        let mut policy = Policy::default();
        policy.networks.allow.push("192.0.2.0/24".parse().unwrap());
        let server = run(Gate::new(policy));
        assert_eq!(reason(server.connect()), "this server does not serve this address");
    }

    #[test]
    fn a_stop_ends_connections_and_the_acceptor() {
        let server = run(gate(8, 8));
        let connections = [0; 3].map(|_| server.connect());
        assert!(connections.iter().all(echoes));
        let began = Instant::now();
        drop(server);
        assert!(began.elapsed() < LIMIT);
    }
}

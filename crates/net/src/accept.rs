//! Accepting TCP connections: one accept loop, one way to limit connections per client, one way to turn clients away.
//!
//! [`Slots`] count connections, in total and per client, as guards. A [`Listener`] accepts, and backs off while the
//! system has no descriptors left. An [`Acceptor`] runs a [`ConnectionService`] on both, with a thread for each
//! connection.

use crate::sockets;
use jitlat_proto::access::{Access, Client};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How many connections may be held at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLimits {
    /// In total.
    pub total: usize,
    /// Of each [`Client`].
    pub per_client: usize,
}

/// Slots for connections. Clones share the same count.
#[derive(Clone, Debug)]
pub struct Slots {
    limits: SlotLimits,
    taken: Arc<Mutex<HashMap<Client, usize>>>,
}

/// A slot in use; dropping it frees it.
#[derive(Debug)]
#[must_use = "the place is free again when this is dropped"]
pub struct Slot {
    client: Client,
    taken: Arc<Mutex<HashMap<Client, usize>>>,
}

/// No slot is free: the limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// The total limit.
    #[error("{0} connections are served already")]
    Total(usize),
    /// The limit of each client.
    #[error("{0} connections of this address are served already")]
    PerClient(usize),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slots {
    /// As many slots as `limits` allow, all free.
    pub fn new(limits: SlotLimits) -> Slots {
        Slots { limits, taken: Arc::default() }
    }

    /// Takes a slot for one more connection of `peer`.
    pub fn take(&self, peer: IpAddr) -> Result<Slot, Full> {
        let client = Client::of(peer);
        let mut taken = lock(&self.taken);
        if taken.values().sum::<usize>() >= self.limits.total {
            return Err(Full::Total(self.limits.total));
        }
        let own = taken.entry(client).or_default();
        if *own >= self.limits.per_client {
            return Err(Full::PerClient(self.limits.per_client));
        }
        *own += 1;
        Ok(Slot { client, taken: Arc::clone(&self.taken) })
    }

    /// Slots in use.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        lock(&self.taken).values().sum()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        if let Some(own) = taken.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.client);
            }
        }
    }
}

/// Pauses after failures to accept: each failure doubles the pause, a success resets it.
#[derive(Debug, Default)]
struct BackOff {
    until: Option<Instant>,
    pause: Duration,
}

impl BackOff {
    const FIRST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);

    fn failed(&mut self, now: Instant) {
        self.pause = (self.pause * 2).clamp(BackOff::FIRST, BackOff::LONGEST);
        self.until = Some(now + self.pause);
    }

    /// The rest of the pause; `None` when it is over.
    fn left(&self, now: Instant) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }
}

/// A listening socket. If accepting fails for lack of descriptors or memory it pauses: the connection stays in the
/// queue and would wake a polling thread again at once.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    back_off: Mutex<BackOff>,
}

impl Listener {
    /// Listens on `local` (port 0: the system chooses).
    pub fn bind(local: SocketAddr) -> io::Result<Listener> {
        Ok(Listener { socket: sockets::listen_tcp(local)?, back_off: Mutex::default() })
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The descriptor to poll for connections; `None` during a pause.
    pub(crate) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.pause().is_none().then(|| self.socket.as_fd())
    }

    /// How long to wait before the next attempt to accept; `None`: no pause.
    pub fn pause(&self) -> Option<Duration> {
        lock(&self.back_off).left(Instant::now())
    }

    /// The next connection in the queue; `None` if there is none, or during a pause.
    pub fn accept(&self) -> Option<(TcpStream, SocketAddr)> {
        if self.pause().is_some() {
            return None;
        }
        loop {
            match self.socket.accept() {
                Ok(accepted) => {
                    *lock(&self.back_off) = BackOff::default();
                    return Some(accepted);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                // These errors concern one connection that is already gone; the next one may be fine.
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {}
                Err(e) => {
                    let mut back_off = lock(&self.back_off);
                    if back_off.pause.is_zero() {
                        tracing::warn!(error = %e, listener = ?self.local_addr().ok(), "cannot accept connections for now");
                    }
                    back_off.failed(Instant::now());
                    return None;
                }
            }
        }
    }
}

/// Why a connection is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TurnedAway {
    /// Its address is not among those served.
    #[error("this address is not served here")]
    NotAllowed,
    /// No slot is free.
    #[error(transparent)]
    Full(#[from] Full),
}

/// What a service does with its connections.
pub(crate) trait ConnectionService: Send + Sync + 'static {
    /// The name of its threads, also used in messages.
    fn name(&self) -> &'static str;

    /// Serves `peer` to the end of its connection, on a thread of its own. Reads and writes on the stream block.
    fn serve(&self, stream: TcpStream, peer: SocketAddr);

    /// Sends `peer` the reason why it is turned away, if the protocol has a message for it. The message must be a few
    /// bytes, so that it fits into the socket's buffer. The stream does not block.
    fn turn_away(&self, _stream: &TcpStream, _peer: SocketAddr, _why: TurnedAway) {}

    /// Called ten times a second, between connections.
    fn look_around(&self) {}

    /// No more connections are accepted; those in progress should end soon.
    fn stop(&self);
}

/// Connections that were turned away but are still open, and for how long: closing with unread bytes of the client
/// would reset the connection and discard the reason.
const LEAVING: usize = 32;
const LEAVE: Duration = Duration::from_secs(2);
/// How soon a stop is noticed.
const LOOK_AROUND: Duration = Duration::from_millis(100);
/// Connections accepted from one listener before the others are checked.
const ROUND: usize = 64;

/// Accepts the connections of one service.
pub(crate) struct Acceptor {
    listeners: Vec<Listener>,
    slots: Slots,
    access: Arc<Access>,
}

impl Acceptor {
    /// Accepts clients at `listeners` that `access` allows, as long as `slots` are free.
    pub(crate) fn new(listeners: Vec<Listener>, slots: Slots, access: Arc<Access>) -> Acceptor {
        Acceptor { listeners, slots, access }
    }

    /// Listens on all `addresses`.
    ///
    /// # Errors
    /// The first address that cannot be listened on, with the reason.
    pub fn bind(
        addresses: &[SocketAddr],
        slots: Slots,
        access: Arc<Access>,
    ) -> Result<Acceptor, (SocketAddr, io::Error)> {
        let listen = |&address: &SocketAddr| Listener::bind(address).map_err(|e| (address, e));
        let listeners = addresses.iter().map(listen).collect::<Result<_, _>>()?;
        Ok(Acceptor::new(listeners, slots, access))
    }

    /// The addresses it listens on.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|l| l.local_addr().ok()).collect()
    }

    /// Serves until `stop` is set, then waits for the threads of the service.
    pub fn run<S: ConnectionService>(mut self, service: &Arc<S>, stop: &AtomicBool) {
        let mut threads = Vec::new();
        let mut leaving: VecDeque<(Instant, TcpStream)> = VecDeque::new();
        let mut looked = Instant::now();
        while !stop.load(Ordering::Acquire) {
            self.wait();
            let Acceptor { listeners, slots, access } = &mut self;
            for listener in listeners {
                for _ in 0..ROUND {
                    let Some((stream, peer)) = listener.accept() else { break };
                    match admit(service, slots, access, stream, peer) {
                        Admitted::Served(thread) => threads.push(thread),
                        Admitted::TurnedAway(stream) => leaving.push_back((Instant::now() + LEAVE, stream)),
                        Admitted::Dropped => {}
                    }
                }
                if listener.pause().is_some() {
                    // The remaining descriptors are needed for clients that are served.
                    leaving.clear();
                }
            }
            let now = Instant::now();
            while leaving.len() > LEAVING || leaving.front().is_some_and(|(until, _)| *until <= now) {
                leaving.pop_front();
            }
            if now - looked >= LOOK_AROUND {
                looked = now;
                service.look_around();
                threads.extract_if(.., |t| t.is_finished()).for_each(|t| join(service.name(), t));
            }
        }
        // Close them at once, so that no client waits for an answer.
        self.listeners.clear();
        service.stop();
        threads.into_iter().for_each(|t| join(service.name(), t));
    }

    /// Waits for a connection, or for a short time.
    fn wait(&self) {
        let pause = self.listeners.iter().filter_map(Listener::pause).min();
        let ready = self.listeners.iter().filter_map(Listener::poll_fd);
        let mut ready: Vec<_> = ready.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let patience = pause.unwrap_or(LOOK_AROUND).min(LOOK_AROUND).as_millis() as u16;
        // Whatever it returns, every listener is tried.
        let _ = poll(&mut ready, PollTimeout::from(patience.max(1)));
    }
}

/// What was done with a connection.
enum Admitted {
    Served(JoinHandle<()>),
    TurnedAway(TcpStream),
    Dropped,
}

fn admit<S: ConnectionService>(
    service: &Arc<S>,
    slots: &Slots,
    access: &Access,
    stream: TcpStream,
    peer: SocketAddr,
) -> Admitted {
    let slot = match access.admits(peer.ip()) {
        true => slots.take(peer.ip()).map_err(TurnedAway::from),
        false => Err(TurnedAway::NotAllowed),
    };
    let slot = match slot {
        Ok(slot) => slot,
        Err(why) => {
            if stream.set_nonblocking(true).is_ok() {
                service.turn_away(&stream, peer, why);
                let _ = stream.shutdown(Shutdown::Write);
            }
            return Admitted::TurnedAway(stream);
        }
    };
    let serving = Arc::clone(service);
    let serve = move || {
        let _slot = slot;
        serving.serve(stream, peer);
    };
    match std::thread::Builder::new().name(service.name().to_owned()).spawn(serve) {
        Ok(thread) => Admitted::Served(thread),
        Err(e) => {
            tracing::warn!(%peer, error = %e, "{}: no thread for one more connection", service.name());
            Admitted::Dropped
        }
    }
}

fn join(service: &str, thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("{service}: the thread of a connection panicked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::Ipv4Addr;

    const LIMIT: Duration = Duration::from_secs(20);

    fn slots(total: usize, per_client: usize) -> Slots {
        Slots::new(SlotLimits { total, per_client })
    }

    #[test]
    fn slots_are_counted_by_client_and_in_all() {
        let slots = slots(3, 2);
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|a| a.parse().unwrap());
        let held = [slots.take(a).unwrap(), slots.take(a).unwrap()];
        assert_eq!(slots.take(a).unwrap_err(), Full::PerClient(2));
        let other = slots.take(b).unwrap();
        assert_eq!(slots.take(b).unwrap_err(), Full::Total(3));
        drop(held);
        let more = slots.take(b).unwrap();
        assert_eq!((slots.taken(), slots.take(b).unwrap_err()), (2, Full::PerClient(2)));
        drop((other, more));
        assert!(slots.taken() == 0 && lock(&slots.taken).is_empty());
    }

    #[test]
    fn a_slot_is_given_back_by_a_thread_that_panics() {
        let slots = slots(1, 1);
        let slot = slots.take(Ipv4Addr::LOCALHOST.into()).unwrap();
        let panicking = std::thread::spawn(move || {
            let _slot = slot;
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicking.join().is_err());
        assert_eq!(slots.taken(), 0);
    }

    #[test]
    fn pauses_double_up_to_a_second_and_end_with_success() {
        let mut back_off = BackOff::default();
        let now = Instant::now();
        assert_eq!(back_off.left(now), None);
        let pauses: Vec<_> = (0..9)
            .map(|_| {
                back_off.failed(now);
                back_off.left(now).unwrap().as_millis()
            })
            .collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(back_off.left(now + BackOff::LONGEST), None);
    }

    /// Echoes until the client closes or the server stops.
    struct Echo {
        stop: AtomicBool,
    }

    impl ConnectionService for Echo {
        fn name(&self) -> &'static str {
            "echo"
        }

        fn serve(&self, mut stream: TcpStream, _peer: SocketAddr) {
            stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let mut bytes = [0; 16];
            while !self.stop.load(Ordering::Acquire) {
                match stream.read(&mut bytes) {
                    Ok(0) => return,
                    Ok(n) => stream.write_all(&bytes[..n]).unwrap(),
                    Err(_) => {}
                }
            }
        }

        fn turn_away(&self, mut stream: &TcpStream, _peer: SocketAddr, why: TurnedAway) {
            stream.write_all(why.to_string().as_bytes()).unwrap();
        }

        fn stop(&self) {
            self.stop.store(true, Ordering::Release);
        }
    }

    struct Running {
        stop: Arc<AtomicBool>,
        address: SocketAddr,
        thread: Option<JoinHandle<()>>,
    }

    fn run(slots: Slots, access: Access) -> Running {
        let service = Arc::new(Echo { stop: AtomicBool::new(false) });
        let at = [(Ipv4Addr::LOCALHOST, 0).into()];
        let acceptor = Acceptor::bind(&at, slots, Arc::new(access)).unwrap();
        let address = acceptor.addresses()[0];
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || acceptor.run(&service, &stopped));
        Running { stop, address, thread: Some(thread) }
    }

    impl Running {
        fn connect(&self) -> TcpStream {
            let stream = TcpStream::connect_timeout(&self.address, LIMIT).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            stream
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::Release);
            self.thread.take().unwrap().join().unwrap();
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
        let slots = slots(8, 1);
        let server = run(slots.clone(), Access::default());
        let first = server.connect();
        assert!(echoes(&first));
        assert_eq!(reason(server.connect()), "1 connections of this address are served already");
        drop(first);
        let until = Instant::now() + LIMIT;
        while slots.taken() > 0 {
            assert!(Instant::now() < until, "the place was not given back");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(echoes(&server.connect()));
    }

    #[test]
    fn a_client_that_is_not_allowed_gets_the_reason() {
        let access = Access { allow: vec!["192.0.2.0/24".parse().unwrap()], ..Access::default() };
        let server = run(slots(8, 8), access);
        assert_eq!(reason(server.connect()), "this address is not served here");
    }

    #[test]
    fn a_stop_ends_connections_and_the_acceptor() {
        let server = run(slots(8, 8), Access::default());
        let connections = [0; 3].map(|_| server.connect());
        assert!(connections.iter().all(echoes));
        let began = Instant::now();
        drop(server);
        assert!(began.elapsed() < LIMIT);
    }
}

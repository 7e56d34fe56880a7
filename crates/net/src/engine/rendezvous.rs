//! [`Rendezvous`]: shared ports on which flows wait for peers whose ports are not known in advance.
//!
//! Version-3 clients send a greeting with a token, to a shared UDP port or as the first twelve bytes of a TCP
//! connection; classic TCP senders simply connect. The rendezvous finds the flow to which a greeting or
//! connection belongs, and notifies it. All other packets and connections are dropped.
//!
//! One thread serves all ports. A port is open while a flow waits on it.

use crate::accept::Listener;
use crate::clock::steady;
use crate::sys::AsFd;
use crate::wake::{self, Waker};
use crate::{audit, sockets};
use jitlat_core::{Span, SteadyTime, Transport};
use jitlat_proto::jitlat::packet::HEADER_LEN;
use jitlat_proto::jitlat::rendezvous::{ExpectedPeer, WaitingFlows};
use jitlat_proto::policy::{Ask, Gate, Grant, OnEviction, TEST_PORT};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Timeout for a TCP connection to identify its flow.
const INTRODUCTION_TIMEOUT: Span = Span::seconds(10);
/// Maximum number of greetings or connections taken from one port before the other ports are checked.
const MAX_ACCEPTED: usize = 256;

/// Callback that receives the source address of a UDP greeting.
pub(crate) type OnGreeting = Box<dyn Fn(SocketAddr) + Send>;
/// Callback that receives a TCP connection and the bytes already read from it.
pub(crate) type OnConnection = Box<dyn Fn(TcpStream, Vec<u8>) + Send>;

/// Event that a flow waits for, with the function to call.
pub(crate) enum Notify {
    /// A UDP greeting.
    Greeting(OnGreeting),
    /// A TCP connection.
    Connection(OnConnection),
}

impl Notify {
    fn transport(&self) -> Transport {
        match self {
            Notify::Greeting(_) => Transport::Udp,
            Notify::Connection(_) => Transport::Tcp,
        }
    }
}

/// Shared ports on which flows wait for their peers; see the module's documentation.
pub(crate) struct Rendezvous {
    state: Mutex<Registrations>,
    waker: Waker,
    /// Admits connections; a grant lasts until the connection has been identified.
    gate: Gate,
    _on_eviction: OnEviction,
    /// Weak reference for the thread, which ends when the rendezvous is dropped.
    me: Weak<Rendezvous>,
}

#[derive(Default)]
struct Registrations {
    ports: Vec<Arc<SharedPort>>,
    /// Ports on which no flow waits any more; they stay open until the thread closes them.
    closing: Vec<Weak<SharedPort>>,
    waiting: WaitingFlows<Notify>,
    running: bool,
}

/// A shared port that is open.
struct SharedPort {
    local: SocketAddr,
    socket: PortSocket,
}

enum PortSocket {
    Udp(UdpSocket),
    Tcp(Listener),
}

/// Registration of a waiting flow; withdrawn when dropped.
pub(crate) struct Registration {
    rendezvous: Arc<Rendezvous>,
    number: u64,
    /// Local address and port on which the flow waits.
    pub local: SocketAddr,
}

impl Rendezvous {
    /// Creates a rendezvous without open ports; `gate` admits its connections.
    pub fn new(gate: Gate) -> io::Result<Arc<Rendezvous>> {
        let waker = Waker::new()?;
        let woken = waker.clone();
        let on_eviction: OnEviction = Arc::new(move || woken.wake());
        gate.notify_of_evictions(&on_eviction);
        Ok(Arc::new_cyclic(|me| Rendezvous {
            state: Mutex::default(),
            waker,
            gate,
            _on_eviction: on_eviction,
            me: me.clone(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, Registrations> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits on `local` for `expected` from `peer`; with port 0, the system chooses the port. `notify`
    /// determines whether UDP or TCP is used.
    pub fn wait(
        self: &Arc<Rendezvous>,
        local: SocketAddr,
        peer: IpAddr,
        expected: ExpectedPeer,
        notify: Notify,
    ) -> io::Result<Registration> {
        let transport = notify.transport();
        let mut state = self.state();
        let local = match state.open_port(local, transport) {
            Some(local) => local,
            None => {
                let port = SharedPort::open(local, transport)?;
                let local = port.local;
                state.ports.push(Arc::new(port));
                local
            }
        };
        let number = state.waiting.add(local, transport, peer, expected, notify);
        if !state.running {
            let me = self.me.clone();
            let waker = self.waker.clone();
            std::thread::Builder::new().name("rendezvous".to_owned()).spawn(move || attend(&me, &waker))?;
            state.running = true;
        }
        drop(state);
        self.waker.wake();
        Ok(Registration { rendezvous: Arc::clone(self), number, local })
    }
}

impl Drop for Rendezvous {
    /// Ends the thread of the rendezvous.
    fn drop(&mut self) {
        self.waker.wake();
    }
}

impl Registrations {
    /// Returns the address of a port that is already open, and prevents it from being closed; `None` if the port is not
    /// open.
    fn open_port(&mut self, local: SocketAddr, transport: Transport) -> Option<SocketAddr> {
        let same = |p: &Arc<SharedPort>| p.local == local && p.transport() == transport;
        if !self.ports.iter().any(same) {
            let port = self.closing.iter().filter_map(Weak::upgrade).find(same)?;
            self.ports.push(port);
        }
        Some(local)
    }

    /// Closes the ports on which no flow waits.
    fn close_unused(&mut self) {
        let Registrations { ports, closing, waiting, .. } = self;
        closing.retain(|p| p.strong_count() > 0);
        ports.retain(|p| {
            let used = waiting.waits_at(p.local, p.transport());
            if !used {
                closing.push(Arc::downgrade(p));
            }
            used
        });
    }
}

impl SharedPort {
    fn open(local: SocketAddr, transport: Transport) -> io::Result<SharedPort> {
        if transport == Transport::Udp {
            let socket = sockets::bind_udp(local)?;
            // Set after binding, so that the system does not choose a port that is already shared.
            socket2::SockRef::from(&socket).set_reuse_address(true)?;
            socket.set_nonblocking(true)?;
            Ok(SharedPort { local: socket.local_addr()?, socket: PortSocket::Udp(socket) })
        } else {
            let listener = Listener::bind(local)?;
            Ok(SharedPort { local: listener.local_addr()?, socket: PortSocket::Tcp(listener) })
        }
    }

    fn transport(&self) -> Transport {
        match self.socket {
            PortSocket::Udp(_) => Transport::Udp,
            PortSocket::Tcp(_) => Transport::Tcp,
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut state = self.rendezvous.state();
        state.waiting.remove(self.number);
        state.close_unused();
        drop(state);
        self.rendezvous.waker.wake();
    }
}

/// A TCP connection that has not yet identified its flow.
struct Unidentified {
    stream: TcpStream,
    local: SocketAddr,
    head: Vec<u8>,
    until: SteadyTime,
    grant: Grant,
}

fn attend(rendezvous: &Weak<Rendezvous>, waker: &Waker) {
    let mut unidentified: Vec<Unidentified> = Vec::new();
    loop {
        // No strong reference during the wait: dropping the rendezvous must be able to end this thread.
        let ports = match rendezvous.upgrade() {
            Some(rendezvous) => rendezvous.state().ports.clone(),
            None => return,
        };
        wait(waker, &ports, &unidentified);
        waker.clear();
        let Some(rendezvous) = rendezvous.upgrade() else { return };
        for port in &ports {
            match &port.socket {
                PortSocket::Udp(socket) => receive_greetings(&rendezvous, port.local, socket),
                PortSocket::Tcp(listener) => {
                    accept(listener, port.local, &rendezvous.gate, &mut unidentified);
                }
            }
        }
        {
            // Closed while the lock is held, so that a flow finds the port either open or free.
            let _state = rendezvous.state();
            drop(ports);
        }
        identify(&rendezvous, &mut unidentified);
    }
}

/// Waits for readable descriptors, the waker, the timeout of a connection, or the end of a listener's pause.
fn wait(waker: &Waker, ports: &[Arc<SharedPort>], unidentified: &[Unidentified]) {
    let mut deadline = unidentified.iter().map(|u| u.until).min();
    let mut readable = vec![waker.as_fd()];
    for port in ports {
        match &port.socket {
            PortSocket::Udp(socket) => readable.push(socket.as_fd()),
            PortSocket::Tcp(listener) => {
                deadline = deadline.into_iter().chain(listener.pause_end()).min();
                readable.extend(listener.poll_fd());
            }
        }
    }
    readable.extend(unidentified.iter().map(|u| u.stream.as_fd()));
    wake::wait(&readable, deadline);
}

fn receive_greetings(rendezvous: &Rendezvous, local: SocketAddr, socket: &UdpSocket) {
    let mut packet = [0; HEADER_LEN];
    // Limited, so that a flood on one port does not block the other ports.
    for _ in 0..MAX_ACCEPTED {
        match socket.recv_from(&mut packet) {
            Ok((HEADER_LEN, from)) => {
                if let Some(Notify::Greeting(notify)) =
                    rendezvous.state().waiting.greeted(local, from, &packet)
                {
                    notify(from);
                }
            }
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => {}
        }
    }
}

fn accept(listener: &Listener, local: SocketAddr, gate: &Gate, unidentified: &mut Vec<Unidentified>) {
    for _ in 0..MAX_ACCEPTED {
        let Some((stream, peer)) = listener.accept() else { return };
        // The connection is closed unless it is admitted.
        let grant = match gate.admit(TEST_PORT, peer.ip(), Ask::CONNECTION, steady()) {
            Ok(grant) => grant,
            Err(why) => {
                audit::refused(TEST_PORT, peer, why);
                continue;
            }
        };
        if stream.set_nonblocking(true).is_ok() {
            let until = steady() + INTRODUCTION_TIMEOUT;
            unidentified.push(Unidentified { stream, local, head: Vec::new(), until, grant });
        }
    }
}

/// Reads the first bytes of connections, and passes on those connections that have sent all of these bytes.
fn identify(rendezvous: &Rendezvous, unidentified: &mut Vec<Unidentified>) {
    let now = steady();
    for mut peer in std::mem::take(unidentified) {
        let mut bytes = [0; HEADER_LEN];
        let missing = HEADER_LEN - peer.head.len();
        match peer.stream.read(&mut bytes[..missing]) {
            Ok(0) => continue,
            Ok(n) => peer.head.extend_from_slice(&bytes[..n]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => continue,
        }
        if peer.head.len() == HEADER_LEN {
            let Ok(from) = peer.stream.peer_addr() else { continue };
            let mut state = rendezvous.state();
            if let Some(Notify::Connection(notify)) = state.waiting.connected(peer.local, from, &peer.head) {
                notify(peer.stream, peer.head);
            }
        } else if now < peer.until && !peer.grant.is_evicted() {
            unidentified.push(peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_proto::jitlat::packet::PacketHeader;
    use jitlat_proto::policy::{Policy, Scope};
    use std::io::Write;
    use std::net::Ipv4Addr;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn one_address_does_not_keep_others_from_introducing_themselves() {
        let gate = Gate::new(Policy::default());
        let most = gate.policy().quota(TEST_PORT, Scope::ServiceTotal).connections.unwrap();
        let rendezvous = Rendezvous::new(gate).unwrap();
        let (met, meets) = channel();
        let notify = Notify::Connection(Box::new(move |stream, head| met.send((stream, head)).unwrap()));
        let honest = IpAddr::from([127, 0, 0, 2]);
        let local = (Ipv4Addr::LOCALHOST, 0).into();
        let registration = rendezvous.wait(local, honest, ExpectedPeer::Token(9), notify).unwrap();
        let connect =
            |ip| crate::sockets::connect_tcp(Some(ip), registration.local, LIMIT, || false).unwrap();
        let silent: Vec<_> = (0..most + 20).map(|_| connect(Ipv4Addr::LOCALHOST.into())).collect();
        let mut peer = connect(honest);
        peer.write_all(&PacketHeader::hello(9).to_bytes()).unwrap();
        let (stream, head) = meets.recv_timeout(LIMIT).unwrap();
        assert_eq!(
            (stream.peer_addr().unwrap().ip(), head),
            (honest, PacketHeader::hello(9).to_bytes().to_vec())
        );
        drop(silent);
    }

    #[test]
    fn a_port_that_is_about_to_close_can_be_waited_at_again() {
        let rendezvous = Rendezvous::new(Gate::new(Policy::default())).unwrap();
        // No other test binds to this address, so no other test takes the port while it is closed.
        let peer = IpAddr::from([127, 0, 9, 9]);
        let wait = |local: SocketAddr| {
            let notify = Notify::Connection(Box::new(|_, _| {}));
            rendezvous.wait(local, peer, ExpectedPeer::AnyConnection, notify)
        };
        let (any, mut taken) = (SocketAddr::new(peer, 0), 0);
        let mut local = any;
        for _ in 0..500 {
            local = match wait(local) {
                Ok(registration) => registration.local,
                // A socket of another test, bound to all addresses, may take the port while it is closed.
                Err(e) if e.kind() == io::ErrorKind::AddrInUse && taken < 3 => {
                    taken += 1;
                    any
                }
                Err(e) => panic!("{e}"),
            };
        }
        // A released port is free again.
        jitlat_waiting::until("the port to be free", LIMIT, || sockets::listen_tcp(local).is_ok());
    }
}

//! [`Lobby`]: where strangers are met. Version-3 clients greet with a token, on a shared UDP port or as the
//! first twelve bytes of a TCP connection; classic TCP senders simply connect. The lobby finds out whose they
//! are and sends them there; whatever belongs to nobody is dropped.
//!
//! One thread serves all ports. A port is open while a flow waits at it.

use super::shared::Bell;
use crate::{tcp, udp};
use jitlat_proto::jitlat::packet::{HEADER_LEN, Header};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long a TCP connection may take to say whose it is.
const INTRODUCTION: Duration = Duration::from_secs(10);
/// Most connections that may be introducing themselves at once.
const STRANGERS: usize = 256;

/// Whom a waiting flow expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Somebody with this token.
    Token(u64),
    /// Any TCP connection that does not begin with a greeting.
    Anybody,
}

/// Told of a UDP greeting: the address it came from.
pub type OnGreeting = Box<dyn Fn(SocketAddr) + Send>;
/// Told of a TCP connection and the bytes already read from it.
pub type OnVisitor = Box<dyn Fn(TcpStream, Vec<u8>) + Send>;

/// Who is to be told.
pub enum Tell {
    /// A UDP greeting came.
    Greeting(OnGreeting),
    /// A TCP connection came.
    Visitor(OnVisitor),
}

/// See the module's documentation.
pub struct Lobby {
    state: Mutex<State>,
    bell: Bell,
    /// For the thread, which ends with the lobby.
    me: Weak<Lobby>,
}

#[derive(Default)]
struct State {
    doors: Vec<Arc<Door>>,
    waiting: Vec<Waiting>,
    next: u64,
    running: bool,
}

struct Door {
    local: SocketAddr,
    kind: Kind,
}

enum Kind {
    Udp(UdpSocket),
    Tcp(TcpListener),
}

struct Waiting {
    number: u64,
    local: SocketAddr,
    udp: bool,
    peer: IpAddr,
    expected: Expected,
    tell: Tell,
}

/// A place in the lobby; dropping it gives the place up.
pub struct Place {
    lobby: Arc<Lobby>,
    number: u64,
    /// The address waited at, with its port.
    pub local: SocketAddr,
}

impl Lobby {
    /// A lobby without doors.
    pub fn new() -> io::Result<Arc<Lobby>> {
        let bell = Bell::new()?;
        Ok(Arc::new_cyclic(|me| Lobby { state: Mutex::default(), bell, me: me.clone() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits at `local` (port 0: the system chooses) for `expected` from `peer`. Whether UDP or TCP is
    /// told by `tell`.
    pub fn wait(
        self: &Arc<Lobby>,
        local: SocketAddr,
        peer: IpAddr,
        expected: Expected,
        tell: Tell,
    ) -> io::Result<Place> {
        let udp = matches!(tell, Tell::Greeting(_));
        let mut state = self.state();
        let local = match state.door(local, udp) {
            Some(door) if local.port() != 0 => door.local,
            _ => {
                let door = Door::open(local, udp)?;
                let local = door.local;
                state.doors.push(Arc::new(door));
                local
            }
        };
        state.next += 1;
        let number = state.next;
        state.waiting.push(Waiting { number, local, udp, peer: peer.to_canonical(), expected, tell });
        if !state.running {
            let me = self.me.clone();
            let bell = self.bell.clone();
            std::thread::Builder::new().name("lobby".to_owned()).spawn(move || attend(&me, &bell))?;
            state.running = true;
        }
        drop(state);
        self.bell.ring();
        Ok(Place { lobby: Arc::clone(self), number, local })
    }
}

impl State {
    fn door(&self, local: SocketAddr, udp: bool) -> Option<&Arc<Door>> {
        self.doors.iter().find(|d| d.local == local && matches!(d.kind, Kind::Udp(_)) == udp)
    }

    /// Tells who waits for a greeting with `token` at `local`.
    fn greet(&self, local: SocketAddr, from: SocketAddr, token: u64) {
        let waiting = self.waiting.iter().find(|w| {
            w.udp
                && w.local == local
                && w.expected == Expected::Token(token)
                && w.peer == from.ip().to_canonical()
        });
        if let Some(Waiting { tell: Tell::Greeting(tell), .. }) = waiting {
            tell(from);
        }
    }

    /// Sends a TCP connection that began with `head` to who waits for it, and frees the place.
    fn introduce(&mut self, local: SocketAddr, stream: TcpStream, head: Vec<u8>) {
        let Ok(from) = stream.peer_addr() else { return };
        let token = Header::parse(&head).and_then(|h| h.hello_token());
        let expected = token.map_or(Expected::Anybody, Expected::Token);
        let found = self.waiting.iter().position(|w| {
            !w.udp && w.local == local && w.expected == expected && w.peer == from.ip().to_canonical()
        });
        if let Some(Tell::Visitor(tell)) = found.map(|i| self.waiting.remove(i).tell) {
            tell(stream, head);
        }
    }
}

impl Door {
    fn open(local: SocketAddr, udp: bool) -> io::Result<Door> {
        if udp {
            let socket = udp::bind(local)?;
            // Set after binding, so that a port the system chooses is nobody else's.
            socket2::SockRef::from(&socket).set_reuse_address(true)?;
            socket.set_nonblocking(true)?;
            Ok(Door { local: socket.local_addr()?, kind: Kind::Udp(socket) })
        } else {
            let listener = tcp::listen(local)?;
            listener.set_nonblocking(true)?;
            Ok(Door { local: listener.local_addr()?, kind: Kind::Tcp(listener) })
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.lobby.state();
        state.waiting.retain(|w| w.number != self.number);
        let State { doors, waiting, .. } = &mut *state;
        doors.retain(|d| {
            let udp = matches!(d.kind, Kind::Udp(_));
            waiting.iter().any(|w| w.local == d.local && w.udp == udp)
        });
        drop(state);
        self.lobby.bell.ring();
    }
}

/// A TCP connection that has not yet said whose it is.
struct Stranger {
    stream: TcpStream,
    local: SocketAddr,
    head: Vec<u8>,
    until: Instant,
}

fn attend(lobby: &Weak<Lobby>, bell: &Bell) {
    let mut strangers: Vec<Stranger> = Vec::new();
    loop {
        let doors = match lobby.upgrade() {
            Some(lobby) => lobby.state().doors.clone(),
            None => return,
        };
        let mut fds = vec![PollFd::new(bell.as_fd(), PollFlags::POLLIN)];
        fds.extend(doors.iter().map(|d| {
            let fd = match &d.kind {
                Kind::Udp(socket) => socket.as_fd(),
                Kind::Tcp(listener) => listener.as_fd(),
            };
            PollFd::new(fd, PollFlags::POLLIN)
        }));
        fds.extend(strangers.iter().map(|s| PollFd::new(s.stream.as_fd(), PollFlags::POLLIN)));
        let _ = poll(&mut fds, PollTimeout::from(500u16));
        drop(fds);
        bell.hush();
        let Some(lobby) = lobby.upgrade() else { return };
        for door in &doors {
            match &door.kind {
                Kind::Udp(socket) => receive_greetings(&lobby, door.local, socket),
                Kind::Tcp(listener) => accept(listener, door.local, &mut strangers),
            }
        }
        drop(doors);
        listen_to(&lobby, &mut strangers);
    }
}

fn receive_greetings(lobby: &Lobby, local: SocketAddr, socket: &UdpSocket) {
    let mut packet = [0; HEADER_LEN];
    // Bounded, so that a flood at one door does not close the others.
    for _ in 0..256 {
        match socket.recv_from(&mut packet) {
            Ok((HEADER_LEN, from)) => {
                if let Some(token) = Header::parse(&packet).and_then(|h| h.hello_token()) {
                    lobby.state().greet(local, from, token);
                }
            }
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => {}
        }
    }
}

fn accept(listener: &TcpListener, local: SocketAddr, strangers: &mut Vec<Stranger>) {
    while let Ok((stream, _)) = listener.accept() {
        if strangers.len() < STRANGERS && stream.set_nonblocking(true).is_ok() {
            let until = Instant::now() + INTRODUCTION;
            strangers.push(Stranger { stream, local, head: Vec::new(), until });
        }
    }
}

fn listen_to(lobby: &Lobby, strangers: &mut Vec<Stranger>) {
    let now = Instant::now();
    for mut stranger in std::mem::take(strangers) {
        let mut bytes = [0; HEADER_LEN];
        let missing = HEADER_LEN - stranger.head.len();
        match stranger.stream.read(&mut bytes[..missing]) {
            Ok(0) => continue,
            Ok(n) => stranger.head.extend_from_slice(&bytes[..n]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => continue,
        }
        if stranger.head.len() == HEADER_LEN {
            lobby.state().introduce(stranger.local, stranger.stream, stranger.head);
        } else if now < stranger.until {
            strangers.push(stranger);
        }
    }
}

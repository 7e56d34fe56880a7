//! TCP connections, forwarded with a fixed delay in each direction, through two bounded delay lines.

use super::{Forward, Interest, ReadyToken};
use crate::accept::Listener;
use jitlat_core::time::{Span, SteadyTime};
use nix::poll::PollFlags;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;

/// Maximum number of simultaneous connections; further clients wait to be accepted.
const MAX_CONNECTIONS: usize = 64;
/// Maximum number of bytes in transit in one direction of a connection; above it, the sender has to wait.
const MAX_BYTES_IN_TRANSIT: usize = 1 << 20;
const CHUNK_BYTES: usize = 16 << 10;

/// Address on which clients connect, and the server to forward to.
pub(crate) struct RelayEntrance {
    listener: Listener,
    to: SocketAddr,
}

impl RelayEntrance {
    pub fn new(forward: Forward) -> io::Result<RelayEntrance> {
        Ok(RelayEntrance { listener: Listener::bind(forward.listen)?, to: forward.to })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One of the two ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RelaySide {
    Client = 0,
    Server = 1,
}

impl RelaySide {
    fn other(self) -> RelaySide {
        match self {
            RelaySide::Client => RelaySide::Server,
            RelaySide::Server => RelaySide::Client,
        }
    }
}

/// One direction of a connection: data that was read, with the times at which to write it.
#[derive(Default)]
struct Pipe {
    in_transit: VecDeque<(SteadyTime, Vec<u8>)>,
    bytes: usize,
    /// Number of bytes of the first chunk that have been written.
    written: usize,
    /// True if the receiver's socket buffer is full.
    blocked: bool,
    /// Time at which to forward the end of the stream; `None` while the stream is open.
    end: Option<SteadyTime>,
    ended: bool,
}

impl Pipe {
    fn next_due(&self) -> Option<SteadyTime> {
        if self.blocked || self.ended {
            return None;
        }
        self.in_transit.front().map(|(due, _)| *due).or(self.end)
    }

    fn deliver(&mut self, now: SteadyTime, mut to: &TcpStream) -> io::Result<()> {
        self.blocked = false;
        while let Some((due, chunk)) = self.in_transit.front() {
            if *due > now {
                return Ok(());
            }
            match to.write(&chunk[self.written..]) {
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
            if self.written == chunk.len() {
                self.bytes -= chunk.len();
                self.written = 0;
                self.in_transit.pop_front();
            }
        }
        if !self.ended && self.end.is_some_and(|due| due <= now) {
            self.ended = true;
            // Fails if the other end is already closed, which does not matter.
            let _ = to.shutdown(Shutdown::Write);
        }
        Ok(())
    }
}

struct RelayedConnection {
    id: u64,
    /// Connections, indexed by [`RelaySide`].
    ends: [TcpStream; 2],
    /// Directions, indexed by the side from which data is read.
    pipes: [Pipe; 2],
    broken: bool,
}

pub struct RelayedConnections {
    entrances: Vec<RelayEntrance>,
    list: Vec<RelayedConnection>,
    /// Fixed delays of data, from the client and from the server.
    delays: [Span; 2],
    next_id: u64,
    buffer: Vec<u8>,
}

impl RelayedConnections {
    pub fn new(entrances: Vec<RelayEntrance>, delays: [Span; 2]) -> RelayedConnections {
        RelayedConnections { entrances, list: Vec::new(), delays, next_id: 0, buffer: vec![0; CHUNK_BYTES] }
    }

    pub fn interest<'a>(&'a self, out: &mut Interest<'a>) {
        if self.list.len() < MAX_CONNECTIONS {
            for (i, entrance) in self.entrances.iter().enumerate() {
                if let Some(fd) = entrance.listener.poll_fd() {
                    out.add(ReadyToken::Listener(i), fd, PollFlags::POLLIN);
                }
            }
        }
        for c in &self.list {
            for side in [RelaySide::Client, RelaySide::Server] {
                let (from, to) = (&c.pipes[side as usize], &c.pipes[side.other() as usize]);
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::POLLIN, from.end.is_none() && from.bytes < MAX_BYTES_IN_TRANSIT);
                flags.set(PollFlags::POLLOUT, to.blocked);
                if !flags.is_empty() {
                    out.add(ReadyToken::Connection(c.id, side), c.ends[side as usize].as_fd(), flags);
                }
            }
        }
    }

    pub(crate) fn next_due(&self) -> Option<SteadyTime> {
        self.list.iter().flat_map(|c| &c.pipes).filter_map(Pipe::next_due).min()
    }

    /// Accepts a client. An error closes only this client's connection.
    pub fn accept(&mut self, entrance: usize) {
        let RelayEntrance { listener, to } = &self.entrances[entrance];
        let Some((client, _)) = listener.accept() else { return };
        let Ok(server) = connect(*to) else { return };
        if client.set_nonblocking(true).and(client.set_nodelay(true)).is_err() {
            return;
        }
        self.next_id += 1;
        let pipes = [Pipe::default(), Pipe::default()];
        self.list.push(RelayedConnection { id: self.next_id, ends: [client, server], pipes, broken: false });
    }

    /// Reads from one end and queues the data for the other end.
    pub fn read(&mut self, id: u64, side: RelaySide, now: SteadyTime) {
        let Some(c) = self.list.iter_mut().find(|c| c.id == id) else { return };
        let pipe = &mut c.pipes[side as usize];
        let due = now + self.delays[side as usize];
        if pipe.end.is_some() || pipe.bytes >= MAX_BYTES_IN_TRANSIT {
            return;
        }
        match (&c.ends[side as usize]).read(&mut self.buffer) {
            Ok(0) => pipe.end = Some(due),
            Ok(n) => {
                pipe.bytes += n;
                pipe.in_transit.push_back((due, self.buffer[..n].to_vec()));
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => c.broken = true,
        }
    }

    /// Writes all data that is due, and removes connections that have ended.
    pub fn deliver(&mut self, now: SteadyTime) {
        for c in &mut self.list {
            for side in [RelaySide::Client, RelaySide::Server] {
                let to = &c.ends[side.other() as usize];
                c.broken |= c.pipes[side as usize].deliver(now, to).is_err();
            }
        }
        self.list.retain(|c| !c.broken && !c.pipes.iter().all(|p| p.ended));
    }
}

/// Starts to connect without waiting. Writes succeed once the connection is established; if connecting fails,
/// reads fail.
fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&SockAddr::from(to)) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(e) => return Err(e),
    }
    Ok(socket.into())
}

//! A control connection: what client and server driver do alike.

use crate::clock;
use crate::engine::Waker;
use jitlat_core::SteadyTime;
use jitlat_core::session::HostFacts;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

/// The longest a conversing thread waits without looking at flags, counters and clocks.
pub const LOOK_AROUND_MS: i64 = 100;

/// A connection that is never waited for but in [`Connection::wait`].
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Bytes to be written, and how many of them are.
    out: Vec<u8>,
    written: usize,
}

/// What came of reading.
pub enum Incoming<'a> {
    /// Nothing for now.
    Nothing,
    /// Bytes, read just now.
    Bytes(&'a [u8]),
    /// The peer has closed it, or it broke: why, if the system said.
    Closed(Option<String>),
}

impl Connection {
    /// Takes over an established connection.
    pub fn new(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection { stream, buffer: vec![0; 1 << 16], out: Vec::new(), written: 0 })
    }

    /// Where messages to be sent are put.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Whether bytes still wait to be written.
    pub fn is_pending(&self) -> bool {
        self.written < self.out.len()
    }

    /// Writes what the kernel takes now.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.is_pending() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads what is there.
    pub fn read(&mut self) -> Incoming<'_> {
        match self.stream.read(&mut self.buffer) {
            Ok(0) => Incoming::Closed(None),
            Ok(n) => Incoming::Bytes(&self.buffer[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Incoming::Nothing,
            Err(e) => Incoming::Closed(Some(e.to_string())),
        }
    }

    /// Waits for the connection, for `waker`, until `deadline` on the steady clock, or a moment.
    pub fn wait(&self, waker: &Waker, deadline: Option<SteadyTime>) {
        let mut events = PollFlags::POLLIN;
        events.set(PollFlags::POLLOUT, self.is_pending());
        wait(
            &mut [PollFd::new(waker.as_fd(), PollFlags::POLLIN), PollFd::new(self.stream.as_fd(), events)],
            deadline,
        );
        waker.clear();
    }
}

/// Waits without a connection.
pub fn wait_for_waker(waker: &Waker, deadline: Option<SteadyTime>) {
    wait(&mut [PollFd::new(waker.as_fd(), PollFlags::POLLIN)], deadline);
    waker.clear();
}

fn wait(fds: &mut [PollFd<'_>], deadline: Option<SteadyTime>) {
    let left =
        deadline.map_or(i64::MAX, |d| (d - clock::steady()).0.max(0).saturating_add(999_999) / 1_000_000);
    let _ = poll(fds, PollTimeout::from(left.min(LOOK_AROUND_MS) as u16));
}

/// A host's facts after a test: what it said before, and what has shown since.
pub fn facts_after(before: &HostFacts, watch: &mut clock::StepWatch, notes: Vec<String>) -> HostFacts {
    HostFacts { sync_after: clock::sync_state(), clock_step: Some(watch.look()), notes, ..before.clone() }
}

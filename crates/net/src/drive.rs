//! [`Driver`]: runs a protocol machine over a TCP connection; used on both sides.

use crate::clock::{self, tick};
use crate::wake::Waker;
use jitlat_core::session::HostFacts;
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::Machine;
use jitlat_proto::jitlat::{ClientInput, ClientMachine, ServerInput, ServerMachine};
use jitlat_proto::{owamp, push, twamp};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;

/// Longest wait before flags, counters and clocks are checked.
const MAX_WAIT_MS: i64 = 100;
/// Consecutive reads before reports and timers are checked, so that a peer that never stops sending does not delay
/// them.
const MAX_READS: usize = 16;

/// A machine that converses over one connection: its inputs for what the connection brings.
pub(crate) trait Conversing: Machine {
    /// Input: bytes were received.
    fn received(bytes: &[u8]) -> Self::Input<'_>;

    /// Input: the connection has ended, with the system's error, if any.
    fn closed(why: Option<&str>) -> Self::Input<'_>;
}

impl Conversing for ClientMachine {
    fn received(bytes: &[u8]) -> ClientInput<'_> {
        ClientInput::Received(bytes)
    }

    fn closed(why: Option<&str>) -> ClientInput<'_> {
        ClientInput::Closed(why)
    }
}

impl Conversing for ServerMachine {
    fn received(bytes: &[u8]) -> ServerInput<'_> {
        ServerInput::Received(bytes)
    }

    fn closed(_: Option<&str>) -> ServerInput<'_> {
        ServerInput::Closed
    }
}

impl Conversing for twamp::Client {
    fn received(bytes: &[u8]) -> twamp::client::TwampClientInput<'_> {
        twamp::client::TwampClientInput::Bytes(bytes)
    }

    fn closed(_: Option<&str>) -> twamp::client::TwampClientInput<'_> {
        twamp::client::TwampClientInput::Closed
    }
}

impl Conversing for twamp::server::Server {
    fn received(bytes: &[u8]) -> twamp::server::TwampServerInput<'_> {
        twamp::server::TwampServerInput::Bytes(bytes)
    }

    fn closed(_: Option<&str>) -> twamp::server::TwampServerInput<'_> {
        twamp::server::TwampServerInput::Closed
    }
}

impl Conversing for owamp::server::Server {
    fn received(bytes: &[u8]) -> owamp::server::OwampServerInput<'_> {
        owamp::server::OwampServerInput::Bytes(bytes)
    }

    fn closed(_: Option<&str>) -> owamp::server::OwampServerInput<'_> {
        owamp::server::OwampServerInput::Closed
    }
}

impl Conversing for owamp::Client {
    fn received(bytes: &[u8]) -> owamp::client::OwampClientInput<'_> {
        owamp::client::OwampClientInput::Bytes(bytes)
    }

    fn closed(_: Option<&str>) -> owamp::client::OwampClientInput<'_> {
        owamp::client::OwampClientInput::Closed
    }
}

impl Conversing for push::PushSender {
    fn received(bytes: &[u8]) -> push::SenderInput<'_> {
        push::SenderInput::Bytes(bytes)
    }

    fn closed(_: Option<&str>) -> push::SenderInput<'_> {
        push::SenderInput::Closed
    }
}

impl Conversing for push::PushReceiver {
    fn received(bytes: &[u8]) -> push::ReceiverInput<'_> {
        push::ReceiverInput::Bytes(bytes)
    }

    fn closed(_: Option<&str>) -> push::ReceiverInput<'_> {
        push::ReceiverInput::Closed
    }
}

/// A machine and its connection; the connection may end before the machine does.
#[derive(Debug)]
pub(crate) struct Driver<M> {
    pub machine: M,
    connection: Option<NonblockingConnection>,
    /// Bytes read and written, and those of them that were read.
    transferred: u64,
    received: u64,
}

impl<M: Conversing> Driver<M> {
    /// Runs `machine` over `stream`.
    pub fn new(machine: M, stream: TcpStream) -> io::Result<Driver<M>> {
        Ok(Driver {
            machine,
            connection: Some(NonblockingConnection::new(stream)?),
            transferred: 0,
            received: 0,
        })
    }

    /// Continues over another connection. The machine gets no input about it.
    pub fn reconnect(&mut self, stream: TcpStream) -> io::Result<()> {
        self.connection = Some(NonblockingConnection::new(stream)?);
        Ok(())
    }

    /// Bytes read from and written to all its connections.
    pub(crate) fn transferred(&self) -> u64 {
        self.transferred
    }

    /// Bytes read from all its connections.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Gives the machine an input that happened just now.
    pub fn handle(&mut self, input: M::Input<'_>) {
        self.machine.handle(tick(), input);
    }

    /// Writes the machine's output as far as the connection accepts it.
    pub(crate) fn write_output(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let before = connection.flushed;
        let mut written = connection.flush();
        // One clock reading for each message: a probe contains the time at which it is sent.
        while written.is_ok()
            && !connection.is_pending()
            && self.machine.poll_transmit(tick(), &mut connection.out)
        {
            written = connection.flush();
        }
        self.transferred += connection.flushed - before;
        if let Err(e) = written {
            // The last words of a peer that reads no more say why.
            self.read_input();
            if self.connection.is_some() {
                self.lose(Some(&e.to_string()));
            }
        }
    }

    /// Gives the machine what the connection has received.
    pub(crate) fn read_input(&mut self) {
        for _ in 0..MAX_READS {
            let Some(connection) = &mut self.connection else { return };
            match connection.read() {
                ReadResult::Nothing => return,
                ReadResult::Bytes(bytes) => {
                    self.transferred += bytes.len() as u64;
                    self.received += bytes.len() as u64;
                    self.machine.handle(tick(), M::received(bytes));
                }
                ReadResult::Closed(why) => return self.lose(why.as_deref()),
            }
        }
    }

    /// Waits for the connection, for `waker` or for the machine's timer, but not for long.
    pub fn wait(&self, waker: Option<&Waker>) {
        wait(self.connection.as_ref(), waker, self.machine.poll_timeout());
    }

    /// The same for at most `timeout`.
    pub fn wait_for(&self, timeout: Span) {
        let until = clock::steady() + timeout;
        let due = self.machine.poll_timeout().map_or(until, |due| due.min(until));
        wait(self.connection.as_ref(), None, Some(due));
    }

    /// Whether output waits that the connection has no room for.
    pub fn is_pending(&self) -> bool {
        self.connection.as_ref().is_some_and(NonblockingConnection::is_pending)
    }

    /// Gives the machine its timer input if it is due.
    pub(crate) fn check_timer(&mut self) {
        let now = tick();
        if self.machine.poll_timeout().is_some_and(|due| now.steady >= due) {
            self.machine.handle_timeout(now);
        }
    }

    /// Writes the machine's remaining output, for at most `timeout`.
    pub fn finish(&mut self, timeout: Span) {
        let until = clock::steady() + timeout;
        let Some(connection) = &mut self.connection else { return };
        while self.machine.poll_transmit(tick(), &mut connection.out) {}
        while connection.flush().is_ok() && connection.is_pending() && clock::steady() < until {
            wait(Some(connection), None, Some(until));
        }
    }

    /// The same, and takes what still comes until the peer has closed, too, within the same patience: a connection that is
    /// closed with something unread is reset, and the peer may not get the last words.
    pub fn finish_and_drain(&mut self, timeout: Span) {
        let until = clock::steady() + timeout;
        self.finish(timeout);
        let Some(connection) = &mut self.connection else { return };
        if connection.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        while clock::steady() < until {
            match connection.read() {
                ReadResult::Nothing => wait(Some(connection), None, Some(until)),
                ReadResult::Bytes(_) => {}
                ReadResult::Closed(_) => return,
            }
        }
    }

    fn lose(&mut self, why: Option<&str>) {
        self.connection = None;
        self.machine.handle(tick(), M::closed(why));
    }
}

/// A connection whose reads and writes never block; [`wait`] waits for it.
#[derive(Debug)]
struct NonblockingConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Bytes to be written, and how many of them have been.
    out: Vec<u8>,
    written: usize,
    /// Bytes written in all.
    flushed: u64,
}

/// The result of reading.
enum ReadResult<'a> {
    /// No data at present.
    Nothing,
    /// Bytes that were read just now.
    Bytes(&'a [u8]),
    /// The peer has closed the connection, or it broke, with the system's error, if any.
    Closed(Option<String>),
}

impl NonblockingConnection {
    /// From an established connection.
    fn new(stream: TcpStream) -> io::Result<NonblockingConnection> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(NonblockingConnection {
            stream,
            buffer: vec![0; 1 << 16],
            out: Vec::new(),
            written: 0,
            flushed: 0,
        })
    }

    /// Whether bytes remain to be written.
    fn is_pending(&self) -> bool {
        self.written < self.out.len()
    }

    /// Writes as much as the kernel accepts without blocking.
    fn flush(&mut self) -> io::Result<()> {
        while self.is_pending() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.written += n;
                    self.flushed += n as u64;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads what is available without blocking.
    fn read(&mut self) -> ReadResult<'_> {
        match self.stream.read(&mut self.buffer) {
            Ok(0) => ReadResult::Closed(None),
            Ok(n) => ReadResult::Bytes(&self.buffer[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                ReadResult::Nothing
            }
            Err(e) => ReadResult::Closed(Some(e.to_string())),
        }
    }
}

/// Waits for a connection and a waker, if given, until `deadline` on the steady clock, but not for long.
fn wait(connection: Option<&NonblockingConnection>, waker: Option<&Waker>, deadline: Option<SteadyTime>) {
    let woken = waker.map(|w| PollFd::new(w.as_fd(), PollFlags::POLLIN));
    let ready = connection.map(|c| {
        let mut events = PollFlags::POLLIN;
        events.set(PollFlags::POLLOUT, c.is_pending());
        PollFd::new(c.stream.as_fd(), events)
    });
    let mut fds: Vec<PollFd<'_>> = woken.into_iter().chain(ready).collect();
    let left =
        deadline.map_or(i64::MAX, |d| (d - clock::steady()).0.max(0).saturating_add(999_999) / 1_000_000);
    let _ = poll(&mut fds, PollTimeout::from(left.min(MAX_WAIT_MS) as u16));
    if let Some(waker) = waker {
        waker.clear();
    }
}

/// A host's facts after a test: those from before, completed with the clock's state and notes.
pub(crate) fn facts_after(
    before: &HostFacts,
    clock_steps: &mut clock::ClockSteps,
    notes: Vec<String>,
) -> HostFacts {
    HostFacts {
        sync_after: clock::sync_state(),
        clock_step: Some(clock_steps.check()),
        notes,
        ..before.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_proto::Tick;
    use std::net::TcpListener;

    /// Sends something, and keeps what it receives.
    #[derive(Debug, Default)]
    struct Exchange {
        to_send: Vec<u8>,
        received: Vec<u8>,
        closed: u32,
    }

    enum Input<'a> {
        Bytes(&'a [u8]),
        Closed,
    }

    impl Machine for Exchange {
        type Input<'a> = Input<'a>;
        type Event = ();

        fn handle(&mut self, _: Tick, input: Input<'_>) {
            match input {
                Input::Bytes(bytes) => self.received.extend(bytes),
                Input::Closed => self.closed += 1,
            }
        }

        fn handle_timeout(&mut self, _: Tick) {}

        fn poll_transmit(&mut self, _: Tick, out: &mut Vec<u8>) -> bool {
            let more = !self.to_send.is_empty();
            out.append(&mut self.to_send);
            more
        }

        fn poll_timeout(&self) -> Option<SteadyTime> {
            None
        }

        fn poll_event(&mut self) -> Option<()> {
            None
        }
    }

    impl Conversing for Exchange {
        fn received(bytes: &[u8]) -> Input<'_> {
            Input::Bytes(bytes)
        }

        fn closed(_: Option<&str>) -> Input<'_> {
            Input::Closed
        }
    }

    fn connected() -> (Driver<Exchange>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        (Driver::new(Exchange::default(), listener.accept().unwrap().0).unwrap(), peer)
    }

    #[test]
    fn the_last_words_of_a_peer_that_reads_no_more_are_heard() {
        let (mut driver, mut peer) = connected();
        driver.machine.to_send = vec![7; 1000];
        driver.write_output();
        // It closes with something unread, which resets the connection.
        peer.write_all(b"full").unwrap();
        drop(peer);
        driver.machine.to_send = vec![7; 1000];
        driver.write_output();
        assert_eq!((&driver.machine.received[..], driver.machine.closed), (&b"full"[..], 1));
    }

    #[test]
    fn last_words_arrive_at_a_peer_that_is_still_talking() {
        let (mut driver, mut peer) = connected();
        let talking = std::thread::spawn(move || {
            peer.write_all(&vec![1; 3_000_000]).unwrap();
            let mut last = Vec::new();
            peer.read_to_end(&mut last).map(|_| last)
        });
        driver.machine.to_send = b"full".to_vec();
        driver.finish_and_drain(Span::seconds(20));
        drop(driver);
        assert_eq!(talking.join().unwrap().unwrap(), b"full");
    }
}

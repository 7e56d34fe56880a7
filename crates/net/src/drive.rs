//! [`Driver`]: runs a protocol state machine over a TCP connection; used by client and server.

use crate::clock::{self, tick};
use crate::sys::AsFd;
use crate::sys::{PollFd, PollFlags, poll};
use crate::wake::Waker;
use jitlat_core::session::HostFacts;
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::Machine;
use jitlat_proto::jitlat::{ClientInput, ClientMachine, ServerInput, ServerMachine};
use jitlat_proto::{owamp, twamp};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// Maximum wait before flags, counters and clocks are checked, in milliseconds.
const MAX_WAIT_MS: i64 = 100;
/// Maximum number of consecutive reads before reports and timers are checked: a peer that never stops sending
/// must not delay them.
const MAX_READS: usize = 16;

/// A state machine that communicates over one connection, with constructors of its inputs.
pub(crate) trait Conversing: Machine {
    /// Returns the input for received bytes.
    fn received(bytes: &[u8]) -> Self::Input<'_>;

    /// Returns the input for the end of the connection; `why` is the operating system's error, if any.
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

/// A state machine and its connection. The connection may end before the state machine does.
#[derive(Debug)]
pub(crate) struct Driver<M> {
    pub machine: M,
    connection: Option<NonblockingConnection>,
    /// Number of bytes read and written.
    transferred: u64,
    received: u64,
}

impl<M: Conversing> Driver<M> {
    /// Creates a driver that runs `machine` over `stream`.
    pub fn new(machine: M, stream: TcpStream) -> io::Result<Driver<M>> {
        Ok(Driver {
            machine,
            connection: Some(NonblockingConnection::new(stream)?),
            transferred: 0,
            received: 0,
        })
    }

    /// Continues over another connection, without informing the state machine.
    pub fn reconnect(&mut self, stream: TcpStream) -> io::Result<()> {
        self.connection = Some(NonblockingConnection::new(stream)?);
        Ok(())
    }

    /// Returns the number of bytes read from and written to all connections of the driver.
    pub(crate) fn transferred(&self) -> u64 {
        self.transferred
    }

    /// Returns the number of bytes read from all connections of the driver.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Passes an input to the state machine, with the current time.
    pub fn handle(&mut self, input: M::Input<'_>) {
        self.machine.handle(tick(), input);
    }

    /// Writes as much of the state machine's output as the connection accepts.
    pub(crate) fn write_output(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let before = connection.flushed;
        let mut written = connection.flush();
        // The clock is read again for each message, because a probe contains its send time.
        while written.is_ok()
            && !connection.is_pending()
            && self.machine.poll_transmit(tick(), &mut connection.out)
        {
            written = connection.flush();
        }
        self.transferred += connection.flushed - before;
        if let Err(e) = written {
            // Read pending input before reporting the error: it may contain the peer's reason.
            self.read_input();
            if self.connection.is_some() {
                self.lose(Some(&e.to_string()));
            }
        }
    }

    /// Passes received bytes to the state machine.
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

    /// Waits for the connection, `waker`, or the state machine's timer, at most [`MAX_WAIT_MS`].
    pub fn wait(&self, waker: Option<&Waker>) {
        wait(self.connection.as_ref(), waker, self.machine.poll_timeout());
    }

    /// Passes the timer event to the state machine if it is due.
    pub(crate) fn check_timer(&mut self) {
        let now = tick();
        if self.machine.poll_timeout().is_some_and(|due| now.steady >= due) {
            self.machine.handle_timeout(now);
        }
    }

    /// Writes the remaining output of the state machine, for at most `timeout`.
    pub fn finish(&mut self, timeout: Span) {
        let until = clock::steady() + timeout;
        let Some(connection) = &mut self.connection else { return };
        while self.machine.poll_transmit(tick(), &mut connection.out) {}
        while connection.flush().is_ok() && connection.is_pending() && clock::steady() < until {
            wait(Some(connection), None, Some(until));
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
    /// Output buffer.
    out: Vec<u8>,
    written: usize,
    /// Total number of bytes written.
    flushed: u64,
}

/// Result of a read.
enum ReadResult<'a> {
    /// No data is available at present.
    Nothing,
    /// Bytes that were read.
    Bytes(&'a [u8]),
    /// The peer closed the connection, or the connection failed with this operating system error.
    Closed(Option<String>),
}

impl NonblockingConnection {
    /// Takes over an established connection.
    fn new(stream: TcpStream) -> io::Result<NonblockingConnection> {
        // Messages are small, and Nagle's algorithm would delay them, clock probes included.
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

    /// True if bytes remain to be written.
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

    /// Reads the available bytes without blocking.
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

/// Waits for the connection and the waker, if given, until `deadline` on the steady clock, but at most
/// [`MAX_WAIT_MS`].
fn wait(connection: Option<&NonblockingConnection>, waker: Option<&Waker>, deadline: Option<SteadyTime>) {
    let woken = waker.map(|w| PollFd::new(w.as_fd(), PollFlags::POLLIN));
    let ready = connection.map(|c| {
        let mut events = PollFlags::POLLIN;
        events.set(PollFlags::POLLOUT, c.is_pending());
        PollFd::new(c.stream.as_fd(), events)
    });
    let mut fds: Vec<PollFd<'_>> = woken.into_iter().chain(ready).collect();
    // Rounded up to whole milliseconds, so that waiting for a deadline is not a busy loop.
    let left =
        deadline.map_or(i64::MAX, |d| (d - clock::steady()).0.max(0).saturating_add(999_999) / 1_000_000);
    let _ = poll(&mut fds, Some(Span::millis(left.min(MAX_WAIT_MS))));
    if let Some(waker) = waker {
        waker.clear();
    }
}

/// Returns the facts `before` about a host, completed at the end of a test with the state of its clock, the clock steps
/// and `notes`.
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

    /// A state machine that sends bytes and stores the bytes that it receives.
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
    fn the_last_message_of_a_peer_that_no_longer_reads_is_received() {
        let (mut driver, mut peer) = connected();
        driver.machine.to_send = vec![7; 1000];
        driver.write_output();
        // The peer closes its connection while it has unread input, which resets the connection.
        peer.write_all(b"full").unwrap();
        drop(peer);
        driver.machine.to_send = vec![7; 1000];
        driver.write_output();
        assert_eq!((&driver.machine.received[..], driver.machine.closed), (&b"full"[..], 1));
    }
}

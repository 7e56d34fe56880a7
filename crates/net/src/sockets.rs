//! Opens sockets, in the same way for every listener and connection of the program.

use crate::privilege::{Capability, needs};
use crate::resolve::{self, local_address};
use crate::sys::{self, AsFd, PollFd, PollFlags, poll};
use jitlat_core::{Dscp, Ecn, EcnMarking, Span};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Maximum number of connections waiting to be accepted.
const BACKLOG: i32 = 128;
/// Maximum time until a connection attempt notices that it was cancelled.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// Binds a TCP socket to `local`; with port 0, the system chooses the port. An IPv6 socket accepts only IPv6,
/// so that no address is an IPv4-mapped one. A port in `TIME_WAIT` can be reused.
pub(crate) fn bind_tcp(local: SocketAddr) -> io::Result<Socket> {
    bind_stream(local, true)
}

/// Like [`bind_tcp`], on a port that no other socket uses, not even one in `TIME_WAIT`.
pub(crate) fn bind_tcp_alone(local: SocketAddr) -> io::Result<Socket> {
    bind_stream(local, false)
}

fn bind_stream(local: SocketAddr, reused: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(local), Type::STREAM, Some(Protocol::TCP))?;
    if local.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // With port 0 and this option, the system could choose a port that another socket already shares.
    socket.set_reuse_address(reused && local.port() != 0)?;
    socket.bind(&local.into())?;
    Ok(socket)
}

/// Opens a non-blocking TCP listener on `local`.
pub(crate) fn listen_tcp(local: SocketAddr) -> io::Result<TcpListener> {
    let socket = bind_tcp(local)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Enables TCP keep-alive, so that a connection ends within a minute if its peer has vanished. The first
/// probe is sent after 30 s without traffic, so most tests are not affected.
pub(crate) fn notice_absence(connection: &TcpStream) {
    let (idle, interval) = (Duration::from_secs(30), Duration::from_secs(5));
    let probes = TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(4);
    // If this fails, the limits of the service end the connection instead.
    let _ = SockRef::from(connection).set_tcp_keepalive(&probes);
}

/// Connects to `host`, as [`connect_first`] does.
///
/// # Errors
/// Error of the address that failed last, or of the search for addresses.
pub(crate) fn connect_host(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let addresses = resolve::addresses(host, port, None, None).map_err(io::Error::other)?;
    connect_first(None, &addresses, timeout, |_| (), || false).map(|(stream, _)| stream).map_err(|e| e.source)
}

/// Connects to `peer`, from `local` if given, within `timeout`.
///
/// # Errors
/// Same as [`connect`].
pub(crate) fn connect_tcp(
    local: Option<IpAddr>,
    peer: SocketAddr,
    timeout: Duration,
    stopped: impl FnMut() -> bool,
) -> io::Result<TcpStream> {
    connect_first(local, &[peer], timeout, |_| (), stopped).map(|(stream, _)| stream).map_err(|e| e.source)
}

/// Connects `socket` to `peer` within `timeout`; gives up soon after `stopped` returns true.
///
/// # Errors
/// Errors of the operating system; `TimedOut` after `timeout`, `Interrupted` if stopped.
pub(crate) fn connect(
    socket: Socket,
    peer: SocketAddr,
    timeout: Duration,
    stopped: impl FnMut() -> bool,
) -> io::Result<TcpStream> {
    socket.set_nonblocking(true)?;
    match socket.connect(&peer.into()) {
        Ok(()) => {}
        Err(e) if sys::is_in_progress(&e) => wait_connected(&socket, timeout, stopped)?,
        Err(e) => return Err(e),
    }
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

/// Time after which the next address is tried as well (RFC 8305, "Connection Attempt Delay").
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Error: none of a host's addresses accepted a connection.
#[derive(Debug)]
pub(crate) struct NotConnected {
    /// Address that failed last.
    pub address: SocketAddr,
    /// Error of this address.
    pub source: io::Error,
}

/// Connects to the first of `peers` that accepts. Each is tried for `timeout`; if it has not answered after 250 ms, the
/// next one is tried at the same time (RFC 8305). `begun` is called with each address before it is tried.
///
/// # Errors
/// Error of the address that failed last: an error of the operating system, or `TimedOut` after `timeout`.
/// `Interrupted` if `stopped` returned true.
pub(crate) fn connect_first(
    local: Option<IpAddr>,
    peers: &[SocketAddr],
    timeout: Duration,
    mut begun: impl FnMut(SocketAddr),
    mut stopped: impl FnMut() -> bool,
) -> Result<(TcpStream, SocketAddr), NotConnected> {
    struct Attempt {
        socket: Socket,
        address: SocketAddr,
        until: Instant,
    }
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut waiting = peers.iter().copied();
    let mut next_at = Instant::now();
    let mut failure: Option<NotConnected> = None;
    let blocking = |socket: Socket, address| {
        let set = socket.set_nonblocking(false);
        set.map(|()| (socket.into(), address)).map_err(|source| NotConnected { address, source })
    };
    loop {
        if (attempts.is_empty() || Instant::now() >= next_at)
            && let Some(address) = waiting.next()
        {
            begun(address);
            next_at = Instant::now() + ATTEMPT_DELAY;
            match begin(local, address) {
                Ok((socket, true)) => return blocking(socket, address),
                Ok((socket, false)) => {
                    attempts.push(Attempt { socket, address, until: Instant::now() + timeout });
                }
                Err(source) => failure = Some(NotConnected { address, source }),
            }
            continue;
        }
        if attempts.is_empty() {
            let none = || NotConnected {
                address: (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
                source: io::Error::new(ErrorKind::NotFound, "there is no address to connect to"),
            };
            return Err(failure.unwrap_or_else(none));
        }
        let mut ready: Vec<PollFd<'_>> =
            attempts.iter().map(|a| PollFd::new(a.socket.as_fd(), PollFlags::POLLOUT)).collect();
        let waited = poll(&mut ready, Some(Span::millis(MAX_WAIT.as_millis() as i64)));
        let is_ready: Vec<bool> = ready.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        if let Err(source) = waited {
            return Err(NotConnected { address: attempts[0].address, source });
        }
        let now = Instant::now();
        for (k, is_ready) in is_ready.into_iter().enumerate().rev() {
            // A writable socket means that connecting has succeeded or failed; SO_ERROR shows which.
            let error = match is_ready {
                true => attempts[k].socket.take_error().unwrap_or_else(Some),
                false if now >= attempts[k].until => Some(ErrorKind::TimedOut.into()),
                false => continue,
            };
            let Attempt { socket, address, .. } = attempts.remove(k);
            match error {
                None => return blocking(socket, address),
                Some(source) => failure = Some(NotConnected { address, source }),
            }
        }
        if stopped() {
            let address = attempts.first().map(|a| a.address).or(failure.map(|f| f.address));
            let address = address.unwrap_or_else(|| (std::net::Ipv4Addr::UNSPECIFIED, 0).into());
            return Err(NotConnected { address, source: ErrorKind::Interrupted.into() });
        }
    }
}

/// Begins to connect a new non-blocking socket to `address`. Returns the socket, and true if it is connected already.
fn begin(local: Option<IpAddr>, address: SocketAddr) -> io::Result<(Socket, bool)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(ip) = local {
        socket.bind(&local_address(ip, 0).into())?;
    }
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Ok(()) => Ok((socket, true)),
        Err(e) if sys::is_in_progress(&e) => Ok((socket, false)),
        Err(e) => Err(e),
    }
}

fn wait_connected(socket: &Socket, timeout: Duration, mut stopped: impl FnMut() -> bool) -> io::Result<()> {
    let until = Instant::now() + timeout;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let slice = left.min(MAX_WAIT).as_millis() as u16;
        let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
        // A writable socket means that connecting has succeeded or failed; SO_ERROR shows which.
        if poll(&mut ready, Some(Span::millis(slice.into())))? > 0 {
            return socket.take_error()?.map_or(Ok(()), Err);
        }
        if stopped() {
            return Err(ErrorKind::Interrupted.into());
        }
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
    }
}

/// A stream whose reads and writes have a timeout, and are aborted soon after `stopped` returns true.
pub(crate) struct TimeoutStream<'a, F> {
    stream: &'a TcpStream,
    stopped: F,
}

impl<'a, F: Fn() -> bool> TimeoutStream<'a, F> {
    /// Wraps `stream`, and sets short timeouts for its individual reads and writes, which remain set.
    pub fn new(stream: &'a TcpStream, stopped: F) -> io::Result<TimeoutStream<'a, F>> {
        stream.set_read_timeout(Some(MAX_WAIT))?;
        stream.set_write_timeout(Some(MAX_WAIT))?;
        Ok(TimeoutStream { stream, stopped })
    }

    /// Reads until `buffer` is full, for at most `timeout`.
    ///
    /// # Errors
    /// Errors of the operating system; `UnexpectedEof` at the end of the stream, `TimedOut` after `timeout`,
    /// `Interrupted` if stopped.
    pub fn read_exact(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<()> {
        let mut stream = self.stream;
        self.all(buffer.len(), timeout, |done| stream.read(&mut buffer[done..]), ErrorKind::UnexpectedEof)
    }

    /// Writes all of `bytes`, for at most `timeout`.
    ///
    /// # Errors
    /// Errors of the operating system; `TimedOut` after `timeout`, `Interrupted` if stopped.
    pub fn write_all(&self, bytes: &[u8], timeout: Duration) -> io::Result<()> {
        let mut stream = self.stream;
        self.all(bytes.len(), timeout, |done| stream.write(&bytes[done..]), ErrorKind::WriteZero)
    }

    fn all(
        &self,
        length: usize,
        timeout: Duration,
        mut some: impl FnMut(usize) -> io::Result<usize>,
        none: ErrorKind,
    ) -> io::Result<()> {
        let until = Instant::now() + timeout;
        let mut done = 0;
        while done < length {
            match some(done) {
                Ok(0) => return Err(none.into()),
                Ok(n) => done += n,
                Err(e) if waits(&e) => {}
                Err(e) => return Err(e),
            }
            if done < length && (self.stopped)() {
                return Err(ErrorKind::Interrupted.into());
            }
            if done < length && Instant::now() >= until {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}

/// True if a failed read or write can be retried: it timed out or would block.
pub(crate) fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

pub(crate) use sys::{enlarge, has_message_priority, is_mtu_report, is_prohibition, observe};

/// Error: the system did not set the requested DSCP.
#[derive(Debug, thiserror::Error)]
#[error(
    "DSCP {dscp} and {mark} {}: {}",
    if .source.kind() == ErrorKind::Unsupported { "are not promised" } else { "were not set" },
    sys::reason(.source)
)]
pub(crate) struct NotMarked {
    dscp: Dscp,
    mark: Ecn,
    source: io::Error,
}

/// Sets DSCP and mark of the packets that a socket sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketMarker {
    dscp: Dscp,
    marking: EcnMarking,
}

impl PacketMarker {
    pub(crate) fn new(dscp: Dscp, marking: EcnMarking) -> PacketMarker {
        PacketMarker { dscp, marking }
    }

    /// Sets DSCP and mark of the first packet, and of all packets after it that have the same mark.
    pub(crate) fn begin(self, socket: &impl AsFd) -> Result<(), NotMarked> {
        mark(socket, self.dscp, self.marking.of(0))
    }

    /// Sends every packet after this call as Not-ECT: greetings and sentinels must arrive even where marked packets are
    /// dropped.
    pub(crate) fn plain(self, socket: &impl AsFd) -> Result<(), NotMarked> {
        mark(socket, self.dscp, Ecn::NotEct)
    }

    /// True if packets have different marks, so that [`PacketMarker::before`] must be called for each.
    pub(crate) fn is_per_packet(self) -> bool {
        self.marking.is_interleaved()
    }

    /// Sets the mark of packet `seq`, the next one that is sent.
    pub(crate) fn before(self, socket: &impl AsFd, seq: u64) {
        if self.is_per_packet() {
            // A failure would have occurred for the first packet already.
            let _ = mark(socket, self.dscp, self.marking.of(seq));
        }
    }
}

/// Sets DSCP and ECN field of every packet sent on `socket`, UDP or TCP. TCP negotiates ECN itself and ignores the field.
pub(crate) fn mark(socket: &impl AsFd, dscp: Dscp, mark: Ecn) -> Result<(), NotMarked> {
    let set = sys::set_traffic_class(socket, dscp.octet() | mark.bits());
    set.map_err(|source| NotMarked { dscp, mark, source })
}

/// Error: the system did not set the requested priority.
#[derive(Debug, thiserror::Error)]
#[error("priority {priority} was not set: {}", why(*.priority, .source))]
pub(crate) struct NotPreferred {
    priority: u32,
    source: io::Error,
}

fn why(priority: u32, source: &io::Error) -> String {
    if priority > 6 { needs(Capability::NetAdmin) } else { sys::reason(source) }
}

/// Sets the priority on this host (`SO_PRIORITY`) of every packet of `socket`. Must be called after [`mark`],
/// because setting the DSCP makes the kernel change the priority.
pub(crate) fn prefer(socket: &impl AsFd, priority: Option<u32>) -> Result<(), NotPreferred> {
    let Some(priority) = priority else { return Ok(()) };
    sys::set_priority(socket, priority).map_err(|source| NotPreferred { priority, source })
}

/// Binds a UDP socket to `local` for a test stream; with port 0, the system chooses the port. Several sockets
/// may share one port: a connected socket receives its peer's packets, an unconnected socket all others.
pub(crate) fn bind_udp(local: SocketAddr) -> io::Result<UdpSocket> {
    bind_datagram(local, true)
}

/// Like [`bind_udp`], on a port that no other socket uses.
pub(crate) fn bind_udp_alone(local: SocketAddr) -> io::Result<UdpSocket> {
    bind_datagram(local, false)
}

fn bind_datagram(local: SocketAddr, shared: bool) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    if local.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // With port 0 and this option, the system could choose a port that another socket already shares.
    socket.set_reuse_address(shared && local.port() != 0)?;
    socket.bind(&local.into())?;
    Ok(socket.into())
}

/// Discards packets that arrived on a socket before it was connected, because they belong to another session.
pub(crate) fn discard_waiting(socket: &UdpSocket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // Limited, so that a flood cannot keep this loop running.
    let mut byte = [0];
    for _ in 0..100_000 {
        match socket.recv(&mut byte) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(_) => {}
        }
    }
    socket.set_nonblocking(false)
}

/// Returns the path MTU to the peer of the connected socket `socket`, in bytes, if packets with `length` bytes after
/// the IP header exceed it; otherwise, or if it is unknown, `None`. `v6` is true if the peer has an IPv6 address.
pub(crate) fn exceeded_mtu(socket: &impl AsFd, v6: bool, length: u32) -> Option<u32> {
    let length = length + if v6 { 40 } else { 20 };
    crate::sys::path_mtu(socket.as_fd(), v6).ok().filter(|mtu| *mtu < length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// Returns a listener whose queue is full, so that connections to it are never completed.
    fn unresponsive() -> (Socket, Vec<TcpStream>, SocketAddr) {
        let socket = bind_tcp((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        socket.listen(0).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        let filling = [0; 2].map(|_| connect_tcp(None, address, Duration::from_millis(200), || false));
        (socket, filling.into_iter().flatten().collect(), address)
    }

    #[test]
    fn a_connection_that_is_not_answered_is_given_up() {
        let (_listener, _filling, address) = unresponsive();
        let began = Instant::now();
        let connect = |timeout, stopped| {
            connect_tcp(None, address, Duration::from_secs(timeout), || stopped).unwrap_err().kind()
        };
        assert_eq!(connect(0, false), ErrorKind::TimedOut);
        assert_eq!(connect(60, true), ErrorKind::Interrupted);
        assert!(began.elapsed() < Duration::from_secs(10), "neither waits for its whole timeout");
    }

    #[test]
    fn an_address_that_does_not_answer_delays_the_next_one_little() {
        let (_listener, _filling, silent) = unresponsive();
        let listener = listen_tcp((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let (answers, refuses) = (listener.local_addr().unwrap(), closed_port());
        let mut begun = Vec::new();
        let connected = connect_first(
            None,
            &[silent, refuses, answers],
            Duration::from_secs(60),
            |address| begun.push(address),
            || false,
        );
        let (stream, address) = connected.unwrap();
        assert_eq!((address, stream.peer_addr().unwrap()), (answers, answers));
        assert_eq!(begun, [silent, refuses, answers]);
        let failed = connect_first(None, &[refuses, silent], Duration::ZERO, |_| (), || false).unwrap_err();
        assert_eq!((failed.address, failed.source.kind()), (silent, ErrorKind::TimedOut));
        let none = connect_first(None, &[], Duration::ZERO, |_| (), || false).unwrap_err();
        assert_eq!(none.source.kind(), ErrorKind::NotFound);
    }

    /// Returns a local address at which nothing listens.
    fn closed_port() -> SocketAddr {
        let socket = bind_tcp((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        socket.local_addr().unwrap().as_socket().unwrap()
    }

    #[test]
    fn connected_sockets_wait_and_refusals_are_reported() {
        let listener = listen_tcp((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let stream = connect_tcp(None, address, Duration::from_secs(5), || false).unwrap();
        let flags = nix::fcntl::fcntl(&stream, nix::fcntl::FcntlArg::F_GETFL).unwrap();
        assert_eq!(flags & libc::O_NONBLOCK, 0);
        drop(listener);
        let refused = connect_tcp(None, address, Duration::from_secs(5), || false).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }

    #[test]
    fn who_sends_a_byte_now_and_then_is_given_up_all_the_same() {
        let listener = listen_tcp((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Ends when the server has closed the connection.
                jitlat_waiting::at_pace(Duration::from_millis(20), || (&client).write_all(b"x").is_ok());
            });
            let read = |timeout, stopped| {
                let stream = TimeoutStream::new(&server, || stopped).unwrap();
                stream.read_exact(&mut [0; 10_000], timeout).unwrap_err().kind()
            };
            assert_eq!(read(Duration::from_millis(200), false), ErrorKind::TimedOut);
            assert_eq!(read(Duration::from_secs(60), true), ErrorKind::Interrupted);
            server.shutdown(std::net::Shutdown::Both).unwrap();
        });
    }
}

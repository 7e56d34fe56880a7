//! Client's side of TCP request-response tests.

use crate::clock;
use crate::clock::tick;
use crate::pace::late_start_note;
use crate::sockets::{self, TimeoutStream};
use crate::stamp::StampMode;
use crate::sys::tcp_info;
use crate::twoway::client::{PingError, ProgressFeed, TwoWayLink, TwoWayMeasured};
use crate::twoway::socket;
use jitlat_core::session::Ending;
use jitlat_core::twoway::TcpSample;
use jitlat_core::{Span, Stamp, StampSource};
use jitlat_proto::reqresp::{ExchangeSizes, GREETING_LEN, MIN_RESPONSE, Requester};
use jitlat_proto::twoway::pinger::PingReception;
use jitlat_proto::twoway::{PingPlan, Pinger, Transmit};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Timeout of the connection attempt, and of the greeting that follows.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum sleep, so that a stop is noticed soon.
const MAX_SLEEP: Span = Span::millis(100);

/// Runs a test against the responder at `link.to`; `sizes` are the lengths of requests and responses. Also returns a
/// sample of TCP_INFO per answer.
pub fn run(
    sizes: ExchangeSizes,
    plan: PingPlan,
    link: &TwoWayLink,
    stop: &AtomicBool,
) -> Result<(TwoWayMeasured<Requester>, Vec<TcpSample>), PingError> {
    let to = link.to;
    let fail = |source: io::Error| match source.kind() {
        io::ErrorKind::ConnectionRefused => PingError::Refused(to),
        _ if sockets::is_prohibition(&source) => PingError::Unreachable { to, source },
        _ => PingError::Send { to, source },
    };
    let stopped = || stop.load(Ordering::Acquire);
    let (mut stream, notes) = connect(link, stopped).map_err(fail)?;
    greet(&stream, sizes, stopped).map_err(|why| PingError::Conversation { to, why: why.to_string() })?;
    let local = stream.local_addr().map_err(fail)?;
    stream.set_nonblocking(true).map_err(fail)?;
    let mut host = clock::host_facts();
    host.notes = link.pacing.apply();
    host.notes.extend(notes);
    let mut steps = clock::ClockSteps::start();

    let packets = plan.spec.packets();
    let mut pinger = Pinger::new(Requester::new(sizes), plan, StampSource::User);
    pinger.start_at(link.start);
    // The kernel's TCP_INFO at each answer. Responses arrive in order, and each makes one record.
    let mut samples = Vec::with_capacity(packets.min(1 << 20) as usize);
    // Requests that the connection has not accepted yet: the rest of one request, followed by whole requests.
    let mut waiting: Vec<u8> = Vec::with_capacity(4 * sizes.request());
    // Number of response bytes that distinguish a responder from a plain echo server; the smaller of both
    // sizes is sufficient.
    let beginning = sizes.response().min(sizes.request().max(MIN_RESPONSE));
    let mut response = vec![0; beginning];
    let (mut filled, mut known) = (0, false);
    let (mut interrupted, mut lost) = (false, false);
    let mut feed = ProgressFeed::new(link);
    loop {
        loop {
            match stream.read(&mut response[filled..]) {
                Ok(0) => {
                    lost = true;
                    break;
                }
                Ok(n) => {
                    filled += n;
                    if filled == response.len() && !known {
                        known = true;
                        let sent = pinger.requests().sent_at(0);
                        let echoed = pinger.protocol_mut().finds_echo(&response, sent);
                        response.resize(if echoed { sizes.request() } else { sizes.response() }, 0);
                    }
                    if filled == response.len() {
                        let now = tick();
                        let stamp = Stamp { at: now.wall, source: StampSource::User };
                        let meta = PingReception {
                            stamp,
                            read: now.wall,
                            length: filled,
                            ttl: None,
                            traffic_class: None,
                            other_port: false,
                        };
                        pinger.handle(&response, &meta, now);
                        samples.extend(tcp_info(stream.as_fd()));
                        filled = 0;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    lost = true;
                    break;
                }
            }
        }
        if (lost || stop.load(Ordering::Relaxed)) && !interrupted {
            interrupted = true;
            pinger.interrupt(tick());
        }
        if lost {
            break;
        }
        pinger.handle_timeout(tick());
        // Bounded, so that a connection that accepts no data does not make the queue grow without limit.
        while waiting.len() < 64 * sizes.request() {
            match pinger.poll_transmit(tick(), &mut waiting) {
                Some(Transmit::Request(_) | Transmit::Probe | Transmit::Conversation) => {}
                None => break,
            }
            push(&mut stream, &mut waiting, &mut lost);
            pinger.handle_timeout(tick());
        }
        push(&mut stream, &mut waiting, &mut lost);
        let Some(due) = pinger.poll_timeout() else { break };
        let now = clock::steady();
        feed.send_events(&pinger, now);
        let span = (due - now).0.clamp(0, MAX_SLEEP.0);
        if span > 0 {
            let writable = if waiting.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
            let mut ready = [PollFd::new(stream.as_fd(), PollFlags::POLLIN | writable)];
            let _ = ppoll(&mut ready, Some(TimeSpec::from(Duration::from_nanos(span.unsigned_abs()))), None);
        }
    }
    host.sync_after = clock::sync_state();
    host.notes.extend(pinger.late_start().map(late_start_note));
    host.clock_step = Some(steps.check());
    let ending = match (lost, interrupted) {
        (true, _) => Ending::PeerLost,
        (_, true) => Ending::Interrupted,
        _ => Ending::Complete,
    };
    let outcome = pinger.finish_up();
    let (unsent, refused, prohibited) = (0, 0, 0);
    let measured = TwoWayMeasured {
        outcome,
        local,
        stamps: StampMode::User,
        host,
        ending,
        path_mtu: None,
        unsent,
        stamps_lost: None,
        refused,
        prohibited,
    };
    Ok((measured, samples))
}

fn push(stream: &mut TcpStream, waiting: &mut Vec<u8>, lost: &mut bool) {
    while !waiting.is_empty() && !*lost {
        match stream.write(waiting) {
            Ok(n) => drop(waiting.drain(..n)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => *lost = true,
        }
    }
}

/// Connects, after applying the settings of [`Marking`](socket::Marking) to the socket. Also returns notes about
/// settings that were not possible.
fn connect(link: &TwoWayLink, stopped: impl Fn() -> bool) -> io::Result<(TcpStream, Vec<String>)> {
    let socket = Socket::new(Domain::for_address(link.to), Type::STREAM, Some(Protocol::TCP))?;
    let mut notes = Vec::new();
    socket::mark(&socket, link.to, &link.marking, &mut notes)?;
    Ok((sockets::connect(socket, link.to, CONNECT_TIMEOUT, stopped)?, notes))
}

/// Reason why the greeting failed.
#[derive(Debug, thiserror::Error)]
enum GreetingError {
    #[error("answered, but not as a jitlat responder: is that the right port?")]
    Foreign,
    #[error("did not return the greeting ({0}): is a jitlat responder on that port?")]
    NotReturned(#[from] io::Error),
}

fn greet(stream: &TcpStream, sizes: ExchangeSizes, stopped: impl Fn() -> bool) -> Result<(), GreetingError> {
    stream.set_nodelay(true)?;
    let peer = TimeoutStream::new(stream, stopped)?;
    peer.write_all(&sizes.greeting(), CONNECT_TIMEOUT)?;
    let mut echo = [0; GREETING_LEN];
    peer.read_exact(&mut echo, CONNECT_TIMEOUT)?;
    match ExchangeSizes::from_greeting(&echo) {
        Some(echoed) if echoed == sizes => Ok(()),
        _ => Err(GreetingError::Foreign),
    }
}

//! TCP request–response: the client's side and the server's.

use crate::clock;
use crate::stamp::Stamps;
use crate::sys::tcp_info;
use crate::twoway::client::{Error, Link, Live, Measured, tick};
use crate::twoway::socket;
use jitlat_core::session::Ending;
use jitlat_core::time::SECOND;
use jitlat_core::twoway::TcpSample;
use jitlat_core::{Source, Span, Stamp};
use jitlat_proto::reqresp::{GREETING_LEN, Requester, Sizes, respond};
use jitlat_proto::twoway::pinger::Received;
use jitlat_proto::twoway::{Pinger, Plan, Transmit};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(5);
const SLICE: Span = Span::millis(100);
/// A connection on which nothing is asked for this long is closed.
const IDLE: Duration = Duration::from_secs(60);

/// Runs a test of `sizes` against the responder at `to`.
pub fn run(
    sizes: Sizes,
    plan: Plan,
    link: &Link,
    stop: &AtomicBool,
) -> Result<(Measured<Requester>, Vec<TcpSample>), Error> {
    let to = link.to;
    let fail = |source: io::Error| match source.kind() {
        io::ErrorKind::ConnectionRefused => Error::Refused(to),
        _ => Error::Send { to, source },
    };
    let (mut stream, notes) = connect(link).map_err(fail)?;
    greet(&mut stream, sizes).map_err(|why| Error::Conversation { to, why })?;
    let local = stream.local_addr().map_err(fail)?;
    stream.set_nonblocking(true).map_err(fail)?;
    let mut host = clock::host_facts();
    host.notes = link.pacing.apply();
    host.notes.extend(notes);
    let mut steps = clock::StepWatch::start();

    let packets = plan.spec.packets();
    let mut pinger = Pinger::new(Requester::new(sizes), plan, Source::User);
    // The kernel's account at each answer: responses come in order, one record each.
    let mut course = Vec::with_capacity(packets.min(1 << 20) as usize);
    // Requests that the connection has not taken yet wait here, whole ones and the rest of one.
    let mut waiting: Vec<u8> = Vec::with_capacity(4 * sizes.request());
    let mut response = vec![0; sizes.response()];
    let mut filled = 0;
    let (mut interrupted, mut lost) = (false, false);
    let mut live = Live::new(link);
    loop {
        loop {
            match stream.read(&mut response[filled..]) {
                Ok(0) => {
                    lost = true;
                    break;
                }
                Ok(n) => {
                    filled += n;
                    if filled == response.len() {
                        let now = tick();
                        let stamp = Stamp { at: now.wall, source: Source::User };
                        let meta = Received {
                            stamp,
                            read: now.wall,
                            length: filled,
                            ttl: None,
                            traffic_class: None,
                        };
                        pinger.handle(&response, &meta, now);
                        course.extend(tcp_info(stream.as_fd()));
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
        while waiting.len() < 64 * sizes.request() {
            match pinger.poll_transmit(tick(), &mut waiting) {
                Some(Transmit::Request(_) | Transmit::Conversation) => {}
                None => break,
            }
            push(&mut stream, &mut waiting, &mut lost);
            pinger.handle_timeout(tick());
        }
        push(&mut stream, &mut waiting, &mut lost);
        let Some(due) = pinger.poll_timeout() else { break };
        let now = clock::steady();
        live.tell(&pinger, now);
        let span = (due - now).0.clamp(0, SLICE.0);
        if span > 0 {
            let writable = if waiting.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
            let mut ready = [PollFd::new(stream.as_fd(), PollFlags::POLLIN | writable)];
            let _ = ppoll(&mut ready, Some(TimeSpec::new(span / SECOND, span % SECOND)), None);
        }
    }
    host.sync_after = clock::sync_state();
    host.clock_step = Some(steps.look());
    let ending = match (lost, interrupted) {
        (true, _) => Ending::PeerLost,
        (_, true) => Ending::Interrupted,
        _ => Ending::Complete,
    };
    let outcome = pinger.finish_up();
    let measured = Measured { outcome, local, stamps: Stamps::User, host, ending, unsent: 0, refused: 0 };
    Ok((measured, course))
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

/// Connects, marked from the first packet on; also what had to be left out.
fn connect(link: &Link) -> io::Result<(TcpStream, Vec<String>)> {
    let socket = Socket::new(Domain::for_address(link.to), Type::STREAM, Some(Protocol::TCP))?;
    let mut notes = Vec::new();
    socket::mark(&socket, link.to, &link.marking, &mut notes)?;
    socket.connect_timeout(&link.to.into(), CONNECT)?;
    Ok((socket.into(), notes))
}

fn greet(stream: &mut TcpStream, sizes: Sizes) -> Result<(), String> {
    let exchange = |stream: &mut TcpStream| -> io::Result<[u8; GREETING_LEN]> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(CONNECT))?;
        stream.set_write_timeout(Some(CONNECT))?;
        stream.write_all(&sizes.greeting())?;
        let mut echo = [0; GREETING_LEN];
        stream.read_exact(&mut echo)?;
        Ok(echo)
    };
    match exchange(stream) {
        Ok(echo) if Sizes::from_greeting(&echo) == Some(sizes) => Ok(()),
        Ok(_) => Err("answered, but not as a jitlat responder: is that the right port?".to_owned()),
        Err(e) => Err(format!("did not return the greeting ({e}): is a jitlat responder on that port?")),
    }
}

/// Answers one connection until it ends, falls silent, or `stop` is set.
pub(crate) fn serve(mut stream: TcpStream, stop: &AtomicBool) -> io::Result<u64> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    stream.set_write_timeout(Some(CONNECT))?;
    let mut greeting = [0; GREETING_LEN];
    if !fill(&mut stream, &mut greeting, stop)? {
        return Ok(0);
    }
    let Some(sizes) = Sizes::from_greeting(&greeting) else { return Ok(0) };
    stream.write_all(&greeting)?;
    let (mut request, mut response) = (vec![0; sizes.request()], vec![0; sizes.response()]);
    let mut answered = 0;
    while fill(&mut stream, &mut request, stop)? {
        let arrived = clock::wall();
        respond(&request, arrived, clock::wall(), &mut response);
        stream.write_all(&response)?;
        answered += 1;
    }
    Ok(answered)
}

/// Fills `buffer`; false where the connection ended, fell silent or `stop` was set before that.
fn fill(stream: &mut TcpStream, buffer: &mut [u8], stop: &AtomicBool) -> io::Result<bool> {
    let mut filled = 0;
    let mut last = std::time::Instant::now();
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Ok(false),
            Ok(n) => {
                filled += n;
                last = std::time::Instant::now();
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if stop.load(Ordering::Relaxed) || last.elapsed() > IDLE {
                    return Ok(false);
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

//! Life of a UDP flow: bind a socket, find the peer, run the stream.

use super::context::{Context, Instruction};
use super::error::FlowError;
use super::idle::{MAX_WAIT_MS, WakeReason};
use super::rendezvous::{Notify, Registration};
use super::{receive, send, stream_socket};
use crate::clock::steady;
use crate::launch::Launch;
use crate::pace::PaceMode;
use crate::sockets;
use crate::stamp::{StampMode, StampedPackets};
use crate::sys::{self, AsFd};
use jitlat_core::Span;
use jitlat_core::Transport::Udp;
use jitlat_proto::jitlat::flow::{FlowReport, FlowRole, Meeting};
use jitlat_proto::jitlat::packet::{HEADER_LEN, PacketHeader};
use jitlat_proto::jitlat::rendezvous::ExpectedPeer;
use jitlat_proto::jitlat::stream::Greeter;
use std::io;
use std::net::{SocketAddr, UdpSocket};

pub fn run(context: Context) {
    let id = context.opening.flow;
    let reporter = context.reporter.clone();
    if let Err(error) = run_to_end(context) {
        reporter.report(FlowReport::Failed(id, error.to_string()));
    }
}

/// Source of the flow's socket before the peer is known: a registration on a shared port, or the flow's own
/// socket.
enum UdpEntrance {
    Rendezvous(Registration),
    Socket(UdpSocket),
}

fn run_to_end(mut context: Context) -> Result<(), FlowError> {
    let entrance = open(&context)?;
    let local = match &entrance {
        UdpEntrance::Rendezvous(registration) => Ok(registration.local),
        UdpEntrance::Socket(socket) => socket.local_addr(),
    };
    let local = local.map_err(FlowError::Address)?;
    context.reporter.report(FlowReport::Opened(context.opening.flow, local.port()));
    let (peer, greeting) = loop {
        match context.wait(None, MAX_WAIT_MS) {
            WakeReason::Instructed(Instruction::Connect(peer, greeting)) => break (peer, greeting),
            WakeReason::Instructed(_) | WakeReason::Look => {}
            WakeReason::Over => return Ok(()),
        }
    };
    let socket = match entrance {
        UdpEntrance::Socket(socket) => socket,
        // A separate socket on the shared port: once connected, it receives only the packets of this peer.
        UdpEntrance::Rendezvous(_) => {
            sockets::bind_udp(local).map_err(|source| FlowError::Bind { transport: Udp, local, source })?
        }
    };
    let stamped =
        if context.opening.role == FlowRole::Send { StampedPackets::SENT } else { StampedPackets::RECEIVED };
    let prepared = stream_socket::prepare_udp(&socket, stamped, context.marks(), stamps(&context));
    let (stamps, notes) = prepared.map_err(|source| FlowError::Prepare { transport: Udp, local, source })?;
    context.reporter.note(notes);
    let launch = match (context.opening.role, context.settings.sending.pacing.mode) {
        (FlowRole::Send, Some(PaceMode::Etf)) => {
            Some(Launch::prepare(context.settings.launch_host, socket.as_fd(), local.ip())?)
        }
        _ => None,
    };
    let first = connect(&context, &socket, peer, greeting.is_some())?;
    match greeting {
        Some((token, timeout)) => greet(&context, &socket, launch, peer, token, timeout)?,
        None => answer(&socket, launch, context.opening.meeting),
    }
    context.reporter.report(FlowReport::Ready(context.opening.flow));
    if !wait_for_start(&context, &socket, launch, first) {
        return Ok(());
    }
    match context.opening.role {
        FlowRole::Send => send::udp(&context, &socket, stamps, launch),
        FlowRole::Receive => receive::udp(&mut context, &socket),
    }
    Ok(())
}

/// Minimum period of a stream with transmit stamps. Transmit stamps cost about one system call per packet,
/// which would limit the rate of faster streams.
const STAMPED_PERIOD: Span = Span::micros(20);

fn stamps(context: &Context) -> StampMode {
    let (spec, wanted) = (&context.opening.spec, StampMode::from(context.opening.stamps));
    let batches = matches!(spec.schedule(), jitlat_core::Schedule::Burst { .. });
    if context.opening.role == FlowRole::Send
        && !batches
        && spec.period() < STAMPED_PERIOD
        && wanted == StampMode::Kernel
    {
        context.reporter.note([format!(
            "send times are the program's own clock readings at periods below {} us: kernel stamps would limit the rate",
            STAMPED_PERIOD.0 / 1000
        )]);
        return StampMode::User;
    }
    wanted
}

fn open(context: &Context) -> Result<UdpEntrance, FlowError> {
    let opening = &context.opening;
    let mut local = context.local();
    let attempt = |local: SocketAddr| match opening.meeting {
        Meeting::Greeting(token) => {
            let (flow, reporter) = (opening.flow, context.reporter.clone());
            let notify =
                Notify::Greeting(Box::new(move |from| reporter.report(FlowReport::Greeted(flow, from))));
            let rendezvous = &context.settings.rendezvous;
            let registered = rendezvous.wait(local, opening.peer, ExpectedPeer::Token(token), notify);
            registered.map(UdpEntrance::Rendezvous)
        }
        Meeting::Dial if context.is_alone() => sockets::bind_udp_alone(local).map(UdpEntrance::Socket),
        Meeting::Dial | Meeting::Listen => sockets::bind_udp(local).map(UdpEntrance::Socket),
    };
    match attempt(local) {
        // The requested port is not available, so let the system choose another one.
        Err(_) if opening.any_port_will_do && local.port() != 0 => {
            local.set_port(0);
            attempt(local)
        }
        other => other,
    }
    .map_err(|source| FlowError::Bind { transport: Udp, local, source })
}

/// Connects the socket to its peer. If the peer's port is unknown, returns the peer instead: its port is taken later
/// from the first packet, which stays queued for the stream.
fn connect(
    context: &Context,
    socket: &UdpSocket,
    peer: SocketAddr,
    greets: bool,
) -> Result<Option<SocketAddr>, FlowError> {
    if peer.port() == 0 {
        return Ok(Some(peer));
    }
    let tied = socket.connect(peer).and_then(|()| match context.opening.meeting {
        // A classic receiver's socket may already contain the stream's first packets.
        Meeting::Dial if context.opening.role == FlowRole::Receive && !greets => Ok(()),
        _ => sockets::discard_waiting(socket),
    });
    tied.map(|()| None).map_err(|source| FlowError::Connect { transport: Udp, peer, source })
}

const PROHIBITED: &str = "a router or firewall on the path reports that this traffic is prohibited (ICMP)";

/// Describes an error that occurs when this host or the far host refuses packets; `None` for other errors.
fn refusal(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some("the far host reports that nothing listens there"),
        _ if sys::is_own_firewall(error) => {
            Some("this host does not send the packets: does its own firewall block them?")
        }
        _ => None,
    }
}

/// Sends a greeting, with a launch time if the socket requires one.
fn send_greeting(socket: &UdpSocket, launch: Option<Launch>, hello: &[u8]) -> io::Result<usize> {
    match launch {
        Some(launch) => launch.send_soon(socket.as_fd(), hello),
        None => socket.send(hello),
    }
}

/// Sends greetings until one is answered.
fn greet(
    context: &Context,
    socket: &UdpSocket,
    launch: Option<Launch>,
    peer: SocketAddr,
    token: u64,
    timeout: Span,
) -> Result<(), FlowError> {
    let mut greeter = Greeter::new(token, steady(), timeout);
    let mut reason = "no answer received";
    let mut buffer = [0; HEADER_LEN];
    while !greeter.is_done() {
        let now = steady();
        if greeter.gave_up(now) {
            let from_peer = context.opening.role == FlowRole::Receive;
            return Err(FlowError::Silent { peer, reason, timeout, from_peer });
        }
        if let Some(hello) = greeter.poll_send(now)
            && let Err(e) = send_greeting(socket, launch, &hello)
        {
            reason = refusal(&e).unwrap_or(reason);
        }
        // Rounded up to whole milliseconds, so that the wait does not end just before the deadline.
        let left = (greeter.deadline() - steady()).0.max(0) / 1_000_000 + 1;
        match context.wait(Some(socket.as_fd()), left.min(MAX_WAIT_MS.into()) as u16) {
            WakeReason::Over => return Ok(()),
            WakeReason::Instructed(_) => continue,
            WakeReason::Look => {}
        }
        while let Some(received) = receive(socket, &mut buffer, false) {
            match received {
                Ok(length) => {
                    greeter.handle(&buffer[..length]);
                }
                // Either a router sent an ICMP error, or this host has no route.
                Err(e) if sockets::is_prohibition(&e) => reason = PROHIBITED,
                Err(e) => reason = refusal(&e).unwrap_or(reason),
            }
        }
    }
    Ok(())
}

/// Receives a datagram without blocking; `None` if none is queued. The datagram stays queued if `stays` is true. An error concerns an earlier send and is
/// cleared by this call; the next datagram stays queued.
fn receive(socket: &UdpSocket, buffer: &mut [u8], stays: bool) -> Option<io::Result<usize>> {
    match sys::receive_queued(socket, buffer, stays) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => None,
        received => Some(received),
    }
}

/// Returns the length of the next datagram, which stays queued; `None` if none is queued.
fn peek(socket: &UdpSocket, buffer: &mut [u8]) -> Option<usize> {
    // The loop ends because each error concerns a packet that this socket has sent.
    std::iter::from_fn(|| receive(socket, buffer, true)).find_map(Result::ok)
}

/// Discards the datagram that was last peeked at.
fn discard(socket: &UdpSocket) {
    let _ = receive(socket, &mut [], false);
}

/// Sends the first answer to a greeting that the rendezvous received.
fn answer(socket: &UdpSocket, launch: Option<Launch>, meeting: Meeting) {
    if let Meeting::Greeting(token) = meeting {
        let _ = send_greeting(socket, launch, &PacketHeader::hello(token).to_bytes());
    }
}

/// Answers greetings until the stream starts. A packet that is not a greeting stays queued for the stream.
/// Returns true if the stream is to start.
fn wait_for_start(
    context: &Context,
    socket: &UdpSocket,
    launch: Option<Launch>,
    unknown_peer: Option<SocketAddr>,
) -> bool {
    let mut buffer = [0; HEADER_LEN];
    let mut stream_waits = false;
    loop {
        // The first packet of the stream keeps the socket readable, so polling the socket would return at
        // once.
        let ready = (!stream_waits).then(|| socket.as_fd());
        match context.wait(ready, if stream_waits { 1 } else { MAX_WAIT_MS }) {
            WakeReason::Instructed(Instruction::Start) => break,
            WakeReason::Instructed(_) => {}
            WakeReason::Look => stream_waits = !answer_greetings(context, socket, launch, &mut buffer),
            WakeReason::Over => {
                finish_unstarted(context);
                return false;
            }
        }
    }
    match unknown_peer {
        Some(peer) => meet_first(context, socket, peer),
        None => true,
    }
}

/// Answers all queued greetings; returns false if the next packet is not a greeting.
fn answer_greetings(
    context: &Context,
    socket: &UdpSocket,
    launch: Option<Launch>,
    buffer: &mut [u8; HEADER_LEN],
) -> bool {
    while let Some(length) = peek(socket, buffer) {
        let token = PacketHeader::parse(&buffer[..length]).and_then(|h| h.hello_token());
        match token {
            Some(_) if length == HEADER_LEN => {
                discard(socket);
                if matches!(context.opening.meeting, Meeting::Greeting(ours) if token == Some(ours)) {
                    let _ = send_greeting(socket, launch, buffer);
                }
            }
            _ if context.opening.role == FlowRole::Receive => return false,
            // A sender needs no other packets.
            _ => discard(socket),
        }
    }
    true
}

/// Connects the socket to the source of the first packet from the address of `peer`, a classic peer that did not
/// specify a port; packets from other addresses are discarded. Returns true if the socket was connected.
fn meet_first(context: &Context, socket: &UdpSocket, peer: SocketAddr) -> bool {
    let until = steady() + context.opening.timeouts.silence;
    let mut buffer = [0; HEADER_LEN];
    while steady() < until {
        match context.wait(Some(socket.as_fd()), MAX_WAIT_MS) {
            WakeReason::Over => break,
            WakeReason::Instructed(_) => {}
            WakeReason::Look => match socket.peek_from(&mut buffer) {
                Ok((_, from)) if from.ip().to_canonical() == peer.ip().to_canonical() => {
                    return socket.connect(from).is_ok();
                }
                Ok(_) => discard(socket),
                Err(_) => {}
            },
        }
    }
    finish_unstarted(context);
    false
}

/// Reports the end of a flow that was stopped before its stream started.
fn finish_unstarted(context: &Context) {
    if !context.stop_flags.is_closed() && context.stop_flags.is_stopped() {
        receive::nothing(context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_error_of_an_earlier_packet_costs_no_datagram() {
        let ours = UdpSocket::bind("127.0.0.1:0").unwrap();
        let theirs = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = theirs.local_addr().unwrap();
        ours.connect(at).unwrap();
        drop(theirs);
        // The refusal is queued as an error on the socket. Then a peer starts and sends a packet.
        ours.send(b"hello").unwrap();
        let theirs = UdpSocket::bind(at).unwrap();
        theirs.send_to(b"the first packet", ours.local_addr().unwrap()).unwrap();
        // The error and the datagram must both be queued before the read, because a single read has to find
        // both.
        jitlat_waiting::while_true("time to arrive", Duration::from_millis(20), || true);
        let mut buffer = [0; 32];
        assert_eq!(peek(&ours, &mut buffer), Some(16));
        ours.set_nonblocking(true).unwrap();
        assert_eq!(ours.recv(&mut buffer).unwrap(), 16, "it is still there");
    }
}

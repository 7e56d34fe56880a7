//! Life of a TCP flow: one connection, opened by either side, then the stream in either direction.

use super::context::{Context, Instruction};
use super::error::FlowError;
use super::idle::{MAX_WAIT_MS, WakeReason};
use super::rendezvous::{Notify, Registration};
use super::{receive, send, stream_socket};
use crate::clock::steady;
use crate::sockets::{self, TimeoutStream};
use jitlat_core::Transport::Tcp;
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::jitlat::flow::{FlowReport, FlowRole, Meeting};
use jitlat_proto::jitlat::packet::{HEADER_LEN, PacketHeader};
use jitlat_proto::jitlat::rendezvous::ExpectedPeer;
use socket2::Socket;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Sender;
use std::time::Duration;

pub fn run(context: Context, connections: &Sender<Instruction>) {
    let id = context.opening.flow;
    let reporter = context.reporter.clone();
    if let Err(error) = run_to_end(context, connections) {
        reporter.report(FlowReport::Failed(id, error.to_string()));
    }
}

/// Way in which the connection will be established.
enum TcpEntrance {
    /// Registration, retained until a connection has arrived.
    Rendezvous(#[expect(dead_code, reason = "dropping it withdraws it")] Registration),
    Socket(Socket),
}

fn run_to_end(mut context: Context, connections: &Sender<Instruction>) -> Result<(), FlowError> {
    let (entrance, local) = open(&context, connections)?;
    let id = context.opening.flow;
    context.reporter.report(FlowReport::Opened(id, local.port()));
    let mut met = MetConnection { connection: None, head: Vec::new() };
    let mut entrance = Some(entrance);
    // The instructions are Connect (except for a classic listener), then Start. A connection may arrive at
    // any time.
    let mut started: Option<SteadyTime> = None;
    loop {
        match context.wait(None, MAX_WAIT_MS) {
            WakeReason::Instructed(Instruction::Connected(stream, head)) => {
                let greeted = matches!(context.opening.meeting, Meeting::Greeting(_));
                // A greeting is not part of the stream, but other first bytes are.
                let from = stream.peer_addr().map_err(FlowError::Gone)?;
                met =
                    MetConnection { connection: Some(stream), head: if greeted { Vec::new() } else { head } };
                entrance = None;
                if greeted {
                    context.reporter.report(FlowReport::Greeted(id, from));
                }
            }
            WakeReason::Instructed(Instruction::Connect(peer, greeting)) => {
                met.connection = Some(match (entrance.take(), met.connection.take()) {
                    (_, Some(stream)) => {
                        echo(&stream, peer, context.opening.meeting)?;
                        stream
                    }
                    (Some(TcpEntrance::Socket(socket)), None) => match dial(&context, socket, peer, greeting)
                    {
                        Ok(stream) => stream,
                        // The attempt ended because of a stop; the next wait returns this reason.
                        Err(_) if context.stop_flags.is_stopped() => continue,
                        Err(error) => return Err(error),
                    },
                    (_, None) => return Err(FlowError::NoConnection(peer)),
                });
                context.reporter.report(FlowReport::Ready(id));
            }
            WakeReason::Instructed(Instruction::Start) => started = Some(steady()),
            WakeReason::Look => {}
            WakeReason::Over => {
                if !context.stop_flags.is_closed() && context.stop_flags.is_stopped() {
                    receive::nothing(&context);
                }
                return Ok(());
            }
        }
        let Some(since) = started else { continue };
        if met.connection.is_none() && steady() - since > context.opening.timeouts.silence {
            receive::no_sender(&context);
            return Ok(());
        }
        if let Some(connection) = met.connection.take() {
            // Withdraws the registration, so that no other peer is assigned to this flow.
            drop(entrance);
            let marked = (context.opening.role == FlowRole::Send).then(|| context.marks());
            let notes = stream_socket::prepare_tcp(&connection, marked);
            let refused = |source| FlowError::Prepare { transport: Tcp, local, source };
            context.reporter.note(notes.map_err(refused)?);
            match context.opening.role {
                FlowRole::Send => send::tcp(&context, &connection),
                FlowRole::Receive => receive::tcp(&mut context, &connection, &met.head),
            }
            return Ok(());
        }
    }
}

/// A connection, with the bytes read from it before its flow was known.
struct MetConnection {
    connection: Option<TcpStream>,
    head: Vec<u8>,
}

fn open(
    context: &Context,
    connections: &Sender<Instruction>,
) -> Result<(TcpEntrance, SocketAddr), FlowError> {
    let opening = &context.opening;
    let mut local = context.local();
    let expected = match opening.meeting {
        Meeting::Dial => None,
        Meeting::Greeting(token) => Some(ExpectedPeer::Token(token)),
        Meeting::Listen => Some(ExpectedPeer::AnyConnection),
    };
    let bind = if context.is_alone() { sockets::bind_tcp_alone } else { sockets::bind_tcp };
    let attempt = |local: SocketAddr| match expected {
        None => bind(local).and_then(|socket| {
            let bound = socket.local_addr()?.as_socket().unwrap_or(local);
            Ok((TcpEntrance::Socket(socket), bound))
        }),
        Some(expected) => {
            let (connections, stop_flags) = (connections.clone(), context.stop_flags.clone());
            let notify = Notify::Connection(Box::new(move |stream, head| {
                let _ = connections.send(Instruction::Connected(stream, head));
                stop_flags.waker.wake();
            }));
            let registration = context.settings.rendezvous.wait(local, opening.peer, expected, notify)?;
            let bound = registration.local;
            Ok((TcpEntrance::Rendezvous(registration), bound))
        }
    };
    match attempt(local) {
        // The requested port is not available, so let the system choose another one.
        Err(_) if opening.any_port_will_do && local.port() != 0 => {
            local.set_port(0);
            attempt(local)
        }
        other => other,
    }
    .map_err(|source| FlowError::Bind { transport: Tcp, local, source })
}

/// Timeout for a classic peer to accept the connection.
const ACCEPT_TIMEOUT: Span = Span::seconds(15);

fn dial(
    context: &Context,
    socket: Socket,
    peer: SocketAddr,
    greeting: Option<(u64, Span)>,
) -> Result<TcpStream, FlowError> {
    let timeout = greeting.map_or(ACCEPT_TIMEOUT, |(_, timeout)| timeout);
    let timeout = Duration::from_nanos(timeout.0.max(1) as u64);
    let stopped = || context.stop_flags.is_stopped();
    let stream = sockets::connect(socket, peer, timeout, stopped).map_err(|source| FlowError::Connect {
        transport: Tcp,
        peer,
        source,
    })?;
    if let Some((token, _)) = greeting {
        let hello = PacketHeader::hello(token).to_bytes();
        let mut echo = [0; HEADER_LEN];
        let mut exchange = || -> std::io::Result<()> {
            stream.set_nodelay(true)?;
            let peer = TimeoutStream::new(&stream, stopped)?;
            peer.write_all(&hello, timeout)?;
            peer.read_exact(&mut echo, timeout)
        };
        exchange().map_err(|source| FlowError::Greeting { peer, source })?;
        if echo != hello {
            return Err(FlowError::Foreign(peer));
        }
    }
    Ok(stream)
}

fn echo(mut stream: &TcpStream, peer: SocketAddr, meeting: Meeting) -> Result<(), FlowError> {
    let Meeting::Greeting(token) = meeting else { return Ok(()) };
    let answered = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_write_timeout(Some(Duration::from_secs(5))))
        .and_then(|()| stream.write_all(&PacketHeader::hello(token).to_bytes()));
    answered.map_err(|source| FlowError::Greeting { peer, source })
}

//! [`RpmServer`]: answers responsiveness tests over HTTP/2 and TLS.
//!
//! One thread serves all connections. It waits for events only, so an idle server does not wake up.

use super::certificate::ServerCertificate;
use super::load::{data, poll_capacity};
use super::paced::{PacedStream, SendSize};
use super::{ALPN, MAX_HEADERS, RpmError, WINDOW};
use crate::audit;
use crate::clock::steady;
use crate::reflect::{OpenReflector, Reflector, ReflectorContext};
use crate::sockets;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::policy::{self, Ask, Grant, Service};
use jitlat_proto::rpm::resources::{LARGE_PATH, SMALL_PATH, TestResources, UPLOAD_PATH, WebUrl};
use jitlat_proto::rpm::{CONFIG_PATH, LARGE_BYTES, SMALL_BYTES};
use jitlat_proto::twoway::reflect::Silence;
use socket2::Socket;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Maximum time for the handshakes of a client.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Maximum time without any byte in either direction.
const IDLE_LIMIT: Span = Span::seconds(15);
/// Maximum time without an open request. Some clients never close the connections of their probes.
const UNUSED_LIMIT: Span = Span::seconds(3);
/// Time between checks of the limits of a connection.
const CHECKED_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of requests that a connection may have open.
const MAX_STREAMS: u32 = 128;
/// Number of bytes of an upload that are counted at a time.
const UPLOAD_PIECE: usize = 16 << 10;
/// Pause after a failure to accept: no descriptors are free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers responsiveness tests.
#[derive(Debug)]
pub struct RpmServer {
    /// TCP port.
    pub port: u16,
    /// Certificate of this server.
    pub certificate: ServerCertificate,
}

impl Reflector for RpmServer {
    fn name(&self) -> &'static str {
        "responsiveness tests"
    }

    fn service(&self) -> Service {
        policy::RPM
    }

    fn addresses(&self, ips: &[IpAddr]) -> Vec<SocketAddr> {
        ips.iter().map(|ip| SocketAddr::new(*ip, self.port)).collect()
    }

    fn open(&self, at: SocketAddr, shared: &ReflectorContext) -> io::Result<OpenReflector> {
        let tls = self.certificate.server().map_err(|e: RpmError| io::Error::other(e.to_string()))?;
        let listener = sockets::listen_tcp(at)?;
        let address = listener.local_addr()?;
        shared.end_waits_on(&Socket::from(listener.try_clone()?))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let serving = ServerState { shared: shared.clone(), tls: TlsAcceptor::from(tls), address };
        let run = Box::new(move || {
            if let Err(error) = runtime.block_on(accept(listener, Arc::new(serving))) {
                tracing::error!(%error, "responsiveness tests are no longer answered");
            }
        });
        Ok(OpenReflector { address, run })
    }
}

/// State that all connections share.
struct ServerState {
    shared: ReflectorContext,
    tls: TlsAcceptor,
    /// Own address, for clients that name no host.
    address: SocketAddr,
}

/// Accepts connections until the server stops, which shuts the listener down.
async fn accept(listener: std::net::TcpListener, serving: Arc<ServerState>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let shared = &serving.shared;
    loop {
        let accepted = listener.accept().await;
        if shared.is_stopping() {
            return Ok(());
        }
        match accepted {
            Ok((stream, peer)) => {
                match shared.gate.admit(policy::RPM, peer.ip(), Ask::CONNECTION, steady()) {
                    Ok(grant) => {
                        let serving = Arc::clone(&serving);
                        tokio::spawn(async move {
                            if let Err(error) = serve(stream, peer, grant, serving).await {
                                tracing::debug!(%peer, %error, "a connection of a responsiveness test ended");
                            }
                        });
                    }
                    Err(why) => {
                        shared.counters.silent(Silence::of(&why));
                        audit::refused(policy::RPM, peer, &why);
                    }
                }
            }
            // A connection that no longer exists, or a lack of descriptors: the next one may succeed.
            Err(error) => {
                tracing::debug!(%error, "accepting a connection of a responsiveness test");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// State of a connection that its requests share.
struct ConnectionState {
    serving: Arc<ServerState>,
    peer: SocketAddr,
    grant: Grant,
    size: SendSize,
    /// Time of the last byte, in ns on the steady clock.
    used: AtomicI64,
}

impl ConnectionState {
    fn touch(&self) {
        let now = steady();
        self.used.store(now.0, Ordering::Relaxed);
        self.grant.touch(now);
    }

    /// Counts `bytes` against the limits of the client, and waits until they permit them.
    async fn await_turn(&self, bytes: usize) {
        while let Err(wait) = self.serving.shared.take(self.peer.ip(), bytes, steady()) {
            tokio::time::sleep(pause(wait)).await;
        }
    }
}

/// Returns the time to wait before asking again for a turn that is possible after `wait`.
fn pause(wait: Span) -> Duration {
    Duration::from_nanos(wait.0.clamp(1_000_000, 1_000_000_000).unsigned_abs())
}

/// Serves one connection until it ends, exceeds a limit, or the server stops.
async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    grant: Grant,
    serving: Arc<ServerState>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let began = steady();
    let longest = serving.shared.policy().duration(policy::RPM);
    let ends = longest.map_or(SteadyTime(i64::MAX), |longest| began + longest);
    let limit = |ends: SteadyTime| Duration::from_nanos((ends - steady()).0.max(0).unsigned_abs());
    let handshakes = async {
        stream.set_nodelay(true)?;
        serving.shared.prefer(&stream);
        let stream = serving.tls.accept(stream).await?;
        if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
            return Err("the client does not offer HTTP/2".into());
        }
        let stream = PacedStream::new(stream.into());
        let size = stream.send_size();
        let connection = h2::server::Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_header_list_size(MAX_HEADERS)
            .max_concurrent_streams(MAX_STREAMS)
            .max_send_buffer_size(super::connection::MAX_SEND_BUFFER)
            .handshake::<_, Bytes>(stream)
            .await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((connection, size))
    };
    let (mut connection, size) = tokio::time::timeout(HANDSHAKE_LIMIT.min(limit(ends)), handshakes).await??;
    let used = AtomicI64::new(steady().0);
    let state = Arc::new(ConnectionState { serving, peer, grant, size, used });
    // Requests end with the connection.
    let mut requests = JoinSet::new();
    loop {
        while requests.try_join_next().is_some() {}
        match tokio::time::timeout(CHECKED_EVERY.min(limit(ends)), connection.accept()).await {
            Ok(None) => return Ok(()),
            Ok(Some(request)) => {
                let (request, respond) = request?;
                state.touch();
                state.serving.shared.counters.answered(1);
                requests.spawn(answer(request, respond, Arc::clone(&state)));
            }
            Err(_) => {}
        }
        let now = steady();
        let idle = now - SteadyTime(state.used.load(Ordering::Relaxed));
        if now >= ends || idle > IDLE_LIMIT || state.grant.is_evicted() {
            // Dropping the connection resets its streams.
            return Ok(());
        }
        if idle > UNUSED_LIMIT && requests.is_empty() {
            connection.graceful_shutdown();
        }
    }
}

/// Answers one request.
async fn answer(request: Request<RecvStream>, respond: SendResponse<Bytes>, state: Arc<ConnectionState>) {
    let answered = match (request.method(), request.uri().path()) {
        (&Method::GET, SMALL_PATH) => small(respond, &state),
        (&Method::GET, LARGE_PATH) => large(respond, &state).await,
        (&Method::POST, UPLOAD_PATH) => upload(request.into_body(), respond, &state).await,
        (&Method::GET, CONFIG_PATH) => configuration(&request, respond, &state),
        (_, SMALL_PATH | LARGE_PATH | UPLOAD_PATH | CONFIG_PATH) => {
            refuse(respond, StatusCode::METHOD_NOT_ALLOWED)
        }
        _ => refuse(respond, StatusCode::NOT_FOUND),
    };
    if let Err(error) = answered {
        // Clients end downloads and uploads by a reset.
        tracing::trace!(peer = %state.peer, %error, "a request of a responsiveness test ended");
    }
}

fn head(status: StatusCode, kind: &str, length: Option<u64>) -> Response<()> {
    let mut head = Response::new(());
    *head.status_mut() = status;
    if let Ok(kind) = kind.parse() {
        head.headers_mut().insert(CONTENT_TYPE, kind);
    }
    if let Some(length) = length {
        head.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    head
}

const BYTES: &str = "application/octet-stream";

fn refuse(mut respond: SendResponse<Bytes>, status: StatusCode) -> Result<(), h2::Error> {
    let mut head = Response::new(());
    *head.status_mut() = status;
    respond.send_response(head, true).map(drop)
}

fn small(mut respond: SendResponse<Bytes>, state: &ConnectionState) -> Result<(), h2::Error> {
    // Counted without waiting: a delay would be in the result.
    let _ = state.serving.shared.take(state.peer.ip(), SMALL_BYTES, steady());
    let mut stream = respond.send_response(head(StatusCode::OK, BYTES, None), false)?;
    stream.send_data(data().slice(..SMALL_BYTES), true)
}

fn configuration(
    request: &Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    state: &ConnectionState,
) -> Result<(), h2::Error> {
    // The name by which the client knows this server, and for which it checks the certificate.
    let named = request.uri().authority().map(|authority| format!("https://{authority}/"));
    let authority = match named.and_then(|url| url.parse::<WebUrl>().ok()) {
        Some(url) => url.authority(),
        None => state.serving.address.to_string(),
    };
    let document = Bytes::from(TestResources::document(&authority));
    // Counted without refusing: a test that follows another one at once starts, and its load waits for its turn.
    let _ = state.serving.shared.take(state.peer.ip(), document.len(), steady());
    audit::accepted(policy::RPM, state.peer, "a responsiveness test");
    let head = head(StatusCode::OK, "application/json", Some(document.len() as u64));
    respond.send_response(head, false)?.send_data(document, true)
}

async fn large(mut respond: SendResponse<Bytes>, state: &ConnectionState) -> Result<(), h2::Error> {
    let mut stream = respond.send_response(head(StatusCode::OK, BYTES, Some(LARGE_BYTES)), false)?;
    let mut left = LARGE_BYTES;
    while left > 0 {
        let sent = send(&mut stream, left, state).await?;
        left -= sent;
    }
    Ok(())
}

/// Sends a piece of the large object, of which `left` bytes are left, as soon as the connection takes one.
async fn send(stream: &mut SendStream<Bytes>, left: u64, state: &ConnectionState) -> Result<u64, h2::Error> {
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(state.size.get());
    stream.reserve_capacity(length);
    let capacity = poll_fn(|cx| poll_capacity(stream, cx)).await?;
    let length = capacity.min(length);
    state.await_turn(length).await;
    state.touch();
    stream.send_data(data().slice(..length), length as u64 == left)?;
    Ok(length as u64)
}

async fn upload(
    mut body: RecvStream,
    mut respond: SendResponse<Bytes>,
    state: &ConnectionState,
) -> Result<(), h2::Error> {
    // The data are read and discarded at once, and fill no memory. Flow control slows a client down that exceeds its
    // rate: what it sent is returned to its window later.
    let mut owed = 0;
    loop {
        let mut wait = None;
        while owed > 0 && wait.is_none() {
            let piece = owed.min(UPLOAD_PIECE);
            match state.serving.shared.take(state.peer.ip(), piece, steady()) {
                Ok(()) => {
                    body.flow_control().release_capacity(piece)?;
                    owed -= piece;
                }
                Err(again) => wait = Some(pause(again)),
            }
        }
        let data = match wait {
            None => body.data().await,
            Some(wait) => match tokio::time::timeout(wait, body.data()).await {
                Ok(data) => data,
                Err(_) => continue,
            },
        };
        let Some(data) = data else { break };
        owed += data?.len();
        state.touch();
    }
    respond.send_response(head(StatusCode::OK, BYTES, Some(0)), true).map(drop)
}

//! [`BrowserServer`]: accepts connections within the access policy.

use super::BrowserResults;
use super::results::ReportShelf;
use super::routes::router;
use crate::clock::steady;
use crate::reflect::{OpenReflector, Reflector, ReflectorContext};
use crate::rpm::certificate::ServerCertificate;
use crate::{audit, sockets};
use axum::Router;
use axum::extract::Extension;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use jitlat_proto::policy::{self, Ask, Grant, Service};
use jitlat_proto::twoway::reflect::Silence;
use socket2::Socket;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// Time for the TLS handshake, and for the headers of a request.
const GREETING_LIMIT: Duration = Duration::from_secs(10);
/// Maximum time of a connection, apart from a test on it: a page and its files take less than a second.
const CONNECTION_LIMIT: Duration = Duration::from_secs(30);
/// Time between checks whether a connection must end.
const CHECKED_EVERY: Duration = Duration::from_secs(1);
/// Maximum size of a request's first line and headers, in bytes.
const MAX_HEADER_BYTES: usize = 16 << 10;
/// Maximum number of headers.
const MAX_HEADERS: usize = 64;
/// Pause after a failure to accept: no descriptors are free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the page for measurements by browsers.
#[derive(Debug)]
pub struct BrowserServer {
    /// TCP port.
    pub port: u16,
    /// Certificate for HTTPS; `None`: the page is served over HTTP.
    pub certificate: Option<ServerCertificate>,
    /// Receiver of results.
    pub results: Arc<dyn BrowserResults>,
}

impl Reflector for BrowserServer {
    fn name(&self) -> &'static str {
        "browsers"
    }

    fn service(&self) -> Service {
        policy::WEB
    }

    fn addresses(&self, ips: &[IpAddr]) -> Vec<SocketAddr> {
        ips.iter().map(|ip| SocketAddr::new(*ip, self.port)).collect()
    }

    fn open(&self, at: SocketAddr, shared: &ReflectorContext) -> io::Result<OpenReflector> {
        let tls = self.certificate.as_ref().map(ServerCertificate::web_server).transpose();
        let tls = tls.map_err(|e| io::Error::other(e.to_string()))?.map(TlsAcceptor::from);
        let listener = sockets::listen_tcp(at)?;
        let address = listener.local_addr()?;
        shared.end_waits_on(&Socket::from(listener.try_clone()?))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(1)
            .thread_name("browsers")
            .build()?;
        let serving = Arc::new(BrowserState {
            shared: shared.clone(),
            results: self.results.clone(),
            reports: ReportShelf::default(),
            making: Arc::new(Semaphore::new(1)),
        });
        let run = Box::new(move || {
            if let Err(error) = runtime.block_on(accept(listener, tls, serving)) {
                tracing::error!(%error, "the page for browsers is no longer served");
            }
            // A report that is being made must not delay the end.
            runtime.shutdown_timeout(CHECKED_EVERY);
        });
        Ok(OpenReflector { address, run })
    }
}

/// State that all connections share.
pub(super) struct BrowserState {
    pub shared: ReflectorContext,
    pub results: Arc<dyn BrowserResults>,
    pub reports: ReportShelf,
    /// Permit to make a report.
    pub making: Arc<Semaphore>,
}

/// A connection of a browser. Its grant is released with the last clone: a WebSocket continues to hold it.
#[derive(Clone)]
pub(super) struct BrowserConnection {
    pub peer: SocketAddr,
    /// Own address.
    pub local: SocketAddr,
    pub grant: Arc<Grant>,
}

/// Accepts connections until the server stops, which shuts the listener down.
async fn accept(
    listener: std::net::TcpListener,
    tls: Option<TlsAcceptor>,
    serving: Arc<BrowserState>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let router = router(serving.clone());
    let shared = &serving.shared;
    loop {
        let accepted = listener.accept().await;
        if shared.is_stopping() {
            return Ok(());
        }
        match accepted {
            Ok((stream, peer)) => {
                match shared.gate.admit(policy::WEB, peer.ip(), Ask::CONNECTION, steady()) {
                    Ok(grant) => {
                        let Ok(local) = stream.local_addr() else { continue };
                        let connection = BrowserConnection { peer, local, grant: Arc::new(grant) };
                        let router = router.clone();
                        shared.prefer(&stream);
                        tokio::spawn(greet(stream, tls.clone(), router, connection));
                    }
                    Err(why) => {
                        shared.counters.silent(Silence::of(&why));
                        audit::refused(policy::WEB, peer, &why);
                    }
                }
            }
            // A connection that no longer exists, or a lack of descriptors: the next one may succeed.
            Err(error) => {
                tracing::debug!(%error, "accepting a connection of a browser failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Performs the TLS handshake if there is one, and answers the requests of a connection.
async fn greet(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router, connection: BrowserConnection) {
    // Otherwise the kernel may delay answers.
    let _ = stream.set_nodelay(true);
    match tls {
        None => answer(stream, router, connection).await,
        Some(tls) => match tokio::time::timeout(GREETING_LIMIT, tls.accept(stream)).await {
            Ok(Ok(stream)) => answer(stream, router, connection).await,
            Ok(Err(error)) => {
                tracing::debug!(peer = %connection.peer, %error, "a TLS handshake of a browser failed");
            }
            Err(_) => {}
        },
    }
}

/// Answers requests until the connection ends, becomes a WebSocket, lasts too long, or has to make room.
async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    router: Router,
    connection: BrowserConnection,
) {
    let BrowserConnection { peer, grant, .. } = connection.clone();
    let router = router.layer(Extension(connection));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(GREETING_LIMIT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .with_upgrades();
    let mut served = pin!(served);
    let mut left = CONNECTION_LIMIT;
    while !left.is_zero() && !grant.is_evicted() {
        match tokio::time::timeout(CHECKED_EVERY, served.as_mut()).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => return tracing::debug!(%peer, %error, "a connection of a browser ended"),
            Err(_) => left = left.saturating_sub(CHECKED_EVERY),
        }
    }
}

//! [`Web`]: accepts connections within limits, for pages and for pushes.

use crate::access::ReadAccess;
use crate::app::{App, router};
use crate::client::ByteStream;
use crate::connections::{ConnectionLimits, Connections};
use crate::expensive::AT_ONCE;
use crate::limits::{MAX_HEADER_BYTES, MAX_HEADERS, TimeoutConnection};
use crate::push::{self, MAX_BODIES, PushState};
use crate::run::Starters;
use crate::{Settings, WebError, events, metrics};
use axum::extract::{Extension, Request};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use jitlat_proto::access::ClientAddress as Client;
use jitlat_proto::push::earlier;
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;
use std::future::{Future, poll_fn};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

/// Pause after a failure to accept a connection.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Limits of connections on which hosts push.
const PUSH_CONNECTIONS: ConnectionLimits = ConnectionLimits { all: 512, of_one: 32, kept: 128 };
/// Time for the first bytes of a connection, and for its TLS handshake.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the answers to [`Web::answer`].
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for the last bytes of a connection that is refused.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two looks at the first bytes while they are too few to recognise the protocol.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Answer to HTTP on a port that speaks HTTPS.
const USE_HTTPS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
                           This port speaks HTTPS only: write https:// in front of the address.\n";

/// Address of the client that sent a request.
#[derive(Clone, Copy, Debug)]
pub struct ClientAddress(pub IpAddr);

/// Server of pages and pushes.
#[derive(Debug)]
pub struct Web {
    app: Arc<App>,
    push: Option<Arc<PushState>>,
    doors: Vec<Door>,
}

/// Address on which the server listens, and what it serves there.
struct Door {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    pages: bool,
    pushes: bool,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door")
            .field("address", &self.address)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

impl Web {
    /// Opens the archive and starts to listen.
    ///
    /// # Errors
    /// [`WebError`], for example if other hosts could connect but no access rule is set.
    pub fn bind(settings: &Settings) -> Result<Web, WebError> {
        if settings.pages {
            check_access(settings)?;
        }
        let app = Arc::new(App::new(settings)?);
        let push = settings.push.as_ref().map(PushState::new).transpose()?.map(Arc::new);
        let tls = |identity: &Option<crate::Identity>, asks: Option<Arc<dyn ClientCertVerifier>>| {
            let config = identity.as_ref().map(|identity| identity.server(asks)).transpose();
            config.map(|config| config.map(TlsAcceptor::from))
        };
        let mut doors = Vec::new();
        for at in settings.push.iter().flat_map(|push| &push.listen) {
            // Pages at the same port are served by the same listener.
            let shown = !matches!(settings.access, ReadAccess::Local);
            let pages = settings.pages && shown && at.port() != 0 && at.port() == settings.listen.port();
            let certificates = push.as_ref().map(|push| &push.certificates).filter(|all| !all.is_empty());
            let asks = certificates.map(|certificates| certificates.verifier(pages));
            let identity = settings.push.as_ref().and_then(|push| push.identity.clone());
            doors.push(Door { pages, pushes: true, ..Door::open(*at, tls(&identity, asks)?)? });
        }
        if settings.pages && !doors.iter().any(|door| door.pages) {
            doors.push(Door { pages: true, ..Door::open(settings.listen, tls(&settings.identity, None)?)? });
        }
        Ok(Web { app, push, doors })
    }

    /// Returns the address on which pages are served; without pages, the first address; 0.0.0.0:0 if nothing is served.
    pub fn address(&self) -> SocketAddr {
        let page = self.doors.iter().find(|door| door.pages).or(self.doors.first());
        page.map_or(SocketAddr::from(([0, 0, 0, 0], 0)), |door| door.address)
    }

    /// Returns the scheme of the page's address.
    pub fn scheme(&self) -> &'static str {
        let page = self.doors.iter().find(|door| door.pages);
        if page.is_some_and(|door| door.tls.is_some()) { "https" } else { "http" }
    }

    /// Returns the addresses on which hosts push tests.
    pub fn push_addresses(&self) -> Vec<SocketAddr> {
        self.doors.iter().filter(|door| door.pushes).map(|door| door.address).collect()
    }

    /// Answers requests until `stop` is readable, or its other end is closed.
    ///
    /// # Errors
    /// [`WebError::Runtime`].
    pub fn run(self, stop: impl AsFd) -> Result<(), WebError> {
        let Web { app, push, doors } = self;
        // One thread accepts connections. A few blocking threads read the archive, one of them for expensive pages; three
        // more threads watch the archive for new tests, follow running tests, and prepare the first scrape. Further threads read the bodies of
        // pushes.
        let bodies = if push.is_some() { MAX_BODIES + 4 } else { 0 };
        let readers = app.limits.readers + AT_ONCE;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(readers + 3 + bodies)
            .thread_name("web")
            .build()
            .map_err(WebError::Runtime)?;
        let ended: Result<(), std::io::Error> = runtime.block_on(async {
            let mut working = vec![tokio::spawn(events::watch(app.clone()))];
            if doors.iter().any(|door| door.pages) {
                working.push(tokio::spawn(metrics::prepare(app.clone())));
            }
            let stop = Arc::new(readable(stop.as_fd().try_clone_to_owned()?)?);
            let mut open = Vec::new();
            for door in doors {
                let router = door.router(&app, push.as_ref());
                let listener = tokio::net::TcpListener::from_std(door.listener.try_clone()?)?;
                let push = push.clone().filter(|_| door.pushes);
                open.push(tokio::spawn(door.accept(listener, router, app.clone(), push, stop.clone())));
            }
            for door in open {
                // A panic of the task ends only its door.
                let _ = door.await;
            }
            working.iter().for_each(tokio::task::JoinHandle::abort);
            Ok(())
        });
        // Requests that still read the archive must not delay the end.
        runtime.shutdown_timeout(Duration::from_secs(1));
        ended.map_err(WebError::Runtime)
    }
}

impl Web {
    /// Answers the requests in `bytes` as if they came from this host, on a connection that ends after them. Pages,
    /// documents and pushes are all served. Requests after the first may remain unanswered, because the connection
    /// ends. Returns the bytes that the connection would receive. No socket is used, so that tests and fuzz targets
    /// reach every handler.
    ///
    /// # Errors
    /// [`WebError::Runtime`], also if the answers take longer than a minute.
    pub fn answer(&self, bytes: &[u8]) -> Result<Vec<u8>, WebError> {
        let runtime = Builder::new_current_thread().enable_time().max_blocking_threads(8).build();
        let runtime = runtime.map_err(WebError::Runtime)?;
        let pages = router(self.app.clone());
        let all = self.push.iter().fold(pages, |all, push| all.merge(push::router(push)));
        let all =
            all.layer(from_fn(with_one_name)).layer(Extension(ClientAddress(Ipv4Addr::LOCALHOST.into())));
        let conversation = async {
            let (far, near) = tokio::io::duplex(bytes.len().max(1));
            let (mut answers, mut requests) = tokio::io::split(far);
            requests.write_all(bytes).await?;
            requests.shutdown().await?;
            let mut received = Vec::new();
            let app = self.app.clone();
            let answering = tokio::spawn(async move { answer(near, all, &app, true).await });
            answers.read_to_end(&mut received).await?;
            // A panic of a handler has been logged and ended the connection.
            let _ = answering.await;
            Ok(received)
        };
        let went = runtime.block_on(async { timeout(ANSWER_TIMEOUT, conversation).await });
        runtime.shutdown_timeout(Duration::from_secs(1));
        went.map_err(std::io::Error::from).flatten().map_err(WebError::Runtime)
    }
}

/// Checks that pages which other hosts can reach are protected.
fn check_access(settings: &Settings) -> Result<(), WebError> {
    let address = settings.listen;
    if !address.ip().is_loopback() && matches!(settings.access, ReadAccess::Local) {
        return Err(WebError::Open(address));
    }
    let is_shown = !address.ip().is_loopback() && matches!(settings.access, ReadAccess::Token(_));
    if is_shown && settings.identity.is_none() && !settings.plain {
        return Err(WebError::Clear(address));
    }
    let for_all = settings.runs.as_ref().is_some_and(|runs| matches!(runs.who, Starters::Local));
    if for_all && !matches!(settings.access, ReadAccess::Local) {
        return Err(WebError::OpenRuns);
    }
    Ok(())
}

impl Door {
    fn open(address: SocketAddr, tls: Option<TlsAcceptor>) -> Result<Door, WebError> {
        let failed = |source| WebError::Listen { address, source };
        // The IPv6 wildcard address stands for IPv6 only: IPv4 has an address of its own.
        let domain = if address.is_ipv6() { socket2::Domain::IPV6 } else { socket2::Domain::IPV4 };
        let open = || {
            let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
            if address.is_ipv6() {
                socket.set_only_v6(true)?;
            }
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(128)?;
            socket.set_nonblocking(true)?;
            Ok(TcpListener::from(socket))
        };
        let listener: TcpListener = open().map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Door { listener, address, tls, pages: false, pushes: false })
    }

    fn router(&self, app: &Arc<App>, push: Option<&Arc<PushState>>) -> Router {
        let pushes = push.filter(|_| self.pushes).map(push::router);
        let router = match (self.pages, pushes) {
            (true, Some(pushes)) => router(app.clone()).merge(pushes),
            (true, None) => router(app.clone()),
            (false, pushes) => pushes.unwrap_or_default().fallback(|| async {
                let error =
                    "this port receives tests of other hosts: docs/protocols/push.md describes the requests"
                        .to_owned();
                (StatusCode::NOT_FOUND, Json(jitlat_proto::push::answer::ErrorAnswer { error }))
            }),
        };
        router.layer(from_fn(with_one_name))
    }

    /// Returns the limits of the connections of this door. Without a token for pages, none are reserved for clients
    /// with a token.
    fn limits(&self, app: &App) -> ConnectionLimits {
        if self.pushes {
            return PUSH_CONNECTIONS;
        }
        let all = app.limits.connections;
        ConnectionLimits {
            all,
            of_one: app.limits.connections_of_one,
            kept: if app.has_token() { app.limits.connections_kept.min(all / 2) } else { 0 },
        }
    }

    /// Accepts connections until `stop` is readable.
    async fn accept(
        self,
        listener: tokio::net::TcpListener,
        router: Router,
        app: Arc<App>,
        push: Option<Arc<PushState>>,
        stop: Arc<AsyncFd<OwnedFd>>,
    ) {
        let connections = Connections::new(self.limits(&app));
        let mut stopped = pin!(stop.readable());
        while let Some(accepted) = poll_fn(|cx| match stopped.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => listener.poll_accept(cx).map(Some),
        })
        .await
        {
            match accepted {
                // Try again: the cause may be temporary, for example too many open files.
                Err(e) => {
                    debug!("web page: accepting a connection: {e}");
                    // A request to stop ends the pause.
                    let _ = timeout(ACCEPT_RETRY_PAUSE, stop.readable()).await;
                }
                Ok((stream, peer)) => {
                    let client = Client::of(peer.ip());
                    let ip = peer.ip().to_canonical();
                    let is_proxy =
                        push.as_ref().is_some_and(|push| push.is_proxy(ip)) || self.pages && app.is_proxy(ip);
                    let taken =
                        if is_proxy { connections.take_for_proxy(client) } else { connections.take(client) };
                    let Some(connection) = taken else {
                        // Dropping the stream closes the connection.
                        debug!("web page: too many connections, from {peer} or in total");
                        continue;
                    };
                    let from = ClientAddress(peer.ip().to_canonical());
                    // The connection counts as long as the router of its task exists.
                    let router = router.clone().layer(Extension(from)).layer(Extension(connection.clone()));
                    let answering =
                        converse(stream, peer, (self.tls.clone(), push.clone()), router, app.clone());
                    connection.is_answered_by(tokio::spawn(answering).abort_handle());
                }
            }
        }
    }
}

/// Lets tasks wait until a file descriptor is readable.
#[expect(
    deprecated,
    reason = "the alternative that is not deprecated is unsafe; an owned descriptor stays open and unchanged"
)]
pub fn readable<T: AsRawFd>(descriptor: T) -> std::io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}

/// Kind of a connection, according to its first bytes.
enum Greeting {
    /// TLS or HTTP, as expected.
    Expected,
    /// HTTP where TLS is expected.
    Http,
    /// The earlier protocol of pushes.
    Earlier,
}

/// Passes on a request that names this server once; refuses one with two names, because a proxy may have checked only
/// the other one.
async fn with_one_name(request: Request, next: Next) -> Response {
    let mut names = request.headers().get_all(header::HOST).iter();
    let (first, second) = (names.next(), names.next());
    let usual_port = match request.uri().scheme_str() {
        Some("http") => ":80",
        Some("https") => ":443",
        _ => "",
    };
    let without_port = |name: &str| name.strip_suffix(usual_port).unwrap_or(name).to_ascii_lowercase();
    let first = first.and_then(|name| name.to_str().ok()).map(without_port);
    let in_address = request.uri().authority().map(|name| without_port(name.as_str()));
    let differs = in_address.is_some() && in_address != first;
    if second.is_some() || differs {
        return (StatusCode::BAD_REQUEST, "Send the header Host once, with the name in the address.\n")
            .into_response();
    }
    next.run(request).await
}

/// Looks at the first bytes of a connection without reading them; `None` if too few arrive.
async fn look(stream: &TcpStream, is_secure: bool, pushes: bool) -> Option<Greeting> {
    let mut first = [0; earlier::ENOUGH];
    loop {
        let n = stream.peek(&mut first).await.ok().filter(|n| *n > 0)?;
        if is_secure && first[0].is_ascii_uppercase() {
            return Some(Greeting::Http);
        }
        match earlier::is_earlier(&first[..n]) {
            Some(true) if pushes => return Some(Greeting::Earlier),
            Some(_) => return Some(Greeting::Expected),
            None => tokio::time::sleep(LOOK_INTERVAL).await,
        }
    }
}

/// Sends the last bytes of a connection, then discards input until the client has closed it: with unread input the kernel would reset
/// the connection, and the client might lose these bytes.
async fn say(stream: &mut TcpStream, last: &[u8]) {
    let saying = async {
        let mut rest = last;
        while !rest.is_empty() {
            let n = poll_fn(|cx| Pin::new(&mut *stream).poll_write(cx, rest)).await?;
            rest = &rest[n..];
        }
        poll_fn(|cx| Pin::new(&mut *stream).poll_shutdown(cx)).await?;
        loop {
            stream.readable().await?;
            match stream.try_read(&mut [0; 1024]) {
                Ok(0) => return Ok(()),
                Err(e) if e.kind() != std::io::ErrorKind::WouldBlock => return Err(e),
                _ => {}
            }
        }
    };
    // A client that does not close has the bytes nevertheless.
    let _ = timeout(LAST_WORDS_TIMEOUT, saying).await;
}

/// Answers the requests of a connection.
async fn converse(
    mut stream: TcpStream,
    peer: SocketAddr,
    (tls, push): (Option<TlsAcceptor>, Option<Arc<PushState>>),
    router: Router,
    app: Arc<App>,
) {
    let greeting = timeout(GREETING_TIMEOUT, look(&stream, tls.is_some(), push.is_some())).await;
    match greeting {
        Ok(Some(Greeting::Expected)) => {}
        Ok(Some(Greeting::Earlier)) => {
            warn!(%peer, "refused a push of the earlier protocol: update jitlat on that host");
            return say(&mut stream, &earlier::refusal()).await;
        }
        Ok(Some(Greeting::Http)) => {
            return say(&mut stream, USE_HTTPS).await;
        }
        Ok(None) | Err(_) => return,
    }
    match tls {
        None => answer(stream, router, &app, false).await,
        Some(tls) => match timeout(GREETING_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                // The host is determined once per connection. Pages ignore it.
                let chain = stream.get_ref().1.peer_certificates();
                let certified =
                    push.zip(chain).map(|(push, chain)| push.certificates.host(chain, UnixTime::now()));
                let router = match certified {
                    Some(certified) => router.layer(Extension(certified)),
                    None => router,
                };
                answer(stream, router, &app, false).await;
            }
            Ok(Err(e)) => debug!("web page: the TLS handshake with {peer} failed: {e}"),
            Err(_) => debug!("web page: the TLS handshake with {peer} took too long"),
        },
    }
}

/// Answers HTTP. With `outlives`, requests are answered although the client has ended its side of the connection.
async fn answer(stream: impl ByteStream, router: Router, app: &App, outlives: bool) {
    let io = TokioIo::new(TimeoutConnection::new(stream, app.limits.stalled));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.limits.headers)
        .half_close(outlives)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(io, TowerToHyperService::new(router))
        .await;
    if let Err(e) = served {
        debug!("web page: a connection ended: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_archive::Archive;

    #[test]
    fn bytes_are_answered_without_a_socket() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a");
        drop(Archive::make(&root).unwrap());
        let mut settings = Settings::new(&root);
        settings.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let web = Web::bind(&settings).unwrap();
        let ask = |bytes: &[u8]| String::from_utf8(web.answer(bytes).unwrap()).unwrap();
        for (asked, status) in [
            ("GET /api/v1/now HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200 "),
            ("POST /api/v1/now HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 405 "),
            ("GET http://LOCALHOST:80/api/v1/now HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200 "),
            ("GET http://other/api/v1/now HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 400 "),
            ("nonsense\r\n\r\n", "HTTP/1.1 400 "),
            ("GET / HT", ""),
        ] {
            let answer = ask(asked.as_bytes());
            assert!(
                answer.starts_with(status) && (status.is_empty() == answer.is_empty()),
                "{asked}: {answer}"
            );
        }
    }
}

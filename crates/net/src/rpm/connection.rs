//! [`Target`]: a server to connect to. [`HttpConnection`]: an HTTP/2 connection with the times of its handshakes.

use super::paced::{PacedStream, SendSize};
use super::{ALPN, MAX_HEADERS, RpmError, WINDOW, trust};
use crate::clock::steady;
use bytes::Bytes;
use h2::client::SendRequest;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode};
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::rpm::resources::WebUrl;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, HandshakeKind, ProtocolVersion};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Maximum time for the handshakes of a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Value of the User-Agent header.
const PROGRAM: &str = concat!("jitlat/", env!("CARGO_PKG_VERSION"));
/// Maximum amount of data of a stream that waits in the HTTP/2 connection, in bytes.
pub(super) const MAX_SEND_BUFFER: usize = 64 << 10;

/// A server to connect to.
#[derive(Clone)]
pub(super) struct Target {
    pub address: SocketAddr,
    /// Name that the certificate must have.
    pub name: ServerName<'static>,
    pub tls: Arc<ClientConfig>,
}

/// An HTTP/2 connection, which a task of the current runtime drives until all requests have ended.
pub(super) struct HttpConnection {
    pub sender: SendRequest<Bytes>,
    /// Time of the TCP handshake.
    pub tcp: Span,
    /// Time of the TLS handshake per round trip.
    pub tls: Span,
    pub tls_version: Option<ProtocolVersion>,
    pub local: Option<SocketAddr>,
    pub send_size: SendSize,
}

/// Runs `future` for `limit` at most.
pub(super) async fn within<T>(
    what: &'static str,
    limit: Duration,
    future: impl Future<Output = Result<T, RpmError>>,
) -> Result<T, RpmError> {
    tokio::time::timeout(limit, future).await.unwrap_or(Err(RpmError::TooLong { what, limit }))
}

impl Target {
    /// Creates the target of `url` at `address`.
    pub fn new(url: &WebUrl, address: SocketAddr, tls: &Arc<ClientConfig>) -> Result<Target, RpmError> {
        if !url.is_secure {
            return Err(RpmError::NotSecure(url.to_string()));
        }
        let name = ServerName::try_from(url.host.clone());
        let name = name.map_err(|e| RpmError::Tls { to: address, why: format!("{}: {e}", url.host) })?;
        Ok(Target { address, name, tls: Arc::clone(tls) })
    }

    /// Connects.
    pub async fn connect(&self) -> Result<HttpConnection, RpmError> {
        within("connecting", CONNECT_LIMIT, self.handshakes()).await
    }

    async fn handshakes(&self) -> Result<HttpConnection, RpmError> {
        let to = self.address;
        let began = steady();
        let stream = TcpStream::connect(to).await.map_err(|source| RpmError::Connect { to, source })?;
        let connected = steady();
        stream.set_nodelay(true).map_err(|source| RpmError::Connect { to, source })?;
        let local = stream.local_addr().ok();
        let connecting = TlsConnector::from(Arc::clone(&self.tls)).connect(self.name.clone(), stream);
        let stream = connecting.await.map_err(|e| RpmError::Tls { to, why: trust::explain(&e) })?;
        let secured = steady();
        let session = stream.get_ref().1;
        if session.alpn_protocol() != Some(ALPN) {
            return Err(RpmError::NotHttp2(to));
        }
        let tls_version = session.protocol_version();
        let again = session.handshake_kind() == Some(HandshakeKind::FullWithHelloRetryRequest);
        let trips = if tls_version == Some(ProtocolVersion::TLSv1_2) || again { 2 } else { 1 };
        let stream = PacedStream::new(stream.into());
        let send_size = stream.send_size();
        let (sender, connection) = h2::client::Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_header_list_size(MAX_HEADERS)
            .max_send_buffer_size(MAX_SEND_BUFFER)
            .enable_push(false)
            .handshake(stream)
            .await
            .map_err(RpmError::http("the HTTP/2 handshake"))?;
        // Its errors are also those of the requests.
        tokio::spawn(async move { drop(connection.await) });
        Ok(HttpConnection {
            sender,
            tcp: connected - began,
            tls: Span((secured - connected).0 / trips),
            tls_version,
            local,
            send_size,
        })
    }
}

/// Returns a request for `url`.
pub(super) fn request(method: Method, url: &WebUrl) -> Result<Request<()>, RpmError> {
    Request::builder()
        .method(method)
        .uri(url.to_string())
        .header(ACCEPT_ENCODING, "identity")
        .header(USER_AGENT, PROGRAM)
        .body(())
        .map_err(|_| RpmError::NotSecure(url.to_string()))
}

/// Refuses answers that the draft forbids.
pub(super) fn check_answer(url: &WebUrl, status: StatusCode, headers: &HeaderMap) -> Result<(), RpmError> {
    if status != StatusCode::OK {
        return Err(RpmError::Status { url: url.to_string(), status: status.as_u16() });
    }
    let encoding = headers.get(CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| encoding.as_bytes() != b"identity") {
        return Err(RpmError::Encoded(url.to_string()));
    }
    Ok(())
}

/// A resource that was downloaded completely.
pub(super) struct Download {
    pub body: Vec<u8>,
    /// Time at which the request was passed to the connection.
    pub began: SteadyTime,
    /// Time at which the end of the answer was read.
    pub ended: SteadyTime,
}

/// Downloads `url`, of `limit` bytes at most.
pub(super) async fn download(
    sender: SendRequest<Bytes>,
    url: &WebUrl,
    limit: usize,
) -> Result<Download, RpmError> {
    let what = "a request";
    let request = request(Method::GET, url)?;
    let began = steady();
    let mut sender = sender.ready().await.map_err(RpmError::http(what))?;
    let (answer, _) = sender.send_request(request, true).map_err(RpmError::http(what))?;
    let answer = answer.await.map_err(RpmError::http(what))?;
    check_answer(url, answer.status(), answer.headers())?;
    let mut stream = answer.into_body();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data.map_err(RpmError::http(what))?;
        if body.len() + data.len() > limit {
            let bytes = (body.len() + data.len()) as u64;
            return Err(RpmError::Length { url: url.to_string(), bytes, is_short: false });
        }
        body.extend_from_slice(&data);
        stream.flow_control().release_capacity(data.len()).map_err(RpmError::http(what))?;
    }
    Ok(Download { body, began, ended: steady() })
}

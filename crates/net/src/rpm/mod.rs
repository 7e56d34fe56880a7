//! Responsiveness over HTTP/2 and TLS: the driver of a client's stages, and the server.
//!
//! * [`client`] – measures against a server
//! * [`server`] – the resources that clients download and upload
//! * [`trust`] – certificates that a client accepts; [`certificate`] – the certificate of a server
//!
//! Only these modules use an async runtime, because HTTP/2 needs one: the load runs on a thread of its own, so that
//! it does not delay the times of foreign probes.

pub mod certificate;
pub mod client;
mod connection;
mod load;
mod paced;
mod probe;
pub mod server;
pub mod trust;

use jitlat_proto::rpm::PORT;
use jitlat_proto::rpm::resources::DocumentError;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Flow-control windows of streams and connections, in bytes. The default of HTTP/2, 64 KiB, would limit throughput
/// instead of the path.
const WINDOW: u32 = 8 << 20;
/// Maximum size of the headers of a request or an answer, in bytes.
const MAX_HEADERS: u32 = 16 << 10;
/// Port of a URL that names none.
const HTTPS_PORT: u16 = 443;
/// Protocol name of HTTP/2 in the TLS handshake.
const ALPN: &[u8] = b"h2";

/// Reason why nothing could be measured, or why a connection failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RpmError {
    /// The server cannot be reached.
    #[error("connecting to {to}: {source}{}", remedy(*.to, .source))]
    Connect {
        /// Address of the server.
        to: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The server did not answer in time.
    #[error("{what}: no answer within {} s", .limit.as_secs())]
    TooLong {
        /// Description of the operation.
        what: &'static str,
        /// Time limit.
        limit: Duration,
    },
    /// The certificate of the server is not accepted, or the TLS handshake failed.
    #[error("{to}: {why}")]
    Tls {
        /// Address of the server.
        to: SocketAddr,
        /// Reason, with a remedy if there is one.
        why: String,
    },
    /// The server does not offer HTTP/2.
    #[error("{0} does not offer HTTP/2, which the responsiveness test requires")]
    NotHttp2(SocketAddr),
    /// The HTTP/2 connection failed.
    #[error("{what}: {source}")]
    Http {
        /// Description of the operation.
        what: &'static str,
        /// Error of the connection or the stream.
        source: h2::Error,
    },
    /// The server answered with a status other than 200.
    #[error("{url}: the server answered with status {status}{}", match .status {
        300..=399 => ", a redirection, which the responsiveness test forbids",
        404 => ": this is not the address of a responsiveness server",
        429 | 503 => ": it is overloaded; try again later",
        _ => "",
    })]
    Status {
        /// URL of the resource.
        url: String,
        /// HTTP status.
        status: u16,
    },
    /// The server compressed an answer although the request forbids it.
    #[error("{0}: the answer has a Content-Encoding, which the responsiveness test forbids")]
    Encoded(String),
    /// An answer is longer or shorter than the resource may be.
    #[error("{url}: the answer has {bytes} bytes{}", if *.is_short { ", too few for a load" } else { " or more, too many" })]
    Length {
        /// URL of the resource.
        url: String,
        /// Number of bytes received.
        bytes: u64,
        /// True if there are too few bytes.
        is_short: bool,
    },
    /// The configuration document is not valid.
    #[error("{url}: {source}")]
    Document {
        /// URL of the document.
        url: String,
        /// Mistake that was found.
        source: DocumentError,
    },
    /// A URL of the configuration is not `https://`.
    #[error("{0}: only https:// is measured")]
    NotSecure(String),
    /// A name could not be resolved.
    #[error("looking up {host}: {source}")]
    Lookup {
        /// Name of the host.
        host: String,
        /// Error of the resolver.
        source: io::Error,
    },
    /// The host has no address of the requested family.
    #[error("{0} has no address of the requested family")]
    NoAddress(String),
    /// The trusted certificates cannot be read.
    #[error("certificate authorities: {0}")]
    Authorities(String),
    /// A certificate or key of this host is not valid.
    #[error("{0}")]
    Certificate(String),
    /// The operating system refused an operation.
    #[error("{doing}: {source}")]
    System {
        /// Description of the operation.
        doing: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The user stopped the test before anything was measured.
    #[error("stopped before anything was measured")]
    Stopped,
}

/// Returns what to try after a failed connection; empty if nothing is known.
fn remedy(to: SocketAddr, error: &io::Error) -> String {
    match (error.kind(), to.port()) {
        (io::ErrorKind::ConnectionRefused, HTTPS_PORT) => {
            format!("; `jitlat serve --rpm` listens on port {PORT}: jitlat rpm HOST:{PORT}")
        }
        (io::ErrorKind::ConnectionRefused, _) => {
            "; is a responsiveness server, such as `jitlat serve --rpm`, running on that host and port?"
                .to_owned()
        }
        _ => String::new(),
    }
}

impl RpmError {
    fn http(what: &'static str) -> impl FnOnce(h2::Error) -> RpmError {
        move |source| RpmError::Http { what, source }
    }
}

#[cfg(test)]
mod tests;

//! [`post`]: sends one HTTP request to notify another program.

mod tls;

pub(crate) use tls::{Trusted, authorities};

use axum::body::Body;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Builder;

/// Connection of a request, plain or encrypted.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> ByteStream for S {}

/// Reason why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// The address is not an HTTP address.
    #[error("'{0}' is not an http:// or https:// address")]
    Address(String),
    /// The trusted certificates cannot be read.
    #[error("certificate authorities: {0}")]
    Authorities(String),
    /// The server's certificate is not trusted.
    #[error("{0}")]
    Untrusted(String),
    /// The server cannot be reached, or does not speak HTTP.
    #[error("{0}")]
    Failed(String),
    /// The server answered with an error status.
    #[error("the server answered with status {0}")]
    Refused(u16),
    /// The server did not answer in time.
    #[error("no answer within {} s", .0.as_secs())]
    TooLong(Duration),
}

/// Sends the JSON text `body` to the `http://` or `https://` address, and waits up to `limit` for the answer. An
/// `https://` server must have a certificate of an authority in `ca_file` or, without it, of one that this system
/// trusts.
///
/// # Errors
/// [`PostError`]. Unless the server answered, it may or may not have received the request.
pub fn post(address: &str, body: String, ca_file: Option<&Path>, limit: Duration) -> Result<(), PostError> {
    let wrong = || PostError::Address(address.to_owned());
    let uri: Uri = address.parse().map_err(|_| wrong())?;
    let (is_secure, usual_port) = match uri.scheme_str() {
        Some("http") => (false, 80),
        Some("https") => (true, 443),
        _ => return Err(wrong()),
    };
    let authority = uri.host().ok_or_else(wrong)?;
    let host = authority.trim_matches(['[', ']']).to_owned();
    let trusted = if is_secure { Some(Trusted::new(ca_file, None)?) } else { None };
    let failed = |e: &dyn std::fmt::Display| PostError::Failed(e.to_string());
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::post(path)
        .header(HOST, uri.authority().map_or(authority, |a| a.as_str()))
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, crate::page::PROGRAM.replace(' ', "/"))
        .body(Body::from(body))
        .map_err(|e| failed(&e))?;
    let runtime = Builder::new_current_thread().enable_io().enable_time().max_blocking_threads(1).build();
    let runtime = runtime.map_err(|e| failed(&e))?;
    let answered = runtime.block_on(async {
        tokio::time::timeout(limit, async {
            let port = uri.port_u16().unwrap_or(usual_port);
            let stream = TcpStream::connect((host.as_str(), port)).await.map_err(|e| failed(&e))?;
            match &trusted {
                None => ask(stream, request).await,
                Some(trusted) => ask(trusted.secure(&host, stream).await?, request).await,
            }
        })
        .await
    });
    runtime.shutdown_background();
    let status = answered.unwrap_or(Err(PostError::TooLong(limit)))?;
    if status.is_success() { Ok(()) } else { Err(PostError::Refused(status.as_u16())) }
}

/// Sends the request over `stream`; returns the status of the answer.
async fn ask(stream: impl ByteStream, request: Request<Body>) -> Result<StatusCode, PostError> {
    let failed = |e: hyper::Error| PostError::Failed(e.to_string());
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    tokio::spawn(connection);
    Ok(sender.send_request(request).await.map_err(failed)?.status())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const TIMEOUT: Duration = Duration::from_secs(60);

    /// Returns what a server with this answer received, and the result of the request.
    fn posted(answer: &'static str) -> (String, Result<(), PostError>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/api/v2/alerts?x=1", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let (mut got, mut part) = (Vec::new(), [0; 4096]);
            while !got.ends_with(b"[1,2]") {
                let n = stream.read(&mut part).unwrap();
                assert!(n > 0, "the request ends early");
                got.extend_from_slice(&part[..n]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(got).unwrap()
        });
        let went = post(&address, "[1,2]".to_owned(), None, TIMEOUT);
        (server.join().unwrap(), went)
    }

    #[test]
    fn a_request_is_taken_or_it_is_said_why_not() {
        let (got, went) = posted("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        assert!(went.is_ok() && got.starts_with("POST /api/v2/alerts?x=1 HTTP/1.1\r\n"), "{got}");
        let small = got.to_lowercase();
        assert!(
            small.contains("content-type: application/json") && small.contains("content-length: 5"),
            "{got}"
        );
        assert!(small.contains("host: 127.0.0.1:"), "{got}");
        let (_, went) = posted("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
        assert!(matches!(went, Err(PostError::Refused(503))), "{went:?}");
        let (_, went) = posted("what?\r\n\r\n");
        assert!(matches!(went, Err(PostError::Failed(_))), "{went:?}");
        for wrong in ["ftp://x/", "x", "http://", ""] {
            assert!(post(wrong, String::new(), None, TIMEOUT).is_err(), "{wrong}");
        }
        // Nothing listens on this port any more.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(matches!(
            post(&format!("http://{free}/"), String::new(), None, TIMEOUT),
            Err(PostError::Failed(_))
        ));
    }

    #[test]
    fn who_never_answers_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        let went = post(&address, String::new(), None, Duration::from_millis(50));
        assert!(matches!(went, Err(PostError::TooLong(_))), "{went:?}");
    }
}

//! [`post`]: sends one HTTP request to notify another program. [`get`]: reads a file from a web server.

mod tls;

pub(crate) use tls::{Trusted, authorities};

use axum::body::{Body, HttpBody};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::http::request::Builder;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime;

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
    /// The answer is larger than allowed.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
}

/// Sends the JSON text `body` to the `http://` or `https://` address, and waits up to `limit` for the answer. An
/// `https://` server must have a certificate of an authority in `ca_file` or, without it, of one that this system
/// trusts.
///
/// # Errors
/// [`PostError`]. Unless the server answered, it may or may not have received the request.
pub fn post(address: &str, body: String, ca_file: Option<&Path>, limit: Duration) -> Result<(), PostError> {
    let request = Request::post("/").header(CONTENT_TYPE, "application/json");
    send(address, request, Body::from(body), ca_file, limit, None).map(drop)
}

/// Reads a file of at most `most` bytes from the `http://` or `https://` address within `limit`, with certificates as for [`post`]. Redirects are
/// errors.
///
/// # Errors
/// [`PostError`].
pub fn get(
    address: &str,
    ca_file: Option<&Path>,
    limit: Duration,
    most: usize,
) -> Result<Vec<u8>, PostError> {
    send(address, Request::get("/"), Body::empty(), ca_file, limit, Some(most))
}

/// Sends a request. Returns the body of the answer, which may have at most `most` bytes; with `None` the body is not read.
fn send(
    address: &str,
    request: Builder,
    body: Body,
    ca_file: Option<&Path>,
    limit: Duration,
    most: Option<usize>,
) -> Result<Vec<u8>, PostError> {
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
    let request = request
        .uri(path)
        .header(HOST, uri.authority().map_or(authority, |a| a.as_str()))
        .header(USER_AGENT, crate::page::PROGRAM.replace(' ', "/"))
        .body(body)
        .map_err(|e| failed(&e))?;
    let runtime =
        runtime::Builder::new_current_thread().enable_io().enable_time().max_blocking_threads(1).build();
    let runtime = runtime.map_err(|e| failed(&e))?;
    let answered = runtime.block_on(async {
        tokio::time::timeout(limit, async {
            let port = uri.port_u16().unwrap_or(usual_port);
            let stream = TcpStream::connect((host.as_str(), port)).await.map_err(|e| failed(&e))?;
            match &trusted {
                None => ask(stream, request, most).await,
                Some(trusted) => ask(trusted.secure(&host, stream).await?, request, most).await,
            }
        })
        .await
    });
    runtime.shutdown_background();
    answered.unwrap_or(Err(PostError::TooLong(limit)))
}

/// Sends the request over `stream`, and returns the body of the answer like [`send`].
async fn ask(
    stream: impl ByteStream,
    request: Request<Body>,
    most: Option<usize>,
) -> Result<Vec<u8>, PostError> {
    let failed = |e: hyper::Error| PostError::Failed(e.to_string());
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(failed)?;
    let status = answer.status();
    if !status.is_success() {
        return Err(PostError::Refused(status.as_u16()));
    }
    let Some(most) = most else { return Ok(Vec::new()) };
    let (mut body, mut bytes) = (answer.into_body(), Vec::new());
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(part) = frame.map_err(failed)?.into_data() else { continue };
        if bytes.len() + part.len() > most {
            return Err(PostError::TooLarge(most));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
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

    /// Returns the result of reading a file of at most 10 bytes from a server that writes `answer`, and then nothing more.
    fn got(answer: &'static str, limit: Duration) -> Result<Vec<u8>, PostError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/mesh.toml", listener.local_addr().unwrap());
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let (mut got, mut part) = (Vec::new(), [0; 4096]);
            while !got.ends_with(b"\r\n\r\n") {
                let n = stream.read(&mut part).unwrap();
                assert!(n > 0, "the request ends early");
                got.extend_from_slice(&part[..n]);
            }
            assert!(got.starts_with(b"GET /mesh.toml HTTP/1.1\r\n"));
            stream.write_all(answer.as_bytes()).unwrap();
            let _ = ended.recv_timeout(TIMEOUT);
        });
        let result = get(&address, None, limit, 10);
        drop(end);
        server.join().unwrap();
        result
    }

    #[test]
    fn a_file_is_read_whole_or_not_at_all() {
        let whole = got("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", TIMEOUT);
        assert_eq!(whole.unwrap(), b"0123456789");
        let large = got("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n0123456789a", TIMEOUT);
        assert!(matches!(large, Err(PostError::TooLarge(10))), "{large:?}");
        let endless =
            got("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n", TIMEOUT);
        assert!(matches!(endless, Err(PostError::TooLarge(10))), "{endless:?}");
        let moved = got("HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n", TIMEOUT);
        assert!(matches!(moved, Err(PostError::Refused(302))), "{moved:?}");
        // The server stalls in the middle of the file, and before it.
        for stalled in ["HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01", "HTTP/1.1 200 OK\r\n", ""] {
            let result = got(stalled, Duration::from_millis(100));
            assert!(matches!(result, Err(PostError::TooLong(_))), "{result:?}");
        }
    }

    #[test]
    fn who_never_answers_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        let went = post(&address, String::new(), None, Duration::from_millis(50));
        assert!(matches!(went, Err(PostError::TooLong(_))), "{went:?}");
    }
}

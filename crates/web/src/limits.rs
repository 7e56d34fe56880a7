//! [`WebLimits`]: limits of connections and requests; [`TimeoutConnection`]: ends a connection whose client reads nothing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Limits of connections and requests.
#[derive(Clone, Copy, Debug)]
pub struct WebLimits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of connections of one client: an IPv4 address, or an IPv6 /64. A proxy may use all of them.
    pub connections_of_one: usize,
    /// Number of connections that are reserved for clients with a valid token, if there are tokens.
    pub connections_kept: usize,
    /// Maximum number of connections that wait for events.
    pub watching: usize,
    /// Maximum number of connections of one client that wait for events.
    pub watching_of_one: usize,
    /// Maximum number of requests that read the archive at the same time; others wait.
    pub readers: usize,
    /// Maximum number of expensive pages that one client waits for at the same time.
    pub expensive_of_one: usize,
    /// Timeout for receiving all headers of a request; also closes idle connections.
    pub headers: Duration,
    /// Timeout for a request.
    pub request: Duration,
    /// Timeout for a client that does not read its answer.
    pub stalled: Duration,
    /// Maximum number of packets of a test whose report is rendered; larger tests need the command line.
    pub packets: u64,
}

impl Default for WebLimits {
    fn default() -> WebLimits {
        WebLimits {
            connections: 128,
            connections_of_one: 32,
            connections_kept: 32,
            watching: 48,
            watching_of_one: 8,
            readers: 2,
            expensive_of_one: 4,
            headers: Duration::from_secs(15),
            request: Duration::from_secs(60),
            stalled: Duration::from_secs(30),
            packets: 2_000_000,
        }
    }
}

/// Maximum size of a request's first line and headers.
pub const MAX_HEADER_BYTES: usize = 16 * 1024;
/// Maximum number of headers.
pub const MAX_HEADERS: usize = 64;

/// A connection that fails if its client reads nothing until the timeout.
#[derive(Debug)]
pub struct TimeoutConnection<S> {
    stream: S,
    timeout: Duration,
    /// Timer that runs while data cannot be sent; `None` at other times.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> TimeoutConnection<S> {
    /// Wraps `stream`, with the timeout for sending.
    pub fn new(stream: S, timeout: Duration) -> TimeoutConnection<S> {
        TimeoutConnection { stream, timeout, stalled: None }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, sent: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if sent.is_ready() {
            self.stalled = None;
            return sent;
        }
        let timeout = self.timeout;
        let stalled = self.stalled.get_or_insert_with(|| {
            let mut timer = Box::pin(sleep(timeout));
            timer.as_mut().reset(Instant::now() + timeout);
            timer
        });
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutConnection<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, to)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutConnection<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let sent = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.watch(cx, sent)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let sent = Pin::new(&mut this.stream).poll_flush(cx);
        this.watch(cx, sent)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let sent = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.watch(cx, sent)
    }
}

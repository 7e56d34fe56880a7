//! [`PacedStream`]: a TLS connection with little unsent data in this host.
//!
//! Data that waits in the queues of the sending host delays probes on the same connection as a queue on the path
//! does. The draft permits 5 ms of the throughput: [`PacedStream`] measures the throughput and sets the sizes of TLS
//! records, of the data that the kernel accepts, and of HTTP/2 frames ([`SendSize`]) accordingly.
//!
//! The kernel's own limit (`TCP_NOTSENT_LOWAT`) only holds when it begins a new buffer of up to 64 KiB, which is a
//! quarter of a second at 2 Mbit/s. Below that size, [`PacedStream`] asks how much is unsent before it writes.

use crate::sys;
use socket2::SockRef;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::TlsStream;

/// Range of the amount of data that may wait, in bytes.
const LIMITS: (usize, usize) = (1 << 10, 4 << 20);
/// Amount before the throughput is known.
const FIRST: usize = 8 << 10;
/// Maximum size of a TLS record and of an HTTP/2 frame, in bytes.
const MAX_SIZE: usize = 64 << 10;
/// Time in which the data that may wait would be sent.
const WAITING_TIME: Duration = Duration::from_millis(5);
/// Time until the kernel is asked again after too much was unsent.
const PAUSE: Duration = Duration::from_millis(2);
/// Time over which throughput is measured.
const MEASURED: Duration = Duration::from_millis(100);

/// Number of bytes to pass to a connection at a time; changes with the throughput. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct SendSize(Arc<AtomicUsize>);

impl SendSize {
    /// Returns the number of bytes.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A TLS connection with little unsent data in this host.
pub(super) struct PacedStream {
    tls: TlsStream<TcpStream>,
    /// Number of bytes that may wait in the kernel.
    waiting: usize,
    size: SendSize,
    since: Instant,
    written: usize,
    /// True if there was more to send than the connection took.
    was_blocked: bool,
    /// Pause until the kernel has sent enough; `None` if it has.
    pause: Option<Pin<Box<Sleep>>>,
}

impl PacedStream {
    pub fn new(tls: TlsStream<TcpStream>) -> PacedStream {
        let size = SendSize(Arc::new(AtomicUsize::new(FIRST)));
        let mut stream = PacedStream {
            tls,
            waiting: FIRST,
            size,
            since: Instant::now(),
            written: 0,
            was_blocked: false,
            pause: None,
        };
        stream.apply();
        stream
    }

    /// Returns the size, which changes with the throughput of this connection.
    pub fn send_size(&self) -> SendSize {
        self.size.clone()
    }

    fn apply(&mut self) {
        let size = self.waiting.min(MAX_SIZE);
        self.size.0.store(size, Ordering::Relaxed);
        match &mut self.tls {
            TlsStream::Client(tls) => tls.get_mut().1.set_buffer_limit(Some(size)),
            TlsStream::Server(tls) => tls.get_mut().1.set_buffer_limit(Some(size)),
        }
        // Without this option, more data wait in the kernel.
        let _ = SockRef::from(self.tls.get_ref().0).set_tcp_notsent_lowat(self.waiting as u32);
    }

    /// Waits until little enough is unsent in the kernel.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(pause) = &mut self.pause {
                if pause.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.pause = None;
            }
            // Where the kernel does not tell, its own limit has to do.
            let exceeds = |unsent: u32| unsent as usize >= self.waiting;
            let socket = self.tls.get_ref().0.as_fd();
            if self.waiting >= MAX_SIZE || !sys::tcp_moment(socket).is_ok_and(|now| exceeds(now.unsent)) {
                return Poll::Ready(());
            }
            self.pause = Some(Box::pin(tokio::time::sleep(PAUSE)));
        }
    }

    /// Adapts the sizes to the throughput since the last change.
    fn adapt(&mut self) {
        let elapsed = self.since.elapsed();
        if elapsed < MEASURED {
            return;
        }
        let rate = self.written as f64 / elapsed.as_secs_f64();
        let waiting = ((rate * WAITING_TIME.as_secs_f64()) as usize).clamp(LIMITS.0, LIMITS.1);
        // At most twice as much per step, because one burst must not fill the queues. Without a backlog, the throughput
        // is that of the requests and not that of the path.
        if self.was_blocked && waiting != self.waiting {
            self.waiting = waiting.min(2 * self.waiting);
            self.apply();
        }
        (self.since, self.written, self.was_blocked) = (Instant::now(), 0, false);
    }
}

impl AsyncRead for PacedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_read(cx, buffer)
    }
}

impl AsyncWrite for PacedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.adapt();
        if self.poll_room(cx).is_pending() {
            self.was_blocked = true;
            return Poll::Pending;
        }
        let length = data.len().min(self.size.get());
        let written = Pin::new(&mut self.tls).poll_write(cx, &data[..length]);
        match &written {
            Poll::Ready(Ok(n)) => self.written += n,
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.was_blocked = true,
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_shutdown(cx)
    }
}

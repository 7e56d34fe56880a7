//! [`PacedStream`]: a TLS connection with little unsent data in this host.
//!
//! Data that waits in the queues of the sending host delays probes on the same connection as a queue on the path does.
//! The draft permits as much as the path carries in 5 ms: [`PacedStream`] measures the throughput and sets the sizes of
//! TLS records, of the data that the kernel accepts, and of HTTP/2 frames ([`SendSize`]) accordingly.
//!
//! When data is written, the kernel enforces its limit (`TCP_NOTSENT_LOWAT`) only before it begins a new buffer of up
//! to 64 KiB, which takes a quarter of a second at 2 Mbit/s. When it is asked whether the socket is writable, it
//! applies the limit exactly, so [`PacedStream`] asks before it writes.
//!
//! HTTP/2 sends a frame of each stream in turn, and the answer to a probe has two frames, so that up to three frames of
//! the load are sent before the answer is complete. A frame therefore contains only half of the data that may wait. The
//! library copies frames that are shorter than 1024 bytes into a buffer of 16 KiB, unless the connection accepts
//! several buffers in one write.

use crate::sys::AsFd;
use crate::sys::{PollFd, PollFlags};
use crate::wake;
use jitlat_core::SteadyTime;
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// Range of the amount of data that may wait, in bytes; at least a full segment, because many short segments would fill
/// the path with headers.
const LIMITS: (usize, usize) = (1500, 4 << 20);
/// Amount before the throughput is known.
const FIRST: usize = 8 << 10;
/// Range of the size of a TLS record and of an HTTP/2 frame, in bytes. The library copies frames below this range into
/// its buffer.
const SIZES: (usize, usize) = (256, 64 << 10);
/// Number of frames into which the data that may wait is divided. More frames would slow down fast connections, because
/// each frame costs this host time.
const FRAMES: usize = 2;
/// Length of the head of an HTTP/2 frame, in bytes.
const FRAME_HEAD: usize = 9;
/// Time in which the data that may wait would be sent.
const WAITING_TIME: Duration = Duration::from_millis(5);
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
}

impl PacedStream {
    pub fn new(tls: TlsStream<TcpStream>) -> PacedStream {
        let size = SendSize(Arc::new(AtomicUsize::new(FIRST / FRAMES)));
        let mut stream =
            PacedStream { tls, waiting: FIRST, size, since: Instant::now(), written: 0, was_blocked: false };
        stream.apply();
        stream
    }

    /// Returns the size, which changes with the throughput of this connection.
    pub fn send_size(&self) -> SendSize {
        self.size.clone()
    }

    fn apply(&mut self) {
        let size = (self.waiting / FRAMES).clamp(SIZES.0, SIZES.1);
        let record = Some(size + FRAME_HEAD);
        self.size.0.store(size, Ordering::Relaxed);
        match &mut self.tls {
            TlsStream::Client(tls) => tls.get_mut().1.set_buffer_limit(record),
            TlsStream::Server(tls) => tls.get_mut().1.set_buffer_limit(record),
        }
        // The kernel calls a socket writable at half of this limit.
        let _ = SockRef::from(self.tls.get_ref().0).set_tcp_notsent_lowat(2 * self.waiting as u32);
    }

    /// Waits until little enough is unsent in the kernel.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = self.tls.get_ref().0;
        loop {
            ready!(socket.poll_write_ready(cx))?;
            if self.waiting >= SIZES.1 || is_writable(socket) {
                return Poll::Ready(Ok(()));
            }
            // The kernel reports when that changes.
            let _ = socket.try_io(Interest::WRITABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
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

/// Asks the kernel whether less than the limit is unsent; if not, the runtime is notified when it is.
fn is_writable(socket: &TcpStream) -> bool {
    let mut asked = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
    wake::wait_ready(&mut asked, Some(SteadyTime(0)));
    asked[0].any().unwrap_or(true)
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
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(data)])
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.adapt();
        match self.poll_room(cx)? {
            Poll::Ready(()) => {}
            Poll::Pending => {
                self.was_blocked = true;
                return Poll::Pending;
            }
        }
        // The head of a frame and its data are one TLS record.
        let mut left = self.size.get() + FRAME_HEAD;
        let mut record = Vec::new();
        for part in data {
            let length = part.len().min(left);
            left -= length;
            record.extend((length > 0).then(|| IoSlice::new(&part[..length])));
        }
        let written = Pin::new(&mut self.tls).poll_write_vectored(cx, &record);
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

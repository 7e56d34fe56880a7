//! [`WebLimits`]: limits of connections and requests; [`ConnectionSlots`]: counts open connections.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Limits of connections and requests.
#[derive(Clone, Copy, Debug)]
pub struct WebLimits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of connections from one address.
    pub connections_of_one: usize,
    /// Maximum number of connections that wait for events.
    pub watching: usize,
    /// Maximum number of requests that read the archive at the same time; others wait.
    pub readers: usize,
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
            connections_of_one: 64,
            watching: 48,
            readers: 2,
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

/// Open connections, counted per address.
#[derive(Clone, Debug, Default)]
pub struct ConnectionSlots(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// Returns the address that stands for a client: an IPv6 client has a whole /64.
fn client(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

/// Slot of an open connection, which is counted until the slot is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    slots: ConnectionSlots,
    peer: IpAddr,
}

impl ConnectionSlots {
    /// Takes a slot for a connection from `peer`; `None` if a limit is reached. `most` is the maximum number of all
    /// connections, and of those from one client.
    pub fn take(&self, peer: IpAddr, most: (usize, usize)) -> Option<ConnectionSlot> {
        let peer = client(peer);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (sum, own) = (all.values().sum::<usize>(), all.get(&peer).copied().unwrap_or(0));
        if sum >= most.0 || own >= most.1 {
            return None;
        }
        all.insert(peer, own + 1);
        Some(ConnectionSlot { slots: self.clone(), peer })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut all = self.slots.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(&self.peer) {
            Some(n) if *n > 1 => *n -= 1,
            _ => drop(all.remove(&self.peer)),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_given_back_by_itself() {
        let limits = (3, 2);
        let (slots, a, b) = (ConnectionSlots::default(), [127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        let held = [slots.take(a, limits), slots.take(a, limits), slots.take(b, limits)];
        assert!(held.iter().all(Option::is_some));
        assert!(slots.take(a, limits).is_none() && slots.take(b, limits).is_none());
        // The addresses of an IPv6 client are one client's.
        let (c, d) = ("2001:db8::1".parse().unwrap(), "2001:db8::ffff:1".parse().unwrap());
        let held_too = [slots.take(c, (9, 1)), slots.take(d, (9, 1))];
        assert!(held_too[0].is_some() && held_too[1].is_none());
        drop((held, held_too));
        assert!(slots.take(a, limits).is_some());
        assert!(slots.0.lock().unwrap().is_empty());
    }
}

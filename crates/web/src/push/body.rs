//! [`feed`]: passes the body of a request to a [`BodyReader`], which is read by a thread that may block.

use axum::body::{Body, Bytes, HttpBody};
use std::future::poll_fn;
use std::io::{self, BufRead, Read};
use std::pin::Pin;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::timeout;

/// Number of pieces that wait for the reader.
const WAITING_PIECES: usize = 4;
/// Time without a piece after which the body ends.
const IDLE: Duration = Duration::from_secs(30);
/// Maximum time for a body, and number of bytes that extend it by a second. A slower sender would only occupy a slot.
const SLOWEST: (Duration, u64) = (Duration::from_secs(60), 4000);

/// Maximum number of bytes that are discarded when the reader needs no more. With unread input the kernel would reset
/// the connection, and the answer might be lost.
const MAX_DISCARDED: u64 = 4 << 20;

/// Body of a request, for a thread that may block.
pub struct BodyReader {
    pieces: Receiver<io::Result<Bytes>>,
    current: Bytes,
}

/// Sender of the pieces of a body.
pub type BodySender = Sender<io::Result<Bytes>>;

/// Creates a body: the sender of its pieces, and its reader.
pub fn body() -> (BodySender, BodyReader) {
    let (to, pieces) = mpsc::channel(WAITING_PIECES);
    (to, BodyReader { pieces, current: Bytes::new() })
}

impl BufRead for BodyReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.current.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.current = piece?,
                None => break,
            }
        }
        Ok(&self.current)
    }

    fn consume(&mut self, n: usize) {
        let _ = self.current.split_to(n.min(self.current.len()));
    }
}

impl Read for BodyReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let from = self.fill_buf()?;
        let n = from.len().min(to.len());
        to[..n].copy_from_slice(&from[..n]);
        self.consume(n);
        Ok(n)
    }
}

/// Passes `from` on until it ends, or its sender is too slow. Once `to` has no reader, up to `MAX_DISCARDED` bytes are
/// discarded.
pub async fn feed(mut from: Body, to: BodySender) {
    let (begun, mut received, mut discarded) = (Instant::now(), 0u64, None);
    loop {
        let next = poll_fn(|cx| Pin::new(&mut from).poll_frame(cx));
        let most = SLOWEST.0 + Duration::from_secs(received / SLOWEST.1);
        let left = most.saturating_sub(begun.elapsed()).min(IDLE);
        let piece = match timeout(left, next).await {
            Ok(None) => return,
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(piece) => Ok(piece),
                // Trailers are ignored.
                Err(_) => continue,
            },
            Ok(Some(Err(e))) => Err(io::Error::other(e)),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it arrived too slowly")),
        };
        let length = piece.as_ref().map_or(0, |piece| piece.len() as u64);
        received += length;
        let over = piece.is_err();
        match &mut discarded {
            Some(bytes) => *bytes += length,
            // Sending fails if the reader needs no more.
            None if to.send(piece).await.is_err() => discarded = Some(length),
            None => {}
        }
        if over || discarded.is_some_and(|bytes| bytes > MAX_DISCARDED) {
            return;
        }
    }
}

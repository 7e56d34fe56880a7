//! Load-generating connections, on a thread of their own.

use super::connection::{HttpConnection, MAX_SEND_BUFFER, Target, check_answer, request};
use super::paced::SendSize;
use super::{RpmError, client::Report};
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::Method;
use jitlat_core::Direction;
use jitlat_proto::rpm::resources::WebUrl;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::thread::JoinHandle;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

/// Least number of bytes of the large object: a shorter one would be requested again and again.
const MIN_LARGE: u64 = 1 << 20;

/// Data of uploads. TLS makes them incompressible.
static DATA: LazyLock<Bytes> = LazyLock::new(|| vec![0; MAX_SEND_BUFFER].into());

/// Returns data to send.
pub(super) fn data() -> Bytes {
    DATA.clone()
}

/// Thread with the load-generating connections of a stage. Dropping it ends them.
pub(super) struct LoadThread {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LoadThread {
    pub fn start() -> io::Result<LoadThread> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("rpm load".to_owned()).spawn(move || {
            // An error is a dropped sender, which also ends the thread.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(LoadThread { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Adds a load-generating connection to `target`, which counts transferred bytes in `counter`.
    pub fn add(
        &self,
        target: Target,
        direction: Direction,
        url: WebUrl,
        counter: Arc<AtomicU64>,
        reports: mpsc::UnboundedSender<Report>,
    ) {
        self.handle.spawn(async move {
            let ended = match target.connect().await {
                Ok(HttpConnection { sender, send_size, .. }) => {
                    let mut first = Some(reports.clone());
                    let mut transferring = |sender: &SendRequest<Bytes>| {
                        if let Some(reports) = first.take() {
                            let _ = reports.send(Report::Connected(sender.clone()));
                        }
                    };
                    match direction {
                        Direction::Down => downloads(sender, &url, &counter, &mut transferring).await,
                        Direction::Up => uploads(sender, &url, &counter, &send_size, &mut transferring).await,
                    }
                }
                Err(e) => Err(e),
            };
            if let Err(e) = ended {
                // The stage may have ended.
                let _ = reports.send(Report::LoadFailed(e.to_string()));
            }
        });
    }
}

impl Drop for LoadThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the load panicked");
        }
    }
}

const WHAT: &str = "a load-generating connection";

/// Downloads the large object, again and again, and calls `transferring` when an answer begins.
async fn downloads(
    mut sender: SendRequest<Bytes>,
    url: &WebUrl,
    counter: &AtomicU64,
    transferring: &mut impl FnMut(&SendRequest<Bytes>),
) -> Result<(), RpmError> {
    loop {
        sender = sender.ready().await.map_err(RpmError::http(WHAT))?;
        let (answer, _) =
            sender.send_request(request(Method::GET, url)?, true).map_err(RpmError::http(WHAT))?;
        let answer = answer.await.map_err(RpmError::http(WHAT))?;
        check_answer(url, answer.status(), answer.headers())?;
        transferring(&sender);
        let bytes = receive(answer.into_body(), counter).await?;
        if bytes < MIN_LARGE {
            return Err(RpmError::Length { url: url.to_string(), bytes, is_short: true });
        }
    }
}

/// Reads `stream` to its end, and discards what it reads.
async fn receive(mut stream: RecvStream, counter: &AtomicU64) -> Result<u64, RpmError> {
    let mut total = 0;
    while let Some(data) = stream.data().await {
        let length = data.map_err(RpmError::http(WHAT))?.len();
        total += length as u64;
        counter.fetch_add(length as u64, Ordering::Relaxed);
        stream.flow_control().release_capacity(length).map_err(RpmError::http(WHAT))?;
    }
    Ok(total)
}

/// Uploads without an end. If the server ends an upload, another one begins.
async fn uploads(
    mut sender: SendRequest<Bytes>,
    url: &WebUrl,
    counter: &AtomicU64,
    size: &SendSize,
    transferring: &mut impl FnMut(&SendRequest<Bytes>),
) -> Result<(), RpmError> {
    loop {
        sender = sender.ready().await.map_err(RpmError::http(WHAT))?;
        let request = request(Method::POST, url)?;
        let (mut answer, mut stream) = sender.send_request(request, false).map_err(RpmError::http(WHAT))?;
        transferring(&sender);
        let mut bytes = 0;
        while let Some(sent) = send_or_answer(&mut stream, &mut answer, size, url).await? {
            bytes += sent;
            counter.fetch_add(sent, Ordering::Relaxed);
        }
        if bytes < MIN_LARGE {
            return Err(RpmError::Length { url: url.to_string(), bytes, is_short: true });
        }
    }
}

/// Sends a piece of an upload as soon as the connection takes one; returns its length, or `None` if the server ended
/// the upload with an answer.
async fn send_or_answer(
    stream: &mut SendStream<Bytes>,
    answer: &mut ResponseFuture,
    size: &SendSize,
    url: &WebUrl,
) -> Result<Option<u64>, RpmError> {
    stream.reserve_capacity(size.get());
    let capacity = poll_fn(|cx| {
        if let Poll::Ready(answer) = std::pin::Pin::new(&mut *answer).poll(cx) {
            let checked = answer
                .map_err(RpmError::http(WHAT))
                .and_then(|answer| check_answer(url, answer.status(), answer.headers()));
            return Poll::Ready(checked.map(|()| None));
        }
        poll_capacity(stream, cx).map(|ready| ready.map(Some).map_err(RpmError::http(WHAT)))
    })
    .await?;
    let Some(capacity) = capacity else { return Ok(None) };
    let piece = data().slice(..capacity.min(size.get()));
    let length = piece.len() as u64;
    stream.send_data(piece, false).map_err(RpmError::http(WHAT))?;
    Ok(Some(length))
}

/// Waits until `stream` takes data; returns the number of bytes.
pub(super) fn poll_capacity(
    stream: &mut SendStream<Bytes>,
    cx: &mut std::task::Context<'_>,
) -> Poll<Result<usize, h2::Error>> {
    loop {
        match stream.capacity() {
            0 => {}
            capacity => return Poll::Ready(Ok(capacity)),
        }
        match stream.poll_capacity(cx) {
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(Some(Err(e))) => return Poll::Ready(Err(e)),
            Poll::Ready(None) => return Poll::Ready(Err(h2::Reason::CANCEL.into())),
            Poll::Pending => return Poll::Pending,
        }
    }
}

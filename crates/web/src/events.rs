//! `/api/v1/events`: announces new tests in the archive as server-sent events.

use crate::app::App;
use crate::problem::Problem;
use crate::server::readable;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use jitlat_archive::{ArchiveExtent, CatalogueWatch};
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{sleep, timeout};

/// Minimum time between two reads of the archive.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two reads if the system cannot watch the archive.
const UNWATCHED_INTERVAL: Duration = Duration::from_secs(3);
/// Time without events after which a keep-alive is sent to a client.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Contents of an event `tests`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestsEvent {
    /// Number of tests in the archive.
    pub tests: u64,
    /// Start of the newest test, ns since 1970; null without tests.
    pub last_ns: Option<i64>,
}

/// Clients that wait for events.
#[derive(Debug, Default)]
pub struct Watchers {
    clients: Mutex<Vec<Sender<Bytes>>>,
    /// Notified when a client is added.
    added: Notify,
}

impl Watchers {
    /// Adds a client and returns its events; `None` if there are already `most` clients.
    pub fn add(&self, most: usize) -> Option<Receiver<Bytes>> {
        let mut all = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|client| !client.is_closed());
        if all.len() >= most {
            return None;
        }
        let (sender, receiver) = channel(4);
        // Make the browser wait 5 s before it reconnects.
        let _ = sender.try_send(Bytes::from_static(b"retry: 5000\n\n"));
        all.push(sender);
        self.added.notify_one();
        Some(receiver)
    }

    /// Sends `text` to all clients; a client that reads nothing is removed.
    pub fn send(&self, text: &Bytes) {
        let mut all = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|client| client.try_send(text.clone()).is_ok());
    }

    /// Closes the event streams of all clients.
    pub fn end(&self) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Waits until there is a client.
    async fn somebody(&self) {
        while self.is_empty() {
            self.added.notified().await;
        }
    }

    /// True if there is no client.
    pub fn is_empty(&self) -> bool {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// Body of an answer that continues until the sender is dropped.
struct Events(Receiver<Bytes>);

impl HttpBody for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|text| text.map(|text| Ok(Frame::data(text))))
    }
}

/// Handler that streams an event whenever tests were added to the archive.
pub async fn events(State(app): State<Arc<App>>) -> Response {
    match app.watchers.add(app.limits.watching) {
        Some(receiver) => sent(receiver),
        None => Problem::Busy.json(),
    }
}

/// Returns the answer that streams the events of a client of [`Watchers`].
pub fn sent(receiver: Receiver<Bytes>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    (kind, Body::new(Events(receiver))).into_response()
}

/// Announces new tests whenever there are clients; never returns.
pub async fn watch(app: Arc<App>) {
    loop {
        app.watchers.somebody().await;
        follow(&app).await;
    }
}

/// Announces new tests until there are no more clients.
async fn follow(app: &Arc<App>) {
    // Watch before the first read, so that no test is missed in between.
    let changes = CatalogueWatch::watch(&app.root).ok().and_then(|changes| readable(changes).ok());
    let (mut known, mut sent): (Option<ArchiveExtent>, Instant) = (None, Instant::now());
    while !app.watchers.is_empty() {
        // Continue after errors: an archive that cannot be read now may be readable later.
        let extent = app.read(|archive| Ok(archive.extent()?)).await.ok();
        let is_new = extent.is_some() && known.is_some() && extent != known;
        known = extent.or(known);
        let text = match known.filter(|_| is_new) {
            Some(extent) => {
                let event = TestsEvent { tests: extent.tests, last_ns: extent.last_ns };
                let json = serde_json::to_string(&event).unwrap_or_default();
                Some(format!("event: tests\ndata: {json}\n\n"))
            }
            None if sent.elapsed() >= KEEPALIVE_INTERVAL => Some(": still here\n\n".to_owned()),
            None => None,
        };
        if let Some(text) = text {
            sent = Instant::now();
            app.watchers.send(&Bytes::from(text));
        }
        // Limit the reads of an archive that changes all the time.
        sleep(MIN_INTERVAL).await;
        let longest = if changes.is_some() {
            KEEPALIVE_INTERVAL.saturating_sub(sent.elapsed())
        } else {
            UNWATCHED_INTERVAL
        };
        // A timeout and a change have the same effect: the archive is read again.
        let _ = timeout(longest, changed(changes.as_ref())).await;
    }
}

/// Waits for a change; never returns if changes cannot be watched.
async fn changed(changes: Option<&AsyncFd<CatalogueWatch>>) {
    let Some(changes) = changes else { return std::future::pending().await };
    while let Ok(mut ready) = changes.readable().await {
        let changed = changes.get_ref().take();
        ready.clear_ready();
        if changed {
            return;
        }
    }
}

//! `/api/v1/events`: says when tests entered the archive, as server-sent events.

use crate::app::App;
use crate::problem::Problem;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use jitlat_archive::Extent;
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::sleep;

/// How often the archive is asked whether something changed.
const EVERY: Duration = Duration::from_secs(1);
/// After how many of them without news a client hears that it is still connected.
const SILENT: u32 = 15;

/// What an event `tests` says.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestsEvent {
    /// Tests that the archive has now.
    pub tests: u64,
    /// When the last of them began, ns since 1970; null without tests.
    pub last_ns: Option<i64>,
}

/// Clients that wait for events.
#[derive(Debug, Default)]
pub struct Watchers(Mutex<Vec<Sender<Bytes>>>);

impl Watchers {
    /// One more, unless there are `most`.
    pub fn add(&self, most: usize) -> Option<Receiver<Bytes>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|client| !client.is_closed());
        if all.len() >= most {
            return None;
        }
        let (sender, receiver) = channel(4);
        // How long a browser waits before it connects again.
        let _ = sender.try_send(Bytes::from_static(b"retry: 5000\n\n"));
        all.push(sender);
        Some(receiver)
    }

    /// Sends it to all of them; one that takes nothing is forgotten.
    pub fn send(&self, text: &Bytes) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|client| client.try_send(text.clone()).is_ok());
    }

    /// Nothing more follows for any of them.
    pub fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// The body of an answer that goes on.
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

/// Sends an event whenever tests entered the archive.
pub async fn events(State(app): State<Arc<App>>) -> Response {
    match app.watchers.add(app.limits.watching) {
        Some(receiver) => sent(receiver),
        None => Problem::Busy.json(),
    }
}

/// The answer that has what a client of [`Watchers`] is told.
pub fn sent(receiver: Receiver<Bytes>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    (kind, Body::new(Events(receiver))).into_response()
}

/// Asks the archive what is new while somebody waits for it.
pub async fn watch(app: Arc<App>) {
    let (mut known, mut silent): (Option<Extent>, u32) = (None, 0);
    loop {
        sleep(EVERY).await;
        if app.watchers.is_empty() {
            known = None;
            continue;
        }
        // An archive that cannot be read just now may be so later.
        let Ok(extent) = app.read(|archive| Ok(archive.extent()?)).await else { continue };
        let text = match known.replace(extent) {
            Some(before) if before != extent => {
                let event = TestsEvent { tests: extent.tests, last_ns: extent.last_ns };
                let json = serde_json::to_string(&event).unwrap_or_default();
                format!("event: tests\ndata: {json}\n\n")
            }
            _ if silent >= SILENT => ": still here\n\n".to_owned(),
            _ => {
                silent += 1;
                continue;
            }
        };
        silent = 0;
        app.watchers.send(&Bytes::from(text));
    }
}

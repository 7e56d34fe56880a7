//! `/api/v1/events`: announces new tests in the archive as server-sent events.

use crate::app::App;
use crate::connections::{BusyConnection, Connection};
use crate::limits::WebLimits;
use crate::problem::Problem;
use crate::server::{ClientAddress, readable};
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use jitlat_archive::{ArchiveExtent, CatalogueWatch};
use jitlat_proto::access::ClientAddress as Client;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
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
    /// Adds a client and returns its events.
    pub fn add(&self) -> Receiver<Bytes> {
        let mut all = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|client| !client.is_closed());
        let (sender, receiver) = channel(4);
        // Make the browser wait 5 s before it reconnects.
        let _ = sender.try_send(Bytes::from_static(b"retry: 5000\n\n"));
        all.push(sender);
        self.added.notify_one();
        receiver
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

/// Slots of clients that wait for events, of any kind. When all are taken, a client with fewer gets one of the client with the most.
#[derive(Clone, Debug, Default)]
pub struct EventPlaces(Arc<Mutex<PlaceTable>>);

#[derive(Debug, Default)]
struct PlaceTable {
    /// Number of the next slot: those taken later have larger ones.
    next: u64,
    taken: BTreeMap<u64, TakenPlace>,
}

/// A taken slot. Its stream of events ends when this value is dropped.
#[derive(Debug)]
struct TakenPlace {
    client: Client,
    _end: oneshot::Sender<Infallible>,
}

/// Slot of a client that waits for events, until it is dropped.
#[derive(Debug)]
pub struct EventPlace {
    places: EventPlaces,
    number: u64,
    /// Ends when another client gets the slot.
    ended: oneshot::Receiver<Infallible>,
    _busy: Option<BusyConnection>,
}

impl EventPlaces {
    /// Takes a slot for the sender of a request.
    ///
    /// # Errors
    /// [`Problem::TooMany`] if the client has as many slots as one client may have, [`Problem::Busy`] if all
    /// slots are taken and no other client has at least two more than this one.
    fn take(&self, from: &EventClient, limits: &WebLimits) -> Result<EventPlace, Problem> {
        let client = Client::of(from.address.0);
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let PlaceTable { next, taken: all } = &mut *table;
        let mut holds: HashMap<Client, usize> = HashMap::new();
        all.values().for_each(|taken| *holds.entry(taken.client).or_default() += 1);
        let own = holds.get(&client).copied().unwrap_or_default();
        if own >= limits.watching_of_one {
            return Err(Problem::TooMany(format!(
                "You follow {} pages already, the maximum for one host. Close one of them.",
                limits.watching_of_one
            )));
        }
        if all.len() >= limits.watching {
            // The client that loses a slot still has at least as many as the other, so that two clients do not take
            // slots from each other for ever.
            let most = holds.iter().max_by_key(|(_, held)| **held).filter(|(_, held)| **held > own + 1);
            let oldest = most.and_then(|(greedy, _)| all.iter().find(|(_, taken)| taken.client == *greedy));
            let Some(oldest) = oldest.map(|(number, _)| *number) else { return Err(Problem::Busy) };
            all.remove(&oldest);
        }
        let number = *next;
        *next += 1;
        let (end, ended) = oneshot::channel();
        all.insert(number, TakenPlace { client, _end: end });
        let busy = from.connection.as_ref().map(Connection::begin);
        Ok(EventPlace { places: self.clone(), number, ended, _busy: busy })
    }
}

impl Drop for EventPlace {
    fn drop(&mut self) {
        let mut table = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.taken.remove(&self.number);
    }
}

/// Sender of a request for events.
#[derive(Debug)]
pub struct EventClient {
    address: ClientAddress,
    connection: Option<Connection>,
}

impl<S: Send + Sync> FromRequestParts<S> for EventClient {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<EventClient, StatusCode> {
        let address = parts.extensions.get().copied().ok_or(StatusCode::INTERNAL_SERVER_ERROR)?;
        Ok(EventClient { address, connection: parts.extensions.get().cloned() })
    }
}

/// Body of an answer that continues until the sender is dropped.
struct Events {
    receiver: Receiver<Bytes>,
    place: EventPlace,
}

impl HttpBody for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if Pin::new(&mut self.place.ended).poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        self.receiver.poll_recv(cx).map(|text| text.map(|text| Ok(Frame::data(text))))
    }
}

/// Handler that streams an event whenever tests were added to the archive.
pub async fn events(State(app): State<Arc<App>>, from: EventClient) -> Response {
    sent(&app, &from, &app.watchers)
}

/// Returns the answer that streams the events of `watchers`.
pub fn sent(app: &App, from: &EventClient, watchers: &Watchers) -> Response {
    match app.places.take(from, &app.limits) {
        Ok(place) => {
            let kind = [(header::CONTENT_TYPE, "text/event-stream")];
            (kind, Body::new(Events { receiver: watchers.add(), place })).into_response()
        }
        Err(problem) => problem.json(),
    }
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
    let changes = CatalogueWatch::watch(&app.roots).ok().and_then(|changes| readable(changes).ok());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn take(places: &EventPlaces, host: u8) -> Result<EventPlace, Problem> {
        let address = ClientAddress([192, 0, 2, host].into());
        places.take(&EventClient { address, connection: None }, &WebLimits::default())
    }

    #[test]
    fn those_with_most_slots_lose_them_to_others() {
        let places = EventPlaces::default();
        let mut greedy: Vec<EventPlace> = (0..48).map(|k| take(&places, k / 8).unwrap()).collect();
        assert!(matches!(take(&places, 0), Err(Problem::TooMany(_))));
        let honest = [take(&places, 100).unwrap(), take(&places, 100).unwrap()];
        let mut ended: Vec<bool> = greedy
            .iter_mut()
            .map(|place| place.ended.try_recv() == Err(oneshot::error::TryRecvError::Closed))
            .collect();
        assert_eq!(ended.iter().filter(|ended| **ended).count(), 2);
        // An evicted stream that ends late gives back nothing that others have.
        greedy.retain(|_| !ended.remove(0));
        assert_eq!(places.0.lock().unwrap().taken.len(), 48);
        drop((greedy, honest));
        assert!(places.0.lock().unwrap().taken.is_empty());
    }

    #[test]
    fn nobody_loses_the_only_slot() {
        let places = EventPlaces::default();
        let held: Vec<EventPlace> = (0..48).map(|k| take(&places, k).unwrap()).collect();
        assert!(matches!(take(&places, 100), Err(Problem::Busy)));
        drop(held);
    }
}

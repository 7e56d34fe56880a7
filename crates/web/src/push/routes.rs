//! Requests of hosts that push. Each needs the token of a host, which decides whose tests they are.

use super::body::{body, feed};
use super::{NotNow, PushSettings, Shelf};
use crate::connections::Connection;
use crate::guesses::Guesses;
use crate::server::ClientAddress;
use crate::token::{Token, checksum};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{post, put};
use jitlat_archive::SharedMessage;
use jitlat_core::Span;
use jitlat_proto::push::answer::{ErrorAnswer, Known, Offers, PartAnswers};
use jitlat_proto::push::is_name;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Maximum number of bodies that are received at the same time.
pub const MAX_BODIES: usize = 16;
/// Maximum number of requests of one host at the same time.
const MAX_OF_HOST: usize = 2;
/// Maximum time that a request waits for another body to be complete.
const WAIT: Duration = Duration::from_secs(5);
/// Maximum length of an offer, in bytes.
const MAX_OFFER_BYTES: usize = 64 << 10;
/// Time for an offer to arrive.
const OFFER_TIMEOUT: Duration = Duration::from_secs(15);

/// State shared by all pushes.
#[derive(Debug)]
pub struct PushState {
    hosts: Vec<(Arc<str>, Token)>,
    shelf: Arc<dyn Shelf>,
    bodies: Arc<Semaphore>,
    of_host: HashMap<Arc<str>, Arc<Semaphore>>,
    guesses: Guesses,
}

/// Host whose token a request has.
#[derive(Clone)]
struct PushingHost(Arc<str>);

impl PushState {
    pub fn new(settings: &PushSettings) -> PushState {
        let hosts: Vec<(Arc<str>, Token)> =
            settings.hosts.iter().map(|(name, token)| (Arc::from(name.as_str()), token.clone())).collect();
        let own = |(name, _): &(Arc<str>, Token)| (name.clone(), Arc::new(Semaphore::new(MAX_OF_HOST)));
        PushState {
            of_host: hosts.iter().map(own).collect(),
            hosts,
            shelf: settings.shelf.clone(),
            bodies: Arc::new(Semaphore::new(MAX_BODIES)),
            guesses: Guesses::default(),
        }
    }

    /// Returns the host whose token `headers` contain; `None` if there is none. All tokens are compared, so that the
    /// time reveals nothing.
    fn host(&self, headers: &HeaderMap) -> Option<PushingHost> {
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(shown), None) = (shown.next(), shown.next()) else { return None };
        let token = shown.to_str().ok()?.strip_prefix("Bearer ")?.trim();
        let sum = checksum(&[token.as_bytes()]);
        let found = self
            .hosts
            .iter()
            .fold(None, |found, (name, token)| if token.has(&sum) { Some(name) } else { found });
        found.map(|name| PushingHost(name.clone()))
    }
}

/// Builds the router of pushes.
pub fn router(push: &Arc<PushState>) -> Router {
    Router::new()
        .route("/push/v1/offers", post(offers))
        .route("/push/v1/sent", post(sent))
        .route("/push/v1/told", post(told))
        .route("/push/v1/tests", post(tests))
        .route("/push/v1/tests/{hash}", put(test))
        .layer(from_fn_with_state(push.clone(), guard))
        .with_state(push.clone())
}

/// Passes on a request that has the token of a host; refuses one with a wrong token after a delay. Until a wait is
/// over, which is longer after each wrong token, further wrong tokens of the same client are refused at once. A right
/// token never waits: hosts with other tokens may have the same address, and nobody guesses 256 bits.
async fn guard(
    State(push): State<Arc<PushState>>,
    Extension(ClientAddress(from)): Extension<ClientAddress>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(host) = push.host(request.headers()) else {
        if let Some(seconds) = push.guesses.wait(from) {
            let why = "wrong tokens came from this address";
            return with_wait(failed(StatusCode::TOO_MANY_REQUESTS, why, None), Some(seconds));
        }
        push.guesses.failed(from, "pushes").await;
        let why = "this collector has no host with this token: both hosts need the same file and keys";
        let mut response = failed(StatusCode::UNAUTHORIZED, why, None);
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return response;
    };
    let connection = request.extensions().get::<Connection>().cloned();
    connection.iter().for_each(Connection::prove);
    let _busy = connection.as_ref().map(Connection::begin);
    let Some(_own) = push.of_host.get(&host.0).and_then(|own| own.clone().try_acquire_owned().ok()) else {
        let why = format!("{} has {MAX_OF_HOST} requests in progress already", host.0);
        return failed(StatusCode::TOO_MANY_REQUESTS, &why, Some(Span::seconds(2)));
    };
    request.extensions_mut().insert(host);
    next.run(request).await
}

fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_string(body) {
        Ok(text) => (status, [(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn failed(status: StatusCode, why: &str, wait: Option<Span>) -> Response {
    let response = json(status, &ErrorAnswer { error: why.to_owned() });
    with_wait(response, wait.map(|wait| (wait.0.max(1) as u64).div_ceil(1_000_000_000)))
}

fn with_wait(mut response: Response, seconds: Option<u64>) -> Response {
    if let Some(seconds) = seconds {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Runs `work` on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Response> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        failed(StatusCode::INTERNAL_SERVER_ERROR, "a thread that stores tests failed (a bug in jitlat)", None)
    })
}

/// Receives the state of a host and the names of tests that it offers, and answers with those already stored.
async fn offers(
    State(push): State<Arc<PushState>>,
    Extension(PushingHost(host)): Extension<PushingHost>,
    from: Body,
) -> Response {
    let work = move |offers| push.shelf.offered(&host, &offers).map(|known| Known { known });
    answered(from, "offer", Offers::parse, work).await
}

/// Answers another judge which of its messages were sent from here.
async fn sent(
    State(push): State<Arc<PushState>>,
    Extension(PushingHost(host)): Extension<PushingHost>,
    from: Body,
) -> Response {
    let read = |text: &[u8]| serde_json::from_slice::<Vec<SharedMessage>>(text);
    answered(from, "list", read, move |messages| push.shelf.sent(&host, &messages)).await
}

/// Learns which messages another judge has sent.
async fn told(
    State(push): State<Arc<PushState>>,
    Extension(PushingHost(host)): Extension<PushingHost>,
    from: Body,
) -> Response {
    let read = |text: &[u8]| serde_json::from_slice::<Vec<SharedMessage>>(text);
    answered(from, "list", read, move |messages| push.shelf.told(&host, &messages)).await
}

/// Reads a body that is a small document, called `what` in errors, and answers with the result of `work` on it.
async fn answered<T: Send + 'static, E: std::fmt::Display, A: Serialize + Send + 'static>(
    from: Body,
    what: &str,
    read: impl Fn(&[u8]) -> Result<T, E>,
    work: impl FnOnce(T) -> Result<A, NotNow> + Send + 'static,
) -> Response {
    let text = match timeout(OFFER_TIMEOUT, to_bytes(from, MAX_OFFER_BYTES)).await {
        Ok(Ok(text)) => text,
        Ok(Err(_)) => return failed(StatusCode::PAYLOAD_TOO_LARGE, &format!("the {what} is too long"), None),
        Err(_) => {
            return failed(StatusCode::REQUEST_TIMEOUT, &format!("the {what} arrived too slowly"), None);
        }
    };
    let document = match read(&text) {
        Ok(document) => document,
        Err(why) => return failed(StatusCode::BAD_REQUEST, &format!("the {what} is not valid: {why}"), None),
    };
    match blocking(move || work(document)).await {
        Ok(Ok(answer)) => json(StatusCode::OK, &answer),
        Ok(Err(NotNow { why, wait })) => failed(StatusCode::SERVICE_UNAVAILABLE, &why, Some(wait)),
        Err(response) => response,
    }
}

/// Receives tests, or `only` the one with this name.
async fn receive(
    push: Arc<PushState>,
    host: Arc<str>,
    from: Body,
    only: Option<String>,
) -> Result<PartAnswers, Response> {
    let busy = || {
        failed(
            StatusCode::SERVICE_UNAVAILABLE,
            "it is busy with tests of other hosts",
            Some(Span::seconds(5)),
        )
    };
    let Ok(Ok(slot)) = timeout(WAIT, push.bodies.clone().acquire_owned()).await else { return Err(busy()) };
    let (to, mut reader) = body();
    let work = tokio::spawn(blocking(move || {
        // The slot is free again when nothing is read any more, even if the host disconnects.
        let _slot = slot;
        push.shelf.receive(&host, &mut reader, only.as_deref())
    }));
    feed(from, to).await;
    match work.await {
        Ok(answered) => answered,
        Err(_) => Err(busy()),
    }
}

/// Receives several tests.
async fn tests(
    State(push): State<Arc<PushState>>,
    Extension(PushingHost(host)): Extension<PushingHost>,
    from: Body,
) -> Response {
    match receive(push, host, from, None).await {
        Ok(answers) if answers.tests.is_empty() && answers.error.is_some() => {
            failed(StatusCode::BAD_REQUEST, answers.error.as_deref().unwrap_or_default(), None)
        }
        Ok(answers) => json(StatusCode::OK, &answers),
        Err(response) => response,
    }
}

/// Receives one test, whose name is in the address.
async fn test(
    State(push): State<Arc<PushState>>,
    Extension(PushingHost(host)): Extension<PushingHost>,
    Path(name): Path<String>,
    from: Body,
) -> Response {
    if !is_name(&name) {
        return failed(StatusCode::NOT_FOUND, "the name of a test is the SHA-256 of its log", None);
    }
    let answers = match receive(push, host, from, Some(name)).await {
        Ok(answers) => answers,
        Err(response) => return response,
    };
    match answers.tests.into_iter().next() {
        Some(answer) => {
            let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            with_wait(json(status, &answer), answer.retry_after)
        }
        None => failed(
            StatusCode::BAD_REQUEST,
            answers.error.as_deref().unwrap_or("the body contains no test"),
            None,
        ),
    }
}

//! Requests of hosts that push. Each request needs the token or the certificate of a host; its tests belong to this host.

use super::body::{body, feed};
use super::certificates::{Certified, HostCertificates};
use super::{HostProof, NotNow, PushSettings, Shelf};
use crate::connections::Connection;
use crate::forwarded::Forwarded;
use crate::guesses::Guesses;
use crate::identity::IdentityError;
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
use jitlat_core::prefix::Prefix;
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::accounts::{Allowance, ClientLimits};
use jitlat_proto::push::answer::{ErrorAnswer, Known, Offers, PartAnswers};
use jitlat_proto::push::is_name;
use serde::Serialize;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Maximum number of bodies that are received at the same time.
pub const MAX_BODIES: usize = 16;
/// Maximum number of requests of one host at the same time.
const MAX_OF_HOST: usize = 2;
/// Maximum number of requests per second of a host; further ones wait. Each may write to the archive, whose lock all hosts share.
const RATE_OF_HOST: u32 = 50;
/// Maximum time that a request waits for another body to be complete.
const WAIT: Duration = Duration::from_secs(5);
/// Maximum length of an offer, in bytes.
const MAX_OFFER_BYTES: usize = 64 << 10;
/// Time for an offer to arrive.
const OFFER_TIMEOUT: Duration = Duration::from_secs(15);

/// State shared by all pushes.
#[derive(Debug)]
pub struct PushState {
    /// Hosts with tokens, and hosts with certificates.
    tokens: Vec<(Arc<str>, Token)>,
    pub certificates: HostCertificates,
    shelf: Arc<dyn Shelf>,
    proxies: Vec<Prefix>,
    forwarded: Forwarded,
    bodies: Arc<Semaphore>,
    of_host: HashMap<Arc<str>, HostRequests>,
    begun: Instant,
    guesses: Guesses,
}

/// Requests of a host: those in progress, and their rate.
#[derive(Debug)]
struct HostRequests {
    places: Arc<Semaphore>,
    rate: Allowance,
}

impl HostRequests {
    fn new() -> HostRequests {
        let limits = ClientLimits { packets_per_second: RATE_OF_HOST, ..ClientLimits::UNLIMITED };
        HostRequests { places: Arc::new(Semaphore::new(MAX_OF_HOST)), rate: Allowance::new(limits) }
    }

    /// Waits until another request of this host may begin.
    async fn turn(&self, begun: Instant) {
        let now = || SteadyTime(i64::try_from(begun.elapsed().as_nanos()).unwrap_or(i64::MAX));
        while let Err(wait) = self.rate.take(0, now()) {
            tokio::time::sleep(Duration::from_nanos(wait.0.max(1_000_000).unsigned_abs())).await;
        }
    }
}

/// Host whose token or certificate a request has.
#[derive(Clone)]
struct PushingHost(Arc<str>);

impl PushState {
    /// Creates the state of a collector.
    ///
    /// # Errors
    /// See [`HostCertificates::new`].
    pub fn new(settings: &PushSettings) -> Result<PushState, IdentityError> {
        let names = settings.hosts.iter().map(|(name, _)| Arc::from(name.as_str()));
        let tokens = settings.hosts.iter().filter_map(|(name, proof)| match proof {
            HostProof::Token(token) => Some((Arc::from(name.as_str()), token.clone())),
            HostProof::Pinned(_) | HostProof::Named => None,
        });
        Ok(PushState {
            of_host: names.map(|name| (name, HostRequests::new())).collect(),
            begun: Instant::now(),
            tokens: tokens.collect(),
            certificates: HostCertificates::new(&settings.hosts, settings.authorities.as_ref())?,
            shelf: settings.shelf.clone(),
            proxies: settings.proxies.clone(),
            forwarded: Forwarded::default(),
            bodies: Arc::new(Semaphore::new(MAX_BODIES)),
            guesses: Guesses::default(),
        })
    }

    /// True if `peer` is a proxy, which connects for many hosts.
    pub fn is_proxy(&self, peer: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.contains(peer))
    }

    /// Returns the host that a request is from, on a connection with the certificate `certified`, if it has one.
    ///
    /// # Errors
    /// [`WrongProof`].
    fn host(&self, headers: &HeaderMap, certified: Option<&Certified>) -> Result<PushingHost, WrongProof> {
        let has_token = headers.contains_key(header::AUTHORIZATION);
        match certified {
            // A token in addition to a certificate may be stolen from another host.
            Some(_) if has_token => Err(WrongProof(
                "token for pushes, in addition to a certificate".to_owned(),
                Arc::from("a host has a token or a certificate, and this request has both"),
            )),
            // The reason contains the fingerprint, and no secret.
            Some(Certified(Err(why))) => {
                Err(WrongProof(format!("certificate for pushes: {why}"), why.clone()))
            }
            Some(Certified(Ok(host))) => Ok(PushingHost(host.clone())),
            None => self
                .of_token(headers)
                .ok_or_else(|| WrongProof("token for pushes".to_owned(), Arc::from(NO_HOST))),
        }
    }

    /// Returns the host whose token `headers` contain; `None` if there is none. All tokens are compared, so that the
    /// time reveals nothing.
    fn of_token(&self, headers: &HeaderMap) -> Option<PushingHost> {
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(shown), None) = (shown.next(), shown.next()) else { return None };
        let token = shown.to_str().ok()?.strip_prefix("Bearer ")?.trim();
        let sum = checksum(&[token.as_bytes()]);
        let found = self
            .tokens
            .iter()
            .fold(None, |found, (name, token)| if token.has(&sum) { Some(name) } else { found });
        found.map(|name| PushingHost(name.clone()))
    }
}

/// Reason for the refusal of a request without the token of a host.
const NO_HOST: &str = "this collector has no host with this token: both hosts need the same file and keys";

/// Wrong token or certificate: description in the log, and the reason that is sent to the client.
struct WrongProof(String, Arc<str>);

/// Builds the router of pushes.
pub fn router(push: &Arc<PushState>) -> Router {
    Router::new()
        .route("/push/v1/offers", post(offers))
        .route("/push/v1/sent", post(sent))
        .route("/push/v1/report-sent", post(report_sent))
        .route("/push/v1/tests", post(tests))
        .route("/push/v1/tests/{hash}", put(test))
        .layer(from_fn_with_state(push.clone(), guard))
        .with_state(push.clone())
}

/// Passes on a request that has the token or the certificate of a host; refuses one with a wrong token or certificate after a delay.
/// Each wrong one begins a waiting time for its client, longer each time; until it is over, further wrong ones are refused at once.
/// A right one never waits: hosts with other tokens may have the same address, and 256 bits cannot be guessed.
async fn guard(
    State(push): State<Arc<PushState>>,
    Extension(ClientAddress(from)): Extension<ClientAddress>,
    mut request: Request,
    next: Next,
) -> Response {
    let from = if push.is_proxy(from) { push.forwarded.client(request.headers(), from) } else { from };
    let host = match push.host(request.headers(), request.extensions().get()) {
        Ok(host) => host,
        Err(WrongProof(what, why)) => {
            if let Some(seconds) = push.guesses.wait(from) {
                let why = "wrong tokens or certificates came from this address";
                return with_wait(failed(StatusCode::TOO_MANY_REQUESTS, why, None), Some(seconds));
            }
            push.guesses.failed(from, &what).await;
            let mut response = failed(StatusCode::UNAUTHORIZED, &why, None);
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return response;
        }
    };
    let connection = request.extensions().get::<Connection>().cloned();
    connection.iter().for_each(Connection::prove);
    let _busy = connection.as_ref().map(Connection::begin);
    let own = push.of_host.get(&host.0);
    let place = own.and_then(|own| own.places.clone().try_acquire_owned().ok());
    let (Some(own), Some(_place)) = (own, place) else {
        let why = format!("{} has {MAX_OF_HOST} requests in progress already", host.0);
        return failed(StatusCode::TOO_MANY_REQUESTS, &why, Some(Span::seconds(2)));
    };
    own.turn(push.begun).await;
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

/// Records which messages another judge has sent.
async fn report_sent(
    State(push): State<Arc<PushState>>,
    Extension(PushingHost(host)): Extension<PushingHost>,
    from: Body,
) -> Response {
    let read = |text: &[u8]| serde_json::from_slice::<Vec<SharedMessage>>(text);
    answered(from, "list", read, move |messages| push.shelf.record_sent(&host, &messages)).await
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

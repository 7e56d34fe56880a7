//! The page, its files, reports, and the WebSocket of a test.

use super::server::{BrowserConnection, BrowserState};
use super::test;
use crate::clock::steady;
use axum::Router;
use axum::extract::{Extension, Path, Request, State, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jitlat_proto::browser::{MAX_MESSAGE, SUBPROTOCOL};
use std::sync::Arc;

/// Buffer for reading and writing a WebSocket, in bytes. The default, 128 KiB, would be most of a test's memory.
const SOCKET_BUFFER: usize = 8 << 10;

/// Sources that the page may use.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; worker-src 'self'; \
                           connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Sources that a report may use: it contains everything, and requests nothing.
const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
                             base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page: address, media type, contents.
const FILES: [(&str, &str, &str); 4] = [
    ("/", "text/html; charset=utf-8", include_str!("page.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page.js")),
    ("/worker.js", "text/javascript; charset=utf-8", include_str!("worker.js")),
];

/// Builds the router.
pub fn router(serving: Arc<BrowserState>) -> Router {
    let file = |router: Router<Arc<BrowserState>>,
                (at, kind, text): (&'static str, &'static str, &'static str)| {
        router.route(at, get(move || async move { ([(header::CONTENT_TYPE, kind)], text) }))
    };
    FILES
        .into_iter()
        .fold(Router::new(), file)
        .route("/report/{name}", get(report))
        .route("/test", get(begin))
        .fallback(|| async { (StatusCode::NOT_FOUND, "There is no such page: the measurement is at /\n") })
        .layer(from_fn_with_state(serving.clone(), with_limits))
        .with_state(serving)
}

/// Counts a request against the limits of the client, and adds headers to its answer.
async fn with_limits(
    State(serving): State<Arc<BrowserState>>,
    Extension(connection): Extension<BrowserConnection>,
    request: Request,
    next: Next,
) -> Response {
    let now = steady();
    connection.grant.touch(now);
    let is_report = request.uri().path().starts_with("/report/");
    let mut answer = match serving.shared.take(connection.peer.ip(), MAX_ANSWER, now) {
        Ok(()) => next.run(request).await,
        Err(_) => (StatusCode::TOO_MANY_REQUESTS, "Too many requests: wait a second, then try again.\n")
            .into_response(),
    };
    let headers = answer.headers_mut();
    let policy = if is_report { REPORT_POLICY } else { PAGE_POLICY };
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        // With these two, browsers give an isolated page a finer clock, if they consider its origin secure.
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-embedder-policy"), "require-corp"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    serving.shared.counters.answered(1);
    answer
}

/// Number of bytes that an answer counts for: at least as long as any file of the page.
const MAX_ANSWER: usize = 16 << 10;

/// Returns a report.
async fn report(State(serving): State<Arc<BrowserState>>, Path(name): Path<String>) -> Response {
    match serving.reports.get(&name) {
        Some(page) => {
            ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page.to_string()).into_response()
        }
        None => (
            StatusCode::NOT_FOUND,
            "This report is no longer there: reports are stored for at most an hour. Measure again at /\n",
        )
            .into_response(),
    }
}

/// True if the request comes from the page of this server: a page of another site must not measure with its visitors' browsers.
fn is_own_page(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://"));
    matches!((origin, text(header::HOST)), (Some((_, origin)), Some(host)) if origin.eq_ignore_ascii_case(host))
}

/// Begins a test over a WebSocket.
async fn begin(
    State(serving): State<Arc<BrowserState>>,
    Extension(connection): Extension<BrowserConnection>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    if !is_own_page(&headers) {
        let refusal = "A test can be started from the page of this server only, not from another site.\n";
        return (StatusCode::FORBIDDEN, refusal).into_response();
    }
    let browser = headers.get(header::USER_AGENT).and_then(|name| name.to_str().ok()).unwrap_or_default();
    let browser = browser.to_owned();
    upgrade
        .protocols([SUBPROTOCOL])
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .read_buffer_size(SOCKET_BUFFER)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * SOCKET_BUFFER)
        .on_upgrade(move |socket| test::run(socket, serving, connection, browser))
}

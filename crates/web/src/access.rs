//! Access to pages, and the security headers of every answer.

use crate::alerts::ALERTS;
use crate::app::App;
use crate::change::{self, TOKEN_COOKIE, TokenCarrier, UserRole, shows};
use crate::connections::Connection;
use crate::page::{self, PageTab};
use crate::problem::Problem;
use crate::query::Query;
use crate::run::Starters;
use crate::server::ClientAddress;
use crate::token::Token;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use jitlat_core::prefix::Prefix;
use maud::{Markup, html};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Clients that may read the pages.
#[derive(Clone, Debug)]
pub enum ReadAccess {
    /// All users of this host. Allowed only if the server listens on a loopback address.
    Local,
    /// Anyone with the token.
    Token(Token),
    /// All clients; a reverse proxy checks them. It connects from one of these networks, and other hosts are refused; empty: every host
    /// that connects is taken for the proxy.
    Proxy(Vec<Prefix>),
}

/// Content security policy: only files of this server, and no scripts or styles within a page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const ALWAYS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Address of the form that asks for the token.
pub const LOGIN: &str = "/login";
/// Address below which tests are started, watched and stopped.
const RUN: &str = "/run";
const RUNS: &str = "/api/v1/runs";
/// Prefixes of the addresses at which alerts are acknowledged, and silences are made and ended.
const ALERT_CHANGES: [&str; 2] = ["/api/v1/alerts/", "/api/v1/silences"];

/// Passes an authorised request on; rejects any other with a reason.
pub async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let client = client(&app, &request);
    let peer = request.extensions_mut().insert(ClientAddress(client));
    if let Some(ClientAddress(peer)) = peer {
        request.extensions_mut().insert(PeerAddress(peer));
    }
    let shows_token = app.has_token() && change::has_bearer(request.headers());
    let mut response = match decide(&app, &request) {
        // No token is compared while its client must wait. Cookies cannot be guessed.
        _ if shows_token && app.guesses.wait(client).is_some() => too_many_guesses(&app, client, is_api),
        Decision::Answer(Reader { role, shown }) => {
            request.extensions_mut().insert(role);
            let connection = request.extensions().get::<Connection>().cloned();
            if let Some(connection) = connection.as_ref().filter(|_| shown.is_some()) {
                connection.prove();
            }
            let _busy = connection.as_ref().map(Connection::begin);
            let answer = tokio::time::timeout(app.limits.request, next.run(request)).await;
            answer.unwrap_or_else(|_| {
                if is_api { Problem::TooLong.json() } else { Problem::TooLong.into_response() }
            })
        }
        Decision::LogIn => log_in(&app, client, request).await,
        Decision::Refuse(status, why) => {
            if shows_token && status == StatusCode::UNAUTHORIZED {
                app.guesses.failed(client, "token for the web page").await;
            }
            refuse(&app, status, why, is_api)
        }
    };
    for (name, value) in ALWAYS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Returns the address of the sender of a request. A proxy in front of this server names it in the last value of `X-Forwarded-For`.
fn client(app: &App, request: &Request) -> IpAddr {
    let peer = request.extensions().get::<ClientAddress>().map(|from| from.0);
    let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    if app.is_proxy(peer) { app.forwarded.client(request.headers(), peer) } else { peer }
}

/// Address of the host that has connected: that of the client, or of a proxy.
#[derive(Clone, Copy, Debug)]
struct PeerAddress(IpAddr);

/// Sender of a request that is answered: its rights, and the part of the request that carried its token (`None` if no
/// token was needed).
struct Reader {
    role: UserRole,
    shown: Option<TokenCarrier>,
}

enum Decision {
    Answer(Reader),
    LogIn,
    Refuse(StatusCode, &'static str),
}

fn decide(app: &App, request: &Request) -> Decision {
    use Decision::{Answer, LogIn, Refuse};
    let (method, path, headers) = (request.method(), request.uri().path(), request.headers());
    if matches!(app.access, ReadAccess::Local) && !names_this_host(headers) {
        return Refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "This server only serves users of this host: open http://127.0.0.1 or http://localhost, with its port.",
        );
    }
    let peer = request.extensions().get::<PeerAddress>();
    if matches!(app.access, ReadAccess::Proxy(_)) && peer.is_some_and(|peer| !app.is_proxy(peer.0)) {
        return Refuse(StatusCode::FORBIDDEN, "This page is behind a proxy: open the address of the proxy.");
    }
    if app.has_token() && *method == Method::POST && path == LOGIN {
        return LogIn;
    }
    let found = role(app, headers);
    // A wrong token counts as a guess even if the sender has another right.
    let is_right = found.as_ref().is_some_and(|reader| reader.shown == Some(TokenCarrier::Header));
    if app.has_token() && change::has_bearer(headers) && !is_right {
        return Refuse(StatusCode::UNAUTHORIZED, "This token is wrong.");
    }
    if matches!(*method, Method::GET | Method::HEAD) {
        return match found {
            Some(reader) => Answer(reader),
            None if path == "/style.css" && !change::has_bearer(headers) => {
                Answer(Reader { role: UserRole::Read, shown: None })
            }
            None => Refuse(StatusCode::UNAUTHORIZED, ""),
        };
    }
    let is_alert_form = path == ALERTS || path.strip_prefix(ALERTS).is_some_and(|rest| rest.starts_with('/'));
    let is_alert = is_alert_form || ALERT_CHANGES.iter().any(|begin| path.starts_with(begin));
    let is_api = path.starts_with(RUNS) || (is_alert && !is_alert_form);
    let is_change = is_api || is_alert_form || path == RUN || path.starts_with("/run/");
    let may_change = |role| is_alert && app.may_change_alerts(role);
    if *method != Method::POST || !is_change || (app.runs.is_none() && !may_change(UserRole::Read)) {
        return Refuse(StatusCode::METHOD_NOT_ALLOWED, "This server is read-only: use GET or HEAD.");
    }
    let reader = match found {
        Some(reader) if reader.role == UserRole::Run || may_change(reader.role) => reader,
        Some(_) => {
            return Refuse(
                StatusCode::FORBIDDEN,
                "Starting and stopping tests, and changing alerts, needs the token for running tests.",
            );
        }
        None => return Refuse(StatusCode::UNAUTHORIZED, ""),
    };
    if let Err(why) = change::is_own(headers) {
        tracing::warn!("web page: refused a request to change something: {why}");
        return Refuse(StatusCode::FORBIDDEN, why);
    }
    if is_api && reader.shown == Some(TokenCarrier::Cookie) {
        return Refuse(
            StatusCode::FORBIDDEN,
            "Programs must send the token in a header: Authorization: Bearer TOKEN.",
        );
    }
    if is_api && !change::is_json(headers) {
        return Refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Send JSON: Content-Type: application/json.");
    }
    Answer(reader)
}

/// Returns the rights of the sender of `headers`; `None` if it has no access.
fn role(app: &App, headers: &HeaderMap) -> Option<Reader> {
    match app.runs.as_ref().map(|runs| &runs.who) {
        Some(Starters::Token(token)) => {
            if let Some(shown) = shows(headers, token, &app.run_cookie) {
                return Some(Reader { role: UserRole::Run, shown: Some(shown) });
            }
        }
        Some(Starters::Local) if matches!(app.access, ReadAccess::Local) => {
            return Some(Reader { role: UserRole::Run, shown: None });
        }
        _ => {}
    }
    match &app.access {
        ReadAccess::Local | ReadAccess::Proxy(_) => Some(Reader { role: UserRole::Read, shown: None }),
        ReadAccess::Token(token) => {
            let shown = shows(headers, token, &app.cookie)?;
            Some(Reader { role: UserRole::Read, shown: Some(shown) })
        }
    }
}

/// True if the request's `Host` can only be a name of this host. Otherwise a page of another site could make a
/// browser read this server by resolving the site's name to this host (DNS rebinding).
fn names_this_host(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|h| h.to_str().ok()) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => host.split(':').next().unwrap_or(""),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Maximum size of a form.
const MAX_FORM_BYTES: usize = 4096;

async fn log_in(app: &App, client: IpAddr, request: Request) -> Response {
    if app.guesses.wait(client).is_some() {
        return too_many_guesses(app, client, false);
    }
    let body = tokio::time::timeout(app.limits.headers, to_bytes(request.into_body(), MAX_FORM_BYTES)).await;
    let Ok(Ok(body)) = body else {
        return Problem::Wrong("The form is too large.".to_owned()).into_response();
    };
    // Other guesses of this client may have failed since the headers of this request arrived.
    if app.guesses.wait(client).is_some() {
        return too_many_guesses(app, client, false);
    }
    let form = Query::parse(&String::from_utf8_lossy(&body));
    let shown = form.get("token").unwrap_or("");
    let cookie = match (&app.access, app.runs.as_ref().map(|runs| &runs.who)) {
        (_, Some(Starters::Token(token))) if token.is(shown) => &app.run_cookie,
        (ReadAccess::Token(token), _) if token.is(shown) => &app.cookie,
        _ => {
            app.guesses.failed(client, "token for the web page").await;
            return (StatusCode::UNAUTHORIZED, form_page(app, Some("Wrong token."))).into_response();
        }
    };
    let cookie = format!("{TOKEN_COOKIE}={cookie}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000");
    let to = [RUN, ALERTS].into_iter().find(|to| form.get("to") == Some(to)).unwrap_or("/");
    let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, to.to_owned())];
    (StatusCode::SEE_OTHER, headers, Body::empty()).into_response()
}

/// Returns the answer to a token of a client that must wait.
fn too_many_guesses(app: &App, client: IpAddr, is_api: bool) -> Response {
    let seconds = app.guesses.wait(client).unwrap_or(1);
    let why = format!("Wrong tokens came from your address: try again in {seconds} s.");
    let mut response = refuse(app, StatusCode::TOO_MANY_REQUESTS, &why, is_api);
    response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    response
}

fn refuse(app: &App, status: StatusCode, why: &str, is_api: bool) -> Response {
    let mut response = match (status, is_api) {
        (StatusCode::UNAUTHORIZED, false) => (status, form_page(app, None)).into_response(),
        (_, true) => {
            let why = if why.is_empty() { "Send the token: Authorization: Bearer TOKEN." } else { why };
            let body = serde_json::json!({ "error": "refused", "detail": why }).to_string();
            (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        _ => {
            let none = Markup::default();
            let page = page::page("Refused", PageTab::None, &none, &html! { p { (why) } });
            (status, page).into_response()
        }
    };
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

fn form_page(app: &App, problem: Option<&str>) -> Html<String> {
    let (title, button, to, file) = match app.access {
        ReadAccess::Token(_) => ("Token required", "Show the page", "/", "--token-file"),
        // Every client that can connect may read.
        ReadAccess::Local | ReadAccess::Proxy(_) => {
            ("Token required to run tests", "Continue", RUN, "--run-token-file")
        }
    };
    let main = html! {
        @if let Some(problem) = problem { p.headline.bad role="alert" { (problem) } }
        (token_form(button, to))
        p { "The token is in the file given to the server with its option (" code { (file) } ")." }
    };
    page::page(title, PageTab::None, &Markup::default(), &main)
}

/// Form that asks for a token and then leads to the page `to`.
pub fn token_form(button: &str, to: &str) -> Markup {
    html! {
        form.login method="post" action="/login" {
            p {
                label for="token" { "Token" }
                " "
                input #token name="token" type="password" autocomplete="current-password" required;
                " "
                input type="hidden" name="to" value=(to);
                button { (button) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_host_are_its_names() {
        for (host, right) in [
            ("127.0.0.1:2680", true),
            ("localhost", true),
            ("LOCALHOST:1", true),
            ("[::1]:2680", true),
            ("127.77.0.1", true),
            ("evil.example:2680", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("10.0.0.1", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            assert_eq!(names_this_host(&headers), right, "{host}");
        }
        assert!(!names_this_host(&HeaderMap::new()));
    }
}

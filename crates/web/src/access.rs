//! Who may read, and what every answer says of itself.

use crate::app::App;
use crate::page::{self, Tab};
use crate::problem::Problem;
use crate::query::Query;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Who may read.
#[derive(Clone, Debug)]
pub enum Access {
    /// Everybody on this host. Only for loopback addresses.
    Local,
    /// Who has the token.
    Token(Token),
    /// Those whom the proxy before it lets through.
    Proxy,
}

/// A secret that readers show. Only its checksum is kept.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// What a file has is no token: too easy to guess, or it cannot be sent in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a token has {MIN} to {MAX} characters of ASCII without spaces, in the first line; `openssl rand -hex 24` makes one",
    MIN = Token::LENGTHS.start(), MAX = Token::LENGTHS.end()
)]
pub struct UnfitToken;

impl Token {
    const LENGTHS: std::ops::RangeInclusive<usize> = 16..=512;

    /// The first line of what a file has.
    ///
    /// # Errors
    /// [`UnfitToken`].
    pub fn of_file_contents(contents: &[u8]) -> Result<Token, UnfitToken> {
        let line = contents.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
        let line = std::str::from_utf8(line).map_err(|_| UnfitToken)?;
        let fit = Token::LENGTHS.contains(&line.len()) && line.bytes().all(|b| b.is_ascii_graphic());
        if fit { Ok(Token::new(line)) } else { Err(UnfitToken) }
    }

    /// A token that the caller knows to be hard to guess.
    pub fn new(secret: &str) -> Token {
        Token(checksum(&[secret.as_bytes()]))
    }

    /// Whether `shown` is it; in a time that does not depend on how much of it is right.
    fn is(&self, shown: &str) -> bool {
        equal(&self.0, &checksum(&[shown.as_bytes()]))
    }

    /// What a browser keeps in its place, as long as this process runs with this `salt`.
    pub(crate) fn cookie(&self, salt: &[u8]) -> String {
        checksum(&[salt, &self.0]).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn checksum(parts: &[&[u8]]) -> [u8; 32] {
    let mut sum = Sha256::new();
    parts.iter().for_each(|part| sum.update(part));
    sum.finalize().into()
}

fn equal(a: &[u8; 32], b: &[u8; 32]) -> bool {
    std::hint::black_box(a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b))) == 0
}

/// Nothing but files of this server, and no script or style within a page.
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

/// The address of the form that asks for the token.
pub const LOGIN: &str = "/login";
const COOKIE: &str = "jitlat";

/// Lets a request through, or says why not.
pub async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let mut response = match decide(&app, &request) {
        Decision::Answer => {
            let answer = tokio::time::timeout(app.limits.request, next.run(request)).await;
            answer.unwrap_or_else(|_| {
                if is_api { Problem::TooLong.json() } else { Problem::TooLong.into_response() }
            })
        }
        Decision::LogIn => log_in(&app, request).await,
        Decision::Refuse(status, why) => refuse(status, why, is_api),
    };
    for (name, value) in ALWAYS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

enum Decision {
    Answer,
    LogIn,
    Refuse(StatusCode, &'static str),
}

fn decide(app: &App, request: &Request) -> Decision {
    use Decision::{Answer, LogIn, Refuse};
    let (method, path) = (request.method(), request.uri().path());
    if matches!(app.access, Access::Local) && !names_this_host(request.headers()) {
        return Refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "This page is for the users of this host: open it as http://127.0.0.1 or http://localhost, with its port.",
        );
    }
    if let (Access::Token(_), &Method::POST, LOGIN) = (&app.access, method, path) {
        return LogIn;
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Refuse(
            StatusCode::METHOD_NOT_ALLOWED,
            "Nothing can be changed here: there is only GET and HEAD.",
        );
    }
    let Access::Token(token) = &app.access else { return Answer };
    if path == "/style.css" || shows(request.headers(), token, &app.cookie) {
        return Answer;
    }
    Refuse(StatusCode::UNAUTHORIZED, "")
}

/// Whether the name that the client used can only be this host's: a page elsewhere cannot make a browser read this one
/// by having its own name lead here (DNS rebinding).
fn names_this_host(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|h| h.to_str().ok()) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => host.split(':').next().unwrap_or(""),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Whether the headers have the token, or what a browser keeps in its place.
fn shows(headers: &HeaderMap, token: &Token, cookie: &str) -> bool {
    let text = |name| headers.get_all(name).into_iter().filter_map(|value: &HeaderValue| value.to_str().ok());
    let bearer = text(header::AUTHORIZATION).filter_map(|value| value.strip_prefix("Bearer "));
    let kept = text(header::COOKIE)
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='));
    let kept_one = Token::new(cookie);
    bearer.map(|shown| token.is(shown.trim())).chain(kept.map(|shown| kept_one.is(shown))).any(|right| right)
}

/// How long a wrong token takes.
const WRONG: Duration = Duration::from_secs(1);
/// Most bytes of a form.
const MOST_FORM: usize = 4096;

async fn log_in(app: &App, request: Request) -> Response {
    let Access::Token(token) = &app.access else { return Problem::Wrong(String::new()).into_response() };
    let body = tokio::time::timeout(app.limits.headers, to_bytes(request.into_body(), MOST_FORM)).await;
    let Ok(Ok(body)) = body else {
        return Problem::Wrong("The form is too long.".to_owned()).into_response();
    };
    let form = String::from_utf8_lossy(&body);
    if !Query::parse(&form).get("token").is_some_and(|shown| token.is(shown)) {
        tokio::time::sleep(WRONG).await;
        tracing::warn!("page: somebody showed a wrong token");
        return (StatusCode::UNAUTHORIZED, form_page(Some("This is not the token."))).into_response();
    }
    let cookie = format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000", app.cookie);
    let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, "/".to_owned())];
    (StatusCode::SEE_OTHER, headers, Body::empty()).into_response()
}

fn refuse(status: StatusCode, why: &str, is_api: bool) -> Response {
    let mut response = match (status, is_api) {
        (StatusCode::UNAUTHORIZED, false) => (status, form_page(None)).into_response(),
        (_, true) => {
            let why = if why.is_empty() { "Send the token: Authorization: Bearer TOKEN." } else { why };
            let body = serde_json::json!({ "error": "refused", "detail": why }).to_string();
            (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        _ => {
            let page = page::page("Refused", Tab::None, |out| {
                out.push_str("</header>\n<main id=\"main\">\n<p>");
                out.push_str(why);
                out.push_str("</p>");
            });
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

fn form_page(problem: Option<&str>) -> Html<String> {
    page::page("Who may read this", Tab::None, |out| {
        out.push_str("</header>\n<main id=\"main\">\n");
        if let Some(problem) = problem {
            out.push_str("<p class=\"headline bad\" role=\"alert\">");
            out.push_str(problem);
            out.push_str("</p>");
        }
        out.push_str(
            "<form method=\"post\" action=\"/login\" class=\"login\"><p><label for=\"token\">Token</label> \
             <input id=\"token\" name=\"token\" type=\"password\" autocomplete=\"current-password\" required> \
             <button>Show the page</button></p></form>\
             <p>The token is in the file that the server was started with (<code>--token-file</code>).</p>",
        );
    })
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

    #[test]
    fn a_token_is_shown_in_a_header_or_a_cookie() {
        let token = Token::new("correct-horse-battery");
        let cookie = token.cookie(b"salt");
        assert_ne!(cookie, token.cookie(b"pepper"));
        for file in ["", "short", "with a space in it somewhere", "tr\u{e4}ger-in-latin-or-utf8"] {
            assert!(Token::of_file_contents(file.as_bytes()).is_err(), "{file}");
        }
        assert!(
            Token::of_file_contents(b"correct-horse-battery \nand more").unwrap().is("correct-horse-battery")
        );
        let with = |name: HeaderName, value: &str| HeaderMap::from_iter([(name, value.parse().unwrap())]);
        assert!(shows(&with(header::AUTHORIZATION, "Bearer correct-horse-battery"), &token, &cookie));
        assert!(shows(&with(header::COOKIE, &format!("a=b; jitlat={cookie}")), &token, &cookie));
        for wrong in ["Bearer correct-horse-batter", "Basic correct-horse-battery", "Bearer "] {
            assert!(!shows(&with(header::AUTHORIZATION, wrong), &token, &cookie), "{wrong}");
        }
        assert!(!shows(&with(header::COOKIE, "jitlat=correct-horse-battery"), &token, &cookie));
        assert!(!shows(&HeaderMap::new(), &token, &cookie));
    }
}

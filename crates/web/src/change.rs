//! Authorisation of changes, and protection against cross-site requests: a foreign page cannot make a browser start a test.
//!
//! A form contains a secret derived from a cookie of the browser; other sites can neither read the cookie nor
//! make the browser send it. A program sends JSON, which a foreign page cannot send without a preflight
//! request, with its token in a header: a cookie is not sufficient. In addition, a request is refused if the
//! browser's headers say that it comes from another site.

use crate::token::{Token, checksum, equal, hexadecimal};
use axum::http::header;
use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// Rights of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UserRole {
    /// Read pages.
    Read,
    /// Read pages, and start and stop tests.
    Run,
}

/// Name of the cookie to which the secret of forms belongs.
const COOKIE: &str = "jitlat-form";
/// Maximum length of the cookie's value.
const MAX_CHARS: usize = 64;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Key from which the secrets of forms are derived.
#[derive(Clone, Debug)]
pub struct Secrets([u8; 32]);

/// Secret of a form, and the cookie to set if the browser has none yet.
#[derive(Debug)]
pub struct FormSecret {
    pub secret: String,
    pub set_cookie: Option<String>,
}

impl Secrets {
    /// Creates the key from 32 random bytes.
    pub fn new(key: [u8; 32]) -> Secrets {
        Secrets(key)
    }

    /// Creates the secret of a form for the sender of `headers`. `None` if the system has no random numbers.
    pub fn for_form(&self, headers: &HeaderMap) -> Option<FormSecret> {
        if let Some(kept) = cookie(headers, COOKIE) {
            return Some(FormSecret { secret: self.of(kept), set_cookie: None });
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let value = hexadecimal(&random);
        let set_cookie = Some(format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict"));
        Some(FormSecret { secret: self.of(&value), set_cookie })
    }

    /// True if `shown`, the secret in a submitted form, belongs to the browser that sent `headers`.
    pub fn fits(&self, headers: &HeaderMap, shown: Option<&str>) -> bool {
        let both = cookie(headers, COOKIE).zip(shown);
        both.is_some_and(|(kept, shown)| {
            equal(&checksum(&[shown.as_bytes()]), &checksum(&[self.of(kept).as_bytes()]))
        })
    }

    fn of(&self, cookie: &str) -> String {
        hexadecimal(&checksum(&[&self.0, cookie.as_bytes()]))
    }
}

/// Returns the value of the cookie `name`; `None` if the request has no such cookie.
fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    cookies(headers, name).find(|value| value.len() <= MAX_CHARS)
}

/// Returns the values of the cookies `name`.
pub fn cookies<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    texts(headers, header::COOKIE)
        .flat_map(|value| value.split(';'))
        .filter_map(move |pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

fn texts(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(name).into_iter().filter_map(|value: &HeaderValue| value.to_str().ok())
}

/// Part of a request that carries the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenCarrier {
    /// Header, as sent by programs; a foreign page cannot send it.
    Header,
    /// Cookie, which a browser sends on its own.
    Cookie,
}

/// Name of the cookie that a browser stores instead of a token.
pub const TOKEN_COOKIE: &str = "jitlat";

/// True if the request shows a token in a header.
pub fn has_bearer(headers: &HeaderMap) -> bool {
    texts(headers, header::AUTHORIZATION).any(|value| value.starts_with("Bearer "))
}

/// Returns the part of the request that proves possession of `token`: a header with the token, or the cookie
/// with value `kept`. `None` if it contains neither.
pub fn shows(headers: &HeaderMap, token: &Token, kept: &str) -> Option<TokenCarrier> {
    // One token in one header: each request tries only one.
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    if let (Some(only), None) = (all.next(), all.next())
        && let Some(shown) = only.to_str().ok().and_then(|value| value.strip_prefix("Bearer "))
        && token.is(shown.trim())
    {
        return Some(TokenCarrier::Header);
    }
    let kept = Token::new(kept);
    cookies(headers, TOKEN_COOKIE).any(|shown| kept.is(shown)).then_some(TokenCarrier::Cookie)
}

/// Checks that a browser does not attribute the request to a page of another site.
///
/// # Errors
/// Reason why the request is refused, and what to do if that is a mistake.
pub fn is_own(headers: &HeaderMap) -> Result<(), &'static str> {
    if texts(headers, SITE).any(|site| site != "same-origin") {
        return Err("This request came from a page of another site.");
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    let own = |origin: &str| {
        let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        rest.is_some_and(|rest| !rest.is_empty() && rest.eq_ignore_ascii_case(host))
    };
    if texts(headers, header::ORIGIN).all(own) {
        return Ok(());
    }
    Err(
        "This request came from a page of another site, or through a proxy that changes the header Host: configure it to pass Host unchanged.",
    )
}

/// True if the body is JSON, which a foreign page cannot send without a preflight request.
pub fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(list: &[(HeaderName, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn what_another_site_asks_for_is_refused() {
        let host = (header::HOST, "jitlat.example:2680");
        let origin = |origin| is_own(&with(&[host.clone(), (header::ORIGIN, origin)]));
        assert!(
            origin("http://jitlat.example:2680").is_ok() && origin("https://JITLAT.example:2680").is_ok()
        );
        for foreign in [
            "http://evil.example",
            "http://jitlat.example",
            "http://jitlat.example:2680.evil.example",
            "http://evil.example/jitlat.example:2680",
            "file://jitlat.example:2680",
            "null",
            "",
            "http://",
        ] {
            assert!(origin(foreign).is_err(), "{foreign}");
        }
        for (site, fits) in
            [("same-origin", true), ("same-site", false), ("cross-site", false), ("none", false)]
        {
            let headers = with(&[host.clone(), (SITE, site)]);
            assert_eq!(is_own(&headers).is_ok(), fits, "{site}");
        }
        assert!(is_own(&with(&[host])).is_ok(), "a program says neither");
        assert!(is_own(&with(&[(header::ORIGIN, "http://")])).is_err(), "no host, no origin");
    }

    #[test]
    fn a_forms_secret_belongs_to_its_browser() {
        let secrets = Secrets::new([7; 32]);
        let form = secrets.for_form(&HeaderMap::new()).unwrap();
        let set = form.set_cookie.unwrap();
        assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict") && !set.contains(&form.secret));
        let browser = with(&[(header::COOKIE, &format!("jitlat=x; {}", set.split(';').next().unwrap()))]);
        assert!(secrets.fits(&browser, Some(&form.secret)));
        let again = secrets.for_form(&browser).unwrap();
        assert!(again.set_cookie.is_none() && again.secret == form.secret);
        let other = with(&[(header::COOKIE, "jitlat-form=00112233445566778899aabbccddeeff")]);
        assert!(!secrets.fits(&other, Some(&form.secret)) && !secrets.fits(&browser, None));
        assert!(!secrets.fits(&HeaderMap::new(), Some(&form.secret)) && !secrets.fits(&browser, Some("")));
        assert!(!Secrets::new([8; 32]).fits(&browser, Some(&form.secret)), "another process");
        let long = with(&[(header::COOKIE, &format!("jitlat-form={}", "a".repeat(65)))]);
        assert!(secrets.for_form(&long).unwrap().set_cookie.is_some());
    }

    #[test]
    fn json_is_what_no_form_sends() {
        for (kind, fits) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("text/plain", false),
            ("application/x-www-form-urlencoded", false),
            ("text/plain; application/json", false),
        ] {
            assert_eq!(is_json(&with(&[(header::CONTENT_TYPE, kind)])), fits, "{kind}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }

    #[test]
    fn a_token_is_shown_in_a_header_or_a_cookie() {
        let token = Token::new("correct-horse-battery");
        let kept = token.cookie(b"salt");
        let shown = |name: HeaderName, value: &str| shows(&with(&[(name, value)]), &token, &kept);
        assert_eq!(shown(header::AUTHORIZATION, "Bearer correct-horse-battery"), Some(TokenCarrier::Header));
        assert_eq!(shown(header::COOKIE, &format!("a=b; jitlat={kept}")), Some(TokenCarrier::Cookie));
        for wrong in ["Bearer correct-horse-batter", "Basic correct-horse-battery", "Bearer "] {
            assert_eq!(shown(header::AUTHORIZATION, wrong), None, "{wrong}");
        }
        assert_eq!(shown(header::COOKIE, "jitlat=correct-horse-battery"), None);
        assert_eq!(shows(&HeaderMap::new(), &token, &kept), None);
        // A second header would be a second guess.
        let mut two = with(&[(header::AUTHORIZATION, "Bearer wrong")]);
        two.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer correct-horse-battery"));
        assert_eq!(shows(&two, &token, &kept), None);
    }
}

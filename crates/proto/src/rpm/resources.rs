//! [`TestResources`]: the resources that a server offers, from its configuration document. [`WebUrl`]: an address of a
//! resource.

use super::CONFIG_PATH;
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// Maximum length of a configuration document, in bytes.
pub const MAX_DOCUMENT: usize = 16 << 10;
/// Maximum length of a URL, in bytes.
const MAX_URL: usize = 2048;

/// An `https://` or `http://` URL without user and fragment, in the parts that a request needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebUrl {
    /// True for `https`.
    pub is_secure: bool,
    /// Name or address of the host; an IPv6 address is without brackets.
    pub host: String,
    /// Port; `None`: that of the scheme.
    pub port: Option<u16>,
    /// Path and query; begins with `/`.
    pub path: String,
}

/// Error of parsing a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not an https:// or http:// address: write https://HOST/, HOST:PORT or [2001:db8::7]:PORT", .0.chars().take(80).collect::<String>())]
pub struct UrlError(String);

impl WebUrl {
    /// Returns the TCP port of the host.
    pub fn tcp_port(&self) -> u16 {
        self.port.unwrap_or(if self.is_secure { 443 } else { 80 })
    }

    /// Returns host and port as in the URL: `example.net`, `[2001:db8::1]:4043`.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        self.port.map_or(host.clone(), |port| format!("{host}:{port}"))
    }

    /// Returns the configuration document for what a user typed: a URL, or only a host with or without a port.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn of_configuration(typed: &str) -> Result<WebUrl, UrlError> {
        let url = if typed.contains("://") { typed.to_owned() } else { format!("https://{typed}") };
        let mut url: WebUrl = url.parse().map_err(|_| UrlError(typed.to_owned()))?;
        if url.path == "/" {
            url.path = CONFIG_PATH.to_owned();
        }
        Ok(url)
    }
}

impl FromStr for WebUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<WebUrl, UrlError> {
        parse(text).ok_or_else(|| UrlError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<WebUrl> {
    if text.len() > MAX_URL || !text.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
        return None;
    }
    let (scheme, rest) = text.split_once("://")?;
    let is_secure = match scheme.to_ascii_lowercase().as_str() {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
            (host, port)
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let in_name = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if host.is_empty() || !(authority.starts_with('[') || host.bytes().all(in_name)) {
        return None;
    }
    let port = port.map(|port| port.parse::<u16>().ok().filter(|p| *p > 0 && port.as_bytes()[0] != b'+'));
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Some(WebUrl {
        is_secure,
        host: host.to_owned(),
        port: match port {
            None => None,
            Some(port) => Some(port?),
        },
        path,
    })
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

/// Resources of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestResources {
    /// Object of one byte, for probes.
    pub small: WebUrl,
    /// Object that is too large to be downloaded completely.
    pub large: WebUrl,
    /// Resource that accepts uploads of any length.
    pub upload: WebUrl,
    /// Host to connect to, instead of that in the URLs; `None`: the host in the URLs.
    pub endpoint: Option<String>,
}

/// Reason why a configuration document is not valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// The document is longer than [`MAX_DOCUMENT`].
    #[error("the configuration is longer than {MAX_DOCUMENT} bytes")]
    TooLong,
    /// The document is not JSON, or a member occurs twice or has the wrong type.
    #[error("the configuration is not valid: {0}")]
    Json(#[from] serde_json::Error),
    /// The version is not 1.
    #[error("the configuration has version {0}, and only version 1 is known")]
    Version(u64),
    /// A URL is missing.
    #[error("the configuration has no {0}")]
    Missing(&'static str),
    /// A URL is not valid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The URLs have different hosts.
    #[error("the URLs of the configuration have different hosts, {0} and {1}")]
    Hosts(String, String),
}

/// Configuration document as written. Serde refuses a second occurrence of a member.
#[derive(Deserialize)]
struct Document {
    version: u64,
    urls: DocumentUrls,
    test_endpoint: Option<String>,
}

/// URLs of a configuration document: the names of the draft, and those of servers written before it.
#[derive(Deserialize)]
struct DocumentUrls {
    small_download_url: Option<String>,
    large_download_url: Option<String>,
    upload_url: Option<String>,
    small_https_download_url: Option<String>,
    large_https_download_url: Option<String>,
    https_upload_url: Option<String>,
}

impl TestResources {
    /// Parses a configuration document.
    ///
    /// # Errors
    /// [`DocumentError`].
    pub fn parse(document: &[u8]) -> Result<TestResources, DocumentError> {
        if document.len() > MAX_DOCUMENT {
            return Err(DocumentError::TooLong);
        }
        let Document { version, urls, test_endpoint } = serde_json::from_slice(document)?;
        if version != 1 {
            return Err(DocumentError::Version(version));
        }
        let url = |name: &'static str, given: Option<String>, former: Option<String>| {
            let text = given.or(former).ok_or(DocumentError::Missing(name))?;
            Ok::<_, DocumentError>(text.parse::<WebUrl>()?)
        };
        let small = url("small_download_url", urls.small_download_url, urls.small_https_download_url)?;
        let large = url("large_download_url", urls.large_download_url, urls.large_https_download_url)?;
        let upload = url("upload_url", urls.upload_url, urls.https_upload_url)?;
        for other in [&large, &upload] {
            if !other.host.eq_ignore_ascii_case(&small.host) {
                return Err(DocumentError::Hosts(small.host, other.host.clone()));
            }
        }
        Ok(TestResources { small, large, upload, endpoint: test_endpoint.filter(|host| !host.is_empty()) })
    }

    /// Returns the document of a server whose resources are at `authority`. It also has the names that servers used
    /// before the draft, because goresponsiveness needs those.
    pub fn document(authority: &str) -> String {
        let url = |path: &str| format!("https://{authority}{path}");
        let (small, large, upload) = (url(SMALL_PATH), url(LARGE_PATH), url(UPLOAD_PATH));
        serde_json::json!({
            "version": 1,
            "urls": {
                "small_download_url": small,
                "large_download_url": large,
                "upload_url": upload,
                "small_https_download_url": small,
                "large_https_download_url": large,
                "https_upload_url": upload,
            },
        })
        .to_string()
    }
}

/// Path of the small object on our server.
pub const SMALL_PATH: &str = "/small";
/// Path of the large object on our server.
pub const LARGE_PATH: &str = "/large";
/// Path of uploads on our server.
pub const UPLOAD_PATH: &str = "/upload";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_written_alike() {
        for text in ["https://example.net/a?b=c", "http://192.0.2.1:8080/", "https://[2001:db8::1]:4043/x"] {
            assert_eq!(text.parse::<WebUrl>().unwrap().to_string(), text);
        }
        let url: WebUrl = "HTTPS://example.net?x".parse().unwrap();
        assert_eq!((url.path.as_str(), url.tcp_port(), url.is_secure), ("/?x", 443, true));
        for wrong in [
            "",
            "ftp://example.net/",
            "https://",
            "https:///x",
            "https://user@example.net/",
            "https://example.net:0/",
            "https://example.net:+1/",
            "https://example.net:/",
            "https://example.net:65536/",
            "https://[::1/",
            "https://[::1]x/",
            "https://[x]/",
            "https://exa mple.net/",
            "https://example.net/#top",
            "https://ex\u{e4}mple.net/",
        ] {
            assert!(wrong.parse::<WebUrl>().is_err(), "{wrong}");
        }
        assert!(format!("https://example.net/{}", "a".repeat(4096)).parse::<WebUrl>().is_err());
    }

    #[test]
    fn a_host_is_enough() {
        let url = |typed| WebUrl::of_configuration(typed).unwrap().to_string();
        assert_eq!(url("example.net"), "https://example.net/.well-known/nq");
        assert_eq!(url("[::1]:4043"), "https://[::1]:4043/.well-known/nq");
        assert_eq!(url("http://example.net/"), "http://example.net/.well-known/nq");
        assert_eq!(url("https://example.net/config"), "https://example.net/config");
        assert!(WebUrl::of_configuration("what is this").is_err());
    }

    #[test]
    fn our_document_is_valid_for_us() {
        let document = TestResources::document("[2001:db8::1]:4043");
        let resources = TestResources::parse(document.as_bytes()).unwrap();
        assert_eq!(resources.small.to_string(), "https://[2001:db8::1]:4043/small");
        assert_eq!((resources.upload.path.as_str(), resources.endpoint), ("/upload", None));
    }

    /// Returns the error of a document whose `urls` and members after them are these.
    fn refused(urls: &str, rest: &str) -> String {
        let document = format!(r#"{{"version": 1, "urls": {{{urls}}}{rest}}}"#);
        TestResources::parse(document.as_bytes()).unwrap_err().to_string()
    }

    const URLS: &str = r#""small_download_url": "https://a/s", "large_download_url": "https://a/l", "upload_url": "https://a/u""#;

    #[test]
    fn documents_that_break_a_rule_are_refused() {
        let whole = format!(r#"{{"other": [1], "urls": {{{URLS}}}, "test_endpoint": "b", "version": 1}}"#);
        assert_eq!(TestResources::parse(whole.as_bytes()).unwrap().endpoint.as_deref(), Some("b"));
        let twice = refused(&format!(r#"{URLS}, "upload_url": "https://a/v""#), "");
        assert!(twice.contains("duplicate field `upload_url`"), "{twice}");
        let twice = refused(URLS, r#", "version": 1"#);
        assert!(twice.contains("duplicate field `version`"), "{twice}");
        assert!(
            refused(&URLS.replace("https://a/l", "https://b/l"), "").contains("different hosts, a and b")
        );
        assert!(refused(&URLS.replace("upload_url", "up"), "").contains("no upload_url"));
        assert!(refused(&URLS.replace("https://a/l", "file:///l"), "").contains("file:///l"));
        let version = whole.replace(r#""version": 1"#, r#""version": 2"#);
        assert!(matches!(TestResources::parse(version.as_bytes()), Err(DocumentError::Version(2))));
        assert!(TestResources::parse(b"\xff").is_err() && TestResources::parse(b"[1]").is_err());
        let long = whole + &" ".repeat(MAX_DOCUMENT);
        assert!(matches!(TestResources::parse(long.as_bytes()), Err(DocumentError::TooLong)));
    }

    #[test]
    fn names_from_before_the_draft_are_enough() {
        let urls = URLS.replace("_download", "_https_download").replace("upload_url", "https_upload_url");
        let document = format!(r#"{{"version": 1, "urls": {{{urls}}}}}"#);
        assert_eq!(TestResources::parse(document.as_bytes()).unwrap().large.path, "/l");
    }
}

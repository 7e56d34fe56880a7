//! Requests to the web server of a collector: the HTTP API for pushes, documents, and the queries of pages, with valid tokens and names of
//! the archive or with any text.
#![no_main]
// Aims at: crates/web/src/push/routes.rs crates/web/src/push/body.rs crates/web/src/routes.rs crates/web/src/query.rs crates/web/src/times.rs crates/web/src/path.rs crates/web/src/compare.rs crates/web/src/test.rs crates/web/src/metrics
// Longest input: 8192

use jitlat_archive::{Archive, SharedMessage};
use jitlat_core::{PacketRecord, Session, TestSpec, WallTime};
use jitlat_fuzz::Scratch;
use jitlat_proto::push::answer::{Offers, PartAnswer, PartAnswers};
use jitlat_proto::push::part::PartHeader;
use jitlat_store::log::{LogVersion, LogWriter};
use jitlat_web::{HostProof, NotNow, PushSettings, Settings, Shelf, Token, Web};
use std::io::BufRead;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};

const TOKEN: &str = "the token of a host, long enough";

#[derive(arbitrary::Arbitrary, Debug)]
enum Input {
    /// Any bytes on a connection.
    Raw(Vec<u8>),
    Requests(Vec<Asked>),
}

#[derive(arbitrary::Arbitrary, Debug)]
struct Asked {
    method: u8,
    path: u8,
    parts: [Text; 2],
    query: Vec<(u8, Text)>,
    headers: Vec<(u8, Vec<u8>)>,
    body: Body,
}

#[derive(arbitrary::Arbitrary, Debug)]
enum Text {
    Known(u8),
    Any(String),
}

#[derive(arbitrary::Arbitrary, Debug)]
enum Body {
    Bytes(Vec<u8>),
    Part(String, Vec<u8>),
}

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS"];
const PATHS: [&str; 21] = [
    "/",
    "/path/1/2",
    "/test/1",
    "/hosts",
    "/compare",
    "/alerts",
    "/path/1/2/csv",
    "/alerts/1",
    "/sla",
    "/sla/csv",
    "/api/v1/sla",
    "/api/v1/now",
    "/api/v1/path/1/2",
    "/api/v1/hosts",
    "/api/v1/compare",
    "/metrics",
    "/push/v1/offers",
    "/push/v1/sent",
    "/push/v1/report-sent",
    "/push/v1/tests",
    "/push/v1/tests/1",
];
const KEYS: [&str; 19] = [
    "from", "to", "stream", "src", "dst", "from2", "to2", "src2", "dst2", "show", "by", "token", "range",
    "zone", "week", "month", "open", "close", "lost",
];
const KNOWN: [&str; 14] = [
    "Europe/Oslo",
    "2026-11",
    "192.0.2.1",
    "192.0.2.2",
    "2026-01-01",
    "36h",
    "7d",
    "1",
    "0",
    "2026-11-23T10:00:00Z",
    "0000000000000001",
    "-1",
    "9999-12-31",
    "<x-evil>",
];
const HEADERS: [&str; 8] = [
    "Accept",
    "Content-Type",
    "Content-Length",
    "Transfer-Encoding",
    "Host",
    "Cookie",
    "Expect",
    "X-Forwarded-For",
];

impl Text {
    /// Returns the text as a part of an address.
    fn escaped(&self) -> String {
        let text = match self {
            Text::Known(k) => KNOWN[usize::from(*k) % KNOWN.len()],
            Text::Any(text) => text,
        };
        text.bytes()
            .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
            .collect()
    }
}

impl Asked {
    fn write(&self, out: &mut Vec<u8>) {
        let path = PATHS[usize::from(self.path) % PATHS.len()];
        let [first, second] = self.parts.each_ref().map(Text::escaped);
        let path = path.replace("/1", &format!("/{first}")).replace("/2", &format!("/{second}"));
        let query: Vec<String> = self
            .query
            .iter()
            .take(8)
            .map(|(key, value)| format!("{}={}", KEYS[usize::from(*key) % KEYS.len()], value.escaped()))
            .collect();
        let method = METHODS[usize::from(self.method) % METHODS.len()];
        let body = match &self.body {
            Body::Bytes(bytes) => bytes.clone(),
            Body::Part(source, log) => {
                let header = PartHeader {
                    hash: "ab".repeat(32),
                    source: source.chars().take(100).collect(),
                    tags: Vec::new(),
                    bytes: 100,
                    packed: Some(log.len() as u64),
                };
                [header.line(), log.clone()].concat()
            }
        };
        let head = format!(
            "{method} {path}?{} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {}\r\n",
            query.join("&"),
            body.len()
        );
        out.extend_from_slice(head.as_bytes());
        for (name, value) in self.headers.iter().take(8) {
            out.extend_from_slice(HEADERS[usize::from(*name) % HEADERS.len()].as_bytes());
            out.extend_from_slice(b": ");
            out.extend(value.iter().take(200).filter(|b| !b"\r\n".contains(b)));
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out.extend(body);
    }
}

/// Reads every test to its end without storing it.
#[derive(Debug)]
struct Reader;

impl Shelf for Reader {
    fn offered(&self, _: &str, offers: &Offers) -> Result<Vec<String>, NotNow> {
        Ok(offers.tests.clone())
    }

    fn sent(&self, _: &str, messages: &[SharedMessage]) -> Result<Vec<bool>, NotNow> {
        Ok(vec![false; messages.len()])
    }

    fn record_sent(&self, _: &str, _: &[SharedMessage]) -> Result<(), NotNow> {
        Ok(())
    }

    fn receive(&self, _: &str, mut body: &mut dyn BufRead, _: Option<&str>) -> PartAnswers {
        let mut answers = PartAnswers::default();
        while let Ok(Some(header)) = PartHeader::read(&mut body) {
            answers.tests.push(PartAnswer::stored(&header.hash));
            if header.log(&mut body, |_| Ok::<(), ()>(())).is_err() {
                break;
            }
        }
        answers
    }
}

/// Server of an archive with three tests of a path.
struct Served {
    web: Web,
    _folder: Scratch,
}

static SERVED: LazyLock<Served> = LazyLock::new(|| {
    let folder = Scratch::new();
    let root = folder.join("a");
    let archive = Archive::make(&root).expect("an archive");
    for k in 0..3i64 {
        let path = folder.join(&format!("{k}.log"));
        let mut log = LogWriter::new(std::fs::File::create(&path).expect("a file"), LogVersion::V3);
        let mut session = Session::new(TestSpec::default());
        (session.src, session.dst) = ("192.0.2.1".parse().ok(), "192.0.2.2".parse().ok());
        log.begin(&session);
        for i in 0..50 {
            let sent = 1_767_225_600_000_000_000 + k * 3_600_000_000_000 + i * 20_000_000;
            log.record(&PacketRecord::one_way(i, WallTime(sent), WallTime(sent + 5_000_000 + i)));
        }
        log.finish(&session);
        log.close().1.expect("a log");
        archive.add(&path, &[]).expect("a test");
    }
    let mut settings = Settings::new(&root);
    settings.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    settings.push = Some(PushSettings {
        listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
        identity: None,
        hosts: vec![("berlin".to_owned(), HostProof::Token(Token::new(TOKEN)))],
        authorities: None,
        proxies: Vec::new(),
        shelf: Arc::new(Reader),
    });
    Served { web: Web::bind(&settings).expect("a server"), _folder: folder }
});

/// Every answer has a status that a client can act on, is bounded, and contains no text of the request as markup.
fn check(answers: &[u8]) {
    assert!(answers.len() < 16 << 20, "{} bytes", answers.len());
    if answers.is_empty() {
        return;
    }
    let text = String::from_utf8_lossy(answers);
    let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse::<u16>().ok());
    let status = status.or(text.strip_prefix("HTTP/1.0 ").and_then(|rest| rest.get(..3)?.parse().ok()));
    let status = status.unwrap_or_else(|| panic!("not an answer: {text:.100}"));
    assert!((200..500).contains(&status) || status == 503, "status {status}: {text:.300}");
    // In JSON and plain text these characters are not markup.
    for answer in text.split("HTTP/1.1 ").filter(|answer| answer.contains("content-type: text/html")) {
        assert!(!answer.contains("<x-evil>"), "markup from a request: {answer:.3000}");
    }
}

libfuzzer_sys::fuzz_target!(|input: Input| {
    let mut bytes = Vec::new();
    match input {
        Input::Raw(raw) => bytes = raw,
        Input::Requests(requests) => requests.iter().take(4).for_each(|asked| asked.write(&mut bytes)),
    }
    // Such requests take too long: a wrong token is answered after a second, and events have no end.
    let text = String::from_utf8_lossy(&bytes);
    if text.contains("events") || text.matches("/push/").count() > text.matches(TOKEN).count() {
        return;
    }
    check(&SERVED.web.answer(&bytes).expect("an answer in time"));
});

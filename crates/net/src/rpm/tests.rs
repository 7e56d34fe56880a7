//! Client and server over loopback, and servers that break the rules.

use super::certificate::ServerCertificate;
use super::client::RpmClient;
use super::server::RpmServer;
use super::trust::Trust;
use super::*;
use crate::reflect::Reflectors;
use jitlat_core::Span;
use jitlat_proto::policy::{self, Policy};
use jitlat_proto::rpm::measured::{RpmMeasured, RpmProgress};
use jitlat_proto::rpm::resources::WebUrl;
use jitlat_proto::rpm::stage::{Confidence, StageEnd};
use jitlat_proto::rpm::{LoadDirections, RpmParameters};
use std::io::Write;
use std::sync::atomic::AtomicBool;

struct Running {
    reflectors: Reflectors,
    pem: String,
}

fn run(policy: Policy) -> Running {
    let certificate =
        ServerCertificate::self_made(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    let pem = certificate.pem();
    let mut reflectors = Reflectors::new(policy).unwrap();
    reflectors.start(&RpmServer { port: 0, certificate }, &["127.0.0.1".parse().unwrap()]);
    assert!(reflectors.failures().is_empty(), "{:?}", reflectors.failures());
    Running { reflectors, pem }
}

impl Running {
    fn address(&self) -> SocketAddr {
        self.reflectors.listening()[0].1
    }

    fn client(&self, stages: &[LoadDirections]) -> RpmClient {
        let parameters = RpmParameters {
            interval: Span::millis(100),
            max_connections: 2,
            probes_per_second: 50,
            time_limit: Span::millis(900),
            ..RpmParameters::default()
        };
        RpmClient {
            url: WebUrl::of_configuration(&self.address().to_string()).unwrap(),
            stages: stages.to_vec(),
            parameters,
            trust: Trust::Anyone,
            family: None,
        }
    }
}

fn measure(client: &RpmClient) -> Result<RpmMeasured, RpmError> {
    client.run(&AtomicBool::new(false), &mut |_| {})
}

/// Returns rules without limits on rates.
fn unlimited() -> Policy {
    let mut policy = Policy::default();
    policy.client.bytes = None;
    policy
}

#[test]
fn every_load_has_a_result() {
    let server = run(unlimited());
    let stages = [LoadDirections::Down, LoadDirections::Up, LoadDirections::Both];
    let measured = measure(&server.client(&stages)).unwrap();
    assert_eq!((measured.server, measured.tls_version), (server.address(), "1.3"));
    assert!(measured.idle.len() >= 2 && !measured.is_interrupted);
    assert_eq!(measured.stages.iter().map(|s| s.load).collect::<Vec<_>>(), stages);
    for stage in &measured.stages {
        assert!(matches!(stage.end, StageEnd::Stable | StageEnd::TimeLimit), "{:?}", stage.end);
        assert!(
            stage.goodput.iter().all(|g| g.average_bps > 0.0 && g.connections == 2),
            "{:?}",
            stage.goodput
        );
        assert!(stage.goodput_confidence > Confidence::Low, "{:?}", stage.intervals.len());
        assert!(stage.rpm().is_some_and(|rpm| rpm.is_finite() && rpm > 60.0), "{:?}", stage.means);
        assert_eq!((stage.foreign.failed, stage.own.failed), (0, 0));
    }
}

#[test]
fn certificates_are_checked_and_there_is_a_way_out() {
    let server = run(unlimited());
    let mut client = server.client(&[]);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(server.pem.as_bytes()).unwrap();
    client.trust = Trust::File(file.path().to_owned());
    assert!(measure(&client).is_ok(), "{:?}", measure(&client).err());
    let other = ServerCertificate::self_made(vec!["127.0.0.1".to_owned()]).unwrap().pem();
    std::fs::write(file.path(), other).unwrap();
    let refused = measure(&client).unwrap_err().to_string();
    assert!(refused.contains("unknown authority") && refused.contains("--ca FILE"), "{refused}");
    std::fs::write(file.path(), "no certificate").unwrap();
    let refused = measure(&client).unwrap_err().to_string();
    assert!(refused.contains("no certificate (PEM)"), "{refused}");
    client.trust = Trust::Anyone;
    assert!(measure(&client).is_ok());
    client.url.path = "/other".to_owned();
    let refused = measure(&client).unwrap_err().to_string();
    assert!(refused.contains("404") && refused.contains("not the address"), "{refused}");
    client.url.is_secure = false;
    assert!(matches!(measure(&client), Err(RpmError::NotSecure(_))));
}

#[test]
fn a_stop_ends_a_stage_and_its_results_remain() {
    let server = run(unlimited());
    let mut client = server.client(&[LoadDirections::Down, LoadDirections::Up]);
    client.parameters.time_limit = Span::seconds(600);
    client.parameters.tolerance = 0.0;
    let stop = AtomicBool::new(false);
    let measured = client.run(&stop, &mut |progress| {
        if let RpmProgress::Loaded { interval: Some(_), .. } = progress {
            stop.store(true, std::sync::atomic::Ordering::Release);
        }
    });
    let measured = measured.unwrap();
    assert!(measured.is_interrupted && measured.stages.len() == 1);
    assert_eq!(measured.stages[0].end, StageEnd::Interrupted);
    assert!(measured.stages[0].goodput[0].bps > 0.0);
    let measured = client.run(&AtomicBool::new(true), &mut |_| {});
    assert!(matches!(measured, Err(RpmError::Stopped)));
}

#[test]
fn limits_of_a_client_hold() {
    // 8 Mbit/s.
    let mut policy = Policy::default();
    policy.service(policy::RPM).client.bytes = Some(1_000_000);
    let server = run(policy);
    let measured = measure(&server.client(&[LoadDirections::Down, LoadDirections::Up])).unwrap();
    for stage in &measured.stages {
        let bytes: f64 =
            stage.intervals.iter().map(|i| i.goodput[0].bps / 8.0 * i.duration.as_seconds()).sum();
        // Uploads also fill the windows of two connections before flow control stops them.
        let window = if stage.load == LoadDirections::Up { 2.0 * f64::from(WINDOW) } else { 0.0 };
        assert!(bytes <= 1.5e6 + window, "{:?}: {bytes} bytes", stage.load);
    }
    let mut policy = Policy::default();
    policy.service(policy::RPM).client.connections = Some(0);
    assert!(measure(&run(policy).client(&[])).is_err());
    let mut policy = Policy::default();
    policy.service(policy::RPM).client.duration = Some(Span(1));
    assert!(measure(&run(policy).client(&[])).is_err());
}

/// Answer of a server that breaks rules: status, headers, and a body of this length.
type Answer = (u16, &'static [(&'static str, &'static str)], Body);

#[derive(Clone)]
enum Body {
    Text(String),
    /// Number of bytes.
    Bytes(usize),
    /// Bytes without end.
    Endless,
}

/// Starts a server whose answers to each path are those of `answer`; it ends with the process.
fn start(alpn: &[u8], answer: fn(&str, SocketAddr) -> Answer) -> SocketAddr {
    let certificate = ServerCertificate::self_made(vec!["localhost".to_owned()]).unwrap();
    let mut tls = (*certificate.server().unwrap()).clone();
    tls.alpn_protocols = vec![alpn.to_vec()];
    let tls = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(tls));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let tls = tls.clone();
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                    while let Some(Ok((request, mut respond))) = connection.accept().await {
                        let (status, headers, body) = answer(request.uri().path(), address);
                        let mut head = http::Response::builder().status(status);
                        for (name, value) in headers {
                            head = head.header(*name, *value);
                        }
                        let Ok(mut stream) = respond.send_response(head.body(()).unwrap(), false) else {
                            return;
                        };
                        tokio::spawn(async move {
                            let piece = || bytes::Bytes::from(vec![b'x'; 16 << 10]);
                            match body {
                                Body::Text(text) => drop(stream.send_data(text.into(), true)),
                                Body::Bytes(n) => drop(stream.send_data(vec![0; n].into(), true)),
                                Body::Endless => loop {
                                    stream.reserve_capacity(16 << 10);
                                    let wait =
                                        std::future::poll_fn(|cx| load::poll_capacity(&mut stream, cx));
                                    let Ok(n) = wait.await else { return };
                                    let piece = piece().slice(..n.min(16 << 10));
                                    if stream.send_data(piece, false).is_err() {
                                        return;
                                    }
                                },
                            }
                        });
                    }
                });
            }
        });
    });
    address
}

/// Measures a download from a server that breaks rules; returns the error, or how the stage ended.
fn outcome(alpn: &[u8], answer: fn(&str, SocketAddr) -> Answer) -> String {
    let address = start(alpn, answer);
    let client = RpmClient {
        url: WebUrl::of_configuration(&address.to_string()).unwrap(),
        stages: vec![LoadDirections::Down],
        parameters: RpmParameters { time_limit: Span::seconds(2), ..RpmParameters::default() },
        trust: Trust::Anyone,
        family: None,
    };
    match measure(&client) {
        Ok(measured) => format!("{:?}", measured.stages[0].end),
        Err(e) => e.to_string(),
    }
}

fn document(address: SocketAddr) -> Body {
    Body::Text(jitlat_proto::rpm::resources::TestResources::document(&address.to_string()))
}

const OK: &[(&str, &str)] = &[];

#[test]
fn servers_that_break_rules_are_named_and_left() {
    type AnswerOf = fn(&str, SocketAddr) -> Answer;
    let cases: [(&[u8], AnswerOf, &str); 9] = [
        (b"http/1.1", |_, at| (200, OK, document(at)), "HTTP/2"),
        (ALPN, |_, _| (302, &[("location", "https://192.0.2.1/")], Body::Bytes(0)), "redirection"),
        (ALPN, |_, at| (200, &[("content-encoding", "gzip")], document(at)), "Content-Encoding"),
        (ALPN, |_, _| (200, OK, Body::Endless), "too many"),
        (ALPN, |_, _| (200, OK, Body::Text("{}".to_owned())), "missing field"),
        (ALPN, |_, _| (503, OK, Body::Bytes(0)), "overloaded"),
        // The small object has no end.
        (
            ALPN,
            |path, at| match path {
                "/.well-known/nq" => (200, OK, document(at)),
                _ => (200, OK, Body::Endless),
            },
            "too many",
        ),
        // The large object is small.
        (
            ALPN,
            |path, at| match path {
                "/.well-known/nq" => (200, OK, document(at)),
                _ => (200, OK, Body::Bytes(1)),
            },
            "too few",
        ),
        (
            ALPN,
            |path, at| match path {
                "/.well-known/nq" => (200, OK, document(at)),
                "/large" => (429, OK, Body::Bytes(0)),
                _ => (200, OK, Body::Bytes(1)),
            },
            "overloaded",
        ),
    ];
    std::thread::scope(|scope| {
        for (alpn, answer, expected) in cases {
            scope.spawn(move || {
                let outcome = outcome(alpn, answer);
                assert!(outcome.contains(expected), "{expected}: {outcome}");
            });
        }
    });
    // Nothing listens here any more.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = RpmClient {
        url: WebUrl::of_configuration(&closed.to_string()).unwrap(),
        stages: vec![LoadDirections::Down],
        parameters: RpmParameters::default(),
        trust: Trust::Anyone,
        family: None,
    };
    assert!(matches!(measure(&client), Err(RpmError::Connect { .. })));
}

#[test]
fn connections_that_say_nothing_do_not_keep_others_out() {
    let mut policy = unlimited();
    policy.service(policy::RPM).total.connections = Some(20);
    policy.service(policy::RPM).client.connections = Some(20);
    let server = run(policy);
    let connect = || {
        crate::sockets::connect_tcp(
            Some([127, 0, 0, 2].into()),
            server.address(),
            std::time::Duration::from_secs(20),
            || false,
        )
    };
    let silent: Vec<_> = (0..20).map(|_| connect().unwrap()).collect();
    // Silent connections of a client that has more than others are removed when others need them.
    let measured =
        jitlat_waiting::within(std::time::Duration::from_secs(60), || measure(&server.client(&[])).is_ok());
    assert!(measured, "{} silent connections", silent.len());
}

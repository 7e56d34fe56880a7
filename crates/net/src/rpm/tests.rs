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

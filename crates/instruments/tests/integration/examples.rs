//! The examples, run against a server of this library.

#[allow(dead_code)]
#[path = "../../examples/figures.rs"]
mod figures;
#[allow(dead_code)]
#[path = "../../examples/merge.rs"]
mod merge;
#[allow(dead_code)]
#[path = "../../examples/one_way.rs"]
mod one_way;
#[allow(dead_code)]
#[path = "../../examples/ping.rs"]
mod ping;
#[cfg(feature = "rpm")]
#[allow(dead_code)]
#[path = "../../examples/rpm.rs"]
mod rpm;

use jitlat_instruments::ping::PingProtocol;
use jitlat_instruments::ping::protocols::stamp::StampClient;
use jitlat_instruments::serve::{OneWayService, Policy, Serve};
use std::net::Ipv4Addr;
use std::path::Path;

/// Returns a loopback address that nothing else on this machine uses, because one-way tests use a fixed port.
fn own_address() -> Ipv4Addr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 224 | high & 15, low, 1)
}

#[test]
fn tests_against_a_host_of_our_own() {
    let host = own_address().to_string();
    let stamp = PingProtocol::named("stamp").unwrap();
    let arguments = jitlat_instruments::Arguments::new().with("stamp-port", "0");
    let serve = Serve {
        ips: vec![own_address().into()],
        one_way: Some(OneWayService { control_port: 0, ..OneWayService::default() }),
        reflectors: stamp.reflectors(&arguments).unwrap(),
        policy: Policy::default(),
        priority: None,
        one_way_packets: None,
        digests: None,
    };
    let serving = serve.start().unwrap();
    let (control, stamp) = (serving.one_way()[0].port(), serving.reflected()[0].1.port());
    let up = one_way::measure(&host, control).unwrap();
    let client = StampClient { port: stamp, ..StampClient::default() };
    let round_trips = ping::measure(&host, client).unwrap();
    assert_eq!(up.counts.received, 100);
    assert_eq!(round_trips.counts.received, 100);
}

#[cfg(feature = "rpm")]
#[test]
fn responsiveness_of_a_host_of_our_own() {
    use jitlat_core::Span;
    use jitlat_core::record::Moment;
    use jitlat_instruments::RecordCollector;
    use jitlat_instruments::rpm::method::RpmParameters;
    use jitlat_instruments::rpm::{RpmServer, ServerCertificate, Trust};

    let certificate = ServerCertificate::self_made(vec!["localhost".to_owned()]).unwrap();
    let serve = Serve {
        ips: vec![own_address().into()],
        one_way: None,
        reflectors: vec![Box::new(RpmServer { port: 0, certificate })],
        policy: Policy::default(),
        priority: None,
        one_way_packets: None,
        digests: None,
    };
    let serving = serve.start().unwrap();
    let parameters = RpmParameters {
        interval: Span::millis(100),
        max_connections: 2,
        time_limit: Span::seconds(5),
        ..RpmParameters::default()
    };
    let server = serving.reflected()[0].1.to_string();
    let result = rpm::measure(&server, parameters, Trust::Anyone).unwrap();
    assert!(result.measured.stages.iter().all(|stage| stage.rpm().is_some_and(f64::is_finite)));
    // Probes are round trips like those of any other test.
    let mut records = RecordCollector::default();
    result.replay(&mut records);
    let labels: Vec<&str> = result.streams.iter().map(|stream| stream.label.as_str()).collect();
    assert_eq!(labels[..2], ["idle self", "idle foreign"]);
    assert!(labels.contains(&"down self") && labels.contains(&"up foreign"), "{labels:?}");
    assert!(
        records.records.iter().all(|records| records.iter().all(|r| r.time(Moment::Returned) > r.sent()))
    );
}

#[test]
fn figures_of_a_log() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/b_wan_lossy_v1.log");
    let list = figures::list(&figures::read(&log).unwrap());
    assert!(list.len() > 100 && list.iter().any(|line| line.starts_with("loss ")), "{list:#?}");
}

#[test]
fn two_parts_of_a_log_are_the_whole() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/b_wan_lossy_v1.log");
    let text = std::fs::read_to_string(&log).unwrap();
    let (head, rows): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('#'));
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = [("a.log", &rows[..500]), ("b.log", &rows[500..])].map(|(name, rows)| {
        let part = folder.path().join(name);
        std::fs::write(&part, [&head, rows].concat().join("\n") + "\n").unwrap();
        merge::saved(&part).unwrap()
    });
    assert_eq!(merge::merge(&a, &b).unwrap(), figures::read(&log).unwrap());
}

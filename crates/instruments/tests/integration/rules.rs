//! Every listener with every rule of the access policy: each service is started with each rule and used by a
//! client. A service that is added to `SERVICES` needs a client here, and its line in the lists of rules.

use jitlat_core::{Direction, Schedule, Span, TestSpec, Transport};
use jitlat_instruments::one_way::OneWayProtocol;
use jitlat_instruments::ping::PingProtocol;
use jitlat_instruments::serve::{DigestService, OneWayService, Policy, Serve, answered};
use jitlat_instruments::{Arguments, Instrument, OneWay, Ping, Stop, Unobserved};
use jitlat_net::capture::interface::InterfaceSettings;
use jitlat_net::digest::{CollectorError, DigestCollector, DigestExporter};
use jitlat_proto::digest::{DigestError, DigestRefusal, Listen};
use jitlat_proto::jitlat::{PresharedKey, PresharedKeys};
use jitlat_proto::policy::{
    DIGESTS, IPSLA, IRTT, LAMP, ONE_WAY, OWAMP, Quota, RPM, SERVICES, STAMP, Scope, Service, ServiceRules,
    TCP, TEST_PORT, TWAMP, WEB,
};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU8, Ordering};

/// A rule that refuses every request of the client.
struct Rule {
    name: &'static str,
    /// Sets the rule for a service.
    set: fn(&mut Policy, Service),
    /// Services to which the rule applies. Others are served as if the rule did not exist.
    holds: &'static [Service],
}

const NOBODY: &str = "192.0.2.0/24";
const LOCALHOST: &str = "127.0.0.0/8";
const WITH_RATES: &[Service] = &[ONE_WAY, STAMP, TWAMP, OWAMP, LAMP, IRTT, IPSLA, TCP, RPM, WEB];
const WITH_CONNECTIONS: &[Service] = &[ONE_WAY, TEST_PORT, TWAMP, OWAMP, TCP, DIGESTS, RPM, WEB];
/// Services with sessions. STAMP has sessions as well, but answers clients without a session, too, without
/// counting.
const WITH_SESSIONS: &[Service] = &[ONE_WAY, TWAMP, OWAMP, LAMP, IRTT, IPSLA, DIGESTS, WEB];
const WITH_DURATION: &[Service] = &[ONE_WAY, TWAMP, OWAMP, IRTT, IPSLA, TCP, DIGESTS, RPM, WEB];
/// The test port is not in lists of rules about a whole client, because the one-way test that leads to it is
/// refused first.
const ALSO_BEFORE_THE_TEST_PORT: &[Service] =
    &[ONE_WAY, TEST_PORT, TWAMP, OWAMP, LAMP, IRTT, IPSLA, DIGESTS, WEB];

fn quota(policy: &mut Policy, service: Service, scope: Scope) -> &mut Quota {
    match scope {
        Scope::ServiceClient => &mut policy.service(service).client,
        Scope::ServiceTotal => &mut policy.service(service).total,
        Scope::Client => &mut policy.client,
        Scope::Total => &mut policy.total,
    }
}

/// One rule for each scope in which a quota can be set.
macro_rules! quotas {
    ($name:literal, $field:ident = $value:expr, of_a_service: $own:expr, of_all: $all:expr) => {
        [
            Rule {
                name: concat!($name, " of a client of the service"),
                holds: $own,
                set: |policy, service| {
                    quota(policy, service, Scope::ServiceClient).$field = Some($value);
                },
            },
            Rule {
                name: concat!($name, " of the service"),
                holds: $own,
                set: |policy, service| {
                    quota(policy, service, Scope::ServiceTotal).$field = Some($value);
                },
            },
            Rule {
                name: concat!($name, " of a client"),
                holds: $all,
                set: |policy, service| {
                    quota(policy, service, Scope::Client).$field = Some($value);
                },
            },
            Rule {
                name: concat!($name, " in all"),
                holds: $all,
                set: |policy, service| {
                    quota(policy, service, Scope::Total).$field = Some($value);
                },
            },
        ]
    };
}

fn rules() -> Vec<Rule> {
    let networks = [
        Rule { name: "allow", holds: SERVICES, set: |p, _| p.networks.allow = vec![NOBODY.parse().unwrap()] },
        Rule {
            name: "deny",
            holds: SERVICES,
            set: |p, _| p.networks.deny = vec![LOCALHOST.parse().unwrap()],
        },
        Rule {
            name: "allow for the service",
            holds: SERVICES,
            set: |p, service| p.service(service).networks.allow = vec![NOBODY.parse().unwrap()],
        },
        Rule {
            name: "deny for the service",
            holds: SERVICES,
            set: |p, service| p.service(service).networks.deny = vec![LOCALHOST.parse().unwrap()],
        },
        Rule {
            name: "packets of a connection",
            holds: &[TCP],
            set: |p, service| p.service(service).connection.packets_per_second = 1,
        },
        Rule {
            name: "bytes of a connection",
            holds: &[TCP],
            set: |p, service| p.service(service).connection.bytes_per_second = 1,
        },
        Rule { name: "off", holds: SERVICES, set: |p, service| p.service(service).off = true },
    ];
    let metered: &[Service] = &[STAMP, TWAMP, OWAMP, LAMP, IRTT, IPSLA, TCP, RPM, WEB];
    let connections = WITH_CONNECTIONS;
    let all = [
        quotas!("packets", packets = 1, of_a_service: WITH_RATES, of_all: metered),
        quotas!("bytes", bytes = 1, of_a_service: WITH_RATES, of_all: metered),
        quotas!("connections", connections = 0, of_a_service: connections, of_all: connections),
        quotas!("sessions", sessions = 0, of_a_service: WITH_SESSIONS, of_all: ALSO_BEFORE_THE_TEST_PORT),
        quotas!("memory", memory = 1, of_a_service: WITH_SESSIONS, of_all: ALSO_BEFORE_THE_TEST_PORT),
        quotas!("duration", duration = Span(1), of_a_service: WITH_DURATION,
            of_all: &[ONE_WAY, TEST_PORT, TWAMP, OWAMP, IRTT, IPSLA, TCP, DIGESTS, RPM, WEB]),
    ];
    networks.into_iter().chain(all.into_iter().flatten()).collect()
}

/// Number of packets of a client's test.
const PACKETS: u64 = 20;

/// Returns a host at `ip` that serves only `service`, with `policy`. If `elsewhere` is true, another of its
/// services has a key.
fn host(ip: Ipv4Addr, service: Service, policy: Policy, elsewhere: bool) -> Serve {
    let digests = |keys: PresharedKeys| DigestService {
        port: 0,
        service: DigestExporter {
            interfaces: Vec::new(),
            keys: keys.into(),
            rate: 1000,
            settings: InterfaceSettings::default(),
        },
    };
    let one_way = |keys: PresharedKeys| OneWayService {
        control_port: 0,
        keys: keys.into(),
        ..OneWayService::default()
    };
    let is_one_way = [ONE_WAY, TEST_PORT].contains(&service);
    let reflectors = answered().find(|protocol| protocol.name == service).map(|protocol| {
        protocol.reflectors(&Arguments::new().with(&format!("{service}-port"), "0")).unwrap()
    });
    Serve {
        ips: vec![ip.into()],
        one_way: match (is_one_way, elsewhere && service == DIGESTS) {
            (true, _) => Some(one_way(PresharedKeys::default())),
            (_, true) => Some(one_way(Some(key()).into())),
            _ => None,
        },
        reflectors: reflectors.unwrap_or_else(|| match service {
            WEB => browser::server(),
            _ => responsiveness::server(service),
        }),
        policy,
        priority: None,
        one_way_packets: None,
        digests: match (service == DIGESTS, elsewhere) {
            (true, _) => Some(digests(PresharedKeys::default())),
            (false, true) => Some(digests(Some(key()).into())),
            (false, false) => None,
        },
    }
}

fn key() -> PresharedKey {
    PresharedKey::from_file_contents(b"a key of quite enough bytes").unwrap()
}

/// Returns true if a client of `service` is served: it receives at least half of its packets, or the requested data.
fn served(service: Service, serve: &Serve) -> bool {
    let Ok(serving) = serve.start() else { return false };
    assert!(serving.failures().is_empty(), "{:?}", serving.failures());
    let host = serve.ips[0].to_string();
    let (control, reflected) = (serving.one_way(), serving.reflected());
    match service {
        ONE_WAY | TEST_PORT => {
            control.first().is_some_and(|at| one_way(&host, at.port(), service == TEST_PORT))
        }
        DIGESTS => serving.digests().first().is_some_and(|at| {
            let asked = DigestCollector::connect(&host, at.port(), Listen::default(), None).map(drop);
            // The host offers no interface, but reports this only to permitted clients.
            matches!(
                asked,
                Err(CollectorError::Conversation {
                    source: DigestError::Refused(DigestRefusal::Interface, _),
                    ..
                })
            )
        }),
        RPM => reflected.first().is_some_and(|(_, at)| responsiveness::is_served(&at.to_string())),
        WEB => reflected.first().is_some_and(|(_, at)| browser::is_served(*at)),
        OWAMP => reflected.first().is_some_and(|(_, at)| owamp(&host, at.port())),
        _ => {
            let protocol = PingProtocol::named(service);
            let protocol = protocol.unwrap_or_else(|| panic!("{service} has no client in this test"));
            reflected.first().is_some_and(|(_, at)| ping(&host, protocol, at.port()))
        }
    }
}

fn one_way(host: &str, control_port: u16, tcp: bool) -> bool {
    let transport = if tcp { Transport::Tcp } else { Transport::Udp };
    let stream =
        TestSpec::new(Direction::Up, transport, PACKETS, 80, Span::millis(1), Schedule::Periodic).unwrap();
    let mut test = OneWay::new(host, vec![stream]);
    test.settings.control_port = control_port;
    let streams = test.analyse(&Default::default(), &Stop::new(), &mut Unobserved);
    streams.is_ok_and(|mut streams| streams.remove(0).summary.counts.received >= PACKETS / 2)
}

fn owamp(host: &str, port: u16) -> bool {
    let port = Arguments::new().with("owamp-port", port.to_string()).with("owamp-timeout", "300ms");
    let protocol = OneWayProtocol::named("owamp").unwrap();
    let stream = |direction| {
        TestSpec::new(direction, Transport::Udp, PACKETS, 80, Span::millis(1), Schedule::Periodic).unwrap()
    };
    let mut streams = vec![stream(Direction::Up), stream(Direction::Down)];
    streams.iter_mut().for_each(|s| (s.src_port, s.dst_port) = (0, 0));
    let client = protocol.client(&port).unwrap().into();
    let test = OneWay { client, ..OneWay::new(host, streams) };
    let streams = test.analyse(&Default::default(), &Stop::new(), &mut Unobserved);
    streams.is_ok_and(|streams| streams.iter().all(|s| s.summary.counts.received >= PACKETS / 2))
}

fn ping(host: &str, protocol: &'static PingProtocol, port: u16) -> bool {
    let port = Arguments::new().with(&format!("{}-port", protocol.name), port.to_string());
    let test = Ping {
        packets: PACKETS,
        period: Span::millis(1),
        timeout: Span::seconds(1),
        ..Ping::boxed(host, protocol.client(&port).unwrap())
    };
    let streams = test.analyse(&Default::default(), &Stop::new(), &mut Unobserved);
    streams.is_ok_and(|mut streams| streams.remove(0).summary.counts.received >= PACKETS / 2)
}

/// Client and server of responsiveness tests.
#[cfg(feature = "rpm")]
mod responsiveness {
    use super::{RPM, Service, Span, Stop};
    use jitlat_instruments::rpm::method::{LoadDirections, RpmParameters};
    use jitlat_instruments::rpm::{Rpm, RpmServer, ServerCertificate, Trust};
    use jitlat_instruments::serve::Reflector;

    pub fn server(service: Service) -> Vec<Box<dyn Reflector>> {
        if service != RPM {
            return Vec::new();
        }
        let certificate = ServerCertificate::self_made(vec!["localhost".to_owned()]).unwrap();
        vec![Box::new(RpmServer { port: 0, certificate })]
    }

    /// Returns true if a client downloads more than what leaves before a limit on rates takes effect.
    pub fn is_served(at: &str) -> bool {
        let parameters = RpmParameters {
            interval: Span::millis(100),
            max_connections: 1,
            probes_per_second: 2,
            time_limit: Span::millis(450),
            ..RpmParameters::default()
        };
        let test = Rpm {
            server: at.to_owned(),
            stages: vec![LoadDirections::Down],
            parameters,
            trust: Trust::Anyone,
            family: None,
        };
        test.run(&Stop::new(), &mut |_| {}).is_ok_and(|result| {
            let intervals = &result.measured.stages[0].intervals;
            let bits = |i: &jitlat_instruments::rpm::method::stage::StageInterval| {
                i.goodput[0].bps * i.duration.as_seconds()
            };
            intervals.iter().map(bits).sum::<f64>() > 8.0 * 100_000.0
        })
    }
}

/// Stand-in for builds without responsiveness tests, in which the service is not in [`services`].
#[cfg(not(feature = "rpm"))]
mod responsiveness {
    pub fn server(_: super::Service) -> Vec<Box<dyn jitlat_instruments::serve::Reflector>> {
        Vec::new()
    }

    pub fn is_served(_: &str) -> bool {
        false
    }
}

/// Server of the page for browsers, and a client that measures like a browser.
#[cfg(feature = "browser")]
mod browser {
    use super::PACKETS;
    use crate::websocket;
    use jitlat_instruments::browser::{BrowserResult, BrowserResults, BrowserServer};
    use jitlat_instruments::serve::Reflector;
    use std::net::{SocketAddr, TcpStream};
    use std::sync::Arc;
    use std::time::Duration;

    /// Names the number of answers in the report.
    #[derive(Debug)]
    struct Count;

    impl BrowserResults for Count {
        fn report(&self, result: BrowserResult) -> Result<String, String> {
            Ok(format!("{} answers", result.records.len()))
        }
    }

    pub fn server() -> Vec<Box<dyn Reflector>> {
        vec![Box::new(BrowserServer { port: 0, certificate: None, results: Arc::new(Count) })]
    }

    /// Runs a test as the page of `origin`.
    pub fn measure(at: SocketAddr, origin: &str) -> tungstenite::Result<(u64, String)> {
        let socket = websocket::open(TcpStream::connect(at)?, at, origin)?;
        websocket::measure(socket, PACKETS, Duration::from_secs(1))
    }

    /// True if a client gets at least half of its answers, and a report.
    pub fn is_served(at: SocketAddr) -> bool {
        let measured = measure(at, &format!("http://{at}"));
        measured.is_ok_and(|(answers, report)| answers >= PACKETS / 2 && report.contains("/report/"))
    }
}

/// Stand-in for builds without the page.
#[cfg(not(feature = "browser"))]
mod browser {
    pub fn server() -> Vec<Box<dyn jitlat_instruments::serve::Reflector>> {
        Vec::new()
    }

    pub fn is_served(_: std::net::SocketAddr) -> bool {
        false
    }
}

#[cfg(feature = "browser")]
#[test]
fn a_browser_gets_its_report_but_not_as_the_visitor_of_another_site() {
    use std::io::{Read, Write};
    let host = host(Ipv4Addr::LOCALHOST, WEB, Policy::default(), false);
    let serving = host.start().unwrap();
    let at = serving.reflected()[0].1;
    let (_, report) = browser::measure(at, &format!("http://{at}")).unwrap();
    let path = report.split('"').find(|part| part.starts_with("/report/")).unwrap();
    let get = |path: &str| {
        let mut stream = std::net::TcpStream::connect(at).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = get(path);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("20 answers"), "{answer}");
    assert!(get("/report/0").starts_with("HTTP/1.1 404"));
    assert!(get("/").contains("content-security-policy: default-src 'none'; style-src 'self'"));
    for other in ["http://example.net", "null", "http://127.0.0.1:1", ""] {
        let refused = browser::measure(at, other).unwrap_err();
        let is_forbidden = matches!(&refused, tungstenite::Error::Http(answer) if answer.status() == 403);
        assert!(is_forbidden, "{other}: {refused}");
    }
}

/// Services of this build.
fn services() -> impl Iterator<Item = &'static Service> {
    let has = |service: Service| match service {
        RPM => cfg!(feature = "rpm"),
        WEB => cfg!(feature = "browser"),
        _ => true,
    };
    SERVICES.iter().filter(move |service| has(service))
}

/// Calls `check` for every service and each part number from 0 to `parts` - 1, each on its own thread and at
/// its own address.
fn walk(parts: usize, check: impl Fn(Service, Ipv4Addr, usize) + Sync) {
    // The test port is fixed, so no two calls may share an address.
    static ADDRESSES: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    std::thread::scope(|threads| {
        for (&service, part) in services().flat_map(|service| (0..parts).map(move |part| (service, part))) {
            let (check, k) = (&check, ADDRESSES.fetch_add(1, Ordering::Relaxed));
            threads.spawn(move || check(service, Ipv4Addr::new(127, 208 | high & 15, low, k), part));
        }
    });
}

#[test]
fn every_listener_keeps_every_rule() {
    // A refusal takes as long as a client waits for an answer, so the checks run in parallel.
    const PARTS: usize = 6;
    let rules = rules();
    walk(PARTS, |service, ip, part| {
        assert!(served(service, &host(ip, service, Policy::default(), false)), "{service} without any rule");
        for rule in rules.iter().skip(part).step_by(PARTS) {
            let mut policy = Policy::default();
            (rule.set)(&mut policy, service);
            let holds = rule.holds.contains(&service);
            let served = served(service, &host(ip, service, policy, false));
            assert_eq!(served, !holds, "{service}: {}", rule.name);
        }
    });
}

#[test]
fn rules_of_one_service_are_no_rules_of_another() {
    walk(1, |service, ip, _| {
        let mut policy = Policy::default();
        // One-way tests need both of their services.
        let spared = |other| {
            other == service
                || [other, service] == [TEST_PORT, ONE_WAY]
                || [other, service] == [ONE_WAY, TEST_PORT]
        };
        for other in SERVICES.iter().copied().filter(|other| !spared(*other)) {
            *policy.service(other) = ServiceRules { off: true, ..ServiceRules::default() };
        }
        assert!(served(service, &host(ip, service, policy, false)), "{service}");
    });
}

#[test]
fn if_a_service_has_a_key_only_open_services_are_served_without_one() {
    walk(1, |service, ip, _| {
        assert!(!served(service, &host(ip, service, Policy::default(), true)), "{service}");
        let mut policy = Policy::default();
        policy.service(if service == TEST_PORT { ONE_WAY } else { service }).open = true;
        assert!(served(service, &host(ip, service, policy, true)), "{service}");
    });
}

#[test]
fn every_protocol_that_is_answered_is_a_service() {
    for protocol in answered() {
        assert!(SERVICES.contains(&protocol.name), "{} is not in SERVICES", protocol.name);
    }
}

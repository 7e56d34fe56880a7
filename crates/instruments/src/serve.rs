//! [`Serve`]: answers tests from other hosts.

use crate::arguments::Arguments;
use crate::error::Error;
use crate::one_way::ONE_WAY_PROTOCOLS;
use crate::ping::PROTOCOLS;
use crate::ping::protocol::{ProtocolServer, ReflectorList};
use jitlat_core::spec::{CONTROL_PORT, TEST_PORT};
use jitlat_net::SharedKeys;
use jitlat_net::pace::Pacing;
use jitlat_net::privilege::Capability;
use jitlat_net::resolve::local_address;
use jitlat_net::server::{JitlatServer, ServerSettings};
use jitlat_net::{RunningService, digest, reflect};
use jitlat_proto::jitlat::ServerLimits;
use jitlat_proto::policy::{DIGESTS, Gate, ONE_WAY, Service};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::mpsc::SyncSender;

pub use jitlat_net::reflect::{OneWayPacket, Reflector, ReflectorError};
pub use jitlat_proto::policy::{self, Policy};

/// A protocol that a host can answer, in addition to jitlat's own one-way tests.
#[derive(Clone, Copy)]
pub struct AnsweredProtocol {
    /// Name in lowercase, which is also the name of the service: `stamp`.
    pub name: &'static str,
    /// Display name: `STAMP`.
    pub title: &'static str,
    /// Server of the protocol.
    pub server: &'static ProtocolServer,
}

/// Iterates over all protocols that a host can answer: the entries of [`PROTOCOLS`] and [`ONE_WAY_PROTOCOLS`] that have
/// a server.
pub fn answered() -> impl Iterator<Item = AnsweredProtocol> {
    let two_way = PROTOCOLS.iter().map(|p| (p.name, p.title, p.server.as_ref()));
    let one_way = ONE_WAY_PROTOCOLS.iter().map(|p| (p.name, p.title, p.server.as_ref()));
    two_way
        .chain(one_way)
        .filter_map(|(name, title, server)| server.map(|server| AnsweredProtocol { name, title, server }))
}

impl AnsweredProtocol {
    /// Creates the reflectors from `arguments`.
    ///
    /// # Errors
    /// [`Error::Settings`] if an argument is unknown or has an invalid value.
    pub fn reflectors(&self, arguments: &Arguments) -> Result<ReflectorList, Error> {
        (self.server.reflectors)(&arguments.complete(self.server.arguments)?)
    }
}

/// Highest priority (`SO_PRIORITY`) that needs no capability, according to socket(7).
const ORDINARY_PRIORITY: u32 = 6;

/// The services of a host.
pub struct Serve {
    /// Addresses to listen on.
    pub ips: Vec<IpAddr>,
    /// Service for one-way tests; `None`: not offered.
    pub one_way: Option<OneWayService>,
    /// Reflectors, by protocol: see [`answered`].
    pub reflectors: Vec<Box<dyn Reflector>>,
    /// Clients and limits of each service. If any service has a key, services without a key are served only if they are
    /// [open](policy::ServiceRules::open).
    pub policy: Policy,
    /// Priority of all outgoing test packets within this host (`SO_PRIORITY`); `None`: the system's default.
    pub priority: Option<u32>,
    /// Receiver of packets of unidirectional LaMP tests, whose results exist only on this host; `None`: the
    /// packets are discarded.
    pub one_way_packets: Option<SyncSender<OneWayPacket>>,
    /// Service for packet digests, which passive measurements on other hosts use; `None`: not offered.
    pub digests: Option<DigestService>,
}

/// Settings of the service for one-way tests.
#[derive(Clone, Debug)]
pub struct OneWayService {
    /// TCP port of control connections.
    pub control_port: u16,
    /// Port of test streams, unless a client requests another one.
    pub test_port: u16,
    /// Limits of a single test. Limits of connections, sessions and memory are in the policy.
    pub limits: ServerLimits,
    /// Keys of clients; empty: no key required.
    pub keys: SharedKeys,
    /// Scheduling and waiting method of the packet threads.
    pub pacing: Pacing,
}

impl Default for OneWayService {
    fn default() -> OneWayService {
        OneWayService {
            control_port: CONTROL_PORT,
            test_port: TEST_PORT,
            limits: ServerLimits::default(),
            keys: SharedKeys::default(),
            pacing: Pacing::default(),
        }
    }
}

/// Settings of the service for packet digests.
#[derive(Clone, Debug)]
pub struct DigestService {
    /// TCP port.
    pub port: u16,
    /// Captured interfaces, and the clients that may receive their digests.
    pub service: digest::DigestExporter,
}

/// Running services. Dropping this value ends all sessions and waits for their threads.
pub struct Serving {
    one_way: Option<RunningService>,
    reflectors: reflect::Reflectors,
    digests: Option<RunningService>,
    withheld: Vec<Service>,
}

/// Returns the IPv4 and IPv6 wildcard addresses.
pub fn every_address() -> Vec<IpAddr> {
    let has_ipv6 = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
    let v6 = has_ipv6.then_some(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    [Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), v6].into_iter().flatten().collect()
}

impl Serve {
    /// Starts listening. Actions of clients are logged ([`tracing`]). A reflector that cannot start is listed in
    /// [`Serving::failures`].
    ///
    /// # Errors
    /// [`Error`] if the service for one-way tests or digests cannot start, or if no service
    /// remains.
    pub fn start(&self) -> Result<Serving, Error> {
        let gate = Gate::new(self.policy.clone());
        let keyed = self.has_key();
        let mut withheld = Vec::new();
        let mut is_served = |service: Service, authenticates: bool| {
            let held_back = keyed && !authenticates && !self.policy.is_open(service);
            if held_back && !self.policy.is_off(service) && !withheld.contains(&service) {
                withheld.push(service);
            }
            !held_back && !self.policy.is_off(service)
        };
        let at =
            |port: u16| -> Vec<SocketAddr> { self.ips.iter().map(|ip| local_address(*ip, port)).collect() };
        let digests = match &self.digests {
            Some(DigestService { port, service }) if is_served(DIGESTS, !service.keys.is_empty()) => {
                Some(service.clone().serve_sharing(&at(*port), gate.clone())?)
            }
            _ => None,
        };
        let started = |source| Error::System { doing: "starting to answer tests", source };
        let mut reflectors = reflect::Reflectors::sharing(gate.clone())
            .map_err(started)?
            .with_priority(self.priority)
            .with_packets(self.one_way_packets.clone());
        for reflector in &self.reflectors {
            if is_served(reflector.service(), reflector.authenticates()) {
                reflectors.start(reflector.as_ref(), &self.ips);
            }
        }
        let one_way = self.one_way.as_ref().filter(|one_way| is_served(ONE_WAY, !one_way.keys.is_empty()));
        let one_way = match one_way {
            Some(one_way) => {
                let service = ServerSettings {
                    bind: at(one_way.control_port),
                    test_port: one_way.test_port,
                    limits: one_way.limits.clone(),
                    keys: one_way.keys.clone(),
                    pacing: one_way.pacing.clone(),
                    priority: self.priority,
                };
                Some(JitlatServer::sharing(service, gate)?.start()?)
            }
            None if reflectors.listening().is_empty() && digests.is_none() => {
                let why = match withheld[..] {
                    [] => "no service to run: none is enabled, or none could start".to_owned(),
                    _ => format!(
                        "nothing to answer: a key is configured, but {} would be served without a key; open \
                         them with --open, or give them a key",
                        withheld.join(", ")
                    ),
                };
                return Err(Error::Settings(why));
            }
            None => None,
        };
        Ok(Serving { one_way, reflectors, digests, withheld })
    }

    /// Returns the capabilities that the services need; `realtime` is true if their threads have a real-time
    /// priority.
    pub fn capabilities(&self, realtime: bool) -> Vec<Capability> {
        let one_way =
            self.one_way.iter().flat_map(|s| [s.control_port, s.test_port, *s.limits.ports.start()]);
        let digests = self.digests.iter().map(|d| d.port);
        let reflectors = self.reflectors.iter().flat_map(|r| r.addresses(&self.ips)).map(|at| at.port());
        let low = one_way.chain(digests).chain(reflectors).any(|port| (1..1024).contains(&port));
        let raw = self.digests.is_some() || self.reflectors.iter().any(|r| r.needs_raw_packets());
        let high = self.priority.is_some_and(|priority| priority > ORDINARY_PRIORITY);
        let list = [
            (low, Capability::NetBindService),
            (raw, Capability::NetRaw),
            (high, Capability::NetAdmin),
            (realtime, Capability::SysNice),
            (realtime, Capability::IpcLock),
        ];
        list.into_iter().filter(|(needed, _)| *needed).map(|(_, capability)| capability).collect()
    }

    /// True if any service has a key.
    fn has_key(&self) -> bool {
        self.one_way.as_ref().is_some_and(|s| !s.keys.is_empty())
            || self.digests.as_ref().is_some_and(|s| !s.service.keys.is_empty())
            || self.reflectors.iter().any(|r| r.authenticates())
    }
}

impl Serving {
    /// Returns the addresses of the service for one-way tests.
    pub fn one_way(&self) -> &[SocketAddr] {
        self.one_way.as_ref().map_or(&[], RunningService::addresses)
    }

    /// Returns the protocols of all running reflectors, with their addresses.
    pub fn reflected(&self) -> &[(&'static str, SocketAddr)] {
        self.reflectors.listening()
    }

    /// Returns the addresses of the service for packet digests.
    pub fn digests(&self) -> &[SocketAddr] {
        self.digests.as_ref().map_or(&[], RunningService::addresses)
    }

    /// Returns the services that are not offered: another service has a key, while they neither have a key nor are
    /// marked as open.
    pub fn withheld(&self) -> &[Service] {
        &self.withheld
    }

    /// Returns the errors of reflectors that could not start; the others are running.
    pub fn failures(&self) -> &[ReflectorError] {
        self.reflectors.failures()
    }

    /// Describes the reflectors that could not start, in a few lines.
    pub fn failure_lines(&self) -> Vec<String> {
        jitlat_net::reflect::describe_failures(self.failures())
    }
}

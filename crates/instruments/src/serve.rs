//! [`Serve`]: answers tests from other hosts.

use crate::error::Error;
use crate::stop::Stop;
use jitlat_core::spec::{CONTROL_PORT, TEST_PORT};
use jitlat_net::pace::Pacing;
use jitlat_net::server::{Server, ServerSettings};
use jitlat_net::{digest, reflect};
use jitlat_proto::jitlat::{Key, Limits};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

pub use jitlat_net::reflect::{OneWayPacket, Reflector, ReflectorError};
pub use jitlat_proto::access::Access;

/// The services of a host.
pub struct Serve {
    /// The addresses to listen on.
    pub ips: Vec<IpAddr>,
    /// The service for one-way tests; `None`: not offered.
    pub one_way: Option<OneWayService>,
    /// Reflectors of two-way tests, by protocol: see [`Protocol::reflectors`](crate::ping::Protocol::reflectors).
    pub reflectors: Vec<Box<dyn Reflector>>,
    /// Who may use two-way tests, and how many packets each.
    pub access: Access,
    /// Priority within this host of everything that is sent in tests (`SO_PRIORITY`); `None`: the default.
    pub priority: Option<u32>,
    /// Receives the packets of unidirectional LaMP tests, which only this host has; `None`: they are not kept.
    pub one_way_packets: Option<SyncSender<OneWayPacket>>,
    /// The service for packet digests, for passive measurements elsewhere; `None`: not offered.
    pub digests: Option<DigestService>,
}

/// Settings of the service for one-way tests.
#[derive(Clone, Debug)]
pub struct OneWayService {
    /// TCP port of control connections.
    pub control_port: u16,
    /// Port of test streams unless a client requests another.
    pub test_port: u16,
    /// The limits of each client.
    pub limits: Limits,
    /// The key that clients must have; `None`: no key needed.
    pub key: Option<Key>,
    /// How the packet threads are scheduled and wait.
    pub pacing: Pacing,
}

impl Default for OneWayService {
    fn default() -> OneWayService {
        OneWayService {
            control_port: CONTROL_PORT,
            test_port: TEST_PORT,
            limits: Limits::default(),
            key: None,
            pacing: Pacing::default(),
        }
    }
}

/// Settings of the service for packet digests.
#[derive(Clone, Debug)]
pub struct DigestService {
    /// TCP port.
    pub port: u16,
    /// What is captured, and who may receive it.
    pub service: digest::DigestExporter,
}

/// A host whose services have started; one-way tests are answered while [`Serving::run`] runs.
pub struct Serving {
    server: Option<Server>,
    reflectors: reflect::Reflectors,
    digests: Option<digest::RunningExporter>,
}

/// The wildcard addresses of IPv4 and IPv6.
pub fn every_address() -> Vec<IpAddr> {
    let has_ipv6 = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
    let v6 = has_ipv6.then_some(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    [Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), v6].into_iter().flatten().collect()
}

impl Serve {
    /// Starts listening. What clients do is logged ([`tracing`]). A reflector that cannot start is listed in
    /// [`Serving::failures`].
    ///
    /// # Errors
    /// [`Error`] if one-way tests or digests cannot be served, or if no service is selected.
    pub fn start(&self) -> Result<Serving, Error> {
        let at =
            |port: u16| -> Vec<SocketAddr> { self.ips.iter().map(|ip| SocketAddr::new(*ip, port)).collect() };
        let digests = match &self.digests {
            Some(DigestService { port, service }) => Some(service.clone().serve(&at(*port))?),
            None => None,
        };
        let mut reflectors = reflect::Reflectors::new(self.access.clone())
            .with_priority(self.priority)
            .with_packets(self.one_way_packets.clone());
        for reflector in &self.reflectors {
            reflectors.start(reflector.as_ref(), &self.ips);
        }
        let server = match &self.one_way {
            Some(one_way) => {
                let service = ServerSettings {
                    bind: at(one_way.control_port),
                    test_port: one_way.test_port,
                    limits: one_way.limits.clone(),
                    key: one_way.key.clone(),
                    pacing: one_way.pacing.clone(),
                    priority: self.priority,
                };
                Some(Server::bind(service)?)
            }
            None if reflectors.listening().is_empty() => {
                let why = "nothing to answer: every reflector failed to start";
                return Err(Error::Settings(why.to_owned()));
            }
            None => None,
        };
        Ok(Serving { server, reflectors, digests })
    }
}

impl Serving {
    /// The addresses that answer one-way tests.
    pub fn one_way(&self) -> Vec<SocketAddr> {
        self.server.as_ref().map(Server::addresses).unwrap_or_default()
    }

    /// The two-way protocols that are answered, with their addresses.
    pub fn two_way(&self) -> &[(&'static str, SocketAddr)] {
        self.reflectors.listening()
    }

    /// The addresses that serve packet digests.
    pub fn digests(&self) -> &[SocketAddr] {
        self.digests.as_ref().map_or(&[], digest::RunningExporter::addresses)
    }

    /// Reflectors that could not start; the others run.
    pub fn failures(&self) -> &[ReflectorError] {
        self.reflectors.failures()
    }

    /// Answers until `stop` is requested, then ends all sessions and waits for its threads.
    pub fn run(self, stop: &Stop) {
        match self.server {
            Some(server) => server.run(stop.flag()),
            None => {
                while !stop.is_requested() {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}

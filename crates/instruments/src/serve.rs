//! [`Serve`]: answers tests from other hosts.

use crate::error::Error;
use crate::stop::Stop;
use jitlat_core::spec::{CONTROL_PORT, TEST_PORT};
use jitlat_net::pace::Pacing;
use jitlat_net::server::{Server, Service};
use jitlat_net::{digest, reflect};
use jitlat_proto::jitlat::{Key, Limits};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

pub use jitlat_net::reflect::{Reflector, ReflectorError};
pub use jitlat_proto::access::Access;

/// What a host answers.
pub struct Serve {
    /// Its addresses.
    pub ips: Vec<IpAddr>,
    /// One-way tests.
    pub one_way: Option<OneWayService>,
    /// Two-way tests, by protocol: see [`Protocol::reflectors`](crate::ping::Protocol::reflectors).
    pub reflectors: Vec<Box<dyn Reflector>>,
    /// Whose two-way tests are answered, and how many packets.
    pub access: Access,
    /// Digests of the packets at this host's interfaces, for passive measurements elsewhere.
    pub digests: Option<DigestService>,
}

/// How one-way tests are answered.
#[derive(Clone, Debug)]
pub struct OneWayService {
    /// Port of control connections.
    pub control_port: u16,
    /// Port where test streams are awaited unless a client asks for another.
    pub test_port: u16,
    /// What a client is granted.
    pub limits: Limits,
    /// The key that clients must prove to know.
    pub key: Option<Key>,
    /// How packet threads are run.
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

/// How packet digests are served.
#[derive(Clone, Debug)]
pub struct DigestService {
    /// TCP port.
    pub port: u16,
    /// What is captured, for whom.
    pub service: digest::DigestExporter,
}

/// A host that answers, from when [`Serve::start`] returns; one-way tests once it [runs](Serving::run).
pub struct Serving {
    server: Option<Server>,
    reflectors: reflect::Reflectors,
    digests: Option<digest::RunningExporter>,
}

/// Every address of this host.
pub fn every_address() -> Vec<IpAddr> {
    let has_ipv6 = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
    let v6 = has_ipv6.then_some(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    [Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), v6].into_iter().flatten().collect()
}

impl Serve {
    /// Listens. What clients do goes to the log ([`tracing`]). A reflector that cannot be started is among the
    /// [failures](Serving::failures).
    ///
    /// # Errors
    /// [`Error`] if one-way tests or digests cannot be served, or nothing is.
    pub fn start(&self) -> Result<Serving, Error> {
        let at =
            |port: u16| -> Vec<SocketAddr> { self.ips.iter().map(|ip| SocketAddr::new(*ip, port)).collect() };
        let digests = match &self.digests {
            Some(DigestService { port, service }) => Some(service.clone().serve(&at(*port))?),
            None => None,
        };
        let mut reflectors = reflect::Reflectors::new(self.access.clone());
        for reflector in &self.reflectors {
            reflectors.start(reflector.as_ref(), &self.ips);
        }
        let server = match &self.one_way {
            Some(one_way) => {
                let service = Service {
                    bind: at(one_way.control_port),
                    test_port: one_way.test_port,
                    limits: one_way.limits.clone(),
                    key: one_way.key.clone(),
                    pacing: one_way.pacing.clone(),
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
    /// Where one-way tests are answered.
    pub fn one_way(&self) -> Vec<SocketAddr> {
        self.server.as_ref().map(Server::addresses).unwrap_or_default()
    }

    /// What two-way tests are answered, and where.
    pub fn two_way(&self) -> &[(&'static str, SocketAddr)] {
        self.reflectors.listening()
    }

    /// Where packet digests are served.
    pub fn digests(&self) -> &[SocketAddr] {
        self.digests.as_ref().map_or(&[], digest::RunningExporter::addresses)
    }

    /// Reflectors that could not be started; the others run.
    pub fn failures(&self) -> &[ReflectorError] {
        self.reflectors.failures()
    }

    /// Answers until `stop` is requested; then tells every client, and waits for its threads.
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

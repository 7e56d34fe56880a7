//! Access policy of a server: the clients that may use each service, and the resources that they may use. A
//! [`Policy`] contains the rules of all services. One [`Gate`] counts the use of resources, and every
//! listener calls [`Gate::admit`].
//!
//! ```
//! use jitlat_core::SteadyTime;
//! use jitlat_proto::policy::{Ask, Gate, Policy, PolicyRefusal, TWAMP};
//!
//! let mut policy = Policy::default();
//! policy.networks.deny.push("192.0.2.0/24".parse().unwrap());
//! let gate = Gate::new(policy);
//! let now = SteadyTime(0);
//! let granted = gate.admit(TWAMP, "198.51.100.7".parse()?, Ask::CONNECTION, now)?;
//! let refused = gate.admit(TWAMP, "192.0.2.7".parse()?, Ask::CONNECTION, now).unwrap_err();
//! assert_eq!(refused, PolicyRefusal::Network);
//! drop(granted); // Releases the connection.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod file;
mod gate;
mod keys;
mod meters;
mod proofs;
mod public;
mod quota;
mod wasted;

pub use crate::jitlat::limits::LimitRefusal;
pub use gate::{Ask, Gate, Grant, OnEviction, TableGrant};
pub use keys::Keys;
pub use meters::Meters;
pub use proofs::WrongProofs;
pub use public::{PUBLIC_SERVICES, PublicServer};
pub use quota::{Quota, Scope};

use crate::access::ClientAddress;
use crate::accounts::ClientLimits;
use core::net::IpAddr;
use jitlat_core::Span;
use jitlat_core::prefix::Prefix;
use std::collections::BTreeMap;

/// Name of a service, as in `--only` and in policy files.
pub type Service = &'static str;

/// One-way tests: control connections and sessions.
pub const ONE_WAY: Service = "jitlat";
/// Test ports of one-way tests, on which TCP connections begin with a greeting.
pub const TEST_PORT: Service = "test-port";
/// STAMP and TWAMP Light.
pub const STAMP: Service = "stamp";
/// TWAMP: control connections and sessions.
pub const TWAMP: Service = "twamp";
/// OWAMP: control connections, sessions and their records.
pub const OWAMP: Service = "owamp";
/// LaMP, over UDP and in Ethernet frames.
pub const LAMP: Service = "lamp";
/// IRTT.
pub const IRTT: Service = "irtt";
/// Cisco IP SLA: control messages, and the ports that they open.
pub const IPSLA: Service = "ipsla";
/// TCP request-response.
pub const TCP: Service = "tcp";
/// Packet digests.
pub const DIGESTS: Service = "digests";

/// Responsiveness tests: HTTP/2 connections.
pub const RPM: Service = "rpm";
/// Measurements by browsers: HTTP connections, and tests over WebSockets.
pub const WEB: Service = "web";

/// All services. A new protocol needs an entry in this list, and cases in the test of all rules.
pub const SERVICES: &[Service] =
    &[ONE_WAY, TEST_PORT, STAMP, TWAMP, OWAMP, LAMP, IRTT, IPSLA, TCP, DIGESTS, RPM, WEB];

/// Networks that are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    /// Networks that are served; empty: all.
    pub allow: Vec<Prefix>,
    /// Networks that are not served, even if allowed.
    pub deny: Vec<Prefix>,
}

impl Networks {
    /// Returns true if `address` is served.
    pub fn admit(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let within = |networks: &[Prefix]| networks.iter().any(|network| network.contains(address));
        !within(&self.deny) && (self.allow.is_empty() || within(&self.allow))
    }
}

/// Rules of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceRules {
    /// True if the service is switched off.
    pub off: bool,
    /// True if no key has to be proved although one is configured.
    pub open: bool,
    /// Networks that the service serves, within those that the server serves.
    pub networks: Networks,
    /// Limits of one client.
    pub client: Quota,
    /// Limits of all clients together.
    pub total: Quota,
    /// Limits of one connection; TCP request-response only.
    pub connection: ClientLimits,
}

/// Rules of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Networks that the server serves, for all services.
    pub networks: Networks,
    /// Length of the IPv4 networks that count as one client: 32, or less if neighbours share their limits. An IPv6 client is
    /// its /64.
    pub client_bits: u8,
    /// Limits of one client across all services.
    pub client: Quota,
    /// Limits of all clients together across all services.
    pub total: Quota,
    /// Rules of each service. A service without an entry has only the rules for all services.
    pub services: BTreeMap<Service, ServiceRules>,
}

impl Default for Policy {
    /// Returns rules that are safe for a host with 4 GB of memory on the open Internet.
    fn default() -> Policy {
        let rules = |connections: Option<(usize, usize)>, sessions: Option<(usize, usize)>| ServiceRules {
            client: Quota {
                connections: connections.map(|c| c.1),
                sessions: sessions.map(|s| s.1),
                ..Quota::default()
            },
            total: Quota {
                connections: connections.map(|c| c.0),
                sessions: sessions.map(|s| s.0),
                ..Quota::default()
            },
            ..ServiceRules::default()
        };
        let with_duration = |mut rules: ServiceRules, longest: Span| {
            rules.client.duration = Some(longest);
            rules
        };
        Policy {
            networks: Networks::default(),
            client_bits: 32,
            client: Quota {
                packets: Some(200_000),
                // 1 Gbit/s.
                bytes: Some(125_000_000),
                memory: Some(3 << 29),
                ..Quota::default()
            },
            total: Quota { memory: Some(3 << 30), ..Quota::default() },
            services: [
                // Connections, then sessions: in total, and per client.
                (ONE_WAY, rules(Some((256, 40)), Some((128, 32)))),
                (TEST_PORT, rules(Some((256, 32)), None)),
                (TWAMP, rules(Some((64, 16)), Some((256, 64)))),
                (OWAMP, rules(Some((64, 16)), Some((256, 64)))),
                (STAMP, rules(None, Some((16_384, 4096)))),
                (LAMP, rules(None, Some((16_384, 256)))),
                (IRTT, rules(None, Some((4096, 64)))),
                (IPSLA, rules(None, Some((1024, 64)))),
                (TCP, rules(Some((64, 16)), None)),
                // A session is a capture. Connections that do not request a capture end soon.
                (DIGESTS, rules(Some((64, 8)), Some((4, 2)))),
                // Each foreign probe is a connection, up to a hundred per second, which some clients do not close.
                (RPM, with_duration(rules(Some((1024, 512)), None), Span::seconds(300))),
                // A browser has up to six connections; a session is a test.
                (WEB, with_duration(rules(Some((128, 16)), Some((16, 2))), Span::seconds(90))),
            ]
            .into(),
        }
    }
}

/// Reason why a resource is not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyRefusal {
    /// The address is not in a served network.
    #[error("this server does not serve this address")]
    Network,
    /// The service is off.
    #[error("this service is switched off")]
    Off,
    /// A limit would be exceeded.
    #[error(transparent)]
    Limit(#[from] LimitRefusal),
    /// This address gave wrong keys and must wait for this time.
    #[error("this address gave wrong keys; try again in {} s", .0.0.div_euclid(1_000_000_000) + 1)]
    WrongKeys(Span),
}

impl Policy {
    /// Returns the rules of `service`, for modification.
    pub fn service(&mut self, service: Service) -> &mut ServiceRules {
        self.services.entry(service).or_default()
    }

    /// Returns the client to which `address` belongs.
    pub fn client_of(&self, address: IpAddr) -> ClientAddress {
        ClientAddress::within(address, self.client_bits)
    }

    /// True if `service` is off.
    pub fn is_off(&self, service: Service) -> bool {
        self.services.get(service).is_some_and(|rules| rules.off)
    }

    /// True if `service` requires no proof of a key although a key is configured.
    pub fn is_open(&self, service: Service) -> bool {
        self.services.get(service).is_some_and(|rules| rules.open)
    }

    /// Checks that `service` is available to `address`, apart from limits.
    pub fn admits(&self, service: Service, address: IpAddr) -> Result<(), PolicyRefusal> {
        let rules = self.services.get(service);
        if rules.is_some_and(|r| r.off) {
            return Err(PolicyRefusal::Off);
        }
        let served = self.networks.admit(address) && rules.is_none_or(|r| r.networks.admit(address));
        if served { Ok(()) } else { Err(PolicyRefusal::Network) }
    }

    /// Returns the limits of `service` in `scope`.
    pub fn quota(&self, service: Service, scope: Scope) -> Quota {
        let rules = self.services.get(service);
        match scope {
            Scope::ServiceClient => rules.map(|r| r.client.clone()).unwrap_or_default(),
            Scope::ServiceTotal => rules.map(|r| r.total.clone()).unwrap_or_default(),
            Scope::Client => self.client.clone(),
            Scope::Total => self.total.clone(),
        }
    }

    /// Returns the rate that one client can use without loss: five sixths of its limits, because packets arrive unevenly.
    pub fn announced(&self, service: Service) -> ClientLimits {
        let quotas = [self.quota(service, Scope::ServiceClient), self.quota(service, Scope::Client)];
        let within = |limit: u64| (limit / 6 * 5 + limit % 6 * 5 / 6).max(1);
        let packets = quotas.iter().filter_map(|quota| quota.packets).min();
        let bytes = quotas.iter().filter_map(|quota| quota.bytes).min();
        let unlimited = ClientLimits::UNLIMITED;
        ClientLimits {
            packets_per_second: packets.map_or(unlimited.packets_per_second, |n| within(n.into()) as u32),
            bytes_per_second: bytes.map_or(unlimited.bytes_per_second, within),
        }
    }

    /// Returns the limits of `service` for one connection.
    pub fn connection(&self, service: Service) -> ClientLimits {
        self.services.get(service).map(|rules| rules.connection).unwrap_or_default()
    }

    /// Returns the maximum duration of a session of `service`; `None`: no limit.
    pub fn duration(&self, service: Service) -> Option<Span> {
        Scope::ALL.iter().filter_map(|scope| self.quota(service, *scope).duration).min()
    }
}

#[cfg(test)]
mod tests;

//! The access policy of a server: who may use which service, and how much of it. One [`Policy`] holds the rules of all
//! services, one [`Gate`] counts against them, and every listener asks it: [`Gate::admit`].
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
//! drop(granted); // What was granted is free again.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod file;
mod gate;
mod keys;
mod meters;
mod proofs;
mod quota;
mod wasted;

pub use crate::jitlat::limits::LimitRefusal;
pub use gate::{Ask, Gate, Grant, OnEviction, TableGrant};
pub use keys::Keys;
pub use meters::Meters;
pub use quota::{Quota, Scope};

use crate::accounts::ClientLimits;
use core::net::IpAddr;
use jitlat_core::Span;
use jitlat_core::prefix::Prefix;
use std::collections::BTreeMap;

/// The name of a service, as in `--only` and in policy files.
pub type Service = &'static str;

/// One-way tests: control connections and test sessions.
pub const ONE_WAY: Service = "jitlat";
/// The test ports of one-way tests, where TCP connections introduce themselves.
pub const TEST_PORT: Service = "test-port";
/// STAMP and TWAMP Light.
pub const STAMP: Service = "stamp";
/// TWAMP: control connections and test sessions.
pub const TWAMP: Service = "twamp";
/// OWAMP: control connections, test sessions and what they have recorded.
pub const OWAMP: Service = "owamp";
/// LaMP, over UDP and in frames.
pub const LAMP: Service = "lamp";
/// IRTT.
pub const IRTT: Service = "irtt";
/// TCP request-response.
pub const TCP: Service = "tcp";
/// Packet digests.
pub const DIGESTS: Service = "digests";

/// Tests that hosts push to a collector.
pub const COLLECT: Service = "collect";

/// Every service. A protocol that is added has its line here, and its cases in the test of all rules.
pub const SERVICES: &[Service] =
    &[ONE_WAY, TEST_PORT, STAMP, TWAMP, OWAMP, LAMP, IRTT, TCP, DIGESTS, COLLECT];

/// Which networks are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    /// The only ones served; empty: all.
    pub allow: Vec<Prefix>,
    /// Not served, even if allowed.
    pub deny: Vec<Prefix>,
}

impl Networks {
    /// Whether `address` is served.
    pub fn admit(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let within = |networks: &[Prefix]| networks.iter().any(|network| network.contains(address));
        !within(&self.deny) && (self.allow.is_empty() || within(&self.allow))
    }
}

/// The rules of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceRules {
    /// Not served at all.
    pub off: bool,
    /// Served without proof of a key although a key is configured.
    pub open: bool,
    /// Its networks, in addition to those of all services.
    pub networks: Networks,
    /// What one client gets of it.
    pub client: Quota,
    /// What all clients get of it together.
    pub total: Quota,
    /// What one connection gets of it: TCP request-response only.
    pub connection: ClientLimits,
}

/// The rules of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Who is served by any service.
    pub networks: Networks,
    /// What one client gets of all services together.
    pub client: Quota,
    /// What all clients get of all services together.
    pub total: Quota,
    /// The rules of each service; without an entry those of all services.
    pub services: BTreeMap<Service, ServiceRules>,
}

impl Default for Policy {
    /// Safe for a host on the open Internet with 4 GB of memory.
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
        Policy {
            networks: Networks::default(),
            client: Quota {
                packets: Some(200_000),
                bytes: Some(125_000_000),
                memory: Some(3 << 29),
                ..Quota::default()
            },
            total: Quota { memory: Some(3 << 30), ..Quota::default() },
            services: [
                (ONE_WAY, rules(Some((256, 40)), Some((128, 32)))),
                (TEST_PORT, rules(Some((256, 32)), None)),
                (TWAMP, rules(Some((64, 16)), Some((256, 64)))),
                (OWAMP, rules(Some((64, 16)), Some((256, 64)))),
                (STAMP, rules(None, Some((16_384, 4096)))),
                (LAMP, rules(None, Some((16_384, 256)))),
                (IRTT, rules(None, Some((4096, 64)))),
                (TCP, rules(Some((64, 16)), None)),
                // A session is a capture; connections that have not asked for one end soon.
                (DIGESTS, rules(Some((64, 8)), Some((4, 2)))),
                // A session is a host that has proven its key; hosts may share an address.
                (COLLECT, rules(Some((256, 64)), Some((128, 32)))),
            ]
            .into(),
        }
    }
}

/// Why something is not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyRefusal {
    /// Its address is not among those served.
    #[error("this address is not served here")]
    Network,
    /// The service is off.
    #[error("this service is off")]
    Off,
    /// A limit would be exceeded.
    #[error(transparent)]
    Limit(#[from] LimitRefusal),
    /// This address gave wrong keys.
    #[error("wrong keys came from this address; try again in {} s", .0.0.div_euclid(1_000_000_000) + 1)]
    WrongKeys(Span),
}

impl Policy {
    /// The rules of `service`, to be changed.
    pub fn service(&mut self, service: Service) -> &mut ServiceRules {
        self.services.entry(service).or_default()
    }

    /// Whether `service` is off.
    pub fn is_off(&self, service: Service) -> bool {
        self.services.get(service).is_some_and(|rules| rules.off)
    }

    /// Whether `service` is served without proof of a key although a key is configured.
    pub fn is_open(&self, service: Service) -> bool {
        self.services.get(service).is_some_and(|rules| rules.open)
    }

    /// Whether `service` is served to `address` at all.
    pub fn admits(&self, service: Service, address: IpAddr) -> Result<(), PolicyRefusal> {
        let rules = self.services.get(service);
        if rules.is_some_and(|r| r.off) {
            return Err(PolicyRefusal::Off);
        }
        let served = self.networks.admit(address) && rules.is_none_or(|r| r.networks.admit(address));
        if served { Ok(()) } else { Err(PolicyRefusal::Network) }
    }

    /// The limits of `service` in `scope`.
    pub fn quota(&self, service: Service, scope: Scope) -> Quota {
        let rules = self.services.get(service);
        match scope {
            Scope::ServiceClient => rules.map(|r| r.client.clone()).unwrap_or_default(),
            Scope::ServiceTotal => rules.map(|r| r.total.clone()).unwrap_or_default(),
            Scope::Client => self.client.clone(),
            Scope::Total => self.total.clone(),
        }
    }

    /// The connection limits of `service`.
    pub fn connection(&self, service: Service) -> ClientLimits {
        self.services.get(service).map(|rules| rules.connection).unwrap_or_default()
    }

    /// The longest that something of `service` may last; `None`: not limited.
    pub fn duration(&self, service: Service) -> Option<Span> {
        Scope::ALL.iter().filter_map(|scope| self.quota(service, *scope).duration).min()
    }
}

#[cfg(test)]
mod tests;

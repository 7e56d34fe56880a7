//! [`PublicServer`]: fixed limits of a server for everybody. They are small, so that the worst that strangers can do
//! with such a server is known: see `docs/guide/public-server.md`.

use super::{IRTT, ONE_WAY, Policy, Quota, SERVICES, STAMP, Service, ServiceRules, TEST_PORT};
use crate::jitlat::ServerLimits;
use core::ops::RangeInclusive;
use jitlat_core::Span;
use jitlat_core::prefix::Prefix;

/// Services of a public server. The others send more than they receive, let clients choose ports, or report traffic of
/// this host.
pub const PUBLIC_SERVICES: &[Service] = &[ONE_WAY, STAMP, IRTT];

/// Length of the IPv4 networks that count as one client.
const CLIENT_BITS: u8 = 24;
/// Packets and bytes per second of one client, in each direction: 1 Mbit/s.
const CLIENT: (u32, u64) = (250, 125_000);
/// Maximum rates of answers to one client, higher than [`CLIENT`], so that a test at the full rate loses no packets
/// that arrive unevenly.
const ANSWERED: (u32, u64) = (300, 150_000);
/// Packets and bytes per second of all clients of a service, in each direction: 10 Mbit/s.
const TOTAL: (u32, u64) = (2500, 1_250_000);
/// Maximum rates of answers to all clients of a service, with the same reserve as [`ANSWERED`] has for one.
const ANSWERED_TOTAL: (u32, u64) = (3000, 1_500_000);
/// Maximum numbers of connections and of tests, each for all clients together and for one client.
const CONNECTIONS: (usize, usize) = (64, 4);
const SESSIONS: (usize, usize) = (16, 2);
/// Maximum memory, in bytes, for all clients together and for one client.
const MEMORY: (u64, u64) = (64 << 20, 8 << 20);
/// Maximum duration of a test.
const LONGEST: Span = Span::seconds(60);
/// Time after which a silent client is disconnected, and results that nobody has fetched are discarded.
const SILENT: Span = Span::seconds(10);
/// Maximum payload, in bytes: packets of this size are not fragmented on common paths.
const PAYLOAD: u16 = 1400;
const PORTS: RangeInclusive<u16> = 1024..=u16::MAX;

/// Networks that a public server does not answer unless its networks are named: those that are used only within its own
/// organisation, so that no stranger reaches them through it.
const PRIVATE: &[&str] = &[
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "224.0.0.0/3",
    "::/128",
    "::1/128",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "2002::/16",
    "fc00::/7",
    "fe80::/10",
    "ff00::/8",
];

/// A server for everybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicServer {
    /// Address for complaints, which refusals contain.
    pub contact: String,
}

impl PublicServer {
    /// Replaces all limits in `policy` with those of a public server. The networks are unchanged, but if `policy`
    /// allows none by name, private ones are denied.
    pub fn limit(policy: &mut Policy) {
        let quota = |(packets, bytes): (u32, u64), connections, sessions, memory| Quota {
            packets: Some(packets),
            bytes: Some(bytes),
            connections,
            sessions,
            memory: Some(memory),
            duration: Some(LONGEST),
        };
        policy.client_bits = CLIENT_BITS;
        policy.client = quota(ANSWERED, None, None, MEMORY.1);
        policy.total = quota(ANSWERED_TOTAL, None, None, MEMORY.0);
        policy.services = SERVICES
            .iter()
            .map(|service| (*service, ServiceRules { off: true, ..ServiceRules::default() }))
            .collect();
        for service in PUBLIC_SERVICES.iter().copied().chain([TEST_PORT]) {
            let rules = policy.service(service);
            rules.off = false;
            let sessions = |n: usize| (service != TEST_PORT).then_some(n);
            // A session of a reflector is only a counter for an address, which needs little memory.
            let times = if service == ONE_WAY { 1 } else { 64 };
            // One-way tests agree on their rate before they begin.
            let (rate, of_all) =
                if service == ONE_WAY { (CLIENT, TOTAL) } else { (ANSWERED, ANSWERED_TOTAL) };
            rules.client = quota(rate, Some(CONNECTIONS.1), sessions(SESSIONS.1 * times), MEMORY.1);
            rules.total = quota(of_all, Some(CONNECTIONS.0), sessions(SESSIONS.0 * times), MEMORY.0);
        }
        if policy.networks.allow.is_empty() {
            policy.networks.deny.extend(PRIVATE.iter().filter_map(|network| network.parse::<Prefix>().ok()));
        }
    }

    /// Returns the limits of one test.
    pub fn limits(&self) -> ServerLimits {
        ServerLimits {
            packets: CLIENT.0 * (LONGEST.0 / Span::seconds(1).0) as u32,
            payload: PAYLOAD,
            probes: 1000,
            idle: SILENT,
            keep: SILENT,
            classic: false,
            ports: PORTS,
            contact: Some(self.contact.clone()),
            ..ServerLimits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Ask, Gate, Meters, PolicyRefusal};
    use core::net::IpAddr;
    use jitlat_core::SteadyTime;

    fn public() -> Policy {
        let mut policy = Policy::default();
        PublicServer::limit(&mut policy);
        policy
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn private_networks_are_not_served_unless_networks_are_named() {
        let refused =
            |policy: &Policy, from: &str| policy.admits(STAMP, ip(from)) == Err(PolicyRefusal::Network);
        for private in
            ["10.1.2.3", "192.168.1.1", "127.0.0.1", "169.254.1.1", "100.64.0.1", "fd00::1", "fe80::1", "::1"]
        {
            assert!(refused(&public(), private), "{private}");
        }
        for network in PRIVATE {
            assert!(network.parse::<Prefix>().is_ok(), "{network}");
        }
        assert!(!refused(&public(), "192.0.2.1") && !refused(&public(), "2001:db8::1"));
        let mut named = Policy::default();
        named.networks.allow.push("10.0.0.0/8".parse().unwrap());
        PublicServer::limit(&mut named);
        assert!(!refused(&named, "10.1.2.3") && refused(&named, "192.0.2.1"));
    }

    #[test]
    fn only_services_that_strangers_cannot_misuse_are_on() {
        let on: Vec<&str> = SERVICES.iter().copied().filter(|service| !public().is_off(service)).collect();
        assert_eq!(on, [ONE_WAY, TEST_PORT, STAMP, IRTT]);
    }

    #[test]
    fn hosts_of_a_24_and_of_a_64_are_one_client() {
        let gate = Gate::new(public());
        let now = SteadyTime(0);
        let ask = |from: &str| gate.admit(ONE_WAY, ip(from), Ask::session(1000), now);
        let held = [ask("192.0.2.1").unwrap(), ask("192.0.2.200").unwrap()];
        assert!(matches!(ask("192.0.2.7"), Err(PolicyRefusal::Limit(_))));
        assert!(ask("198.51.100.1").is_ok());
        let held_too = [ask("2001:db8::1").unwrap(), ask("2001:db8::2").unwrap()];
        assert!(matches!(ask("2001:db8::3"), Err(PolicyRefusal::Limit(_))) && ask("2001:db8:0:1::1").is_ok());
        drop((held, held_too));
    }

    #[test]
    fn a_test_at_the_documented_rate_loses_nothing_that_arrives_unevenly() {
        let policy = public();
        let meters = Meters::new(&policy, 7).of(&policy, STAMP);
        let gap = 1_000_000_000 / i64::from(CLIENT.0);
        // Each packet is up to 8 ms late.
        let mut times: Vec<i64> = (0..5000).map(|k| k * gap + k * 7919 % 8_000_000 * (k % 3) / 2).collect();
        times.sort_unstable();
        let refused = times.iter().filter(|at| meters.take(ip("192.0.2.1"), 400, SteadyTime(**at)).is_err());
        assert_eq!(refused.count(), 0);
        // Ten clients at this rate use the limit of all clients, without loss.
        let refused =
            times.iter().flat_map(|at| (0..10_u8).map(move |client| (*at, client))).filter(|(at, client)| {
                let from = core::net::Ipv4Addr::new(198, 51, *client, 1);
                meters
                    .take(from.into(), 400, SteadyTime(at + 100_000_000_000 + i64::from(*client) * 400_000))
                    .is_err()
            });
        assert_eq!(refused.count(), 0);
        let announced = policy.announced(IRTT);
        assert_eq!((announced.packets_per_second, announced.bytes_per_second), CLIENT);
    }

    /// The traffic per second of a /24, and of all clients together, is limited regardless of what they send.
    #[test]
    fn the_worst_case_is_the_sum_of_the_limits() {
        let policy = public();
        let meters = Meters::new(&policy, 7).of(&policy, STAMP);
        let sent = |clients: u32| {
            let (mut packets, mut bytes) = (0, 0);
            for at in 0..100_000_u32 {
                // Hosts of `clients` networks, as fast as possible for ten seconds.
                let network = at % clients;
                let from = core::net::Ipv4Addr::from_bits((198 << 24) + (network << 8) + at % 251);
                let now = SteadyTime(i64::from(at) * 100_000 + 20_000_000_000 * i64::from(clients));
                if meters.take(from.into(), 400, now).is_ok() {
                    (packets, bytes) = (packets + 1, bytes + 400);
                }
            }
            (packets, bytes)
        };
        let one = sent(1);
        assert!(one.0 <= 10 * ANSWERED.0 + 31 && one.0 > 9 * ANSWERED.0, "{one:?}");
        let all = sent(200);
        assert!(all.0 <= 10 * ANSWERED_TOTAL.0 + 301 && all.1 <= 10 * ANSWERED_TOTAL.1 + 150_400, "{all:?}");
        assert!(all.0 > 5 * ANSWERED_TOTAL.0, "{all:?}");
    }
}

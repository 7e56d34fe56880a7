//! Who is served, and how much: the rules that every listener applies before it does anything for an address.

use core::net::{IpAddr, SocketAddr};
use jitlat_core::SteadyTime;
use jitlat_core::passive::Prefix;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What counts as one client: an IPv4 address, or an IPv6 /64. An IPv4-mapped IPv6 address counts as IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client(u128);

impl Client {
    /// The client that `address` belongs to.
    pub fn of(address: IpAddr) -> Client {
        match address.to_canonical() {
            IpAddr::V4(v4) => Client(v4.to_bits().into()),
            IpAddr::V6(v6) => Client(v6.to_bits() >> 64 << 64),
        }
    }
}

/// Which addresses are served, and how many packets of each are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The only networks served; empty: all.
    pub allow: Vec<Prefix>,
    /// Packets a second answered of one [`Client`].
    pub packets_per_second: u32,
}

impl Default for Access {
    fn default() -> Access {
        Access { allow: Vec::new(), packets_per_second: 200_000 }
    }
}

impl Access {
    /// Whether `address` is served at all.
    pub fn admits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.allow.is_empty() || self.allow.iter().any(|network| network.contains(address))
    }
}

/// Ports below this belong to services, some of which answer anything they receive (echo, chargen, DNS, NTP, …).
/// Measurements use ports above, except for the test ports of RFC 8545.
const SERVICES: u16 = 1024;
const TEST_PORTS: [u16; 2] = [861, 862];

/// Whether a packet from `source` may be answered at all.
pub(crate) fn answerable(source: SocketAddr) -> bool {
    let host = match source.ip() {
        IpAddr::V4(a) => !(a.is_unspecified() || a.is_broadcast() || a.is_multicast()),
        IpAddr::V6(a) => !(a.is_unspecified() || a.is_multicast()),
    };
    host && (source.port() >= SERVICES || TEST_PORTS.contains(&source.port()))
}

/// Number of rate counters.
const PLACES: u64 = 4096;

/// Limits the packets answered per address: a rate with a burst of a tenth of a second. Constant memory: addresses may
/// share a counter, and then share its rate.
#[derive(Clone, Debug)]
pub struct RateLimiter {
    /// For each counter, when its allowance is complete again, on the steady clock.
    places: Box<[i64]>,
    gap: i64,
    seed: u64,
}

impl RateLimiter {
    /// At most `rate` packets a second of one address (IPv6: of one /64). `seed` is random, so that the counter of
    /// another address cannot be predicted.
    pub fn new(rate: u32, seed: u64) -> RateLimiter {
        let gap = 1_000_000_000 / i64::from(rate.max(1));
        RateLimiter { places: vec![i64::MIN; PLACES as usize].into(), gap, seed }
    }

    /// Whether a packet of `address` may be answered now.
    pub fn allows(&mut self, address: IpAddr, steady: SteadyTime) -> bool {
        let Client(client) = Client::of(address);
        let mut hasher = DefaultHasher::new();
        (self.seed, client).hash(&mut hasher);
        let place = &mut self.places[(hasher.finish() % PLACES) as usize];
        let burst = 100_000_000.max(self.gap);
        let start = (*place).max(steady.0.saturating_sub(burst));
        if start > steady.0 {
            return false;
        }
        *place = start + self.gap;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> Client {
        Client::of(address.parse().unwrap())
    }

    #[test]
    fn an_ipv6_client_is_its_64_and_a_mapped_address_is_its_ipv4() {
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
    }

    #[test]
    fn networks_allowed_are_the_only_ones_served() {
        let access = Access { allow: vec!["192.0.2.0/24".parse().unwrap()], ..Access::default() };
        let served = |a: &str| access.admits(a.parse().unwrap());
        assert!(served("192.0.2.255") && served("::ffff:192.0.2.1"));
        assert!(!served("192.0.3.0") && !served("2001:db8::1"));
        assert!(Access::default().admits("203.0.113.1".parse().unwrap()));
    }

    #[test]
    fn services_and_groups_are_not_answered() {
        for bad in ["10.0.0.1:7", "10.0.0.1:53", "10.0.0.1:0", "224.0.0.1:5000", "255.255.255.255:5000"] {
            assert!(!answerable(bad.parse().unwrap()), "{bad}");
        }
        for good in ["10.0.0.1:862", "10.0.0.1:1024", "[fe80::1]:50000", "127.0.0.1:46772"] {
            assert!(answerable(good.parse().unwrap()), "{good}");
        }
        assert!(!answerable("[ff02::1]:5000".parse().unwrap()));
    }

    #[test]
    fn each_address_has_its_rate() {
        let mut limiter = RateLimiter::new(1000, 42);
        let (a, b) = ("192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap());
        let granted = (0..10_000).filter(|k| limiter.allows(a, SteadyTime(k * 100_000))).count();
        assert!((1000..=1101).contains(&granted), "{granted} of 10 000 in a second");
        assert!(limiter.allows(b, SteadyTime(1_000_000_000)));
    }

    #[test]
    fn a_rate_below_the_burst_grants_two_at_once_and_then_one_a_gap() {
        let mut limiter = RateLimiter::new(10, 42);
        let a = "192.0.2.1".parse().unwrap();
        let mut granted = |ms: i64| (0..5).filter(|_| limiter.allows(a, SteadyTime(ms * 1_000_000))).count();
        let at = [5000, 5099, 5100, 5199, 5200, 5250, 5400, 9000].map(&mut granted);
        assert_eq!(at, [2, 0, 1, 0, 1, 0, 2, 2]);
    }

    #[test]
    fn few_addresses_share_a_rate_whatever_the_seed() {
        for seed in [0, 42, u64::MAX] {
            let mut limiter = RateLimiter::new(1, seed);
            let v4 = (0..200u32).map(|k| IpAddr::from((0xc000_0200 + k).to_be_bytes()));
            let v6 = (0..200u128).map(|k| IpAddr::from(((0x2001_0db8 << 96) + (k << 64)).to_be_bytes()));
            // Each counter allows two: an address that finds both used shares it with another.
            let refused = v4.chain(v6).filter(|ip| {
                let now = SteadyTime(1_000_000_000);
                !(limiter.allows(*ip, now) && limiter.allows(*ip, now))
            });
            assert!(refused.count() < 60, "{seed}");
        }
    }
}

//! What all reflectors look at before they answer.

use core::net::{IpAddr, SocketAddr};
use jitlat_core::{SteadyTime, WallTime};

/// How a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// From where.
    pub from: SocketAddr,
    /// When, by this host's wall clock: the best stamp there is.
    pub at: WallTime,
    /// Time to live or hop limit.
    pub ttl: Option<u8>,
    /// The TOS / traffic-class octet.
    pub traffic_class: Option<u8>,
}

/// Why a reflector keeps silent. In the order of the counters of a reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Silence {
    /// Not a request of this protocol.
    Foreign,
    /// Too short to be answered without sending more than was received.
    Short,
    /// An answer, not a request: it comes from a reflector.
    Loop,
    /// Sent from the port of a service that would answer back, or from no address a host has.
    Source,
    /// The integrity check failed, or there was none.
    Forged,
    /// No session of that name, or not from its client.
    NoSession,
    /// More than this client may ask for.
    Limited,
    /// Not among the hosts that are answered.
    NotAllowed,
}

impl Silence {
    /// All of them, in the order of their codes.
    pub const ALL: [Silence; 8] = [
        Silence::Foreign,
        Silence::Short,
        Silence::Loop,
        Silence::Source,
        Silence::Forged,
        Silence::NoSession,
        Silence::Limited,
        Silence::NotAllowed,
    ];

    /// In a word or two.
    pub fn name(self) -> &'static str {
        [
            "foreign",
            "too short",
            "from a reflector",
            "bad source",
            "forged",
            "no session",
            "rate limited",
            "not allowed",
        ][self as usize]
    }
}

/// Ports below this belong to services, of which several answer whatever they are sent (echo, chargen,
/// DNS, NTP, …); a measurement's own are above, but for the test ports of RFC 8545.
const SERVICES: u16 = 1024;
const TEST_PORTS: [u16; 2] = [861, 862];

/// Whether a packet from `source` may be answered at all.
pub fn answerable(source: SocketAddr) -> bool {
    let host = match source.ip() {
        IpAddr::V4(a) => !(a.is_unspecified() || a.is_broadcast() || a.is_multicast()),
        IpAddr::V6(a) => !(a.is_unspecified() || a.is_multicast()),
    };
    host && (source.port() >= SERVICES || TEST_PORTS.contains(&source.port()))
}

/// How many packets each address may have answered: a rate with a burst of a tenth of a second. Constant
/// memory: addresses share a place now and then, which makes them share the rate.
#[derive(Clone, Debug)]
pub struct Limiter {
    /// When each place's allowance is whole again, on the steady clock.
    places: Box<[i64]>,
    gap: i64,
    seed: u64,
}

impl Limiter {
    /// At most `rate` packets a second of one address (IPv6: of one /64). `seed` is random, so that
    /// nobody can aim at another's place.
    pub fn new(rate: u32, seed: u64) -> Limiter {
        let gap = 1_000_000_000 / i64::from(rate.max(1));
        Limiter { places: vec![i64::MIN; 4096].into(), gap, seed }
    }

    /// Whether a packet of `address` may be answered now.
    pub fn allows(&mut self, address: IpAddr, steady: SteadyTime) -> bool {
        let key = match address {
            IpAddr::V4(a) => u32::from(a).into(),
            IpAddr::V6(a) => (u128::from(a) >> 64) as u64,
        };
        let mixed = (key ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let place = &mut self.places[(mixed >> 52) as usize];
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
        let mut limiter = Limiter::new(1000, 42);
        let (a, b) = ("192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap());
        let granted = (0..10_000).filter(|k| limiter.allows(a, SteadyTime(k * 100_000))).count();
        assert!((1000..=1101).contains(&granted), "{granted} of 10 000 in a second");
        assert!(limiter.allows(b, SteadyTime(1_000_000_000)));
    }
}

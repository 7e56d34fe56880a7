//! The unit that counts as one client, and the sources that reflectors never answer. The limits per client
//! are in [`crate::policy`].

use core::net::{IpAddr, SocketAddr};

/// Address that identifies one client: an IPv4 address, or an IPv6 /64. An IPv4-mapped IPv6 address counts as
/// IPv4. All link-local addresses share one /64, so each of them counts as a client of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress(u128);

impl ClientAddress {
    /// Returns the client to which `address` belongs.
    pub fn of(address: IpAddr) -> ClientAddress {
        ClientAddress::within(address, 32)
    }

    /// Returns the client to which `address` belongs if each IPv4 network with a prefix of `bits` bits counts as one
    /// client.
    pub fn within(address: IpAddr, bits: u8) -> ClientAddress {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let network = u32::MAX.checked_shl(32_u32.saturating_sub(bits.into())).unwrap_or(0);
                ClientAddress((v4.to_bits() & network).into())
            }
            IpAddr::V6(v6) if v6.is_unicast_link_local() => ClientAddress(v6.to_bits()),
            IpAddr::V6(v6) => ClientAddress(v6.to_bits() >> 64 << 64),
        }
    }
}

/// Smallest port that is not reserved for well-known services. Some of these answer anything they receive
/// (echo, chargen, DNS, NTP, …), and two such services could answer each other forever. Measurements use
/// higher ports, except for the test ports of RFC 8545.
const FIRST_UNRESERVED_PORT: u16 = 1024;
const TEST_PORTS: [u16; 2] = [861, 862];

/// True if a packet from `source` may be answered.
pub(crate) fn answerable(source: SocketAddr) -> bool {
    let host = match source.ip() {
        IpAddr::V4(a) => !(a.is_unspecified() || a.is_broadcast() || a.is_multicast()),
        IpAddr::V6(a) => !(a.is_unspecified() || a.is_multicast()),
    };
    host && (source.port() >= FIRST_UNRESERVED_PORT || TEST_PORTS.contains(&source.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> ClientAddress {
        ClientAddress::of(address.parse().unwrap())
    }

    #[test]
    fn an_ipv6_client_is_its_64_and_a_mapped_address_is_its_ipv4() {
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_ne!(client("fe80::1"), client("fe80::2"));
        let within = |address: &str, bits| ClientAddress::within(address.parse().unwrap(), bits);
        assert_eq!(within("192.0.2.1", 24), within("::ffff:192.0.2.255", 24));
        assert_ne!(within("192.0.2.1", 24), within("192.0.3.1", 24));
        assert_eq!(within("192.0.2.1", 0), within("10.0.0.1", 0));
        assert_eq!(within("192.0.2.1", 32), client("192.0.2.1"));
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
}

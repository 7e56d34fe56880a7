//! [`Prefix`]: a range of IP addresses that begin with the same bits.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// A single address or a prefix, IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Prefix {
    network: u128,
    mask: u128,
}

impl Prefix {
    /// Returns the prefix of `length` bits around an address; `None` if `length` exceeds 32 (IPv4) or 128 (IPv6).
    pub fn new(a: IpAddr, length: u8) -> Option<Prefix> {
        let host = if a.is_ipv4() { 32u8 } else { 128 }.checked_sub(length)?;
        let mask = u128::MAX.checked_shl(host.into()).unwrap_or(0);
        Some(Prefix { network: bits(a) & mask, mask })
    }

    /// Reads an address or a network whose hosts are trusted. A slip of the pen must not let in everybody: a network needs
    /// a length of 1 or more, and no bits beyond it.
    ///
    /// # Errors
    ///
    /// Returns the reason, as a sentence without a full stop.
    pub fn trusted(text: &str) -> Result<Prefix, String> {
        let form = "write 192.0.2.7 or 192.0.2.0/24";
        let written = text.escape_debug();
        let prefix: Prefix =
            text.parse().map_err(|()| format!("'{written}' is not an address or a network: {form}"))?;
        let (first, length) = prefix.parts();
        if length == 0 {
            return Err(format!("'{written}' contains every address: {form}"));
        }
        let address = text.split_once('/').map_or(text, |(address, _)| address);
        if address.parse().is_ok_and(|address: IpAddr| bits(address) != prefix.network) {
            return Err(format!("'{written}' has bits beyond its length: write {first}/{length}"));
        }
        Ok(prefix)
    }

    /// Returns the prefix of a single address, given as IPv6.
    #[inline]
    pub fn host(address: u128) -> Prefix {
        Prefix { network: address, mask: u128::MAX }
    }

    /// Returns the leading bits that the addresses of the prefix share, as IPv6.
    pub fn network(&self) -> u128 {
        self.network
    }

    /// Returns the number of leading bits that the addresses of the prefix share, counted as in IPv6.
    pub fn length(&self) -> u8 {
        self.mask.leading_ones() as u8
    }

    /// Returns the address if the prefix contains only one; otherwise `None`.
    pub fn address(&self) -> Option<IpAddr> {
        let a = Ipv6Addr::from_bits(self.network);
        (self.mask == u128::MAX).then(|| a.to_ipv4_mapped().map_or(IpAddr::V6(a), IpAddr::V4))
    }

    /// Returns the first address, and the length of the prefix counted in the address's own family.
    pub fn parts(&self) -> (IpAddr, u8) {
        let length = self.mask.leading_ones() as u8;
        let first = Ipv6Addr::from_bits(self.network);
        match first.to_ipv4_mapped() {
            // The length of an IPv4-mapped prefix includes the 96 bits of the mapping.
            Some(v4) => (v4.into(), length.saturating_sub(96)),
            None => (first.into(), length),
        }
    }

    /// Returns true if the address is in the prefix.
    #[inline]
    pub fn contains(&self, a: IpAddr) -> bool {
        self.holds(bits(a))
    }

    /// Returns true if the address `a`, given as IPv6, is in the prefix.
    #[inline]
    pub fn holds(&self, a: u128) -> bool {
        a & self.mask == self.network
    }
}

impl From<IpAddr> for Prefix {
    fn from(a: IpAddr) -> Prefix {
        Prefix { network: bits(a), mask: u128::MAX }
    }
}

impl FromStr for Prefix {
    type Err = ();

    fn from_str(s: &str) -> Result<Prefix, ()> {
        let Some((address, length)) = s.split_once('/') else {
            return s.parse().map(|a: IpAddr| a.into()).map_err(|_| ());
        };
        let (address, length) = (address.parse().map_err(|_| ())?, length.parse().map_err(|_| ())?);
        Prefix::new(address, length).ok_or(())
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> String {
        prefix.to_string()
    }
}

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(text: String) -> Result<Prefix, String> {
        text.parse().map_err(|()| format!("'{text}' is not an IP address or prefix"))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            (IpAddr::V4(a), 32) => write!(f, "{a}"),
            (IpAddr::V6(a), 128) => write!(f, "{a}"),
            (a, length) => write!(f, "{a}/{length}"),
        }
    }
}

/// Returns the bits of an address as IPv6.
pub fn bits(a: IpAddr) -> u128 {
    match a {
        IpAddr::V4(a) => a.to_ipv6_mapped().to_bits(),
        IpAddr::V6(a) => a.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trusted_network_is_not_everybody() {
        for text in ["192.0.2.7", "192.0.2.0/24", "2001:db8::/64", "::1"] {
            assert_eq!(Prefix::trusted(text).unwrap().to_string(), text);
        }
        for (text, why) in [
            ("", "is not an address"),
            ("0.0.0.0/0", "contains every address"),
            ("::/0", "contains every address"),
            ("::ffff:0.0.0.0/96", "contains every address"),
            ("192.0.2.7/24", "write 192.0.2.0/24"),
        ] {
            let refused = Prefix::trusted(text);
            assert!(refused.as_ref().is_err_and(|e| e.contains(why)), "{text}: {refused:?}");
        }
    }

    #[test]
    fn prefixes() {
        let host: IpAddr = "10.0.0.1".parse().unwrap();
        let p: Prefix = "10.1.0.0/16".parse().unwrap();
        assert!(p.contains("10.1.255.3".parse().unwrap()) && !p.contains("10.2.0.0".parse().unwrap()));
        assert_eq!(p.to_string(), "10.1.0.0/16");
        let p: Prefix = "fd00::/8".parse().unwrap();
        assert!(p.contains("fd12::1".parse().unwrap()) && !p.contains("fe80::1".parse().unwrap()));
        assert_eq!(
            (p.to_string().as_str(), Prefix::from(host).to_string().as_str()),
            ("fd00::/8", "10.0.0.1")
        );
        for bad in ["", "10.0.0.0/33", "x/8", "10.0.0.1/"] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
        assert!("0.0.0.0/0".parse::<Prefix>().unwrap().contains(host));
    }

    #[test]
    fn a_prefix_knows_its_length_and_a_single_address() {
        let of = |text: &str| {
            let p: Prefix = text.parse().unwrap();
            (p.length(), p.address().map(|a| a.to_string()), p.to_string())
        };
        assert_eq!(of("10.1.2.3"), (128, Some("10.1.2.3".into()), "10.1.2.3".into()));
        assert_eq!(of("10.1.2.3/24"), (120, None, "10.1.2.0/24".into()));
        assert_eq!(of("fd00::1"), (128, Some("fd00::1".into()), "fd00::1".into()));
        assert_eq!(of("fd00::1/7"), (7, None, "fc00::/7".into()));
        // Prefixes that contain the IPv4-mapped range and other addresses.
        assert_eq!(of("::ffff:0:0/90").2, "::ffc0:0:0/90");
    }
}

//! Options of the command line in groups that commands share, and the settings created from them. This module does not depend on
//! any command.

pub mod analysis;
pub mod check;
pub mod condition;
pub mod ecn;
pub mod late;
pub mod live;
pub mod load;
pub mod log;
pub mod one_way;
pub mod one_way_protocol;
pub mod outputs;
pub mod overwritten;
pub mod pace;
pub mod ping;
pub mod priority;
pub mod profile;
pub mod protocol;
pub mod report;
pub mod shape;
pub mod start;
pub mod unread;

use jitlat_core::far_host::FarHost;
use jitlat_core::quantity::SendingRate;
pub use jitlat_instruments::access::{key, read_key_file};
use jitlat_net::client::AddressFamily;
use jitlat_net::resolve::local_addresses;
use std::net::IpAddr;
use std::str::FromStr;
use tracing::info;

/// Returns the address family requested by `-4` and `-6`; `None`: either.
pub fn family(ipv4: bool, ipv6: bool) -> Option<AddressFamily> {
    match (ipv4, ipv6) {
        (true, _) => Some(AddressFamily::V4),
        (_, true) => Some(AddressFamily::V6),
        _ => None,
    }
}

/// Logs how the rate of `-r` was interpreted, because 64k may mean packets or bits.
pub fn explain_rate(rate: Option<SendingRate>, payload: u64) {
    if let Some(rate) = rate {
        let bits = match rate {
            SendingRate::Packets(_) => "; bits per second are written as 64kbit",
            SendingRate::Bits(_) => "",
        };
        info!("-r: {}{bits}", rate.describe(payload));
    }
}

/// Value of `--bind`: a local address, or an interface, which stands for its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalAddresses(pub Vec<IpAddr>);

impl FromStr for LocalAddresses {
    type Err = String;

    fn from_str(text: &str) -> Result<LocalAddresses, String> {
        local_addresses(text).map(LocalAddresses)
    }
}

impl LocalAddresses {
    /// Returns the address from which packets to `host` are sent: the first one in `family` or, if that is `None` and
    /// `host` is an address, in the family of `host`. Returns the first of all addresses if none is in that family.
    pub fn towards(&self, host: &str, family: Option<AddressFamily>) -> Option<IpAddr> {
        let of_host = FarHost::name_in(host).split('%').next().and_then(|host| host.parse::<IpAddr>().ok());
        let family = family.or(of_host.map(|host| family_of(&host)));
        let fits = |address: &&IpAddr| family.is_none_or(|family| family_of(address) == family);
        self.0.iter().find(fits).or(self.0.first()).copied()
    }
}

fn family_of(address: &IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::V4 } else { AddressFamily::V6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_from_an_address_of_the_right_family() {
        let [v4, v6] = ["192.0.2.7", "2001:db8::7"].map(|text| text.parse::<IpAddr>().unwrap());
        let both = LocalAddresses(vec![v4, v6]);
        assert_eq!(both.towards("example.org", None), Some(v4));
        assert_eq!(both.towards("example.org", Some(AddressFamily::V6)), Some(v6));
        assert_eq!(both.towards("[2001:db8::1]:80", None), Some(v6));
        assert_eq!(both.towards("fe80::1%eth0", None), Some(v6));
        assert_eq!(LocalAddresses(vec![v4]).towards("2001:db8::1", None), Some(v4));
    }
}

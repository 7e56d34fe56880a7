//! [`PROTOCOLS`]: all two-way protocols, one file each. To add a protocol, create a file here that exports
//! its entry, and add its `mod` and its line in the list.

pub mod icmp;
pub mod ipsla;
pub mod irtt;
pub mod lamp;
pub mod stamp;
pub mod tcp;
pub mod twamp;

use super::protocol::PingProtocol;
use crate::arguments::Argument;
use jitlat_core::prefix::Prefix;
use jitlat_net::resolve::connected_networks;

/// All protocols of two-way tests.
pub const PROTOCOLS: &[&PingProtocol] = &[
    &icmp::PROTOCOL, // The default.
    &stamp::PROTOCOL,
    &twamp::PROTOCOL,
    &lamp::PROTOCOL,
    &irtt::PROTOCOL,
    &ipsla::PROTOCOL,
    &tcp::PROTOCOL,
];

impl PingProtocol {
    /// Finds the protocol called `name`; `None` if it does not exist.
    pub fn named(name: &str) -> Option<&'static PingProtocol> {
        PROTOCOLS.iter().copied().find(|p| p.name == name)
    }
}

/// Argument of protocols whose reflectors may answer from another port.
const ANY_PORT: Argument = Argument::switch(
    "any-port",
    "Accept answers from any UDP port of the far host\n\nBy default packets from other ports than the \
     requested one are counted, but not accepted as answers.",
);

/// Word that stands for all directly connected networks in lists of trusted networks.
const LINK: &str = "link";

/// Parses trusted networks separated by commas. [`LINK`] stands for all directly connected networks.
fn networks(text: &str) -> Result<Vec<Prefix>, String> {
    let mut networks = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match word {
            LINK => networks.extend(connected_networks()),
            word => networks.push(word.parse().map_err(|()| {
                format!("'{word}' is not a network: write 192.0.2.0/24, 2001:db8::/32 or {LINK}")
            })?),
        }
    }
    Ok(networks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use crate::ping::protocol::RequestSizes;
    use std::collections::HashMap;

    #[test]
    fn every_protocol_has_a_client_without_arguments() {
        for protocol in PROTOCOLS {
            let client = protocol.client(&Arguments::new()).unwrap();
            assert!(std::ptr::eq(client.protocol(), *protocol), "{protocol:?}");
            let RequestSizes { usual, header, range: (low, high), .. } = client.sizes();
            assert!((low..=high).contains(&(usual + header)), "{protocol:?}");
            assert!(std::ptr::eq(PingProtocol::named(protocol.name).unwrap(), *protocol));
        }
    }

    #[test]
    fn an_argument_of_two_protocols_is_the_same() {
        let mut known: HashMap<&str, &Argument> = HashMap::new();
        for argument in PROTOCOLS.iter().flat_map(|p| p.arguments) {
            let first = known.entry(argument.name).or_insert(argument);
            assert_eq!(first.help, argument.help, "{}", argument.name);
        }
        let servers = || PROTOCOLS.iter().filter_map(|p| p.server.as_ref());
        let names: Vec<&str> = servers().flat_map(|s| s.arguments).map(|a| a.name).collect();
        let mut distinct = names.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }

    #[test]
    fn every_protocol_has_its_row_in_the_documentation() {
        let page = include_str!("../../../../../docs/protocols/README.md");
        for PingProtocol { name, .. } in PROTOCOLS {
            let row = |line: &str| {
                line.starts_with('|') && line.contains(&format!("`jitlat ping HOST --proto {name}"))
            };
            assert!(page.lines().any(row), "docs/protocols/README.md lacks --proto {name}");
        }
    }
}

//! [`ONE_WAY_PROTOCOLS`]: all one-way protocols, one file each. To add a protocol, create a file here that
//! exports its entry, and add its `mod` and its line in the list.

pub mod jitlat;
pub mod owamp;

use super::protocol::OneWayProtocol;

/// All protocols of one-way tests.
pub const ONE_WAY_PROTOCOLS: &[&OneWayProtocol] = &[
    &jitlat::PROTOCOL, // The default.
    &owamp::PROTOCOL,
];

impl OneWayProtocol {
    /// Finds the protocol called `name`; `None` if it does not exist.
    pub fn named(name: &str) -> Option<&'static OneWayProtocol> {
        ONE_WAY_PROTOCOLS.iter().copied().find(|p| p.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use crate::ping::PROTOCOLS;

    #[test]
    fn every_protocol_has_a_client_without_arguments_and_a_name_of_its_own() {
        for protocol in ONE_WAY_PROTOCOLS {
            let client = protocol.client(&Arguments::new()).unwrap();
            assert!(std::ptr::eq(client.protocol(), *protocol), "{protocol:?}");
            assert!(std::ptr::eq(OneWayProtocol::named(protocol.name).unwrap(), *protocol));
            let two_way = |name: &str| PROTOCOLS.iter().flat_map(|p| p.arguments).any(|a| a.name == name);
            assert!(protocol.arguments.iter().all(|a| !two_way(a.name)), "{protocol:?}");
        }
    }

    #[test]
    fn every_protocol_has_its_row_in_the_documentation() {
        let page = include_str!("../../../../../docs/protocols/README.md");
        for name in ONE_WAY_PROTOCOLS.iter().skip(1).map(|p| p.name) {
            let row =
                |line: &str| line.starts_with('|') && line.contains(&format!("`jitlat HOST --proto {name}"));
            assert!(page.lines().any(row), "docs/protocols/README.md lacks jitlat HOST --proto {name}");
        }
    }
}

//! [`PROTOCOLS`]: every two-way protocol.

use super::protocol::Protocol;
use super::{icmp, lamp, stamp, tcp, twamp};

/// The two-way protocols. A new one is a file beside this one that exports its entry, and a line here.
pub const PROTOCOLS: &[&Protocol] =
    &[&icmp::PROTOCOL, &stamp::PROTOCOL, &twamp::PROTOCOL, &lamp::PROTOCOL, &tcp::PROTOCOL];

impl Protocol {
    /// The protocol called `name`.
    pub fn named(name: &str) -> Option<&'static Protocol> {
        PROTOCOLS.iter().copied().find(|p| p.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Argument, Arguments};
    use crate::ping::protocol::Sizes;
    use std::collections::HashMap;

    #[test]
    fn every_protocol_has_a_client_without_arguments() {
        for protocol in PROTOCOLS {
            let client = protocol.client(&Arguments::new()).unwrap();
            assert!(std::ptr::eq(client.protocol(), *protocol), "{protocol:?}");
            let Sizes { usual, header, range: (low, high), .. } = client.sizes();
            assert!((low..=high).contains(&(usual + header)), "{protocol:?}");
            assert!(std::ptr::eq(Protocol::named(protocol.name).unwrap(), *protocol));
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
}

//! [`HostNames`]: the hosts at the ends of a test that another host pushes. One of them must be that host, by name and address; nobody
//! has a key for the tests of others.

use jitlat_archive::CollectedEnds;
use jitlat_core::Session;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::OnceLock;

/// Hosts in the monitor's file, which decide whether a test belongs to the host that pushes it.
#[derive(Debug)]
pub struct HostNames {
    /// Name and address or host name of each host in the file, by its name in lower case.
    named: BTreeMap<String, (String, String)>,
    /// Names of the hosts by address; resolved when the first test arrives.
    by_address: OnceLock<BTreeMap<IpAddr, BTreeSet<String>>>,
}

/// True if `name` can be the name of a host or target: it has only ASCII characters, none of which is a look-alike from
/// another script.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:%[]/@".contains(&b))
}

impl HostNames {
    /// Creates the hosts from the name of each in the file, and its address or host name.
    pub fn new(hosts: impl Iterator<Item = (String, String)>) -> HostNames {
        let named = hosts.map(|(name, address)| (name.to_ascii_lowercase(), (name, address)));
        HostNames { named: named.collect(), by_address: OnceLock::new() }
    }

    /// Returns the reason why the names in `tags` cannot be those of a test that `host` may push; `None`: they can.
    pub fn foreign_names(&self, host: &str, tags: &[(String, String)]) -> Option<String> {
        let of = |wanted: &'static str| tags.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(wanted));
        let (clients, servers) = (of("client"), of("server"));
        let ends: Vec<&str> = clients.chain(servers).map(|(_, name)| name.as_str()).collect();
        if let Some(odd) = ends.iter().find(|name| !is_plain(name)) {
            return Some(format!(
                "{host} offers a test of '{}': names of hosts have only ASCII letters, digits and '-._'",
                odd.escape_debug()
            ));
        }
        let is_own = |name: &str| name.eq_ignore_ascii_case(host);
        let known = |name: &str| self.named.contains_key(&name.to_ascii_lowercase());
        if let Some((_, other)) = of("client").find(|(_, name)| !is_own(name) && known(name)) {
            return Some(format!("{host} offers a test that {other} started"));
        }
        (!ends.is_empty() && !ends.iter().any(|name| is_own(name)))
            .then(|| format!("{host} offers a test of {}", ends.join(" and ")))
    }

    /// Returns the known hosts at the ends of a test with `tags` that `host` pushes. An address that is not in the file
    /// may be another one of `host`, for example behind address translation, or that of a target: its end has no host.
    ///
    /// # Errors
    /// Reason why the test is not one of `host`: its tags name other hosts, or both of its addresses are those of other hosts.
    pub fn ends(
        &self,
        host: &str,
        tags: &[(String, String)],
        session: &Session,
    ) -> Result<CollectedEnds, String> {
        if let Some(why) = self.foreign_names(host, tags) {
            return Err(why);
        }
        let of = |end: Option<IpAddr>| -> Option<&str> {
            let names = self.by_address().get(&end?.to_canonical())?;
            names.get(host).or_else(|| names.first()).map(String::as_str)
        };
        let ends = (of(session.src), of(session.dst));
        if let ((Some(from), Some(to)), Some((src, dst))) = (ends, session.src.zip(session.dst))
            && from != host
            && to != host
        {
            return Err(format!("{host} offers a test from {src} to {dst}, which are {from} and {to}"));
        }
        Ok(CollectedEnds { src: ends.0.map(str::to_owned), dst: ends.1.map(str::to_owned) })
    }

    fn by_address(&self) -> &BTreeMap<IpAddr, BTreeSet<String>> {
        self.by_address.get_or_init(|| {
            let mut all: BTreeMap<IpAddr, BTreeSet<String>> = BTreeMap::new();
            for (name, address) in self.named.values() {
                // A host whose name cannot be resolved is only recognised by its tags.
                for found in (address.as_str(), 0).to_socket_addrs().into_iter().flatten() {
                    all.entry(found.ip().to_canonical()).or_default().insert(name.clone());
                }
            }
            all
        })
    }
}

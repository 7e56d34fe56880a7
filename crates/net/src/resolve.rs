//! Resolves names of hosts and interfaces to addresses, in the same way for every test.

use crate::client::AddressFamily;
use crate::sys::{interface_index, interfaces};
use jitlat_core::prefix::Prefix;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

/// Reason why a host has no usable address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The resolver does not find an address of the name.
    #[error("cannot find an address of {host}: {source}; is the name right?")]
    Lookup {
        /// Name of the host.
        host: String,
        /// Error of the resolver.
        source: io::Error,
    },
    /// The host has no address of the requested family.
    #[error("{host} has no {}", match .family {
        Some(AddressFamily::V4) => "IPv4 address, which -4 or --bind requires",
        Some(AddressFamily::V6) => "IPv6 address, which -6 or --bind requires",
        None => "address",
    })]
    NoAddress {
        /// Name of the host.
        host: String,
        /// Requested family; `None`: any.
        family: Option<AddressFamily>,
    },
    /// The interface of a link-local address is not given.
    #[error(
        "{address} is a link-local address, which is valid only on one link: add the interface, as in \
         {address}%{}{}",
        .interfaces.first().map_or("eth0", String::as_str),
        others(.interfaces)
    )]
    NoInterface {
        /// Link-local address without an interface.
        address: Ipv6Addr,
        /// Names of the interfaces that have link-local addresses.
        interfaces: Vec<String>,
    },
    /// This host has no such interface.
    #[error("this host has no interface {0}: `ip link` lists them")]
    UnknownInterface(String),
}

/// Maximum number of interfaces that an error names.
const MAX_NAMED_INTERFACES: usize = 6;

/// Returns the alternatives to the first of `interfaces` for an error message; empty if there are none.
fn others(interfaces: &[String]) -> String {
    match interfaces.get(1..MAX_NAMED_INTERFACES.min(interfaces.len())) {
        Some(others) if !others.is_empty() => format!(" (or {})", others.join(", ")),
        _ => String::new(),
    }
}

/// Returns the names of the interfaces that have IPv6 link-local addresses.
fn interfaces_with_link_local() -> Vec<String> {
    let is_link_local = |address: &IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let entries = interfaces().unwrap_or_default().into_iter();
    let link_local = entries.filter(|entry| entry.address.as_ref().is_some_and(is_link_local));
    let mut names: Vec<String> = link_local.map(|entry| entry.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the addresses of `host` with `port` in `family`, in the order in which they should be tried: that of the
/// resolver, but with alternating families (RFC 8305 §4), so that a broken family delays a test only once. An IPv6
/// address may be in brackets. `interface` is used for link-local addresses without an interface of their own.
///
/// # Errors
/// [`ResolveError`] if there is no usable address.
pub fn addresses(
    host: &str,
    port: u16,
    family: Option<AddressFamily>,
    interface: Option<&str>,
) -> Result<Vec<SocketAddr>, ResolveError> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    // The resolver does not report that it failed because of the interface in an address.
    if let Some((address, name)) = host.split_once('%')
        && address.parse::<Ipv6Addr>().is_ok()
        && name.parse::<u32>().is_err()
        && interface_index(name).is_err()
    {
        return Err(ResolveError::UnknownInterface(name.to_owned()));
    }
    let found = (host, port).to_socket_addrs();
    let found = found.map_err(|source| ResolveError::Lookup { host: host.to_owned(), source })?;
    let mut wanted = Vec::new();
    for mut address in found {
        address.set_ip(address.ip().to_canonical());
        if let SocketAddr::V6(v6) = &mut address
            && v6.ip().is_unicast_link_local()
            && v6.scope_id() == 0
        {
            let name = interface.ok_or_else(|| ResolveError::NoInterface {
                address: *v6.ip(),
                interfaces: interfaces_with_link_local(),
            })?;
            let index = interface_index(name).map_err(|_| ResolveError::UnknownInterface(name.to_owned()))?;
            v6.set_scope_id(index);
        }
        if family.is_none_or(|family| family.has(&address)) && !wanted.contains(&address) {
            wanted.push(address);
        }
    }
    if wanted.is_empty() {
        return Err(ResolveError::NoAddress { host: host.to_owned(), family });
    }
    Ok(alternating(wanted))
}

/// Orders `addresses` so that families alternate, beginning with that of the first one.
fn alternating(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let starts_with_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|a| a.is_ipv6() == starts_with_v6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut ordered = Vec::new();
    loop {
        let before = ordered.len();
        ordered.extend(first.next());
        ordered.extend(second.next());
        if ordered.len() == before {
            return ordered;
        }
    }
}

/// Returns the local addresses that `text` stands for: an address itself, or all addresses of an interface except IPv6
/// link-local ones, IPv4 first.
///
/// # Errors
/// Message if `text` is neither an address nor an interface with such an address.
pub fn local_addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    let address = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = address.parse::<IpAddr>() {
        return Ok(vec![address.to_canonical()]);
    }
    if let Some((address, interface)) = address.split_once('%')
        && let Ok(address) = address.parse::<Ipv6Addr>()
    {
        return match own_scopes(address).any(|scope| interface_index(interface).ok() == Some(scope)) {
            true => Ok(vec![address.into()]),
            false => Err(format!(
                "interface {interface} does not have the address {address}: `ip address` lists both"
            )),
        };
    }
    if interface_index(text).is_err() {
        return Err(format!(
            "'{text}' is neither an address nor an interface of this host: `ip address` lists both"
        ));
    }
    let found = own_addresses(|name| name == text);
    match found.is_empty() {
        true => {
            Err(format!("interface {text} has no address except link-local ones: give --bind an address"))
        }
        false => Ok(found),
    }
}

/// True for IPv6 link-local addresses, which are valid only with an interface.
pub fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Returns the networks to which this host is directly connected, without loopback.
pub fn connected_networks() -> Vec<Prefix> {
    let entries = interfaces().unwrap_or_default().into_iter();
    let mut networks: Vec<Prefix> = entries
        .filter_map(|entry| {
            let address = entry.address.filter(|address| !address.is_loopback())?;
            Prefix::new(address, entry.prefix_length?)
        })
        .collect();
    networks.sort_unstable();
    networks.dedup();
    networks
}

/// Returns the indices of the interfaces that have `address`.
fn own_scopes(address: Ipv6Addr) -> impl Iterator<Item = u32> {
    let entries = interfaces().unwrap_or_default().into_iter();
    entries.filter(move |entry| entry.address == Some(IpAddr::V6(address))).map(|entry| entry.index)
}

/// Returns the address and port to bind a socket to. A link-local address gets the index of its interface, without which
/// the kernel rejects it.
pub fn local_address(ip: IpAddr, port: u16) -> SocketAddr {
    match ip {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, own_scopes(v6).next().unwrap_or(0)).into()
        }
        _ => SocketAddr::new(ip, port),
    }
}

/// Returns the addresses at which other hosts reach a listener at `at`: `at` itself or, if it is unspecified, all
/// addresses of this host in its family except IPv6 link-local ones. Loopback addresses are left out.
pub fn reachable_at(at: IpAddr) -> Vec<IpAddr> {
    let all = if at.is_unspecified() { own_addresses(|_| true) } else { vec![at] };
    let is_reachable = |address: &IpAddr| address.is_ipv4() == at.is_ipv4() && !address.is_loopback();
    all.into_iter().filter(is_reachable).collect()
}

/// Returns the addresses of the interfaces whose names `wanted` accepts, IPv4 first, without IPv6 link-local ones.
fn own_addresses(wanted: impl Fn(&str) -> bool) -> Vec<IpAddr> {
    let all = interfaces().unwrap_or_default().into_iter();
    let mut found: Vec<IpAddr> = all
        .filter(|entry| wanted(&entry.name))
        .filter_map(|entry| entry.address)
        .filter(|address| !is_link_local(address))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_alternate() {
        let address = |text: &str| SocketAddr::new(text.parse().unwrap(), 1);
        let of = |texts: &[&str]| texts.iter().map(|text| address(text)).collect::<Vec<_>>();
        assert_eq!(
            alternating(of(&["::1", "::2", "::3", "1.1.1.1", "2.2.2.2"])),
            of(&["::1", "1.1.1.1", "::2", "2.2.2.2", "::3"])
        );
        assert_eq!(alternating(of(&["1.1.1.1", "::1"])), of(&["1.1.1.1", "::1"]));
        assert_eq!(alternating(Vec::new()), Vec::new());
    }

    #[test]
    fn addresses_of_every_form_are_found() {
        let found = |host: &str, family, interface| {
            addresses(host, 7, family, interface)
                .map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(found("[::1]", None, None).unwrap(), ["[::1]:7"]);
        assert_eq!(found("::ffff:192.0.2.7", Some(AddressFamily::V4), None).unwrap(), ["192.0.2.7:7"]);
        let index = interface_index("lo").unwrap();
        assert_eq!(found("fe80::1%lo", None, None).unwrap(), [format!("[fe80::1%{index}]:7")]);
        assert_eq!(found("fe80::1", None, Some("lo")).unwrap(), [format!("[fe80::1%{index}]:7")]);
        let error = |host: &str, family, interface| found(host, family, interface).unwrap_err().to_string();
        assert!(error("fe80::1", None, None).contains("add the interface, as in fe80::1%"));
        let choices = ["eth0", "wlan0", "wlan1"].map(str::to_owned);
        let named = |interfaces: &[String]| {
            ResolveError::NoInterface { address: "fe80::1".parse().unwrap(), interfaces: interfaces.to_vec() }
                .to_string()
        };
        assert!(named(&choices).ends_with("as in fe80::1%eth0 (or wlan0, wlan1)"));
        assert!(named(&choices[1..2]).ends_with("as in fe80::1%wlan0"));
        assert!(named(&[]).ends_with("as in fe80::1%eth0"));
        assert!(error("fe80::1", None, Some("none7")).contains("no interface none7"));
        assert!(error("fe80::1%none7", None, None).contains("no interface none7"));
        assert!(error("192.0.2.7", Some(AddressFamily::V6), None).contains("192.0.2.7 has no IPv6 address"));
    }

    #[test]
    fn an_interface_stands_for_its_addresses() {
        assert!(local_addresses("lo").unwrap().contains(&"127.0.0.1".parse().unwrap()));
        assert_eq!(local_addresses("[::1]"), Ok(vec!["::1".parse().unwrap()]));
        let v4 = "127.0.0.1".parse().unwrap();
        assert!(reachable_at(v4).is_empty());
        assert_eq!(reachable_at("192.0.2.7".parse().unwrap()), ["192.0.2.7".parse::<IpAddr>().unwrap()]);
        assert!(!reachable_at("0.0.0.0".parse().unwrap()).contains(&v4));
        assert!(local_addresses("none7").unwrap_err().contains("neither an address nor an interface"));
    }
}

//! Finds this host in the monitor's file.

use crate::Model;
use crate::runtime::error::{Result, bail};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use nix::unistd::gethostname;
use std::net::IpAddr;

/// Finds the index of this host in the file, by its name or by an address of its interfaces.
pub fn find(model: &Model) -> Result<usize> {
    let name = gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    let addresses = addresses();
    let found = choose(model, &name, &addresses);
    match found[..] {
        [host] => Ok(host),
        [] => {
            let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            bail!(
                "the file does not contain this host, with the name '{name}' and the addresses {}: give \
                 --host NAME, or add it as a [[host]]",
                list.join(", ")
            )
        }
        _ => {
            let names: Vec<&str> = found.iter().map(|host| model.hosts[*host].name.as_str()).collect();
            bail!("this host matches {} in the file: choose one with --host NAME", names.join(" or "))
        }
    }
}

/// Returns the indices of hosts that match this name or these addresses.
fn choose(model: &Model, name: &str, addresses: &[IpAddr]) -> Vec<usize> {
    let short = name.split('.').next().unwrap_or_default();
    let hosts = || model.hosts.iter().enumerate();
    let is_named =
        |wanted: &str| [name, short].iter().any(|own| !own.is_empty() && wanted.eq_ignore_ascii_case(own));
    let by_name: Vec<usize> =
        hosts().filter(|(_, h)| is_named(&h.name) || is_named(&h.address)).map(|(k, _)| k).collect();
    if !by_name.is_empty() {
        return by_name;
    }
    let has = |address: &str| address.parse().is_ok_and(|ip: IpAddr| addresses.contains(&ip.to_canonical()));
    hosts().filter(|(_, h)| has(&h.address)).map(|(k, _)| k).collect()
}

/// Returns the addresses of this host's interfaces.
fn addresses() -> Vec<IpAddr> {
    let ip = |address: SockaddrStorage| -> Option<IpAddr> {
        let v4 = address.as_sockaddr_in().map(|a| a.ip().into());
        v4.or_else(|| address.as_sockaddr_in6().map(|a| a.ip().into()))
    };
    let interfaces = getifaddrs().into_iter().flatten();
    let mut list: Vec<IpAddr> =
        interfaces.filter_map(|i| ip(i.address?)).map(|ip| ip.to_canonical()).collect();
    list.dedup();
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::read;

    #[test]
    fn a_host_is_found_by_its_name_or_an_address() {
        let text = "host = [{ name = \"a\", address = \"192.0.2.1\" }, { name = \"B\", address = \"2001:db8::2\" }, \
                    { name = \"c\", address = \"c.example\" }]\n[[test]]\nname = \"t\"\nevery = \"1h\"";
        let model = read(text, &crate::runtime::fake::Simple).unwrap();
        let ip = |text: &str| vec![text.parse().unwrap()];
        assert_eq!(choose(&model, "b.example.org", &[]), [1]);
        assert_eq!(choose(&model, "c.example", &[]), [2]);
        assert_eq!(choose(&model, "x", &ip("192.0.2.1")), [0]);
        assert_eq!(choose(&model, "b", &ip("192.0.2.1")), [1], "the name comes first");
        assert!(choose(&model, "x", &ip("192.0.2.9")).is_empty() && choose(&model, "", &[]).is_empty());
    }
}

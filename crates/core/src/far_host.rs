//! [`FarHost`]: the host of a test, as people write it.

use crate::printable::is_unprintable;
use crate::quantity::QuantityError;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use core::str::FromStr;

/// Name or address of a far host, and its port if given: `example.org`, `example.org:2666`, `192.0.2.7`, `2001:db8::7`,
/// `[2001:db8::7]:2666`, `fe80::1%eth0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarHost {
    /// Name or address, without brackets. An IPv4-mapped address (`::ffff:192.0.2.7`) is written as IPv4.
    pub name: String,
    /// Port; `None` if none was given.
    pub port: Option<u16>,
}

impl FarHost {
    /// Returns the name in `text` without the port; `text` itself if it is not a valid host.
    pub fn name_in(text: &str) -> String {
        text.parse().map_or_else(|_| text.to_owned(), |host: FarHost| host.name)
    }

    /// Returns the reason why this cannot be a single host: its address stands for a group of hosts or for none, or its
    /// name is a number that resolvers take for an address. `None` if this can be a single host.
    pub fn not_one_host(&self) -> Option<String> {
        let name = &self.name;
        let (address, _) = name.split_once('%').unwrap_or((name, ""));
        let Ok(address) = address.parse::<IpAddr>() else {
            // Resolvers read 224.1, 0 and 0xe0000001 as IPv4 addresses.
            let last = name.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
            let is_number = !last.is_empty()
                && (last.bytes().all(|b| b.is_ascii_digit()) || last.to_ascii_lowercase().starts_with("0x"));
            return is_number
                .then(|| format!("'{name}' is not an address: write four numbers, as in 192.0.2.7"));
        };
        let kind = match address {
            IpAddr::V4(v4) if v4.is_broadcast() => "every host of a network (broadcast)",
            address if address.is_multicast() => "a group of hosts (multicast)",
            address if address.is_unspecified() => "no host (unspecified)",
            _ => return None,
        };
        Some(format!("{name} is the address of {kind}: write the address of one host"))
    }
}

impl fmt::Display for FarHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            None => f.write_str(&self.name),
            Some(port) if self.name.contains(':') => write!(f, "[{}]:{port}", self.name),
            Some(port) => write!(f, "{}:{port}", self.name),
        }
    }
}

impl FromStr for FarHost {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<FarHost, QuantityError> {
        let text = text.trim();
        let wrong = |why: String| Err(QuantityError::new(why));
        if let Some((_, rest)) = text.split_once("://") {
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            return wrong(format!(
                "'{text}' is the address of a page: write the host alone, {host} (pages are measured by jitlat rpm)"
            ));
        }
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || is_unprintable(c)) {
            return wrong("write the name or address of a host: example.org or 192.0.2.7".to_owned());
        }
        if text.contains('/') {
            return wrong(format!("'{text}' is a network or a file: write the name or address of one host"));
        }
        if let Some(rest) = text.strip_prefix('[') {
            let Some((address, port)) = rest.split_once(']') else {
                return wrong(format!(
                    "'{text}' lacks the closing bracket: write [2001:db8::7] or [2001:db8::7]:2666"
                ));
            };
            let port = match port.strip_prefix(':') {
                Some(port) => Some(self::port(text, port)?),
                None if port.is_empty() => None,
                None => return wrong(format!("'{text}': write a colon and a port after the bracket")),
            };
            return Ok(FarHost { name: name(text, address)?, port });
        }
        match text.split_once(':') {
            Some((host, rest)) if !rest.contains(':') => {
                if host.is_empty() {
                    return wrong(format!("'{text}' has no host before the port: write example.org{text}"));
                }
                Ok(FarHost { name: host.to_owned(), port: Some(port(text, rest)?) })
            }
            _ => Ok(FarHost { name: name(text, text)?, port: None }),
        }
    }
}

fn port(text: &str, port: &str) -> Result<u16, QuantityError> {
    port.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
        QuantityError::new(format!("'{port}' in '{text}' is not a port: write a number from 1 to 65535"))
    })
}

/// Returns `host`, as IPv4 if it is an IPv4-mapped address. Only addresses may contain colons; `text` is for the error
/// message.
fn name(text: &str, host: &str) -> Result<String, QuantityError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(address.to_canonical().to_string());
    }
    let (address, interface) = host.split_once('%').unwrap_or((host, ""));
    let scoped = host.contains('%');
    if host.contains(':') && address.parse::<Ipv6Addr>().is_err() || scoped && interface.is_empty() {
        return Err(QuantityError::new(format!(
            "'{text}' is not an address: write IPv6 as 2001:db8::7, with a port as [2001:db8::7]:2666, and with an \
             interface as fe80::1%eth0"
        )));
    }
    Ok(host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_as_people_write_them() {
        for (text, name, port) in [
            ("example.org", "example.org", None),
            ("example.org:2666", "example.org", Some(2666)),
            ("192.0.2.7:80", "192.0.2.7", Some(80)),
            ("2001:db8::7", "2001:db8::7", None),
            ("2001:0DB8::0007", "2001:db8::7", None),
            ("[2001:db8::7]", "2001:db8::7", None),
            ("[2001:db8::7]:80", "2001:db8::7", Some(80)),
            ("::ffff:192.0.2.7", "192.0.2.7", None),
            ("[::ffff:192.0.2.7]:80", "192.0.2.7", Some(80)),
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("[fe80::1%eth0]:80", "fe80::1%eth0", Some(80)),
            (" router ", "router", None),
        ] {
            let host: FarHost = text.parse().unwrap();
            assert_eq!((host.name.as_str(), host.port), (name, port), "{text}");
            assert_eq!(host.to_string().parse(), Ok(host), "{text}");
        }
    }

    #[test]
    fn what_is_no_host_is_named() {
        for (text, said) in [
            (
                "http://user@example.org:80/x",
                "write the host alone, example.org:80 (pages are measured by jitlat rpm)",
            ),
            ("", "write the name or address of a host"),
            ("a b", "write the name or address of a host"),
            ("192.0.2.0/24", "is a network"),
            ("example.org:0", "'0' in 'example.org:0' is not a port"),
            ("example.org:http", "'http' in 'example.org:http' is not a port"),
            (":2666", "no host before the port: write example.org:2666"),
            ("[::1", "lacks the closing bracket"),
            ("[::1]80", "write a colon and a port after the bracket"),
            ("2001:db8:::7", "is not an address"),
            ("fe80::1%", "is not an address"),
            ("a:b:c", "is not an address"),
        ] {
            let error = text.parse::<FarHost>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn groups_and_numbers_are_not_one_host() {
        for (text, why) in [
            ("224.0.0.1", "multicast"),
            ("ff02::1%eth0", "multicast"),
            ("::ffff:239.1.2.3", "multicast"),
            ("255.255.255.255", "broadcast"),
            ("0.0.0.0", "unspecified"),
            ("::", "unspecified"),
            ("224.1", "not an address"),
            ("0", "not an address"),
            ("0xE0000001", "not an address"),
            ("host.0x7f", "not an address"),
        ] {
            let host: FarHost = text.parse().unwrap();
            assert!(host.not_one_host().is_some_and(|said| said.contains(why)), "{text}");
        }
        for text in ["192.0.2.7", "2001:db8::7", "fe80::1%eth0", "example.org", "h7", "a.b.", "1.example"] {
            assert_eq!(text.parse::<FarHost>().unwrap().not_one_host(), None, "{text}");
        }
        assert!("a\u{1b}[2J".parse::<FarHost>().is_err());
    }
}

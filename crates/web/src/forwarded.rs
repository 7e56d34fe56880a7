//! [`Forwarded`]: the client for which a proxy sends a request.

use axum::http::HeaderMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Reads `X-Forwarded-For` of requests that a trusted proxy sends.
#[derive(Clone, Debug, Default)]
pub struct Forwarded {
    /// True if an unusable header has been logged.
    logged: Arc<AtomicBool>,
}

impl Forwarded {
    /// Returns the last address of the header, which the proxy has added; without a usable one the address of the proxy.
    pub fn client(&self, headers: &HeaderMap, proxy: IpAddr) -> IpAddr {
        let Some(value) = headers.get_all("x-forwarded-for").iter().next_back() else { return proxy };
        let named = value.to_str().ok().and_then(last_address);
        if named.is_none() && !self.logged.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "X-Forwarded-For: {value:?} does not end with a client's address: all such clients share the limits of one client, the proxy"
            );
        }
        named.unwrap_or(proxy)
    }
}

/// Returns the last address of a header `X-Forwarded-For`, which may have brackets and a port.
fn last_address(list: &str) -> Option<IpAddr> {
    let last = list.rsplit(',').next()?.trim().trim_matches('"');
    let bare = last.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(last);
    let with_port = || last.parse().ok().map(|at: SocketAddr| at.ip());
    bare.parse().ok().or_else(with_port).map(|ip: IpAddr| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_write_addresses_in_several_forms() {
        for (list, address) in [
            ("192.0.2.1", "192.0.2.1"),
            ("198.51.100.1, 192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:443", "192.0.2.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
        ] {
            assert_eq!(last_address(list), address.parse().ok(), "{list}");
        }
        for unusable in ["unknown", "", "192.0.2.1, ", "[192.0.2.1", "_hidden"] {
            assert_eq!(last_address(unusable), None, "{unusable}");
        }
    }
}

//! Resolves host names to addresses.

use crate::error::Error;
use jitlat_net::client::AddressFamily;
use std::net::{SocketAddr, ToSocketAddrs};

/// Returns the first address of `host` in the requested `family`. An IPv6 address may be in brackets.
pub(crate) fn resolve(host: &str, port: u16, family: Option<AddressFamily>) -> Result<SocketAddr, Error> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let found = (host, port).to_socket_addrs();
    let mut found = found.map_err(|source| Error::Lookup { host: host.to_owned(), source })?;
    found
        .find(|a| family.is_none_or(|f| f.has(a)))
        .ok_or_else(|| Error::Address { host: host.to_owned(), family })
}

//! Routers on a path, which are found only on Linux.

use jitlat_core::path::Path;
use jitlat_core::path_history::PathEvent;
use jitlat_proto::path::TracePlan;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;

/// Reason why the path cannot be probed.
#[derive(Debug, thiserror::Error)]
#[error("cannot trace the path to {to}: {doing}: {source}")]
pub struct PathError {
    /// Destination.
    pub to: IpAddr,
    /// Description of the failed operation.
    pub doing: &'static str,
    /// Error of the operating system.
    pub source: io::Error,
}

/// Returns the source address of packets from this host to `to`.
///
/// # Errors
/// [`PathError`] if there is no route.
pub fn source_address(to: SocketAddr, bind: Option<IpAddr>) -> Result<IpAddr, PathError> {
    if let Some(ip) = bind {
        return Ok(ip);
    }
    let look = || {
        let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
        socket.connect(&to.into())?;
        let local = socket.local_addr()?.as_socket();
        local.map(|a| a.ip()).ok_or_else(|| io::Error::other("the system reports no address"))
    };
    look().map_err(|source| PathError { to: to.ip(), doing: "looking up the route", source })
}

/// Returns an error.
///
/// # Errors
/// Always.
pub fn trace(plan: TracePlan, _: &AtomicBool, _: &mut dyn FnMut(&PathEvent<'_>)) -> Result<Path, PathError> {
    let source = crate::elsewhere::refusal("reading ICMP errors");
    Err(PathError { to: plan.destination, doing: "opening a socket", source })
}

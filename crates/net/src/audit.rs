//! What a server decides about its clients, in the log: one form for all services.

use jitlat_proto::policy::{Gate, Service};
use std::fmt::Display;
use std::net::SocketAddr;

/// `peer` is served.
pub(crate) fn accepted(service: Service, peer: SocketAddr, what: impl Display) {
    tracing::info!(service, %peer, decision = "accepted", "{what}");
}

/// `peer` is not served.
pub(crate) fn refused(service: Service, peer: SocketAddr, why: impl Display) {
    tracing::info!(service, %peer, decision = "refused", "{why}");
}

/// `peer` gave a wrong key: it has to wait, and the log has fewer and fewer lines about it.
pub(crate) fn wrong_key(gate: &Gate, service: Service, peer: SocketAddr) {
    if gate.wrong_key(peer.ip(), crate::clock::steady()) {
        tracing::warn!(service, %peer, decision = "refused", "a wrong key");
    }
}

//! Impaired paths, which are emulated only on Linux.

pub use crate::settings::{Forward, Numbering, RelayConfig};

use crate::elsewhere::refusal;
use jitlat_core::Span;
use jitlat_impair::PathTally;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;

/// Reason why a relay could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// This system cannot do it.
    #[error("cannot start the relay: {0}")]
    Start(#[from] io::Error),
}

/// Lateness of packet deliveries.
#[derive(Clone, Debug, Default)]
pub struct DeliveryLateness {
    /// Number of packets delivered.
    pub deliveries: u64,
    /// Largest lateness.
    pub max: Span,
}

/// Record of an emulator's actions.
#[derive(Clone, Debug, Default)]
pub struct EmulatorReport {
    /// Packets from client to server.
    pub up: PathTally,
    /// Packets from server to client.
    pub down: PathTally,
    /// Lateness of deliveries.
    pub lateness: DeliveryLateness,
    /// Number of packets that the emulator dropped.
    pub overflow: u64,
}

/// A running relay, of which there is none on this system.
pub struct Relay(Infallible);

impl Relay {
    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: RelayConfig) -> Result<Relay, RelayError> {
        Err(refusal("emulating a path").into())
    }

    /// Returns the TCP addresses on which the relay listens.
    pub fn tcp_addresses(&self) -> &[SocketAddr] {
        match self.0 {}
    }

    /// Returns the UDP addresses on which the relay listens.
    pub fn udp_addresses(&self) -> &[SocketAddr] {
        match self.0 {}
    }

    /// Stops relaying.
    pub fn stop(self) -> EmulatorReport {
        match self.0 {}
    }
}

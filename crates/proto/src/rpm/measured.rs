//! [`RpmMeasured`]: result of a measurement of all stages. [`RpmProgress`]: its progress.

use super::LoadDirections;
use super::stage::{AnsweredProbe, StageInterval, StageOutcome};
use core::net::SocketAddr;
use jitlat_core::session::HostFacts;
use jitlat_core::{Span, SteadyTime, WallTime};

/// Progress of a measurement.
#[derive(Clone, Copy, Debug)]
pub enum RpmProgress<'a> {
    /// The resources of the server are known, and the idle path is measured.
    Idle(SocketAddr),
    /// A stage runs.
    Loaded {
        /// Directions of the load.
        load: LoadDirections,
        /// Time since the start of the stage.
        elapsed: Span,
        /// Maximum duration of the stage.
        limit: Span,
        /// Number of load-generating connections.
        connections: usize,
        /// The last complete interval; `None` during the first.
        interval: Option<&'a StageInterval>,
    },
}

/// Result of a measurement.
#[derive(Clone, Debug)]
pub struct RpmMeasured {
    /// Address of the server.
    pub server: SocketAddr,
    /// Address of this host; `None` if unknown.
    pub local: Option<SocketAddr>,
    /// TLS version in use: `1.3`.
    pub tls_version: &'static str,
    /// Facts about this host.
    pub host: HostFacts,
    /// Start of the measurement on both clocks, for the conversion of the times of probes.
    pub began: (WallTime, SteadyTime),
    /// Probes on the idle path.
    pub idle: Vec<AnsweredProbe>,
    /// Stages in order.
    pub stages: Vec<StageOutcome>,
    /// True if the user stopped the measurement.
    pub is_interrupted: bool,
}

impl RpmMeasured {
    /// Converts a time of a probe.
    pub fn wall(&self, at: SteadyTime) -> WallTime {
        self.began.0 + (at - self.began.1)
    }
}

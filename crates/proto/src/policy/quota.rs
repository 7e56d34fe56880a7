//! [`Quota`]: limits on resources, and the scope in which their use is counted.

use jitlat_core::Span;

/// Scope in which use is counted against a [`Quota`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Use of one service by one client.
    ServiceClient,
    /// Use of one service by all clients.
    ServiceTotal,
    /// Use of all services by one client.
    Client,
    /// Use of all services by all clients.
    Total,
}

impl Scope {
    /// All scopes, narrowest first.
    pub const ALL: [Scope; 4] = [Scope::ServiceClient, Scope::ServiceTotal, Scope::Client, Scope::Total];

    /// True if the scope is limited to one service.
    pub fn is_of_a_service(self) -> bool {
        matches!(self, Scope::ServiceClient | Scope::ServiceTotal)
    }

    /// True if the scope is limited to one client.
    pub fn is_of_a_client(self) -> bool {
        matches!(self, Scope::ServiceClient | Scope::Client)
    }
}

/// Limits on resources; `None`: no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Maximum number of packets per second in answers, enforced within every 100 ms.
    pub packets: Option<u32>,
    /// Maximum number of bytes per second in answers, enforced within every 100 ms.
    pub bytes: Option<u64>,
    /// Maximum number of TCP connections.
    pub connections: Option<usize>,
    /// Maximum number of sessions: tests that run or have stored results, TWAMP sessions, digest captures.
    pub sessions: Option<usize>,
    /// Maximum memory for sessions, in bytes.
    pub memory: Option<u64>,
    /// Maximum duration of a session, or of a connection without sessions.
    pub duration: Option<Span>,
}

impl Quota {
    /// True if a rate is limited.
    pub(super) fn limits_rates(&self) -> bool {
        self.packets.is_some() || self.bytes.is_some()
    }
}

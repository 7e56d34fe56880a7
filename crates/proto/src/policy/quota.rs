//! [`Quota`]: what may be had at most, and of whom it is counted.

use jitlat_core::Span;

/// Whose use is counted against a [`Quota`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One client's, of one service.
    ServiceClient,
    /// All clients', of one service.
    ServiceTotal,
    /// One client's, of all services.
    Client,
    /// All clients', of all services.
    Total,
}

impl Scope {
    /// Every scope, the narrowest first.
    pub const ALL: [Scope; 4] = [Scope::ServiceClient, Scope::ServiceTotal, Scope::Client, Scope::Total];

    /// Whether it is one service's.
    pub fn is_of_a_service(self) -> bool {
        matches!(self, Scope::ServiceClient | Scope::ServiceTotal)
    }

    /// Whether it is one client's.
    pub fn is_of_a_client(self) -> bool {
        matches!(self, Scope::ServiceClient | Scope::Client)
    }
}

/// Limits; `None`: not limited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Packets answered a second, in every 100 ms.
    pub packets: Option<u32>,
    /// Bytes sent in answers a second, in every 100 ms.
    pub bytes: Option<u64>,
    /// TCP connections.
    pub connections: Option<usize>,
    /// Sessions: tests running or kept, TWAMP sessions, digest captures.
    pub sessions: Option<usize>,
    /// Bytes of memory for sessions.
    pub memory: Option<u64>,
    /// How long a session, or a connection without sessions, may last.
    pub duration: Option<Span>,
}

impl Quota {
    /// Whether it limits rates.
    pub(super) fn limits_rates(&self) -> bool {
        self.packets.is_some() || self.bytes.is_some()
    }
}

//! Requests at a reflector, and why it may not answer.

use crate::policy::PolicyRefusal;
use core::net::SocketAddr;
use jitlat_core::WallTime;

/// How a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestArrival {
    /// From where.
    pub from: SocketAddr,
    /// When, by this host's wall clock: the best stamp there is.
    pub at: WallTime,
    /// Time to live or hop limit.
    pub ttl: Option<u8>,
    /// The TOS / traffic-class octet.
    pub traffic_class: Option<u8>,
}

/// Why a reflector does not answer. In the order of its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Silence {
    /// Not a request of this protocol.
    Foreign,
    /// Too short to be answered without sending more than was received.
    Short,
    /// An answer, not a request: it comes from a reflector.
    Loop,
    /// Sent from the port of a service that would answer back, or from an address that no host has.
    Source,
    /// The integrity check failed, or there was none.
    Forged,
    /// No session of that name, or not from its client.
    NoSession,
    /// More than this client's limit.
    Limited,
    /// Not among the hosts that are answered.
    NotAllowed,
    /// Sent to a broadcast or multicast address: all hosts would answer at once, to an address that may be forged.
    Broadcast,
}

impl core::fmt::Display for Silence {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "not answered: {}", self.name())
    }
}

impl core::error::Error for Silence {}

impl Silence {
    /// That of a refused connection.
    pub fn of(why: &PolicyRefusal) -> Silence {
        match why {
            PolicyRefusal::Network | PolicyRefusal::Off => Silence::NotAllowed,
            PolicyRefusal::Limit(_) | PolicyRefusal::WrongKeys(_) => Silence::Limited,
        }
    }

    /// All of them, in the order of their codes.
    pub const ALL: [Silence; 9] = [
        Silence::Foreign,
        Silence::Short,
        Silence::Loop,
        Silence::Source,
        Silence::Forged,
        Silence::NoSession,
        Silence::Limited,
        Silence::NotAllowed,
        Silence::Broadcast,
    ];

    /// A short description.
    pub fn name(self) -> &'static str {
        [
            "foreign",
            "too short",
            "from a reflector",
            "bad source",
            "forged",
            "no session",
            "rate limited",
            "not allowed",
            "broadcast",
        ][self as usize]
    }
}

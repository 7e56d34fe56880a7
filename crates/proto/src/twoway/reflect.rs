//! Arrival of requests at a reflector, and reasons not to answer.

use crate::policy::PolicyRefusal;
use core::net::SocketAddr;
use jitlat_core::WallTime;

/// Facts about the arrival of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestArrival {
    /// Source address and port.
    pub from: SocketAddr,
    /// Most precise timestamp of the arrival, on this host's wall clock.
    pub at: WallTime,
    /// TTL or hop limit; `None` if unknown.
    pub ttl: Option<u8>,
    /// TOS or traffic-class octet; `None` if unknown.
    pub traffic_class: Option<u8>,
}

/// Reason why a reflector does not answer; in the order of its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Silence {
    /// The packet is not a request of this protocol.
    Foreign,
    /// The request is too short: the answer would be longer than the request.
    Short,
    /// The packet is an answer from a reflector.
    Loop,
    /// The source port belongs to a service that would answer back, or the source address belongs to no host.
    Source,
    /// The integrity check failed or was missing.
    Forged,
    /// The session does not exist, or the packet was not sent by its client.
    NoSession,
    /// The client's limit is exceeded.
    Limited,
    /// The source is not a host that is served.
    NotAllowed,
    /// The request was sent to a broadcast or multicast address: all hosts would answer at once, to an
    /// address that may be forged.
    Broadcast,
    /// The sender wants no answer.
    Unwanted,
}

impl core::fmt::Display for Silence {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "not answered: {}", self.name())
    }
}

impl core::error::Error for Silence {}

impl Silence {
    /// Converts a refusal by the policy to a reason for not answering.
    pub fn of(why: &PolicyRefusal) -> Silence {
        match why {
            PolicyRefusal::Network | PolicyRefusal::Off => Silence::NotAllowed,
            PolicyRefusal::Limit(_) | PolicyRefusal::WrongKeys(_) => Silence::Limited,
        }
    }

    /// All reasons, in the order of their codes.
    pub const ALL: [Silence; 10] = [
        Silence::Foreign,
        Silence::Short,
        Silence::Loop,
        Silence::Source,
        Silence::Forged,
        Silence::NoSession,
        Silence::Limited,
        Silence::NotAllowed,
        Silence::Broadcast,
        Silence::Unwanted,
    ];

    /// Returns a short description.
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
            "unwanted",
        ][self as usize]
    }
}

//! [`OwampRules`]: limits of a server.

use super::message::ScheduleSlot;
use super::packet;
use super::session::{TestSession, distance};
use crate::access::answerable;
use crate::amp::{AcceptCode, SecurityMode, SecurityModes, Users};
use core::net::{IpAddr, SocketAddr};
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Direction, Span, WallTime};

/// Limits of a server, and its users.
#[derive(Clone, Debug)]
pub struct OwampRules {
    /// Users for the keyed modes. If there are any, open mode is not offered.
    pub users: Users,
    /// Rounds of key derivation: a power of two, at least 1024.
    pub rounds: u32,
    /// Maximum number of sessions per connection.
    pub sessions: usize,
    /// Maximum number of packets per session.
    pub packets: u32,
    /// Maximum number of schedule slots per session.
    pub slots: u32,
    /// Maximum length of a test packet, in bytes.
    pub payload: u32,
    /// Maximum average rate of a session, in packets per second.
    pub rate: u32,
    /// Maximum average payload rate of a session, in bits per second.
    pub bandwidth: u64,
    /// Maximum average time from the start of a session to its last packet.
    pub duration: Span,
    /// Maximum time from a request to the start of its session.
    pub ahead: Span,
    /// Maximum timeout after which a packet counts as lost.
    pub timeout: Span,
    /// Timeout for a client to complete the set-up.
    pub set_up_wait: Span,
    /// Time for which a connection may be idle while no test runs (SERVWAIT).
    pub idle: Span,
    /// Timeout for a client to end a test after the server has ended it.
    pub stop_wait: Span,
}

impl Default for OwampRules {
    fn default() -> OwampRules {
        OwampRules {
            users: Users::default(),
            rounds: 2048,
            sessions: 16,
            packets: 10_000_000,
            slots: 1024,
            payload: jitlat_core::spec::MAX_PAYLOAD as u32,
            rate: 1_000_000,
            bandwidth: 1_000_000_000,
            duration: Span::seconds(24 * 3600),
            ahead: Span::seconds(3600),
            timeout: Span::seconds(3600),
            set_up_wait: Span::seconds(30),
            idle: Span::seconds(900),
            stop_wait: Span::seconds(60),
        }
    }
}

/// Addresses of the two ends of a control connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ControlEnds {
    /// Address of the client.
    pub(super) peer: IpAddr,
    /// Local address at which the connection was accepted.
    pub(super) local: IpAddr,
}

impl OwampRules {
    /// Returns the offered modes.
    pub fn modes(&self) -> SecurityModes {
        if self.users.is_empty() {
            SecurityModes::of(&[SecurityMode::Open])
        } else {
            SecurityModes::of(&[SecurityMode::Authenticated, SecurityMode::Encrypted])
        }
    }

    /// Checks `session`, requested in `mode` over a connection between `hosts`, against all rules, except those on
    /// available resources. Returns the direction of the session.
    pub(super) fn check(
        &self,
        session: &TestSession,
        mode: SecurityMode,
        hosts: ControlEnds,
        now: WallTime,
    ) -> Result<Direction, AcceptCode> {
        let asked = &session.request;
        let direction = session.direction().ok_or(AcceptCode::Unsupported)?;
        let family = if hosts.peer.is_ipv6() { 6 } else { 4 };
        if asked.version != family || session.slots.is_empty() {
            return Err(AcceptCode::Unsupported);
        }
        let (theirs, ours, port) = match direction {
            Direction::Up => (asked.sender, asked.receiver, asked.sender_port),
            Direction::Down => (asked.receiver, asked.sender, asked.receiver_port),
        };
        // A client must not request packets to or from a third host. An unspecified address means the address
        // of the connection.
        let is = |asked: IpAddr, actual: IpAddr| asked.is_unspecified() || asked.to_canonical() == actual;
        if !is(theirs, hosts.peer) || !is(ours, hosts.local) {
            return Err(AcceptCode::Unsupported);
        }
        // A client must not request packets to a service port of its host.
        let to_service = !answerable(SocketAddr::new(hosts.peer, port));
        if direction == Direction::Down && (to_service || asked.dscp().is_none()) {
            return Err(AcceptCode::Unsupported);
        }
        let size = (packet::len(mode) as u32).saturating_add(asked.padding);
        let early = distance(asked.start, NtpTime::from(now));
        let within = asked.packets <= self.packets
            && size <= self.payload
            && asked.timeout.0 <= NtpTime::from_span(self.timeout).0
            && early <= NtpTime::from_span(self.ahead).0 as i64
            && self.paces(session, size);
        if asked.packets == 0 || !within {
            return Err(AcceptCode::Permanent);
        }
        Ok(direction)
    }

    /// True if, with the schedule of `session`, packets of `size` bytes stay within the limits on rate, bandwidth and
    /// duration.
    fn paces(&self, session: &TestSession, size: u32) -> bool {
        let packets = u128::from(session.request.packets);
        let length = session.mean_length();
        // Equivalent to rate ≤ limit: packets ≤ limit × length, without rounding. A single packet has no
        // rate.
        let paced = |amount: u128, limit: u128| packets == 1 || (packets * amount) << 32 <= limit * length;
        paced(1, self.rate.into())
            && paced(u128::from(size) * 8, self.bandwidth.into())
            && length <= NtpTime::from_span(self.duration).0.into()
    }

    /// Returns the length of the slots that follow a request, including the HMAC, in bytes; `None` if there
    /// are too many slots.
    pub(super) fn slots_len(&self, slots: u32) -> Option<usize> {
        (slots <= self.slots).then_some(slots as usize * ScheduleSlot::LEN + crate::amp::message::HMAC_LEN)
    }
}

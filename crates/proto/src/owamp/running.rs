//! [`RunningSessions`]: the sessions of a test on either side, from Start-Sessions until both sides have sent
//! Stop-Sessions (RFC 4656 §3.8). Either side may send Stop-Sessions first, even while the other side is
//! still sending packets.

use super::message::{SentSummary, StopSessions};
use super::session::TestSession;
use crate::amp::crypto::IncomingBytes;
use crate::amp::{AcceptCode, Sid};
use jitlat_core::{Direction, WallTime};

/// Side of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestSide {
    Client,
    Server,
}

impl TestSide {
    /// True if this side sends the packets of `session`.
    pub(super) fn sends(self, session: &TestSession) -> bool {
        let sends = match self {
            TestSide::Client => Direction::Up,
            TestSide::Server => Direction::Down,
        };
        session.direction() == Some(sends)
    }
}

#[derive(Debug)]
struct RunningSession {
    sid: Sid,
    sends: bool,
    complete: bool,
    sent: Option<SentSummary>,
}

/// Peer's summary of a session that this side received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSummary {
    /// Summary of the sender.
    pub summary: SentSummary,
    /// Arrival time of the summary, on the wall clock.
    pub at: WallTime,
}

/// Reason why the peer's Stop-Sessions is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadStop {
    Forged,
    /// A summary of a session in which the peer sends is missing, or the summaries are contradictory.
    Senseless,
}

/// Sessions of a running test.
#[derive(Debug)]
pub(super) struct RunningSessions {
    ends: Vec<RunningSession>,
    /// True if sending must end or has ended.
    stopping: bool,
    stop_sent: bool,
    /// Time at which the peer's Stop-Sessions began to arrive; `None` before that.
    peer_stop: Option<WallTime>,
    /// True once the peer's Stop-Sessions is complete.
    peer_stop_complete: bool,
}

impl RunningSessions {
    pub(super) fn new<'a>(
        side: TestSide,
        sessions: impl Iterator<Item = &'a TestSession>,
    ) -> RunningSessions {
        let end = |s: &TestSession| RunningSession {
            sid: s.sid(),
            sends: side.sends(s),
            complete: false,
            sent: None,
        };
        RunningSessions {
            ends: sessions.map(end).collect(),
            stopping: false,
            stop_sent: false,
            peer_stop: None,
            peer_stop_complete: false,
        }
    }

    /// Records that this side's end of session `sid` is complete. Returns true if this was the last one and the end of
    /// sending was not requested before.
    pub(super) fn complete(&mut self, sid: Sid) -> bool {
        if let Some(end) = self.ends.iter_mut().find(|end| end.sid == sid) {
            end.complete = true;
        }
        self.ends.iter().all(|end| end.complete) && self.stop()
    }

    /// Requests the end of sending. Returns true on the first call.
    pub(super) fn stop(&mut self) -> bool {
        !core::mem::replace(&mut self.stopping, true)
    }

    /// Records that a sender on this side has ended.
    pub(super) fn sent(&mut self, summary: SentSummary) {
        if let Some(end) = self.ends.iter_mut().find(|end| end.sid == summary.sid && end.sends) {
            end.sent = Some(summary);
        }
    }

    /// Returns this side's Stop-Sessions as soon as it can be sent, and only once.
    pub(super) fn poll_stop(&mut self) -> Option<StopSessions> {
        if self.stop_sent || !self.stopping || self.ends.iter().any(|end| end.sends && end.sent.is_none()) {
            return None;
        }
        self.stop_sent = true;
        let sessions = self.ends.iter_mut().filter_map(|end| end.sent.take()).collect();
        Some(StopSessions { accept: AcceptCode::Ok, sessions })
    }

    /// Records that the peer's Stop-Sessions began to arrive. Returns true on the first call.
    pub(super) fn begin_peer_stop(&mut self, now: WallTime) -> bool {
        self.peer_stop.is_none() && self.peer_stop.replace(now).is_none()
    }

    /// Reads the peer's Stop-Sessions once it is complete.
    pub(super) fn read(&mut self, incoming: &mut IncomingBytes) -> Result<Option<Vec<PeerSummary>>, BadStop> {
        let Some(at) = self.peer_stop else { return Ok(None) };
        let theirs = self.ends.iter().filter(|end| !end.sends).count();
        let len = StopSessions::len_of(incoming.readable(), theirs).map_err(|_| BadStop::Senseless)?;
        let Some(message) = len.and_then(|len| incoming.take_signed(len)) else { return Ok(None) };
        let bytes = message.map_err(|_| BadStop::Forged)?;
        let stop = StopSessions::parse(&bytes).map_err(|_| BadStop::Senseless)?;
        let mut received = Vec::new();
        for end in self.ends.iter().filter(|end| !end.sends) {
            let summary = stop.sessions.iter().find(|s| s.sid == end.sid).ok_or(BadStop::Senseless)?;
            received.push(PeerSummary { summary: summary.clone(), at });
        }
        if stop.sessions.len() != theirs {
            return Err(BadStop::Senseless);
        }
        self.peer_stop_complete = true;
        Ok(Some(received))
    }

    /// True if both sides have sent Stop-Sessions.
    pub(super) fn is_over(&self) -> bool {
        self.stop_sent && self.peer_stop_complete
    }

    /// True if this side has sent Stop-Sessions.
    pub(super) fn has_sent_stop(&self) -> bool {
        self.stop_sent
    }

    /// True if the peer's Stop-Sessions is complete.
    pub(super) fn has_peer_stopped(&self) -> bool {
        self.peer_stop_complete
    }
}

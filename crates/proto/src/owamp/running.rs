//! [`Running`]: the sessions of a test, on either side, from Start-Sessions until both sides have said
//! Stop-Sessions (RFC 4656 §3.8). Either may be first, and may be so while the other still sends.

use super::message::{SentSummary, Stop};
use super::session::TestSession;
use crate::amp::crypto::Incoming;
use crate::amp::{Accept, Sid};
use jitlat_core::{Direction, WallTime};

/// Which end of a test this side is: the side of the client sends upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

impl Side {
    /// Whether it sends in `session`.
    pub(super) fn sends(self, session: &TestSession) -> bool {
        let sends = match self {
            Side::Client => Direction::Up,
            Side::Server => Direction::Down,
        };
        session.direction() == Some(sends)
    }
}

#[derive(Debug)]
struct End {
    sid: Sid,
    sends: bool,
    complete: bool,
    sent: Option<SentSummary>,
}

/// What the peer said of a session in which this side was the receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// What its sender tells of it.
    pub said: SentSummary,
    /// When its word came, by the wall clock.
    pub at: WallTime,
}

/// Why the peer's Stop-Sessions is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadStop {
    Forged,
    /// It does not account for the sessions in which the peer sends, or makes no sense.
    Senseless,
}

/// The sessions of a running test.
#[derive(Debug)]
pub(super) struct Running {
    ends: Vec<End>,
    /// Sending is to end, or has ended.
    stopping: bool,
    said: bool,
    /// When the peer's Stop-Sessions began to come, and whether all of it has.
    heard: Option<WallTime>,
    heard_all: bool,
}

impl Running {
    pub(super) fn new<'a>(side: Side, sessions: impl Iterator<Item = &'a TestSession>) -> Running {
        let end = |s: &TestSession| End { sid: s.sid(), sends: side.sends(s), complete: false, sent: None };
        Running {
            ends: sessions.map(end).collect(),
            stopping: false,
            said: false,
            heard: None,
            heard_all: false,
        }
    }

    /// An end of this side has nothing more to do. True once all have, for the first time.
    pub(super) fn complete(&mut self, sid: Sid) -> bool {
        if let Some(end) = self.ends.iter_mut().find(|end| end.sid == sid) {
            end.complete = true;
        }
        self.ends.iter().all(|end| end.complete) && self.stop()
    }

    /// Sending ends now. True if it had not before.
    pub(super) fn stop(&mut self) -> bool {
        !core::mem::replace(&mut self.stopping, true)
    }

    /// A sender of this side has ended.
    pub(super) fn sent(&mut self, summary: SentSummary) {
        if let Some(end) = self.ends.iter_mut().find(|end| end.sid == summary.sid && end.sends) {
            end.sent = Some(summary);
        }
    }

    /// This side's Stop-Sessions, once it can be said; once.
    pub(super) fn poll_stop(&mut self) -> Option<Stop> {
        if self.said || !self.stopping || self.ends.iter().any(|end| end.sends && end.sent.is_none()) {
            return None;
        }
        self.said = true;
        let sessions = self.ends.iter_mut().filter_map(|end| end.sent.take()).collect();
        Some(Stop { accept: Accept::Ok, sessions })
    }

    /// The peer's Stop-Sessions began to come. True for the first time.
    pub(super) fn hear(&mut self, now: WallTime) -> bool {
        self.heard.is_none() && self.heard.replace(now).is_none()
    }

    /// Reads the peer's Stop-Sessions, if it is all there.
    pub(super) fn read(&mut self, incoming: &mut Incoming) -> Result<Option<Vec<Received>>, BadStop> {
        let Some(at) = self.heard else { return Ok(None) };
        let theirs = self.ends.iter().filter(|end| !end.sends).count();
        let len = Stop::len_of(incoming.readable(), theirs).map_err(|_| BadStop::Senseless)?;
        let Some(message) = len.and_then(|len| incoming.take_signed(len)) else { return Ok(None) };
        let bytes = message.map_err(|_| BadStop::Forged)?;
        let stop = Stop::parse(&bytes).map_err(|_| BadStop::Senseless)?;
        let mut received = Vec::new();
        for end in self.ends.iter().filter(|end| !end.sends) {
            let said = stop.sessions.iter().find(|s| s.sid == end.sid).ok_or(BadStop::Senseless)?;
            received.push(Received { said: said.clone(), at });
        }
        if stop.sessions.len() != theirs {
            return Err(BadStop::Senseless);
        }
        self.heard_all = true;
        Ok(Some(received))
    }

    /// Whether both sides have said Stop-Sessions.
    pub(super) fn is_over(&self) -> bool {
        self.said && self.heard_all
    }

    /// Whether this side has said it.
    pub(super) fn has_said(&self) -> bool {
        self.said
    }

    /// Whether the peer has said all of it.
    pub(super) fn has_heard(&self) -> bool {
        self.heard_all
    }
}

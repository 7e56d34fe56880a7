//! What both ends of a test session know, and what its receiver has recorded.

use super::message::{DataRecord, ScheduleSlot, SessionFinish, SkipRange};
use super::schedule::OwampSchedule;
use crate::amp::Sid;
use crate::amp::message::RequestSession;
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Direction, Span};

/// A session as requested or granted: the request with its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestSession {
    /// Once granted, with the actual ports and identifier.
    pub request: RequestSession,
    /// How the packets are spaced.
    pub slots: Vec<ScheduleSlot>,
}

impl TestSession {
    /// Which way its packets go: up = from the client. `None` if it says both or neither.
    pub fn direction(&self) -> Option<Direction> {
        match (self.request.conf_sender != 0, self.request.conf_receiver != 0) {
            (true, false) => Some(Direction::Down),
            (false, true) => Some(Direction::Up),
            _ => None,
        }
    }

    /// The same with the server's end at this port.
    pub fn with_server_port(mut self, port: u16) -> TestSession {
        match self.direction() {
            Some(Direction::Down) => self.request.sender_port = port,
            _ => self.request.receiver_port = port,
        }
        self
    }

    /// Its name.
    pub fn sid(&self) -> Sid {
        self.request.sid
    }

    /// When its packets are sent.
    pub fn schedule(&self) -> OwampSchedule {
        OwampSchedule::new(&self.request.sid, self.request.start, &self.slots, self.request.packets)
    }

    /// From the start to the last packet, on average, in units of 2⁻³² s.
    pub(super) fn mean_length(&self) -> u128 {
        let round: u128 = self.slots.iter().map(|slot| u128::from(slot.mean())).sum();
        round * u128::from(self.request.packets) / (self.slots.len().max(1) as u128)
    }

    /// From the start until its last packet should have arrived or be lost, with a margin.
    pub(super) fn longest(&self) -> Span {
        // Many exponential steps stay near their mean, and none is longer than 32 ln2 = 22.2 of it.
        let step = self.slots.iter().map(|slot| u128::from(slot.mean())).max().unwrap_or(0);
        let units = self.mean_length().saturating_mul(3) / 2 + step * 23;
        let length = NtpTime(u64::try_from(units).unwrap_or(u64::MAX)).to_span();
        length + self.request.timeout.to_span()
    }
}

/// The signed distance from `b` to `a` in units of 2⁻³² s. Correct for times within 68 years of each other.
pub(super) fn distance(a: NtpTime, b: NtpTime) -> i64 {
    a.0.wrapping_sub(b.0) as i64
}

/// A timeout as a distance.
pub(super) fn bounded(timeout: NtpTime) -> i64 {
    i64::try_from(timeout.0).unwrap_or(i64::MAX)
}

/// A session and what its receiver has recorded: the answer to Fetch-Session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionData {
    /// As granted.
    pub session: TestSession,
    /// How it ended.
    pub finished: SessionFinish,
    /// The first number that was neither sent nor skipped; `None` unless it stopped normally.
    pub next_seq: Option<u32>,
    /// Numbers that were never sent. They are also among the records, as lost.
    pub skips: Vec<SkipRange>,
    /// In the order the packets arrived or were given up. Duplicates have their own records.
    pub records: Vec<DataRecord>,
}

impl SessionData {
    /// The records with numbers from `begin` to `end`, both included.
    pub fn between(&self, begin: u32, end: u32) -> impl Iterator<Item = &DataRecord> {
        self.records.iter().filter(move |r| (begin..=end).contains(&r.seq))
    }
}

//! Parameters of a test session, and the records of its receiver.

use super::message::{DataRecord, ScheduleSlot, SessionFinish, SkipRange};
use super::schedule::OwampSchedule;
use crate::amp::Sid;
use crate::amp::message::RequestSession;
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Direction, Span};

/// A requested or accepted session: the request with its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestSession {
    /// Request. Once accepted, it contains the actual ports and the identifier.
    pub request: RequestSession,
    /// Schedule of the packets.
    pub slots: Vec<ScheduleSlot>,
}

impl TestSession {
    /// Returns the direction of the packets; up is from the client. `None` if the request specifies both
    /// directions or neither.
    pub fn direction(&self) -> Option<Direction> {
        match (self.request.conf_sender != 0, self.request.conf_receiver != 0) {
            (true, false) => Some(Direction::Down),
            (false, true) => Some(Direction::Up),
            _ => None,
        }
    }

    /// Returns the session with `port` at the server's end.
    pub fn with_server_port(mut self, port: u16) -> TestSession {
        match self.direction() {
            Some(Direction::Down) => self.request.sender_port = port,
            _ => self.request.receiver_port = port,
        }
        self
    }

    /// Returns the session identifier.
    pub fn sid(&self) -> Sid {
        self.request.sid
    }

    /// Returns the schedule of the packets.
    pub fn schedule(&self) -> OwampSchedule {
        OwampSchedule::new(&self.request.sid, self.request.start, &self.slots, self.request.packets)
    }

    /// Returns the average time from the start to the last packet, in units of 2⁻³² s.
    pub(super) fn mean_length(&self) -> u128 {
        let round: u128 = self.slots.iter().map(|slot| u128::from(slot.mean())).sum();
        round * u128::from(self.request.packets) / (self.slots.len().max(1) as u128)
    }

    /// Returns the time from the start until the last packet has arrived or counts as lost, with a margin.
    pub(super) fn longest(&self) -> Span {
        // The sum of many exponential steps stays near its mean, and no step is longer than 32 ln2 = 22.2
        // times the mean.
        let step = self.slots.iter().map(|slot| u128::from(slot.mean())).max().unwrap_or(0);
        let units = self.mean_length().saturating_mul(3) / 2 + step * 23;
        let length = NtpTime(u64::try_from(units).unwrap_or(u64::MAX)).to_span();
        length + self.request.timeout.to_span()
    }
}

/// Returns `a` − `b` in units of 2⁻³² s. Correct for times within 68 years of each other.
pub(super) fn distance(a: NtpTime, b: NtpTime) -> i64 {
    a.0.wrapping_sub(b.0) as i64
}

/// Converts a timeout to the units of [`distance`].
pub(super) fn bounded(timeout: NtpTime) -> i64 {
    i64::try_from(timeout.0).unwrap_or(i64::MAX)
}

/// A session with the records of its receiver, as sent in answer to Fetch-Session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionData {
    /// Accepted parameters of the session.
    pub session: TestSession,
    /// End of the session.
    pub finished: SessionFinish,
    /// First sequence number that was neither sent nor skipped; `None` unless the session stopped normally.
    pub next_seq: Option<u32>,
    /// Sequence numbers that were never sent. The records also contain them, as lost.
    pub skips: Vec<SkipRange>,
    /// Records in the order in which packets arrived or were given up. Each duplicate has its own record.
    pub records: Vec<DataRecord>,
}

impl SessionData {
    /// Returns the records with sequence numbers from `begin` to `end`, both inclusive.
    pub fn between(&self, begin: u32, end: u32) -> impl Iterator<Item = &DataRecord> {
        self.records.iter().filter(move |r| (begin..=end).contains(&r.seq))
    }

    /// Describes the known part of a session that did not end as scheduled; `None` for sessions that did. The last
    /// packets of a session that was stopped are not part of its records, because more of them might have arrived.
    pub fn early_end(&self) -> Option<String> {
        let planned = self.session.request.packets;
        let known = self.records.iter().map(|record| record.seq.saturating_add(1)).max().unwrap_or(0);
        match self.next_seq {
            Some(next) if next >= planned && known >= planned => None,
            None if known >= planned => Some(format!(
                "the session was not ended by both hosts; all of its {planned} packets are known"
            )),
            _ => Some(format!("the session ended early: {known} of {planned} packets are known")),
        }
    }
}

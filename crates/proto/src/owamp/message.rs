//! Messages of OWAMP-Control in addition to those of [`amp`](crate::amp::message): slots after a request,
//! session summaries in Stop-Sessions, and Fetch-Session with its answer (RFC 4656 §3.5–3.9). All are in
//! plain text and without HMACs.

use crate::amp::message::{HMAC_LEN, command, write_stop};
use crate::amp::{AcceptCode, Sid};
use crate::wire::{Reader, Truncated};
use jitlat_core::ntp::{ErrorEstimate, NtpTime};

/// Entry of a schedule: time between a packet and the previous one, in units of 2⁻³² s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleSlot {
    /// Exponentially distributed with this mean.
    Exponential(u64),
    /// Constant.
    Fixed(u64),
}

impl ScheduleSlot {
    /// Length on the wire, in bytes.
    pub const LEN: usize = 16;

    /// Returns the mean time, in units of 2⁻³² s.
    pub fn mean(self) -> u64 {
        let (ScheduleSlot::Exponential(mean) | ScheduleSlot::Fixed(mean)) = self;
        mean
    }

    /// Parses [`LEN`](Self::LEN) bytes; `Ok(None)` if the type is unknown.
    pub fn parse(bytes: &[u8]) -> Result<Option<ScheduleSlot>, Truncated> {
        let mut r = Reader::new(bytes);
        let kind = r.u8()?;
        r.take(7)?;
        let value = r.u64()?;
        Ok(match kind {
            0 => Some(ScheduleSlot::Exponential(value)),
            1 => Some(ScheduleSlot::Fixed(value)),
            _ => None,
        })
    }

    /// Appends the encoded slot to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        let (kind, value) = match self {
            ScheduleSlot::Exponential(mean) => (0, mean),
            ScheduleSlot::Fixed(interval) => (1, interval),
        };
        out.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
        out.extend(value.to_be_bytes());
    }
}

/// Range of sequence numbers that were not sent because they were overdue; includes both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkipRange {
    /// First sequence number.
    pub first: u32,
    /// Last sequence number.
    pub last: u32,
}

impl SkipRange {
    /// Length on the wire, in bytes.
    pub const LEN: usize = 8;

    /// Parses [`LEN`](Self::LEN) bytes.
    pub fn parse(bytes: &[u8]) -> Result<SkipRange, Truncated> {
        let mut r = Reader::new(bytes);
        Ok(SkipRange { first: r.u32()?, last: r.u32()? })
    }

    /// Appends the encoded range to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend(self.first.to_be_bytes());
        out.extend(self.last.to_be_bytes());
    }

    /// True if `ranges` are ascending, not adjacent, and end below `end`.
    pub fn are_in_order(ranges: &[SkipRange], end: u32) -> bool {
        let apart = ranges.is_sorted_by(|a, b| a.last < b.first);
        apart && ranges.iter().all(|r| r.first <= r.last) && ranges.last().is_none_or(|r| r.last < end)
    }
}

/// Returns `len` rounded up to whole blocks.
pub(super) const fn padded(len: usize) -> usize {
    len.next_multiple_of(16)
}

/// Pads `out` with zeros, so that its length after `start` is a whole number of blocks.
pub(super) fn pad(out: &mut Vec<u8>, start: usize) {
    out.resize(start + padded(out.len() - start), 0);
}

/// Sender's summary of a session at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentSummary {
    /// Identifier of the session.
    pub sid: Sid,
    /// First sequence number that was neither sent nor skipped.
    pub next_seq: u32,
    /// Skipped sequence numbers, in ascending order.
    pub skips: Vec<SkipRange>,
}

impl SentSummary {
    /// Length of the fields before the skip ranges, in bytes.
    const FIXED: usize = 24;

    /// Returns the length of a summary with this number of skip ranges, in bytes.
    const fn len(skips: usize) -> usize {
        padded(Self::FIXED + skips * SkipRange::LEN)
    }
}

/// Stop-Sessions (RFC 4656 §3.8), which either side sends with the summaries of the sessions in which it sent
/// packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopSessions {
    /// [`AcceptCode::Ok`] if the test ended normally.
    pub accept: AcceptCode,
    /// Summaries of the sessions in which the sender of this message sent packets.
    pub sessions: Vec<SentSummary>,
}

/// Error: the message is too long to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageTooLong;

impl StopSessions {
    /// Length of the fields before the first session, in bytes.
    const FIXED: usize = 16;
    /// Maximum number of skip ranges per session; a sender that is never late has none.
    pub const MOST_SKIPS: usize = 16_384;

    /// Returns the length of the whole message that begins with `start`, HMAC included, in bytes; `None` if
    /// `start` is too short to determine it.
    pub fn len_of(start: &[u8], most_sessions: usize) -> Result<Option<usize>, MessageTooLong> {
        let number =
            |at: usize| start.get(at..at + 4)?.first_chunk().map(|b| u32::from_be_bytes(*b) as usize);
        let Some(sessions) = number(4) else { return Ok(None) };
        if sessions > most_sessions {
            return Err(MessageTooLong);
        }
        let mut len = Self::FIXED;
        for _ in 0..sessions {
            let Some(skips) = number(len + 20) else { return Ok(None) };
            if skips > Self::MOST_SKIPS {
                return Err(MessageTooLong);
            }
            len += SentSummary::len(skips);
        }
        Ok(Some(len + HMAC_LEN))
    }

    /// Parses a whole message.
    pub fn parse(bytes: &[u8]) -> Result<StopSessions, Truncated> {
        let mut r = Reader::new(bytes);
        r.u8()?;
        let accept = r.u8()?.into();
        r.take(2)?;
        let count = r.u32()?;
        r.take(8)?;
        let mut sessions = Vec::new();
        for _ in 0..count {
            let (sid, next_seq, count) = (Sid(r.array()?), r.u32()?, r.u32()?);
            let ranges = r.take((count as usize).checked_mul(SkipRange::LEN).ok_or(Truncated)?)?;
            let skips = ranges.chunks(SkipRange::LEN).map(SkipRange::parse).collect::<Result<Vec<_>, _>>()?;
            r.take(SentSummary::len(skips.len()) - SentSummary::FIXED - ranges.len())?;
            sessions.push(SentSummary { sid, next_seq, skips });
        }
        Ok(StopSessions { accept, sessions })
    }

    /// Appends the encoded message to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_stop(self.accept, self.sessions.len() as u32, out);
        for session in &self.sessions {
            let start = out.len();
            out.extend(session.sid.0);
            out.extend(session.next_seq.to_be_bytes());
            out.extend((session.skips.len() as u32).to_be_bytes());
            session.skips.iter().for_each(|s| s.write(out));
            pad(out, start);
        }
    }
}

/// Fetch-Session (RFC 4656 §3.9): requests the records of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchSession {
    /// Identifier of the session.
    pub sid: Sid,
    /// First sequence number to send.
    pub begin: u32,
    /// Last sequence number to send.
    pub end: u32,
}

impl FetchSession {
    /// Length on the wire in bytes, HMAC included.
    pub const LEN: usize = 48;

    /// Returns a request for all records of `sid`, once the session has finished.
    pub fn whole(sid: Sid) -> FetchSession {
        FetchSession { sid, begin: 0, end: u32::MAX }
    }

    /// True if the whole session is requested, which is refused while the session is running.
    pub fn is_whole(&self) -> bool {
        self.begin == 0 && self.end == u32::MAX
    }

    /// Parses a message that begins with `FETCH_SESSION`.
    pub fn parse(bytes: &[u8]) -> Result<FetchSession, Truncated> {
        let mut r = Reader::new(bytes);
        r.take(8)?;
        let (begin, end) = (r.u32()?, r.u32()?);
        Ok(FetchSession { sid: Sid(r.array()?), begin, end })
    }

    /// Appends the encoded message to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([command::FETCH_SESSION, 0, 0, 0, 0, 0, 0, 0]);
        out.extend(self.begin.to_be_bytes());
        out.extend(self.end.to_be_bytes());
        out.extend(self.sid.0);
    }
}

/// End of a session, as seen by its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SessionFinish {
    /// The session failed, and its data is not usable.
    No = 0,
    /// Both sides stopped the session.
    #[default]
    Normally = 1,
    /// The session is still running, or ended without Stop-Sessions.
    Incomplete = 2,
}

impl From<u8> for SessionFinish {
    fn from(code: u8) -> SessionFinish {
        match code {
            0 => SessionFinish::No,
            1 => SessionFinish::Normally,
            _ => SessionFinish::Incomplete,
        }
    }
}

/// Fetch-Ack: describes the data that follows, if the fetch is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchAck {
    /// [`AcceptCode::Ok`] if data follows.
    pub accept: AcceptCode,
    /// End of the session.
    pub finished: SessionFinish,
    /// [`SentSummary::next_seq`]; zero unless the session stopped normally.
    pub next_seq: u32,
    /// Number of skip ranges that follow.
    pub skips: u32,
    /// Number of records that follow.
    pub records: u32,
}

impl FetchAck {
    /// Length on the wire in bytes, HMAC included.
    pub const LEN: usize = 32;

    /// Creates a Fetch-Ack that refuses the fetch.
    pub fn refusal(accept: AcceptCode) -> FetchAck {
        FetchAck { accept, finished: SessionFinish::No, next_seq: 0, skips: 0, records: 0 }
    }

    /// Parses a whole message.
    pub fn parse(bytes: &[u8]) -> Result<FetchAck, Truncated> {
        let mut r = Reader::new(bytes);
        let (accept, finished) = (r.u8()?.into(), r.u8()?.into());
        r.take(2)?;
        Ok(FetchAck { accept, finished, next_seq: r.u32()?, skips: r.u32()?, records: r.u32()? })
    }

    /// Appends the encoded message to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([self.accept as u8, self.finished as u8, 0, 0]);
        for number in [self.next_seq, self.skips, self.records] {
            out.extend(number.to_be_bytes());
        }
    }
}

/// Record of one packet at its receiver (RFC 4656 §3.9), received or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRecord {
    /// Sequence number.
    pub seq: u32,
    /// Error estimate of the sender's clock.
    pub send_error: ErrorEstimate,
    /// Error estimate of the receiver's clock.
    pub receive_error: ErrorEstimate,
    /// Send time: from the packet, or from the schedule if the packet was lost.
    pub sent: NtpTime,
    /// Arrival time; `None` if the packet was lost.
    pub received: Option<NtpTime>,
    /// TTL or hop limit on arrival; 255 if unknown.
    pub ttl: u8,
}

impl DataRecord {
    /// Length on the wire, in bytes.
    pub const LEN: usize = 25;

    /// Returns the record of a packet that should have been sent at `scheduled` but never arrived.
    /// `receive_error` is the error estimate of the receiver's clock when the packet was given up.
    pub fn lost(seq: u32, scheduled: NtpTime, receive_error: ErrorEstimate) -> DataRecord {
        // The RFC requires multiplier 1 and scale 64, but 64 does not fit into the field. Peers write 1.
        let send_error = ErrorEstimate::UNKNOWN;
        DataRecord { seq, send_error, receive_error, sent: scheduled, received: None, ttl: 255 }
    }

    /// Parses [`LEN`](Self::LEN) bytes.
    pub fn parse(bytes: &[u8]) -> Result<DataRecord, Truncated> {
        let mut r = Reader::new(bytes);
        Ok(DataRecord {
            seq: r.u32()?,
            send_error: ErrorEstimate(r.u16()?),
            receive_error: ErrorEstimate(r.u16()?),
            sent: NtpTime(r.u64()?),
            received: Some(NtpTime(r.u64()?)).filter(|t| t.0 != 0),
            ttl: r.u8()?,
        })
    }

    /// Appends the encoded record to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.seq.to_be_bytes());
        out.extend(self.send_error.0.to_be_bytes());
        out.extend(self.receive_error.0.to_be_bytes());
        out.extend(self.sent.0.to_be_bytes());
        out.extend(self.received.map_or(0, |t| t.0).to_be_bytes());
        out.push(self.ttl);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_ranges_ascend_and_lie_apart() {
        let in_order = |ranges: &[(u32, u32)]| {
            let ranges: Vec<SkipRange> =
                ranges.iter().map(|(first, last)| SkipRange { first: *first, last: *last }).collect();
            SkipRange::are_in_order(&ranges, 10)
        };
        assert!(
            in_order(&[])
                && in_order(&[(0, 0)])
                && in_order(&[(0, 9)])
                && in_order(&[(1, 2), (3, 3), (5, 9)])
        );
        for wrong in [&[(0, 10)][..], &[(3, 2)], &[(1, 2), (2, 3)], &[(3, 4), (1, 2)], &[(1, 2), (5, 4)]] {
            assert!(!in_order(wrong), "{wrong:?}");
        }
    }
}

//! What OWAMP-Control adds to the messages of [`amp`](crate::amp::message): slots after a request, the summary of each
//! session in Stop-Sessions, Fetch-Session and its answer (RFC 4656 §3.5–3.9). In plain text and without their HMACs.

use crate::amp::message::{HMAC_LEN, command, write_stop};
use crate::amp::{AcceptCode, Sid};
use crate::wire::{Reader, Truncated};
use jitlat_core::ntp::{ErrorEstimate, NtpTime};

/// One entry of a schedule: how long after the packet before the next one leaves, in units of 2⁻³² s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleSlot {
    /// Exponentially distributed, with this mean.
    Exponential(u64),
    /// Always as long.
    Fixed(u64),
}

impl ScheduleSlot {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// The mean of its steps, in units of 2⁻³² s.
    pub fn mean(self) -> u64 {
        let (ScheduleSlot::Exponential(mean) | ScheduleSlot::Fixed(mean)) = self;
        mean
    }

    /// From [`LEN`](Self::LEN) bytes; `Ok(None)` if its type is none.
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

    /// Appends it to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        let (kind, value) = match self {
            ScheduleSlot::Exponential(mean) => (0, mean),
            ScheduleSlot::Fixed(interval) => (1, interval),
        };
        out.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
        out.extend(value.to_be_bytes());
    }
}

/// Numbers that were never sent because their time had passed: both ends inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkipRange {
    /// The first of them.
    pub first: u32,
    /// The last of them.
    pub last: u32,
}

impl SkipRange {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// From [`LEN`](Self::LEN) bytes.
    pub fn parse(bytes: &[u8]) -> Result<SkipRange, Truncated> {
        let mut r = Reader::new(bytes);
        Ok(SkipRange { first: r.u32()?, last: r.u32()? })
    }

    /// Appends it to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend(self.first.to_be_bytes());
        out.extend(self.last.to_be_bytes());
    }

    /// Whether `ranges` are ascending, apart, and below `end`.
    pub fn are_in_order(ranges: &[SkipRange], end: u32) -> bool {
        let apart = ranges.is_sorted_by(|a, b| a.last < b.first);
        apart && ranges.iter().all(|r| r.first <= r.last) && ranges.last().is_none_or(|r| r.last < end)
    }
}

/// `len` with the zeros that fill up the last block.
pub(super) const fn padded(len: usize) -> usize {
    len.next_multiple_of(16)
}

/// Fills up the last block of `out`, which began at a block's start.
pub(super) fn pad(out: &mut Vec<u8>, start: usize) {
    out.resize(start + padded(out.len() - start), 0);
}

/// The sender's summary of a session when it stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentSummary {
    /// Its name.
    pub sid: Sid,
    /// The first number that was neither sent nor skipped.
    pub next_seq: u32,
    /// What was skipped, ascending.
    pub skips: Vec<SkipRange>,
}

impl SentSummary {
    /// Bytes before the skip ranges.
    const FIXED: usize = 24;

    /// Bytes of one with this many skip ranges.
    const fn len(skips: usize) -> usize {
        padded(Self::FIXED + skips * SkipRange::LEN)
    }
}

/// Stop-Sessions (RFC 4656 §3.8). Either side sends it, with summaries of the sessions in which it was the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopSessions {
    /// Whether the test ended normally.
    pub accept: AcceptCode,
    /// The sessions of which the writer was the sender.
    pub sessions: Vec<SentSummary>,
}

/// A message is too long to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageTooLong;

impl StopSessions {
    /// Bytes before the first session.
    const FIXED: usize = 16;
    /// Most skip ranges of one session that are read. A sender that is never late has none.
    pub const MOST_SKIPS: usize = 16_384;

    /// Bytes of the whole message that begins with `start`, HMAC included; `None` if `start` is too short to know.
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

    /// From a whole message.
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

    /// Appends it to `out`.
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
    /// Its name.
    pub sid: Sid,
    /// The first number wanted.
    pub begin: u32,
    /// The last number wanted.
    pub end: u32,
}

impl FetchSession {
    /// Bytes on the wire, HMAC included.
    pub const LEN: usize = 48;

    /// Everything recorded of `sid`, once it is finished.
    pub fn whole(sid: Sid) -> FetchSession {
        FetchSession { sid, begin: 0, end: u32::MAX }
    }

    /// Whether it requests the whole session; refused while the session runs.
    pub fn is_whole(&self) -> bool {
        self.begin == 0 && self.end == u32::MAX
    }

    /// From a message that begins with `FETCH_SESSION`.
    pub fn parse(bytes: &[u8]) -> Result<FetchSession, Truncated> {
        let mut r = Reader::new(bytes);
        r.take(8)?;
        let (begin, end) = (r.u32()?, r.u32()?);
        Ok(FetchSession { sid: Sid(r.array()?), begin, end })
    }

    /// Appends it to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([command::FETCH_SESSION, 0, 0, 0, 0, 0, 0, 0]);
        out.extend(self.begin.to_be_bytes());
        out.extend(self.end.to_be_bytes());
        out.extend(self.sid.0);
    }
}

/// How a session ended, as its receiver knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SessionFinish {
    /// Its data is of no use.
    No = 0,
    /// Both sides stopped it.
    #[default]
    Normally = 1,
    /// It still runs, or ended without Stop-Sessions.
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

/// Fetch-Ack: what follows it, if it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchAck {
    /// Whether anything follows.
    pub accept: AcceptCode,
    /// How the session ended.
    pub finished: SessionFinish,
    /// Of [`SentSummary`]; zero unless it stopped normally.
    pub next_seq: u32,
    /// Skip ranges that follow.
    pub skips: u32,
    /// Records that follow.
    pub records: u32,
}

impl FetchAck {
    /// Bytes on the wire, HMAC included.
    pub const LEN: usize = 32;

    /// One that refuses.
    pub fn refusal(accept: AcceptCode) -> FetchAck {
        FetchAck { accept, finished: SessionFinish::No, next_seq: 0, skips: 0, records: 0 }
    }

    /// From a whole message.
    pub fn parse(bytes: &[u8]) -> Result<FetchAck, Truncated> {
        let mut r = Reader::new(bytes);
        let (accept, finished) = (r.u8()?.into(), r.u8()?.into());
        r.take(2)?;
        Ok(FetchAck { accept, finished, next_seq: r.u32()?, skips: r.u32()?, records: r.u32()? })
    }

    /// Appends it to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([self.accept as u8, self.finished as u8, 0, 0]);
        for number in [self.next_seq, self.skips, self.records] {
            out.extend(number.to_be_bytes());
        }
    }
}

/// One packet as its receiver recorded it (RFC 4656 §3.9): as it came, or as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRecord {
    /// Its number.
    pub seq: u32,
    /// Of the sender's clock.
    pub send_error: ErrorEstimate,
    /// Of the receiver's clock.
    pub receive_error: ErrorEstimate,
    /// When it was sent, by the packet; if lost, when it should have been, by the schedule.
    pub sent: NtpTime,
    /// When it arrived; `None` = lost.
    pub received: Option<NtpTime>,
    /// Time to live or hop limit on arrival; 255 also where it is not known.
    pub ttl: u8,
}

impl DataRecord {
    /// Bytes on the wire.
    pub const LEN: usize = 25;

    /// For a packet that should have been sent at `scheduled` and never arrived. `receive_error` is that of the
    /// receiver's clock when it gave the packet up.
    pub fn lost(seq: u32, scheduled: NtpTime, receive_error: ErrorEstimate) -> DataRecord {
        // By the RFC the multiplier is 1 and the scale 64, which its field does not hold: 1 is what peers write.
        let send_error = ErrorEstimate::UNKNOWN;
        DataRecord { seq, send_error, receive_error, sent: scheduled, received: None, ttl: 255 }
    }

    /// From [`LEN`](Self::LEN) bytes.
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

    /// Appends it to `out`.
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

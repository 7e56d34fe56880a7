//! The data file of owping, owampd and owfetch (`.owp`, version 3): a session with the records of its receiver.
//!
//! A file consists of a header of 40 bytes with counts and offsets, the request as in an answer to a fetch (with empty
//! HMACs), skip ranges, and records, without padding. Integers are big-endian.

use super::message::{DataRecord, ScheduleSlot, SessionFinish, SkipRange};
use super::session::{SessionData, TestSession};
use crate::amp::crypto::BLOCK;
use crate::amp::message::RequestSession;
use crate::wire::{Reader, Truncated};

/// First bytes of a data file.
pub const MAGIC: [u8; 4] = *b"OwA\0";
/// Version that is written, and the only one that is read.
const VERSION: u32 = 3;
/// Length of the fields before the request.
const HEADER: usize = 40;
/// Maximum number of packets of a session that is read. To find the time of its last packet, those of all others are
/// computed.
const MAX_PACKETS: u32 = 1 << 26;

/// Reason why a data file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file does not begin with [`MAGIC`].
    #[error("this is not an OWAMP data file (.owp)")]
    Other,
    /// The file has another version.
    #[error("version {0} of OWAMP data files is not supported: only version 3 is read")]
    Version(u32),
    /// The file ends before its last record, or its offsets are beyond its end.
    #[error("the OWAMP data file is truncated")]
    Truncated,
    /// A field has an impossible value.
    #[error("the OWAMP data file contains impossible values")]
    Impossible,
}

impl From<Truncated> for FileError {
    fn from(_: Truncated) -> FileError {
        FileError::Truncated
    }
}

impl SessionData {
    /// Returns the contents of a data file with this session.
    pub fn to_file(&self) -> Vec<u8> {
        let skips = HEADER + RequestSession::LEN + self.session.slots.len() * ScheduleSlot::LEN + BLOCK;
        let records = skips + self.skips.len() * SkipRange::LEN;
        let mut out = Vec::with_capacity(records + self.records.len() * DataRecord::LEN);
        out.extend(MAGIC);
        for number in [
            VERSION,
            self.finished as u32,
            self.next_seq.unwrap_or(0),
            self.skips.len() as u32,
            self.records.len() as u32,
        ] {
            out.extend(number.to_be_bytes());
        }
        out.extend((skips as u64).to_be_bytes());
        out.extend((records as u64).to_be_bytes());
        let request = RequestSession { slots: self.session.slots.len() as u32, ..self.session.request };
        request.write(&mut out);
        out.extend([0; BLOCK]);
        self.session.slots.iter().for_each(|slot| slot.write(&mut out));
        out.extend([0; BLOCK]);
        self.skips.iter().for_each(|range| range.write(&mut out));
        self.records.iter().for_each(|record| record.write(&mut out));
        out
    }

    /// Reads the contents of a data file. In the file of a session that is still running, the number of records is zero,
    /// and all records to the end of the file are read.
    ///
    /// # Errors
    /// [`FileError`] if the file is of another kind or version, or is damaged.
    pub fn from_file(bytes: &[u8]) -> Result<SessionData, FileError> {
        let mut r = Reader::new(bytes);
        if r.array()? != MAGIC {
            return Err(FileError::Other);
        }
        let version = r.u32()?;
        if version != VERSION {
            return Err(FileError::Version(version));
        }
        let finished = SessionFinish::from(u8::try_from(r.u32()?).unwrap_or(u8::MAX));
        let (next_seq, skips, mut records) = (r.u32()?, r.u32()?, r.u32()? as usize);
        let (skips_at, records_at) = (offset(r.u64()?)?, offset(r.u64()?)?);
        let request = RequestSession::parse(r.take(RequestSession::LEN)?)?;
        if request.packets > MAX_PACKETS {
            return Err(FileError::Impossible);
        }
        let mut slots = Vec::new();
        for _ in 0..request.slots {
            let slot = ScheduleSlot::parse(r.take(ScheduleSlot::LEN)?)?;
            slots.push(slot.ok_or(FileError::Impossible)?);
        }
        if slots.is_empty() {
            return Err(FileError::Impossible);
        }
        let skips = part(bytes, skips_at, skips as usize, SkipRange::LEN)?.chunks(SkipRange::LEN);
        let skips = skips.map(SkipRange::parse).collect::<Result<Vec<_>, _>>()?;
        if !SkipRange::are_in_order(&skips, request.packets) {
            return Err(FileError::Impossible);
        }
        if records == 0 && finished != SessionFinish::Normally {
            records = bytes.len().saturating_sub(records_at) / DataRecord::LEN;
        }
        let records = part(bytes, records_at, records, DataRecord::LEN)?.chunks(DataRecord::LEN);
        let records = records.map(DataRecord::parse).collect::<Result<Vec<_>, _>>()?;
        if records.iter().any(|record| record.seq >= request.packets) {
            return Err(FileError::Impossible);
        }
        Ok(SessionData {
            session: TestSession { request, slots },
            finished,
            next_seq: (finished == SessionFinish::Normally).then_some(next_seq),
            skips,
            records,
        })
    }
}

fn offset(at: u64) -> Result<usize, FileError> {
    usize::try_from(at).map_err(|_| FileError::Truncated)
}

/// Returns the `count` entries of `len` bytes each that begin at `from`.
fn part(bytes: &[u8], from: usize, count: usize, len: usize) -> Result<&[u8], FileError> {
    let end = count.checked_mul(len).and_then(|length| from.checked_add(length));
    let range = end.map(|end| from..end).ok_or(FileError::Truncated)?;
    // An empty part may have any offset.
    if count == 0 { Ok(&[]) } else { bytes.get(range).ok_or(FileError::Truncated) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amp::Sid;
    use jitlat_core::ntp::{ErrorEstimate, NtpTime};

    /// A session of ten packets, 100 ms apart, of which 2 is skipped, 4 is lost and 5 arrives twice.
    pub(crate) fn session() -> SessionData {
        let request = RequestSession {
            command: 1,
            version: 4,
            conf_sender: 0,
            conf_receiver: 1,
            slots: 1,
            packets: 10,
            sender_port: 9000,
            receiver_port: 9001,
            sender: [192, 0, 2, 1].into(),
            receiver: [192, 0, 2, 2].into(),
            sid: Sid([7; 16]),
            padding: 0,
            start: NtpTime(0xeeac_be46_0000_0000),
            timeout: NtpTime(2 << 32),
            type_p: 46 << 24,
        };
        let step = 0x1999_9999;
        let record = |seq: u32| DataRecord {
            seq,
            send_error: ErrorEstimate::UNKNOWN,
            receive_error: ErrorEstimate::UNKNOWN,
            sent: NtpTime(request.start.0 + step * (u64::from(seq) + 1)),
            received: Some(NtpTime(request.start.0 + step * (u64::from(seq) + 1) + 0x100_0000)),
            ttl: 250,
        };
        let lost = |seq| DataRecord { received: None, ttl: 255, ..record(seq) };
        SessionData {
            session: TestSession { request, slots: vec![ScheduleSlot::Fixed(step)] },
            finished: SessionFinish::Normally,
            next_seq: Some(10),
            skips: vec![SkipRange { first: 2, last: 2 }],
            records: vec![
                record(0),
                record(1),
                record(3),
                record(5),
                record(5),
                record(6),
                record(7),
                record(8),
                record(9),
                lost(2),
                lost(4),
            ],
        }
    }

    #[test]
    fn a_session_that_ended_early_is_described() {
        let whole = session();
        assert_eq!(whole.early_end(), None);
        let mut stopped = whole.clone();
        stopped.records.retain(|record| record.seq < 4);
        let early = Some("the session ended early: 4 of 10 packets are known".to_owned());
        assert_eq!(stopped.early_end(), early, "all were sent, but the last ones are not counted");
        stopped.next_seq = Some(6);
        assert_eq!(stopped.early_end(), early);
        (stopped.finished, stopped.next_seq) = (SessionFinish::Incomplete, None);
        assert_eq!(stopped.early_end(), early);
        let unended = SessionData { next_seq: None, ..whole };
        assert!(unended.early_end().unwrap().contains("not ended by both hosts; all of its 10 packets"));
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let data = session();
        let bytes = data.to_file();
        assert_eq!(bytes.len(), 40 + 112 + 16 + 16 + 8 + 11 * 25);
        assert_eq!(&bytes[..8], b"OwA\0\0\0\0\x03");
        assert_eq!(SessionData::from_file(&bytes).as_ref(), Ok(&data));
        // A running session states no number of records.
        let mut running = bytes.clone();
        running[8..12].copy_from_slice(&2_u32.to_be_bytes());
        running[20..24].copy_from_slice(&[0; 4]);
        let read = SessionData::from_file(&running).unwrap();
        assert_eq!((read.records.len(), read.next_seq, read.finished), (11, None, SessionFinish::Incomplete));
    }

    #[test]
    fn damaged_files_are_refused() {
        let bytes = session().to_file();
        for len in 0..bytes.len() {
            assert!(SessionData::from_file(&bytes[..len]).is_err(), "{len} bytes");
        }
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            SessionData::from_file(&bytes).unwrap_err()
        };
        assert_eq!((with(0, 0), with(7, 2)), (FileError::Other, FileError::Version(2)));
        assert_eq!(with(32, 0xff), FileError::Truncated, "the offset of the records");
        assert_eq!(with(40 + 112, 9), FileError::Impossible, "the type of a slot");
        assert_eq!(with(20, 0xff), FileError::Truncated, "the number of records");
        assert_eq!(with(48, 0xff), FileError::Impossible, "the number of packets");
    }
}

//! Data after a Fetch-Ack that accepts the fetch (RFC 4656 §3.9), in pieces: the request, its slots, skip
//! ranges, records.

use super::message::{
    DataRecord, FetchAck, FetchSession, ScheduleSlot, SessionFinish, SkipRange, pad, padded,
};
use super::session::{SessionData, TestSession};
use crate::amp::crypto::{BLOCK, IncomingBytes, OutgoingBytes};
use crate::amp::message::RequestSession;
use crate::amp::{AcceptCode, Sid};
use std::sync::Arc;

/// Number of records in one piece of about 16 kB; they fill whole encryption blocks.
const RECORDS_PER_PIECE: usize = 640;
/// Smallest number of records that fill whole encryption blocks: a record has 25 bytes, a block 16.
const MIN_RECORDS_PER_BLOCK: usize = 16;
const _: () = assert!(
    (MIN_RECORDS_PER_BLOCK * DataRecord::LEN).is_multiple_of(BLOCK)
        && RECORDS_PER_PIECE.is_multiple_of(MIN_RECORDS_PER_BLOCK)
);

/// Encodes the answer to a fetch.
#[derive(Debug)]
pub struct DataWriter {
    data: Arc<SessionData>,
    fetch: FetchSession,
    part: FetchStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FetchStage {
    Ack,
    Request,
    Skips,
    /// Records, starting with this index.
    Records(usize),
    Done,
}

impl DataWriter {
    /// Creates the answer to `fetch`, or returns a refusal. A whole session is only sent once it has stopped
    /// normally.
    pub fn new(fetch: FetchSession, data: Arc<SessionData>) -> Result<DataWriter, AcceptCode> {
        let refused = data.finished == SessionFinish::No
            || fetch.is_whole() && data.finished != SessionFinish::Normally;
        if refused {
            return Err(AcceptCode::Failure);
        }
        Ok(DataWriter { data, fetch, part: FetchStage::Ack })
    }

    /// Appends the next piece to `out`. Returns false at the end.
    pub fn poll(&mut self, outgoing: &mut OutgoingBytes, out: &mut Vec<u8>) -> bool {
        let mut message = Vec::new();
        self.part = match self.part {
            FetchStage::Ack => {
                let ack = FetchAck {
                    accept: AcceptCode::Ok,
                    finished: self.data.finished,
                    next_seq: self.data.next_seq.unwrap_or(0),
                    skips: self.data.skips.len() as u32,
                    records: self.data.between(self.fetch.begin, self.fetch.end).count() as u32,
                };
                ack.write(&mut message);
                outgoing.put_signed(&message, out);
                FetchStage::Request
            }
            FetchStage::Request => {
                self.data.session.request.write(&mut message);
                outgoing.put_signed(&message, out);
                message.clear();
                self.data.session.slots.iter().for_each(|slot| slot.write(&mut message));
                outgoing.put_signed(&message, out);
                FetchStage::Skips
            }
            FetchStage::Skips => {
                self.data.skips.iter().for_each(|range| range.write(&mut message));
                pad(&mut message, 0);
                outgoing.put_signed(&message, out);
                FetchStage::Records(0)
            }
            FetchStage::Records(mut at) => {
                let mut written = 0;
                while let Some(record) = self.data.records.get(at).filter(|_| written < RECORDS_PER_PIECE) {
                    at += 1;
                    if (self.fetch.begin..=self.fetch.end).contains(&record.seq) {
                        record.write(&mut message);
                        written += 1;
                    }
                }
                pad(&mut message, 0);
                outgoing.put(&message, out);
                if written < RECORDS_PER_PIECE {
                    outgoing.put_signed(&[], out);
                    FetchStage::Done
                } else {
                    FetchStage::Records(at)
                }
            }
            FetchStage::Done => return false,
        };
        true
    }
}

/// Reason why fetched data cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The server refused.
    #[error("{0}")]
    Refused(AcceptCode),
    /// An HMAC is wrong.
    #[error("the data is not signed with the keys of this connection")]
    Forged,
    /// The answer is for another session.
    #[error("the server answered with another session")]
    Other,
    /// There are more records, slots or skip ranges than the session can have.
    #[error("the server announces more records than the session can have")]
    TooMany,
}

/// Decodes the answer to a fetch.
#[derive(Debug)]
pub struct DataReader {
    sid: Sid,
    most_records: usize,
    ack: Option<FetchAck>,
    request: Option<RequestSession>,
    slots: Option<Vec<ScheduleSlot>>,
    skips: Option<Vec<SkipRange>>,
    records: Vec<DataRecord>,
}

/// Maximum number of slots to read.
const MAX_SLOTS: u32 = 65_536;

impl DataReader {
    /// Creates a decoder of the answer for session `sid`, with at most `most_records` records.
    pub fn new(sid: Sid, most_records: usize) -> DataReader {
        DataReader {
            sid,
            most_records,
            ack: None,
            request: None,
            slots: None,
            skips: None,
            records: Vec::new(),
        }
    }

    /// Returns the identifier of the session.
    pub fn sid(&self) -> Sid {
        self.sid
    }

    /// Reads all available bytes. Returns `Ok(None)` until the answer is complete.
    pub fn poll(&mut self, incoming: &mut IncomingBytes) -> Result<Option<SessionData>, Unusable> {
        while !self.is_whole() {
            if !self.advance(incoming)? {
                return Ok(None);
            }
        }
        if signed(incoming, BLOCK)?.is_none() {
            return Ok(None);
        }
        let (Some(ack), Some(request), Some(slots), Some(skips)) =
            (self.ack, self.request, self.slots.take(), self.skips.take())
        else {
            return Ok(None);
        };
        let stopped = ack.finished == SessionFinish::Normally;
        Ok(Some(SessionData {
            session: TestSession { request, slots },
            finished: ack.finished,
            next_seq: stopped.then_some(ack.next_seq),
            skips,
            records: core::mem::take(&mut self.records),
        }))
    }

    /// True if everything except the last HMAC was read.
    fn is_whole(&self) -> bool {
        self.skips.is_some() && self.ack.is_some_and(|ack| self.records.len() >= ack.records as usize)
    }

    /// Reads one part once it is complete.
    fn advance(&mut self, incoming: &mut IncomingBytes) -> Result<bool, Unusable> {
        let Some(ack) = self.ack else {
            let Some(bytes) = signed(incoming, FetchAck::LEN)? else { return Ok(false) };
            let ack = FetchAck::parse(&bytes).map_err(|_| Unusable::Other)?;
            if ack.accept != AcceptCode::Ok {
                return Err(Unusable::Refused(ack.accept));
            }
            if ack.records as usize > self.most_records || ack.skips as usize > self.most_records {
                return Err(Unusable::TooMany);
            }
            self.ack = Some(ack);
            return Ok(true);
        };
        let Some(request) = self.request else {
            let Some(bytes) = signed(incoming, RequestSession::LEN)? else { return Ok(false) };
            let request = RequestSession::parse(&bytes).map_err(|_| Unusable::Other)?;
            if request.sid != self.sid {
                return Err(Unusable::Other);
            }
            if request.slots > MAX_SLOTS {
                return Err(Unusable::TooMany);
            }
            self.request = Some(request);
            return Ok(true);
        };
        if self.slots.is_none() {
            let len = request.slots as usize * ScheduleSlot::LEN;
            let Some(bytes) = signed(incoming, len + BLOCK)? else { return Ok(false) };
            let slots = bytes.chunks(ScheduleSlot::LEN).map(|slot| ScheduleSlot::parse(slot).ok().flatten());
            self.slots = Some(slots.collect::<Option<Vec<_>>>().ok_or(Unusable::Other)?);
            return Ok(true);
        }
        if self.skips.is_none() {
            let len = ack.skips as usize * SkipRange::LEN;
            let Some(bytes) = signed(incoming, padded(len) + BLOCK)? else { return Ok(false) };
            let skips = bytes[..len].chunks(SkipRange::LEN).map(SkipRange::parse);
            let skips = skips.collect::<Result<Vec<_>, _>>().map_err(|_| Unusable::Other)?;
            if !SkipRange::are_in_order(&skips, request.packets) {
                return Err(Unusable::Other);
            }
            self.skips = Some(skips);
            return Ok(true);
        }
        let runs = (incoming.readable().len() / (MIN_RECORDS_PER_BLOCK * DataRecord::LEN)).max(1);
        let left =
            (ack.records as usize).saturating_sub(self.records.len()).min(runs * MIN_RECORDS_PER_BLOCK);
        let Some(bytes) = incoming.take(padded(left * DataRecord::LEN)) else { return Ok(false) };
        for record in bytes[..left * DataRecord::LEN].chunks(DataRecord::LEN) {
            self.records.push(DataRecord::parse(record).map_err(|_| Unusable::Other)?);
        }
        Ok(true)
    }
}

/// Consumes a message of `len` bytes, HMAC included, and returns it without the HMAC.
fn signed(incoming: &mut IncomingBytes, len: usize) -> Result<Option<Vec<u8>>, Unusable> {
    incoming.take_signed(len).transpose().map_err(|_| Unusable::Forged)
}

//! Encoding of results: 36 bytes per record, 8 bytes per timestamp.

use crate::jitlat::message::ChunkData;
use jitlat_core::record::Moment;
use jitlat_core::{Flags, PacketRecord, Span, Stamp, StampSource, WallTime};

/// Length of an encoded record, in bytes.
pub(crate) const ROW_LEN: usize = field::KNOWN.end();

mod field {
    use crate::wire::Field;
    pub(crate) const SEQ: Field<i32> = Field::at(0);
    pub const SENT: Field<i64> = SEQ.then();
    pub(crate) const ARRIVED: Field<i64> = SENT.then();
    pub(crate) const SEND_LAG: Field<i32> = ARRIVED.then();
    pub(crate) const RECEIVE_LAG: Field<i32> = SEND_LAG.then();
    pub const SIZE: Field<u16> = RECEIVE_LAG.then();
    pub const FLAGS: Field<u16> = SIZE.then();
    /// Sources of the two timestamps: that of the send time in the low half, that of the arrival time in the high half.
    pub(crate) const SOURCES: Field<u8> = FLAGS.then();
    pub const TTL: Field<u8> = SOURCES.then();
    pub const TRAFFIC_CLASS: Field<u8> = TTL.then();
    /// Bits that are set if optional fields are valid.
    pub(crate) const KNOWN: Field<u8> = TRAFFIC_CLASS.then();
}

const MISSING_TIME: i64 = i64::MIN;
const MISSING_LAG: i32 = i32::MIN;
/// Bit of the `known` octet that is set if the traffic class is valid.
const CLASS_KNOWN: u8 = 1;

/// Encodes the data of a chunk.
pub(super) fn encode(data: &ChunkData) -> Vec<u8> {
    match data {
        ChunkData::Records(records) => {
            let mut out = Vec::with_capacity(records.len() * ROW_LEN);
            records.iter().for_each(|r| out.extend_from_slice(&row(r)));
            out
        }
        ChunkData::Stamps(_, stamps, _) => stamps.iter().flat_map(|s| s.to_be_bytes()).collect(),
    }
}

/// Returns the CRC-32 (IEEE 802.3) of the encoded data of a chunk.
pub fn checksum(data: &ChunkData) -> u32 {
    crc32fast::hash(&encode(data))
}

fn row(r: &PacketRecord) -> [u8; ROW_LEN] {
    let time = |t: Option<WallTime>| t.map_or(MISSING_TIME, |t| t.0);
    let lag = |l: Option<Span>| {
        l.map_or(MISSING_LAG, |l| l.0.clamp((MISSING_LAG + 1).into(), i32::MAX.into()) as i32)
    };
    let mut row = [0; ROW_LEN];
    // Sequence numbers in the records of a stream fit into 32 bits.
    field::SEQ.write(&mut row, r.seq as i32);
    field::SENT.write(&mut row, time(r.sent()));
    field::ARRIVED.write(&mut row, time(r.arrived()));
    field::SEND_LAG.write(&mut row, lag(r.send_lag()));
    field::RECEIVE_LAG.write(&mut row, lag(r.receive_lag()));
    field::SIZE.write(&mut row, r.size().unwrap_or(0));
    field::FLAGS.write(&mut row, r.flags.0);
    field::SOURCES.write(&mut row, r.source(Moment::Sent) as u8 | (r.source(Moment::Arrived) as u8) << 4);
    field::TTL.write(&mut row, r.ttl().unwrap_or(0));
    field::TRAFFIC_CLASS.write(&mut row, r.traffic_class().unwrap_or(0));
    field::KNOWN.write(&mut row, if r.traffic_class().is_some() { CLASS_KNOWN } else { 0 });
    row
}

/// Parses records; `None` if `bytes` does not consist of whole records.
pub(super) fn decode_records(bytes: &[u8]) -> Option<Vec<PacketRecord>> {
    if !bytes.len().is_multiple_of(ROW_LEN) {
        return None;
    }
    bytes.chunks_exact(ROW_LEN).map(record).collect()
}

fn record(row: &[u8]) -> Option<PacketRecord> {
    let mut record = PacketRecord::new(field::SEQ.read(row)?.into());
    let sources = field::SOURCES.read(row)?;
    for (moment, at, shift) in [(Moment::Sent, field::SENT, 0), (Moment::Arrived, field::ARRIVED, 4)] {
        let time = at.read(row)?;
        if time != MISSING_TIME {
            let source = StampSource::ALL[usize::from(sources >> shift & 3)];
            record.set(moment, Stamp { at: WallTime(time), source });
        }
    }
    let lag = |l: i32| (l != MISSING_LAG).then_some(Span(l.into()));
    record.set_send_lag(lag(field::SEND_LAG.read(row)?));
    record.set_receive_lag(lag(field::RECEIVE_LAG.read(row)?));
    record.set_size(field::SIZE.read(row));
    record.flags = Flags(field::FLAGS.read(row)?);
    record.set_ttl(field::TTL.read(row));
    let known = field::KNOWN.read(row)? & CLASS_KNOWN != 0;
    record.set_traffic_class(field::TRAFFIC_CLASS.read(row).filter(|_| known));
    Some(record)
}

/// Length in bytes of an encoded queueing time: up to 18 minutes in ns.
const WAIT_LEN: usize = 5;
/// Encoding of a queueing time that is unknown or too long.
const NO_WAIT: u64 = (1 << (8 * WAIT_LEN)) - 1;

/// Encodes the queueing times of packets, from their departure and queue entry times.
pub(super) fn encode_waits(left: &[i64], entered: &[i64]) -> Vec<u8> {
    let wait = |(left, entered): (&i64, &i64)| {
        let known = *left != MISSING_TIME && *entered != MISSING_TIME;
        let wait = left.checked_sub(*entered).filter(|_| known).and_then(|ns| u64::try_from(ns).ok());
        wait.map_or(NO_WAIT, |ns| ns.min(NO_WAIT))
    };
    left.iter().zip(entered).flat_map(|pair| wait(pair).to_be_bytes()[8 - WAIT_LEN..].to_vec()).collect()
}

/// Returns the queue entry times of packets, given the queueing times in `bytes` and the departure times in
/// `left`; empty if there are none. `None` if the numbers of packets differ.
pub(super) fn decode_waits(bytes: &[u8], left: &[i64]) -> Option<Vec<i64>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let (waits, []) = bytes.as_chunks::<WAIT_LEN>() else { return None };
    let entered = |(wait, left): (&[u8; WAIT_LEN], &i64)| {
        let wait = wait.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let known = wait < NO_WAIT && *left != MISSING_TIME;
        left.checked_sub(wait as i64).filter(|_| known).unwrap_or(MISSING_TIME)
    };
    (waits.len() == left.len()).then(|| waits.iter().zip(left).map(entered).collect())
}

/// Parses timestamps; `None` if `bytes` does not consist of whole timestamps.
pub(super) fn decode_stamps(bytes: &[u8]) -> Option<Vec<i64>> {
    let (stamps, []) = bytes.as_chunks::<8>() else { return None };
    Some(stamps.iter().map(|s| i64::from_be_bytes(*s)).collect())
}

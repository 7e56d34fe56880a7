//! Encoding of results: 36 bytes per record, 8 per stamp.

use crate::jitlat::message::ChunkData;
use jitlat_core::record::Moment;
use jitlat_core::{Flags, PacketRecord, Source, Span, Stamp, WallTime};

/// Bytes of a record.
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
    /// Kinds of the two stamps: of the send time in the low half.
    pub(crate) const SOURCES: Field<u8> = FLAGS.then();
    pub const TTL: Field<u8> = SOURCES.then();
    pub const TRAFFIC_CLASS: Field<u8> = TTL.then();
    /// Bits: which of the other fields are valid.
    pub(crate) const KNOWN: Field<u8> = TRAFFIC_CLASS.then();
}

const MISSING_TIME: i64 = i64::MIN;
const MISSING_LAG: i32 = i32::MIN;
/// Bits of the `known` octet.
const CLASS_KNOWN: u8 = 1;

/// The data of a chunk as bytes.
pub(super) fn encode(data: &ChunkData) -> Vec<u8> {
    match data {
        ChunkData::Records(records) => {
            let mut out = Vec::with_capacity(records.len() * ROW_LEN);
            records.iter().for_each(|r| out.extend_from_slice(&row(r)));
            out
        }
        ChunkData::Stamps(_, stamps) => stamps.iter().flat_map(|s| s.to_be_bytes()).collect(),
    }
}

/// The CRC-32 (IEEE 802.3) of the data of a chunk as it is sent.
pub fn checksum(data: &ChunkData) -> u32 {
    crc32fast::hash(&encode(data))
}

fn row(r: &PacketRecord) -> [u8; ROW_LEN] {
    let time = |t: Option<WallTime>| t.map_or(MISSING_TIME, |t| t.0);
    // Lags are 32 bits in the record too: the conversion cannot lose anything.
    let lag = |l: Option<Span>| l.map_or(MISSING_LAG, |l| l.0 as i32);
    let mut row = [0; ROW_LEN];
    // Records of a stream carry the 32-bit number of their packet.
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

/// The records in `bytes`; `None` if it is not a whole number of rows.
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
            let source = Source::ALL[usize::from(sources >> shift & 3)];
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

/// The stamps in `bytes`; `None` if it is not a whole number of them.
pub(super) fn decode_stamps(bytes: &[u8]) -> Option<Vec<i64>> {
    let (stamps, []) = bytes.as_chunks::<8>() else { return None };
    Some(stamps.iter().map(|s| i64::from_be_bytes(*s)).collect())
}

//! Results as bytes: 36 a record, 8 a stamp.

use crate::jitlat::message::ChunkData;
use crate::wire::{Reader, Truncated};
use jitlat_core::record::Moment;
use jitlat_core::{Flags, PacketRecord, Source, Span, Stamp, WallTime};

/// Bytes of a record: seq i32 · sent i64 · arrived i64 · send lag i32 · receive lag i32 · size u16 · flags u16 ·
/// sources u8 · TTL u8 · traffic class u8 · known u8.
pub const ROW_LEN: usize = 36;

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
    let time = |t: Option<WallTime>| t.map_or(MISSING_TIME, |t| t.0).to_be_bytes();
    // Lags are 32 bits in the record too: the conversion cannot lose anything.
    let lag = |l: Option<Span>| l.map_or(MISSING_LAG, |l| l.0 as i32).to_be_bytes();
    let mut row = [0; ROW_LEN];
    // Records of a stream carry the 32-bit number of their packet.
    row[0..4].copy_from_slice(&(r.seq as i32).to_be_bytes());
    row[4..12].copy_from_slice(&time(r.sent()));
    row[12..20].copy_from_slice(&time(r.arrived()));
    row[20..24].copy_from_slice(&lag(r.send_lag()));
    row[24..28].copy_from_slice(&lag(r.receive_lag()));
    row[28..30].copy_from_slice(&r.size().unwrap_or(0).to_be_bytes());
    row[30..32].copy_from_slice(&r.flags.0.to_be_bytes());
    row[32] = r.source(Moment::Sent) as u8 | (r.source(Moment::Arrived) as u8) << 4;
    row[33] = r.ttl().unwrap_or(0);
    row[34] = r.traffic_class().unwrap_or(0);
    row[35] = if r.traffic_class().is_some() { CLASS_KNOWN } else { 0 };
    row
}

/// The records in `bytes`; `None` if it is no whole number of rows.
pub(super) fn decode_records(bytes: &[u8]) -> Option<Vec<PacketRecord>> {
    if !bytes.len().is_multiple_of(ROW_LEN) {
        return None;
    }
    bytes.chunks_exact(ROW_LEN).map(|row| record(row).ok()).collect()
}

fn record(row: &[u8]) -> Result<PacketRecord, Truncated> {
    let mut r = Reader::new(row);
    let mut record = PacketRecord::new(r.i32()?.into());
    let times = [r.i64()?, r.i64()?];
    let lags = [r.i32()?, r.i32()?];
    let size = r.u16()?;
    record.flags = Flags(r.u16()?);
    let [sources, ttl, class, known] = r.array()?;
    for ((moment, time), shift) in [Moment::Sent, Moment::Arrived].into_iter().zip(times).zip([0, 4]) {
        if time != MISSING_TIME {
            let source = Source::ALL[usize::from(sources >> shift & 3)];
            record.set(moment, Stamp { at: WallTime(time), source });
        }
    }
    let lag = |l: i32| (l != MISSING_LAG).then_some(Span(l.into()));
    record.set_send_lag(lag(lags[0]));
    record.set_receive_lag(lag(lags[1]));
    record.set_size(Some(size));
    record.set_ttl(Some(ttl));
    record.set_traffic_class((known & CLASS_KNOWN != 0).then_some(class));
    Ok(record)
}

/// The stamps in `bytes`; `None` if it is no whole number of them.
pub(super) fn decode_stamps(bytes: &[u8]) -> Option<Vec<i64>> {
    let (stamps, []) = bytes.as_chunks::<8>() else { return None };
    Some(stamps.iter().map(|s| i64::from_be_bytes(*s)).collect())
}

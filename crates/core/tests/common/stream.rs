//! Random streams with loss, duplicates, reordering, anomalies and stalls.

use jitlat_core::session::Ending;
use jitlat_core::{Direction, Flags, PacketRecord, Schedule, Session, Span, TestSpec, Transport, WallTime};
use proptest::prelude::*;

/// Time between packets, in ns.
pub const PERIOD: i64 = 20_000_000;

/// Returns the session of a test with this number of packets.
pub fn session(packets: u64) -> Session {
    let period = Span(PERIOD);
    let spec = TestSpec::new(Direction::Up, Transport::Udp, packets, 80, period, Schedule::Periodic).unwrap();
    Session { sent: Some(packets as u32), ending: Ending::Complete, ..Session::new(spec) }
}

/// Generates rows with loss, duplicates, reordering, anomalies and stalls.
pub fn rows() -> impl Strategy<Value = (u64, Vec<PacketRecord>)> {
    let packet = (0u32..100, 0i64..3_000_000, 0i64..100_000, 0u32..40);
    prop::collection::vec(packet, 1..250).prop_map(|packets| {
        let n = packets.len() as u64;
        let mut rows: Vec<(i64, PacketRecord)> = Vec::new();
        for (seq, (fate, jitter, error, special)) in (0..).zip(packets) {
            let sent = 1_700_000_000_000_000_000 + seq * PERIOD + error;
            let late = if special < 4 { PERIOD * i64::from(special) } else { 0 };
            let arrived = sent + 5_000_000 + jitter + late;
            let mut record = PacketRecord::one_way(seq, WallTime(sent), WallTime(arrived));
            if fate < 12 {
                continue;
            }
            if special == 39 {
                record.flags = Flags(1);
            }
            rows.push((arrived, record));
            if special >= 36 {
                let late = i64::from(special - 36) * PERIOD * 2;
                rows.push((
                    arrived + 1000 + late,
                    PacketRecord::one_way(seq, WallTime(sent), WallTime(arrived + 1000 + late)),
                ));
            }
        }
        rows.sort_by_key(|r| r.0);
        (n, rows.into_iter().map(|r| r.1).collect())
    })
}

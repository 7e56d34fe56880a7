//! Makes a log of a path with a queue that fills and empties, and with loss bursts.

use jitlat_core::session::Ending;
use jitlat_core::{PacketRecord, Session, TestSpec, WallTime};
use jitlat_store::log::{LogOutput, LogVersion, LogWriter};
use std::error::Error;
use std::fmt::Display;

/// Writes a log of `packets` packets from `start`, ns since 1970, between two hosts of 10.0.0.0/24; each `seed` gives
/// a different log.
///
/// # Errors
/// `out` cannot be written, or such a test is impossible.
pub fn log<W: LogOutput>(
    out: W,
    seed: u64,
    start: i64,
    packets: i64,
    hosts: &(impl Display, impl Display),
) -> Result<W, Box<dyn Error + Send + Sync>> {
    let spec = TestSpec::default().with_packets(packets as u64)?;
    let period = spec.period().0;
    let session = Session {
        created: Some(WallTime(start)),
        src: Some(format!("10.0.0.{}", hosts.0).parse()?),
        dst: Some(format!("10.0.0.{}", hosts.1).parse()?),
        sent: Some(packets as u32),
        ending: Ending::Complete,
        ..Session::new(spec)
    };
    let mut log = LogWriter::new(out, LogVersion::V3);
    log.begin(&session);
    let (mut state, mut queue, mut losing) = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, 0i64, 0);
    for i in 0..packets {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        queue = (queue + (state % 200_001) as i64 - 100_500).clamp(0, 30_000_000);
        if state % 1009 == 0 {
            losing = 1 + (state >> 32) % 4;
        }
        if losing > 0 {
            losing -= 1;
            continue;
        }
        let sent = start + i * period + (state >> 20) as i64 % 2000;
        let arrived = sent + 5_000_000 + queue + (state >> 40) as i64 % 9000;
        let mut record = PacketRecord::one_way(i, WallTime(sent), WallTime(arrived));
        record.set_size(Some(80));
        log.record(&record);
    }
    log.finish(&session);
    let (out, written) = log.close();
    written?;
    Ok(out)
}

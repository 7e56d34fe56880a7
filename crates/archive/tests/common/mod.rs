//! Logs for tests.
#![allow(dead_code)]

use jitlat_core::{PacketRecord, Session, Span, TestSpec, WallTime};
use jitlat_store::log::{LogVersion, LogWriter};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Paths of every known log of the repository.
pub fn known_logs() -> Vec<PathBuf> {
    let (mut folders, mut logs) =
        (vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "log") {
                logs.push(path);
            }
        }
    }
    logs.sort();
    assert!(logs.len() > 30, "{}", logs.len());
    logs
}

pub const HOUR: i64 = 3_600_000_000_000;
pub const DAY: i64 = 24 * HOUR;
/// 2026-01-01 00:00 UTC.
pub const NEW_YEAR: i64 = 1_767_225_600_000_000_000;

/// Writes a log of `packets` packets that starts at `start`; the same seed gives the same log.
pub fn write_log(folder: &Path, seed: i64, start: i64, packets: i64) -> PathBuf {
    let spec = TestSpec::default().with_packets(packets.max(1) as u64).unwrap();
    let period = spec.period().0;
    let session = Session {
        created: Some(WallTime(start)),
        src: Some("192.0.2.1".parse().unwrap()),
        dst: Some("192.0.2.2".parse().unwrap()),
        sent: Some(packets as u32),
        ending: jitlat_core::session::Ending::Complete,
        ..Session::new(spec)
    };
    let path = folder.join(format!("{seed}.log"));
    let mut log = LogWriter::new(File::create(&path).unwrap(), LogVersion::V3);
    log.begin(&session);
    for i in (0..packets).filter(|i| (i * 31 + seed) % 97 != 0) {
        let sent = start + i * period;
        let noise = (i.wrapping_mul(7919) ^ (seed * 104_729)) % 1_000_003;
        let mut record = PacketRecord::one_way(i, WallTime(sent), WallTime(sent + 5_000_000 + noise.abs()));
        record.set_send_lag(Some(Span(1000 + noise.abs() % 777)));
        record.set_ttl(Some(60));
        record.set_size(Some(80));
        log.record(&record);
    }
    log.finish(&session);
    log.close().1.unwrap();
    path
}

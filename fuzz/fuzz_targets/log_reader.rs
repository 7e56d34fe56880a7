#![no_main]
// Aims at: crates/store/src/log
// Longest input: 8192

use jitlat_core::record::Moment;
use jitlat_core::{PacketRecord, Session};
use jitlat_store::log::{LogReader, LogVersion, LogWriter};
use std::io::Cursor;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((session, records)) = read(data.to_vec()) else { return };
    let later = |r: &PacketRecord| [Moment::Answered, Moment::Returned].iter().any(|m| r.time(*m).is_some());
    let mut log = if records.iter().any(later) {
        LogWriter::two_way(Vec::new())
    } else {
        LogWriter::new(Vec::new(), LogVersion::V3)
    };
    log.begin(&session);
    records.iter().for_each(|r| log.record(r));
    log.finish(&session);
    let (bytes, written) = log.close();
    written.expect("memory does not fill up");
    let (again, same) = read(bytes).expect("what was written can be read");
    assert!(same == records, "records changed");
    assert_eq!((again.spec, again.probes, again.tags), (session.spec, session.probes, session.tags));
});

fn read(data: Vec<u8>) -> Option<(Session, Vec<PacketRecord>)> {
    let mut log = LogReader::from_reader("fuzz", Box::new(Cursor::new(data))).ok()?;
    let records = log.by_ref().collect::<Result<Vec<_>, _>>().ok()?;
    Some((log.session().clone(), records))
}

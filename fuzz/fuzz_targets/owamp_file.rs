#![no_main]
// Aims at: crates/proto/src/owamp/file.rs crates/proto/src/owamp/test.rs crates/proto/src/owamp/statistics.rs

use jitlat_proto::owamp::{OwpingOptions, SessionData, Statistics};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(data) = SessionData::from_file(bytes) else { return };
    assert_eq!(SessionData::from_file(&data.to_file()).as_ref(), Ok(&data), "what was read is written");
    if let Ok((session, records)) = data.to_test() {
        let arrived = data.records.iter().filter(|record| record.received.is_some()).count();
        assert_eq!(records.len(), arrived, "every packet that arrived is in the test");
        if session.packets() < 10_000 {
            let again = SessionData::of_test(&session, &records).expect("few packets are lost");
            assert!(again.records.len() >= session.packets().min(1) as usize);
        }
    }
    // The times of longer sessions take longer to compute.
    if data.session.request.packets < 10_000 {
        let statistics = Statistics { data, style: OwpingOptions::default() };
        let _ = (statistics.text(), statistics.machine(), statistics.raw());
    }
});

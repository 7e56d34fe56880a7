#![no_main]
// Aims at: crates/core/src/state.rs crates/core/src/analysis
// Longest input: 16384

use jitlat_core::state::{SavedAnalysis, seal};
use jitlat_core::{PacketRecord, WallTime};

libfuzzer_sys::fuzz_target!(|body: &[u8]| {
    // The bytes unchanged, and with a valid first line and checksum.
    let _ = SavedAnalysis::load(body, &jitlat_verdict::options());
    let Ok(state) = SavedAnalysis::load(&seal(body), &jitlat_verdict::options()) else { return };
    let again = SavedAnalysis::load(&state.save().unwrap(), &jitlat_verdict::options())
        .expect("what was read can be written");
    let mut twice = state.clone();
    let _ = twice.merge(again.clone());
    let _ = twice.continue_with(again);
    for seq in 0..300 {
        twice.push(&PacketRecord::one_way(seq, WallTime(seq * 1000), WallTime(seq * 1000 + 700)));
    }
    let _ = twice.finish();
    let _ = state.finish();
});

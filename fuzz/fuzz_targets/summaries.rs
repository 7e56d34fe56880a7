#![no_main]
// Aims at: crates/store/src/json.rs crates/core/src/summary.rs crates/verdict/src/compare
// Longest input: 100000

use jitlat_core::Summary;
use jitlat_store::json;
use jitlat_verdict::compare::{Basis, ComparisonGrid, ComparisonSettings, LabelledRun, RunKey, Statistic};

fn written(summaries: &[Summary]) -> Vec<u8> {
    let mut bytes = Vec::new();
    json::write(&mut bytes, summaries).expect("what was read can be written");
    bytes
}

// Any text as the JSON of tests: parsed summaries are written and read back unchanged, and can be compared.
libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let Ok(summaries) = json::read(text) else { return };
    assert!(!summaries.is_empty());
    let once = written(&summaries);
    let again = json::read(&once[..]).expect("what was written is read");
    assert_eq!(again, summaries);
    assert_eq!(written(&again), once);
    let run = |(k, summary): (usize, &Summary)| LabelledRun {
        label: format!("run {}", k % 3),
        summary: summary.clone(),
        ..LabelledRun::default()
    };
    let runs: Vec<LabelledRun> = summaries.iter().take(8).enumerate().map(run).collect();
    for (basis, statistic) in [(Basis::Delay, Statistic::Median), (Basis::Ipdv, Statistic::P99)] {
        let question = ComparisonSettings { basis, statistic, seed: 1, ..ComparisonSettings::default() };
        let grid = ComparisonGrid::new(&runs, &RunKey::Label, Some(&RunKey::Direction), None, &question);
        serde_json::to_string(&grid).expect("a comparison can be written");
    }
});

#![no_main]
// Aims at: crates/proto/src/browser

use jitlat_core::record::Moment;
use jitlat_core::{SteadyTime, WallTime};
use jitlat_proto::browser::{BrowserTest, MAX_PACKETS};
use std::collections::HashSet;

/// A conversation of a browser: its plan, requests by number, and a report. Without a plan of bytes, one that is valid.
#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    plan: Option<String>,
    requests: Vec<u16>,
    raw: Vec<Vec<u8>>,
    /// Rows of the report: number, time of sending, and time of the answer, in tenths of a millisecond.
    rows: Vec<(u16, u16, Option<u16>)>,
    report: Option<String>,
    lasted: u32,
}

libfuzzer_sys::fuzz_target!(|input: Input| {
    let valid = r#"{"packets":100,"period_ms":5,"bytes":80}"#.to_owned();
    let plan = input.plan.unwrap_or(valid);
    let created = WallTime(1_795_000_000_000_000_000);
    let Ok(mut test) = BrowserTest::begin(&plan, SteadyTime(0), created) else { return };
    assert!(u64::from(test.spec().packets()) <= MAX_PACKETS);
    assert!(test.deadline() <= SteadyTime(75_000_000_000));
    let mut answered = HashSet::new();
    for seq in input.requests {
        let mut request = u32::from(seq).to_be_bytes().to_vec();
        request.resize(test.spec().payload().into(), 0);
        let is_new = u32::from(seq) < test.spec().packets() && !answered.contains(&i64::from(seq));
        assert_eq!(test.answer(&request).is_ok(), is_new);
        if is_new {
            answered.insert(i64::from(seq));
        }
    }
    for bytes in &input.raw {
        if test.answer(bytes).is_ok() {
            answered.insert(u32::from_be_bytes(*bytes.first_chunk().unwrap()).into());
        }
    }
    let row = |(seq, sent, returned): &(u16, u16, Option<u16>)| {
        (*seq, f64::from(*sent) / 10.0, returned.map(|ms| f64::from(ms) / 10.0))
    };
    let rows: Vec<_> = input.rows.iter().map(row).collect();
    let rows = serde_json::to_string(&rows).unwrap();
    let made = format!(r#"{{"rows":{rows},"resolution_ms":0.1,"hidden":false,"stopped":false}}"#);
    let report = input.report.unwrap_or(made);
    let now = SteadyTime(input.lasted.into());
    let packets = test.spec().packets();
    let Ok(result) = test.finish(&report, "a browser", now) else { return };
    // Only answers that the server sent are believed, each once, and none before its request or after the end.
    assert!(result.session.sent.unwrap() <= packets && result.records.len() <= answered.len());
    let mut seen = HashSet::new();
    for record in &result.records {
        assert!(answered.contains(&record.seq) && seen.insert(record.seq));
        let [sent, returned] = [Moment::Sent, Moment::Returned].map(|moment| record.time(moment).unwrap());
        assert!(created <= sent && sent <= returned);
        assert!((returned - created).0 <= now.0 + now.0 / 1000 + 100_000_000);
        assert!(record.arrived().is_none());
    }
});

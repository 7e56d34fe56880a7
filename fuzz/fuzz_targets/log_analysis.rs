#![no_main]
// Aims at: crates/core/src/analysis crates/core/src/metrics crates/report/src/text
// Longest input: 8192

use jitlat_core::Span;
use jitlat_core::analysis::{Analyzer, Options};
use jitlat_report::text;
use jitlat_store::log::LogReader;
use jitlat_store::{csv, hdr, json, openmetrics};
use std::io::Cursor;

const HEADER: &str = "# Sun Mar 13 07:06:40 UTC 2011\n# command SENDING\n# npkts 4000000000\n# pktlen 12\n# proto 17\n\
                      # period 10000000\n# src_ip 192.0.2.1\n# dst_ip 192.0.2.2\n# src_port 5000\n# dst_port 2667\n# dscp 0\n";

libfuzzer_sys::fuzz_target!(|rows: &[u8]| {
    let log = if rows.starts_with(b"#") { rows.to_vec() } else { [HEADER.as_bytes(), rows].concat() };
    let Ok(mut log) = LogReader::from_reader("fuzz", Box::new(Cursor::new(log))) else { return };
    let options = Options { interval: Some(Span::millis(50)), ..jitlat_verdict::options() };
    let mut analyzer = Analyzer::new(log.session(), &options);
    let mut records = Vec::new();
    for record in log.by_ref() {
        let Ok(record) = record else { return };
        analyzer.push(&record);
        records.push(record);
    }
    let (mut summary, samples) = analyzer.finish_with_samples(log.session());

    let text_options = text::TextOptions { corrected: true, ..text::TextOptions::default() };
    let report = text::report(&summary, &text_options);
    let nonsense =
        |word: &str| word.contains("NaN") || word.trim_matches(|c: char| !c.is_alphabetic()) == "inf";
    assert!(!report.split_whitespace().any(nonsense), "{report}");
    // Warnings about the log are added afterwards, because they quote lines that may contain any words.
    log.reading().add_to(&mut summary);
    text::report(&summary, &text_options);
    let canvas = text::plots::PlotCanvas { width: 80, unicode: rows.len() % 2 == 0 };
    text::plots::histogram("Jitter", &summary.pdv, canvas);
    text::plots::burstiness("Latency", &samples, 0, summary.counts.sent, canvas);
    let mut out = Vec::new();
    let mut packets = csv::PacketCsv::new(&mut out, log.session(), &summary).unwrap();
    records.iter().for_each(|r| packets.write(r).unwrap());
    hdr::write(&mut out, &samples, Some(Span::millis(500))).unwrap();
    json::write(&mut out, core::slice::from_ref(&summary)).unwrap();
    openmetrics::write(&mut out, &[summary]).unwrap();
});

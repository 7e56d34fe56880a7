//! The console report of the golden logs, as printed by `jitlat -f LOG -C`.

use jitlat_core::analysis::Analyzer;
use jitlat_report::text;
use jitlat_store::log::LogReader;
use std::io::Cursor;
use std::path::Path;

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)).unwrap()
}

/// A terminal of 80 columns whose locale is UTF-8.
const CANVAS: text::plots::PlotCanvas = text::plots::PlotCanvas { width: 80, unicode: true };

fn report(log: Vec<u8>) -> String {
    let mut reader = LogReader::from_reader("test", Box::new(Cursor::new(log))).unwrap();
    let mut analyzer = Analyzer::new(reader.session(), &jitlat_verdict::options());
    reader.by_ref().for_each(|record| analyzer.push(&record.unwrap()));
    let (mut summary, samples) = analyzer.finish_with_samples(reader.session());
    reader.reading().add_to(&mut summary);
    let options = text::TextOptions { corrected: true, ..text::TextOptions::default() };
    format!(
        "{}\n{}\n{}\n{}",
        text::analysing(reader.session()),
        text::report(&summary, &options),
        text::plots::histogram("Jitter", &summary.pdv, CANVAS),
        text::plots::burstiness("Latency", &samples, 0, summary.counts.sent, CANVAS),
    )
}

#[test]
fn loopback() {
    insta::assert_snapshot!(report(golden("a_loopback_v1.log")));
}

#[test]
fn lossy() {
    insta::assert_snapshot!(report(golden("b_wan_lossy_v1.log")));
}

#[test]
fn unsynchronised() {
    insta::assert_snapshot!(report(golden("c_unsync_v2.log")));
}

#[test]
fn every_class_of_packet() {
    insta::assert_snapshot!(report(golden("d_edge_small_v1.log")));
}

#[test]
fn tcp_hides_loss() {
    let log = String::from_utf8(golden("c_unsync_v2.log")).unwrap().replace("# proto 17", "# proto 6");
    let report = report(log.into());
    assert!(report.contains("    lost packets: not observable with TCP\n"), "{report}");
    assert!(report.contains("        duplicate packets: not observable with TCP\n"), "{report}");
    assert!(!report.contains("0 lost") && !report.contains("loss 0"), "{report}");
}

#[test]
fn what_is_undefined_is_a_dash() {
    let header: String = String::from_utf8(golden("d_edge_small_v1.log"))
        .unwrap()
        .lines()
        .take(11)
        .map(|l| format!("{l}\n"))
        .collect();
    let none_sent = header.replace("npkts 12", "npkts 0");
    assert!(report(none_sent.clone().into()).contains("\n0 packets sent\n0 unique/valid packets received\n"));
    for log in [header, none_sent] {
        let report = report(log.into());
        assert!(report.contains("min/avg/max latency = - / - / -\nstd dev = -\n"), "{report}");
        for nonsense in ["NaN", "inf", "null", "None"] {
            assert!(!report.contains(nonsense), "{report}");
        }
    }
}

#[test]
fn absurd_headers_leave_what_does_not_depend_on_them() {
    let log = String::from_utf8(golden("d_edge_small_v1.log")).unwrap();
    let four_billion = report(log.replace("npkts 12", "npkts 4000000000").into());
    assert!(four_billion.starts_with("Analysing 4000000000 UDP pkts"), "{four_billion}");
    // Packets missing at the end of the log were not recorded: they count as neither sent nor lost.
    assert!(four_billion.contains("\n13 packets sent\n11 unique/valid"), "{four_billion}");
    let no_period = report(log.replace("period 10000000", "period 0").into());
    assert!(
        no_period.contains("\ntarget transmit period = -\naverage transmit period = 10.00 ms"),
        "{no_period}"
    );
    assert!(no_period.contains("min/avg/max latency = -200.000 us / 9.690000 ms"), "{no_period}");
    let no_payload = report(log.replace("pktlen 12", "pktlen 0").into());
    assert!(no_payload.contains("average transmit period = 10.00 ms (100.00 pkts/Sec = -)"), "{no_payload}");
}

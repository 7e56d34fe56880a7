//! CSV as documented: the columns of packets and of tests.

use jitlat_core::analysis::analyze;
use jitlat_core::summary::Summary;
use jitlat_core::{PacketRecord, Session};
use jitlat_store::csv::{PACKET_COLUMNS, PacketCsv, write_summaries};
use jitlat_store::log::LogReader;
use std::path::Path;

fn golden(name: &str) -> (Session, Vec<PacketRecord>, Summary) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name);
    let mut log = LogReader::open(&path).unwrap();
    let records: Vec<PacketRecord> = log.by_ref().map(Result::unwrap).collect();
    let session = log.session().clone();
    let summary = analyze(&session, records.iter().copied(), &jitlat_verdict::options());
    (session, records, summary)
}

fn packets(name: &str) -> (String, Summary) {
    let (session, records, summary) = golden(name);
    let mut out = Vec::new();
    let mut csv = PacketCsv::new(&mut out, &session, &summary).unwrap();
    records.iter().for_each(|r| csv.write(r).unwrap());
    (String::from_utf8(out).unwrap(), summary)
}

#[test]
fn a_line_for_each_datagram() {
    let (text, _) = packets("d_edge_small_v1.log");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 16);
    assert_eq!(lines[0], PACKET_COLUMNS);
    assert_eq!(
        lines[3],
        "2,4,accepted,1300000000040000000,1300000000039800000,-200000,,0,0,user,user,,,,,,,,"
    );
    assert_eq!(
        lines[5],
        "4,4,duplicate,1300000000040000000,1300000000042000000,2000000,,,0,user,user,,,,,,,,"
    );
    assert!(lines[9].starts_with("8,7,invalid,") && lines[9].contains(",,,1,user,"), "{}", lines[9]);
}

#[test]
fn classes_add_up_and_correction_is_applied() {
    for name in ["a_loopback_v1.log", "b_wan_lossy_v1.log", "c_unsync_v2.log", "d_edge_small_v1.log"] {
        let (text, summary) = packets(name);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let of = |class: &str| rows.iter().filter(|r| &r[2] == class).count() as u64;
        let c = &summary.counts;
        assert_eq!(
            (of("accepted"), of("duplicate"), of("invalid")),
            (c.unique_valid, c.duplicate, c.invalid)
        );
        for row in &rows {
            assert_eq!(row.len(), PACKET_COLUMNS.split(',').count());
            let latency: i64 = row[5].parse().unwrap();
            match summary.clock.correction_ns {
                Some(correction) => assert_eq!(row[6].parse::<i64>().unwrap(), latency - correction),
                None => assert_eq!(&row[6], ""),
            }
        }
    }
}

#[test]
fn a_line_for_each_test() {
    let (_, _, mut lossy) = golden("b_wan_lossy_v1.log");
    lossy.session.name = Some("before, \"quoted\"".into());
    let (_, _, unsync) = golden("c_unsync_v2.log");
    let mut out = Vec::new();
    write_summaries(&mut out, [&lossy, &unsync]).unwrap();
    let mut reader = csv::Reader::from_reader(out.as_slice());
    let names = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let value = |row: usize, name: &str| rows[row][names.iter().position(|n| n == name).unwrap()].to_owned();
    assert_eq!(rows.len(), 2);
    assert_eq!((value(0, "name"), value(0, "lost")), ("before, \"quoted\"".into(), "59".into()));
    assert_eq!(value(1, "clock_error_ns"), "31340420000");
    assert_eq!((value(0, "clock_error_ns"), value(0, "pdv_p99_9_ns")), (String::new(), "92293000".into()));

    let page = include_str!("../../../../docs/formats/csv.md");
    let documented = |name: &str| page.contains(&format!("`{name}`"));
    // Column names are the keys of the figures, with underscores and the unit.
    let metrics = include_str!("../../../../docs/metrics/README.md");
    let (_, scalars) = metrics.split_once("## Every scalar").unwrap();
    let keys: Vec<String> = scalars
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.replace(['-', '.'], "_")))
        .collect();
    let scalar = |name: &str| {
        let name = name.strip_prefix("up_").or(name.strip_prefix("down_")).unwrap_or(name);
        keys.iter().any(|key| {
            name.strip_prefix(key.as_str()).is_some_and(|unit| unit.is_empty() || unit.starts_with('_'))
        })
    };
    for name in &names {
        assert!(documented(name) || scalar(name), "{name} is not documented");
    }
    for name in PACKET_COLUMNS.split(',') {
        assert!(documented(name), "{name} is not documented");
    }
}

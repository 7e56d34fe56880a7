//! The JSON summary against its published schema.

use crate::schema;
use jitlat_core::analysis::{Options, analyze};
use jitlat_core::record::Moment;
use jitlat_core::session::Ending;
use jitlat_core::twoway::{Directions, FarReport, TcpStats, TwoWay};
use jitlat_core::{NoiseFloor, PacketRecord, Session, Span, Stamp, StampSource, TestSpec, WallTime};
use jitlat_store::json;
use jitlat_store::log::LogReader;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn golden(name: &str) -> jitlat_core::summary::Summary {
    let mut log = LogReader::open(&in_repository("testdata").join(name)).unwrap();
    let session = log.session().clone();
    // Include figures that are only computed on request, if they are fast.
    let bootstrap = (session.packets() < 100).then_some(1);
    let options = Options {
        interval: Some(Span::millis(5000)),
        bootstrap,
        comparable: true,
        ..jitlat_verdict::options()
    };
    analyze(&session, log.by_ref().map(Result::unwrap), &options)
}

const GOLDEN: [&str; 4] =
    ["a_loopback_v1.log", "b_wan_lossy_v1.log", "c_unsync_v2.log", "d_edge_small_v1.log"];

#[test]
fn summaries_are_as_published() {
    for name in GOLDEN {
        schema::assert_valid("summary", &json::document(&[golden(name)]).unwrap());
    }
    let runs = json::document(&[golden(GOLDEN[0]), golden(GOLDEN[1])]).unwrap();
    schema::assert_valid("summary", &runs);
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(2));
    let spec = TestSpec::default();
    let each =
        [spec.clone(), spec.reversed()].map(|s| analyze(&Session::new(s), [], &jitlat_verdict::options()));
    let directions = json::document(&each).unwrap();
    schema::assert_valid("summary", &directions);
    assert_eq!(directions["directions"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_summary_of_nothing_is_too() {
    let session = Session::new(TestSpec::default());
    schema::assert_valid(
        "summary",
        &json::document(&[analyze(&session, [], &jitlat_verdict::options())]).unwrap(),
    );
}

#[test]
fn a_noise_floor_is_described() {
    let mut session = Session::new(TestSpec::default());
    session.client.noise = Some(NoiseFloor { pdv_p99: Span(500), ..NoiseFloor::default() });
    let rows = (0..200)
        .map(|i| PacketRecord::one_way(i, WallTime(i * 20_000_000), WallTime(i * 20_000_000 + i % 100)));
    let document = json::document(&[analyze(&session, rows, &jitlat_verdict::options())]).unwrap();
    schema::assert_valid("summary", &document);
    assert_eq!(document["noise"]["at_or_below"], serde_json::json!(["99", "99.3", "99.5", "99.7"]));
    let warnings = document["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|w| w["code"] == "noise_floor"), "{warnings:#?}");
}

/// Summary of ten round trips of 3 ms, 2 ms up and 1 ms down with 50 µs of processing, between clocks 7 ms apart.
fn two_way(facts: TwoWay) -> Value {
    let mut session = Session::new(TestSpec::default());
    (session.sent, session.two_way) = (Some(12), Some(Box::new(facts)));
    session.ending = Ending::Complete;
    let at = |ms: f64| Stamp { at: WallTime((ms * 1e6) as i64), source: StampSource::Kernel };
    let rows = (0..10).map(|i| {
        let start = i as f64 * 20.0;
        let mut r = PacketRecord::new(i);
        r.set(Moment::Sent, at(start));
        r.set(Moment::Arrived, at(start + 9.0));
        r.set(Moment::Answered, at(start + 9.05));
        r.set(Moment::Returned, at(start + 3.05));
        r
    });
    json::document(&[analyze(&session, rows, &jitlat_verdict::options())]).unwrap()
}

#[test]
fn two_way_figures_are_described() {
    let directions = Directions { stateful: true, up_lost: 2, ..Directions::default() };
    let document = two_way(TwoWay {
        protocol: "stamp".into(),
        far_clock: true,
        directions: Some(directions),
        tcp: Some(TcpStats::default()),
        ..TwoWay::default()
    });
    schema::assert_valid("summary", &document);
    let at = |pointer: &str| document.pointer(pointer).unwrap().clone();
    assert_eq!(at("/latency/min"), 3_000_000);
    assert_eq!(at("/two_way/processing_min_ns"), 50_000);
    assert_eq!((at("/two_way/up/lost"), at("/two_way/down/lost")), (2.into(), 0.into()));
    assert!(at("/two_way/up/loss").is_object() && at("/two_way/down/loss").is_null());
    // The fastest exchange, assumed to be symmetric, gives an offset of 7.5 ms, ± half its round trip.
    assert_eq!(at("/two_way/up/latency_corrected/offset_ns"), 7_500_000);
    assert_eq!(at("/two_way/up/latency_corrected/mean"), 1_500_000.0);
    assert_eq!(at("/two_way/down/latency_corrected/mean"), 1_500_000.0);
}

#[test]
fn a_report_of_the_far_host_is_described() {
    let report = FarReport { received: 9, mean: Some(Span(5)), ..FarReport::default() };
    let mut session = Session::new(TestSpec::default());
    (session.sent, session.ending) = (Some(12), Ending::Complete);
    session.two_way = Some(Box::new(TwoWay { far_report: Some(report), ..TwoWay::default() }));
    let document = json::document(&[analyze(&session, [], &jitlat_verdict::options())]).unwrap();
    schema::assert_valid("summary", &document);
    assert_eq!((&document["counts"]["lost"], &document["latency"]["mean"]), (&3.into(), &5.0.into()));
}

#[test]
fn the_validator_can_fail() {
    let mut document = json::document(&[golden(GOLDEN[3])]).unwrap();
    document["counts"]["sent"] = Value::from(-1);
    document["counts"]["new"] = Value::from(1);
    document["latency"].as_object_mut().unwrap().remove("mean");
    let errors = schema::errors("summary", &document);
    assert_eq!(errors.len(), 3, "{errors:#?}");
}

#[test]
fn intervals_are_one_line_each() {
    let summary = golden(GOLDEN[0]);
    let mut out = Vec::new();
    json::write_intervals(&mut out, &summary).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().count(), summary.intervals.len());
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["direction"], "up");
    }
}

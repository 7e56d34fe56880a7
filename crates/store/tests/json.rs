//! The JSON summary against its published schema.

use jitlat_core::analysis::{Options, analyze};
use jitlat_core::record::Moment;
use jitlat_core::twoway::{Directions, FarReport, TcpCourse, TwoWay};
use jitlat_core::{Nanos, NoiseFloor, PacketRecord, Session, Source, Span, Stamp, TestSpec};
use jitlat_store::json;
use jitlat_store::log::LogReader;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn schema() -> Value {
    let text = std::fs::read_to_string(in_repository("docs/formats/summary.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// As much of JSON Schema as ours uses. Beyond the schema, a key it does not describe is an error too: so
/// whoever adds a figure describes it.
struct Validator {
    root: Value,
    errors: Vec<String>,
}

impl Validator {
    fn check(&mut self, schema: &Value, value: &Value, at: &str) {
        let mut found = Vec::new();
        for (keyword, rule) in schema.as_object().unwrap() {
            match keyword.as_str() {
                "$ref" => {
                    let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                    let target = self.root.pointer(pointer).expect("a definition").clone();
                    return self.check(&target, value, at);
                }
                "anyOf" => {
                    let mut attempts = Vec::new();
                    for choice in rule.as_array().unwrap() {
                        let mut attempt = Validator { root: self.root.clone(), errors: Vec::new() };
                        attempt.check(choice, value, at);
                        attempts.push(attempt.errors);
                    }
                    if let Some(closest) = attempts.into_iter().min_by_key(Vec::len) {
                        self.errors.extend(closest);
                    }
                    return;
                }
                "type" => {
                    let named = |t: &Value| match t.as_str().unwrap() {
                        "integer" => value.is_i64() || value.is_u64(),
                        "number" => value.is_number(),
                        "string" => value.is_string(),
                        "boolean" => value.is_boolean(),
                        "array" => value.is_array(),
                        "object" => value.is_object(),
                        "null" => value.is_null(),
                        other => panic!("type {other}"),
                    };
                    if !rule.as_array().map_or_else(|| named(rule), |types| types.iter().any(named)) {
                        return self.errors.push(format!("{at}: {value} is not of type {rule}"));
                    }
                }
                "enum" => {
                    if !rule.as_array().unwrap().contains(value) {
                        found.push(format!("{value} is not one of {rule}"));
                    }
                }
                "minimum" => {
                    if value.as_f64().is_some_and(|v| v < rule.as_f64().unwrap()) {
                        found.push(format!("{value} is below {rule}"));
                    }
                }
                "minItems" | "maxItems" => {
                    let n = value.as_array().map(Vec::len);
                    let limit = rule.as_u64().unwrap() as usize;
                    if n.is_some_and(|n| if keyword == "minItems" { n < limit } else { n > limit }) {
                        found.push(format!("{keyword} is {limit}"));
                    }
                }
                "required" => {
                    for key in rule.as_array().unwrap() {
                        if value.as_object().is_some_and(|o| !o.contains_key(key.as_str().unwrap())) {
                            found.push(format!("{key} is missing"));
                        }
                    }
                }
                "items" => {
                    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(rule, item, &format!("{at}[{i}]"));
                    }
                }
                "properties" | "additionalProperties" | "description" | "title" | "$schema" | "$defs" => {}
                other => panic!("keyword {other}"),
            }
        }
        self.errors.extend(found.into_iter().map(|what| format!("{at}: {what}")));
        self.check_keys(schema, value, at);
    }

    fn check_keys(&mut self, schema: &Value, value: &Value, at: &str) {
        for (key, item) in value.as_object().into_iter().flatten() {
            match schema["properties"].get(key).or_else(|| schema.get("additionalProperties")) {
                Some(rule) => {
                    let rule = rule.clone();
                    self.check(&rule, item, &format!("{at}.{key}"));
                }
                None => self.errors.push(format!("{at}.{key} is not described")),
            }
        }
    }
}

fn assert_valid(document: &Value) {
    let root = schema();
    let mut validator = Validator { root: root.clone(), errors: Vec::new() };
    validator.check(&root, document, "$");
    assert!(validator.errors.is_empty(), "{:#?}", validator.errors);
}

fn golden(name: &str) -> jitlat_core::summary::Summary {
    let mut log = LogReader::open(&in_repository("testdata").join(name)).unwrap();
    let session = log.session().clone();
    // What is only computed when asked for, where it does not take long.
    let bootstrap = (session.packets() < 100).then_some(1);
    let options =
        Options { interval: Some(Span::millis(5000)), bootstrap, comparable: Some(1), ..Options::default() };
    analyze(&session, log.by_ref().map(Result::unwrap), &options)
}

const GOLDEN: [&str; 4] =
    ["a_loopback_v1.log", "b_wan_lossy_v1.log", "c_unsync_v2.log", "d_edge_small_v1.log"];

#[test]
fn summaries_are_as_published() {
    for name in GOLDEN {
        assert_valid(&json::document(&[golden(name)]).unwrap());
    }
    let runs = json::document(&[golden(GOLDEN[0]), golden(GOLDEN[1])]).unwrap();
    assert_valid(&runs);
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(2));
    let spec = TestSpec::default();
    let each = [spec.clone(), spec.reversed()].map(|s| analyze(&Session::new(s), [], &Options::default()));
    let directions = json::document(&each).unwrap();
    assert_valid(&directions);
    assert_eq!(directions["directions"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_summary_of_nothing_is_too() {
    let session = Session::new(TestSpec::default());
    assert_valid(&json::document(&[analyze(&session, [], &Options::default())]).unwrap());
}

#[test]
fn a_noise_floor_is_described() {
    let mut session = Session::new(TestSpec::default());
    session.client.noise = Some(NoiseFloor { pdv_p99: Span(500), ..NoiseFloor::default() });
    let rows =
        (0..200).map(|i| PacketRecord::one_way(i, Nanos(i * 20_000_000), Nanos(i * 20_000_000 + i % 100)));
    let document = json::document(&[analyze(&session, rows, &Options::default())]).unwrap();
    assert_valid(&document);
    assert_eq!(document["noise"]["at_or_below"], serde_json::json!(["99", "99.3", "99.5", "99.7"]));
    let warnings = document["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|w| w["code"] == "noise_floor"), "{warnings:#?}");
}

/// Ten round trips of 3 ms, 2 there and 1 back with 50 us between, on clocks 7 ms apart.
fn two_way(facts: TwoWay) -> Value {
    let mut session = Session::new(TestSpec::default());
    (session.sent, session.two_way) = (Some(12), Some(Box::new(facts)));
    let at = |ms: f64| Stamp { at: Nanos((ms * 1e6) as i64), source: Source::Kernel };
    let rows = (0..10).map(|i| {
        let start = i as f64 * 20.0;
        let mut r = PacketRecord::new(i);
        r.set(Moment::Sent, at(start));
        r.set(Moment::Arrived, at(start + 9.0));
        r.set(Moment::Answered, at(start + 9.05));
        r.set(Moment::Returned, at(start + 3.05));
        r
    });
    json::document(&[analyze(&session, rows, &Options::default())]).unwrap()
}

#[test]
fn two_way_figures_are_described() {
    let directions = Directions { stateful: true, up_lost: 2, ..Directions::default() };
    let document = two_way(TwoWay {
        protocol: "stamp".into(),
        far_clock: true,
        directions: Some(directions),
        tcp: Some(TcpCourse::default()),
        ..TwoWay::default()
    });
    assert_valid(&document);
    let at = |pointer: &str| document.pointer(pointer).unwrap().clone();
    assert_eq!(at("/latency/min"), 3_000_000);
    assert_eq!(at("/two_way/processing_min_ns"), 50_000);
    assert_eq!((at("/two_way/up/lost"), at("/two_way/down/lost")), (2.into(), 0.into()));
    assert!(at("/two_way/up/loss").is_object() && at("/two_way/down/loss").is_null());
    // The fastest exchange, taken to be symmetric, puts the clocks 7.5 ms apart, ± half its round trip.
    assert_eq!(at("/two_way/up/latency_corrected/offset_ns"), 7_500_000);
    assert_eq!(at("/two_way/up/latency_corrected/mean"), 1_500_000.0);
    assert_eq!(at("/two_way/down/latency_corrected/mean"), 1_500_000.0);
}

#[test]
fn a_report_of_the_far_host_is_described() {
    let report = FarReport { received: 9, mean: Some(Span(5)), ..FarReport::default() };
    let mut session = Session::new(TestSpec::default());
    session.sent = Some(12);
    session.two_way = Some(Box::new(TwoWay { far_report: Some(report), ..TwoWay::default() }));
    let document = json::document(&[analyze(&session, [], &Options::default())]).unwrap();
    assert_valid(&document);
    assert_eq!((&document["counts"]["lost"], &document["latency"]["mean"]), (&3.into(), &5.0.into()));
}

#[test]
fn the_validator_can_fail() {
    let root = schema();
    let mut document = json::document(&[golden(GOLDEN[3])]).unwrap();
    document["counts"]["sent"] = Value::from(-1);
    document["counts"]["new"] = Value::from(1);
    document["latency"].as_object_mut().unwrap().remove("mean");
    let mut validator = Validator { root: root.clone(), errors: Vec::new() };
    validator.check(&root, &document, "$");
    assert_eq!(validator.errors.len(), 3, "{:#?}", validator.errors);
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

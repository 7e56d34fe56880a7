//! Formats for systems that store measurements, from logs of every kind, read as these systems read them.

use crate::server::Server;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const JITLAT: &str = env!("CARGO_BIN_EXE_jitlat");
const TESTDATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata");

fn jitlat(arguments: &[&str], folder: &Path) -> Vec<u8> {
    let output = Command::new(JITLAT)
        .args(arguments)
        .current_dir(folder)
        .env_remove("COLLECTD_HOSTNAME")
        .env_remove("COLLECTD_INTERVAL")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A point of InfluxDB's line protocol.
struct Point {
    measurement: String,
    tags: BTreeMap<String, String>,
    fields: BTreeMap<String, String>,
    time: Option<i64>,
}

/// Splits `text` at `separator`, but not behind a backslash and not in double quotes.
fn split(text: &str, separator: char) -> Vec<String> {
    let (mut parts, mut escaped, mut quoted) = (vec![String::new()], false, false);
    for c in text.chars() {
        let last = parts.last_mut().unwrap();
        match c {
            _ if escaped => {
                last.extend(['\\', c]);
                escaped = false;
            }
            '\\' => escaped = true,
            c if c == separator && !quoted => parts.push(String::new()),
            c => {
                quoted ^= c == '"';
                last.push(c);
            }
        }
    }
    assert!(!escaped && !quoted, "{text}");
    parts
}

impl Point {
    fn parse(line: &str) -> Point {
        // Only fields have quotes.
        let key_end = split(&line.replace('"', "_"), ' ')[0].len();
        let mut key = split(&line[..key_end].replace('"', "_"), ',').into_iter();
        let rest = split(&line[key_end + 1..], ' ');
        let pairs = |text: String| -> (String, String) {
            let parts = split(&text, '=');
            let [key, value] = &parts[..] else { panic!("{line}: {text}") };
            assert!(!key.is_empty() && !value.is_empty(), "{line}: {text}");
            (key.clone(), value.clone())
        };
        Point {
            measurement: key.next().unwrap(),
            tags: key.map(pairs).collect(),
            fields: split(&rest[0], ',').into_iter().map(pairs).collect(),
            time: rest.get(1).map(|time| time.parse().unwrap()),
        }
    }
}

#[test]
fn every_kind_of_log_has_its_figures_at_the_time_of_the_test() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| format!("{TESTDATA}/{name}");
    let server = Server::start("127.0.0.1", "stamp", &[]);
    let ping =
        format!("ping 127.0.0.1 --proto stamp --stamp-port {} -n 30 -p 1ms -o ping.log -q", server.port(0));
    let ping: Vec<&str> = ping.split(' ').chain(["--name", "a, b=\"c\" \\", "--tag", "site=x y"]).collect();
    jitlat(&ping, dir.path());
    jitlat(
        &[
            "spp",
            "-f",
            &path("spp/atm_loss_udp340.ref.pcap"),
            "-F",
            &path("spp/atm_loss_udp340.mon.pcap"),
            "--log",
            "spp",
            "-q",
        ],
        dir.path(),
    );
    let of_captures: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("spp"))
        .collect();
    assert!(!of_captures.is_empty());
    let own = [path("b_wan_lossy_v1.log"), path("c_unsync_v2.log"), "ping.log".to_owned()];
    for log in own.iter().chain(&of_captures) {
        let text =
            |name: &str| String::from_utf8(jitlat(&["export", log, "--as", name], dir.path())).unwrap();
        let summary: Value = serde_json::from_str(&text("json")).unwrap();
        let created = summary["session"]["created"].as_i64();
        assert!(created.is_some(), "{log}");
        let (sent, loss) =
            (summary["counts"]["sent"].as_u64().unwrap(), summary["loss"]["ratio"].as_f64().unwrap());
        let is_round_trip = summary["two_way"].is_object();

        let influx = text("influx");
        let points: Vec<Point> = influx.lines().map(Point::parse).collect();
        assert_eq!(points.len(), if log == "ping.log" { 3 } else { 1 }, "{log}: {influx}");
        let whole = &points[0];
        assert_eq!((whole.measurement.as_str(), whole.time), ("jitlat", created), "{log}");
        assert_eq!(whole.fields["packets_sent"], format!("{sent}i"), "{log}");
        assert_eq!(whole.fields["loss_ratio"].parse::<f64>().unwrap(), loss, "{log}");
        assert_eq!(whole.tags["test"], if is_round_trip { "round-trip" } else { "one-way" }, "{log}");
        let directions: Vec<&str> = points.iter().map(|point| point.tags["direction"].as_str()).collect();
        if is_round_trip && points.len() == 3 {
            assert_eq!(directions, ["both", "up", "down"], "{log}");
        }

        let collectd = text("collectd");
        for line in collectd.lines() {
            let (identifier, value) =
                line.strip_prefix("PUTVAL \"").and_then(|l| l.split_once("\" ")).unwrap();
            let parts: Vec<&str> = identifier.split('/').collect();
            let [_, plugin, kind] = parts[..] else { panic!("{line}") };
            assert!(plugin.starts_with("jitlat-") && kind.starts_with("gauge-"), "{line}");
            let (time, value) = value.split_once(':').unwrap();
            let second = created.unwrap() as f64 / 1e9;
            assert!((time.parse::<f64>().unwrap() - second).abs() < 0.002, "{line}");
            assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
        }
        assert!(collectd.contains("/gauge-packets_sent\""), "{log}");

        let zabbix: Value = serde_json::from_str(&text("zabbix")).unwrap();
        let discovered = zabbix["discovery"].as_array().unwrap();
        assert_eq!(discovered.len(), points.len(), "{log}");
        for stream in discovered {
            let values = &zabbix["streams"][stream["{#STREAM}"].as_str().unwrap()];
            assert_eq!(values["clock"].as_i64(), created.map(|ns| ns.div_euclid(1_000_000_000)), "{log}");
        }
        let values = &zabbix["streams"][discovered[0]["{#STREAM}"].as_str().unwrap()];
        assert_eq!(
            (values["packets_sent"].as_u64(), values["loss_ratio"].as_f64()),
            (Some(sent), Some(loss)),
            "{log}"
        );

        let otlp: Value = serde_json::from_str(&text("otlp")).unwrap();
        let metrics = otlp["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let metric = |name: &str| &metrics.iter().find(|m| m["name"] == name).unwrap()["gauge"]["dataPoints"];
        assert_eq!(metric("jitlat.packets_sent")[0]["asInt"], sent.to_string(), "{log}");
        assert_eq!(metric("jitlat.loss")[0]["asDouble"].as_f64(), Some(loss), "{log}");
        assert_eq!(
            metric("jitlat.loss").as_array().unwrap().len(),
            points.iter().filter(|p| p.fields.contains_key("loss_ratio")).count(),
            "{log}"
        );
        let times = |name: &str| metric(name)[0]["timeUnixNano"].as_str().map(str::to_owned);
        assert_eq!(times("jitlat.packets_sent"), created.map(|ns| ns.to_string()), "{log}");
        // The same figures as numbers of 8 bytes: no shorter than the names.
        let protobuf = jitlat(&["export", log, "--as", "otlp-protobuf"], dir.path());
        let has = |text: &[u8]| protobuf.windows(text.len()).any(|window| window == text);
        assert!(has(b"jitlat.packets_sent") && has(&sent.to_le_bytes()) && has(&loss.to_le_bytes()), "{log}");
    }
}

#[test]
fn collectd_says_which_host_it_is_and_how_often_it_asks() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(JITLAT)
        .args(["export", &format!("{TESTDATA}/b_wan_lossy_v1.log"), "--as", "collectd"])
        .current_dir(dir.path())
        .envs([("COLLECTD_HOSTNAME", "probe.example"), ("COLLECTD_INTERVAL", "60.000")])
        .output()
        .unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    assert!(lines.lines().all(|line| line.starts_with("PUTVAL \"probe.example/jitlat-")), "{lines}");
    assert!(lines.lines().all(|line| line.contains("\" interval=60 ")), "{lines}");
}

//! `jitlat rtp` on captured calls, compared with the packets sent (`testdata/rtp/captures.py`) and with tshark.

use crate::schema;
use crate::side_by_side::side_by_side;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/rtp").join(name)
}

fn rtp(captures: &[PathBuf], more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jitlat")).arg("rtp").args(captures).args(more).output().unwrap()
}

fn json(captures: &[PathBuf], more: &[&str]) -> Value {
    let o = rtp(captures, &[&["--json", "-"], more].concat());
    let json: Value = serde_json::from_slice(&o.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&o.stderr)));
    schema::assert_valid("rtp", &json);
    json
}

#[test]
fn a_signalled_call_is_told_with_what_happened_to_both_directions() {
    let json = json(&[capture("call.pcap")], &[]);
    let call = &json["calls"][0];
    assert_eq!(call["signalling"]["caller"], "alice@example.com");
    assert_eq!(call["signalling"]["called"], "bob@example.org");
    assert_eq!((&call["ssrc_changes"], &call["round_trip_ns"]), (&0.into(), &60_000_000.into()));
    let [up, down] = [0, 1].map(|k| &json["streams"][k]);
    assert_eq!(call["streams"][0], serde_json::json!({ "stream": 0, "direction": "up" }));
    let counts =
        |s: &Value| ["packets", "expected", "lost", "silences", "events"].map(|k| s[k].as_u64().unwrap());
    // A silence of two seconds and a digit on one side, ten losses on the other.
    assert_eq!(counts(up), [400, 400, 0, 1, 1]);
    assert_eq!(counts(down), [490, 500, 10, 0, 0]);
    assert_eq!(up["clock_rate_source"], "signalled");
    assert_eq!(up["summary"]["counts"]["lost"], 0, "an event counts as received");
    assert_eq!(down["summary"]["loss"]["run_length_hist"], serde_json::json!({ "5": 2 }));
    // The queue of 60 ms, and silence that is not jitter.
    let jitter = |s: &Value| s["summary"]["pdv"]["max"].as_i64().unwrap();
    assert!((58_000_000..64_000_000).contains(&jitter(down)) && jitter(up) < 3_000_000);
    let causes: Vec<&str> = down["summary"]["answer"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["id"].as_str().unwrap())
        .collect();
    assert!(causes.contains(&"queue") && causes.contains(&"outage"), "{causes:?}");
    assert!(up["summary"]["answer"]["causes"].as_array().unwrap().is_empty(), "{}", up["summary"]["answer"]);
    // RTCP as reported by the phones.
    assert_eq!(up["rtcp"]["round_trip_ns"]["min"].as_i64().unwrap() / 1_000_000, 40);
    assert_eq!(up["rtcp"]["voip"]["mos_lq"], 4.3);
    assert_eq!(down["rtcp"]["reported"]["lost"], 10);
}

#[test]
fn a_dynamic_type_is_estimated_unless_it_is_given() {
    let s = |more: &[&str]| json(&[capture("opus.pcap")], more)["streams"][0].clone();
    let found = s(&[]);
    assert_eq!((&found["clock_rate"], &found["clock_rate_source"]), (&48_000.into(), &"estimated".into()));
    let counts = ["expected", "lost", "duplicates", "reordered"].map(|k| found[k].as_u64().unwrap());
    assert_eq!(counts, [200, 5, 4, 3]);
    let given = s(&["--payload-type", "111=opus/48000"]);
    assert_eq!(
        (&given["payload_types"][0]["codec"], &given["clock_rate_source"]),
        (&"opus".into(), &"given".into())
    );
    assert_eq!(given["jitter"], found["jitter"]);
    // A wrong clock gives other figures.
    assert_ne!(s(&["--payload-type", "111=opus/16000"])["jitter"], found["jitter"]);
}

#[test]
fn the_screen_the_lines_and_the_conditions_are_those_of_a_call() {
    let call = [capture("call.pcap")];
    let text = |more: &[&str]| String::from_utf8(rtp(&call, more).stdout).unwrap();
    let screen = text(&[]);
    assert!(screen.contains("call from alice@example.com to bob@example.org"), "{screen}");
    assert!(screen.lines().count() <= 23, "{screen}");
    assert_eq!(text(&["-q"]).lines().count(), 1);
    let csv = text(&["--csv", "-"]);
    assert_eq!(csv.lines().count(), 3, "{csv}");
    let code = |more: &[&str]| rtp(&call, more).status.code();
    assert_eq!((code(&["--fail-if", "loss>1%"]), code(&["--fail-if", "loss>5%"])), (Some(1), Some(0)));
    let none = rtp(&[capture("../spp/atm_udp40.ref.pcap")], &[]);
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("no RTP stream"), "{none:?}");
}

#[test]
fn logs_of_streams_give_the_same_figures_again() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("call");
    let whole = json(&[capture("call.pcap")], &["--log", log.to_str().unwrap()]);
    for k in [1, 2] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jitlat"));
        let o = command
            .arg("analyze")
            .arg(folder.path().join(format!("call.{k}")))
            .args(["--json", "-"])
            .output()
            .unwrap();
        let again: Value = serde_json::from_slice(&o.stdout).unwrap();
        let before = &whole["streams"][k - 1]["summary"];
        for key in ["counts", "pdv", "ipdv", "loss", "rfc3550"] {
            assert_eq!(again[key], before[key], "{key}");
        }
    }
}

#[test]
fn two_points_give_one_way_delays() {
    // The same call recorded 5 ms later, by a clock that is an hour ahead.
    let folder = tempfile::tempdir().unwrap();
    let far = folder.path().join("far.pcap");
    let mut bytes = fs::read(capture("call.pcap")).unwrap();
    let mut at = 24;
    while at < bytes.len() {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let (length, up) = (word(at + 8) as usize, bytes[at + 28] == 192);
        // From A, packets arrive later; from B, they were there earlier.
        let micros =
            i64::from(word(at)) * 1_000_000 + i64::from(word(at + 4)) + if up { 5000 } else { -5000 };
        let micros = micros + 3_600_000_000;
        bytes[at..at + 4].copy_from_slice(&((micros / 1_000_000) as u32).to_le_bytes());
        bytes[at + 4..at + 8].copy_from_slice(&((micros % 1_000_000) as u32).to_le_bytes());
        at += 16 + length;
    }
    fs::write(&far, bytes).unwrap();
    let json = json(&[capture("call.pcap"), far], &[]);
    for k in [0, 1] {
        let between = &json["streams"][k]["between"];
        assert_eq!(between["counts"]["lost"], 0);
        let delay = between["latency_corrected"]["min"].as_i64().unwrap();
        assert!((4_900_000..5_100_000).contains(&delay), "{delay}");
    }
}

/// Figures of each stream by SSRC, as of tshark: packets, lost packets, and in ms the largest gap, the mean jitter and
/// the largest jitter.
type Counted = BTreeMap<String, [f64; 5]>;

fn by_tshark(file: &Path) -> Option<Counted> {
    let o = Command::new("tshark")
        .args(["-n", "-q", "-z", "rtp,streams", "--enable-heuristic", "rtp_udp", "-r"])
        .arg(file)
        .output()
        .ok()?;
    let line = |line: &str| {
        let at = line.find("0x")?;
        let ssrc = line.get(at + 2..at + 10)?.to_lowercase();
        // The name of the codec may contain spaces: numbers are counted from the end.
        let rest = line.get(at + 10..)?.trim_end_matches(['X', ' ']);
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [.., packets, lost, _, _, _, max_delta, _, mean, max] = words[..] else { return None };
        let number = |text: &str| text.parse::<f64>().ok();
        Some((ssrc, [number(packets)?, number(lost)?, number(max_delta)?, number(mean)?, number(max)?]))
    };
    Some(String::from_utf8_lossy(&o.stdout).lines().filter_map(line).collect())
}

fn by_jitlat(file: &Path) -> Counted {
    let json = json(&[file.to_owned()], &[]);
    let of = |s: &Value| {
        let ssrc = format!("{:08x}", s["ssrc"].as_u64().unwrap());
        let number = |v: &Value| v.as_f64().unwrap_or(0.0);
        let lost = number(&s["expected"]) - number(&s["packets"]);
        let ms = |v: &Value| number(v) / 1e6;
        let jitter = &s["jitter"];
        (
            ssrc,
            [
                number(&s["packets"]),
                lost,
                ms(&s["max_delta_ns"]),
                ms(&jitter["mean_ns"]),
                ms(&jitter["max_ns"]),
            ],
        )
    };
    json["streams"].as_array().unwrap().iter().map(of).collect()
}

/// Writes a capture of streams with losses, jitter, silences, duplicates and reordering that depend only on `seed`.
fn write_streams(seed: u64, file: &Path) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut packets: Vec<(u64, Vec<u8>)> = Vec::new();
    for stream in 0..2 + random(5) as u8 {
        let (kind, rate, step) =
            [(0, 8000, 160), (8, 8000, 240), (9, 8000, 160), (18, 8000, 80)][random(4) as usize];
        let (loss, jitter, silence) =
            ([0, 5, 50][random(3) as usize], [1, 3000, 15_000][random(3) as usize], random(2));
        let (twice, late) = (10 * random(2), 10 * random(2));
        let (mut number, mut timestamp) = (random(65_536) as u16, random(1 << 32) as u32);
        let (mut at, ssrc) = (random(1_000_000), random(1 << 32) as u32);
        let mut marker = 1;
        for k in 0..200 + random(2000) {
            let mut ip =
                vec![0x45, 0, 0, 200, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, stream, 198, 51, 100, stream];
            ip.extend([0x0f, 0xa0, 0x13, 0x88, 0, 180, 0, 0, 0x80, kind | marker << 7]);
            ip.extend(number.to_be_bytes());
            ip.extend(timestamp.to_be_bytes());
            ip.extend(ssrc.to_be_bytes());
            ip.resize(200, 0);
            if k < 10 || random(1000) >= loss {
                let extra = if k > 10 && random(1000) < late { 50_000 } else { 0 };
                let arrived = at + random(jitter) + extra;
                if random(1000) < twice {
                    packets.push((arrived + 700, ip.clone()));
                }
                packets.push((arrived, ip));
            }
            marker = 0;
            let steps = if silence == 1 && random(100) == 0 { 20 + random(100) as u32 } else { 1 };
            marker |= u8::from(steps > 1);
            number = number.wrapping_add(1);
            timestamp = timestamp.wrapping_add(step * steps);
            at += u64::from(step * steps) * 1_000_000 / rate;
        }
    }
    packets.sort_by_key(|(at, _)| *at);
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 65_535, 101] {
        bytes.extend(word.to_le_bytes());
    }
    for (at, ip) in packets {
        let words = [1_700_000_000 + (at / 1_000_000) as u32, (at % 1_000_000) as u32, 200, 200];
        bytes.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        bytes.extend(ip);
    }
    fs::write(file, bytes).unwrap();
}

/// Compares with `tshark -z rtp,streams`: packets and losses exactly, times to its rounding. Skipped if tshark is not
/// installed, unless `JITLAT_REQUIRE_PEERS` is set.
#[test]
fn the_figures_are_those_of_tshark() {
    let folder = tempfile::tempdir().unwrap();
    let streams = if std::env::var_os("JITLAT_FULL").is_some() { 100 } else { 2 };
    for seed in 0..streams {
        let file = folder.path().join("streams.pcap");
        write_streams(seed, &file);
        let Some(theirs) = by_tshark(&file) else {
            assert!(std::env::var_os("JITLAT_REQUIRE_PEERS").is_none(), "tshark is not installed");
            println!("skipped: tshark is not installed");
            return;
        };
        let ours = by_jitlat(&file);
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "seed {seed}");
        for (ssrc, own) in &ours {
            let their = theirs[ssrc];
            assert_eq!(own[..2], their[..2], "seed {seed}, source {ssrc}: packets, lost");
            for (own, their) in own[2..].iter().zip(&their[2..]) {
                assert!((own - their).abs() < 0.0016, "seed {seed}, source {ssrc}: {ours:?} {theirs:?}");
            }
        }
    }
}

/// Returns the captures in a folder and its subfolders.
fn captures_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries
        .flat_map(|path| match path.is_dir() {
            true => captures_in(&path),
            false => vec![path],
        })
        .filter(|path| path.to_string_lossy().contains(".pcap"))
        .collect();
    found.sort();
    found
}

/// Compares every capture of the repository with tshark; with `JITLAT_FULL` only.
#[test]
fn the_streams_of_every_capture_are_those_of_tshark() {
    if std::env::var_os("JITLAT_FULL").is_none() {
        return;
    }
    let all = captures_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata"));
    assert!(all.len() >= 60, "{all:?}");
    let compared = AtomicUsize::new(0);
    side_by_side(4, &all, |file| {
        let Some(theirs) = by_tshark(file) else {
            assert!(std::env::var_os("JITLAT_REQUIRE_PEERS").is_none(), "tshark is not installed");
            return;
        };
        let none = String::from_utf8_lossy(&rtp(std::slice::from_ref(file), &["-q"]).stderr)
            .contains("no RTP stream");
        let ours = if none { Counted::new() } else { by_jitlat(file) };
        for (ssrc, own) in &ours {
            let their = theirs.get(ssrc).unwrap_or_else(|| panic!("{}: {ssrc} is no stream", file.display()));
            assert_eq!(own[..2], their[..2], "{}, source {ssrc}: packets, lost", file.display());
            compared.fetch_add(1, Ordering::Relaxed);
        }
        // tshark's heuristics also take other UDP packets with a suitable first byte for RTP streams, each of a few
        // packets.
        for (ssrc, their) in theirs.iter().filter(|(ssrc, _)| !ours.contains_key(*ssrc)) {
            assert!(their[0] < 8.0, "{}: {ssrc} is a stream, {their:?}", file.display());
        }
    });
    let compared = compared.into_inner();
    assert!(compared >= 3, "{compared}");
}

#[test]
fn a_dump_may_be_compressed_and_options_without_effect_are_refused() {
    use std::io::Write;
    use std::process::Stdio;
    let folder = tempfile::tempdir().unwrap();
    let entry = |values: &str| serde_json::json!({ "statsType": "inbound-rtp", "values": values });
    let stats =
        serde_json::json!({ "IT1-packetsReceived": entry("[950]"), "IT1-packetsLost": entry("[50]") });
    let dump = serde_json::json!({ "PeerConnections": { "1-1": { "stats": stats } } }).to_string();
    let marked = folder.path().join("marked.json");
    fs::write(&marked, format!("\u{feff} \n{dump}")).unwrap();
    let plain = folder.path().join("dump.json");
    fs::write(&plain, &dump).unwrap();
    assert!(Command::new("gzip").arg(&plain).status().unwrap().success());
    let packed = folder.path().join("dump.json.gz");
    for file in [&marked, &packed] {
        let o = rtp(std::slice::from_ref(file), &["-q"]);
        assert_eq!(o.status.code(), Some(0), "{o:?}");
        let line = String::from_utf8_lossy(&o.stdout).into_owned();
        assert!(line.contains("missing packets"), "{line}");
        // Standard input, and an option that has no effect.
        let mut child = Command::new(env!("CARGO_BIN_EXE_jitlat"))
            .args(["rtp", "-", "-q"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&fs::read(file).unwrap()).unwrap();
        assert_eq!(String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout), line);
        let refused = rtp(std::slice::from_ref(file), &["--log", "l"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("--log"), "{refused:?}");
    }
    // A capture on standard input is still recognised.
    let mut child = Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .args(["rtp", "-", "-q"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&fs::read(capture("call.pcap")).unwrap()).unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, rtp(&[capture("call.pcap")], &["-q"]).stdout);
}

#[test]
fn the_statistics_of_a_browser_are_read_as_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump.json");
    let entry = |values: &str| serde_json::json!({ "statsType": "inbound-rtp", "values": values });
    let stats = serde_json::json!({
        "IT1-packetsReceived": entry("[100,950]"),
        "IT1-packetsLost": entry("[0,50]"),
        "IT1-kind": entry("[\"audio\"]"),
        "IT1-jitter": entry("[0.004,0.012]"),
    });
    fs::write(&dump, serde_json::json!({ "PeerConnections": { "1-1": { "stats": stats } } }).to_string())
        .unwrap();
    let o = rtp(std::slice::from_ref(&dump), &["--json", "-"]);
    let json: Value = serde_json::from_slice(&o.stdout).unwrap();
    schema::assert_valid("webrtc", &json);
    assert_eq!(
        (&json["severity"], &json["connections"][0]["streams"][0]["lost"]),
        (&"poor".into(), &50.into())
    );
    let screen = String::from_utf8(rtp(std::slice::from_ref(&dump), &[]).stdout).unwrap();
    assert!(screen.contains("1 audio received") && screen.contains("5.0 %"), "{screen}");
    fs::write(&dump, "{}").unwrap();
    let refused = rtp(std::slice::from_ref(&dump), &[]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("PeerConnections"), "{refused:?}");
}

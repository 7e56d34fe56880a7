//! Reports of captures as they occur in the field, made from known traffic (`testdata/field`).

use crate::schema;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/field").join(format!("{name}.pcap.gz"))
}

fn jitlat<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jitlat")).args(arguments).output().unwrap()
}

/// Returns the JSON of `jitlat tcp` for one capture.
fn tcp(name: &str) -> Value {
    let path = capture(name);
    let output = jitlat(["tcp".as_ref(), path.as_os_str(), "--json".as_ref(), "-".as_ref()]);
    let json: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{name}: {e}: {output:?}"));
    schema::assert_valid("tcp", &json);
    json
}

/// Returns the JSON of `jitlat spp` for two captures, `NAME_a` and `NAME_b`.
fn spp(name: &str) -> Value {
    let [a, b] = ["a", "b"].map(|point| capture(&format!("{name}_{point}")));
    let output = jitlat([
        "spp".as_ref(),
        "-f".as_ref(),
        a.as_os_str(),
        "-F".as_ref(),
        b.as_os_str(),
        "--json".as_ref(),
        "-".as_ref(),
    ]);
    let json: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{name}: {e}: {output:?}"));
    schema::assert_valid("spp", &json);
    json
}

fn causes(answer: &Value) -> Vec<&str> {
    answer["causes"].as_array().unwrap().iter().filter_map(|cause| cause["id"].as_str()).collect()
}

fn ns(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value}"))
}

const MS: i64 = 1_000_000;

#[test]
fn a_clock_that_was_set_is_the_only_cause() {
    for (name, by) in [("step_leap", -1_000 * MS), ("step_back", -3_600_000 * MS)] {
        let json = tcp(name);
        assert_eq!(causes(&json["answer"]), ["capture-clock"], "{name}");
        let cause = &json["answer"]["causes"][0];
        assert!((ns(&cause["magnitude_ns"]) - by).abs() < 15 * MS, "{name}: {cause}");
        assert!((0.5..0.8).contains(&cause["from_s"].as_f64().unwrap()), "{name}: {cause}");
        let rtt = &json["connections"][0]["up"]["rtt_ack_ns"];
        assert_eq!((ns(&rtt["min"]), ns(&rtt["max"])), (50 * MS, 50 * MS), "{name}");
        let path = capture(name);
        let output = jitlat(["spp".as_ref(), "--one-point".as_ref(), path.as_os_str()]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("clock was set back by") && !text.contains("-9"), "{name}: {text}");
    }
}

#[test]
fn two_points_show_a_clock_that_was_set_and_undisturbed_delays() {
    let json = spp("s_step100ms");
    let [step] = &json["clock_steps"].as_array().unwrap()[..] else { panic!("{}", json["clock_steps"]) };
    assert!((ns(&step["by_ns"]).abs() - 100 * MS).abs() < 2 * MS, "{step}");
    for (way, direction) in [("out", 0), ("in", 1)] {
        let variation = &json["summary"][way]["delay_variation_ns"];
        assert!(ns(&variation["max"]) < 5 * MS, "{way}: {variation}");
        assert_eq!(causes(&json["directions"][direction]["answer"]), ["capture-clock"], "{way}");
    }
    assert!(
        json["summary"]["clocks"]["offset_bound_ns"].as_f64().unwrap() > 15e6,
        "{}",
        json["summary"]["clocks"]
    );
}

#[test]
fn waits_that_no_acknowledgement_bounds_are_no_queue() {
    for name in ["chat_full", "chat_noacks"] {
        let json = tcp(name);
        assert_eq!(json["answer"]["severity"], "good", "{name}");
        let headline = json["answer"]["headline"].as_str().unwrap();
        assert!(!headline.contains("queue"), "{name}: {headline}");
    }
    // Only the handshake shows a round trip.
    let json = tcp("chat_noacks");
    let down = &json["connections"][0]["down"]["rtt_ack_ns"];
    assert!(ns(&down["count"]) == 1 && ns(&down["max"]) < MS, "{down}");
}

#[test]
fn probes_of_a_closed_window_are_no_losses() {
    let json = tcp("zwp");
    let up = &json["connections"][0]["up"];
    assert_eq!(
        (&up["retransmissions"], &up["lost_after"], &up["keep_alives"]),
        (&0.into(), &0.into(), &20.into())
    );
    assert_eq!(json["connections"][0]["down"]["zero_windows"], 20);
}

#[test]
fn times_below_the_resolution_are_not_said_to_be_known() {
    let json = tcp("coarse_10ms");
    assert_eq!(ns(&json["recording"]["resolution_ns"]), 10 * MS);
    let output = jitlat(["tcp".as_ref(), capture("coarse_10ms").as_os_str()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("< 10") && text.contains("steps of 10") && !text.contains(" 0 ns"), "{text}");
}

#[test]
fn packets_recorded_on_both_sides_of_a_router_count_once() {
    for (base, router) in [("d_base", "d_router"), ("d6_base", "d6_router")] {
        let (base, router) = (tcp(base), tcp(router));
        assert_eq!((&base["recording"]["copies"], &router["recording"]["copies"]), (&0.into(), &128.into()));
        assert_eq!(router["segments"], base["segments"]);
        assert_eq!(causes(&router["answer"]), causes(&base["answer"]));
        let [plain, twice] = [&base, &router].map(|json| &json["connections"][0]["up"]);
        for count in ["retransmissions", "duplicates", "lost_after", "unique_bytes", "rtt_ack_ns"] {
            assert_eq!(twice[count], plain[count], "{count}");
        }
        assert_eq!(twice["retransmissions"], 5);
    }
}

#[test]
fn fragments_are_matched_as_their_packets() {
    let json = spp("s_frag");
    for way in ["out", "in"] {
        let counts = &json["summary"][way];
        assert_eq!((&counts["matched"], &counts["lost"]), (&400.into(), &0.into()), "{way}");
    }
    assert_eq!(json["captures"]["monitor"]["recording"]["reassembled"], 400);
    assert!(ns(&json["summary"]["rtt_ns"]["median"]) < 45 * MS);
}

#[test]
fn connections_in_tunnels_are_analysed() {
    let base = tcp("d_base");
    for name in ["vxlan", "gre", "erspan2", "geneve", "gtpu"] {
        let json = tcp(name);
        assert_eq!(json["recording"]["tunnelled"], json["segments"], "{name}");
        let [plain, inside] = [&base, &json].map(|json| &json["connections"][0]);
        for count in ["segments", "retransmissions", "rtt_ack_ns"] {
            assert_eq!(inside["up"][count], plain["up"][count], "{name}: {count}");
        }
    }
}

/// Checks that one sentence states why a capture cannot be analysed.
#[test]
fn captures_without_packets_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let header = words(&[0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 20, 1]);
    let short =
        [&words(&[1, 0, 20, 60])[..], &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 46, 0, 1]]
            .concat();
    let block = |kind: u32, body: &[u8]| {
        let length = 12 + body.len() as u32;
        [&words(&[kind, length])[..], body, &words(&[length])].concat()
    };
    let section = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    let packet = words(&[0, 0, 0, 20, 20, 0x45, 0, 0, 0, 0]);
    let files = [
        ("empty", Vec::new(), "is empty"),
        ("header", header.clone(), "no packets"),
        ("snap", [&header[..], &short.repeat(5)].concat(), "cut before the end of their headers"),
        (
            "no-interface",
            [&section[..], &block(6, &packet)].concat(),
            "without the description of any interface",
        ),
        (
            "simple",
            [&section[..], &block(1, &words(&[101, 0])), &block(3, &words(&[20, 0x45, 0, 0, 0, 0]))].concat(),
            "without a timestamp",
        ),
    ];
    for (name, bytes, why) in files {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        for command in [&["tcp"][..], &["spp", "--one-point"]] {
            let output = jitlat(command.iter().map(std::ffi::OsStr::new).chain([path.as_os_str()]));
            let text = String::from_utf8(output.stderr).unwrap();
            let said = text.contains(why) || name == "snap" && text.contains("no TCP or QUIC");
            assert!(output.status.code() == Some(2) && said && text.lines().count() <= 3, "{name}: {text}");
        }
    }
}

#[test]
#[cfg(unix)]
fn a_file_name_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9.pcap.gz"));
    std::fs::copy(capture("d_base"), &path).unwrap();
    for command in [&["tcp"][..], &["spp", "--one-point"]] {
        let output = jitlat(command.iter().map(std::ffi::OsStr::new).chain([path.as_os_str()]));
        assert!(output.status.success(), "{output:?}");
    }
    let json = folder.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9.json"));
    let output = jitlat(["tcp".as_ref(), path.as_os_str(), "--json".as_ref(), json.as_os_str()]);
    assert!(output.status.success() && json.exists(), "{output:?}");
    // Every command that reads or writes a file.
    let named = |name: &str| {
        let bytes: Vec<u8> = name.bytes().map(|b| if b == b'@' { 0xe9 } else { b }).collect();
        folder.path().join(std::ffi::OsStr::from_bytes(&bytes))
    };
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    for (from, to) in [
        ("a_loopback_v1.log", "a@.log"),
        ("rtp/call.pcap", "call@.pcap"),
        ("spp/htb_udp340.ref.pcap", "ref@.pcap"),
        ("spp/htb_udp340.mon.pcap", "mon@.pcap"),
    ] {
        std::fs::copy(testdata.join(from), named(to)).unwrap();
    }
    for (line, written) in [
        ("-f a@.log --json 1@ --html 2@ --csv 3@ --plots 4@", "1@ 2@ 3@ 4@"),
        ("analyze a@.log a@.log --json 5@", "5@"),
        ("export a@.log --as csv=6@", "6@"),
        ("rtp call@.pcap --json 7@ --html 8@ --csv 9@", "7@ 8@ 9@"),
        ("spp -f ref@.pcap -F mon@.pcap --json a@ --html b@", "a@ b@"),
        ("spp -f ref@.pcap -F mon@.pcap --write-plan c@", "c@"),
        ("spp -f ref@.pcap -F mon@.pcap --plan c@", ""),
        ("spp --one-point caf@.pcap.gz --json d@", "d@"),
        ("tcp call@.pcap mon@.pcap", ""),
        ("archive add e@ a@.log", "e@"),
        ("archive ls e@", ""),
        ("analyze --dataset e@", ""),
        ("man f@", "f@"),
    ] {
        let words = line.split(' ').map(|word| {
            let (format, name) = word.split_once('=').map_or(("", word), |(_, name)| ("csv=", name));
            let mut typed = std::ffi::OsString::from(format);
            typed.push(if name.contains('@') { named(name).into_os_string() } else { name.into() });
            typed
        });
        let output = jitlat(words);
        let text = String::from_utf8_lossy(&output.stderr);
        let said = output.status.success() || text.contains("no TCP segment");
        assert!(said && !text.contains("UTF-8"), "{line}: {text}");
        assert!(written.split_whitespace().all(|name| named(name).exists()), "{line}: {text}");
    }
    // The command that is proposed can be pasted.
    let text = String::from_utf8(jitlat(["tcp".as_ref(), path.as_os_str()]).stdout).unwrap();
    assert!(text.contains(r"caf\xe9.pcap.gz'"), "{text}");
}

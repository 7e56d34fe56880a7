//! `jitlat tcp` on captures of an upload through a queue of 30 packets: 33 of 807 segments were lost between the two
//! points.

use crate::schema;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn tcp(name: &str, more: &[&str]) -> Output {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/spp").join(name);
    Command::new(env!("CARGO_BIN_EXE_jitlat")).arg("tcp").arg(path).args(more).output().unwrap()
}

#[test]
fn losses_lie_on_the_right_side_of_the_point() {
    let up = |name| {
        let o = tcp(name, &["--json", "-"]);
        let json: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
        schema::assert_valid("tcp", &json);
        json["connections"][0]["up"].clone()
    };
    let (near, far) = (up("atm_tcp_up.ref.pcap"), up("atm_tcp_up.mon.pcap"));
    assert_eq!((&near["segments"], &far["segments"]), (&807.into(), &774.into()));
    assert_eq!((&near["lost_after"], &near["lost_before"]), (&33.into(), &0.into()));
    assert_eq!(&far["lost_after"], &serde_json::json!(0));
    assert!(far["lost_before"].as_u64().unwrap() >= 32, "{far}");
    assert_eq!(near["unique_bytes"], far["unique_bytes"]);
    // The queue before the slow link takes seconds, the path without the queue 20 ms.
    let rtt = &near["rtt_timestamp_ns"];
    assert!(
        rtt["median"].as_i64().unwrap() > 2_000_000_000 && rtt["min"].as_i64().unwrap() < 25_000_000,
        "{rtt}"
    );
}

#[test]
fn events_are_lines_and_nothing_is_said_of_what_is_not_tcp() {
    let o = tcp("atm_tcp_up.ref.pcap", &["--events"]);
    let text = String::from_utf8(o.stdout).unwrap();
    assert_eq!(text.lines().filter(|l| l.contains("retransmission")).count(), 33);
    let first: Vec<_> = text.lines().next().unwrap().split(' ').collect();
    assert_eq!((first.len(), first[2]), (6, "10.77.2.2:5022"));
    let o = tcp("atm_udp40.ref.pcap", &[]);
    assert_eq!(o.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&o.stderr).contains("no TCP segment"));
}

#[test]
fn two_points_tell_where_segments_were_lost_and_where_they_waited() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/spp");
    let two = |more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_jitlat"))
            .arg("tcp")
            .args([dir.join("atm_tcp_up.ref.pcap"), dir.join("atm_tcp_up.mon.pcap")])
            .args(more)
            .output()
            .unwrap()
    };
    let json: serde_json::Value = serde_json::from_slice(&two(&["--json", "-"]).stdout).unwrap();
    schema::assert_valid("tcp", &json);
    let c = &json["connections"][0];
    let (up, down) = (&c["between"]["up"], &c["between"]["down"]);
    assert_eq!(
        (&up["lost_before"], &up["lost_between"], &up["at_both"]),
        (&0.into(), &33.into(), &774.into())
    );
    assert_eq!(
        (&up["lost_after"], &down["lost_between"], &down["at_both"]),
        (&0.into(), &0.into(), &751.into())
    );
    // The whole queue is between the points.
    assert!(up["delay_variation_median_ns"].as_f64().unwrap() > 2e9, "{up}");
    assert!(down["delay_variation_p95_ns"].as_f64().unwrap() < 2e6, "{down}");
    let explanation = c["explained"].to_string();
    assert!(
        explanation.contains("the path contributes most") && explanation.contains("33 packets lost between"),
        "{explanation}"
    );
    let text = String::from_utf8(two(&["-v"]).stdout).unwrap();
    assert!(text.contains("lost between them                     33"), "{text}");

    let plots = tempfile::tempdir().unwrap();
    assert!(two(&["--plots", plots.path().to_str().unwrap()]).status.success());
    for name in ["tcp-up-rtt.svg", "tcp-up-flight.png", "variation.svg"] {
        assert!(plots.path().join(name).exists(), "{name}");
    }
    // Captures without common packets are read in sequence, as those of one point.
    let o = Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .arg("tcp")
        .args([dir.join("atm_tcp_up.ref.pcap"), dir.join("htb_tcp_up.ref.pcap")])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&o.stdout).contains("2 connections"), "{o:?}");
}

/// Returns the output of `line` in the folder of the captures; checks that it fits one screen.
fn one_screen(line: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .args(line.split(' '))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/spp"))
        .env("COLUMNS", "80")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let page = String::from_utf8(output.stdout).unwrap();
    let fits = page.lines().count() <= 23 && page.lines().all(|l| l.chars().count() <= 80);
    // The verdict line of -q is not wrapped.
    assert!(fits || line.ends_with("-q"), "{page}");
    page
}

#[test]
fn connections_are_one_screen() {
    insta::assert_snapshot!(one_screen("tcp atm_tcp_up.ref.pcap atm_tcp_up.mon.pcap"));
    insta::assert_snapshot!(
        "two_connections_are_one_screen",
        one_screen("tcp atm_tcp_up.ref.pcap htb_tcp_up.mon.pcap")
    );
    let brief = one_screen("tcp atm_tcp_up.ref.pcap -q");
    assert!(
        brief.lines().count() == 1 && brief.starts_with("Bad: data waits up to 3.2 s in a queue"),
        "{brief}"
    );
}

#[test]
fn the_answer_names_the_queue_and_its_losses() {
    let o = tcp("atm_tcp_up.ref.pcap", &["--json", "-"]);
    let json: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    let answer = &json["answer"];
    assert_eq!((&answer["severity"], &answer["complete"]), (&"bad".into(), &true.into()));
    let ids: Vec<&str> =
        answer["causes"].as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["queue", "random-loss"]);
    assert_eq!(answer["causes"][0]["direction"], "up");
}

/// Each capture in `testdata/tcp` shows one kind of event; `expected.tsv` has the counts of both directions together,
/// checked once against tshark and tcptrace (docs/guide/tcp-tools.md).
#[test]
fn what_happened_to_a_connection_is_counted() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tcp");
    let expected = std::fs::read_to_string(dir.join("expected.tsv")).unwrap();
    let mut lines = expected.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let mut captures = 0;
    for line in lines {
        let o = Command::new(env!("CARGO_BIN_EXE_jitlat"))
            .arg("tcp")
            .arg(dir.join(format!("{}.pcap", line[0])))
            .args(["--json", "-"])
            .output()
            .unwrap();
        let json: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
        for (name, value) in names.iter().zip(&line).skip(1) {
            let count = |way: &str| json["connections"][0][way][name].as_u64().unwrap();
            assert_eq!(&(count("up") + count("down")).to_string(), value, "{}: {name}", line[0]);
        }
        captures += 1;
    }
    assert_eq!(captures, std::fs::read_dir(&dir).unwrap().filter(is_capture).count());
}

fn is_capture(entry: &std::io::Result<std::fs::DirEntry>) -> bool {
    entry.as_ref().is_ok_and(|e| e.path().extension().is_some_and(|ending| ending == "pcap"))
}

/// By timestamps, a point at the client sees the path's 20 ms on the server's side, and almost nothing on the
/// client's side.
#[test]
fn one_point_gives_round_trips_by_timestamps() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tcp/clean.pcap");
    let spp = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jitlat"));
        command.arg("spp").arg("--one-point").arg(&capture).args(more).output().unwrap()
    };
    let o = spp(&["--json", "-"]);
    let json: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    schema::assert_valid("one-point", &json);
    let flow = &json["flows"][0];
    assert_eq!((&flow["protocol"], &flow["why_not"]), (&"tcp".into(), &serde_json::Value::Null));
    let server = flow["server_rtt_ns"]["median"].as_i64().unwrap();
    assert!((20_000_000..40_000_000).contains(&server), "{flow}");
    let text = String::from_utf8(spp(&[]).stdout).unwrap();
    assert!(text.contains("to the server and back"), "{text}");
    // Without the option there is nothing to measure, which is reported.
    let o = Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .args(["spp", "--one-point"])
        .arg(capture.with_file_name("no-timestamps.pcap"))
        .output()
        .unwrap();
    assert_eq!(o.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&o.stdout).contains("no timestamp was echoed"));
}

fn jitlat_tcp<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jitlat")).arg("tcp").args(arguments).output().unwrap()
}

/// Analyses `captures` in `of` parts and joins them in another order.
fn joined(folder: &Path, captures: &[PathBuf], of: usize, ways: &[&[&str]]) -> Vec<Output> {
    let state = |k: usize| folder.join(format!("{k}.part"));
    for k in 1..=of {
        let own =
            ["--keep".to_owned(), format!("{k}/{of}"), "--state".to_owned(), state(k).display().to_string()];
        let captures = captures.iter().map(|path| path.display().to_string());
        let o = jitlat_tcp(captures.chain(own));
        assert!(o.status.success(), "{k}/{of}: {o:?}");
    }
    let states: Vec<String> = (1..=of).rev().map(|k| state(k).display().to_string()).collect();
    let join = |more: &&[&str]| {
        let states = states.iter().map(String::as_str);
        jitlat_tcp(["--join"].into_iter().chain(states).chain(more.iter().copied()))
    };
    ways.iter().map(join).collect()
}

/// Writes all packets of these captures to one file.
fn one_file(folder: &Path, name: &str, captures: &[&str]) -> PathBuf {
    let read = |name: &&str| {
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/spp").join(name)).unwrap()
    };
    let files: Vec<Vec<u8>> = captures.iter().map(read).collect();
    let mut whole = files[0][..24].to_vec();
    files.iter().for_each(|file| whole.extend(&file[24..]));
    let path = folder.join(name);
    std::fs::write(&path, whole).unwrap();
    path
}

#[test]
fn parts_joined_are_the_whole_line_for_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let near = one_file(folder.path(), "near.pcap", &["atm_tcp_up.ref.pcap", "htb_tcp_up.ref.pcap"]);
    let far = one_file(folder.path(), "far.pcap", &["atm_tcp_up.mon.pcap", "htb_tcp_up.mon.pcap"]);
    let spp = |name: &str| data.join("spp").join(name);
    // A folder with seventeen connections, one capture, two points, and two points with two connections.
    let mut captures = vec![
        (vec![data.join("tcp")], vec![1, 2, 3, 8]),
        (vec![near.clone()], vec![2, 5]),
        (vec![spp("atm_tcp_up.ref.pcap"), spp("atm_tcp_up.mon.pcap")], vec![2]),
        (vec![spp("htb_tcp_up.ref.pcap"), spp("htb_tcp_up.mon.pcap")], vec![3]),
        (vec![near, far], vec![2, 3]),
    ];
    for entry in std::fs::read_dir(data.join("tcp")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ext| ext == "pcap") {
            captures.push((vec![path], vec![2]));
        }
    }
    for (captures, splits) in captures {
        let mut ways: Vec<&[&str]> = vec![&["-q"], &["-v", "--top", "0"], &["--json", "-"]];
        if captures.len() == 1 {
            ways.push(&["-e"]);
        }
        let whole = |way: &&[&str]| {
            let captures = captures.iter().map(|path| path.to_str().unwrap());
            jitlat_tcp(captures.chain(way.iter().copied()))
        };
        let whole: Vec<Output> = ways.iter().map(whole).collect();
        for of in splits {
            for ((joined, whole), way) in
                joined(folder.path(), &captures, of, &ways).iter().zip(&whole).zip(&ways)
            {
                assert!(whole.status.success(), "{captures:?} {way:?}: {whole:?}");
                let (status, notes) = (joined.status, String::from_utf8_lossy(&joined.stderr));
                assert_eq!((status, &*notes), (whole.status, &*String::from_utf8_lossy(&whole.stderr)));
                assert!(joined.stdout == whole.stdout, "{captures:?} in {of} parts, {way:?}");
            }
        }
    }
}

#[test]
fn parts_that_are_not_one_whole_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tcp");
    let part = |capture: &str, keep: &str, more: &[&str]| {
        let state = folder.path().join(format!("{capture}{}{}", keep.replace('/', "-"), more.concat()));
        let capture = data.join(capture);
        let own = [capture.to_str().unwrap(), "--keep", keep, "--state", state.to_str().unwrap()];
        assert!(jitlat_tcp(own.into_iter().chain(more.iter().copied())).status.success());
        state
    };
    let join = |parts: &[&PathBuf]| {
        let o = jitlat_tcp([&PathBuf::from("--join")].into_iter().chain(parts.iter().copied()));
        (o.status.code(), String::from_utf8_lossy(&o.stderr).into_owned())
    };
    let [a, b] = ["1/2", "2/2"].map(|keep| part("clean.pcap", keep, &[]));
    assert_eq!(join(&[&b, &a]).0, Some(0));
    let (other, port) = (part("loss.pcap", "2/2", &[]), part("clean.pcap", "2/2", &["--port", "5001"]));
    for (parts, why) in [
        (vec![&a], "part 2/2 is missing"),
        (vec![&a, &b, &b], "part 2/2 was given twice"),
        (vec![&a, &other], "belong to different captures"),
        (vec![&a, &port], "belong to different captures"),
        (vec![&data.join("README.md")], "not a state file of a part"),
    ] {
        let (code, text) = join(&parts);
        assert!(code == Some(2) && text.contains(why), "{text}");
    }
}

/// Returns round trips by the spin bit, from tshark's reading of a capture of a real connection.
fn turns(tsv: &str) -> Vec<i64> {
    let mut found = Vec::new();
    for host in ["192.0.2.1", "192.0.2.2"] {
        let (mut before, mut edge) = (None, None);
        for fields in tsv.lines().map(|l| l.split('\t').collect::<Vec<_>>()).filter(|f| f[1] == host) {
            let at = fields[0].replace('.', "").parse::<i64>().unwrap();
            if before.replace(fields[2]).is_some_and(|bit| bit != fields[2])
                && let Some(last) = edge.replace(at)
            {
                found.push(at - last);
            }
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn one_point_gives_round_trips_by_the_spin_bit_of_a_real_connection() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/quic");
    let turns = turns(&std::fs::read_to_string(folder.join("spin.tsv")).unwrap());
    let output = Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .args(["spp", "--json", "-", "--one-point"])
        .arg(folder.join("spin.pcap"))
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    schema::assert_valid("one-point", &json);
    let flow = &json["flows"][0];
    assert_eq!((&flow["protocol"], &flow["packets"]), (&"quic".into(), &180.into()));
    let whole = |name: &str| flow["whole_rtt_ns"][name].as_i64().unwrap();
    assert_eq!(whole("count"), turns.len() as i64);
    assert_eq!((whole("min"), whole("max")), (turns[0], turns[turns.len() - 1]));
    assert!(turns.contains(&whole("median")), "{flow}");
    // 20 ms of path in each direction are beyond the point; before it is only the client's processing time.
    let [server, client] = ["server_rtt_ns", "client_rtt_ns"].map(|part| flow[part]["min"].as_i64().unwrap());
    assert!((40_000_000..50_000_000).contains(&server) && (0..10_000_000).contains(&client), "{flow}");
}

/// Counts of all connections of a capture together.
#[derive(Debug, Default, PartialEq)]
struct TcpCounts {
    segments: u64,
    copies: u64,
    bytes: u64,
    /// Retransmissions and segments out of order: programs differ in which of the two a segment is.
    again: u64,
    duplicate_acks: u64,
    probes: u64,
}

fn counted_by_jitlat(file: &Path) -> TcpCounts {
    let output = jitlat_tcp([file.as_os_str(), "--one-point".as_ref(), "--json".as_ref(), "-".as_ref()]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let mut counts = TcpCounts::default();
    for connection in json["connections"].as_array().into_iter().flatten() {
        for way in ["up", "down"] {
            let count = |name: &str| connection[way][name].as_u64().unwrap();
            counts.segments += count("segments");
            counts.copies += count("copies");
            counts.bytes += count("bytes");
            counts.again += count("retransmissions") + count("out_of_order");
            counts.duplicate_acks += count("duplicate_acks");
            counts.probes += count("keep_alives");
        }
    }
    counts
}

fn counted_by_tshark(file: &Path) -> Option<TcpCounts> {
    const FIELDS: [&str; 6] = [
        "tcp.len",
        "tcp.analysis.retransmission",
        "tcp.analysis.out_of_order",
        "tcp.analysis.duplicate_ack",
        "tcp.analysis.keep_alive",
        "tcp.analysis.zero_window_probe",
    ];
    let mut command = Command::new("tshark");
    // In a tunnel the innermost segment is the last one.
    command.args(["-n", "-Y", "tcp", "-T", "fields", "-E", "occurrence=l", "-r"]).arg(file);
    FIELDS.iter().for_each(|field| _ = command.args(["-e", field]));
    let output = command.output().ok()?;
    let mut counts = TcpCounts::default();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let is = |k: usize| u64::from(fields.get(k).is_some_and(|field| !field.is_empty()));
        counts.segments += 1;
        counts.bytes += fields[0].parse::<u64>().unwrap_or(0);
        counts.again += is(1) + is(2);
        counts.duplicate_acks += is(3);
        counts.probes += is(4) + is(5);
    }
    Some(counts)
}

/// Returns the captures below `folder`, in order.
fn captures_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries
        .flat_map(|path| match path.is_dir() {
            true => captures_below(&path),
            false => vec![path],
        })
        .filter(|path| path.to_string_lossy().trim_end_matches(".gz").ends_with(".pcap"))
        .collect();
    found.sort();
    found
}

/// Compares the counts of every capture in the repository with those of tshark: a few in the gate, all with `JITLAT_FULL=1`.
/// Skipped if tshark is not installed, unless `JITLAT_REQUIRE_PEERS` is set.
#[test]
fn the_counts_of_every_capture_are_those_of_tshark() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let full = std::env::var_os("JITLAT_FULL").is_some();
    let all: Vec<_> =
        ["testdata", "examples/seeds"].iter().flat_map(|folder| captures_below(&root.join(folder))).collect();
    let step = if full { 1 } else { 12 };
    let mut compared = 0;
    for file in all.iter().step_by(step) {
        let name = file.display();
        let Some(theirs) = counted_by_tshark(file) else {
            assert!(std::env::var_os("JITLAT_REQUIRE_PEERS").is_none(), "tshark is not installed");
            println!("skipped: tshark is not installed");
            return;
        };
        let ours = counted_by_jitlat(file);
        assert_eq!(ours.segments + ours.copies, theirs.segments, "{name}");
        compared += usize::from(theirs.segments > 0);
        // tshark counts copies as data, retransmissions and duplicate acknowledgements.
        if ours.copies > 0 {
            continue;
        }
        assert_eq!(
            (ours.bytes, ours.again, ours.probes),
            (theirs.bytes, theirs.again, theirs.probes),
            "{name}"
        );
        // tshark counts the acknowledgement of a segment that arrived twice as well. The made-up acknowledgements of the
        // examples acknowledge nothing.
        let is_made_up = file.starts_with(root.join("examples"));
        let near = ours.duplicate_acks.abs_diff(theirs.duplicate_acks) <= 1;
        assert!(is_made_up || near, "{name}: {ours:?} {theirs:?}");
    }
    assert!(compared > if full { 40 } else { 2 }, "{compared} of {}", all.len());
}

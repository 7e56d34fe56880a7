//! Tests that run the files of `contrib` as their monitoring systems do. Tests that need one of these systems are
//! skipped where it is not installed (Debian: smokeping, collectd-core, monitoring-plugins-basic, icinga2-bin), unless
//! `JITLAT_REQUIRE_PEERS` is set.

use crate::server::Server;
use crate::side_by_side::side_by_side;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const JITLAT: &str = env!("CARGO_BIN_EXE_jitlat");
/// Plug-in of monitoring-plugins that runs another one.
const NEGATE: &str = "/usr/lib/nagios/plugins/negate";

fn contrib(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").canonicalize().unwrap().join(path)
}

/// Returns true if the program at `path` is installed.
fn installed(path: &str) -> bool {
    let found = Path::new(path).exists();
    if !found {
        assert!(std::env::var_os("JITLAT_REQUIRE_PEERS").is_none(), "{path} is not installed");
        println!("skipped: {path} is not installed");
    }
    found
}

/// Runs an executable of a pScheduler plug-in with `input` on standard input, and returns its standard output.
fn plugin(path: &str, input: &str) -> String {
    let mut child = Command::new("timeout")
        .args(["60".as_ref(), contrib("pscheduler").join(path).as_os_str()])
        .envs([("JITLAT", JITLAT), ("PYTHONDONTWRITEBYTECODE", "1")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{path}: {input}");
    String::from_utf8(output.stdout).unwrap()
}

fn tool(name: &str, document: &Value) -> Value {
    let answer = plugin(&format!("tool/jitlat/{name}"), &document.to_string());
    serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{name}: {e}: {answer}"))
}

/// Runs a test of pScheduler as pScheduler does, and returns its result.
fn scheduled(kind: &str, spec: &Value) -> Value {
    let test = json!({ "type": kind, "spec": spec });
    assert_eq!(tool("can-run", &test), json!({ "can-run": true }), "{test}");
    let duration = tool("duration", &test)["duration"].as_str().unwrap().to_owned();
    let data = tool("participant-data", &json!({ "participant": 0, "test": test }));
    let found = tool(
        "run",
        &json!({
            "participant": 0,
            "participant-data": [data],
            "test": test,
            "schedule": { "start": "2026-01-01T00:00:00+00:00", "duration": duration },
        }),
    );
    tool("merged-results", &json!({ "test": test, "results": [found] }))
}

#[test]
fn pschedulers_tests_have_their_results() {
    let server = Server::start("127.0.0.1", "jitlat,stamp,twamp,owamp", &["--control-port", "0"]);
    let control = server.port(0).split(',').next().unwrap();
    let ports: Vec<u16> =
        [control, server.port(1), server.port(2), server.port(3)].map(|p| p.parse().unwrap()).into();
    let base = json!({ "schema": 4, "source": "127.0.0.1", "dest": "127.0.0.1", "packet-count": 20,
                       "packet-interval": 0.001, "output-raw": true });
    let cases = [
        (ports[0], json!({})),
        (ports[0], json!({ "reverse": true, "packet-padding": 100, "ip-tos": 46, "bucket-width": 0.0001 })),
        (ports[0], json!({ "flip": true })),
        (ports[1], json!({ "protocol": "stamp", "reverse": true })),
        (ports[2], json!({ "protocol": "twamp" })),
        (ports[3], json!({ "protocol": "owamp" })),
    ];
    // The tests wait more than they compute.
    side_by_side(3, &cases, |(port, more)| {
        let mut spec = base.clone();
        spec["ctrl-port"] = (*port).into();
        more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
        let result = scheduled("latency", &spec);
        assert_eq!((&result["succeeded"], &result["schema"]), (&true.into(), &1.into()), "{spec}: {result}");
        for (key, count) in [("sent", 20), ("received", 20), ("lost", 0), ("duplicated", 0)] {
            assert_eq!(result[format!("packets-{key}")], count, "{spec}: {key}: {result}");
        }
        let histogram = result["histogram-latency"].as_object().unwrap();
        assert_eq!(histogram.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), 20, "{spec}");
        assert!(histogram.keys().all(|key| key.parse::<f64>().is_ok()), "{histogram:?}");
        let packets = result["raw-packets"].as_array().unwrap();
        assert_eq!(packets.len(), 20, "{spec}");
        let seconds = |packet: &Value, key: &str| packet[key].as_u64().unwrap() as f64 / 2f64.powi(32);
        let all_near = packets.iter().all(|p| (seconds(p, "dst-ts") - seconds(p, "src-ts")).abs() < 10.0);
        assert!(all_near && packets.iter().all(|p| p["ip-ttl"].is_u64()), "{spec}: {}", packets[0]);
    });
    let trips = scheduled(
        "rtt",
        &json!({ "schema": 4, "dest": "127.0.0.1", "count": 5, "interval": "PT0.01S", "protocol": "stamp", "port": ports[1] }),
    );
    assert_eq!(
        (&trips["sent"], &trips["lost"], &trips["loss"]),
        (&5.into(), &0.into(), &0.0.into()),
        "{trips}"
    );
    assert_eq!(trips["roundtrips"].as_array().unwrap().len(), 5);
    let is_duration =
        |value: &Value| value.as_str().is_some_and(|text| text.starts_with("PT0.0") && text.ends_with('S'));
    assert!(is_duration(&trips["mean"]) && is_duration(&trips["roundtrips"][0]["rtt"]), "{trips}");
    // Nothing listens on this port.
    let failed =
        scheduled("latency", &json!({ "schema": 1, "dest": "127.0.0.1", "ctrl-port": 1, "packet-count": 5 }));
    let why = failed["error"].as_str().unwrap_or_default();
    assert!(failed["succeeded"] == false && why.contains("cannot connect to 127.0.0.1"), "{failed}");
    for (test, why) in [
        (json!({ "type": "throughput", "spec": {} }), "Unsupported test type"),
        (json!({ "spec": {} }), "Missing test type"),
        (json!({ "type": "rtt" }), "Missing test specification"),
        (json!({ "type": "rtt", "spec": { "dest": "h", "fragment": true } }), "fragment is not supported"),
        (
            json!({ "type": "latency", "spec": { "dest": "h", "protocol": "icmp" } }),
            "protocol icmp is not supported",
        ),
        (json!({ "type": "latency", "spec": { "dest": "h", "schema": 5 } }), "schema 5 is not supported"),
    ] {
        let answer = tool("can-run", &test);
        assert_eq!(answer["can-run"], false, "{test}");
        assert!(answer["reasons"][0].as_str().unwrap().contains(why), "{test}: {answer}");
    }
    let described: Value = serde_json::from_str(&plugin("tool/jitlat/enumerate", "")).unwrap();
    assert_eq!((&described["name"], &described["tests"]), (&"jitlat".into(), &json!(["latency", "rtt"])));
}

#[test]
fn pschedulers_archiver_stores_the_packets_of_any_tool() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("archive");
    let data = json!({ "folder": folder, "binary": JITLAT });
    assert_eq!(plugin("archiver/jitlat/data-is-valid", &data.to_string()), r#"{"valid": true}"#);
    let refused = plugin("archiver/jitlat/data-is-valid", r#"{"folder": "here"}"#);
    assert!(refused.contains("absolute path"), "{refused}");
    // Packets sent every 100 ms from 2026-01-01 on, which take 5 ms each; the third is lost.
    let stamp = |ms: u64| ((1_767_225_600 + 2_208_988_800 + ms / 1000) << 32) + ((ms % 1000) << 32) / 1000;
    let packet = |k: u64| {
        json!({ "seq-num": k, "src-ts": stamp(100 * k), "src-clock-sync": true, "dst-clock-sync": true,
                "dst-ts": if k == 2 { 0 } else { stamp(100 * k + 5) }, "ip-ttl": 60 })
    };
    let result = |kind: &str, raw: bool| {
        let mut found = json!({ "succeeded": true, "packets-sent": 10 });
        if raw {
            found["raw-packets"] = (0..10).map(packet).collect();
        }
        let spec =
            json!({ "source": "192.0.2.1", "dest": "192.0.2.7", "packet-interval": 0.1, "output-raw": raw });
        let record = json!({ "id": "../x", "schedule": { "start": "2026-01-01T00:00:00Z" },
                             "test": { "type": kind, "spec": spec }, "result": found });
        format!("\x1e{}\n", json!({ "data": data, "attempts": 0, "result": record }))
    };
    let input = [result("latency", true), result("latency", false), result("rtt", true)].concat();
    let answers = plugin("archiver/jitlat/archive", &input);
    let answers: Vec<Value> = answers
        .split_terminator('\n')
        .map(|text| serde_json::from_str(text.trim_start_matches('\x1e')).unwrap())
        .collect();
    let reasons: Vec<&str> = answers.iter().map(|answer| answer["error"].as_str().unwrap_or("")).collect();
    assert_eq!(
        answers.iter().map(|answer| &answer["succeeded"]).collect::<Vec<_>>(),
        [true, false, false],
        "{reasons:?}"
    );
    assert!(reasons[1].contains("output-raw") && reasons[2].contains("rtt"), "{reasons:?}");
    let shown = Command::new(JITLAT).args(["archive", "ls"]).arg(&folder).args(["--json"]).output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let test = &shown["tests"][0];
    assert_eq!((&test["src"], &test["dst"]), (&"192.0.2.1".into(), &"192.0.2.7".into()), "{shown}");
    assert_eq!(test["started_ns"], 1_767_225_600_000_000_000u64, "{shown}");
    // The third of ten packets is lost, and all others took 5 ms.
    assert_eq!(test["figures"]["loss"], 0.1, "{shown}");
    assert!(test["figures"]["pdv-p99"].as_f64().unwrap() < 2.0, "{shown}");
}

#[test]
fn smokepings_probe_measures_one_round() {
    if !installed("/usr/sbin/smokeping") {
        return;
    }
    let server = Server::start("127.0.0.1", "stamp", &[]);
    let dir = tempfile::tempdir().unwrap();
    let probes = dir.path().join("lib/Smokeping/probes");
    fs::create_dir_all(&probes).unwrap();
    fs::copy(contrib("smokeping/Jitlat.pm"), probes.join("Jitlat.pm")).unwrap();
    for folder in ["cache", "data", "pid"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
    }
    let root = dir.path().display();
    let options = format!("interval = 0.01\noptions = --stamp-port {}", server.port(0));
    let configuration = format!(
        "*** General ***\nowner = o\ncontact = o@example.net\nmailhost = localhost\nsendmail = /bin/true\n\
         imgcache = {root}/cache\nimgurl = cache\ndatadir = {root}/data\npiddir = {root}/pid\n\
         cgiurl = http://localhost/smokeping.cgi\nsmokemail = /etc/smokeping/smokemail\ntmail = /etc/smokeping/tmail\n\
         *** Database ***\nstep = 60\npings = 20\nAVERAGE 0.5 1 1008\n\
         *** Presentation ***\ntemplate = /etc/smokeping/basepage.html\n\
         + overview\nwidth = 600\nheight = 50\nrange = 10h\n+ detail\nwidth = 600\nheight = 200\n\"3 Hours\" 3h\n\
         *** Probes ***\n+ Jitlat\nbinary = {JITLAT}\n++ JitlatRtt\nprotocol = stamp\n{options}\n\
         ++ JitlatUp\nprotocol = stamp\nmetric = up\n{options}\n\
         *** Targets ***\nprobe = JitlatRtt\nmenu = t\ntitle = t\n\
         + alive\nmenu = a\ntitle = a\nhost = 127.0.0.1\n+ dead\nmenu = d\ntitle = d\nhost = 127.0.0.9\n\
         + up\nmenu = u\ntitle = u\nprobe = JitlatUp\nhost = 127.0.0.1\n"
    );
    let file = dir.path().join("config");
    fs::write(&file, configuration).unwrap();
    let run = |option: &str| {
        let output = Command::new("timeout")
            .args(["100", "smokeping", &format!("--config={}", file.display()), option])
            .env("PERL5LIB", dir.path().join("lib"))
            .output()
            .unwrap();
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.success(), out + &err)
    };
    let (_, checked) = run("--check");
    assert!(checked.contains("syntax OK"), "{checked}");
    let (_, round) = run("--debug");
    // Time of the update, uptime, number of lost requests, median, and the sorted round trips; U is unknown.
    let update = |name: &str| -> Vec<Option<f64>> {
        let of = format!("data/{name}.rrd --template");
        let line = round
            .lines()
            .find(|l| l.contains("update") && l.contains(&of))
            .unwrap_or_else(|| panic!("{name}: {round}"));
        let values = line.rsplit(' ').next().unwrap().trim_end_matches(')').split(':');
        values.skip(2).map(|value| value.parse().ok()).collect()
    };
    for name in ["alive", "up"] {
        let values = update(name);
        let times: Vec<f64> = values[2..].iter().flatten().copied().collect();
        assert_eq!((values[0], times.len()), (Some(0.0), 20), "{name}: {round}");
        assert!(times.is_sorted() && times[0] >= 0.0 && times[19] < 10.0, "{name}: {times:?}");
    }
    assert_eq!(update("dead")[0], Some(20.0), "{round}");
}

#[test]
fn collectd_stores_the_figures() {
    if !installed("/usr/sbin/collectd") {
        return;
    }
    // collectd refuses folders whose names begin with a dot.
    let dir = tempfile::Builder::new().prefix("collectd").tempdir().unwrap();
    let root = dir.path().display();
    let configuration = format!(
        "BaseDir \"{root}\"\nPIDFile \"{root}/pid\"\nTypesDB \"/usr/share/collectd/types.db\"\nInterval 3600\n\
         LoadPlugin unixsock\nLoadPlugin csv\n<Plugin unixsock>\nSocketFile \"{root}/socket\"\n</Plugin>\n\
         <Plugin csv>\nDataDir \"{root}/data\"\n</Plugin>\n"
    );
    fs::write(dir.path().join("config"), configuration).unwrap();
    let daemon = Command::new("timeout")
        .args(["60", "collectd", "-f", "-C"])
        .arg(dir.path().join("config"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut daemon = Ended(daemon);
    let socket = dir.path().join("socket");
    let connected = || UnixStream::connect(&socket).is_ok();
    jitlat_waiting::until("collectd to listen", Duration::from_secs(20), connected);
    let stream = UnixStream::connect(&socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (mut answers, mut requests) = (BufReader::new(stream.try_clone().unwrap()).lines(), stream);
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/b_wan_lossy_v1.log");
    let output = Command::new(JITLAT)
        .args(["export", log, "--as", "collectd"])
        .env("COLLECTD_HOSTNAME", "probe 1")
        .output()
        .unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    assert!(lines.lines().count() > 50, "{lines}");
    for line in lines.lines() {
        writeln!(requests, "{line}").unwrap();
        let answer = answers.next().unwrap().unwrap();
        assert_eq!(answer, "0 Success: 1 value has been dispatched.", "{line}");
    }
    // Threads of the daemon write the files.
    let folder = dir.path().join("data/probe 1/jitlat-198.51.100.20-up");
    let is_loss = |path: &PathBuf| path.to_string_lossy().contains("gauge-loss_ratio-");
    let stored = || fs::read_dir(&folder).ok()?.map(|entry| entry.unwrap().path()).find(is_loss);
    let written = || stored().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    let expected = "epoch,value\n1259000030.000,0.039333\n";
    jitlat_waiting::until("collectd to store the loss", Duration::from_secs(20), || written() == expected);
    daemon.end();
}

/// A daemon that ends with the test.
struct Ended(std::process::Child);

impl Ended {
    /// Ends the daemon in its usual manner; `timeout` passes the signal on.
    fn end(&mut self) {
        let id = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        let _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn collectds_script_prints_figures_of_each_interval() {
    let server = Server::start("127.0.0.1", "stamp", &[]);
    let mut script = Command::new("timeout");
    script.args(["60".as_ref(), contrib("collectd/jitlat-collectd").as_os_str()]);
    script.args(["127.0.0.1", "--proto", "stamp", "--stamp-port", server.port(0), "-n", "10", "-p", "1ms"]);
    script.envs([("JITLAT", JITLAT), ("COLLECTD_INTERVAL", "1.000"), ("COLLECTD_HOSTNAME", "probe")]);
    let mut script = Ended(script.stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(script.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The script runs until it is ended: two rounds are enough.
    let sent = "PUTVAL \"probe/jitlat-127.0.0.1/gauge-packets_sent\" interval=1 ";
    let times: Vec<String> = lines.filter(|line| line.starts_with(sent)).take(2).collect();
    assert!(
        times.len() == 2 && times[0] != times[1] && times.iter().all(|line| line.ends_with(":10")),
        "{times:?}"
    );
}

#[test]
fn negate_reads_the_state() {
    if !installed(NEGATE) {
        return;
    }
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/b_wan_lossy_v1.log");
    for (options, condition, code, word) in [
        ("-s -o CRITICAL", "loss>90%", 2, "CRITICAL"),
        ("-s -w OK", "loss>1%", 0, "OK"),
        ("-s -u WARNING", "up-loss>1%", 1, "WARNING"),
    ] {
        let arguments = format!("-t 30 {options} {JITLAT} -f {log} --check -w {condition}");
        let output = Command::new(NEGATE).args(arguments.split(' ')).output().unwrap();
        let line = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments}: {line}");
        assert!(line.starts_with(&format!("{word} - ")) && line.contains("'loss'=3.933333%"), "{line}");
    }
}

#[test]
fn icinga_accepts_the_check_commands() {
    if !installed("/usr/sbin/icinga2") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Icinga runs as a user of its own.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let file = dir.path().join("test.conf");
    let command = contrib("icinga/jitlat.conf");
    let hosts = "object Host \"a\" {\n  check_command = \"jitlat-ping\"\n  address = \"127.0.0.1\"\n  \
                 vars.jitlat_warning = [ \"loss>1%\", \"delay-p99>100ms\" ]\n}\n\
                 object Host \"b\" {\n  check_command = \"jitlat-test\"\n  address = \"127.0.0.1\"\n}\n";
    fs::write(&file, format!("include \"{}\"\n{hosts}", command.display())).unwrap();
    let folder = |name: &str| format!("-D{name}={}", dir.path().display());
    let output = Command::new("timeout")
        .args(["60", "icinga2", "daemon", "-C", "-c"])
        .arg(&file)
        .args(["DataDir", "LogDir", "CacheDir", "InitRunDir", "SpoolDir"].map(folder))
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("Instantiated 2 CheckCommands"), "{text}");
}

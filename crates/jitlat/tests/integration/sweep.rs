//! `jitlat sweep` and `--load` over loopback, through the kernel.

use crate::network;
use crate::schema;
use crate::server::Server;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const JITLAT: &str = env!("CARGO_BIN_EXE_jitlat");

/// Servers on a loopback address that only this test uses.
struct Far {
    address: String,
    server: Server,
}

/// Serves one-way tests at the standard port of a loopback address that only this test uses, STAMP and LaMP at ports
/// chosen by the system.
fn serve() -> Far {
    let address = network::own_address().to_string();
    let server = Server::start(&address, "jitlat,stamp,lamp", &[]);
    Far { address, server }
}

impl Far {
    fn jitlat(&self, folder: &Path, line: &str) -> Command {
        let line = line.replace("HOST", &self.address).replace(
            "PORTS",
            &format!("--stamp-port {} --lamp-port {}", self.server.port(1), self.server.port(2)),
        );
        let mut command = Command::new(JITLAT);
        command.args(line.split_whitespace()).current_dir(folder);
        command
    }

    fn run(&self, folder: &Path, line: &str) -> Output {
        let output = self.jitlat(folder, line).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    fn json(&self, folder: &Path, line: &str) -> Value {
        let document: Value = serde_json::from_slice(&self.run(folder, line).stdout).unwrap();
        let phases = document["format"] == "jitlat phases 1";
        schema::assert_valid(if phases { "phases" } else { "sweep" }, &document);
        document
    }
}

#[test]
fn sweeps_of_several_links_are_joined() {
    let (server, folder) = (serve(), tempfile::tempdir().unwrap());
    for (link, payloads) in [("cable", "32,400"), ("hub", "32,400,1448")] {
        let line = format!(
            "sweep HOST -l {payloads} --proto lamp -p 1ms -n 20 --repetitions 2 --pause 0 -o {link}.sweep"
        );
        server.run(folder.path(), &format!("{line} -q -- PORTS"));
    }
    let line =
        "compare 100BASE=cable.sweep hub.sweep --csv j.csv --plots plots --format svg --html j.html --json -";
    let v = server.json(folder.path(), line);
    let points = v["points"].as_array().unwrap();
    let of = |p: &Value| {
        let conditions = &p["conditions"];
        (
            conditions["sweep"].as_str().unwrap().to_owned(),
            conditions["payload"].as_f64().unwrap(),
            p["sent"].as_u64(),
        )
    };
    let sent = Some(40);
    let expected = [("100BASE", 32.0), ("100BASE", 400.0), ("hub", 32.0), ("hub", 400.0), ("hub", 1448.0)];
    assert_eq!(
        points.iter().map(of).collect::<Vec<_>>(),
        expected.map(|(link, payload)| (link.to_owned(), payload, sent))
    );
    assert_eq!((v["complete"].as_bool(), v["runs"].as_array().unwrap().len()), (Some(true), 10));
    // The means are those of the sweeps alone.
    for (link, shown) in [("cable", &points[..2]), ("hub", &points[2..])] {
        let alone = server.json(folder.path(), &format!("sweep --resume {link}.sweep --json -"));
        let means = |points: &[Value]| -> Vec<Value> {
            points.iter().map(|p| p["figures"]["latency-mean"].clone()).collect()
        };
        assert_eq!(means(alone["points"].as_array().unwrap()), means(shown), "{link}");
    }
    let svg = std::fs::read_to_string(folder.path().join("plots/sweep-latency-mean.svg")).unwrap();
    for words in [">Round trip, mean, by payload<", ">100BASE<", ">hub<", ">payload, bytes<"] {
        assert!(svg.contains(words), "{words}");
    }
    assert!(folder.path().join("plots/sweep-distributions.svg").exists());
    assert!(std::fs::read_to_string(folder.path().join("j.html")).unwrap().contains("hub, 1448 bytes"));
    assert!(std::fs::read_to_string(folder.path().join("j.csv")).unwrap().starts_with("sweep,payload,"));
    server.run(folder.path(), "sweep HOST -l 100 --proto lamp,stamp --waits 0,1ms -n 5 --repetitions 1 --pause 0 -o other -q -- PORTS");
    for (line, why) in [
        ("compare cable.sweep other", "joined: cable states the period, other does not"),
        ("compare cable.sweep hub.sweep --group-by dscp", "--group-by is for tests"),
        ("compare cable.sweep j.csv", "cable.sweep is a sweep, j.csv is not"),
        ("compare cable.sweep", "only sweep: give at least two"),
    ] {
        let output = server.jitlat(folder.path(), line).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(why), "{line}: {said}");
    }
}

#[test]
fn every_combination_is_repeated_and_shown_in_every_form() {
    let (server, folder) = (serve(), tempfile::tempdir().unwrap());
    let line = "sweep HOST -l 100..500:200 --proto stamp,lamp:user,lamp:krt -p 1ms -n 20 --repetitions 2 --pause 0 \
                --seed 5 -o s --csv s.csv --plots plots --json - -- PORTS";
    let v = server.json(folder.path(), line);
    assert_eq!((&v["format"], &v["complete"]), (&"jitlat sweep 2".into(), &true.into()));
    let points = v["points"].as_array().unwrap();
    assert_eq!(points.len(), 9);
    for p in points {
        assert_eq!((p["runs"].as_u64(), p["sent"].as_u64()), (Some(2), Some(40)), "{p:#}");
        let mean = &p["figures"]["latency-mean"];
        let [low, high] = [0, 1].map(|i| mean["interval"][i].as_f64().unwrap());
        assert!(low <= mean["mean"].as_f64().unwrap() && mean["mean"].as_f64().unwrap() <= high, "{p:#}");
    }
    assert_eq!(points[0]["conditions"]["payload"], 100.0);
    assert_eq!(v["size_laws"].as_array().unwrap().len(), 3, "one for each protocol");
    // The order is random, in blocks of one repetition, and the same for the same seed.
    let cells: Vec<u64> = v["runs"].as_array().unwrap().iter().map(|r| r["cell"].as_u64().unwrap()).collect();
    assert_ne!(cells[..9], (0..9).collect::<Vec<_>>()[..]);
    let mut block = cells[..9].to_vec();
    block.sort_unstable();
    assert_eq!(block, (0..9).collect::<Vec<_>>());
    let csv = std::fs::read_to_string(folder.path().join("s.csv")).unwrap();
    assert_eq!(
        (csv.lines().count(), csv.lines().next().unwrap().starts_with("payload,period,protocol,runs")),
        (10, true)
    );
    assert!(
        folder.path().join("plots/sweep-latency-mean.svg").exists()
            && folder.path().join("plots/sweep-latency-p99.png").exists()
    );
    server.run(folder.path(), "sweep --resume s --plots papers --format eps,pdf");
    let papers = ["sweep-latency-mean.eps", "sweep-distributions.pdf", "compare-latency-cdf.eps"];
    assert!(papers.iter().all(|name| folder.path().join("papers").join(name).exists()));
    assert!(!folder.path().join("papers/sweep-latency-mean.svg").exists());
    // A complete sweep is shown again without sending a packet.
    let again = server.json(folder.path(), "sweep --resume s --json -");
    assert_eq!(again["points"], v["points"]);
    // Each line contains the packets of its run; files of older programs have none, and are shown without
    // distributions.
    let text = std::fs::read_to_string(folder.path().join("s")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let packets = |line: &Value| line["packets"]["delay"].as_array().unwrap().len() as u64;
    assert!(lines[1..].iter().all(|line| Some(packets(line)) == line["received"].as_u64()));
    let older = lines.into_iter().map(|mut line| {
        if line["packets"].is_object() {
            line.as_object_mut().unwrap().remove("packets");
        }
        format!("{line}\n")
    });
    std::fs::write(folder.path().join("older"), older.collect::<String>()).unwrap();
    for (file, drawn) in [("s", true), ("older", false)] {
        server.run(folder.path(), &format!("sweep --resume {file} --plots of-{file} --html {file}.html"));
        let figure = folder.path().join(format!("of-{file}/sweep-distributions.svg"));
        assert_eq!(figure.exists(), drawn, "{file}");
        let page = std::fs::read_to_string(folder.path().join(format!("{file}.html"))).unwrap();
        assert!(page.contains("300 bytes, lamp:krt"), "{file}");
    }
    let table = server.run(folder.path(), "sweep --resume s -v");
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("300 bytes, lamp:krt") && table.contains("Delay by size"), "{table}");
    let (_, figures) = table.split_once("Stored in s\n").unwrap();
    let (figures, _) = figures.split_once("Delay by size").unwrap();
    assert!(figures.lines().all(|line| line.chars().count() <= 80), "{figures}");
}

#[test]
fn an_interrupted_sweep_goes_on() {
    let (server, folder) = (serve(), tempfile::tempdir().unwrap());
    let line =
        "sweep HOST --proto stamp,lamp -p 1ms -n 10 --repetitions 50 --pause 100ms -o s --json j -- PORTS";
    let mut child =
        server.jitlat(folder.path(), line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = || std::fs::read_to_string(folder.path().join("s")).unwrap_or_default().lines().count();
    jitlat_waiting::until("the first runs in the file", Duration::from_secs(30), || lines() >= 4);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), nix::sys::signal::Signal::SIGINT)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("jitlat sweep --resume s") && said.contains("of 100 runs"), "{said}");
    let partial: Value = serde_json::from_slice(&std::fs::read(folder.path().join("j")).unwrap()).unwrap();
    let done = partial["runs"].as_array().unwrap().len();
    assert!((3..100).contains(&done) && partial["complete"] == false);
    // The remaining runs were made, and none twice.
    let text = std::fs::read_to_string(folder.path().join("s")).unwrap();
    let shorter = text.replacen("\"pause\":100000000", "\"pause\":0", 1);
    assert_ne!(shorter, text);
    std::fs::write(folder.path().join("s"), shorter).unwrap();
    let v = server.json(folder.path(), "sweep --resume s --json -");
    assert_eq!((v["runs"].as_array().unwrap().len(), &v["complete"]), (100, &true.into()));
    assert_eq!(v["runs"].as_array().unwrap()[..done], partial["runs"].as_array().unwrap()[..]);
    assert!(v["points"].as_array().unwrap().iter().all(|p| p["runs"] == 50));
}

#[test]
fn one_way_sweeps_over_transports_and_loads() {
    let (server, folder) = (serve(), tempfile::tempdir().unwrap());
    let line = "sweep HOST --transports udp,tcp --load udp:500/s --load-settle 100ms -p 2ms -n 20 \
                --repetitions 1 --pause 0 --json -";
    let v = server.json(folder.path(), line);
    let of =
        |p: &Value| format!("{} {}", p["conditions"]["transport"], p["conditions"]["load"]).replace('"', "");
    let names: Vec<String> = v["points"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(names, ["udp none", "udp udp:500/s", "tcp none", "tcp udp:500/s"]);
    assert!(v["points"].as_array().unwrap().iter().all(|p| p["received"] == 20), "{v:#}");
}

#[test]
fn what_cannot_be_swept_is_refused_before_anything_is_sent() {
    let (server, folder) = (serve(), tempfile::tempdir().unwrap());
    // Nothing was measured, so there is nothing to continue.
    for line in ["sweep HOST -l 40,80 -n 5 -- --control-port 1", "sweep host.invalid -l 40,80 -n 5"] {
        let output = server.jitlat(folder.path(), line).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(!said.contains("--resume") && said.contains("cannot "), "{line}: {said}");
    }
    for (line, word) in [
        ("sweep HOST -l 40..100", "lacks a step"),
        ("sweep HOST -l 10..90:20 --proto stamp", "44"),
        ("sweep HOST --proto stamp --transports tcp", "--transports applies to one-way tests"),
        ("sweep HOST --proto stamp,owamp", "one kind at a time"),
        ("sweep HOST --waits 0,1ms", "--proto icmp"),
        ("sweep HOST -l 40,80 -- --proto stamp", "before --"),
        ("sweep HOST -l 1..60000:1 --repetitions 100", "10000 values"),
        ("sweep HOST --proto stamp,lamp -- --no-such-option", "--no-such-option"),
        ("sweep --resume nothing", "nothing"),
        ("sweep", "<HOST>"),
    ] {
        let output = server.jitlat(folder.path(), line).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains(word) && !said.contains("panicked"), "{line}: {said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no file is left behind");
}

#[test]
fn a_test_idle_and_under_load() {
    let (server, folder) = (serve(), tempfile::tempdir().unwrap());
    let tests = ["ping HOST --proto stamp -n 50 -p 2ms PORTS", "HOST -n 50 -p 2ms -R"];
    for (test, quantity) in tests.into_iter().zip(["round trip", "one-way delay"]) {
        let line = format!(
            "{test} --load udp:1Mbit,dscp=EF --load tcp:2Mbit,streams=2,down --load-settle 200ms --json - -o two"
        );
        let v = server.json(folder.path(), &line);
        assert_eq!(v["quantity"], quantity);
        // Both phases have logs with the same results, alone and together.
        let both = server.json(folder.path(), "analyze two.loaded two.idle --json -");
        for part in ["load", "throughput", "load_state", "added_delay", "grade", "no_grade", "rpm_equivalent"]
        {
            assert_eq!(both[part], v[part], "{part}");
        }
        assert_eq!(
            (&v["idle"]["session"]["tags"]["load"], both["quantity"].as_str()),
            (&"none".into(), Some(quantity))
        );
        for phase in ["idle", "loaded"] {
            let log = format!("two.{phase}");
            let again = server.run(folder.path(), &format!("analyze {log} --json -"));
            let again: Value = serde_json::from_slice(&again.stdout).unwrap();
            for part in ["counts", "latency", "pdv", "loss"] {
                assert_eq!(again[part], v[phase][part], "{phase}: {part}");
            }
            std::fs::remove_file(folder.path().join(log)).unwrap();
        }
        assert_eq!(
            (&v["idle"]["counts"]["received"], &v["loaded"]["counts"]["received"]),
            (&50.into(), &50.into())
        );
        let streams = v["load"].as_array().unwrap();
        assert_eq!(streams.len(), 3, "{streams:#?}");
        for s in streams {
            assert!(s["sent"].as_u64().unwrap() > 0 && s["failure"].is_null(), "{s:#}");
            assert!(s["received_bps"].as_f64().unwrap() > 0.0, "{s:#}");
        }
        let rpm = ["idle", "loaded"].map(|phase| v["rpm_equivalent"][phase].as_f64());
        assert!(rpm.iter().all(|rpm| rpm.is_some_and(|n| n > 0.0) == (quantity == "round trip")), "{rpm:?}");
        assert!(["different", "same", "undecided"].contains(&v["comparison"]["outcome"].as_str().unwrap()));
    }
    let page = server.run(
        folder.path(),
        "ping HOST --proto stamp -n 20 -p 2ms PORTS --load udp:100/s --load-settle 100ms -v",
    );
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.contains("idle         loaded") && page.contains("Effect of the load"), "{page}");
    assert!(page.contains("consecutive round trips per minute"), "{page}");
    let none = server
        .jitlat(folder.path(), "ping HOST --proto stamp PORTS -n 5 --no-log --load udp:10/s --load-port 1")
        .output();
    let none = none.unwrap();
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("jitlat serve"), "{none:?}");
}

//! Tests that are started from the page: by `jitlat web --run`, and by a monitor in a gap of its timetable.

use crate::harness::*;
use jitlat_archive::{Archive, Filter, TestId};
use jitlat_core::load::TestPhase;
use jitlat_net::emulator::lab::Namespace;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// Asks a page in a namespace; returns the status and the JSON of its answer.
fn ask(place: &Namespace, port: u16, request: &str, body: Option<&Value>) -> (u16, Value) {
    let (status, body) = asked(place, port, request, &body.map(Value::to_string).unwrap_or_default());
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

/// Asks a page in a namespace; returns the status and the text of its answer.
fn asked(place: &Namespace, port: u16, request: &str, body: &str) -> (u16, String) {
    let text = format!(
        "{request} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = place.within(|| -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(text.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    });
    let Ok(Ok(answer)) = answer else { return (0, String::new()) };
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.to_owned())
}

/// Waits until `look` finds something, within a limit.
fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    jitlat_waiting::for_value(what, Duration::from_secs(100), look)
}

/// Starts a test and follows it to its end. Returns its last state, and the number of packets that its streams had
/// received at each step.
fn run(place: &Namespace, port: u16, request: &Value) -> (Value, Vec<Value>) {
    let (status, started) = ask(place, port, "POST /api/v1/runs", Some(request));
    assert_eq!(status, 201, "{started}");
    let address = format!("GET /api/v1/runs/{}", started["id"].as_str().unwrap());
    let mut seen = Vec::new();
    let ended = wait_for("its end", || {
        let (_, now) = ask(place, port, &address, None);
        if now["state"] == "running" {
            seen.push(now.clone());
        }
        ["ended", "failed"].iter().any(|state| now["state"] == *state).then_some(now)
    });
    (ended, seen)
}

fn has_page(place: &Namespace, port: u16) {
    wait_for("a page", || (ask(place, port, "GET /api/v1/now", None).0 == 200).then_some(()));
}

#[test]
fn a_test_is_started_from_the_page_watched_and_kept() {
    let Some(lab) = lab("a_test_is_started_from_the_page_watched_and_kept") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Archive::make(&folder.join("net")).unwrap();
    let _server = Server::start(Place::In(&lab.server), folder, [10, 9, 0, 2], "");
    let line = "web net --listen 2680 --run=10.9.0.2,10.9.0.77 --run-longest 3s";
    let web = Running::start(Place::In(&lab.client).jitlat(folder, line));
    has_page(&lab.client, 2680);
    // Both directions: one stream is counted here, the other is reported by the server.
    let request = json!({ "host": "10.9.0.2", "duration": "2s", "period": "10ms", "size": "120" });
    let (ended, seen) = run(&lab.client, 2680, &request);
    assert_eq!(ended["state"], "ended", "{ended}");
    let received = |now: &Value, k: usize| now["streams"][k]["received"].as_u64().unwrap_or(0);
    assert!(
        seen.iter().any(|now| received(now, 1) > 20 && now["streams"][1]["reported"] == false),
        "{seen:#?}"
    );
    assert!(seen.iter().chain([&ended]).any(|now| received(now, 0) > 20), "{seen:#?}");
    assert_eq!((received(&ended, 1), &ended["streams"][1]["missing"]), (200, &0.into()), "{ended}");
    let tests = ended["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 2);
    let archive = Archive::open(&folder.join("net")).unwrap();
    let id = archive.find(tests[0].as_str().unwrap()).unwrap();
    assert_eq!(archive.session(id).unwrap().spec.payload(), 120);
    let tagged = Filter { tags: vec![("asked".to_owned(), "page".to_owned())], ..Filter::default() };
    assert_eq!(archive.list(&tagged, &[]).unwrap().len(), 2);
    // Round trips that are stopped early: the results so far are stored.
    let long = json!({ "host": "10.9.0.2", "test": "ping-stamp", "duration": "3s" });
    let (_, started) = ask(&lab.client, 2680, "POST /api/v1/runs", Some(&long));
    let address = format!("/api/v1/runs/{}", started["id"].as_str().unwrap());
    wait_for("some packets", || {
        let (_, now) = ask(&lab.client, 2680, &format!("GET {address}"), None);
        (received(&now, 0) >= 10 || now["state"] == "ended").then_some(())
    });
    assert_eq!(ask(&lab.client, 2680, &format!("POST {address}/stop"), None).0, 200);
    let ended = wait_for("its end", || {
        let (_, now) = ask(&lab.client, 2680, &format!("GET {address}"), None);
        (now["state"] != "running" && now["state"] != "collecting").then_some(now)
    });
    assert_eq!((&ended["state"], ended["tests"].as_array().unwrap().len()), (&"ended".into(), 1), "{ended}");
    // With a load: the idle streams, then those under the load, each with what it was measured under.
    let loaded = json!({ "host": "10.9.0.2", "duration": "1s", "period": "10ms", "direction": "forward",
        "load": "up", "load_rate": "2Mbit" });
    let (ended, _) = run(&lab.client, 2680, &loaded);
    let tests = ended["tests"].as_array().unwrap();
    assert_eq!((&ended["state"], tests.len()), (&"ended".into(), 2), "{ended}");
    let phases =
        tests.iter().map(|test| archive.session(archive.find(test.as_str().unwrap()).unwrap()).unwrap());
    let phases: Vec<_> =
        phases.map(|session| session.load.expect("both are measured as one of two phases")).collect();
    assert_eq!([phases[0].phase, phases[1].phase], [TestPhase::Idle, TestPhase::Loaded], "{phases:?}");
    let (_, page) = asked(&lab.client, 2680, &format!("GET /run/{}", ended["id"].as_str().unwrap()), "");
    assert!(page.contains(", idle</b>") && page.contains(", under load</b>"), "{page}");
    let received: f64 = phases[1].streams.iter().filter_map(|stream| stream.received_bps).sum();
    assert!((1e6..3e6).contains(&received), "{phases:?}");
    // A host that does not exist fails, and a forbidden test is not started.
    let (ended, _) = run(&lab.client, 2680, &json!({ "host": "10.9.0.77", "packets": "5" }));
    assert!(ended["state"] == "failed" && !ended["said"].as_str().unwrap().is_empty(), "{ended}");
    for (request, status, said) in [
        (json!({ "host": "10.9.0.3" }), 400, "choose one of 10.9.0.2, 10.9.0.77"),
        (json!({ "host": "10.9.0.2" }), 400, "the limit is 3"),
        (
            json!({ "host": "10.9.0.2", "duration": "1s", "load": "up", "load_rate": "20Mbit" }),
            400,
            "the limit is 10.0 Mbit/s",
        ),
        (json!({ "host": "10.9.0.2", "duration": "1s", "period": "10us" }), 400, "the limit is 10.0 Mbit/s"),
    ] {
        let (got, answer) = ask(&lab.client, 2680, "POST /api/v1/runs", Some(&request));
        assert!(got == status && answer["detail"].as_str().unwrap().contains(said), "{request}: {answer}");
    }
    web.signal(Signal::SIGTERM);
    assert_eq!(web.finish(TIMEOUT).code(), 0);
}

#[test]
fn a_monitor_makes_it_in_the_next_gap_and_misses_no_slot() {
    let Some(lab) = lab("a_monitor_makes_it_in_the_next_gap_and_misses_no_slot") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = "host = [{ name = \"a\", address = \"10.9.0.1\" }, { name = \"b\", address = \"10.9.0.2\" }]\n\
                [[test]]\nname = \"delay\"\nevery = \"15s\"\nfor = \"1s\"\nclient = \"first\"\n\
                [timetable]\nguard = \"500ms\"\nsetup = \"2s\"\n[archive]\nfolder = \"archive\"\n\
                [web]\nhosts = [\"a\"]\nrun = true\nrun-longest = \"20s\"\n";
    fs::write(folder.join("mesh.toml"), file).unwrap();
    let monitor = |place: &Namespace, archive: &str| {
        let line = format!("monitor mesh.toml --archive {archive} --log-level debug");
        Running::start(Place::In(place).jitlat(folder, &line))
    };
    let (a, b) = (monitor(&lab.client, "a"), monitor(&lab.server, "b"));
    has_page(&lab.client, 2680);
    let tests = || -> Vec<(i64, TestId, bool)> {
        let Ok(archive) = Archive::open(Path::new(&folder.join("a"))) else { return Vec::new() };
        let Ok(all) = archive.list(&Filter::default(), &[]) else { return Vec::new() };
        let asked = Filter { tags: vec![("asked".to_owned(), "page".to_owned())], ..Filter::default() };
        let asked = archive.list(&asked, &[]).unwrap_or_default();
        let test = |t: &jitlat_archive::ListedTest| {
            Some((t.started_ns, archive.find(&t.id).ok()?, asked.iter().any(|a| a.id == t.id)))
        };
        all.iter().filter_map(test).collect()
    };
    wait_for("a test of the timetable", || (!tests().is_empty()).then_some(()));
    // One test that fits between two slots, and one that is too long for any gap.
    let request = json!({ "host": "b", "duration": "3s", "period": "20ms" });
    let (ended, _) = run(&lab.client, 2680, &request);
    assert_eq!(ended["state"], "ended", "{ended}");
    let (status, answer) =
        ask(&lab.client, 2680, "POST /api/v1/runs", Some(&json!({ "host": "b", "duration": "14s" })));
    assert!(
        status == 409 && answer["detail"].as_str().unwrap().contains("has room for a test of"),
        "{answer}"
    );
    let before = tests().len();
    wait_for("the next test of the timetable", || (tests().len() > before).then_some(()));
    let list = tests();
    let asked: Vec<i64> = list.iter().filter(|t| t.2).map(|t| t.0).collect();
    assert_eq!(asked.len(), 2, "{list:?}");
    // All other tests ended before it or began after it.
    for (at, _, _) in list.iter().filter(|t| !t.2) {
        let apart = at - asked[0];
        assert!(!(-1_000_000_000..3_000_000_000).contains(&apart), "{apart} ns");
    }
    for running in [a, b] {
        running.signal(Signal::SIGTERM);
        let ended = running.finish(TIMEOUT);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        assert!(!ended.stderr.contains("missed"), "{}", ended.stderr);
    }
}

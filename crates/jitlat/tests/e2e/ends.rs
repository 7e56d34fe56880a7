//! Effects of the hosts at the ends of a path: programs that stall or are stopped, and control connections that are cut
//! silently. None of them may lower the grade of the path.

use crate::harness::*;
use crate::undisturbed::undisturbed;
use jitlat_net::emulator::lab::Namespace;
use nix::sys::signal::Signal;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time for some packets of each stream.
const A_WHILE: Duration = Duration::from_millis(500);

/// True if the whole matrix runs, not only a sample.
fn is_full() -> bool {
    std::env::var_os("JITLAT_FULL").is_some_and(|value| value == "1")
}

/// End of the path whose program is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Client,
    Server,
}

/// Stops a program for each of `lengths`, with pauses between; returns the measured lengths in ms.
fn stall(running: &mut Running, lengths: &[Duration], stop: impl Fn(Signal)) -> Vec<f64> {
    let stall = |length: &Duration| {
        let begin = Instant::now();
        stop(Signal::SIGSTOP);
        running.runs_for(*length);
        stop(Signal::SIGCONT);
        let measured = begin.elapsed();
        running.runs_for(A_WHILE);
        measured.as_secs_f64() * 1e3
    };
    lengths.iter().map(stall).collect()
}

/// Runs `line` while a program is stopped for each of `lengths` ms; the causes must be stalls of this length, in the end
/// that `fault` names, and the path must stay good.
fn a_stall(line: &str, end: End, faults: &[&str], lengths: &[u64]) {
    let Some(lab) = lab("a_stall_is_found_where_it_is") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    let line = format!("{} --json - -o stall.log", line.replace("HOST", &lab.server.v4.to_string()));
    let test = Place::In(&lab.client).jitlat(folder.path(), &line);
    let mut running = if line.contains("--proto icmp") {
        echoes_under_way(test, &lab.server)
    } else {
        server.under_way(test, A_WHILE)
    };
    let lengths: Vec<Duration> = lengths.iter().map(|ms| Duration::from_millis(*ms)).collect();
    let id = nix::unistd::Pid::from_raw(running.id() as i32);
    let measured = stall(&mut running, &lengths, |signal| match end {
        End::Client => nix::sys::signal::kill(id, signal).unwrap(),
        End::Server => server.signal(signal),
    });
    let finished = running.finish(TIMEOUT);
    let report = finished.report();
    let what = format!("{line}, {end:?}, {measured:?}: {:#}", report.at("/answer"));
    let causes = report.at("/answer/causes").as_array().unwrap();
    let is_right =
        |cause: &&serde_json::Value| faults.iter().any(|fault| cause["id"] == format!("{fault}-stall"));
    // On a busy machine the other host may have stalled as well, for less time.
    let length = |cause: &&serde_json::Value| cause["magnitude_ns"].as_u64();
    let cause =
        causes.iter().filter(is_right).max_by_key(length).unwrap_or_else(|| panic!("no stall: {what}"));
    assert!(causes.iter().all(|cause| cause["fault"] != "path"), "{what}");
    let largest = measured.iter().copied().fold(0.0, f64::max);
    // After a long stall of the sender too few packets remain that show the path.
    let is_unknown = report.text("/answer/headline").contains("the hosts themselves");
    let severity = if is_unknown && largest > 2e3 { "unknown" } else { "good" };
    assert_eq!(report.text("/answer/severity"), severity, "{what}");
    let of_host = report.at("/answer/host/causes").as_array().unwrap();
    assert!(of_host.contains(&cause["id"]), "{what}");
    let found = cause["magnitude_ns"].as_f64().unwrap() / 1e6;
    // A stall shows from the first packet on that was due in it. Bursts of five are due every 25 ms.
    let margin = if line.contains("--burst") { 30.0 } else { 20.0 };
    assert!((found - largest).abs() <= (0.1 * largest).max(margin), "{found} ms of {what}");
    // The host may add short stalls of its own.
    assert!(cause["count"].as_u64().unwrap() >= measured.len() as u64, "{what}");
}

/// Runs `test`, an ICMP test of the kernel at `far`, and waits until requests have been sent for a while.
fn echoes_under_way(test: Command, far: &Namespace) -> Running {
    let requests = || {
        let output = far.command("cat").arg("/proc/net/snmp").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let [names, values] = text.lines().filter(|line| line.starts_with("Icmp:")).collect::<Vec<_>>()[..]
        else {
            panic!("not the counters of ICMP: {text}")
        };
        let index = names.split(' ').position(|name| name == "InEchos").unwrap();
        values.split(' ').nth(index).unwrap().parse::<u64>().unwrap()
    };
    let mut running = Running::start(test);
    jitlat_waiting::until("the first request", TIMEOUT, || requests() > 0);
    running.runs_for(A_WHILE);
    running
}

/// Test, end that is stopped, causes of which one must be found, and lengths of the stalls in ms.
type Case = (&'static str, End, &'static [&'static str], &'static [u64]);

/// Tests that run at a time. Stalls take time, but tests that share two processors disturb each other.
const AT_A_TIME: usize = 8;

#[test]
fn a_stall_is_found_where_it_is() {
    let (cases, wrong) = (Mutex::new(cases().into_iter()), Mutex::new(Vec::new()));
    let work = || {
        let next = || cases.lock().unwrap().next();
        while let Some(case @ (line, end, faults, lengths)) = next() {
            let measured = catch_unwind(|| undisturbed(|| a_stall(line, end, faults, lengths)));
            if measured.is_err() {
                wrong.lock().unwrap().push(case);
            }
        }
    };
    std::thread::scope(|s| (0..AT_A_TIME).for_each(|_| drop(s.spawn(work))));
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} cases, see above: {wrong:#?}", wrong.len());
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = vec![
        ("HOST -n 1000 -p 5ms", End::Client, &["sender"], &[200, 400]),
        ("HOST -n 1000 -p 5ms", End::Server, &["receiver"], &[200, 400]),
        ("HOST -R -n 800 -p 5ms", End::Server, &["sender"], &[400]),
        ("HOST -n 600 -p 5ms --schedule poisson", End::Client, &["sender"], &[400]),
        ("HOST -n 600 -p 5ms --schedule burst --burst 4", End::Client, &["sender"], &[400]),
        ("ping HOST --proto stamp -n 600 -p 5ms", End::Client, &["sender", "receiver"], &[400]),
        ("ping HOST --proto stamp -n 600 -p 5ms", End::Server, &["receiver"], &[400]),
    ];
    if !is_full() {
        return cases;
    }
    for end in [End::Client, End::Server] {
        let [up, down]: [&[&str]; 2] = match end {
            End::Client => [&["sender"], &["receiver"]],
            End::Server => [&["receiver"], &["sender"]],
        };
        for lengths in [&[100][..], &[1000], &[3000], &[10_000], &[150, 500, 250]] {
            cases.push(("HOST -n 3000 -p 5ms", end, up, lengths));
            cases.push(("HOST -R -n 3000 -p 5ms", end, down, lengths));
            cases.push(("HOST -n 3000 -p 5ms --schedule poisson", end, up, lengths));
            cases.push(("HOST -n 3000 -p 5ms --schedule burst --burst 5", end, up, lengths));
            cases.push(("ping HOST --proto irtt -n 3000 -p 5ms", end, &["sender", "receiver"], lengths));
            cases.push(("ping HOST --proto stamp -n 3000 -p 5ms", end, &["sender", "receiver"], lengths));
        }
    }
    for lengths in [&[100][..], &[1000], &[3000]] {
        cases.push(("ping HOST --proto icmp -n 1500 -p 5ms", End::Client, &["sender", "receiver"], lengths));
    }
    cases
}

/// The receiver stops for so long that its socket's buffer overflows: the path did not lose these packets.
#[test]
fn packets_that_a_stopped_receiver_dropped_are_not_lost_on_the_path() {
    undisturbed(|| {
        let Some(lab) = lab("packets_that_a_stopped_receiver_dropped") else { return };
        lab.cable().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
        let line = format!("{} -n 50000 -p 100us -l 1000 --json - --no-log", lab.server.v4);
        let mut running = server.under_way(Place::In(&lab.client).jitlat(folder.path(), &line), A_WHILE);
        stall(&mut running, &[Duration::from_millis(2500)], |signal| server.signal(signal));
        let report = running.finish(TIMEOUT).any_report();
        let what = format!("{:#}", report.at("/answer"));
        let causes = report.at("/answer/causes").as_array().unwrap();
        assert!(causes.iter().any(|cause| cause["id"] == "receiver-stall"), "{what}");
        assert!(causes.iter().all(|cause| cause["fault"] != "path"), "{what}");
        assert!(["good", "unknown"].contains(&report.text("/answer/severity")), "{what}");
    });
}

#[test]
fn a_server_that_is_stopped_hands_over_what_it_has() {
    std::thread::scope(|s| {
        for options in ["", "-R", "-b", "-t"] {
            s.spawn(move || a_stopped_server(options));
        }
    });
}

fn a_stopped_server(options: &str) {
    let (folder, host) = (tempfile::tempdir().unwrap(), own_address());
    let server = Server::start(Place::Here, folder.path(), host, "");
    let line = format!("{options} {host} -n 3000 -p 5ms -o stopped.log --json -");
    let running = server.under_way(Place::Here.jitlat(folder.path(), &line), A_WHILE);
    server.signal(Signal::SIGTERM);
    let finished = running.finish(TIMEOUT);
    assert_eq!(finished.code(), 2, "{options}: the test has no end: {}", finished.stderr);
    let report = finished.any_report();
    let reports = if options == "-b" { report.directions().to_vec() } else { vec![report] };
    for report in reports {
        let what = format!("{options}: {:#}", report.at("/session"));
        let received = report.count("/counts/unique_valid");
        assert!((10..3000).contains(&received), "{received} received, {what}");
        assert!(report.count("/counts/lost") <= received / 20, "{what}");
        assert_eq!(report.at("/answer/complete"), false, "{what}");
        assert!(report.text("/session/reason").contains("the server was stopped"), "{what}");
        assert_eq!(report.text("/session/ending"), "server_stopped", "{what}");
    }
}

/// Drops the packets of the present control connection in both directions, and of no other.
fn cut_control_connection(host: &Namespace, folder: &Path) {
    let port = || {
        let output = host.command("cat").arg("/proc/net/tcp").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // Local and remote address, and the state 01 of an established connection.
        text.lines().find_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (local, remote, state) = (words.next()?, words.next()?, words.next()?);
            let is_control = local.ends_with(":0A6A") && state == "01";
            u16::from_str_radix(remote.rsplit(':').next().filter(|_| is_control)?, 16).ok()
        })
    };
    jitlat_waiting::until("a control connection", TIMEOUT, || port().is_some());
    let port = port().unwrap();
    let rules = format!(
        "table inet cut {{\n chain in {{\n type filter hook input priority 0;\n tcp sport {port} drop\n }}\n\
         chain out {{\n type filter hook output priority 0;\n tcp dport {port} drop\n }}\n}}\n"
    );
    let file = folder.join("rules");
    std::fs::write(&file, rules).unwrap();
    host.run(&format!("nft -f {}", file.display())).unwrap();
}

#[test]
fn a_silently_cut_control_connection_is_replaced() {
    std::thread::scope(|s| {
        for options in ["", "-R", "-b"] {
            s.spawn(move || a_cut_control_connection(options));
        }
    });
}

fn a_cut_control_connection(options: &str) {
    let Some(lab) = lab("a_silently_cut_control_connection_is_replaced") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
    let line = format!("{} {options} -n 300 -p 5ms -o cut.log --json -", lab.server.v4);
    let running = server.under_way(Place::In(&lab.client).jitlat(folder.path(), &line), A_WHILE);
    cut_control_connection(&lab.server, folder.path());
    running.wait_for("a firewall or router may have dropped it");
    let finished = running.finish(TIMEOUT);
    let report = finished.report();
    let reports = if options == "-b" { report.directions().to_vec() } else { vec![report] };
    for report in reports {
        let what = format!("{options}: {:#}\n{}", report.at("/session"), finished.stderr);
        let [received, sent] = ["unique_valid", "sent"].map(|n| report.count(&format!("/counts/{n}")));
        // The receive queue of a loaded host may lose some packets.
        assert!(sent == 300 && received >= 285, "{received} received of {sent}, {what}");
        assert_eq!(report.at("/answer/complete"), true, "{what}");
        assert_eq!(report.text("/session/ending"), "complete", "{what}");
    }
}

//! `jitlat ping --proto twamp` against `jitlat serve`, with a control connection, on loopback.

use crate::server::Server;
use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Output};

const JITLAT: &str = env!("CARGO_BIN_EXE_jitlat");

/// Starts a server on a port chosen by the system; returns that port.
fn serve(ip: &str, arguments: &[&str]) -> (Server, String) {
    let server = Server::start(ip, "twamp", arguments);
    let port = server.port(0).to_owned();
    (server, port)
}

fn ping(ip: &str, port: &str, arguments: &[&str]) -> Output {
    let fixed = [
        "ping",
        ip,
        "--no-log",
        "--proto",
        "twamp",
        "--twamp-port",
        port,
        "-n",
        "20",
        "-p",
        "2ms",
        "--json",
        "-",
    ];
    Command::new(JITLAT).args(fixed).args(arguments).output().unwrap()
}

fn report(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(output: &Output, phrases: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for word in phrases {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
}

fn key_file(folder: &tempfile::TempDir, text: &str) -> String {
    let path = folder.path().join("users.pfs");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn every_mode_measures_over_both_families() {
    let folder = tempfile::tempdir().unwrap();
    let file = key_file(&folder, "# two users\ntester 736563726574\nother 00ff\n");
    let keyed = ["--twamp-key-file", &file, "--twamp-user", "tester"];
    for ip in ["127.0.0.1", "::1"] {
        if TcpListener::bind((ip, 0)).is_err() {
            eprintln!("skipped: this host has no {ip}");
            continue;
        }
        let (_open, open) = serve(ip, &[]);
        let (_locked, locked) = serve(ip, &["--twamp-key-file", &file]);
        let keyed_as = |mode| [&keyed[..], &["--twamp-mode", mode]].concat();
        let tests: [(&str, Vec<&str>, &str, u64); 9] = [
            (&open, vec![], "mode open", 41),
            (&open, vec!["--nat", "-D", "EF", "-l", "500"], "mode open", 500),
            (&open, vec!["--wait", "0"], "mode open", 41),
            (&open, vec!["-l", "14"], "mode open", 14),
            (&locked, [&keyed[..], &["-l", "48"]].concat(), "mode encrypted", 48),
            (&locked, keyed.to_vec(), "mode encrypted", 112),
            (&locked, keyed_as("authenticated"), "mode authenticated", 112),
            (&locked, keyed_as("mixed"), "mode mixed", 41),
            (&locked, [&keyed_as("encrypted")[..], &["-l", "1000"]].concat(), "mode encrypted", 1000),
        ];
        for (port, arguments, mode, size) in &tests {
            let json = report(&ping(ip, port, arguments));
            assert_eq!((&json["counts"]["sent"], &json["counts"]["received"]), (&20.into(), &20.into()));
            let two_way = &json["two_way"];
            assert!(two_way["remarks"].to_string().contains(mode), "{arguments:?}: {two_way:#}");
            assert!(two_way["up"].is_object() && two_way["processing_min_ns"].is_i64(), "{arguments:?}");
            let d = &two_way["directions"];
            assert_eq!((&d["up_lost"], &d["down_lost"]), (&0.into(), &0.into()), "{arguments:?}");
            assert_eq!(json["header"]["pktlen"].as_u64(), Some(*size), "{arguments:?}: {}", json["header"]);
        }
    }
}

#[test]
fn refusals_say_what_to_try() {
    let folder = tempfile::tempdir().unwrap();
    let file = key_file(&folder, "tester 736563726574\n");
    let (_server, port) = serve("127.0.0.1", &["--twamp-key-file", &file]);
    refused(
        &ping("127.0.0.1", &port, &[]),
        &["offers the modes authenticated, encrypted, mixed", "passphrase"],
    );
    let wrong = folder.path().join("wrong.pfs");
    std::fs::write(&wrong, "tester 00ff\n").unwrap();
    std::fs::set_permissions(&wrong, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let wrong = ["--twamp-key-file", wrong.to_str().unwrap()];
    refused(&ping("127.0.0.1", &port, &wrong), &["are the user and the passphrase right?"]);
    refused(&ping("127.0.0.1", &port, &["--twamp-mode", "mixed"]), &["--twamp-key-file"]);
    refused(&ping("127.0.0.1", &port, &["-l", "13"]), &["-l 13", "14"]);
}

#[test]
fn without_a_server_the_reflector_is_asked_or_the_lack_explained() {
    // Nothing listens at TCP 862 of this address of the test.
    let ip = crate::network::own_address().to_string();
    let server = Server::start(&ip, "stamp", &[]);
    let stamp = server.port(0);
    let light = |more: &[&str]| {
        let fixed =
            ["ping", &ip, "--no-log", "--proto", "twamp", "--stamp-port", stamp, "-n", "20", "-p", "2ms"];
        Command::new(JITLAT).args(fixed).args(more).output().unwrap()
    };
    // The report says in every form that there was no control server.
    let said = "measured as TWAMP Light: no control server at TCP";
    let json = report(&light(&["--json", "-"]));
    assert_eq!(json["counts"]["received"], 20);
    assert!(json["two_way"]["remarks"].to_string().contains(said), "{json}");
    for form in [&[][..], &["-v"], &["--check"]] {
        let shown = light(form).stdout;
        let shown = String::from_utf8_lossy(&shown).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(said), "{form:?}: {shown}");
    }
    let json = report(&light(&["--light", "--json", "-"]));
    assert_eq!(json["two_way"]["remarks"].as_array().map(Vec::len), Some(0));
    // Whoever names the port, a mode or the addresses gets no answer from the reflector instead. Port 1 (tcpmux) is not
    // in use.
    refused(
        &ping(&ip, "1", &["--stamp-port", stamp]),
        &["cannot connect to the TWAMP server", "Connection refused", "--light"],
    );
    for explicit in [&["--nat"][..], &["--twamp-mode", "open"]] {
        refused(&light(explicit), &["cannot connect to the TWAMP server", "--light"]);
    }
    let colon = Command::new(JITLAT)
        .args(["ping", &format!("{ip}:1"), "--proto", "twamp", "--stamp-port", stamp, "-n", "5", "--check"])
        .output()
        .unwrap();
    let line = String::from_utf8_lossy(&colon.stdout);
    assert!(colon.status.code() == Some(2) && line.starts_with("CRITICAL - "), "{line}");
}

/// Starts a program that accepts connections and then behaves like a broken server.
fn impostor(greeting: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = std::io::Write::write_all(&mut stream, greeting);
            let mut rest = Vec::new();
            let _ = stream.take(164).read_to_end(&mut rest);
        }
    });
    port
}

#[test]
fn broken_servers_are_named_for_what_they_are() {
    refused(
        &ping("127.0.0.1", &impostor(b""), &[]),
        &["no answer from the server in time", "running there?"],
    );
    refused(&ping("127.0.0.1", &impostor(&[0; 64]), &[]), &["refuses every client"]);
    // All modes, and a count of 2^31, which must not be computed.
    static GREEDY: [u8; 64] = {
        let mut greeting = [0; 64];
        greeting[15] = 15;
        greeting[48] = 0x80;
        greeting
    };
    let folder = tempfile::tempdir().unwrap();
    let file = key_file(&folder, "tester 736563726574\n");
    let keyed = ["--twamp-key-file", &file];
    refused(&ping("127.0.0.1", &impostor(&GREEDY), &keyed), &["2147483648 rounds"]);
    refused(
        &ping("127.0.0.1", &impostor(&GREEDY), &[]),
        &["closed the connection (while negotiating the mode)"],
    );
}

//! Page and collector behind nginx, with the configuration of docs/guide/web.md. Needs nginx and curl.

use crate::harness::*;
use jitlat_archive::Archive;
use jitlat_core::{PacketRecord, Session, TestSpec, WallTime};
use jitlat_net::emulator::lab::Namespace;
use jitlat_store::log::{LogVersion, LogWriter};
use jitlat_web::Identity;
use nix::sys::signal::Signal;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(100);
const GUIDE: &str = include_str!("../../../../docs/guide/web.md");
const HOSTS: &str = "host = [\n  { name = \"a\", address = \"10.9.0.1\", key = \"the key of a, and of nobody else\" },\n  \
                     { name = \"b\", address = \"10.9.0.2\", key = \"the key of b, and of nobody else\" },\n  \
                     { name = \"c\", address = \"10.9.0.9\", key = \"the key of c, and of nobody else\" },\n]\n\
                     [[ping]]\nname = \"none\"\nfrom = \"c\"\ntargets = [\"10.9.0.9\"]\nevery = \"1h\"\n\
                     [serve]\non = false\noptions = { bind = \"127.0.0.1\" }\n[archive]\nfolder = \"archive\"\n\
                     [web]\nhosts = [\"b\"]\nbehind-proxy = [\"127.0.0.1\"]\n\
                     [[collector]]\nhost = \"b\"\nfrom = [\"a\"]\nurl = \"https://10.9.0.2/jitlat\"\nplain = true\nbehind-proxy = [\"127.0.0.1\"]\n";

/// Writes the configuration of the guide, with the files and the address of this test.
fn configure(folder: &Path) {
    let begin = GUIDE.find("```text\nserver {").expect("the guide has the configuration") + "```text\n".len();
    let server = &GUIDE[begin..begin + GUIDE[begin..].find("```").unwrap()];
    let at = |name: &str| folder.join(name).display().to_string();
    let mut server = server.replace("listen 443 ssl", "listen 10.9.0.2:443 ssl");
    for (of_the_guide, own) in [
        ("/etc/ssl/jitlat.example.net.pem", "proxy.pem"),
        ("/etc/ssl/private/jitlat.example.net.key", "proxy.pem"),
        ("/etc/nginx/jitlat.users", "users"),
    ] {
        assert!(server.contains(of_the_guide), "{of_the_guide}");
        server = server.replace(of_the_guide, &at(own));
    }
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {};\n", at(kind)))
        .concat();
    let all = format!(
        "user root;\nworker_processes 1;\ndaemon off;\npid {};\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}{server}}}\n",
        at("nginx.pid")
    );
    fs::write(folder.join("nginx.conf"), all).unwrap();
    fs::write(folder.join("users"), "reader:{PLAIN}horse\n").unwrap();
}

/// Returns status and body of a request; empty if there is no answer.
fn ask(place: &Namespace, arguments: &str) -> (String, String) {
    let mut command = place.command("curl");
    command.args(["--silent", "--insecure", "--max-time", "20", "--write-out", "\n%{http_code}"]);
    let output = command.args(arguments.split('|').map(str::trim)).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap_or(("", ""));
    (status.to_owned(), body.to_owned())
}

fn add_test(archive: &Archive, folder: &Path, seed: i64) {
    let path = folder.join("next.log");
    let mut log = LogWriter::new(File::create(&path).unwrap(), LogVersion::V3);
    let session = Session::new(TestSpec::default());
    log.begin(&session);
    for i in 0..100 {
        let sent = WallTime(1_767_225_600_000_000_000 + seed * 60_000_000_000 + i * 20_000_000);
        log.record(&PacketRecord::one_way(i, sent, sent + jitlat_core::Span(5_000_000 + i)));
    }
    log.finish(&session);
    log.close().1.unwrap();
    archive.add(&path, &[]).unwrap();
}

#[test]
fn a_page_and_a_collector_are_used_through_nginx() {
    let test = "a_page_and_a_collector_are_used_through_nginx";
    for (program, argument) in [("nginx", "-v"), ("curl", "--version")] {
        if Command::new(program).arg(argument).output().is_err() {
            assert!(std::env::var_os("JITLAT_REQUIRE_PEERS").is_none(), "{test} needs {program}");
            eprintln!("SKIPPED: {test}: {program} is not installed");
            return;
        }
    }
    let Some(lab) = lab(test) else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (proxy, _) = Identity::made(&folder.join("proxy.pem"), &["10.9.0.2".to_owned()]).unwrap();
    let file = folder.join("mesh.toml");
    fs::write(&file, format!("{HOSTS}pin = \"{}\"\n", proxy.fingerprint())).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    configure(folder);
    let run = |place: &Namespace, host: &str| {
        let line = format!("monitor mesh.toml --host {host} --archive {host}");
        Running::start(Place::In(place).jitlat(folder, &line))
    };
    let (client, server) = (&lab.client, &lab.server);
    let b = run(server, "b");
    b.wait_for("collecting tests on http://127.0.0.1:2670, without TLS");
    b.wait_for("web page: http://127.0.0.1:2680/");
    let mut nginx = server.command("nginx");
    nginx.args(["-p", "."]).arg("-c").arg(folder.join("nginx.conf")).current_dir(folder);
    let nginx = Running::start(nginx);
    jitlat_waiting::until("the proxy", LIMIT, || ask(client, "https://10.9.0.2/").0 == "401");
    // Tests arrive through the proxy, below its path.
    let archive = Archive::make(&folder.join("a")).unwrap();
    let a = run(client, "a");
    (0..5).for_each(|seed| add_test(&archive, folder, seed));
    let push = || archive.pushes().unwrap().pop();
    jitlat_waiting::until("all tests to be pushed", LIMIT, || {
        push().is_some_and(|push| (push.stored, push.waiting) == (5, 0))
    });
    // A reader with an account at the proxy can read the page.
    let (status, page) = ask(client, "--user|reader:horse|https://10.9.0.2/hosts");
    assert!(status == "200" && page.contains("<html"), "{status} {page}");
    // Waiting times apply to the client that the proxy names, whatever address the client itself writes.
    let guess = "--request|POST|--data|x|--header|X-Forwarded-For: 192.0.2.99|--header|Authorization: Bearer wrong-horse-battery|https://10.9.0.2/jitlat/push/v1/offers";
    assert!((0..8).any(|_| ask(client, guess).0 == "429"), "guesses of one client wait");
    assert_eq!(ask(server, guess).0, "401");
    // Neither the proxy nor a host that shows its token from the address of the guesses must wait.
    add_test(&archive, folder, 6);
    jitlat_waiting::until("one more", LIMIT, || push().is_some_and(|push| push.stored == 6));
    // Programs on the proxy's host cannot read the page without the proxy.
    let (status, page) = ask(server, "--interface|127.0.0.2|http://127.0.0.1:2680/hosts");
    assert!(status == "403" && page.contains("behind a proxy"), "{status} {page}");
    for running in [a, b, nginx] {
        running.signal(Signal::SIGTERM);
        let ended = running.finish(LIMIT);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        if ended.stderr.contains("collecting tests on") {
            for expected in ["from=10.9.0.1", "from=10.9.0.2"] {
                assert!(ended.stderr.contains(expected), "{expected}: {}", ended.stderr);
            }
            assert!(!ended.stderr.contains("192.0.2.99"), "{}", ended.stderr);
        }
    }
    assert_eq!(Archive::open(&folder.join("b")).unwrap().collected().unwrap()[0].stored, 6);
}

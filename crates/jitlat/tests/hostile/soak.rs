//! Servers that are used and attacked for a long time: their memory, file descriptors and threads stay flat. `JITLAT_SOAK_SECONDS` is
//! the time: two hours in `just nightly`.

use crate::harness::*;
use crate::page::{FOR_HONEST, Page, TOKEN, connect, connect_as, status};
use jitlat_proto::push::PORT as PUSH_PORT;
use nix::sys::signal::Signal;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
/// Time between two looks at the servers.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// Growth that is not a leak: allocators, caches and pools of threads.
const MEMORY_RESERVE: u64 = 16 << 20;
const DESCRIPTORS_RESERVE: u64 = 32;
const THREADS_RESERVE: u64 = 12;

const FILE: &str = "host = [\n  { name = \"a\", address = \"10.9.0.3\", key = \"the key of a, and of nobody else\" },\n  \
                    { name = \"b\", address = \"10.9.0.2\", key = \"the key of b, and of nobody else\" },\n]\n\
                    [[ping]]\nname = \"p\"\nfrom = \"b\"\ntargets = [\"10.9.0.3\"]\nevery = \"10s\"\nfor = \"1s\"\n[serve]\non = false\n\
                    [archive]\nfolder = \"b\"\n[[collector]]\nhost = \"b\"\nplain = true\n";

/// Resources of a process.
#[derive(Clone, Copy, Debug)]
struct Use {
    memory: u64,
    descriptors: u64,
    threads: u64,
}

fn used(process: u32) -> Use {
    let count = |folder: &str| fs::read_dir(format!("/proc/{process}/{folder}")).unwrap().count() as u64;
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    Use { memory: kilobytes << 10, descriptors: count("fd"), threads: count("task") }
}

/// Median of each figure.
fn median(uses: &[Use]) -> Use {
    let of = |figure: fn(&Use) -> u64| {
        let mut all: Vec<u64> = uses.iter().map(figure).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    Use { memory: of(|u| u.memory), descriptors: of(|u| u.descriptors), threads: of(|u| u.threads) }
}

/// One step of the attacks: `k` selects it. Returns the connection that stays open.
fn attack(page: &Page, k: usize) -> Option<TcpStream> {
    let scene = &page.scene;
    let to = |port: u16| SocketAddr::from((scene.lab.server.v4, port));
    let open = |port: u16, said: &[u8]| {
        let opened = || TcpStream::connect_timeout(&to(port), Duration::from_millis(500));
        let mut stream = scene.lab.client.within(opened).unwrap().ok()?;
        let _ = stream.write(said);
        Some(stream)
    };
    let page_connection = || connect_as(scene, k as u16);
    match k % 8 {
        0 => page_connection(),
        1 => {
            let mut stream = page_connection()?;
            status(&mut stream, "/", Some("guessed-horse-battery"));
            None
        }
        2 => {
            let mut stream = page_connection()?;
            status(&mut stream, "/api/v1/events", Some(TOKEN));
            Some(stream)
        }
        3 => {
            let mut stream = page_connection()?;
            status(&mut stream, &format!("/test/{}", page.tests[k / 8 % page.tests.len()]), Some(TOKEN));
            None
        }
        4 => open(
            PUSH_PORT,
            b"PUT /push/v1/tests/0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer guess\r\n\r\n",
        ),
        5 => open(PUSH_PORT, b"\x00\x00\x00\x18\x01JLTP"),
        6 => open(2666, &[k as u8; 64]),
        _ => {
            let send = || {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                for port in [862, 2112] {
                    // Refused by the kernel if nothing listens there.
                    let _ = socket.send_to(&[k as u8; 100], to(port));
                }
            };
            scene.lab.client.within(send).unwrap();
            None
        }
    }
}

#[test]
#[ignore = "takes as long as JITLAT_SOAK_SECONDS says: nightly"]
fn doors_that_are_used_and_attacked_for_long_stay_flat() {
    let test = "doors_that_are_used_and_attacked_for_long_stay_flat";
    let seconds: u64 =
        std::env::var("JITLAT_SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(120);
    let Some(page) = Page::start(test, 4, 20_000) else { return };
    let folder = page.folder.path();
    let file = folder.join("mesh.toml");
    fs::write(&file, FILE).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let start = |line: &str| Running::start(Place::In(&page.scene.lab.server).jitlat(folder, line));
    let monitor = start("monitor mesh.toml --host b");
    monitor.wait_for("collecting tests on");
    let serve = start("serve --public --contact test@example.net --allow 10.9.0.0/24");
    serve.wait_for("answering");
    let processes = [("web", page.server.id()), ("monitor", monitor.id()), ("serve", serve.id())];
    let mut uses: Vec<Vec<Use>> = vec![Vec::new(); processes.len()];
    let (begun, mut looked) = (Instant::now(), Instant::now());
    let (mut held, mut k, mut honest) = (std::collections::VecDeque::new(), 0, 0);
    jitlat_waiting::at_pace(Duration::from_millis(20), || {
        held.extend(attack(&page, k));
        k += 1;
        if held.len() > 100 {
            held.pop_front();
        }
        if looked.elapsed() >= LOOK_INTERVAL {
            looked = Instant::now();
            let mut stream = connect(&page.scene.victim, FOR_HONEST).unwrap();
            assert_eq!(status(&mut stream, "/", Some(TOKEN)), Some(200), "after {:?}", begun.elapsed());
            let line = "10.9.0.2 -n 20 -p 10ms -q --no-log";
            let ended = Running::start(Place::In(&page.scene.victim).jitlat(folder, line)).finish(LIMIT);
            assert_eq!(ended.code(), 0, "{}", ended.stderr);
            honest += 1;
            for (uses, (_, process)) in uses.iter_mut().zip(processes) {
                uses.push(used(process));
            }
        }
        begun.elapsed() < Duration::from_secs(seconds)
    });
    let _ = writeln!(
        std::io::stderr(),
        "{test}: {k} attacks, {honest} honest requests and tests, in {:?}",
        begun.elapsed()
    );
    for (uses, (name, _)) in uses.iter().zip(processes) {
        // The first quarter fills tables and caches.
        let quarter = uses.len() / 4;
        let (early, late) = (median(&uses[quarter..2 * quarter]), median(&uses[3 * quarter..]));
        let _ = writeln!(std::io::stderr(), "{test}: {name}: {early:?}, later {late:?}");
        assert!(
            late.memory <= early.memory + early.memory / 10 + MEMORY_RESERVE,
            "{name}: {early:?} {late:?}"
        );
        assert!(late.descriptors <= early.descriptors + DESCRIPTORS_RESERVE, "{name}: {early:?} {late:?}");
        assert!(late.threads <= early.threads + THREADS_RESERVE, "{name}: {early:?} {late:?}");
    }
    for running in [monitor, serve] {
        running.signal(Signal::SIGTERM);
        assert_eq!(running.finish(LIMIT).code(), 0);
    }
    page.end();
}

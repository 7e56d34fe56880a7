//! The page under attack while an honest reader uses it: connections of one host, places for events, guesses of the token, and a page
//! that takes long to make.

use crate::forged::Scene;
use crate::harness::*;
use crate::honest::seconds;
use jitlat_archive::{Archive, TestId};
use jitlat_core::{PacketRecord, Session, Span, TestSpec, WallTime};
use jitlat_net::emulator::lab::{DEVICE, Namespace};
use jitlat_store::log::{LogVersion, LogWriter};
use nix::sys::signal::Signal;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const PORT: u16 = 2680;
pub const TOKEN: &str = "correct-horse-battery-staple";
/// Addresses of the server in the network of the attacker, and in that of the honest reader.
const FOR_ATTACKER: Ipv6Addr = Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2);
pub const FOR_HONEST: Ipv6Addr = Ipv6Addr::new(0xfd0a, 0, 0, 0, 0, 0, 0, 2);

/// Server of a page at a switch with an attacker, who has many addresses of one /64, and an honest reader in another /64.
pub struct Page {
    pub scene: Scene,
    pub folder: tempfile::TempDir,
    pub server: Running,
    pub tests: Vec<TestId>,
}

/// Number of addresses of the attacker.
const ADDRESSES: u16 = 16;

impl Page {
    /// Starts the server with an archive of `tests` tests of `packets` packets.
    pub fn start(test: &str, tests: i64, packets: i64) -> Option<Page> {
        let scene = Scene::new(test)?;
        scene.lab.server.run(&format!("ip address add {FOR_HONEST}/64 dev {DEVICE} nodad")).unwrap();
        scene.victim.run("ip address add fd0a::3/64 dev bridge nodad").unwrap();
        for host in 1..ADDRESSES {
            scene.lab.client.run(&format!("ip address add fd09::7:{host:x}/64 dev {DEVICE} nodad")).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        fs::write(&token, TOKEN).unwrap();
        fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).unwrap();
        let archive = Archive::make(&folder.path().join("archive")).unwrap();
        let tests = (0..tests).map(|seed| add(&archive, folder.path(), seed, packets)).collect();
        let line = format!("web archive --listen [::]:{PORT} --token-file token --plain");
        let server = Running::start(Place::In(&scene.lab.server).jitlat(folder.path(), &line));
        server.wait_for("jitlat web: http");
        Some(Page { scene, folder, server, tests })
    }

    /// Ends the server, and returns its log.
    pub fn end(self) -> String {
        self.server.signal(Signal::SIGTERM);
        let ended = self.server.finish(LIMIT);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        drop(self.folder);
        ended.stderr
    }
}

/// Adds a test to the archive.
fn add(archive: &Archive, folder: &Path, seed: i64, packets: i64) -> TestId {
    let path = folder.join("next.log");
    let mut log = LogWriter::new(File::create(&path).unwrap(), LogVersion::V3);
    let session = Session::new(TestSpec::default());
    log.begin(&session);
    for i in 0..packets {
        let sent = WallTime(1_767_225_600_000_000_000 + seed * 3_600_000_000_000 + i * 1_000_000);
        log.record(&PacketRecord::one_way(i, sent, sent + Span(5_000_000 + (i * 7919 + seed) % 99_991)));
    }
    log.finish(&session);
    log.close().1.unwrap();
    match archive.add(&path, &[]).unwrap() {
        jitlat_archive::AddOutcome::New(id) | jitlat_archive::AddOutcome::Known(id) => id,
    }
}

pub fn connect(from: &Namespace, to: Ipv6Addr) -> Option<TcpStream> {
    let to = SocketAddr::from((to, PORT));
    let stream = from.within(|| TcpStream::connect_timeout(&to, Duration::from_secs(5))).unwrap().ok()?;
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    Some(stream)
}

/// Connects from one of the attacker's addresses.
pub fn connect_as(scene: &Scene, host: u16) -> Option<TcpStream> {
    let from: Ipv6Addr = match host % ADDRESSES {
        0 => Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 1),
        host => Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 7, host),
    };
    let open = || {
        let socket = socket2::Socket::new(socket2::Domain::IPV6, socket2::Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((from, 0)).into())?;
        let to = SocketAddr::from((FOR_ATTACKER, PORT));
        socket.connect_timeout(&to.into(), Duration::from_millis(500))?;
        Ok::<TcpStream, std::io::Error>(socket.into())
    };
    let stream = scene.lab.client.within(open).unwrap().ok()?;
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    Some(stream)
}

/// Sends a request, and returns the status of the answer; `None` if the connection ends before.
pub fn status(stream: &mut TcpStream, path: &str, token: Option<&str>) -> Option<u16> {
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{token}\r\n").as_bytes()).ok()?;
    let mut first = [0; 12];
    stream.read_exact(&mut first).ok()?;
    std::str::from_utf8(&first[9..]).ok()?.parse().ok()
}

/// Requests pages of an honest reader with a new connection each, with and without its token, until the time is over; every one must
/// be answered. Returns their number.
fn read_honestly(scene: &Scene) -> usize {
    let (begun, mut count) = (Instant::now(), 0);
    jitlat_waiting::at_pace(Duration::from_millis(50), || {
        let (token, expected) = if count % 2 == 0 { (Some(TOKEN), 200) } else { (None, 401) };
        let answered =
            connect(&scene.victim, FOR_HONEST).and_then(|mut stream| status(&mut stream, "/", token));
        assert_eq!(answered, Some(expected), "request {count} of the honest reader");
        count += 1;
        begun.elapsed() < Duration::from_secs(seconds())
    });
    count
}

/// Lets an honest reader read while `attack` lasts, which is until the flag is set.
fn read_beside(test: &str, attack: impl FnOnce(&Scene, &AtomicBool) + Send) -> Option<String> {
    let page = Page::start(test, 1, 100)?;
    let over = AtomicBool::new(false);
    let count = std::thread::scope(|scope| {
        let before = page.scene.attacked();
        scope.spawn(|| attack(&page.scene, &over));
        jitlat_waiting::until("the attack", TIMEOUT, || page.scene.attacked() > before + 100);
        // A panic of the reader must end the attack, too.
        let ends = OnEnd(&over);
        let count = read_honestly(&page.scene);
        drop(ends);
        count
    });
    let _ = writeln!(std::io::stderr(), "{test}: {count} honest requests, all answered");
    assert!(count > 10, "{count}");
    Some(page.end())
}

/// Sets a flag when it is dropped.
struct OnEnd<'a>(&'a AtomicBool);

impl Drop for OnEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_page_is_read_beside_one_ipv6_host_that_takes_all_connections() {
    read_beside("a_page_is_read_beside_one_ipv6_host_that_takes_all_connections", |scene, over| {
        let (mut held, mut count) = (std::collections::VecDeque::new(), 0_u16);
        jitlat_waiting::at_pace(Duration::from_millis(5), || {
            if let Some(mut stream) = connect_as(scene, count) {
                let _ = stream.set_nonblocking(true);
                // Nothing; half a request; a request that is refused, on a connection that stays open.
                let said: &[u8] = match count % 3 {
                    0 => b"",
                    1 => b"GET / HTTP/1.1\r\nHost: x\r\nX:",
                    _ => b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                };
                let _ = stream.write(said);
                held.push_back(stream);
            }
            count = count.wrapping_add(1);
            if held.len() > 400 {
                held.pop_front();
            }
            !over.load(Ordering::Relaxed)
        });
        assert!(count > 100, "the attack did not take place: {count}");
    });
}

#[test]
fn a_page_is_read_beside_one_who_guesses_its_token() {
    let test = "a_page_is_read_beside_one_who_guesses_its_token";
    let (guesses, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let log = read_beside(test, |scene, over| {
        std::thread::scope(|scope| {
            for thread in 0..4_u16 {
                let (guesses, refused) = (&guesses, &refused);
                scope.spawn(move || {
                    let mut count = 0_u16;
                    while !over.load(Ordering::Relaxed) {
                        let guess = format!("guess-{thread}-{count:012}");
                        let stream = connect_as(scene, count.wrapping_mul(4).wrapping_add(thread));
                        match stream.and_then(|mut stream| status(&mut stream, "/api/v1/now", Some(&guess))) {
                            Some(401) => guesses.fetch_add(1, Ordering::Relaxed),
                            Some(429) => refused.fetch_add(1, Ordering::Relaxed),
                            Some(other) => panic!("{guess}: {other}"),
                            None => 0,
                        };
                        count = count.wrapping_add(1);
                    }
                });
            }
        });
    });
    let Some(log) = log else { return };
    let (guesses, refused) = (guesses.into_inner(), refused.into_inner());
    let _ = writeln!(std::io::stderr(), "{test}: {guesses} guesses, {refused} not looked at");
    // Two at once, then one after 1, 2, 4, … s.
    assert!(
        (2..=2 + seconds() as usize).contains(&guesses) && refused > 20,
        "{guesses} guesses, {refused} refused"
    );
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("wrong token")).collect();
    assert!(!lines.is_empty() && lines.len() <= guesses, "{log}");
    assert!(lines.iter().all(|line| line.contains("from=fd09::")), "{lines:?}");
}

#[test]
fn events_are_followed_beside_one_reader_who_takes_all_places() {
    let test = "events_are_followed_beside_one_reader_who_takes_all_places";
    let Some(page) = Page::start(test, 1, 100) else { return };
    let mut taken = Vec::new();
    let mut refused = 0;
    for host in 0..100 {
        let Some(mut stream) = connect_as(&page.scene, host) else { continue };
        match status(&mut stream, "/api/v1/events", Some(TOKEN)) {
            Some(200) => taken.push(stream),
            _ => refused += 1,
        }
    }
    assert!(taken.len() == 8 && refused > 80, "{} places taken, {refused} refused", taken.len());
    let follow = || {
        let mut stream = connect(&page.scene.victim, FOR_HONEST).unwrap();
        (status(&mut stream, "/api/v1/events", Some(TOKEN)), stream)
    };
    let followed = [follow(), follow(), follow()];
    assert!(followed.iter().all(|(status, _)| *status == Some(200)));
    page.end();
}

#[test]
fn a_page_is_read_while_many_ask_for_one_that_takes_long() {
    let test = "a_page_is_read_while_many_ask_for_one_that_takes_long";
    let Some(page) = Page::start(test, 4, 60_000) else { return };
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (scene, answered) = (&page.scene, &answered);
        // One client asks for four such pages, eight times each.
        let asked: Vec<_> = (0..32_u16)
            .map(|k| {
                let path = format!("/test/{}", page.tests[usize::from(k % 4)]);
                scope.spawn(move || {
                    let mut stream = connect_as(scene, k)?;
                    let status = status(&mut stream, &path, Some(TOKEN));
                    answered.fetch_add(1, Ordering::Relaxed);
                    status
                })
            })
            .collect();
        let mut before = 0;
        for k in 0..10 {
            let read = connect(&scene.victim, FOR_HONEST)
                .and_then(|mut s| status(&mut s, "/api/v1/hosts", Some(TOKEN)));
            assert_eq!(read, Some(200), "request {k}");
            before += usize::from(answered.load(Ordering::Relaxed) < 32);
        }
        let _ = writeln!(std::io::stderr(), "{test}: {before} of 10 requests answered before all of theirs");
        let statuses: Vec<Option<u16>> = asked.into_iter().map(|asked| asked.join().unwrap()).collect();
        assert!(statuses.contains(&Some(200)), "{statuses:?}");
        assert!(statuses.iter().flatten().all(|status| [200, 429].contains(status)), "{statuses:?}");
    });
    // The cache has the page for everybody.
    let mut honest = connect(&page.scene.victim, FOR_HONEST).unwrap();
    assert_eq!(status(&mut honest, &format!("/test/{}", page.tests[0]), Some(TOKEN)), Some(200));
    page.end();
}

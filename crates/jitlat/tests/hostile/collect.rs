//! A collector under attack: connections without a key that are silent, too slow or send nonsense, while an honest
//! host pushes.

use crate::forged::Scene;
use crate::harness::*;
use crate::honest::seconds;
use jitlat_archive::{Archive, Filter};
use jitlat_core::{PacketRecord, Session, Span, TestSpec, WallTime};
use jitlat_net::push::PushConnection;
use jitlat_proto::jitlat::PresharedKey;
use jitlat_proto::push::{PORT, PushError, PushRefusal, SenderEvent};
use jitlat_store::log::{LogVersion, LogWriter};
use nix::sys::signal::Signal;
use std::fs::{self, File};
use std::io::Write;
use std::net::{IpAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(100);
const FILE: &str = "host = [\n  { name = \"a\", address = \"10.9.0.3\", key = \"the key of a, and of nobody else\" },\n  \
                    { name = \"b\", address = \"10.9.0.2\", key = \"the key of b, and of nobody else\" },\n  \
                    { name = \"c\", address = \"10.9.0.9\", key = \"the key of c, and of nobody else\" },\n]\n\
                    [[ping]]\nname = \"none\"\nfrom = \"c\"\ntargets = [\"10.9.0.9\"]\nevery = \"1h\"\n[serve]\non = false\n[archive]\nfolder = \"archive\"\n[[collector]]\nhost = \"b\"\n";

/// Adds a log to the archive of the honest host.
fn make(archive: &Archive, folder: &Path, seed: i64) {
    let path = folder.join("next.log");
    let mut log = LogWriter::new(File::create(&path).unwrap(), LogVersion::V3);
    let session = Session::new(TestSpec::default());
    log.begin(&session);
    for i in 0..200 {
        let sent = WallTime(1_767_225_600_000_000_000 + seed * 60_000_000_000 + i * 20_000_000);
        log.record(&PacketRecord::one_way(i, sent, sent + Span(5_000_000 + (i * 7919 + seed) % 99_991)));
    }
    log.finish(&session);
    log.close().1.unwrap();
    archive.add(&path, &[]).unwrap();
}

/// Runs `attack` against a collector until it is stopped, while a host pushes a test every 100 ms; checks that all of
/// them arrive once.
fn pushed_beside(test: &str, attack: impl FnOnce(&Scene, IpAddr, &AtomicBool) + Send) {
    let Some(scene) = Scene::new(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = folder.join("mesh.toml");
    fs::write(&file, FILE).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let run = |place, host: &str| {
        let line = format!("monitor mesh.toml --host {host} --archive {host}");
        Running::start(Place::In(place).jitlat(folder, &line))
    };
    let archive = Archive::make(&folder.join("a")).unwrap();
    let (b, a) = (run(&scene.lab.server, "b"), run(&scene.victim, "a"));
    let over = AtomicBool::new(false);
    let made = std::thread::scope(|scope| {
        scope.spawn(|| attack(&scene, scene.lab.server.v4, &over));
        let begun = Instant::now();
        let mut made = 0;
        jitlat_waiting::at_pace(Duration::from_millis(100), || {
            make(&archive, folder, made);
            made += 1;
            begun.elapsed() < Duration::from_secs(seconds())
        });
        let waits = || archive.pushes().unwrap().pop().is_none_or(|push| push.waiting > 0);
        // The attack continues meanwhile.
        assert!(jitlat_waiting::within(LIMIT, || !waits()), "{test}: {:?}", archive.pushes());
        over.store(true, Ordering::Relaxed);
        made as usize
    });
    for running in [a, b] {
        running.signal(Signal::SIGTERM);
        assert_eq!(running.finish(LIMIT).code(), 0);
    }
    let central = Archive::open_to_write(&folder.join("b")).unwrap();
    assert_eq!(central.list(&Filter::default(), &[]).unwrap().len(), made);
    assert_eq!(central.check(true).unwrap().damaged, []);
    let _ = writeln!(std::io::stderr(), "{test}: honest {made} tests pushed, each once");
}

/// Opens about 100 connections per second from the attacker's addresses, retains 200 of them, and calls `each` with
/// every new one.
fn flood(scene: &Scene, host: IpAddr, over: &AtomicBool, mut each: impl FnMut(&mut TcpStream, u64)) {
    let (mut held, mut count) = (std::collections::VecDeque::new(), 0);
    jitlat_waiting::at_pace(Duration::from_millis(10), || {
        let connect = || TcpStream::connect_timeout(&(host, PORT).into(), Duration::from_millis(200));
        if let Ok(Ok(mut stream)) = scene.lab.client.within(connect) {
            // The reaction of the other side does not matter.
            let _ = stream.set_nonblocking(true);
            each(&mut stream, count);
            held.push_back(stream);
            count += 1;
        }
        if held.len() > 200 {
            held.pop_front();
        }
        !over.load(Ordering::Relaxed)
    });
    assert!(count > 100, "the attack did not take place: {count}");
}

#[test]
fn a_host_pushes_beside_connections_that_say_nothing_or_nonsense() {
    pushed_beside("a_host_pushes_beside_connections_that_say_nothing_or_nonsense", |scene, host, over| {
        flood(scene, host, over, |stream, k| {
            let said: &[u8] = match k % 4 {
                // Nothing; a frame that is longer than allowed; the beginning of a frame; the greeting of another
                // protocol.
                0 => b"",
                1 => b"\xff\xff\xff\xff\x01",
                2 => b"\x00\x00\x00\x18\x01JLT",
                _ => b"\x00\x00\x00\x18\x01JLTD\x00\x01\x010123456789abcdef",
            };
            let _ = stream.write(said);
        });
    });
}

#[test]
fn a_host_pushes_beside_others_that_guess_its_key() {
    pushed_beside("a_host_pushes_beside_others_that_guess_its_key", |scene, host, over| {
        let (mut refused, mut waits) = (0, 0);
        jitlat_waiting::at_pace(Duration::from_millis(10), || {
            let key =
                PresharedKey::from_file_contents(format!("guessed key {refused:08}").as_bytes()).unwrap();
            let open = || PushConnection::open(&host.to_string(), PORT, key);
            let Ok(Ok(mut connection)) = scene.lab.client.within(open) else { return true };
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(5) {
                match connection.poll(Span::millis(20)) {
                    Some(SenderEvent::Over(Some(PushError::Refused(PushRefusal::Key, _)), _)) => refused += 1,
                    Some(SenderEvent::Over(Some(PushError::Refused(PushRefusal::Busy, why)), _)) => {
                        assert!(why.contains("wrong keys"), "{why}");
                        waits += 1;
                    }
                    Some(SenderEvent::Over(..)) => {}
                    Some(event) => panic!("without a key: {event:?}"),
                    None => continue,
                }
                break;
            }
            !over.load(Ordering::Relaxed)
        });
        // After the second wrong key, connections from that address are ignored for a while.
        assert!((2..20).contains(&refused) && waits > 10, "{refused} refused, {waits} asked to wait");
    });
}

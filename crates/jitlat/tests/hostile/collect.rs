//! A collector under attack while an honest host pushes: connections that are silent, too slow or send nonsense; guesses of its token;
//! and a host with a key that turns bad.

use crate::forged::Scene;
use crate::harness::*;
use crate::honest::seconds;
use jitlat_archive::{Archive, Filter};
use jitlat_core::{PacketRecord, Session, Span, TestSpec, WallTime};
use jitlat_net::wake::StopSignal;
use jitlat_proto::jitlat::PresharedKey;
use jitlat_proto::push::answer::{Offers, PartAnswer};
use jitlat_proto::push::part::PartHeader;
use jitlat_proto::push::{PORT, earlier};
use jitlat_store::log::{LogVersion, LogWriter};
use jitlat_web::{Fingerprint, Identity, PushClient, PushCredential, PushFailure, PushTarget, PushTrust};
use nix::sys::signal::Signal;
use std::fs::{self, File};
use std::io::{Read, Write};
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
fn pushed_beside(test: &str, attack: impl FnOnce(&Scene, &PushTarget, &AtomicBool) + Send) {
    let Some(scene) = Scene::new(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = folder.join("mesh.toml");
    let (identity, _) = Identity::made(&folder.join("b.pem"), &["10.9.0.2".to_owned()]).unwrap();
    let pin: Fingerprint = identity.fingerprint();
    fs::write(&file, format!("{FILE}certificate = \"b.pem\"\npin = \"{pin}\"\n")).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let run = |place, host: &str| {
        let line = format!("monitor mesh.toml --host {host} --archive {host}");
        Running::start(Place::In(place).jitlat(folder, &line))
    };
    let archive = Archive::make(&folder.join("a")).unwrap();
    let (b, a) = (run(&scene.lab.server, "b"), run(&scene.victim, "a"));
    let over = AtomicBool::new(false);
    let made = std::thread::scope(|scope| {
        let host = scene.lab.server.v4.to_string();
        let at = PushTarget { host, port: PORT, prefix: String::new(), trust: PushTrust::Pin(pin) };
        let (scene, over) = (&scene, &over);
        scope.spawn(move || attack(scene, &at, over));
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
    let honest = [("collected-from".to_owned(), "a".to_owned())];
    let honest = Filter { tags: honest.to_vec(), ..Filter::default() };
    assert_eq!(central.list(&honest, &[]).unwrap().len(), made);
    assert_eq!(central.list(&Filter::default(), &[]).unwrap().len(), made, "nothing forged is there");
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
    pushed_beside("a_host_pushes_beside_connections_that_say_nothing_or_nonsense", |scene, at, over| {
        flood(scene, at.host.parse().unwrap(), over, |stream, k| {
            let said: &[u8] = match k % 5 {
                // Nothing; the beginning of TLS; the beginning and the whole of a greeting of the earlier protocol; HTTP without TLS.
                0 => b"",
                1 => b"\x16\x03\x01\x02\x00\x01",
                2 => b"\x00\x00\x00\x18\x01JLT",
                3 => b"\x00\x00\x00\x18\x01JLTP\x00\x01\x010123456789abcdef",
                _ => b"PUT /push/v1/tests/0 HTTP/1.1\r\n",
            };
            let _ = stream.write(said);
        });
    });
}

#[test]
fn a_host_pushes_beside_others_that_guess_its_token() {
    pushed_beside("a_host_pushes_beside_others_that_guess_its_token", |scene, at, over| {
        let (mut refused, begun) = (0, Instant::now());
        jitlat_waiting::at_pace(Duration::from_millis(10), || {
            let guess = || {
                let stop = StopSignal::new().unwrap();
                PushClient::connect(at, &PushCredential::Token(format!("guessed token {refused:08}")), stop)?
                    .offers(&Offers::default())
            };
            match scene.lab.client.within(guess) {
                Ok(Err(PushFailure::Refused(why, _))) if why.contains("no host with this token") => {
                    refused += 1;
                }
                // It must wait: the token was not looked at.
                Ok(Err(PushFailure::Refused(why, _))) => {
                    assert!(why.contains("wrong tokens or certificates came from this address"), "{why}");
                }
                Ok(Ok(known)) => panic!("without a token: {known:?}"),
                Ok(Err(_)) | Err(_) => {}
            }
            !over.load(Ordering::Relaxed)
        });
        // Every guess takes a second, and after the second one a wait.
        assert!((2..=begun.elapsed().as_secs()).contains(&refused), "{refused} guesses");
    });
}

/// An attacker with the key of c claims tests between a and b, sends bodies that never end, and floods the collector.
#[test]
fn a_host_pushes_beside_one_with_a_key_that_turned_bad() {
    pushed_beside("a_host_pushes_beside_one_with_a_key_that_turned_bad", |scene, at, over| {
        let key = PresharedKey::from_file_contents(b"the key of c, and of nobody else").unwrap();
        let token = key.push_token("c");
        let forged = forged_logs();
        let (mut refused, mut round) = (0, 0usize);
        jitlat_waiting::at_pace(Duration::from_millis(20), || {
            round += 1;
            let attack = || -> Result<Vec<PartAnswer>, PushFailure> {
                let mut client = PushClient::connect(
                    at,
                    &PushCredential::Token(token.clone()),
                    StopSignal::new().unwrap(),
                )?;
                let (header, log) = &forged[round % forged.len()];
                if round.is_multiple_of(5) {
                    // A log that is announced and not sent: the connection ends in the middle of it.
                    let part = [header.line(), log[..log.len() / 2].to_vec()].concat();
                    return client.tests(part).map(|answers| answers.tests);
                }
                client.tests([header.line(), log.clone()].concat()).map(|answers| answers.tests)
            };
            // There may be too many requests or connections.
            if let Ok(Ok(answers)) = scene.lab.client.within(attack) {
                assert!(answers.iter().all(|answer| answer.status >= 400), "{answers:?}");
                refused += answers.len();
            }
            !over.load(Ordering::Relaxed)
        });
        assert!(refused > 10, "the attack did not take place: {refused}");
    });
}

/// Addresses of a test, and its tags.
type Case = (&'static str, &'static str, Vec<(String, String)>);

/// Returns logs of tests between the addresses of a and b, and of tests with names of other hosts, in the form in which
/// they are sent.
fn forged_logs() -> Vec<(PartHeader, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forged.log");
    let archive = Archive::make(&folder.path().join("own")).unwrap();
    archive.begin_push("x", 1 << 40).unwrap();
    let tagged = |tags: &[(&str, &str)]| {
        tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<Vec<(String, String)>>()
    };
    let cases: [Case; 4] = [
        ("10.9.0.3", "10.9.0.2", tagged(&[])),
        ("10.9.0.2", "10.9.0.3", tagged(&[("client", "c"), ("server", "b")])),
        ("10.9.0.3", "10.9.0.2", tagged(&[("client", "a"), ("server", "b"), ("test", "none")])),
        ("10.9.0.9", "10.9.0.2", tagged(&[("client", "A"), ("server", "c")])),
    ];
    for (k, (src, dst, _)) in cases.iter().enumerate() {
        let mut log = LogWriter::new(File::create(&path).unwrap(), LogVersion::V3);
        let mut session = Session::new(TestSpec::default());
        (session.src, session.dst) = (src.parse().ok(), dst.parse().ok());
        session.client.name = Some("a".to_owned());
        log.begin(&session);
        for i in 0..100 + k as i64 {
            let sent = WallTime(1_767_225_600_000_000_000 + i * 20_000_000);
            log.record(&PacketRecord::one_way(i, sent, sent + Span::millis(900)));
        }
        log.finish(&session);
        log.close().1.unwrap();
        archive.add(&path, &[]).unwrap();
    }
    let tests = archive.to_push("x", 0, 10).unwrap();
    let pack = |(test, (_, _, tags)): (&jitlat_archive::Outgoing, &Case)| {
        let mut log = Vec::new();
        archive.compressed(test.test).unwrap().read_to_end(&mut log).unwrap();
        let header = PartHeader {
            hash: test.name.to_string(),
            source: "forged.log".to_owned(),
            tags: tags.clone(),
            bytes: test.bytes,
            packed: Some(log.len() as u64),
        };
        (header, log)
    };
    tests.iter().zip(&cases).map(pack).collect()
}

#[test]
fn a_host_of_an_earlier_version_is_told_so_in_its_own_words() {
    pushed_beside("a_host_of_an_earlier_version_is_told_so_in_its_own_words", |scene, at, over| {
        let told = || {
            let mut stream = TcpStream::connect((at.host.as_str(), PORT))?;
            stream.set_read_timeout(Some(LIMIT))?;
            stream.write_all(b"\x00\x00\x00\x18\x01JLTP\x00\x01\x010123456789abcdef")?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok::<Vec<u8>, std::io::Error>(answer)
        };
        // The collector is being started.
        let answer =
            jitlat_waiting::for_value("an answer", LIMIT, || scene.lab.client.within(told).unwrap().ok());
        assert_eq!(answer, earlier::refusal());
        jitlat_waiting::until("the end", LIMIT, || over.load(Ordering::Relaxed));
    });
}

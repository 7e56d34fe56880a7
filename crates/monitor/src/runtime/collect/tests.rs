use super::*;
use jitlat_archive::{CollectedHost, Filter, TestId};
use jitlat_instruments::serve::{CollectService, Policy, Serve, Serving};
use jitlat_net::push::{PushConnection, PushService};
use jitlat_proto::jitlat::{PresharedKey, PresharedKeys};
use jitlat_proto::push::{SenderEvent, SenderInput};
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

fn key(host: &str) -> PresharedKey {
    PresharedKey::from_file_contents(format!("the key of {host}, and of nobody else").as_bytes()).unwrap()
}

/// Collector on its own port, with the folder of its archive.
struct Collector {
    at: SocketAddr,
    _serving: Serving,
    folder: tempfile::TempDir,
}

impl Collector {
    fn start() -> Collector {
        Collector::with(Policy::default())
    }

    fn with(policy: Policy) -> Collector {
        let folder = tempfile::tempdir().unwrap();
        let mut keys = PresharedKeys::default();
        ["berlin", "madrid"].iter().for_each(|host| keys.add(*host, key(host)));
        let hosts = [
            ("berlin", "192.0.2.1"),
            ("madrid", "192.0.2.2"),
            ("oslo", "2001:db8::3"),
            ("rome", "192.0.2.1"),
        ];
        let hosts = hosts.map(|(name, address)| (name.to_owned(), address.to_owned())).into_iter();
        let shelf = Arc::new(ArchiveShelf::new(&folder.path().join("a"), hosts).unwrap());
        let serve = Serve {
            ips: vec![Ipv4Addr::LOCALHOST.into()],
            one_way: None,
            reflectors: Vec::new(),
            policy,
            priority: None,
            one_way_packets: None,
            digests: None,
            collect: Some(CollectService { port: 0, service: PushService { keys, shelf } }),
        };
        let serving = serve.start().unwrap();
        let at = serving.collecting()[0];
        Collector { at, _serving: serving, folder }
    }

    fn archive(&self) -> Archive {
        Archive::open(&self.folder.path().join("a")).unwrap()
    }

    /// Returns the stored counts of the only host that pushes, once they have these values: they are stored once per second.
    fn noted(&self, refused: u64, waiting: u64) -> CollectedHost {
        let what = format!("{refused} refused and {waiting} waiting");
        jitlat_waiting::for_value(&what, Duration::from_secs(60), || {
            let noted = self.archive().collected().unwrap().remove(0);
            ((noted.refused, noted.waiting) == (refused, waiting)).then_some(noted)
        })
    }

    fn connect(&self, host: &str) -> PushConnection {
        let mut connection =
            PushConnection::open(&self.at.ip().to_string(), self.at.port(), key(host)).unwrap();
        assert_eq!(next(&mut connection), SenderEvent::Open);
        connection
    }
}

/// Returns the next event; fails after a time limit.
fn next(connection: &mut PushConnection) -> SenderEvent {
    let begun = Instant::now();
    loop {
        if let Some(event) = connection.poll(Span::millis(20)) {
            return event;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing happens");
    }
}

/// Creates logs of a host as they are sent: checksum, length, and compressed bytes.
fn logs(seeds: std::ops::Range<u64>, packets: i64) -> Vec<(u128, u64, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("own")).unwrap();
    archive.begin_push("x", 1 << 40).unwrap();
    for seed in seeds {
        let log = folder.path().join(format!("{seed}.log"));
        write_log(&log, seed, packets);
        archive.add(&log, &[]).unwrap();
    }
    let pack = |id: TestId| {
        let mut packed = Vec::new();
        archive.compressed(id).unwrap().read_to_end(&mut packed).unwrap();
        packed
    };
    archive.to_push("x", 0, 10_000).unwrap().iter().map(|t| (t.hash, t.bytes, pack(t.test))).collect()
}

fn write_log(path: &Path, seed: u64, packets: i64) {
    use jitlat_core::{PacketRecord, Session, TestSpec, WallTime};
    let mut log =
        jitlat_store::log::LogWriter::new(fs::File::create(path).unwrap(), jitlat_store::log::LogVersion::V3);
    let session = Session::new(TestSpec::default());
    log.begin(&session);
    for i in 0..packets {
        let sent = 1_767_225_600_000_000_000 + seed as i64 * 3_600_000_000_000 + i * 20_000_000;
        let noise = (i.wrapping_mul(7919) ^ (seed as i64 * 104_729)) % 1_000_003;
        log.record(&PacketRecord::one_way(i, WallTime(sent), WallTime(sent + 5_000_000 + noise.abs())));
    }
    log.finish(&session);
    log.close().1.unwrap();
}

fn about(tags: &[(&str, &str)]) -> About {
    let tags = tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    About { source: "a.log".to_owned(), tags }
}

/// Offers one log, sends `packed` for it, and returns the event that settles it.
fn send(
    connection: &mut PushConnection,
    number: u64,
    hash: u128,
    length: u64,
    packed: &[u8],
    about: &About,
) -> SenderEvent {
    connection.give(SenderInput::Offer(&[PushOffer { number, hash, length }]));
    let mut pieces = packed.chunks(50_000);
    let begun = Instant::now();
    loop {
        match connection.poll(Span::millis(20)) {
            Some(SenderEvent::Wanted(wanted)) => {
                assert_eq!(wanted, number);
                connection.give(SenderInput::Test(about.clone()));
            }
            Some(event) => return event,
            None => {}
        }
        if connection.needs_data() {
            match pieces.next() {
                Some(piece) => connection.give(SenderInput::Piece(piece)),
                None => connection.give(SenderInput::Whole),
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing happens");
    }
}

fn settled(number: u64, outcome: PushOutcome) -> SenderEvent {
    SenderEvent::Settled(vec![(number, Some(outcome))])
}

#[test]
fn tests_are_stored_once_with_their_tags_whoever_sends_them_how_often() {
    let collector = Collector::start();
    let logs = logs(0..20, 300);
    // Two hosts send the same logs at the same time, in different orders.
    std::thread::scope(|scope| {
        for host in ["berlin", "madrid"] {
            let (collector, logs) = (&collector, &logs);
            scope.spawn(move || {
                let mut connection = collector.connect(host);
                for k in 0..2 * logs.len() {
                    let k = if host == "berlin" { k % 20 } else { 19 - k % 20 };
                    let (hash, length, packed) = &logs[k];
                    let event =
                        send(&mut connection, k as u64, *hash, *length, packed, &about(&[("site", "lab")]));
                    assert!(
                        [PushOutcome::Stored, PushOutcome::Known]
                            .iter()
                            .any(|o| event == settled(k as u64, o.clone())),
                        "{event:?}"
                    );
                }
            });
        }
    });
    let archive = collector.archive();
    let all = Filter { tags: vec![("site".to_owned(), "lab".to_owned())], ..Filter::default() };
    assert_eq!(archive.list(&all, &[]).unwrap().len(), 20);
    let collected = archive.collected().unwrap();
    assert_eq!(collected.iter().map(|c| c.stored).sum::<u64>(), 20, "{collected:?}");
    drop(collector.connect("berlin"));
    let whole = Archive::open_to_write(archive.root()).unwrap().check(true).unwrap();
    assert_eq!((whole.tests, whole.damaged.len()), (20, 0));
}

#[test]
fn a_forged_test_is_refused_and_costs_nobody_else_anything() {
    let collector = Collector::start();
    let mut connection = collector.connect("madrid");
    let (hash, length, packed) = logs(7..8, 500).remove(0);
    let mut refused =
        |number: u64, hash: u128, length: u64, packed: &[u8], tags: &[(&str, &str)], why: &str| {
            let event = send(&mut connection, number, hash, length, packed, &about(tags));
            let SenderEvent::Settled(list) = event else { panic!("{event:?}") };
            let (said, Some(PushOutcome::Refused(reason))) = &list[0] else { panic!("{list:?}") };
            assert!(*said == number && reason.contains(why), "{reason}");
        };
    // A test of another host in the file.
    refused(1, hash, length, &packed, &[("client", "oslo")], "madrid offers a test that oslo started");
    let both = [("client", "madrid"), ("client", "oslo")];
    refused(10, hash, length, &packed, &both, "madrid offers a test that oslo started");
    // Tests between two other hosts, in the file or not.
    for (number, client, server) in
        [(12, "oslo", "berlin"), (13, "nobody", "oslo"), (14, "nobody", "nowhere")]
    {
        refused(
            number,
            hash,
            length,
            &packed,
            &[("client", client), ("server", server)],
            "madrid offers a test ",
        );
    }
    refused(15, hash, length, &packed, &[("server", "oslo")], "madrid offers a test of oslo");
    refused(11, hash, u64::MAX, &packed, &[], "longer than 1 GiB");
    refused(2, hash ^ 9, length, &packed, &[], "differs from the announced one");
    refused(3, hash, length - 1, &packed, &[], "longer than announced");
    refused(4, hash, length + 1, &packed, &[], "shorter than announced");
    refused(5, hash, length, &packed[9..], &[], "cannot be unpacked");
    refused(6, hash, 2 << 30, &packed, &[], "longer than 1 GiB");
    // One gibibyte in 32 kB: a frame of blocks that repeat one byte.
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50];
    for k in 0..8192u32 {
        let block = u32::from(k == 8191) | 1 << 1 | (128 * 1024) << 3;
        bomb.extend_from_slice(&block.to_le_bytes()[..3]);
        bomb.push(b'#');
    }
    refused(7, hash, length, &bomb, &[], "longer than announced");
    // Data that is not a log: the checksum is right, but it cannot be parsed.
    let nonsense = vec![b'x'; 1000];
    let block: u32 = 1 | 1 << 1 | 1000 << 3;
    let packed_nonsense =
        [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50][..], &block.to_le_bytes()[..3], b"x"].concat();
    let sum = xxh3(&nonsense);
    refused(8, sum, 1000, &packed_nonsense, &[], "a.log");
    // On the same connection a correct test is accepted.
    let event = send(&mut connection, 9, hash, length, &packed, &about(&[("client", "madrid")]));
    assert_eq!(event, settled(9, PushOutcome::Stored));
    assert_eq!(collector.noted(14, 0).stored, 1);
    assert_eq!(fs::read_dir(collector.folder.path().join("a/tmp")).unwrap().count(), 0);
}

/// Returns the checksum of a log as archives store it.
fn xxh3(log: &[u8]) -> u128 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    fs::write(&path, log).unwrap();
    jitlat_archive::checksum(&path).unwrap()
}

#[test]
fn a_test_in_another_hosts_name_is_known_by_the_log_itself() {
    let collector = Collector::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.log");
    write_log(&path, 1, 50);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\n", "\n# tag client=oslo\n", 1)).unwrap();
    let own = LogReader::open(&path).unwrap();
    assert_eq!(own.session().tags, [("client".to_owned(), "oslo".to_owned())]);
    let archive = Archive::make(&folder.path().join("own")).unwrap();
    archive.begin_push("x", 1 << 40).unwrap();
    archive.add(&path, &[]).unwrap();
    let test = archive.to_push("x", 0, 1).unwrap().remove(0);
    let mut packed = Vec::new();
    archive.compressed(test.test).unwrap().read_to_end(&mut packed).unwrap();
    let mut connection = collector.connect("berlin");
    let event = send(&mut connection, 1, test.hash, test.bytes, &packed, &about(&[]));
    assert!(
        matches!(&event, SenderEvent::Settled(list) if matches!(list[0].1, Some(PushOutcome::Refused(_)))),
        "{event:?}"
    );
    assert!(collector.archive().list(&Filter::default(), &[]).unwrap().is_empty());
}

/// Creates the log of a test from `src` to `dst`: checksum, length, and compressed bytes. With `long`, the log is so long that
/// the collector reads it from a file.
fn log_between(src: &str, dst: &str, long: bool) -> (u128, u64, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.log");
    write_log(&path, 1, if long { 40_000 } else { 50 });
    let text = fs::read_to_string(&path).unwrap();
    let with = format!("\n# src_ip {src}\n# dst_ip {dst}\n");
    let rest: String =
        text.lines().skip(1).filter(|l| !l.contains("_ip ")).map(|l| format!("{l}\n")).collect();
    fs::write(&path, format!("{}{with}{rest}", text.lines().next().unwrap())).unwrap();
    let own = LogReader::open(&path).unwrap();
    let session = own.session();
    assert_eq!((session.src, session.dst), (src.parse().ok(), dst.parse().ok()));
    assert_eq!(fs::metadata(&path).unwrap().len() > jitlat_archive::MAX_PREPARED_BYTES, long);
    let archive = Archive::make(&folder.path().join("own")).unwrap();
    archive.begin_push("x", 1 << 40).unwrap();
    archive.add(&path, &[]).unwrap();
    let test = archive.to_push("x", 0, 1).unwrap().remove(0);
    let mut packed = Vec::new();
    archive.compressed(test.test).unwrap().read_to_end(&mut packed).unwrap();
    (test.hash, test.bytes, packed)
}

#[test]
fn a_test_between_the_addresses_of_two_other_hosts_is_refused() {
    let collector = Collector::start();
    let mut connection = collector.connect("madrid");
    let mut number = 0;
    let mut pushed = |src: &str, dst: &str, long: bool, tags: &[(&str, &str)]| {
        number += 1;
        let (hash, length, packed) = log_between(src, dst, long);
        match send(&mut connection, number, hash, length, &packed, &about(tags)) {
            SenderEvent::Settled(list) => list[0].1.clone(),
            event => panic!("{event:?}"),
        }
    };
    let between = |src, dst, names| format!("madrid offers a test from {src} to {dst}, which are {names}");
    for (src, dst, names, long) in [
        ("192.0.2.1", "2001:db8::3", "berlin and oslo", false),
        ("192.0.2.1", "2001:db8::3", "berlin and oslo", true),
        ("2001:db8::3", "192.0.2.1", "oslo and berlin", false),
        ("::ffff:192.0.2.1", "2001:db8::3", "berlin and oslo", false),
        ("192.0.2.1", "192.0.2.1", "berlin and berlin", false),
    ] {
        for tags in [&[][..], &[("client", "madrid"), ("server", "oslo")]] {
            let refused = Some(PushOutcome::Refused(between(src, dst, names)));
            assert_eq!(pushed(src, dst, long, tags), refused);
        }
    }
    for (src, dst) in [
        ("192.0.2.2", "2001:db8::3"),
        ("192.0.2.1", "192.0.2.2"),
        // Another address of this host, and a target that is not in the file.
        ("10.0.0.7", "192.0.2.1"),
        ("192.0.2.2", "198.51.100.9"),
    ] {
        assert_eq!(
            pushed(src, dst, false, &[("client", "madrid")]),
            Some(PushOutcome::Stored),
            "{src} to {dst}"
        );
    }
    // Two hosts with the same address.
    drop(connection);
    let mut rome = collector.connect("berlin");
    let (hash, length, packed) = log_between("192.0.2.1", "192.0.2.1", false);
    assert_eq!(send(&mut rome, 1, hash, length, &packed, &about(&[])), settled(1, PushOutcome::Stored));
}

#[test]
fn a_host_that_connects_again_ends_its_older_connection() {
    let collector = Collector::start();
    let mut old = collector.connect("berlin");
    let mut other = collector.connect("madrid");
    let mut new = collector.connect("berlin");
    assert!(matches!(next(&mut old), SenderEvent::Over(Some(_), _)));
    let (hash, length, packed) = logs(3..4, 100).remove(0);
    assert_eq!(send(&mut new, 1, hash, length, &packed, &about(&[])), settled(1, PushOutcome::Stored));
    assert_eq!(send(&mut other, 1, hash, length, &packed, &about(&[])), settled(1, PushOutcome::Known));
}

#[test]
fn who_has_no_key_or_no_place_is_told_so() {
    let mut policy = Policy::default();
    policy.service(jitlat_proto::policy::COLLECT).total.sessions = Some(1);
    let collector = Collector::with(policy);
    let open = |host: &str| PushConnection::open("127.0.0.1", collector.at.port(), key(host)).unwrap();
    let SenderEvent::Over(Some(why), _) = next(&mut open("oslo")) else { panic!("oslo pushes nothing") };
    assert_eq!(why.to_string(), "the collector refused: it does not have this host's key");
    let _berlin = collector.connect("berlin");
    let SenderEvent::Over(Some(why), _) = next(&mut open("madrid")) else { panic!("there is no place") };
    assert!(why.to_string().starts_with("the collector refused: it is busy: "), "{why}");
}

#[test]
fn a_long_log_and_what_a_host_says_of_itself_arrive() {
    let collector = Collector::start();
    let mut connection = collector.connect("berlin");
    connection.give(SenderInput::State(SpoolState { waiting: 7, dropped: 3 }));
    let (hash, length, packed) = logs(1..2, 60_000).remove(0);
    assert!(length > jitlat_archive::MAX_PREPARED_BYTES);
    assert_eq!(send(&mut connection, 1, hash, length, &packed, &about(&[])), settled(1, PushOutcome::Stored));
    connection.give(SenderInput::Finish);
    assert_eq!(next(&mut connection), SenderEvent::Over(None, Span::ZERO));
    let collected = collector.noted(0, 7);
    assert_eq!((collected.stored, collected.dropped), (1, 3));
    assert!(collected.heard_ns.is_some() && collected.stored_ns.is_some());
}

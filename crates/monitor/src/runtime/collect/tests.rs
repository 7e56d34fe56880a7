use super::*;
use jitlat_archive::{CollectedHost, Filter, SharedMessage, TestId};
use jitlat_net::wake::StopSignal;
use jitlat_proto::push::answer::{LostSlot, SeenRoute};
use jitlat_store::log::LogReader;
use jitlat_web::{
    HostProof, Identity, PushClient, PushCredential, PushFailure, PushSettings, PushTarget, PushTrust,
    Settings, Token, Web,
};
use std::fs;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const HOSTS: [(&str, &str); 4] =
    [("berlin", "192.0.2.1"), ("madrid", "192.0.2.2"), ("oslo", "2001:db8::3"), ("rome", "192.0.2.4")];

fn token(host: &str) -> String {
    format!("the token of {host}, and of nobody else")
}

/// Collector on its own port, with the folder of its archive.
pub struct Collector {
    pub at: PushTarget,
    stop: StopSignal,
    thread: Option<JoinHandle<()>>,
    folder: tempfile::TempDir,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop.request();
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Collector {
    pub fn start() -> Collector {
        Collector::with(PushQuota::default())
    }

    fn with(quota: PushQuota) -> Collector {
        let proof = |host| (String::from(host), HostProof::Token(Token::new(&token(host))));
        Collector::of(quota, ["berlin", "madrid"].map(proof).to_vec())
    }

    fn of(quota: PushQuota, proofs: Vec<(String, HostProof)>) -> Collector {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a");
        let hosts = HOSTS.map(|(name, address)| (name.to_owned(), address.to_owned())).into_iter();
        let rules = CollectRules {
            name: "rome".to_owned(),
            skew: Span::seconds(3600),
            quota,
            channels: vec!["out".to_owned()],
            judges: [("loss".to_owned(), vec!["rome".to_owned(), "berlin".to_owned()])].into(),
        };
        let shelf = Arc::new(ArchiveShelf::new(&root, hosts, rules).unwrap());
        let (identity, _) = Identity::made(&folder.path().join("c.pem"), &["localhost".to_owned()]).unwrap();
        let pin = identity.fingerprint();
        let mut settings = Settings::new(&root);
        settings.pages = false;
        settings.push = Some(PushSettings {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
            identity: Some(identity),
            hosts: proofs,
            authorities: None,
            proxies: Vec::new(),
            shelf,
        });
        let web = Web::bind(&settings).unwrap();
        let port = web.push_addresses()[0].port();
        let at = PushTarget {
            host: "127.0.0.1".to_owned(),
            port,
            prefix: String::new(),
            trust: PushTrust::Pin(pin),
        };
        let stop = StopSignal::new().unwrap();
        let stopped = stop.clone();
        let thread = Some(std::thread::spawn(move || web.run(stopped).unwrap()));
        Collector { at, stop, thread, folder }
    }

    pub fn archive(&self) -> Archive {
        Archive::open(&self.folder.path().join("a")).unwrap()
    }

    pub fn connect(&self, host: &str) -> PushClient {
        connect(&self.at, &PushCredential::Token(token(host))).unwrap()
    }

    fn collected(&self, host: &str) -> CollectedHost {
        self.archive().collected().unwrap().into_iter().find(|c| c.host == host).unwrap()
    }
}

fn connect(at: &PushTarget, with: &PushCredential) -> Result<PushClient, PushFailure> {
    PushClient::connect(at, with, StopSignal::new().unwrap())
}

/// A log as it is sent.
#[derive(Clone)]
struct Packed {
    name: LogName,
    bytes: u64,
    log: Vec<u8>,
}

impl Packed {
    fn header(&self, tags: &[(&str, &str)]) -> PartHeader {
        PartHeader {
            hash: self.name.to_string(),
            source: "a.log".to_owned(),
            tags: tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            bytes: self.bytes,
            packed: Some(self.log.len() as u64),
        }
    }

    fn part(&self, tags: &[(&str, &str)]) -> Vec<u8> {
        [self.header(tags).line(), self.log.clone()].concat()
    }
}

/// Packs the logs at these paths.
fn packed(folder: &Path, logs: &[PathBuf]) -> Vec<Packed> {
    let archive = Archive::make(&folder.join("own")).unwrap();
    archive.begin_push("x", 1 << 40).unwrap();
    for log in logs {
        archive.add(log, &[]).unwrap();
    }
    let pack = |id: TestId| {
        let mut packed = Vec::new();
        archive.compressed(id).unwrap().read_to_end(&mut packed).unwrap();
        packed
    };
    let all = archive.to_push("x", 0, 10_000).unwrap();
    all.iter().map(|t| Packed { name: t.name, bytes: t.bytes, log: pack(t.test) }).collect()
}

const NEW_YEAR: i64 = 1_767_225_600_000_000_000;

/// Creates logs of a host.
fn logs(seeds: std::ops::Range<i64>, packets: i64) -> Vec<Packed> {
    let folder = tempfile::tempdir().unwrap();
    let write = |seed: i64| {
        let path = folder.path().join(format!("{seed}.log"));
        write_log(&path, NEW_YEAR + seed * 3_600_000_000_000, packets);
        path
    };
    packed(folder.path(), &seeds.map(write).collect::<Vec<_>>())
}

pub fn write_log(path: &Path, start: i64, packets: i64) {
    use jitlat_core::{PacketRecord, Session, TestSpec, WallTime};
    let file = fs::File::create(path).unwrap();
    let mut log = jitlat_store::log::LogWriter::new(file, jitlat_store::log::LogVersion::V3);
    let session = Session::new(TestSpec::default());
    log.begin(&session);
    for i in 0..packets {
        let sent = start + i * 20_000_000;
        let noise = (i.wrapping_mul(7919) ^ (start / 1_000_000_000)) % 1_000_003;
        log.record(&PacketRecord::one_way(i, WallTime(sent), WallTime(sent + 5_000_000 + noise.abs())));
    }
    log.finish(&session);
    log.close().1.unwrap();
}

/// Creates the log of a test between two addresses, with more lines in its header.
fn log_between(src: &str, dst: &str, more: &str, packets: i64) -> Packed {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.log");
    write_log(&path, NEW_YEAR, packets);
    let text = fs::read_to_string(&path).unwrap();
    let rest: String =
        text.lines().skip(1).filter(|l| !l.contains("_ip ")).map(|l| format!("{l}\n")).collect();
    let first = text.lines().next().unwrap();
    fs::write(&path, format!("{first}\n# src_ip {src}\n# dst_ip {dst}\n{more}{rest}")).unwrap();
    let own = LogReader::open(&path).unwrap();
    // An IPv4 address that a log writes as an IPv6 address is read as what it is.
    let read = |text: &str| text.parse().ok().map(|ip: IpAddr| ip.to_canonical());
    assert_eq!((own.session().src, own.session().dst), (read(src), read(dst)));
    packed(folder.path(), &[path]).remove(0)
}

/// Sends one test, and returns its answer.
fn send(client: &mut PushClient, log: &Packed, tags: &[(&str, &str)]) -> PartAnswer {
    let answers = client.tests(log.part(tags)).unwrap();
    assert_eq!((answers.tests.len(), &answers.error), (1, &None), "{answers:?}");
    answers.tests[0].clone()
}

fn refusal(answer: &PartAnswer) -> &str {
    assert_eq!(answer.status, 422, "{answer:?}");
    answer.error.as_deref().unwrap()
}

/// Each host's test is stored once, in whatever order and however often it is sent, and a host that sends the logs of another does not
/// change what the other one stores.
#[test]
fn tests_are_stored_once_for_each_host_with_their_tags_however_often_they_are_sent() {
    let collector = Collector::start();
    let logs = logs(0..20, 300);
    // Two hosts send the same logs at the same time, in different orders, alone and many at once.
    std::thread::scope(|scope| {
        for host in ["berlin", "madrid"] {
            let (collector, logs) = (&collector, &logs);
            scope.spawn(move || {
                let mut client = collector.connect(host);
                for k in 0..2 * logs.len() {
                    let expected = if k < logs.len() { 201 } else { 200 };
                    let k = if host == "berlin" { k % 20 } else { 19 - k % 20 };
                    let answer = send(&mut client, &logs[k], &[("site", "lab")]);
                    assert_eq!(answer.status, expected, "{answer:?}");
                }
                let all: Vec<u8> = logs.iter().flat_map(|log| log.part(&[])).collect();
                let answers = client.tests(all).unwrap();
                assert!(
                    answers.tests.len() == 20 && answers.tests.iter().all(|a| a.status == 200),
                    "{answers:?}"
                );
            });
        }
    });
    let archive = collector.archive();
    for host in ["berlin", "madrid"] {
        let tags = [("site", "lab"), ("collected-from", host)];
        let all = Filter {
            tags: tags.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
            ..Filter::default()
        };
        assert_eq!(archive.list(&all, &[]).unwrap().len(), 20, "{host}");
    }
    let collected = archive.collected().unwrap();
    assert_eq!(collected.iter().map(|c| c.stored).collect::<Vec<_>>(), [20, 20], "{collected:?}");
    let whole = Archive::open_to_write(archive.root()).unwrap().check(true).unwrap();
    assert_eq!((whole.tests, whole.damaged.len()), (40, 0));
}

/// A host that has the log of another and pushes it first, as a test of its own, hides nothing: the other one gets the answer that its test is new,
/// is credited with it, and it is stored between the hosts that the file names.
#[test]
fn a_log_that_another_host_pushed_first_is_still_the_test_of_its_host() {
    let collector = Collector::start();
    for (seed, packets) in [(20, 50), (21, 40_000)] {
        let log = log_between("192.0.2.1", &format!("198.51.100.{seed}"), "", packets);
        let mut evil = collector.connect("madrid");
        assert_eq!(send(&mut evil, &log, &[("client", "madrid")]).status, 201);
        let mut good = collector.connect("berlin");
        let offers = Offers { waiting: 1, tests: vec![log.name.to_string()], ..Offers::default() };
        assert!(good.offers(&offers).unwrap().known.is_empty());
        assert_eq!(send(&mut good, &log, &[("client", "berlin")]).status, 201);
        assert_eq!(send(&mut good, &log, &[("client", "berlin")]).status, 200);
        assert_eq!(good.offers(&offers).unwrap().known, [log.name.to_string()]);
        assert_eq!(send(&mut evil, &log, &[("client", "madrid")]).status, 200);
    }
    assert_eq!([collector.collected("berlin").stored, collector.collected("madrid").stored], [2, 2]);
    let of = |host: &str| {
        let tags = vec![("collected-from".to_owned(), host.to_owned())];
        collector.archive().list(&Filter { tags, ..Filter::default() }, &[]).unwrap()
    };
    for test in of("berlin") {
        assert!(test.src == "192.0.2.1" && test.dst.ends_with("@berlin"), "{test:?}");
    }
    assert!(names(&collector).contains(&("192.0.2.1".to_owned(), Some("berlin".to_owned()))));
}

#[test]
fn a_forged_test_is_refused_and_costs_nobody_else_anything() {
    let collector = Collector::start();
    let mut client = collector.connect("madrid");
    let log = logs(7..8, 500).remove(0);
    let mut refused = |log: &Packed, tags: &[(&str, &str)], why: &str| {
        let answer = send(&mut client, log, tags);
        assert!(refusal(&answer).contains(why), "{answer:?}, not {why}");
    };
    // A test of another host in the file, in any spelling.
    refused(&log, &[("client", "oslo")], "madrid offers a test that oslo started");
    refused(&log, &[("Client", "OSLO"), ("server", "madrid")], "madrid offers a test that OSLO started");
    refused(&log, &[("client", "madrid"), ("client", "oslo")], "madrid offers a test that oslo started");
    // Tests between two other hosts, in the file or not.
    for (client, server) in [("oslo", "berlin"), ("nobody", "oslo"), ("nobody", "nowhere")] {
        refused(&log, &[("client", client), ("server", server)], "madrid offers a test ");
    }
    refused(&log, &[("server", "oslo")], "madrid offers a test of oslo");
    // A Cyrillic letter that looks like a Latin one.
    refused(
        &log,
        &[("client", "madrid"), ("server", "\u{43e}slo")],
        "names of hosts have only ASCII letters",
    );
    let with = |name, bytes, log: &[u8]| Packed { name, bytes, log: log.to_vec() };
    let other = LogName::of(b"another log");
    refused(&with(log.name, 2 << 30, &log.log), &[], "longer than 1 GiB");
    refused(&with(other, log.bytes, &log.log), &[], "differs from the announced one");
    refused(&with(log.name, log.bytes - 1, &log.log), &[], "longer than announced");
    refused(&with(log.name, log.bytes + 1, &log.log), &[], "shorter than announced");
    refused(&with(log.name, log.bytes, &log.log[9..]), &[], "cannot be unpacked");
    // One gibibyte in 32 kB: a frame of blocks that repeat one byte.
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50];
    for k in 0..8192u32 {
        let block = u32::from(k == 8191) | 1 << 1 | (128 * 1024) << 3;
        bomb.extend_from_slice(&block.to_le_bytes()[..3]);
        bomb.push(b'#');
    }
    refused(&with(log.name, 1 << 20, &bomb), &[], "longer than announced");
    // Data that is not a log: the checksum is right, but it cannot be parsed.
    let block: u32 = 1 | 1 << 1 | 1000 << 3;
    let nonsense = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50][..], &block.to_le_bytes()[..3], b"x"].concat();
    refused(&with(LogName::of(&[b'x'; 1000]), 1000, &nonsense), &[], "a.log");
    // On the same connection a correct test is accepted, in the same body as a wrong one.
    let wrong = with(other, log.bytes, &log.log);
    let answers = client.tests([wrong.part(&[]), log.part(&[("client", "madrid")])].concat()).unwrap();
    assert_eq!(answers.tests.iter().map(|a| a.status).collect::<Vec<_>>(), [422, 201], "{answers:?}");
    let collected = collector.collected("madrid");
    assert_eq!((collected.stored, collected.refused), (1, 16));
    assert_eq!(fs::read_dir(collector.folder.path().join("a/tmp")).unwrap().count(), 0);
}

/// A host turns bad: with its own key it claims tests between two others, in every way that a log and its tags allow.
/// Nothing of the others changes.
#[test]
fn a_host_with_a_key_cannot_speak_for_another() {
    let collector = Collector::start();
    // The good host's own test: its name is learned, from the file.
    let named = "# client.name somebody\n";
    let own = log_between("192.0.2.1", "192.0.2.4", named, 50);
    let tags = [("client", "berlin"), ("server", "rome")];
    assert_eq!(send(&mut collector.connect("berlin"), &own, &tags).status, 201);
    let before = names(&collector);
    assert!(before.contains(&("192.0.2.1".to_owned(), Some("berlin".to_owned()))), "{before:?}");
    let between = |src: &str, dst: &str, names: &str| {
        format!("madrid offers a test from {src} to {dst}, which are {names}")
    };
    let mut seed = 50;
    let mut forged = |src: &str, dst: &str, tags: &[(&str, &str)]| {
        seed += 1;
        // A log names hosts, too.
        let lines = "# client.name berlin\n# server.name rome\n";
        // A connection of its own for each: making a log takes a while on a busy host.
        send(&mut collector.connect("madrid"), &log_between(src, dst, lines, seed), tags)
    };
    for (src, dst, names) in [
        ("192.0.2.1", "192.0.2.4", "berlin and rome"),
        ("192.0.2.4", "192.0.2.1", "rome and berlin"),
        ("::ffff:192.0.2.1", "2001:db8::3", "berlin and oslo"),
        ("192.0.2.1", "192.0.2.1", "berlin and berlin"),
    ] {
        for tags in [&[][..], &[("client", "madrid"), ("server", "rome")], &[("collected-from", "berlin")]] {
            let read_src = src.trim_start_matches("::ffff:");
            assert_eq!(refusal(&forged(src, dst, tags)), between(read_src, dst, names));
        }
    }
    assert_eq!(
        refusal(&forged("192.0.2.1", "192.0.2.4", &[("client", "berlin")])),
        "madrid offers a test that berlin started"
    );
    // Long logs are read from a file.
    let long = log_between("192.0.2.1", "192.0.2.4", "", 40_000);
    assert!(long.bytes > jitlat_archive::MAX_PREPARED_BYTES);
    assert_eq!(
        refusal(&send(&mut collector.connect("madrid"), &long, &[])),
        between("192.0.2.1", "192.0.2.4", "berlin and rome")
    );
    assert_eq!(names(&collector), before);
    assert_eq!(collector.archive().list(&Filter::default(), &[]).unwrap().len(), 1);
    // Addresses that are not in the file are stored separately for the host that pushes, whatever names the log has.
    let tags = [("client", "madrid"), ("server", "rome"), ("collected-src", "berlin")];
    assert_eq!(forged("10.0.0.7", "192.0.2.4", &tags).status, 201);
    assert_eq!(forged("10.0.0.7", "198.51.100.9", &[]).status, 201);
    assert_eq!(forged("192.0.2.2", "192.0.2.1", &[]).status, 201);
    let after = names(&collector);
    let own = |address: &str, name: Option<&str>| (address.to_owned(), name.map(str::to_owned));
    for expected in [
        own("192.0.2.1", Some("berlin")),
        own("192.0.2.2", Some("madrid")),
        own("192.0.2.4", None),
        own("10.0.0.7@madrid", None),
        own("198.51.100.9@madrid", None),
    ] {
        assert!(after.contains(&expected), "{expected:?} in {after:?}");
    }
    assert_eq!(after.len(), 5);
    // Another host behind address translation has the same address: it is not the same host.
    let behind = log_between("10.0.0.7", "192.0.2.4", "", 60);
    assert_eq!(send(&mut collector.connect("berlin"), &behind, &[]).status, 201);
    assert!(names(&collector).contains(&own("10.0.0.7@berlin", None)));
}

/// Returns the addresses and names of hosts in the archive of the collector.
fn names(collector: &Collector) -> Vec<(String, Option<String>)> {
    let mut names: Vec<_> = collector.archive().hosts().unwrap();
    names.sort();
    names
}

#[test]
fn a_test_in_another_hosts_name_is_known_by_the_log_itself() {
    let collector = Collector::start();
    let log = log_between("192.0.2.1", "192.0.2.4", "# tag client=oslo\n", 50);
    let mut client = collector.connect("berlin");
    assert_eq!(refusal(&send(&mut client, &log, &[])), "berlin offers a test that oslo started");
    assert!(collector.archive().list(&Filter::default(), &[]).unwrap().is_empty());
}

#[test]
fn a_log_that_is_dated_later_than_it_arrives_is_refused() {
    let collector = Collector::start();
    let mut client = collector.connect("berlin");
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    const HOUR: i64 = 3_600_000_000_000;
    let mut at = |start: i64, packets| {
        let path = folder.path().join(format!("{start}.log"));
        write_log(&path, start, packets);
        let own = tempfile::tempdir().unwrap();
        send(&mut client, &packed(own.path(), &[path])[0], &[])
    };
    assert_eq!(at(now + HOUR / 2, 20).status, 201, "clocks differ");
    assert_eq!(at(now - 50 * 365 * 24 * HOUR, 20).status, 201);
    for (start, packets) in
        [(now + 2 * HOUR, 20), (now + 100 * 24 * HOUR, 20), (i64::MAX - HOUR, 20), (now + 2 * HOUR, 40_000)]
    {
        let answer = at(start, packets);
        assert!(refusal(&answer).contains("later than its arrival"), "{answer:?}");
    }
    let collected = collector.collected("berlin");
    assert_eq!((collected.stored, collected.refused), (2, 4));
}

#[test]
fn a_host_over_its_quota_is_refused_counted_and_told_when_to_come_again() {
    let all = logs(0..30, 100);
    let bytes = all[0].bytes;
    let quota = PushQuota { tests_per_second: 1, bytes_per_day: 10 * bytes, bytes: 1 << 40 };
    let collector = Collector::with(quota);
    let mut evil = collector.connect("madrid");
    let body: Vec<u8> = all.iter().flat_map(|log| log.part(&[])).collect();
    let answers = evil.tests(body).unwrap().tests;
    let stored = answers.iter().filter(|a| a.status == 201).count();
    let last = answers.last().unwrap();
    assert!((8..=11).contains(&stored) && answers.len() == stored + 1, "{answers:?}");
    assert!(last.status == 429 && last.error.as_deref().unwrap().contains("bytes in a day"), "{last:?}");
    assert!(last.retry_after.is_some_and(|s| s > 60), "{last:?}");
    // Another host has its own quota.
    assert_eq!(send(&mut collector.connect("berlin"), &all[29], &[]).status, 201);
    let collected = collector.collected("madrid");
    assert_eq!((collected.stored, collected.over_quota), (stored as u64, 1));
    // One alert fires, however often the quota is exceeded.
    assert_eq!(send(&mut evil, &all[28], &[]).status, 429);
    let alerts = collector.archive().alerts(9).unwrap();
    assert_eq!(alerts.len(), 1);
    let alert = &alerts[0];
    assert_eq!(
        (alert.alert.as_str(), alert.src.as_str(), alert.dst.as_str()),
        ("push quota", "madrid", "rome")
    );
    // The collector that starts again knows what was pushed today.
    let collector = {
        let folder = tempfile::tempdir().unwrap();
        let hosts = HOSTS.map(|(name, address)| (name.to_owned(), address.to_owned())).into_iter();
        let rules = CollectRules {
            name: "rome".to_owned(),
            skew: Span::ZERO,
            quota,
            channels: Vec::new(),
            judges: BTreeMap::new(),
        };
        let root = collector.folder.path().join("a");
        let _keep = folder;
        ArchiveShelf::new(&root, hosts, rules).unwrap()
    };
    let name = all[28].name.to_string();
    let answers = collector.receive("madrid", &mut &all[28].part(&[])[..], Some(&name));
    assert_eq!(answers.tests[0].status, 429, "{answers:?}");
    // A body with another test than its address is refused before anything is stored.
    let answers = collector.receive("oslo", &mut &all[27].part(&[])[..], Some(&name));
    assert!(answers.tests.is_empty() && answers.error.is_some(), "{answers:?}");
}

/// A host that invents reasons, or tags of any length, fills neither the log nor the disk.
#[test]
fn refusals_and_descriptions_are_bounded_too() {
    let mut log = RefusalLog::default();
    let at = |seconds: i64| SteadyTime(seconds * 1_000_000_000);
    let logged = (0..1000).filter(|k| log.is_news(&format!("a test of {k}"), at(*k))).count();
    assert_eq!(logged, 10);
    assert!(!log.is_news("a test of 999", at(1001)));
    assert!(log.is_news("a test of 999", at(1001 + 3600)));
    let all = logs(0..10, 50);
    let quota =
        PushQuota { tests_per_second: 200, bytes_per_day: 4 * all[0].bytes + 100_000, bytes: 1 << 40 };
    let collector = Collector::with(quota);
    let mut evil = collector.connect("madrid");
    let long = "x".repeat(30_000);
    let statuses: Vec<u16> =
        all[..5].iter().map(|log| send(&mut evil, log, &[("note", &long)]).status).collect();
    assert!(statuses[..3].iter().all(|s| *s == 201) && statuses[3..].contains(&429), "{statuses:?}");
    // Small requests of a host are paced: each may write to the archive.
    let mut honest = collector.connect("berlin");
    let begun = Instant::now();
    (0..60).for_each(|_| drop(honest.offers(&Offers::default()).unwrap()));
    assert!(begun.elapsed() >= Duration::from_millis(500));
}

#[test]
fn who_has_no_token_is_told_so_and_slowed() {
    let collector = Collector::start();
    let begun = Instant::now();
    let mut guess = connect(&collector.at, &PushCredential::Token(token("oslo"))).unwrap();
    let went = guess.offers(&Offers::default());
    assert!(
        matches!(&went, Err(PushFailure::Refused(why, _)) if why.contains("no host with this token")),
        "{went:?}"
    );
    assert!(begun.elapsed() >= Duration::from_secs(1));
}

/// The token is not sent to a server with another certificate.
#[test]
fn a_server_with_another_certificate_gets_no_token() {
    let (collector, other) = (Collector::start(), Collector::start());
    let wrong = PushTarget { trust: other.at.trust.clone(), ..collector.at.clone() };
    let went = connect(&wrong, &PushCredential::Token(token("berlin")));
    let PushTrust::Pin(pin) = &collector.at.trust else { panic!("pinned") };
    assert!(
        matches!(&went, Err(PushFailure::Untrusted(why)) if why.contains(&pin.to_string())),
        "{:?}",
        went.err()
    );
    let system = PushTarget { trust: PushTrust::System, ..collector.at.clone() };
    let went = connect(&system, &PushCredential::Token("x".to_owned()));
    assert!(went.is_err(), "no authority signed it");
}

/// Hosts with certificates have the same rules as hosts with tokens: each can push only its own tests, and a wrong certificate has the
/// same consequences as a wrong token.
#[test]
fn a_certificate_speaks_for_its_host_and_a_wrong_one_for_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let own = |name: &str| Identity::made(&folder.path().join(name), &[name.to_owned()]).unwrap().0;
    let [berlin, next, madrid, stranger] = ["berlin", "next", "madrid", "stranger"].map(own);
    let pins = |list: &[&Identity]| HostProof::Pinned(list.iter().map(|own| own.fingerprint()).collect());
    let proofs = vec![
        ("berlin".to_owned(), pins(&[&berlin, &next])),
        ("madrid".to_owned(), pins(&[&madrid])),
        ("oslo".to_owned(), HostProof::Token(Token::new(&token("oslo")))),
    ];
    let collector = Collector::of(PushQuota::default(), proofs);
    let with = |own: &Identity| connect(&collector.at, &PushCredential::Certificate(own.clone())).unwrap();
    let log = |seed: i64| log_between("192.0.2.1", "192.0.2.4", "", 40 + seed);
    // Before and after its certificate is renewed, a host pushes its own tests, and nobody else's.
    for (seed, own) in [(0, &berlin), (1, &next)] {
        let tags = [("client", "berlin")];
        assert_eq!(send(&mut with(own), &log(seed), &tags).status, 201);
        let answer = send(&mut with(own), &log(seed + 10), &[("client", "madrid")]);
        assert_eq!(refusal(&answer), "berlin offers a test that madrid started");
    }
    let answer = send(&mut with(&madrid), &log(2), &[]);
    assert!(refusal(&answer).contains("madrid offers a test from 192.0.2.1 to 192.0.2.4"), "{answer:?}");
    // Hosts with tokens are served as well.
    assert!(collector.connect("oslo").offers(&Offers::default()).is_ok());
    let begun = Instant::now();
    let went = with(&stranger).offers(&Offers::default());
    let expected = format!("no host with the certificate {}", stranger.fingerprint());
    assert!(matches!(&went, Err(PushFailure::Refused(why, _)) if why.contains(&expected)), "{went:?}");
    // The token of a host that has a certificate proves nothing.
    let went = collector.connect("berlin").offers(&Offers::default());
    assert!(
        matches!(&went, Err(PushFailure::Refused(why, _)) if why.contains("no host with this token")),
        "{went:?}"
    );
    assert!(begun.elapsed() >= Duration::from_secs(2));
    // After some more wrong certificates this address must wait, unless it shows a right one.
    let must_wait = |_| {
        let went = with(&stranger).offers(&Offers::default());
        matches!(&went, Err(PushFailure::Refused(why, _)) if why.contains("wrong tokens or certificates came"))
    };
    assert!((0..8).any(must_wait));
    assert_eq!(send(&mut with(&berlin), &log(3), &[]).status, 201);
    assert_eq!(collector.collected("berlin").stored, 3);
}

#[test]
fn a_long_log_and_what_a_host_says_of_itself_arrive() {
    let collector = Collector::start();
    let mut client = collector.connect("berlin");
    let log = logs(1..2, 60_000).remove(0);
    assert!(log.bytes > jitlat_archive::MAX_PREPARED_BYTES);
    let earlier = "0123456789abcdef0123456789abcdef".to_owned();
    let slot = LostSlot {
        test: "voice".to_owned(),
        server: "oslo".to_owned(),
        at_ns: 2,
        since_ns: 1,
        fault: "path".to_owned(),
        reason: "unreachable: connection refused".to_owned(),
    };
    let far_future = LostSlot { at_ns: i64::MAX, server: "rome".to_owned(), ..slot.clone() };
    let route = SeenRoute {
        route: "r".to_owned(),
        dst: "oslo".to_owned(),
        first_ns: 1,
        last_ns: 1,
        hops: vec!["192.0.2.1".to_owned(), "*".to_owned()],
    };
    let offers = Offers {
        waiting: 7,
        dropped: 3,
        tests: vec![log.name.to_string(), earlier],
        slots: vec![slot.clone(), far_future],
        routes: vec![route.clone()],
    };
    assert!(client.offers(&offers).unwrap().known.is_empty());
    let header = PartHeader { packed: None, ..log.header(&[]) };
    let answer = client.test(&header, &mut &log.log[..]).unwrap().unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(client.test(&header, &mut &log.log[..]).unwrap().unwrap().status, 200);
    assert_eq!(client.offers(&offers).unwrap().known, [log.name.to_string()]);
    let collected = collector.collected("berlin");
    assert_eq!((collected.stored, collected.waiting, collected.dropped), (1, 7, 3));
    assert!(collected.heard_ns.is_some() && collected.stored_ns.is_some());
    // It speaks for itself only: as the host that starts the tests, and at which the route begins.
    let archive = collector.archive();
    let reports = archive.reports_after(0).unwrap();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!(
        (reports[0].1.client.as_str(), reports[0].1.reason.as_str()),
        ("berlin", slot.reason.as_str())
    );
    assert_eq!(archive.routes("berlin", "oslo", 9).unwrap()[0].hops, route.hops);
    let odd = [
        LostSlot { reason: "two\nlines".to_owned(), ..slot.clone() },
        LostSlot { fault: "of the others".to_owned(), ..slot.clone() },
        LostSlot { test: "x".repeat(301), ..slot },
    ];
    for slot in odd {
        let offers = Offers { slots: vec![slot], ..Offers::default() };
        assert!(collector.connect("berlin").offers(&offers).is_err());
    }
    let hops = vec!["<b>".to_owned()];
    let offers = Offers { routes: vec![SeenRoute { hops, ..route }], ..Offers::default() };
    assert!(collector.connect("berlin").offers(&offers).is_err());
}

/// A host cannot suppress the messages of a rule by which it does not judge.
#[test]
fn only_a_judge_of_a_rule_reports_its_messages_as_sent() {
    let collector = Collector::start();
    let message = SharedMessage {
        alert: "loss".to_owned(),
        since_ns: 7,
        resolved: false,
        paths: vec![["voice", "oslo", "rome"].map(str::to_owned)],
    };
    let all = [message.clone()];
    collector.connect("madrid").report_sent(&all).unwrap();
    assert_eq!(collector.connect("berlin").sent(&all).unwrap(), [false]);
    collector
        .connect("berlin")
        .report_sent(&[SharedMessage { alert: "other".to_owned(), ..message.clone() }])
        .unwrap();
    assert_eq!(collector.connect("berlin").sent(&all).unwrap(), [false]);
    collector.connect("berlin").report_sent(&all).unwrap();
    assert_eq!(collector.connect("berlin").sent(&all).unwrap(), [true]);
    assert!(collector.archive().was_sent_elsewhere(&message).unwrap());
}

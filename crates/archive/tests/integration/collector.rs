//! Tests that a collector accepts, and the counters of a host that pushes.

use crate::common::{DAY, HOUR, NEW_YEAR, known_logs, write_log};
use jitlat_archive::{
    AddOutcome, Archive, Arrived, CollectedEnds, Filter, IncomingLog, LogName, MAX_UNSETTLED, PoolPeriod,
    PreparedTest, Pruned, PushResult, Retention, Unfit,
};
use jitlat_core::pool;
use jitlat_core::scalars::{SCALARS, Selector};
use jitlat_core::{Span, WallTime};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

fn prepared(log: &Path, tags: &[(String, String)]) -> Result<PreparedTest, jitlat_archive::ArchiveError> {
    let name = log.file_name().unwrap().to_string_lossy().into_owned();
    PreparedTest::new(&fs::read(log).unwrap(), &name, tags)
}

fn text(archive: &Archive, id: &str) -> Vec<u8> {
    let mut text = Vec::new();
    archive.log(archive.find(id).unwrap()).unwrap().read_to_end(&mut text).unwrap();
    text
}

/// Returns the results of all queries: tests with all their figures, tags, and periods.
fn everything(archive: &Archive) -> String {
    let all: Vec<Selector> = jitlat_core::scalars::selectors().collect();
    let mut tests = archive.list(&Filter::default(), &all).unwrap();
    tests.sort_by(|a, b| a.id.cmp(&b.id));
    let mut said = serde_json::to_string_pretty(&tests).unwrap();
    for (_, period) in PoolPeriod::NAMES {
        for figure in SCALARS.iter().filter(|f| pool::has(f)) {
            let mut found = archive.query(&Filter::default(), &[figure], period).unwrap();
            found.sort_by_key(|(stream, _)| format!("{stream:?}"));
            said += &format!("{found:?}\n");
        }
    }
    said
}

#[test]
fn known_logs_are_the_same_in_a_batch_and_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let [one, all] = ["one", "all"].map(|name| Archive::make(&folder.path().join(name)).unwrap());
    let tags = [("site".to_owned(), "lab".to_owned())];
    let mut batch = Vec::new();
    for log in known_logs() {
        match (one.add(&log, &tags), prepared(&log, &tags)) {
            (Ok(_), Ok(prepared)) => batch.push(prepared),
            (Err(_), Err(_)) => {}
            (added, prepared) => panic!("{}: {added:?}, {:?}", log.display(), prepared.err()),
        }
    }
    assert!(batch.len() > 30);
    assert!(all.add_all(&mut batch).unwrap().iter().all(|added| matches!(added, Ok(AddOutcome::New(_)))));
    let said = everything(&one);
    assert!(said == everything(&all));
    for test in one.list(&Filter::default(), &[]).unwrap() {
        assert!(text(&one, &test.id) == text(&all, &test.id), "{}", test.source);
    }
    assert_eq!(all.check(true).unwrap().damaged, []);
    // Collected tests can be compacted and pruned like any other.
    all.compact().unwrap();
    assert!(said == everything(&all));
}

#[test]
fn a_batch_has_each_log_once_whatever_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a");
    let archive = Archive::make(&root).unwrap();
    // Logs over three days, newest first, each twice, some of them already known.
    let logs: Vec<_> =
        (0..40).map(|k| write_log(folder.path(), k, NEW_YEAR + (40 - k) * 2 * HOUR, 60 + k % 3)).collect();
    archive.add(&logs[7], &[]).unwrap();
    let twice = logs.iter().chain(logs.iter().rev());
    let mut batch: Vec<PreparedTest> =
        twice.map(|log| prepared(log, &[]).unwrap().from_host("berlin", &CollectedEnds::default())).collect();
    let added = archive.add_all(&mut batch).unwrap();
    let new = added.iter().filter(|added| matches!(added, Ok(AddOutcome::New(_)))).count();
    assert_eq!((added.len(), new), (80, 39));
    let found = archive.check(true).unwrap();
    assert_eq!((found.tests, found.files, found.damaged.len()), (40, 5, 0));
    let collected = archive.collected().unwrap();
    assert_eq!(collected.len(), 1);
    assert_eq!((collected[0].host.as_str(), collected[0].stored), ("berlin", 39));
    let tag = [("collected-from".to_owned(), "berlin".to_owned())];
    let tagged = Filter { tags: tag.to_vec(), ..Filter::default() };
    assert_eq!(archive.list(&tagged, &[]).unwrap().len(), 39);
    // This host's own tests wait for another collector, those of other hosts do not.
    archive.begin_push("far", 1 << 30).unwrap();
    assert_eq!(archive.pushes().unwrap()[0].waiting, 1);
    // The result equals an archive that received them one by one, in another order.
    let other = Archive::make(&folder.path().join("b")).unwrap();
    other.add(&logs[7], &[]).unwrap();
    for log in logs.iter().rev() {
        let one = prepared(log, &[]).unwrap().from_host("berlin", &CollectedEnds::default());
        assert!(other.add_all(&mut [one]).unwrap()[0].is_ok());
    }
    let ask = |archive: &Archive, period| {
        archive
            .query(&Filter::default(), &[SCALARS.iter().find(|f| f.key == "pdv-p99").unwrap()], period)
            .unwrap()
    };
    for (_, period) in PoolPeriod::NAMES {
        assert_eq!(ask(&archive, period), ask(&other, period));
    }
}

/// A file that was renamed but not added to the catalogue is added when the host starts, with the host that it came from.
#[test]
fn what_a_crash_left_out_is_entered_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a");
    let archive = Archive::make(&root).unwrap();
    let logs: Vec<_> = (0..3).map(|k| write_log(folder.path(), k, NEW_YEAR + k * HOUR, 50)).collect();
    let batch = || -> Vec<PreparedTest> {
        logs.iter()
            .map(|log| prepared(log, &[]).unwrap().from_host("oslo", &CollectedEnds::default()))
            .collect()
    };
    let before = fs::read(root.join("catalogue.sqlite")).unwrap();
    let other = Archive::make(&folder.path().join("b")).unwrap();
    other.add_all(&mut batch()).unwrap();
    // Restore the file without its catalogue.
    let day = folder.path().join("b/packets/day=2026-01-01");
    fs::create_dir_all(root.join("packets/day=2026-01-01")).unwrap();
    for file in fs::read_dir(day).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), root.join("packets/day=2026-01-01").join(file.file_name())).unwrap();
    }
    fs::write(root.join("tmp/torn.parquet"), b"PAR1").unwrap();
    assert!(!before.is_empty());
    let found = archive.recover().unwrap();
    assert_eq!((found.entered, found.unfinished, found.damaged.len()), (3, 1, 0));
    assert_eq!(archive.collected().unwrap()[0].stored, 3);
    assert_eq!(archive.recover().unwrap(), jitlat_archive::Checked::default());
    assert!(
        archive.add_all(&mut batch()).unwrap().iter().all(|added| matches!(added, Ok(AddOutcome::Known(_))))
    );
}

fn packed(archive: &Archive, log: &Path) -> (LogName, u64, Vec<u8>) {
    let AddOutcome::New(id) = archive.add(log, &[]).unwrap() else { panic!("it is new") };
    let mut packed = Vec::new();
    archive.compressed(id).unwrap().read_to_end(&mut packed).unwrap();
    archive.begin_push("x", 1 << 40).unwrap();
    let found = archive.to_push("x", 0, 1000).unwrap().into_iter().find(|t| t.test == id).unwrap();
    (found.name, found.bytes, packed)
}

fn taken(archive: &Archive, hash: LogName, bytes: u64, packed: &[u8]) -> Result<Vec<u8>, Unfit> {
    let mut incoming = IncomingLog::new(archive, hash, bytes)?;
    for piece in packed.chunks(1000) {
        incoming.push(piece)?;
    }
    match incoming.finish()? {
        Arrived::Text(text) => Ok(text),
        Arrived::File(file) => Ok(fs::read(file.path()).unwrap()),
    }
}

#[test]
fn a_log_comes_as_it_was_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    let log = write_log(folder.path(), 1, NEW_YEAR, 3000);
    let (hash, bytes, packed) = packed(&archive, &log);
    assert!(taken(&archive, hash, bytes, &packed).unwrap() == fs::read(&log).unwrap());
    let refused = [
        (LogName::of(b"another log"), bytes, packed.clone()),
        (hash, bytes - 1, packed.clone()),
        (hash, bytes + 1, packed.clone()),
        (hash, bytes, packed[..packed.len() - 9].to_vec()),
        (hash, bytes, [&packed[..], &packed].concat()),
        (hash, bytes, vec![7; 5000]),
        (hash, 2 << 30, packed.clone()),
    ];
    for (k, (hash, bytes, packed)) in refused.into_iter().enumerate() {
        assert!(taken(&archive, hash, bytes, &packed).is_err(), "case {k}");
    }
    // A quarter of a gigabyte in some kilobytes: unpacking stops at the first byte beyond the stated size.
    let bomb = zstd::bulk::compress(&vec![b'#'; 1 << 28], 3).unwrap();
    assert!(bomb.len() < 1 << 15);
    let said = taken(&archive, hash, bytes, &bomb).unwrap_err().to_string();
    assert_eq!(said, "it is longer than announced");
    // A log that needs more memory to unpack than any that jitlat sends.
    let mut wide = zstd::stream::Encoder::new(Vec::new(), 19).unwrap();
    wide.window_log(27).unwrap();
    std::io::Write::write_all(&mut wide, &vec![b'#'; 1 << 23]).unwrap();
    let wide = wide.finish().unwrap();
    assert!(matches!(taken(&archive, hash, 1 << 23, &wide), Err(Unfit::Packed(_))));
    assert_eq!(fs::read_dir(archive.root().join("tmp")).unwrap().count(), 0);
}

#[test]
fn a_long_log_goes_through_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    let log = write_log(folder.path(), 1, NEW_YEAR, 120_000);
    assert!(fs::metadata(&log).unwrap().len() > jitlat_archive::MAX_PREPARED_BYTES);
    assert!(prepared(&log, &[]).is_err());
    let (hash, bytes, packed) = packed(&archive, &log);
    let far = Archive::make(&folder.path().join("b")).unwrap();
    let mut incoming = IncomingLog::new(&far, hash, bytes).unwrap();
    incoming.push(&packed).unwrap();
    let Arrived::File(file) = incoming.finish().unwrap() else { panic!("it is long") };
    let tags = [("client".to_owned(), "rome".to_owned())];
    let add = || {
        let test = PreparedTest::from_file(&far, file.path(), "rome", "1.log", &tags).unwrap();
        far.add_all(&mut [test.from_host("rome", &CollectedEnds::default())]).unwrap().remove(0).unwrap()
    };
    assert!(matches!(add(), AddOutcome::New(_)));
    assert!(matches!(add(), AddOutcome::Known(_)));
    drop(file);
    assert_eq!(far.collected().unwrap()[0].stored, 1);
    let test = &far.list(&Filter::default(), &[]).unwrap()[0];
    assert!(text(&far, &test.id) == fs::read(&log).unwrap());
    assert_eq!(fs::read_dir(far.root().join("tmp")).unwrap().count(), 0);
}

/// A test that claims to be of the year 2223 neither outlives the others nor makes their packets the oldest.
#[test]
fn retention_goes_by_arrival_for_logs_that_claim_to_be_later() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    let now = WallTime(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64);
    let far = NEW_YEAR + 197 * 365 * DAY;
    archive.add(&write_log(folder.path(), 1, far, 3000), &[]).unwrap();
    archive.add(&write_log(folder.path(), 2, now.0 - HOUR, 3000), &[]).unwrap();
    let kept = || -> Vec<bool> {
        let mut list = archive.list(&Filter::default(), &[]).unwrap();
        list.sort_by_key(|test| test.started_ns);
        list.iter().map(|test| test.has_packets).collect()
    };
    // Both arrived today.
    archive.prune(Retention::Packets { days: 2 }, now).unwrap();
    assert_eq!(kept(), [true, true]);
    // Ten days later, neither is younger than its arrival.
    archive.prune(Retention::Packets { days: 2 }, now + Span(10 * DAY)).unwrap();
    assert_eq!(kept(), [false, false]);
    archive.prune(Retention::Tests { days: 2 }, now + Span(10 * DAY)).unwrap();
    assert!(kept().is_empty());
}

#[test]
fn a_size_is_kept_by_whole_files_and_the_oldest_go() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    for k in 0..10 {
        archive.add(&write_log(folder.path(), k, NEW_YEAR + k * HOUR, 200), &[]).unwrap();
    }
    let whole = archive.check(false).unwrap().bytes;
    let keep: Retention = format!("size={}", whole / 2).parse().unwrap();
    let done = archive.prune(keep, WallTime(NEW_YEAR)).unwrap();
    assert!((5..=6).contains(&done.files) && done.tests == 0, "{done:?}");
    let list = archive.list(&Filter::default(), &[]).unwrap();
    assert_eq!(list.len(), 10);
    for test in &list {
        assert_eq!(test.has_packets, (test.started_ns - NEW_YEAR) / HOUR >= done.files as i64, "{test:?}");
    }
    assert!(archive.check(true).unwrap().bytes <= whole / 2);
    assert_eq!(archive.prune(keep, WallTime(NEW_YEAR)).unwrap().files, 0);
}

/// A host that pushes the log of another as its own hides nothing: each host's test is stored and counted, whoever is first, and survives
/// compaction, pruning and a crash.
#[test]
fn a_log_of_two_hosts_is_a_test_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    let short = write_log(folder.path(), 1, NEW_YEAR, 200);
    let long = write_log(folder.path(), 2, NEW_YEAR, 120_000);
    let name = jitlat_archive::checksum(&short).unwrap();
    let push = |host: &str, log: &Path| {
        let test = match prepared(log, &[]) {
            Ok(test) => test,
            Err(_) => PreparedTest::from_file(&archive, log, host, "2.log", &[]).unwrap(),
        };
        archive.add_all(&mut [test.from_host(host, &CollectedEnds::default())]).unwrap().remove(0).unwrap()
    };
    for log in [&short, &long] {
        for host in ["evil", "berlin", "rome"] {
            assert!(matches!(push(host, log), AddOutcome::New(_)), "{host}");
            assert!(matches!(push(host, log), AddOutcome::Known(_)), "{host}");
        }
    }
    assert!(archive.has(name, Some("berlin")).unwrap() && !archive.has(name, Some("oslo")).unwrap());
    assert!(!archive.has(name, None).unwrap(), "this host has not measured it");
    assert!(matches!(archive.add(&short, &[]), Ok(AddOutcome::New(_))));
    assert!(matches!(archive.add(&short, &[]), Ok(AddOutcome::Known(_))));
    assert!(archive.has(name, Some("oslo")).unwrap(), "this host's own test counts for all");
    // The same for tests that are added in one batch.
    let more = write_log(folder.path(), 3, NEW_YEAR, 100);
    let of = |host: &str| prepared(&more, &[]).unwrap().from_host(host, &CollectedEnds::default());
    let added = archive.add_all(&mut [of("evil"), of("berlin"), of("evil")]).unwrap();
    let is_new: Vec<bool> = added.iter().map(|a| matches!(a, Ok(AddOutcome::New(_)))).collect();
    assert_eq!(is_new, [true, true, false]);
    let counts = |archive: &Archive| -> Vec<(String, u64)> {
        archive.collected().unwrap().into_iter().map(|c| (c.host, c.stored)).collect()
    };
    let expected = [("berlin", 3), ("evil", 3), ("rome", 2)].map(|(host, n)| (host.to_owned(), n));
    assert_eq!(counts(&archive), expected);
    archive.compact().unwrap();
    assert_eq!(archive.check(true).unwrap().damaged, []);
    // After a crash everybody has their test again.
    let db = rusqlite::Connection::open(archive.root().join(jitlat_archive::CATALOGUE)).unwrap();
    db.execute_batch("DELETE FROM tests; DELETE FROM figures; DELETE FROM row_groups; DELETE FROM files; DELETE FROM collected;")
        .unwrap();
    // Only checksums distinguish it from an archive in which the tests never arrived.
    let tables: Vec<String> = db
        .prepare("SELECT name FROM sums WHERE name <> 'sqlite_schema'")
        .and_then(|mut names| names.query_map([], |row| row.get(0))?.collect())
        .unwrap();
    for table in tables {
        let empty = "UPDATE sums SET sum = 0 WHERE name = 'TABLE' AND NOT EXISTS (SELECT 1 FROM TABLE)";
        db.execute_batch(&empty.replace("TABLE", &table)).unwrap();
    }
    drop(db);
    assert_eq!(archive.recover().unwrap().entered, 9);
    assert_eq!(counts(&archive), expected);
    assert!(matches!(push("berlin", &short), AddOutcome::Known(_)));
    // Tests that were removed do not come back.
    archive.prune(Retention::Tests { days: 1 }, WallTime(i64::MAX)).unwrap();
    for host in ["evil", "berlin", "rome"] {
        assert!(matches!(push(host, &short), AddOutcome::Known(_)), "{host}");
    }
}

/// A host that pushes much loses its own packets; those of the others stay, although they are older and in the same files.
#[test]
fn a_host_that_pushes_much_does_not_displace_others() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    let of = |seed: i64, host: &str| {
        let log = write_log(folder.path(), seed, NEW_YEAR + seed * HOUR / 100, 300);
        prepared(&log, &[]).unwrap().from_host(host, &CollectedEnds::default())
    };
    archive.add(&write_log(folder.path(), 1000, NEW_YEAR, 300), &[]).unwrap();
    // Two tests of honest hosts in the same file as the first tests of the other.
    archive.add_all(&mut [of(1, "berlin"), of(2, "rome"), of(3, "evil"), of(4, "evil")]).unwrap();
    for k in 0..10 {
        archive.add_all(&mut (5..9).map(|n| of(10 * k + n, "evil")).collect::<Vec<_>>()).unwrap();
    }
    let whole = archive.check(false).unwrap();
    let kept = || {
        let mut all: std::collections::BTreeMap<String, (usize, usize)> = Default::default();
        for test in archive.list(&Filter::default(), &[]).unwrap() {
            let host = test.tags.get("collected-from").cloned().unwrap_or_default();
            let of_host = all.entry(host).or_default();
            of_host.0 += 1;
            of_host.1 += usize::from(test.has_packets);
        }
        all
    };
    let done = archive.prune(Retention::Size { bytes: whole.bytes / 2 }, WallTime(NEW_YEAR)).unwrap();
    assert!(done.packets_of > 0 && done.bytes > 0, "{done:?}");
    let after = kept();
    assert_eq!([&after[""], &after["berlin"], &after["rome"]], [&(1, 1); 3]);
    let evil = after["evil"];
    assert!(evil.0 == 42 && evil.1 > 10 && evil.1 < 30, "{evil:?}");
    let checked = archive.check(true).unwrap();
    assert_eq!((checked.damaged.len(), checked.tests), (0, 45));
    assert!(checked.bytes <= whole.bytes / 2, "{checked:?}");
    assert_eq!(
        archive.prune(Retention::Size { bytes: whole.bytes / 2 }, WallTime(NEW_YEAR)).unwrap(),
        Pruned::default()
    );
}

#[test]
fn a_new_collector_gets_the_newest_of_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    for k in 0..10 {
        archive.add(&write_log(folder.path(), k, NEW_YEAR + k * HOUR, 200), &[]).unwrap();
    }
    let one = archive.check(false).unwrap().bytes / 10;
    archive.begin_push("all", 100 * one).unwrap();
    archive.begin_push("some", 4 * one + one / 2).unwrap();
    let counts = |archive: &Archive| {
        archive.pushes().unwrap().into_iter().map(|p| (p.waiting, p.dropped)).collect::<Vec<_>>()
    };
    assert_eq!(counts(&archive), [(10, 0), (4, 0)]);
    // Beginning again changes nothing; a bound drops and counts tests.
    archive.begin_push("all", 0).unwrap();
    assert_eq!(archive.bound_push("all", 7 * one + one / 2).unwrap(), 3);
    assert_eq!(archive.bound_push("some", 7 * one).unwrap(), 0);
    assert_eq!(counts(&archive), [(7, 3), (4, 0)]);
    assert_eq!(archive.to_push("all", 0, 2).unwrap().iter().map(|t| t.number).collect::<Vec<_>>(), [4, 5]);
    archive.keep_pushes(&["some"]).unwrap();
    assert_eq!(archive.pushes().unwrap().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Tests that are added in batches, in any order, give the same periods as tests added one by one.
    #[test]
    fn batches_make_the_same_periods(
        tests in prop::collection::vec((0..72i64, any::<bool>()), 1..16), cuts in prop::collection::vec(1..6usize, 1..16))
    {
        let folder = tempfile::tempdir().unwrap();
        let [one, all] = ["one", "all"].map(|name| Archive::make(&folder.path().join(name)).unwrap());
        let logs: Vec<_> = (0..).zip(&tests)
            .map(|(seed, (hour, late))| {
                let at = NEW_YEAR + hour * HOUR + i64::from(*late) * HOUR / 2 + seed;
                write_log(folder.path(), seed, at, 30)
            })
            .collect();
        logs.iter().for_each(|log| assert!(one.add(log, &[]).is_ok()));
        let mut rest = &logs[..];
        for cut in cuts.iter().cycle() {
            let (batch, others) = rest.split_at((*cut).min(rest.len()));
            let mut batch: Vec<PreparedTest> = batch.iter().map(|log| prepared(log, &[]).unwrap()).collect();
            prop_assert!(all.add_all(&mut batch).unwrap().iter().all(|added| matches!(added, Ok(AddOutcome::New(_)))));
            rest = others;
            if rest.is_empty() {
                break;
            }
        }
        let figure = SCALARS.iter().find(|f| f.key == "pdv-p99").unwrap();
        for (name, period) in PoolPeriod::NAMES {
            let ask = |archive: &Archive| archive.query(&Filter::default(), &[figure], period).unwrap();
            prop_assert_eq!(ask(&all), ask(&one), "by {}", name);
        }
    }
}

/// Events of a host that pushes.
#[derive(Clone, Debug)]
enum Step {
    /// This number of tests is made on a day.
    Make(usize, i64),
    /// This number of the next tests is sent.
    Send(usize),
    /// The collector stores this number of those sent; its confirmations are delayed.
    Store(usize),
    /// Its confirmations arrive.
    Hear,
    /// The connection breaks and another one begins.
    Break,
    /// The packets of this number of first days are removed.
    Prune(i64),
    /// Maximum number of waiting tests.
    Bound(u64),
    /// Everything of this number of first days is removed.
    Forget(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..6usize, 0..6i64).prop_map(|(n, day)| Step::Make(n, day)),
        4 => (1..8usize).prop_map(Step::Send),
        3 => (1..8usize).prop_map(Step::Store),
        3 => Just(Step::Hear),
        2 => Just(Step::Break),
        2 => (0..6i64).prop_map(Step::Prune),
        1 => (0..8u64).prop_map(Step::Bound),
        1 => (0..5i64).prop_map(Step::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// After any removal, loss and repetition each test is either stored or counted as dropped, never both.
    #[test]
    fn every_test_is_stored_or_dropped(steps in prop::collection::vec(step(), 1..50)) {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::make(&folder.path().join("a")).unwrap();
        archive.begin_push("c", 1 << 30).unwrap();
        let (mut made, mut far) = (0, BTreeSet::new());
        // State of this connection: tests sent, stored there, and confirmations received.
        let mut sent: Vec<(i64, LogName)> = Vec::new();
        let mut answers: Vec<(i64, PushResult)> = Vec::new();
        let mut stored = 0;
        let reconnect = |archive: &Archive, far: &BTreeSet<LogName>| {
            let doubts = archive.push_doubts("c").unwrap();
            let known: Vec<(i64, PushResult)> = doubts
                .into_iter()
                .map(|(n, hash)| (n, if far.contains(&hash) { PushResult::Stored } else { PushResult::Gone }))
                .collect();
            archive.settle_push("c", 0, &known).unwrap();
        };
        let hear = |archive: &Archive, answers: &mut Vec<(i64, PushResult)>| {
            let upto = answers.iter().map(|(n, _)| *n).max().unwrap_or(0);
            archive.settle_push("c", upto, answers).unwrap();
            answers.clear();
        };
        for step in steps {
            match step {
                Step::Make(n, day) => {
                    for _ in 0..n {
                        made += 1;
                        let log = write_log(folder.path(), made, NEW_YEAR + day * DAY + made, 20);
                        archive.add(&log, &[]).unwrap();
                        fs::remove_file(log).unwrap();
                    }
                }
                Step::Send(n) => {
                    let after = sent.last().map_or(0, |(n, _)| *n);
                    let room = MAX_UNSETTLED - (sent.len() - stored);
                    let next = archive.to_push("c", after, n.min(room)).unwrap();
                    sent.extend(next.iter().map(|t| (t.number, t.name)));
                }
                Step::Store(n) => {
                    for (number, hash) in sent.iter().skip(stored).take(n) {
                        far.insert(*hash);
                        answers.push((*number, PushResult::Stored));
                    }
                    stored = (stored + n).min(sent.len());
                }
                Step::Hear => hear(&archive, &mut answers),
                Step::Break => {
                    (sent, stored) = (Vec::new(), 0);
                    answers.clear();
                    reconnect(&archive, &far);
                }
                Step::Prune(days) => {
                    let now = WallTime(NEW_YEAR + (days + 1) * DAY);
                    archive.prune(Retention::Packets { days: 1 }, now).unwrap();
                }
                Step::Forget(days) => {
                    let now = WallTime(NEW_YEAR + (days + 1) * DAY);
                    archive.prune(Retention::Tests { days: 1 }, now).unwrap();
                }
                Step::Bound(n) => drop(archive.bound_push("c", n * 3000).unwrap()),
            }
        }
        // At the end everything that can be sent is sent.
        reconnect(&archive, &far);
        loop {
            let next = archive.to_push("c", 0, 10).unwrap();
            if next.is_empty() {
                break;
            }
            let mut answers = next.iter().map(|t| {
                far.insert(t.name);
                (t.number, PushResult::Stored)
            }).collect();
            hear(&archive, &mut answers);
        }
        let push = archive.pushes().unwrap().remove(0);
        prop_assert_eq!((push.waiting, push.stored), (0, far.len() as u64));
        prop_assert_eq!(push.stored + push.dropped + push.refused, made as u64, "{:?}", push);
        prop_assert_eq!(push.refused, 0);
    }
}

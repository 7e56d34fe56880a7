//! Round trip through an archive: every log comes back complete.

use crate::common::{DAY, HOUR, NEW_YEAR, known_logs, write_log};
use jitlat_archive::{
    AddOutcome, Archive, ArchiveError, Filter, PoolPeriod, Retention, TestHeader, TestId, When,
};
use jitlat_core::pool::{self, Pool};
use jitlat_core::scalars::{SCALARS, Scalar};
use jitlat_core::{Analyzer, PacketRecord, WallTime};
use jitlat_store::log::{LogReadError, LogReader, LogReading};
use std::fs;
use std::io::Read;
use std::path::Path;

fn added(archive: &Archive, log: &Path) -> TestId {
    match archive.add(log, &[]).unwrap() {
        AddOutcome::New(id) => id,
        AddOutcome::Known(id) => panic!("{id} is there already"),
    }
}

fn text_of(archive: &Archive, id: TestId) -> Vec<u8> {
    let mut text = Vec::new();
    archive.log(id).unwrap().read_to_end(&mut text).unwrap();
    text
}

/// Returns everything that a reader reports.
fn all_of(mut reader: LogReader) -> (String, Vec<PacketRecord>) {
    let before = reader.session().clone();
    let mut failure = None;
    let mut records = Vec::new();
    records.extend(reader.records(&mut failure));
    let reading: LogReading = reader.reading().clone();
    (format!("{before:?} {:?} {reading:?} {failure:?}", reader.session()), records)
}

/// Like the above, for a log that is reassembled from its header and rows without its text.
fn assembled(archive: &Archive, id: TestId) -> (String, Vec<PacketRecord>) {
    let (header, mut packets) = (archive.header(id).unwrap(), archive.packets(id).unwrap());
    let metadata = header.metadata();
    let value = |key: &str| metadata.iter().find(|(k, _)| *k == key).map(|(_, value)| value.clone());
    let [header] = &TestHeader::of_metadata(value).unwrap()[..] else { panic!("one test") };
    let mut log = header.assemble().unwrap();
    let (before, mut records) = (log.session().clone(), Vec::new());
    loop {
        let rows = packets.rows().unwrap();
        if rows.is_empty() {
            break;
        }
        rows.iter().for_each(|row| log.push(row, |record| records.push(*record)).unwrap());
    }
    log.finish(|record| records.push(*record)).unwrap();
    let failure: Option<LogReadError> = None;
    (format!("{before:?} {:?} {:?} {failure:?}", log.session(), log.reading()), records)
}

#[test]
fn every_known_log_comes_back_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    let mut ids = Vec::new();
    for log in known_logs() {
        let id = added(&archive, &log);
        assert!(matches!(archive.add(&log, &[]), Ok(AddOutcome::Known(known)) if known == id));
        ids.push((log, id));
    }
    let same = |archive: &Archive| {
        for (log, id) in &ids {
            let name = log.display().to_string();
            assert!(text_of(archive, *id) == fs::read(log).unwrap(), "{name}");
            let (theirs, mine) = (LogReader::open(log).unwrap(), archive.reader(*id, &name).unwrap());
            let theirs = all_of(theirs);
            assert!(theirs == all_of(mine), "{name}");
            assert!(theirs == assembled(archive, *id), "{name}");
        }
    };
    same(&archive);
    let checked = archive.check(true).unwrap();
    assert_eq!((checked.tests as usize, checked.damaged.len(), checked.unfinished), (ids.len(), 0, 0));
    let compacted = archive.compact().unwrap();
    assert!(compacted.after < compacted.before && compacted.damaged == 0, "{compacted:?}");
    same(&archive);
    assert_eq!(archive.check(true).unwrap().damaged, []);
}

#[test]
fn logs_that_are_damaged_come_back_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let log = fs::read(write_log(folder.path(), 1, NEW_YEAR, 500)).unwrap();
    let text = String::from_utf8(log.clone()).unwrap();
    let cut = text[..text.len() / 2].to_owned();
    let header =
        text.lines().take_while(|l| l.starts_with('#')).map(|l| format!("{l}\n")).collect::<String>();
    let mut noise = log.clone();
    let middle = noise.len() / 2;
    noise[middle..middle + 300].fill(0xff);
    let cases = [
        cut.into_bytes(),
        text.replace('\n', "\r\n").into_bytes(),
        text.replacen(" 0 u", "  0 u", 20).into_bytes(),
        header.into_bytes(),
        noise,
        [&log[..], b"# trailing words", &[0; 9000]].concat(),
    ];
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    for (k, case) in cases.into_iter().enumerate() {
        let path = folder.path().join(format!("case{k}"));
        fs::write(&path, &case).unwrap();
        let id = added(&archive, &path);
        assert!(text_of(&archive, id) == case, "case {k}");
        let name = path.display().to_string();
        let (theirs, mine) = (LogReader::open(&path).unwrap(), archive.reader(id, &name).unwrap());
        let theirs = all_of(theirs);
        assert!(theirs == all_of(mine), "case {k}");
        assert_eq!(theirs, assembled(&archive, id), "case {k}");
    }
    assert_eq!(archive.check(true).unwrap().damaged, []);
    let none = folder.path().join("none");
    fs::write(&none, "hello\n").unwrap();
    assert!(matches!(archive.add(&none, &[]), Err(ArchiveError::Log(_))));
}

#[test]
fn a_file_that_was_not_entered_is_entered_by_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let (first, second) = (Archive::make(&one).unwrap(), Archive::make(&two).unwrap());
    let log = write_log(folder.path(), 1, NEW_YEAR, 900);
    let id = added(&first, &log);
    // Simulate a writer killed between the two steps.
    let name = format!("packets/day=2026-01-01/{id}.parquet");
    fs::create_dir_all(two.join(&name).parent().unwrap()).unwrap();
    fs::copy(one.join(&name), two.join(&name)).unwrap();
    fs::write(two.join("tmp/half.parquet"), "PAR1").unwrap();
    let checked = second.check(true).unwrap();
    assert_eq!((checked.entered, checked.unfinished, checked.tests, checked.damaged.len()), (1, 1, 1, 0));
    assert_eq!(text_of(&second, id), fs::read(&log).unwrap());
    let listed = |archive: &Archive| {
        let mut all = archive.list(&Filter::default(), &[]).unwrap();
        all.iter_mut().for_each(|t| t.started_ns += 0);
        format!("{all:?}")
    };
    assert_eq!(listed(&first), listed(&second));
    // A copy of a known file is removed.
    fs::copy(one.join(&name), two.join("packets/copy.parquet")).unwrap();
    assert_eq!(second.check(false).unwrap().superfluous, 1);
}

#[test]
fn damaged_files_are_named_and_the_others_read() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    let ids: Vec<TestId> =
        (0..3).map(|k| added(&archive, &write_log(folder.path(), k, NEW_YEAR + k * DAY, 400))).collect();
    let name = format!("packets/day=2026-01-02/{}.parquet", ids[1]);
    let path = archive.root().join(&name);
    let bytes = fs::read(&path).unwrap();
    for at in [0, 4, bytes.len() / 3, bytes.len() / 2, bytes.len() - 30, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        fs::write(&path, changed).unwrap();
        if at >= 4 {
            let found = archive.check(true).unwrap();
            assert_eq!(found.damaged[0].what, name, "byte {at}");
        }
    }
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(matches!(archive.log(ids[1]), Err(ArchiveError::Damaged { .. })));
    assert_eq!(archive.log(ids[0]).is_ok(), archive.log(ids[2]).is_ok());
    fs::remove_file(&path).unwrap();
    assert!(archive.check(false).unwrap().damaged[0].problem.contains("No such file"));
}

/// Returns the pool of logs, computed from their packets.
fn pool_of(logs: &[std::path::PathBuf]) -> Pool {
    let mut pool = Pool::default();
    for log in logs {
        let mut reader = LogReader::open(log).unwrap();
        let mut analyzer = Analyzer::new(reader.session(), &jitlat_verdict::options());
        reader.records(&mut None).for_each(|r| analyzer.push(&r));
        let (summary, samples) = analyzer.finish_with_samples(reader.session());
        pool.merge(&Pool::of(&summary, &samples));
    }
    pool
}

#[test]
fn rollups_are_those_of_the_packets_in_whatever_order_they_came() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    // Twelve tests in three months; the later ones are added first, with queries in between.
    let start = |k: i64| NEW_YEAR + (k / 4) * 32 * DAY + (k % 4 / 2) * DAY + (k % 2) * HOUR;
    let logs: Vec<_> = (0..12).map(|k| write_log(folder.path(), k, start(k), 1500)).collect();
    let figure = Scalar::named("pdv-p99.9").unwrap();
    for (n, log) in logs.iter().rev().enumerate() {
        added(&archive, log);
        if n % 3 == 0 {
            archive.query(&Filter::default(), &[figure], PoolPeriod::Month).unwrap();
        }
    }
    for figure in SCALARS.iter().filter(|f| pool::has(f)) {
        let all = archive.query(&Filter::default(), &[figure], PoolPeriod::All).unwrap();
        assert_eq!(all[0].1[0].values[0], pool_of(&logs).scalar(figure), "{}", figure.key);
        for (period, size) in
            [(PoolPeriod::Hour, 1), (PoolPeriod::Day, 2), (PoolPeriod::Month, 4), (PoolPeriod::Year, 12)]
        {
            let found = archive.query(&Filter::default(), &[figure], period).unwrap();
            let theirs: Vec<_> = found[0].1.iter().map(|p| p.values[0]).collect();
            let mine: Vec<_> = logs.chunks(size).map(|part| pool_of(part).scalar(figure)).collect();
            assert_eq!(theirs, mine, "{} by {period:?}", figure.key);
        }
    }
    // A range whose ends are not the start of any period.
    let within = Filter {
        since: Some(When(WallTime(start(1)))),
        before: Some(When(WallTime(start(10) + 1))),
        ..Filter::default()
    };
    let all = archive.query(&within, &[figure], PoolPeriod::All).unwrap();
    assert_eq!(all[0].1[0].values[0], pool_of(&logs[1..11]).scalar(figure));
    let mos = Scalar::named("mos").unwrap();
    assert!(matches!(
        archive.query(&Filter::default(), &[mos], PoolPeriod::Day),
        Err(ArchiveError::Usage(_))
    ));
}

/// Roll-ups are updated as tests arrive in any order, with pruning and queries in between; they equal those computed again.
#[test]
fn stored_rollups_are_those_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    // Three tests in each of three hours of two days of two months.
    let start =
        |k: i64| NEW_YEAR + (k / 18) * 31 * DAY + (k / 9 % 2) * DAY + (k / 3 % 3) * HOUR + (k % 3) * HOUR / 3;
    let asked = ["pdv-p99.9", "latency-mean", "sent"];
    let figures = asked.map(|key| Scalar::named(key).unwrap());
    let periods = [PoolPeriod::Hour, PoolPeriod::Day, PoolPeriod::Month, PoolPeriod::Year, PoolPeriod::All];
    let everything = || -> Vec<_> {
        let each = |period| figures.map(|f| archive.query(&Filter::default(), &[f], period).unwrap());
        periods.into_iter().map(each).collect()
    };
    let db = rusqlite::Connection::open(archive.root().join(jitlat_archive::CATALOGUE)).unwrap();
    let stored = || -> i64 { db.query_row("SELECT count(*) FROM rollups", [], |row| row.get(0)).unwrap() };
    let same_anew = |n: i64| {
        let kept = everything();
        db.execute("DELETE FROM rollups", []).unwrap();
        assert!(kept == everything(), "after {n} tests");
    };
    // In order, then the second month backwards, with queries after some, and all roll-ups removed once.
    let order = (0..18).chain((18..36).rev());
    for (n, k) in (0..).zip(order) {
        added(&archive, &write_log(folder.path(), k, start(k), 200 + 100 * k));
        assert!(stored() > 0);
        if n % 7 == 3 {
            archive.query(&Filter::default(), &[figures[0]], periods[n as usize % 5]).unwrap();
        }
        if [1, 5, 17, 22, 35].contains(&n) {
            same_anew(n);
        }
        if n == 19 {
            archive.prune(Retention::Tests { days: 40 }, WallTime(start(18) + 9 * DAY)).unwrap();
            same_anew(n);
        }
        if n == 27 {
            db.execute("DELETE FROM rollups WHERE unit = 'month'", []).unwrap();
        }
        if n == 30 {
            db.execute("UPDATE rollups SET pool = x'00' WHERE unit = 'day'", []).unwrap();
            db.execute("DELETE FROM rollups WHERE unit = 'month' OR pool = x'00'", []).unwrap();
        }
    }
    // Without a query, hours are added to days, and days to months, when later ones begin.
    let open = |unit: &str| -> i64 {
        let query = "SELECT count(*) FROM rollups WHERE unit = ? AND pooled = 0";
        db.query_row(query, [unit], |row| row.get(0)).unwrap()
    };
    let last = NEW_YEAR + 70 * DAY;
    for k in 0..30 {
        added(&archive, &write_log(folder.path(), 100 + k, last + k * HOUR, 50));
        assert!(open("hour") <= 1 && open("day") <= 2, "{} hours, {} days", open("hour"), open("day"));
    }
    same_anew(66);
}

#[test]
fn a_rollup_that_cannot_be_read_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    added(&archive, &write_log(folder.path(), 1, NEW_YEAR, 300));
    let db = rusqlite::Connection::open(archive.root().join(jitlat_archive::CATALOGUE)).unwrap();
    db.execute("UPDATE rollups SET pool = x'00'", []).unwrap();
    added(&archive, &write_log(folder.path(), 2, NEW_YEAR + 1, 300));
    let sent = Scalar::named("sent").unwrap();
    let found = archive.query(&Filter::default(), &[sent], PoolPeriod::Day).unwrap();
    assert_eq!(found[0].1[0].values[0], Some(600.0));
}

/// Tests that share row groups, read one after another on several threads, including one that cannot be read.
#[test]
fn packets_analysed_again_give_the_pools_of_their_logs() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    let logs: Vec<_> =
        (0..12).map(|k| write_log(folder.path(), k, NEW_YEAR + k / 6 * DAY + k, 100 + 50 * k)).collect();
    let tests: Vec<(TestId, usize)> =
        logs.iter().enumerate().map(|(k, log)| (added(&archive, log), k % 2)).collect();
    let parts = |odd: usize| pool_of(&logs.iter().skip(odd).step_by(2).cloned().collect::<Vec<_>>());
    let options = jitlat_verdict::options();
    let figures = |pool: &Pool| SCALARS.iter().map(|f| pool.scalar(f)).collect::<Vec<_>>();
    let whole = |tests: &[(TestId, usize)]| {
        for jobs in [1, 3] {
            let found = jitlat_archive::analyse(archive.root(), tests, jobs, &options).unwrap();
            assert!(found.failed.is_empty() && found.groups.len() == 2, "{:?}", found.failed);
            (0..2).for_each(|odd| {
                assert_eq!(figures(&found.groups[&odd]), figures(&parts(odd)), "{jobs} jobs");
            });
        }
    };
    whole(&tests);
    let one = |k: usize| archive.analyse(tests[k].0, &options).unwrap().0;
    let before = one(7);
    archive.compact().unwrap();
    whole(&tests);
    assert!(one(7) == before);
    // Some tests of a row group, in another order.
    let some: Vec<_> = [8, 1, 5].into_iter().map(|k| tests[k]).chain([(TestId(1), 0)]).collect();
    let found = jitlat_archive::analyse(archive.root(), &some, 1, &options).unwrap();
    assert_eq!(found.groups[&0].tests, 1);
    assert_eq!(figures(&found.groups[&1]), figures(&pool_of(&[logs[1].clone(), logs[5].clone()])));
    assert!(matches!(found.failed[..], [(TestId(1), ArchiveError::NoSuchTest { .. })]));
}

#[test]
fn what_is_pruned_stays_in_the_figures() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    let logs: Vec<_> = (0..6).map(|k| write_log(folder.path(), k, NEW_YEAR + k * DAY, 300)).collect();
    let ids: Vec<_> = logs.iter().map(|log| added(&archive, log)).collect();
    let figure = Scalar::named("pdv-p99").unwrap();
    let all = |archive: &Archive| archive.query(&Filter::default(), &[figure], PoolPeriod::Day).unwrap();
    let before = all(&archive);
    let now = WallTime(NEW_YEAR + 6 * DAY);
    let pruned = archive.prune(Retention::Packets { days: 2 }, now).unwrap();
    assert_eq!((pruned.packets_of, pruned.files, pruned.tests), (4, 4, 0));
    assert!(matches!(archive.log(ids[0]), Err(ArchiveError::Pruned(_))) && archive.log(ids[5]).is_ok());
    assert_eq!(all(&archive), before);
    let pruned = archive.prune(Retention::Tests { days: 4 }, now).unwrap();
    assert_eq!(pruned.tests, 2);
    assert_eq!(all(&archive), before);
    // Pruned tests are not counted twice.
    assert!(matches!(archive.add(&logs[0], &[]), Ok(AddOutcome::Known(_))));
    assert_eq!(archive.check(true).unwrap().damaged, []);
}

#[test]
fn ids_and_times_are_found_as_people_write_them() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    let id = added(&archive, &write_log(folder.path(), 7, NEW_YEAR, 30));
    assert_eq!(archive.find(&id.to_string()[..6]).unwrap(), id);
    assert!(matches!(archive.find("0000"), Err(ArchiveError::NoSuchTest { .. })));
    let now = WallTime(NEW_YEAR + DAY);
    let at = |text: &str| When::parse(text, now).unwrap().0.0;
    assert_eq!(at("1d"), NEW_YEAR);
    assert_eq!((at("2026-01-01"), at("2026-01-01T01:00:00Z")), (NEW_YEAR, NEW_YEAR + HOUR));
    assert_eq!((at("2026-01-01T01:00:00"), at("2026-01-01 01:00")), (NEW_YEAR + HOUR, NEW_YEAR + HOUR));
    let zone = "+05:30".parse().unwrap();
    let there = |text: &str| When::parse_in(text, now, &zone).unwrap().0.0;
    assert_eq!(
        (there("2026-01-01T06:30"), there("2026-01-01T06:30:00Z")),
        (at("2026-01-01 01:00"), at("2026-01-01 06:30"))
    );
    assert_eq!(there("2026-01-01"), NEW_YEAR - 11 * HOUR / 2);
    assert!(When::parse("yesterday", now).is_err());
    assert!(When::parse("2026-01-01T01:00:00[Europe/Oslo", now).is_err());
    let path = |text: &str| Filter { path: Some(text.parse().unwrap()), ..Filter::default() };
    for (text, n) in [("192.0.2.1:192.0.2.2", 1), (":192.0.2.2", 1), ("192.0.2.1:", 1)] {
        assert_eq!(archive.list(&path(text), &[]).unwrap().len(), n, "{text}");
    }
    assert!(archive.list(&path("192.0.2.2:192.0.2.9"), &[]).is_err());
    assert!(matches!(Archive::open(folder.path()), Err(ArchiveError::NotAnArchive(_))));
}

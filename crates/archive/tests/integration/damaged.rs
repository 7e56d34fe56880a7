//! Damaged or foreign files: errors, never a panic.

use crate::common::{NEW_YEAR, write_log};
use jitlat_archive::{
    AddOutcome, Archive, ArchiveError, CATALOGUE, Filter, LogName, PoolPeriod, Renamed, VERSION,
};
use jitlat_core::WallTime;
use jitlat_core::scalars::Scalar;
use proptest::prelude::*;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Calls everything that reads an archive and ignores the results.
fn read_all(root: &Path) {
    let Ok(archive) = Archive::open_to_write(root) else { return };
    let tests = archive.list(&Filter::default(), &[]).unwrap_or_default();
    for test in &tests {
        let Ok(id) = archive.find(&test.id) else { continue };
        if let Ok(log) = archive.log(id) {
            let _ = log.take(1 << 24).read_to_end(&mut Vec::new());
        }
        let _ = archive.session(id);
        if let Ok(mut packets) = archive.packets(id) {
            while packets.next(|_| {}).unwrap_or(false) {}
        }
    }
    let _ = archive.query(&Filter::default(), &[Scalar::named("pdv-p99").unwrap()], PoolPeriod::Day);
    let _ = archive.check(true);
    let _ = archive.compact();
}

/// An archive of one test: its packet file, and the bytes of both files.
struct Made {
    folder: tempfile::TempDir,
    packets: PathBuf,
    parquet: Vec<u8>,
    catalogue: Vec<u8>,
}

fn made() -> Made {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a");
    let archive = Archive::make(&root).unwrap();
    let Ok(AddOutcome::New(id)) = archive.add(&write_log(folder.path(), 3, NEW_YEAR, 300), &[]) else {
        panic!()
    };
    let packets = root.join(format!("packets/day=2026-01-01/{id}.parquet"));
    drop(archive);
    let (parquet, catalogue) = (fs::read(&packets).unwrap(), fs::read(root.join(CATALOGUE)).unwrap());
    Made { folder, packets, parquet, catalogue }
}

/// A log of version 1 or 2 does not mark its end, and the archive does not store its name.
#[test]
fn a_log_of_an_old_version_whose_test_did_not_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    let text = format!(
        "{}\n0 1764288000000000000 0 1764288000001000000 0\n",
        [
            "# Fri Nov 28 00:00:00 UTC 2025",
            "# command SENDING",
            "# npkts 5",
            "# pktlen 80",
            "# proto 17",
            "# period 20000000",
            "# src_ip 192.0.2.1",
            "# dst_ip 192.0.2.2",
            "# src_port 1",
            "# dst_port 2667",
            "# dscp 0",
        ]
        .join("\n")
    );
    let path = folder.path().join("v1.log.part");
    fs::write(&path, &text).unwrap();
    let error = archive.add(&path, &[]).unwrap_err().to_string();
    assert!(error.contains("the log of a test that is running or did not end"), "{error}");
    fs::rename(&path, folder.path().join("v1.log")).unwrap();
    assert!(matches!(archive.add(&folder.path().join("v1.log"), &[]), Ok(AddOutcome::New(_))));
}

fn changed(bytes: &[u8], changes: &[(prop::sample::Index, u8)], cut: Option<prop::sample::Index>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (at, value) in changes {
        let at = at.index(bytes.len());
        bytes[at] = *value;
    }
    if let Some(cut) = cut {
        bytes.truncate(cut.index(bytes.len()));
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Without a catalogue there are no checksums: the file alone is read.
    #[test]
    fn packets_that_nobody_knows_may_be_anything(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let made = made();
        let other = made.folder.path().join("other");
        let archive = Archive::make(&other).unwrap();
        fs::write(other.join("packets/x.parquet"), changed(&made.parquet, &changes, cut)).unwrap();
        let _ = archive.check(true);
        drop(archive);
        read_all(&other);
        // With a catalogue, the change is detected by its checksum.
        fs::write(&made.packets, changed(&made.parquet, &changes, cut)).unwrap();
        read_all(&made.folder.path().join("a"));
    }

    #[test]
    fn a_catalogue_may_be_anything(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let made = made();
        let root = made.folder.path().join("a");
        fs::write(root.join(CATALOGUE), changed(&made.catalogue, &changes, cut)).unwrap();
        read_all(&root);
    }
}

/// Copies the archive of `testdata/archive` that version `version` of the catalogue wrote to `to`.
fn copy_of_version(version: i64, to: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/archive/v{version}"));
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        fs::create_dir_all(to.join(&folder)).unwrap();
        for entry in fs::read_dir(from.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(name);
            } else {
                fs::copy(entry.path(), to.join(name)).unwrap();
            }
        }
    }
}

/// An archive of each older version is refused with a hint; after migration it has every log byte for byte, gives the same
/// results as a new archive of these logs, and accepts more tests.
#[test]
fn an_archive_of_every_older_version_is_migrated() {
    let logs = [1, 5, 2, 1, 1, 1, 1, 1, 1];
    assert_eq!(logs.len() as i64, VERSION - 1, "there is an archive of each older version");
    for (version, logs) in (1..).zip(logs) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a");
        copy_of_version(version, &root);
        for refused in [Archive::open(&root), Archive::open_to_write(&root)] {
            let Err(error @ ArchiveError::TooOld { .. }) = refused else {
                panic!("version {version} was opened")
            };
            let sentence = format!(
                "has schema version {version}: run `jitlat archive migrate` to convert it to version {VERSION}"
            );
            assert!(error.to_string().ends_with(&sentence), "{error}");
        }
        assert_eq!(Archive::migrate(&root).unwrap(), version);
        assert_eq!(Archive::migrate(&root).unwrap(), VERSION);
        let archive = Archive::make(&root).unwrap();
        let renamed = archive.rename().unwrap();
        assert_eq!(
            (renamed.tests, renamed.kept),
            (if version < 6 { logs } else { 0 }, 0),
            "version {version}"
        );
        assert_eq!(archive.rename().unwrap(), Renamed::default());
        let checked = archive.check(true).unwrap();
        assert_eq!((checked.tests, checked.damaged.len()), (logs, 0), "version {version}: {checked:?}");
        let anew = Archive::make(&folder.path().join("anew")).unwrap();
        for test in archive.list(&Filter::default(), &[]).unwrap() {
            let log = folder.path().join(&test.source);
            let mut text = Vec::new();
            archive.log(archive.find(&test.id).unwrap()).unwrap().read_to_end(&mut text).unwrap();
            fs::write(&log, text).unwrap();
            assert!(matches!(archive.add(&log, &[]), Ok(AddOutcome::Known(_))), "{}", test.source);
            assert!(matches!(anew.add(&log, &[]), Ok(AddOutcome::New(_))), "{}", test.source);
        }
        let more = write_log(folder.path(), 1, NEW_YEAR, 50);
        for archive in [&archive, &anew] {
            assert!(matches!(archive.add(&more, &[]).unwrap(), AddOutcome::New(_)));
        }
        for (name, period) in PoolPeriod::NAMES {
            let ask = |archive: &Archive| {
                let figure = Scalar::named("pdv-p99").unwrap();
                let mut found = archive.query(&Filter::default(), &[figure], period).unwrap();
                // Tests of earlier versions keep their numbers, which were derived from other checksums.
                found.iter_mut().flat_map(|(_, values)| values).for_each(|value| value.test = None);
                found.sort_by(|(a, _), (b, _)| (&a.src, a.dscp).cmp(&(&b.src, b.dscp)));
                found
            };
            assert_eq!(ask(&archive), ask(&anew), "version {version}, by {name}");
        }
    }
}

/// Tests that an earlier version stored are known and pushed under both names, before and after they get the new one, and no log with
/// either name is stored twice.
#[test]
fn tests_of_earlier_versions_have_both_names() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a");
    copy_of_version(5, &root);
    Archive::migrate(&root).unwrap();
    let archive = Archive::make(&root).unwrap();
    archive.begin_push("far", 1 << 30).unwrap();
    let waiting = archive.to_push("far", 0, 9).unwrap();
    let [test] = &waiting[..] else { panic!("{waiting:?}") };
    assert!(matches!(test.name, LogName::Xxh3(_)) && archive.has(test.name, None).unwrap());
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/compare/1tcp-be.log");
    let name = jitlat_archive::checksum(&log).unwrap();
    assert_eq!(archive.name(test.test).unwrap(), name);
    // A collector that has the log under its new name does not know the earlier one.
    let far = Archive::make(&folder.path().join("far")).unwrap();
    assert!(matches!(far.add(&log, &[]), Ok(AddOutcome::New(_))));
    assert!(far.has(name, None).unwrap() && !far.has(test.name, None).unwrap());
    let known = |archive: &Archive| {
        assert!(matches!(archive.add(&log, &[]), Ok(AddOutcome::Known(known)) if known == test.test));
    };
    known(&archive);
    assert!(!archive.has(name, None).unwrap());
    // Afterwards the test has the new name and the same number, and its log is the same.
    assert_eq!(archive.rename().unwrap(), Renamed { tests: 1, kept: 0 });
    known(&archive);
    for pusher in [None, Some("rome")] {
        assert!(archive.has(name, pusher).unwrap() && archive.has(test.name, pusher).unwrap());
    }
    let again = archive.to_push("far", 0, 9).unwrap();
    assert_eq!((again[0].name, again[0].test), (name, test.test));
    assert_eq!(archive.check(true).unwrap().damaged, []);
    // Doubts have the new name, and a test without packets is known.
    archive.prune(jitlat_archive::Retention::Packets { days: 1 }, WallTime(i64::MAX)).unwrap();
    assert_eq!(archive.push_doubts("far").unwrap(), [(test.number, name)]);
    known(&archive);
    // A crash before the catalogue was written changes neither the test's name nor its number.
    copy_of_version(5, &folder.path().join("b"));
    let b = folder.path().join("b");
    Archive::migrate(&b).unwrap();
    // Another program must not remove rows: their checksums would tell. A catalogue without them has only other rows.
    fs::remove_file(b.join(CATALOGUE)).unwrap();
    let archive = Archive::make(&b).unwrap();
    assert_eq!(archive.recover().unwrap().entered, 1);
    assert!(archive.has(test.name, None).unwrap() && archive.find(&test.test.to_string()).is_ok());
    assert_eq!(archive.check(true).unwrap().damaged, []);
    assert_eq!(archive.rename().unwrap().tests, 1);
    // A test without packets keeps the earlier name.
    copy_of_version(5, &folder.path().join("c"));
    Archive::migrate(&folder.path().join("c")).unwrap();
    let archive = Archive::make(&folder.path().join("c")).unwrap();
    archive.prune(jitlat_archive::Retention::Packets { days: 1 }, WallTime(i64::MAX)).unwrap();
    assert_eq!(archive.rename().unwrap(), Renamed { tests: 0, kept: 1 });
    known(&archive);
}

/// An older program refuses an archive of a newer version, whatever the operation, and changes nothing.
#[test]
fn an_archive_of_a_newer_version_is_refused() {
    let made = made();
    let root = made.folder.path().join("a");
    let (newer, path) = (VERSION + 1, root.join(CATALOGUE));
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "user_version", newer).unwrap();
    db.pragma_update(None, "journal_mode", "DELETE").unwrap();
    drop(db);
    let before = fs::read(&path).unwrap();
    let opened = [Archive::open(&root), Archive::open_to_write(&root), Archive::make(&root)];
    for refused in
        opened.into_iter().map(|opened| opened.map(drop)).chain([Archive::migrate(&root).map(drop)])
    {
        let Err(error @ ArchiveError::TooNew { .. }) = refused else { panic!("a newer version was opened") };
        assert!(error.to_string().contains(&newer.to_string()), "{error}");
    }
    assert!(fs::read(&path).unwrap() == before);
}

//! Publication to a lake: everything once, whatever happens in between.

use crate::common::{DAY, HOUR, NEW_YEAR, known_logs, write_log};
use jitlat_archive::{
    Archive, ArchiveError, Filter, LakeFolder, LakeStore, Manifest, PoolPeriod, PublishedLake, Retention,
    StagingFolder, TestHeader,
};
use jitlat_core::WallTime;
use jitlat_core::pool::Pool;
use jitlat_core::scalars::Scalar;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

fn publish(archive: &Archive, lake: &Path) -> PublishedLake {
    let mut lake = LakeFolder::make(lake).unwrap();
    archive.publish(&mut lake, "net", false, |_, _| true).unwrap()
}

fn manifest(lake: &Path) -> Manifest {
    serde_json::from_slice(&fs::read(lake.join(Manifest::path("net"))).unwrap()).unwrap()
}

/// All files of the tables, as a reader of folders finds them.
fn files(lake: &Path) -> BTreeSet<String> {
    let mut store = LakeFolder::make(lake).unwrap();
    ["packets", "summaries", "rollups"].iter().flat_map(|table| store.list(table).unwrap()).collect()
}

fn reader(path: &Path) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(path).unwrap()).unwrap()
}

/// Numbers of the tests in all summaries, and in all packet files.
fn tests_of(lake: &Path) -> [Vec<String>; 2] {
    let (mut summaries, mut packets) = (Vec::new(), Vec::new());
    for name in files(lake) {
        let reader = reader(&lake.join(&name));
        if name.starts_with("summaries/") {
            let rows = reader.get_row_iter(None).unwrap();
            summaries.extend(rows.map(|row| row.unwrap().get_string(1).unwrap().clone()));
        } else if name.starts_with("packets/") {
            let about = reader.metadata().file_metadata().key_value_metadata().unwrap();
            let value =
                |key: &str| about.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone());
            let headers = TestHeader::of_metadata(value).unwrap();
            packets.extend(headers.iter().map(|header| header.id().to_string()));
            let rows: u64 = headers.iter().map(TestHeader::packets).sum();
            assert_eq!(reader.metadata().file_metadata().num_rows() as u64, rows);
        }
    }
    summaries.sort();
    packets.sort();
    [summaries, packets]
}

/// The merged states of all roll-ups, by the month of their hours: the columns of an hour and of its state.
fn merged(lake: &Path) -> BTreeMap<String, Pool> {
    let mut months: BTreeMap<String, Pool> = BTreeMap::new();
    for name in files(lake).into_iter().filter(|name| name.starts_with("rollups/")) {
        for row in reader(&lake.join(&name)).get_row_iter(None).unwrap() {
            let row = row.unwrap();
            let at = |wanted: &str| row.get_column_iter().position(|(column, _)| column == wanted).unwrap();
            let month = jitlat_archive::utc(row.get_long(at("hour_ns")).unwrap())[..7].to_owned();
            let state = Pool::from_bytes(row.get_bytes(at("state")).unwrap().data()).unwrap();
            assert_eq!(row.get_long(at("sent")).unwrap() as u64, state.sent);
            months.entry(month).or_default().merge(&state);
        }
    }
    months
}

#[test]
fn a_lake_has_every_test_once_and_the_figures_of_the_archive() {
    let folder = tempfile::tempdir().unwrap();
    let (root, lake) = (folder.path().join("net"), folder.path().join("lake"));
    let archive = Archive::make(&root).unwrap();
    let logs = |from: i64, to: i64| -> Vec<PathBuf> {
        (from..to).map(|k| write_log(folder.path(), k, NEW_YEAR + k * 5 * HOUR, 300 + k)).collect()
    };
    let mut expected = BTreeSet::new();
    for (from, to) in [(0, 40), (40, 41), (41, 90)] {
        for log in logs(from, to) {
            archive.add(&log, &[]).unwrap();
        }
        let before = files(&lake);
        let done = publish(&archive, &lake);
        assert_eq!((done.tests, done.packets_of), ((to - from) as u64, (to - from) as u64));
        assert!(files(&lake).is_superset(&before), "published files stay");
        // A second publication changes nothing.
        let text = fs::read(lake.join(Manifest::path("net"))).unwrap();
        let again = publish(&archive, &lake);
        assert_eq!((again.tests, again.files, again.removed), (0, 0, 0));
        assert_eq!(fs::read(lake.join(Manifest::path("net"))).unwrap(), text);
        expected.extend(archive.list(&Filter::default(), &[]).unwrap().into_iter().map(|test| test.id));
        // The archive's own files may change.
        archive.compact().unwrap();
    }
    archive.prune(Retention::Tests { days: 5 }, WallTime(NEW_YEAR + 18 * DAY)).unwrap();
    let known = archive.list(&Filter::default(), &[]).unwrap().len();
    assert!(known < 90, "{known}");
    assert_eq!(publish(&archive, &lake).tests, 0);
    let expected: Vec<String> = expected.into_iter().collect();
    assert_eq!(tests_of(&lake), [expected.clone(), expected]);

    // Published from now on, tests that were removed are in the roll-ups only.
    let late = folder.path().join("late");
    assert_eq!(publish(&archive, &late).tests as usize, known);
    assert_eq!(merged(&late).values().map(|pool| pool.tests).sum::<u64>(), 90);
    assert_eq!(publish(&archive, &late).files, 0);

    for key in ["sent", "loss", "latency-median", "latency-p99.9", "pdv-p99", "ipdv-mean-abs", "latency-max"]
    {
        let figure = Scalar::named(key).unwrap();
        let found = archive.query(&Filter::default(), &[figure], PoolPeriod::Month).unwrap();
        let months = merged(&lake);
        assert_eq!(months.len(), 1);
        for point in found.into_iter().flat_map(|(_, points)| points) {
            let pool = &months[&jitlat_archive::utc(point.start_ns)[..7]];
            assert_eq!((pool.tests, vec![pool.scalar(figure)]), (point.tests, point.values), "{key}");
        }
    }
}

#[test]
fn every_known_log_is_the_same_in_a_lake() {
    let folder = tempfile::tempdir().unwrap();
    let (root, lake) = (folder.path().join("net"), folder.path().join("lake"));
    let archive = Archive::make(&root).unwrap();
    let logs = known_logs();
    let added = logs.iter().filter(|log| archive.add(log, &[]).is_ok()).count();
    let done = publish(&archive, &lake);
    assert_eq!(done.tests as usize, archive.list(&Filter::default(), &[]).unwrap().len());
    assert!(added > 20 && done.unreadable.is_empty());
    let listed = manifest(&lake);
    assert_eq!(listed.files.iter().map(|file| file.path.clone()).collect::<BTreeSet<_>>(), files(&lake));
    for file in &listed.files {
        let bytes = fs::read(lake.join(&file.path)).unwrap();
        assert_eq!(bytes.len() as u64, file.bytes);
        assert_eq!(reader(&lake.join(&file.path)).metadata().file_metadata().num_rows() as u64, file.rows);
    }
}

/// A store that fails, or that is killed, after some operations.
struct Failing {
    lake: LakeFolder,
    left: usize,
}

impl Failing {
    fn step(&mut self) -> io::Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(|| io::Error::other("no longer there"))?;
        Ok(())
    }
}

impl LakeStore for Failing {
    fn lock(&mut self, name: &str) -> io::Result<()> {
        self.lake.lock(name)
    }
    fn staging(&mut self) -> io::Result<StagingFolder> {
        self.lake.staging()
    }
    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.step()?;
        self.lake.read(name)
    }
    fn list(&mut self, folder: &str) -> io::Result<Vec<String>> {
        self.step()?;
        self.lake.list(folder)
    }
    fn put(&mut self, from: &Path, name: &str) -> io::Result<()> {
        self.step()?;
        self.lake.put(from, name)
    }
    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.step()?;
        self.lake.remove(name)
    }
}

#[test]
fn a_publication_that_fails_anywhere_is_completed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("net")).unwrap();
    for k in 0..3 {
        archive.add(&write_log(folder.path(), k, NEW_YEAR + k * 20 * HOUR, 50), &[]).unwrap();
    }
    let whole = folder.path().join("whole");
    publish(&archive, &whole);
    for left in 0.. {
        let lake = folder.path().join(format!("lake{left}"));
        let mut store = Failing { lake: LakeFolder::make(&lake).unwrap(), left };
        let first = archive.publish(&mut store, "net", false, |_, _| true);
        drop(store);
        publish(&archive, &lake);
        assert_eq!(tests_of(&lake), tests_of(&whole), "{left}");
        assert_eq!(files(&lake), manifest(&lake).files.into_iter().map(|file| file.path).collect(), "{left}");
        if first.is_ok() {
            assert!(left > 10, "{left}");
            break;
        }
    }
}

#[test]
fn a_name_belongs_to_one_archive_and_one_publisher() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let of = |name: &str, seed: i64| {
        let archive = Archive::make(&folder.path().join(name)).unwrap();
        archive.add(&write_log(folder.path(), seed, NEW_YEAR, 50), &[]).unwrap();
        archive
    };
    let (one, other) = (of("one", 1), of("other", 2));
    publish(&one, &lake);
    let mut store = LakeFolder::make(&lake).unwrap();
    let error = other.publish(&mut store, "net", false, |_, _| true).unwrap_err();
    assert!(matches!(&error, ArchiveError::Usage(text) if text.contains("--again")), "{error}");
    let mut second = LakeFolder::make(&lake).unwrap();
    let busy = one.publish(&mut second, "net", false, |_, _| true).unwrap_err();
    assert!(busy.to_string().contains("another program"), "{busy}");
    drop(store);
    for bad in ["", "../x", ".hidden", "a/b"] {
        let error = one.publish(&mut second, bad, false, |_, _| true).unwrap_err();
        assert!(error.to_string().contains("name of an archive"), "{error}");
    }
    // Another name, and replacing what is there.
    other.publish(&mut second, "other", false, |_, _| true).unwrap();
    other.publish(&mut second, "net", true, |_, _| true).unwrap();
    assert_eq!(tests_of(&lake)[0].len(), 2);
    assert_eq!(manifest(&lake).files.len(), 3);
}

#[test]
fn a_missing_packet_file_leaves_out_the_packets_of_its_tests_only() {
    let folder = tempfile::tempdir().unwrap();
    let (root, lake) = (folder.path().join("net"), folder.path().join("lake"));
    let archive = Archive::make(&root).unwrap();
    // A file for each day.
    for day in 0..3 {
        archive.add(&write_log(folder.path(), day, NEW_YEAR + day * DAY, 50), &[]).unwrap();
    }
    let (there, away) = (root.join("packets/day=2026-01-02"), folder.path().join("away"));
    fs::rename(&there, &away).unwrap();
    let done = publish(&archive, &lake);
    assert_eq!((done.tests, done.packets_of, done.unreadable.len()), (3, 2, 1));
    let [summaries, packets] = tests_of(&lake);
    assert_eq!((summaries.len(), packets.len()), (3, 2));
    fs::rename(&away, &there).unwrap();
    let mut store = LakeFolder::make(&lake).unwrap();
    assert_eq!(archive.publish(&mut store, "net", true, |_, _| true).unwrap().packets_of, 3);
}

//! Files of somebody else, or of a failing disk: errors, never a panic.

mod common;

use common::{NEW_YEAR, write_log};
use jitlat_archive::{Added, Archive, CATALOGUE, Error, Filter, Period, VERSION};
use jitlat_core::figures::Figure;
use proptest::prelude::*;
use std::fs;
use std::io::Read;
use std::path::PathBuf;

/// Everything that reads an archive, whatever it says.
fn read_all(root: &std::path::Path) {
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
    let _ = archive.query(&Filter::default(), Figure::named("pdv-p99").unwrap(), Period::Day);
    let _ = archive.check(true);
    let _ = archive.compact();
}

/// An archive of one test, its file of packets, and the bytes of both.
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
    let Ok(Added::New(id)) = archive.add(&write_log(folder.path(), 3, NEW_YEAR, 300), &[]) else { panic!() };
    let packets = root.join(format!("packets/day=2026-01-01/{id}.parquet"));
    drop(archive);
    let (parquet, catalogue) = (fs::read(&packets).unwrap(), fs::read(root.join(CATALOGUE)).unwrap());
    Made { folder, packets, parquet, catalogue }
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
        // Known, it is told by its checksum.
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

/// An archive as the first version wrote it stays readable, and takes more.
#[test]
fn an_archive_of_version_1_is_read() {
    let from = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/archive/v1");
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a");
    let packets = "packets/day=2009-07-03";
    fs::create_dir_all(root.join(packets)).unwrap();
    fs::copy(from.join(CATALOGUE), root.join(CATALOGUE)).unwrap();
    let mut files = 0;
    for file in fs::read_dir(from.join(packets)).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), root.join(packets).join(file.file_name())).unwrap();
        files += 1;
    }
    assert_eq!(files, 1);
    assert!(matches!(Archive::open(&root), Err(Error::TooOld { found: 1, .. })));
    assert_eq!(Archive::migrate(&root).unwrap(), 1);
    assert_eq!(Archive::migrate(&root).unwrap(), VERSION);
    let archive = Archive::make(&root).unwrap();
    let checked = archive.check(true).unwrap();
    assert_eq!((checked.tests, checked.damaged.len()), (1, 0), "{checked:?}");
    let log = from.join("../../a_loopback_v1.log");
    let test = &archive.list(&Filter::default(), &[]).unwrap()[0];
    let mut text = Vec::new();
    archive.log(archive.find(&test.id).unwrap()).unwrap().read_to_end(&mut text).unwrap();
    assert!(text == fs::read(&log).unwrap());
    assert!(matches!(archive.add(&log, &[]), Ok(Added::Known(_))));
    assert!(matches!(archive.add(&write_log(folder.path(), 1, NEW_YEAR, 50), &[]), Ok(Added::New(_))));
    let figure = Figure::named("pdv-p99").unwrap();
    assert_eq!(archive.query(&Filter::default(), figure, Period::Day).unwrap().len(), 2);
}

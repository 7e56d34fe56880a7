//! The catalogue is as it was written, or the check says so; and what is damaged can be made again.

use crate::common::{DAY, NEW_YEAR, write_log};
use jitlat_archive::{Archive, CATALOGUE, CATALOGUE_COPY, Filter, PoolPeriod, PreparedTest, Retention};
use jitlat_core::WallTime;
use jitlat_core::scalars::{Scalar, selectors};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Everything that an archive answers, as text.
fn answers(archive: &Archive) -> Result<String, String> {
    let said = |e: jitlat_archive::ArchiveError| e.to_string();
    let figures: Vec<_> = selectors().collect();
    let mut text = String::new();
    for test in archive.list(&Filter::default(), &figures).map_err(said)? {
        let id = archive.find(&test.id).map_err(said)?;
        text += &format!("{test:?}\n{:?}\n", archive.session(id).map_err(said)?);
        if test.has_packets {
            let mut log = String::new();
            archive.log(id).map_err(said)?.read_to_string(&mut log).map_err(|e| e.to_string())?;
            text += &log;
        }
    }
    for figure in ["pdv-p99", "loss", "latency-mean", "mos"] {
        for (_, period) in PoolPeriod::NAMES {
            let figure = Scalar::named(figure).unwrap();
            if let Ok(found) = archive.query(&Filter::default(), &[figure], period) {
                text += &format!("{found:?}\n");
            }
        }
    }
    let totals = archive.totals(None, 100).map_err(said)?;
    text += &format!("{totals:?}\n{:?}\n", archive.newest().map_err(said)?);
    text += &format!(
        "{:?}\n{:?}\n",
        archive.entered_after(0, 100).map_err(said)?,
        archive.alerts(100).map_err(said)?
    );
    text += &format!("{:?}\n{:?}\n", archive.pushes().map_err(said)?, archive.collected().map_err(said)?);
    Ok(text)
}

/// An archive of several days, some of them without packets.
fn made(folder: &Path) -> PathBuf {
    let root = folder.join("a");
    let archive = Archive::make(&root).unwrap();
    for (seed, day) in [(1, 0), (2, 0), (3, 1), (4, 40), (5, 41)] {
        archive
            .add(&write_log(folder, seed, NEW_YEAR + day * DAY, 60), &[("site".into(), "lab".into())])
            .unwrap();
    }
    archive.prune(Retention::Packets { days: 20 }, WallTime(NEW_YEAR + 45 * DAY)).unwrap();
    root
}

fn files(root: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![root.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// One bit of the archive is flipped at a time: the check finds it, or it changes no answer.
#[test]
fn a_flipped_bit_is_found_or_changes_nothing() {
    let flips = if std::env::var_os("JITLAT_FULL").is_some() { 1000 } else { 80 };
    let folder = tempfile::tempdir().unwrap();
    let root = made(folder.path());
    let archive = Archive::open_to_write(&root).unwrap();
    let more = |seed: i64| {
        let text =
            fs::read(write_log(folder.path(), 100 + seed, NEW_YEAR + (40 + seed / 8) * DAY, 60)).unwrap();
        PreparedTest::new(&text, "log", &[("site".into(), seed.to_string())]).unwrap()
    };
    archive.add_all(&mut (0..60).map(more).collect::<Vec<_>>()).unwrap();
    drop(archive);
    let before = answers(&Archive::open(&root).unwrap()).unwrap();
    let checked = Archive::open(&root).unwrap().inspect(true).unwrap();
    assert_eq!((checked.damaged.len(), checked.has_to_repair()), (0, false), "{checked:?}");
    fs::remove_file(root.join(CATALOGUE_COPY)).unwrap();
    let files: Vec<(PathBuf, Vec<u8>)> = files(&root)
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .filter(|(_, bytes)| !bytes.is_empty())
        .collect();
    let bits: u64 = files.iter().map(|(_, bytes)| bytes.len() as u64 * 8).sum();
    let (mut found, mut harmless, mut state) = (0, 0, 0x2545_f491_4f6c_dd1d_u64);
    for flip in 0..flips {
        // xorshift64*: the same flips in every run.
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let mut bit = state.wrapping_mul(0x2545_f491_4f6c_dd1d) % bits;
        let (path, bytes) = files
            .iter()
            .find(|(_, bytes)| {
                let here = bytes.len() as u64 * 8;
                let is_here = bit < here;
                bit -= if is_here { 0 } else { here };
                is_here
            })
            .unwrap();
        let mut changed = bytes.clone();
        changed[(bit / 8) as usize] ^= 1 << (bit % 8);
        fs::write(path, &changed).unwrap();
        let checked = Archive::open(&root).and_then(|archive| archive.inspect(false));
        if checked.as_ref().is_ok_and(|checked| checked.damaged.is_empty() && !checked.has_to_repair()) {
            let after = Archive::open(&root).map_err(|e| e.to_string()).and_then(|archive| answers(&archive));
            assert_eq!(
                after.as_ref(),
                Ok(&before),
                "flip {flip}: bit {bit} of {} was not found",
                path.display()
            );
            harmless += 1;
        } else {
            found += 1;
        }
        fs::write(path, bytes).unwrap();
    }
    println!("{flips} flips: {found} found, {harmless} changed nothing");
    // The others hit unused space, which is half of the files of a small archive.
    assert!(found > flips / 4, "{found} of {flips}");
}

/// A row that another program changed is named by its table, and the check changes nothing on its own.
#[test]
fn rows_that_another_program_changed_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = made(folder.path());
    for (change, named) in [
        ("UPDATE hosts SET address = '192.0.2.99' WHERE address = '192.0.2.1'", "rows of its table hosts"),
        ("UPDATE figures SET \"pdv-p99\" = \"pdv-p99\" + 1", "rows of its table figures"),
        ("DELETE FROM tags WHERE key = 'site'", "rows of its table tags"),
        ("UPDATE rollups SET tests = tests + 1", "rows of its table rollups"),
        ("CREATE TABLE other(x)", "its schema"),
    ] {
        let copy = folder.path().join("copy.sqlite");
        fs::copy(root.join(CATALOGUE), &copy).unwrap();
        let db = rusqlite::Connection::open(root.join(CATALOGUE)).unwrap();
        db.execute_batch(change).unwrap();
        drop(db);
        let checked = Archive::open_to_write(&root).unwrap().check(true).unwrap();
        let problems: Vec<&str> = checked.damaged.iter().map(|finding| finding.problem.as_str()).collect();
        assert!(problems.iter().any(|problem| problem.starts_with(named)), "{change}: {problems:?}");
        assert!(checked.has_damaged_catalogue());
        // A damaged catalogue replaces no copy.
        let error = Archive::open(&root).unwrap().copy_catalogue().unwrap_err().to_string();
        assert!(error.contains("as it was written") || error.contains("as they were written"), "{error}");
        fs::copy(&copy, root.join(CATALOGUE)).unwrap();
    }
    assert_eq!(Archive::open_to_write(&root).unwrap().check(true).unwrap().damaged, []);
}

/// A dry run finds what a check would repair, and leaves it.
#[test]
fn a_dry_run_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = made(folder.path());
    fs::write(root.join("tmp/unfinished.parquet"), "x").unwrap();
    let day = root.join("packets/day=2026-02-10");
    let packets = fs::read_dir(&day).unwrap().next().unwrap().unwrap().path();
    fs::copy(&packets, day.join("again.parquet")).unwrap();
    let before = files(&root);
    let found = Archive::open(&root).unwrap().inspect(true).unwrap();
    assert_eq!((found.unfinished, found.superfluous, found.entered), (1, 1, 0), "{found:?}");
    assert!(found.has_to_repair() && found.damaged.is_empty());
    assert_eq!(files(&root), before);
    let done = Archive::open_to_write(&root).unwrap().check(true).unwrap();
    assert_eq!((done.unfinished, done.superfluous), (1, 1));
    assert!(!Archive::open(&root).unwrap().inspect(true).unwrap().has_to_repair());
}

/// After any loss of the catalogue, its copy and the packets give the same answers again: also those of tests without
/// packets, of tests that were added after the copy, and of files that were merged after it.
#[test]
fn a_lost_catalogue_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = made(folder.path());
    let archive = Archive::open_to_write(&root).unwrap();
    for (seed, day) in [(6, 41), (7, 42)] {
        archive.add(&write_log(folder.path(), seed, NEW_YEAR + day * DAY, 60), &[]).unwrap();
    }
    assert_eq!(archive.compact().unwrap().before, 2);
    let listed = |archive: &Archive| {
        let figures: Vec<_> = selectors().collect();
        let mut list = archive.list(&Filter::default(), &figures).unwrap();
        list.sort_by(|a, b| a.id.cmp(&b.id));
        format!(
            "{list:?} {:?}",
            archive.query(&Filter::default(), &[Scalar::named("pdv-p99").unwrap()], PoolPeriod::Day)
        )
    };
    let before = listed(&archive);
    drop(archive);
    for damage in ["lost", "no database", "flipped"] {
        match damage {
            "lost" => fs::remove_file(root.join(CATALOGUE)).unwrap(),
            "no database" => fs::write(root.join(CATALOGUE), "x".repeat(5000)).unwrap(),
            _ => {
                let db = rusqlite::Connection::open(root.join(CATALOGUE)).unwrap();
                db.execute_batch("UPDATE tests SET severity = 'bad'").unwrap();
            }
        }
        let done = Archive::restore(&root).unwrap();
        // The copy was made before the packets of three tests were pruned.
        assert_eq!((done.from_copy, done.tests, done.without_packets), (Some(5), 7, 3), "{damage}: {done:?}");
        let archive = Archive::open_to_write(&root).unwrap();
        assert_eq!(listed(&archive), before, "{damage}");
        assert_eq!(archive.check(true).unwrap().damaged, [], "{damage}");
        assert_eq!(
            archive.judged().unwrap().unwrap_or(archive.entered().unwrap()),
            archive.entered().unwrap()
        );
    }
    // Without a copy, tests with packets are still there.
    fs::remove_file(root.join(CATALOGUE_COPY)).unwrap();
    fs::remove_file(root.join(CATALOGUE)).unwrap();
    let done = Archive::restore(&root).unwrap();
    assert_eq!((done.from_copy, done.tests), (None, 4), "{done:?}");
}

/// Before packets are pruned, the figures of their tests are in the copy; the copy is made again only when it must be.
#[test]
fn pruning_copies_what_would_be_in_one_place_only() {
    let folder = tempfile::tempdir().unwrap();
    let root = made(folder.path());
    let copy = root.join(CATALOGUE_COPY);
    let archive = Archive::open_to_write(&root).unwrap();
    let first = fs::read(&copy).unwrap();
    let tests = |root: &Path| {
        let db = rusqlite::Connection::open(root.join(CATALOGUE_COPY)).unwrap();
        db.query_row("SELECT count(*) FROM tests", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(tests(&root), 5);
    // The copy has these tests.
    archive.prune(Retention::Packets { days: 4 }, WallTime(NEW_YEAR + 45 * DAY)).unwrap();
    assert!(fs::read(&copy).unwrap() == first);
    archive.add(&write_log(folder.path(), 6, NEW_YEAR + 60 * DAY, 60), &[]).unwrap();
    archive.prune(Retention::Packets { days: 1 }, WallTime(NEW_YEAR + 90 * DAY)).unwrap();
    assert_eq!(tests(&root), 6);
}

/// A backup is an archive with the same answers; the next one copies only what is new.
#[test]
fn a_backup_is_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    let root = made(folder.path());
    let to = folder.path().join("backup");
    let archive = Archive::open_to_write(&root).unwrap();
    let done = archive.back_up(&to).unwrap();
    assert_eq!((done.tests, done.files, done.present), (5, 2, 0));
    assert_eq!(answers(&Archive::open(&to).unwrap()), answers(&archive));
    archive.add(&write_log(folder.path(), 6, NEW_YEAR + 60 * DAY, 60), &[]).unwrap();
    let done = archive.back_up(&to).unwrap();
    assert_eq!((done.tests, done.files, done.present), (6, 1, 2));
    assert_eq!(answers(&Archive::open(&to).unwrap()), answers(&archive));
    assert_eq!(Archive::open_to_write(&to).unwrap().check(true).unwrap().damaged, []);
    assert!(archive.back_up(&root).unwrap_err().to_string().contains("a folder other than"));
}

/// When most of a catalogue is unused after tests were removed, its file becomes smaller.
#[test]
fn the_catalogue_shrinks_after_pruning() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a");
    let archive = Archive::make(&root).unwrap();
    let prepared = |seed: i64| {
        let text = fs::read(write_log(folder.path(), seed, NEW_YEAR + seed * 60_000_000_000, 300)).unwrap();
        PreparedTest::new(&text, "log", &[]).unwrap()
    };
    archive.add_all(&mut (0..300).map(prepared).collect::<Vec<_>>()).unwrap();
    let length = || fs::metadata(root.join(CATALOGUE)).unwrap().len();
    archive.prune(Retention::Packets { days: 1 }, WallTime(NEW_YEAR + 20 * DAY)).unwrap();
    // When the last connection is closed, its log is written to the file.
    drop(archive);
    let before = length();
    let archive = Archive::open_to_write(&root).unwrap();
    let done = archive.prune(Retention::Tests { days: 1 }, WallTime(NEW_YEAR + 20 * DAY)).unwrap();
    assert_eq!(done.tests, 300);
    // An empty catalogue has a page for each table.
    assert!(length() < before / 5 * 3, "{before} {}", length());
    assert!(done.catalogue_bytes >= before - length());
    assert_eq!(archive.check(true).unwrap().damaged, []);
}

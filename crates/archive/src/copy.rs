//! Copies of the catalogue. [`Archive::copy_catalogue`] copies the catalogue within the archive, [`Archive::back_up`]
//! copies the whole archive to another folder, and [`Archive::restore`] rebuilds a damaged catalogue.
//!
//! Packet files contain everything that the catalogue knows about their tests. Figures of tests whose packets were
//! pruned are only in the catalogue, so [`Archive::prune`] first makes a copy that contains them. A damaged catalogue
//! is rebuilt from this copy and the packet files of newer tests.

use crate::catalogue::{self, CATALOGUE, For, VERSION};
use crate::check::{Repair, files_in};
use crate::error::ArchiveError;
use crate::{Archive, Checked, TestId, alerts, lock, sums};
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Name of the copy of the catalogue in an archive.
pub const CATALOGUE_COPY: &str = "catalogue.copy.sqlite";
/// Maximum number of attempts at a backup, which begins again if packet files were merged in the meantime.
const MAX_BACKUPS: usize = 3;
/// Suffixes of the file names of a catalogue: the database, and SQLite's files for its latest changes.
const ENDINGS: [&str; 3] = ["", "-wal", "-shm"];

/// Result of [`Archive::back_up`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BackedUp {
    /// Number of tests in the backup.
    pub tests: u64,
    /// Number of packet files that were copied.
    pub files: u64,
    /// Total size of the copied files, in bytes.
    pub bytes: u64,
    /// Number of packet files that the backup already had.
    pub present: u64,
}

/// Result of [`Archive::restore`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Number of tests from the copy of the catalogue; `None` without a usable copy.
    pub from_copy: Option<u64>,
    /// Reason why the copy of the catalogue cannot be used; `None` if it was used, or if there is none.
    pub unusable: Option<String>,
    /// Tests added from packet files, and files that cannot be read.
    pub from_packets: Checked,
    /// Number of tests in the new catalogue.
    pub tests: u64,
    /// Number of tests that had packets according to the copy, but have none any more.
    pub without_packets: u64,
    /// Path of the previous catalogue; `None` if there was none.
    pub previous: Option<PathBuf>,
}

impl Archive {
    /// Copies the catalogue to `catalogue.copy.sqlite`, compactly, if it is not damaged.
    ///
    /// # Errors
    /// [`ArchiveError`]; an earlier copy then remains.
    pub fn copy_catalogue(&self) -> Result<(), ArchiveError> {
        let _writing = self.lock()?;
        self.copied()
    }

    /// Same as [`Archive::copy_catalogue`], for callers that hold the lock of the archive.
    pub(crate) fn copied(&self) -> Result<(), ArchiveError> {
        self.copy_to(&self.root.join("tmp").join(CATALOGUE_COPY), &self.root.join(CATALOGUE_COPY))
    }

    /// Copies the catalogue to `unfinished`, checks the copy, and renames it to `file`.
    fn copy_to(&self, unfinished: &Path, file: &Path) -> Result<(), ArchiveError> {
        let remove = || match fs::remove_file(unfinished) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        };
        remove().map_err(ArchiveError::io("removing", unfinished))?;
        let made = || {
            let name = unfinished.to_string_lossy();
            self.db.execute("VACUUM INTO ?", [&name]).map_err(self.sql("copying"))?;
            check(unfinished, &self.root)?;
            let io = |source| ArchiveError::io("writing", unfinished)(source);
            File::open(unfinished).and_then(|copy| copy.sync_all()).map_err(io)?;
            fs::rename(unfinished, file).map_err(ArchiveError::io("renaming the copy to", file))
        };
        made().inspect_err(|_| drop(remove()))
    }

    /// True if the copy of the catalogue has every test up to the one with this number in the order of addition.
    pub(crate) fn is_copied(&self, number: i64) -> bool {
        let path = self.root.join(CATALOGUE_COPY);
        let has = || -> rusqlite::Result<bool> {
            let copy = read_only(&path)?;
            Ok(alerts::counter(&copy, alerts::ENTERED)?.unwrap_or(0) >= number)
        };
        has().unwrap_or(false)
    }

    /// Copies the archive to the folder `to`, which is new or an earlier backup, and is an archive afterwards. Packet
    /// files that it already has are not copied again. Writers need not wait for the backup.
    ///
    /// # Errors
    /// [`ArchiveError`]; an earlier backup then keeps its catalogue.
    pub fn back_up(&self, to: &Path) -> Result<BackedUp, ArchiveError> {
        let same = |a: &Path, b: &Path| {
            a.canonicalize().ok().zip(b.canonicalize().ok()).is_some_and(|(a, b)| a == b)
        };
        if same(&self.root, to) {
            return Err(ArchiveError::Usage(
                "the backup must be in a folder other than that of the archive".to_owned(),
            ));
        }
        for folder in ["packets", "tmp"].map(|name| to.join(name)) {
            fs::create_dir_all(&folder).map_err(ArchiveError::io("creating", &folder))?;
        }
        let _writing = lock(to)?;
        let (new, file) = (to.join("tmp").join("catalogue.backup.sqlite"), to.join(CATALOGUE));
        for tries in 1.. {
            let unfinished = to.join("tmp").join(CATALOGUE_COPY);
            self.copy_to(&unfinished, &new)?;
            match self.copy_packets(&new, to) {
                Err(ArchiveError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound && tries < MAX_BACKUPS => {}
                Err(e) => return Err(e),
                Ok(done) => {
                    // The log of an earlier catalogue must not be applied to the new one.
                    for ending in &ENDINGS[1..] {
                        let _ = fs::remove_file(to.join(format!("{CATALOGUE}{ending}")));
                    }
                    fs::rename(&new, &file).map_err(ArchiveError::io("renaming the copy to", &file))?;
                    return Ok(done);
                }
            }
        }
        Ok(BackedUp::default())
    }

    /// Copies the packet files of `catalogue` that `to` does not have.
    fn copy_packets(&self, catalogue: &Path, to: &Path) -> Result<BackedUp, ArchiveError> {
        let mut done = BackedUp::default();
        let list = || -> rusqlite::Result<(u64, Vec<i64>)> {
            let copy = read_only(catalogue)?;
            let tests =
                copy.query_row("SELECT count(*) FROM tests", [], |row| catalogue::unsigned(row, 0))?;
            let mut files = copy.prepare("SELECT id FROM files ORDER BY name")?;
            Ok((tests, files.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?))
        };
        let (tests, files) = list().map_err(self.sql("reading the copy of"))?;
        done.tests = tests;
        for id in files {
            let stored = match self.stored(id) {
                // The file was merged with others after the catalogue was copied.
                Err(ArchiveError::Catalogue { source: rusqlite::Error::QueryReturnedNoRows, .. }) => {
                    let gone = std::io::ErrorKind::NotFound.into();
                    return Err(ArchiveError::io("reading", &self.root.join("packets"))(gone));
                }
                stored => stored?,
            };
            let from = &stored.path;
            let length = from.metadata().map_err(ArchiveError::io("reading", from))?.len();
            let place = to.join(from.strip_prefix(&self.root).unwrap_or(from));
            if place.metadata().is_ok_and(|there| there.len() == length) {
                done.present += 1;
                continue;
            }
            stored.verify()?;
            let unfinished = to.join("tmp").join(place.file_name().unwrap_or_default());
            if let Some(folder) = place.parent() {
                fs::create_dir_all(folder).map_err(ArchiveError::io("creating", folder))?;
            }
            fs::copy(from, &unfinished).map_err(ArchiveError::io("copying", from))?;
            let io = |source| ArchiveError::io("writing", &unfinished)(source);
            File::open(&unfinished).and_then(|copy| copy.sync_all()).map_err(io)?;
            fs::rename(&unfinished, &place).map_err(ArchiveError::io("renaming the copy to", &place))?;
            (done.files, done.bytes) = (done.files + 1, done.bytes + length);
        }
        Ok(done)
    }

    /// Rebuilds the catalogue of the archive in the folder `root`: from its copy if that is not damaged, and from the
    /// packet files for tests that the copy does not have. The previous catalogue is renamed, not removed.
    ///
    /// # Errors
    /// [`ArchiveError::TooNew`] if the catalogue or its copy is of a newer version, and other errors.
    pub fn restore(root: &Path) -> Result<Restored, ArchiveError> {
        let copy = root.join(CATALOGUE_COPY);
        if !root.join(CATALOGUE).exists() && !copy.exists() && files_in(&root.join("packets"))?.is_empty() {
            return Err(ArchiveError::NotAnArchive(root.to_owned()));
        }
        for file in [CATALOGUE, CATALOGUE_COPY] {
            refuse_newer(&root.join(file), root)?;
        }
        let tmp = root.join("tmp");
        fs::create_dir_all(&tmp).map_err(ArchiveError::io("creating", &tmp))?;
        let writing = lock(root)?;
        let mut done = Restored::default();
        let usable = match copy.exists().then(|| check(&copy, root)) {
            None => false,
            Some(Ok(())) => true,
            Some(Err(e)) => {
                done.unusable = Some(e.to_string());
                false
            }
        };
        let new = tmp.join(CATALOGUE);
        if usable {
            fs::copy(&copy, &new).map_err(ArchiveError::io("copying", &copy))?;
            let io = |source| ArchiveError::io("writing", &new)(source);
            File::open(&new).and_then(|copy| copy.sync_all()).map_err(io)?;
        }
        done.previous = set_aside(root)?;
        if usable {
            let file = root.join(CATALOGUE);
            fs::rename(&new, &file).map_err(ArchiveError::io("renaming the copy to", &file))?;
        }
        let db = catalogue::open(root, For::Making)?;
        let archive = Archive { root: root.to_owned(), db, stop: None, members: Vec::new() };
        let tests = archive.extent()?.tests;
        done.from_copy = usable.then_some(tests);
        let lost = archive.forget_missing_files()?;
        done.from_packets = archive.repaired(Repair::OldCatalogue)?;
        for id in lost {
            done.without_packets += u64::from(archive.location(id)?.file.is_none());
        }
        done.tests = archive.extent()?.tests;
        // Tests of the rebuilt catalogue are not judged again.
        archive.transaction(alerts::judge_from_here)?;
        drop(writing);
        Ok(done)
    }

    /// Removes files that do not exist from the catalogue; returns the tests whose packets were in them.
    fn forget_missing_files(&self) -> Result<Vec<TestId>, ArchiveError> {
        let mut lost = Vec::new();
        for file in self.ids("SELECT id FROM files", [])? {
            if self.stored(file).is_ok_and(|stored| stored.path.is_file()) {
                continue;
            }
            lost.extend(self.ids("SELECT id FROM tests WHERE file = ?", [file])?.into_iter().map(TestId));
            self.transaction(|all| {
                all.execute("UPDATE tests SET file = NULL WHERE file = ?", [file])?;
                all.execute("DELETE FROM files WHERE id = ?", [file]).map(drop)
            })?;
        }
        Ok(lost)
    }
}

fn read_only(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    sums::define(&db)?;
    Ok(db)
}

/// Compares a copy of the catalogue of `archive` with its checksums.
fn check(copy: &Path, archive: &Path) -> Result<(), ArchiveError> {
    let problems = read_only(copy).and_then(|db| sums::problems(&db));
    let failed =
        |source| ArchiveError::Catalogue { doing: "checking a copy of", archive: archive.to_owned(), source };
    match problems.map_err(failed)?.first() {
        None => Ok(()),
        Some(problem) => Err(ArchiveError::Impossible(problem.clone())),
    }
}

/// Refuses a catalogue of a newer version, whose tests this program could not keep. One without a readable version is damaged.
fn refuse_newer(file: &Path, archive: &Path) -> Result<(), ArchiveError> {
    let version = |db: Connection| db.query_row("PRAGMA user_version", [], |row| row.get(0));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    match Connection::open_with_flags(file, flags).and_then(version) {
        Ok(found) if found > VERSION => {
            Err(ArchiveError::TooNew { archive: archive.to_owned(), found, known: VERSION })
        }
        _ => Ok(()),
    }
}

/// Renames the catalogue, so that a new one can be made; returns its new path.
fn set_aside(root: &Path) -> Result<Option<PathBuf>, ArchiveError> {
    if !root.join(CATALOGUE).exists() {
        return Ok(None);
    }
    let free = (1..).map(|k| format!("catalogue.damaged-{k}.sqlite")).find(|name| !root.join(name).exists());
    let name = free.unwrap_or_default();
    for ending in ENDINGS {
        let (from, to) = (root.join(format!("{CATALOGUE}{ending}")), root.join(format!("{name}{ending}")));
        match fs::rename(&from, &to) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(ArchiveError::io("renaming", &from)(e));
            }
            _ => {}
        }
    }
    Ok(Some(root.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalogue_of_a_newer_version_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        drop(Archive::make(folder.path()).unwrap());
        let file = folder.path().join(CATALOGUE);
        let set = |version: i64| {
            let db = Connection::open(&file).unwrap();
            db.pragma_update(None, "user_version", version).unwrap();
        };
        set(VERSION + 1);
        let refused = Archive::restore(folder.path());
        assert!(matches!(refused, Err(ArchiveError::TooNew { .. })), "{refused:?}");
        assert!(!folder.path().join("catalogue.damaged-1.sqlite").exists());
        set(VERSION);
        assert_eq!(Archive::restore(folder.path()).unwrap().tests, 0);
    }
}

//! [`Archive::check`]: verifies that all data are unchanged since they were written, and repairs damage left by a
//! crash.

use crate::add::{self, enter_all};
use crate::checksum::{LogNames, sum};
use crate::entry::{CatalogueEntry, LogOrigin};
use crate::error::ArchiveError;
use crate::packets::{StoredFile, StoredTest};
use crate::{Archive, TestId, collected, text};
use jitlat_store::log::LogReader;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A problem found by a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckFinding {
    /// Path of the file, relative to the archive. For a log, the number of the test.
    pub what: String,
    /// Description of the problem.
    pub problem: String,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Checked {
    /// Number of tests in the catalogue.
    pub tests: u64,
    /// Number of packet files.
    pub files: u64,
    /// Total size of the files.
    pub bytes: u64,
    /// Number of removed files that interrupted writers had left unfinished.
    pub unfinished: u64,
    /// Number of files that were removed because all of their tests are stored in other files.
    pub superfluous: u64,
    /// Number of tests in finished files that were missing from the catalogue and were added.
    pub entered: u64,
    /// Problems that could not be repaired.
    pub damaged: Vec<CheckFinding>,
}

impl Archive {
    /// Compares all packets with their checksums. With `logs`, also reassembles each log and compares it with the log
    /// that was added. Removes files that a crash left unfinished, and adds finished files that are missing from the
    /// catalogue.
    ///
    /// # Errors
    /// [`ArchiveError`] if the archive cannot be checked. Damage is not an error; it is listed in [`Checked::damaged`].
    pub fn check(&self, logs: bool) -> Result<Checked, ArchiveError> {
        let _writing = self.lock()?;
        let mut found = Checked::default();
        self.check_catalogue(&mut found)?;
        self.remove_unfinished(&mut found)?;
        let known = self.ids("SELECT id FROM files ORDER BY name", [])?;
        let mut names = BTreeSet::new();
        for id in known {
            let stored = match self.stored(id) {
                Ok(stored) => stored,
                Err(e) => {
                    found
                        .damaged
                        .push(CheckFinding { what: crate::CATALOGUE.to_owned(), problem: e.to_string() });
                    continue;
                }
            };
            found.files += 1;
            found.bytes += stored.path.metadata().map_or(0, |m| m.len());
            if let Err(e) = stored.verify() {
                found.damaged.push(self.finding(&stored.path, &e));
            }
            names.insert(stored.path);
        }
        self.adopt_all(&names, &mut found)?;
        let tests = self.ids("SELECT id FROM tests ORDER BY started_ns, id", [])?;
        found.tests = tests.len() as u64;
        if logs {
            for id in tests.into_iter().map(TestId) {
                match self.check_log(id) {
                    Ok(()) | Err(ArchiveError::Pruned(_)) => {}
                    Err(e) => {
                        found.damaged.push(CheckFinding { what: id.to_string(), problem: e.to_string() });
                    }
                }
            }
        }
        Ok(found)
    }

    /// Repairs damage left by a crash, like [`Archive::check`] without its other checks.
    ///
    /// # Errors
    /// [`ArchiveError`]; a file that cannot be added to the catalogue is listed in [`Checked::damaged`].
    pub fn recover(&self) -> Result<Checked, ArchiveError> {
        let _writing = self.lock()?;
        let mut found = Checked::default();
        self.remove_unfinished(&mut found)?;
        let names: rusqlite::Result<BTreeSet<PathBuf>> =
            self.db.prepare_cached("SELECT name FROM files").and_then(|mut files| {
                files
                    .query_map([], |row| row.get::<_, String>(0))?
                    .map(|name| Ok(self.root.join(name?)))
                    .collect()
            });
        self.adopt_all(&names.map_err(self.sql("reading"))?, &mut found)?;
        Ok(found)
    }

    /// Removes unfinished files of interrupted writers.
    fn remove_unfinished(&self, found: &mut Checked) -> Result<(), ArchiveError> {
        for file in files_in(&self.root.join("tmp"))? {
            fs::remove_file(&file).map_err(ArchiveError::io("removing", &file))?;
            found.unfinished += 1;
        }
        Ok(())
    }

    /// Adds the tests in files that are not in `names` to the catalogue.
    fn adopt_all(&self, names: &BTreeSet<PathBuf>, found: &mut Checked) -> Result<(), ArchiveError> {
        for path in files_in(&self.root.join("packets"))? {
            if names.contains(&path) {
                continue;
            }
            match self.adopt(&path) {
                Ok(0) => found.superfluous += 1,
                Ok(entered) => {
                    found.entered += entered;
                    found.files += 1;
                }
                Err(e) => found.damaged.push(self.finding(&path, &e)),
            }
        }
        Ok(())
    }

    fn finding(&self, path: &Path, error: &ArchiveError) -> CheckFinding {
        let what = path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        let problem = match error {
            ArchiveError::Damaged { problem, .. } => problem.clone(),
            ArchiveError::Io { source, .. } => source.to_string(),
            e => e.to_string(),
        };
        CheckFinding { what, problem }
    }

    fn check_catalogue(&self, found: &mut Checked) -> Result<(), ArchiveError> {
        let run = || {
            let mut check = self.db.prepare("PRAGMA quick_check(10)")?;
            let lines = check.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
            let mut check = self.db.prepare("PRAGMA foreign_key_check")?;
            let table = |row: &rusqlite::Row<'_>| {
                Ok(format!("a row of {} refers to a missing row", row.get::<_, String>(0)?))
            };
            let loose = check.query_map([], table)?.collect::<rusqlite::Result<Vec<String>>>()?;
            Ok(lines.into_iter().filter(|line| line != "ok").chain(loose).collect::<Vec<_>>())
        };
        let problems = run().map_err(self.sql("checking"))?;
        let finding = |problem| CheckFinding { what: crate::CATALOGUE.to_owned(), problem };
        found.damaged.extend(problems.into_iter().map(finding));
        Ok(())
    }

    fn check_log(&self, id: TestId) -> Result<(), ArchiveError> {
        let (hash, bytes): (String, i64) = self
            .db
            .query_row("SELECT hash, log_bytes FROM tests WHERE id = ?", [id.0], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .map_err(self.sql("reading"))?;
        let (names, len) = sum_of(self.log(id)?)?;
        if !names.are(&hash) || len != bytes as u64 {
            return Err(ArchiveError::Impossible(
                "its packets do not reproduce the log that was added".to_owned(),
            ));
        }
        Ok(())
    }

    /// Adds the tests of a finished file that are missing from the catalogue. Removes the file if the catalogue already
    /// has all of its tests. Returns the number of tests added.
    fn adopt(&self, path: &Path) -> Result<u64, ArchiveError> {
        let (stored, tests, len) = StoredFile::inspect(path)?;
        let known = |test: &StoredTest| {
            let query = "SELECT 1 FROM tests WHERE id = ?1 UNION SELECT 1 FROM gone WHERE id = ?1";
            self.ids(query, [test.id]).map(|found| !found.is_empty())
        };
        let mut new = Vec::new();
        for test in tests.tests {
            if !known(&test)? {
                new.push(test);
            }
        }
        if new.is_empty() {
            fs::remove_file(path).map_err(ArchiveError::io("removing", path))?;
            return Ok(0);
        }
        let entries = new
            .into_iter()
            .map(|test| entry_of(&stored, test))
            .collect::<Result<Vec<CatalogueEntry>, ArchiveError>>()?;
        let name = path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned();
        self.transaction(|all| {
            let file = add::file(all, &add::published(&name, len, &stored))?;
            enter_all(all, &entries.iter().map(|entry| (entry, file)).collect::<Vec<_>>())?;
            collected::count_adopted(all, &entries)
        })?;
        Ok(entries.len() as u64)
    }
}

/// Analyses a test of a packet file again. Returns an error if its log differs from the one that was added.
fn entry_of(stored: &StoredFile, test: StoredTest) -> Result<CatalogueEntry, ArchiveError> {
    let rows = || stored.rows(test.id, test.row_group, test.first_row, test.rows);
    let (names, len) = sum_of(text::text(rows()?, test.rest.clone())?)?;
    if !names.are_of(&test.hash, test.id, collected::pusher(&test.tags)) {
        return Err(ArchiveError::Damaged {
            file: stored.path.clone(),
            problem: format!("the packets of test {} do not reproduce its log", TestId(test.id)),
        });
    }
    let reader: LogReader = text::reader(&test.source, rows()?, test.rest.clone())?;
    let origin = LogOrigin { names, bytes: len, source: &test.source, tags: &test.tags };
    let mut entry = CatalogueEntry::of(reader, &origin)?;
    // A test of an earlier version keeps its name.
    (entry.id, entry.hash) = (test.id, test.hash);
    (entry.row_group, entry.first_row) = (test.row_group, test.first_row);
    entry.complete(test.rows, test.rest);
    Ok(entry)
}

/// Returns the names and the size of a log.
pub(crate) fn sum_of(log: Box<dyn Read + Send>) -> Result<(LogNames, u64), ArchiveError> {
    sum(log).map_err(|e| ArchiveError::Impossible(e.to_string()))
}

/// Returns all files below a folder, without following links.
pub(crate) fn files_in(folder: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(ArchiveError::io("reading", &folder)(e)),
        };
        for entry in entries {
            let entry = entry.map_err(ArchiveError::io("reading", &folder))?;
            let kind = entry.file_type().map_err(ArchiveError::io("reading", &folder))?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

//! [`Archive::check`]: verifies that all data are unchanged since they were written, and repairs damage left by a
//! crash. [`Archive::inspect`] does the same without changing anything.

use crate::add::{self, enter_all};
use crate::checksum::{LogNames, sum};
use crate::entry::{CatalogueEntry, LogOrigin};
use crate::error::{ArchiveError, is_damage};
use crate::packets::{StoredFile, StoredTest};
use crate::{Archive, TestId, collected, sums, text};
use jitlat_store::log::LogReader;
use rusqlite::params;
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
    /// True if nothing was changed: what the other fields call removed or added is still to be done.
    pub is_dry_run: bool,
}

impl Checked {
    /// True if the check has something to remove or to add, and did not do it.
    pub fn has_to_repair(&self) -> bool {
        self.is_dry_run && self.unfinished + self.superfluous + self.entered > 0
    }

    /// True if the catalogue is damaged.
    pub fn has_damaged_catalogue(&self) -> bool {
        self.damaged.iter().any(|finding| finding.what == crate::CATALOGUE)
    }
}

/// Changes that a check may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    /// No change.
    Nothing,
    /// Remains of a crash: unfinished files are removed, and finished ones are added to the catalogue.
    Crash,
    /// Same as `Crash`, for a catalogue that was restored from an older copy: tests whose packets have since been moved
    /// to another file also get their packets back.
    OldCatalogue,
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
        self.checked(logs, Repair::Crash)
    }

    /// Does the same as [`Archive::check`], but changes nothing: the archive may be read-only. Files that another program is
    /// writing at this moment are listed as unfinished.
    ///
    /// # Errors
    /// Same as [`Archive::check`].
    pub fn inspect(&self, logs: bool) -> Result<Checked, ArchiveError> {
        self.checked(logs, Repair::Nothing)
    }

    fn checked(&self, logs: bool, repair: Repair) -> Result<Checked, ArchiveError> {
        let mut found = Checked { is_dry_run: repair == Repair::Nothing, ..Checked::default() };
        self.check_catalogue(&mut found)?;
        self.remove_unfinished(repair, &mut found)?;
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
        self.adopt_all(&names, repair, &mut found)?;
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
        self.repaired(Repair::Crash)
    }

    /// Repairs an archive whose lock the caller holds.
    pub(crate) fn repaired(&self, repair: Repair) -> Result<Checked, ArchiveError> {
        let mut found = Checked::default();
        self.remove_unfinished(repair, &mut found)?;
        let names: rusqlite::Result<BTreeSet<PathBuf>> =
            self.db.prepare_cached("SELECT name FROM files").and_then(|mut files| {
                files
                    .query_map([], |row| row.get::<_, String>(0))?
                    .map(|name| Ok(self.root.join(name?)))
                    .collect()
            });
        self.adopt_all(&names.map_err(self.sql("reading"))?, repair, &mut found)?;
        Ok(found)
    }

    /// Removes unfinished files of interrupted writers.
    fn remove_unfinished(&self, repair: Repair, found: &mut Checked) -> Result<(), ArchiveError> {
        for file in files_in(&self.root.join("tmp"))? {
            remove(&file, repair)?;
            found.unfinished += 1;
        }
        Ok(())
    }

    /// Adds the tests in files that are not in `names` to the catalogue.
    fn adopt_all(
        &self,
        names: &BTreeSet<PathBuf>,
        repair: Repair,
        found: &mut Checked,
    ) -> Result<(), ArchiveError> {
        for path in files_in(&self.root.join("packets"))? {
            if names.contains(&path) {
                continue;
            }
            match self.adopt(&path, repair) {
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
        let problems = match sums::problems(&self.db) {
            Err(e) if is_damage(&e) => vec![e.to_string()],
            problems => problems.map_err(self.sql("checking"))?,
        };
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
    /// has all of its tests. Returns the number of tests that were added, or got their packets back.
    fn adopt(&self, path: &Path, repair: Repair) -> Result<u64, ArchiveError> {
        let (stored, tests, len) = StoredFile::inspect(path)?;
        let has = |query: &str, test: &StoredTest| self.ids(query, [test.id]).map(|found| !found.is_empty());
        let (mut new, mut moved) = (Vec::new(), Vec::new());
        for test in tests.tests {
            if !has("SELECT 1 FROM tests WHERE id = ?1 UNION SELECT 1 FROM gone WHERE id = ?1", &test)? {
                new.push(test);
            } else if repair == Repair::OldCatalogue
                && has("SELECT 1 FROM tests WHERE id = ? AND file IS NULL", &test)?
            {
                moved.push(test);
            }
        }
        if new.is_empty() && moved.is_empty() {
            remove(path, repair)?;
            return Ok(0);
        }
        let entries = new
            .into_iter()
            .map(|test| entry_of(&stored, test))
            .collect::<Result<Vec<CatalogueEntry>, ArchiveError>>()?;
        let name = path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned();
        let done = (entries.len() + moved.len()) as u64;
        if repair == Repair::Nothing {
            return Ok(done);
        }
        self.transaction(|all| {
            let file = add::file(all, &add::published(&name, len, &stored))?;
            let mut update =
                all.prepare("UPDATE tests SET file = ?, row_group = ?, first_row = ? WHERE id = ?")?;
            for test in &moved {
                update.execute(params![file, test.row_group as i64, test.first_row as i64, test.id])?;
            }
            enter_all(all, &entries.iter().map(|entry| (entry, file)).collect::<Vec<_>>())?;
            collected::count_adopted(all, &entries)
        })?;
        Ok(done)
    }
}

/// Removes a file, unless nothing may be changed.
fn remove(file: &Path, repair: Repair) -> Result<(), ArchiveError> {
    match repair {
        Repair::Nothing => Ok(()),
        _ => fs::remove_file(file).map_err(ArchiveError::io("removing", file)),
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
    files.sort_unstable();
    Ok(files)
}

//! [`Archive::rename`]: renames tests that an earlier version stored, from the XXH3-128 to the SHA-256 of their logs.

use crate::checksum::LogName;
use crate::error::ArchiveError;
use crate::{Archive, TestId};
use rusqlite::params;
use serde::Serialize;

/// Number of tests that are renamed in one transaction.
const BATCH: usize = 256;

/// Result of [`Archive::rename`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Renamed {
    /// Number of tests that have a new name.
    pub tests: u64,
    /// Number of tests that keep their earlier name, because their packets were removed or are damaged.
    pub kept: u64,
}

impl Archive {
    /// Renames each test that is named by the XXH3-128 of its log: its new name is the SHA-256, computed from its
    /// packets. Its number stays the same, and its log is still recognised by the earlier name. Can be interrupted at
    /// any time and continued later.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn rename(&self) -> Result<Renamed, ArchiveError> {
        let _writing = self.lock()?;
        let mut done = Renamed::default();
        let old = self.ids("SELECT id FROM tests WHERE length(hash) = 32 ORDER BY id", [])?;
        for ids in old.chunks(BATCH) {
            let mut names: Vec<(i64, LogName, LogName)> = Vec::new();
            for id in ids {
                match self.names(TestId(*id)) {
                    Ok(Some((name, earlier))) => names.push((*id, name, earlier)),
                    Ok(None) | Err(ArchiveError::Pruned(_) | ArchiveError::Damaged { .. }) => done.kept += 1,
                    Err(e) => return Err(e),
                }
            }
            self.transaction(|all| {
                let mut update = all.prepare_cached("UPDATE tests SET hash = ? WHERE id = ?")?;
                let mut insert =
                    all.prepare_cached("INSERT OR IGNORE INTO renamed(id, hash, earlier) VALUES (?, ?, ?)")?;
                for (id, name, earlier) in &names {
                    update.execute(params![name.to_string(), id])?;
                    insert.execute(params![id, name.to_string(), earlier.to_string()])?;
                }
                Ok(())
            })?;
            done.tests += names.len() as u64;
        }
        Ok(done)
    }

    /// Returns both names of a test's log, as computed from its packets; `None` if they do not reproduce the log that was added.
    fn names(&self, id: TestId) -> Result<Option<(LogName, LogName)>, ArchiveError> {
        let query = "SELECT hash FROM tests WHERE id = ?";
        let hash: String = self.db.query_row(query, [id.0], |row| row.get(0)).map_err(self.sql("reading"))?;
        let (names, _) = crate::check::sum_of(self.log(id)?)?;
        Ok((names.earlier.to_string() == hash).then_some((names.name, names.earlier)))
    }
}

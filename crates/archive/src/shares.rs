//! Retention by size: what is removed first when the packets take more space than allowed.
//!
//! Each host that pushes tests to this archive has a share, and so has this host. A host that uses less than its share leaves the rest
//! to the others. Excess packets are removed from the hosts that use most, beginning with their oldest packets, so that no host can
//! displace the packets of another by pushing more.

use crate::catalogue::unsigned;
use crate::error::ArchiveError;
use crate::tidy::{Compacted, DATED, Pruned, SmallFile};
use crate::{Archive, pushes};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet};

/// Tests of a host in a file.
#[derive(Clone, Debug, PartialEq)]
struct Portion {
    file: i64,
    /// Host that pushed the tests; `None`: this host.
    pusher: Option<String>,
    /// Share of the tests in the size of the file, in bytes.
    bytes: f64,
    /// Time from which the age of the newest test is counted, ns since 1970.
    newest: i64,
}

/// Returns the portions of all files.
fn portions(db: &Connection) -> rusqlite::Result<Vec<Portion>> {
    let query = format!(
        "SELECT t.file, g.value, sum(max(t.packets, 1)), max({DATED}), f.bytes FROM tests t JOIN files f ON f.id = t.file \
         LEFT JOIN tags g ON g.test = t.number AND g.key = 'collected-from' GROUP BY t.file, g.value"
    );
    let mut all = db.prepare(&query)?;
    let mut rows_of: BTreeMap<i64, f64> = BTreeMap::new();
    let take = |row: &rusqlite::Row<'_>| {
        Ok((
            Portion { file: row.get(0)?, pusher: row.get(1)?, bytes: row.get(2)?, newest: row.get(3)? },
            unsigned(row, 4)? as f64,
        ))
    };
    let mut found: Vec<(Portion, f64)> = all.query_map([], take)?.collect::<rusqlite::Result<_>>()?;
    for (portion, _) in &found {
        *rows_of.entry(portion.file).or_default() += portion.bytes;
    }
    for (portion, file) in &mut found {
        portion.bytes *= *file / rows_of[&portion.file];
    }
    Ok(found.into_iter().map(|(portion, _)| portion).collect())
}

/// Returns the maximum size per host, in bytes, so that all of `used` together take at most `most`: hosts that use less
/// keep everything.
fn level(mut used: Vec<f64>, most: f64) -> f64 {
    used.sort_unstable_by(f64::total_cmp);
    let mut left = most;
    for (k, size) in used.iter().enumerate() {
        let share = left / (used.len() - k) as f64;
        if *size > share {
            return share;
        }
        left -= size;
    }
    f64::INFINITY
}

/// Returns the portions to remove so that the rest takes at most `most` bytes.
fn beyond(mut all: Vec<Portion>, most: u64) -> Vec<Portion> {
    let mut used: BTreeMap<Option<String>, f64> = BTreeMap::new();
    for portion in &all {
        *used.entry(portion.pusher.clone()).or_default() += portion.bytes;
    }
    let level = level(used.values().copied().collect(), most as f64);
    all.sort_by_key(|portion| (portion.newest, portion.file));
    all.retain(|portion| {
        let of_host = used.entry(portion.pusher.clone()).or_default();
        let is_too_much = *of_host > level;
        if is_too_much {
            *of_host -= portion.bytes;
        }
        is_too_much
    });
    all
}

/// Returns the total size of the packet files in bytes.
fn total(db: &Connection) -> rusqlite::Result<u64> {
    db.query_row("SELECT coalesce(sum(bytes), 0) FROM files", [], |row| unsigned(row, 0))
}

impl Archive {
    /// Removes packets until the rest takes at most `most` bytes. The archive must be locked.
    pub(crate) fn prune_to_size(&self, most: u64) -> Result<Pruned, ArchiveError> {
        let mut done = Pruned::default();
        let before = total(&self.db).map_err(self.sql("reading"))?;
        if before <= most {
            return Ok(done);
        }
        // A crash may have left packets that no test has any more.
        self.drop_unused(&mut done)?;
        let to_remove = |db: &Connection| -> rusqlite::Result<Vec<Portion>> {
            Ok(if total(db)? > most { beyond(portions(db)?, most) } else { Vec::new() })
        };
        let old = to_remove(&self.db).map_err(self.sql("reading"))?;
        self.copy_before_pruning(old.iter().map(|portion| portion.file), &mut done)?;
        self.transaction(|all| {
            let gone = to_remove(all)?;
            let own: BTreeSet<i64> =
                gone.iter().filter(|portion| portion.pusher.is_none()).map(|portion| portion.file).collect();
            done.waited = pushes::count_dropped(all, &own.into_iter().collect::<Vec<_>>())?;
            let remove = "UPDATE tests SET file = NULL WHERE file = ?1 AND \
                          (SELECT value FROM tags WHERE test = number AND key = 'collected-from') IS ?2";
            let mut remove = all.prepare(remove)?;
            for portion in &gone {
                done.packets_of += remove.execute(params![portion.file, portion.pusher])? as u64;
            }
            Ok(())
        })?;
        self.drop_unused(&mut done)?;
        done.bytes = before.saturating_sub(total(&self.db).map_err(self.sql("reading"))?);
        self.after_pruning(&mut done);
        Ok(done)
    }

    /// Returns what [`Archive::prune_to_size`] would remove. Sizes are estimated from the numbers of packets.
    pub(crate) fn prunable_to_size(&self, most: u64) -> Result<Pruned, ArchiveError> {
        let run = || {
            let moment = self.db.unchecked_transaction()?;
            let all = portions(&moment)?;
            if total(&moment)? <= most {
                return Ok(Pruned::default());
            }
            let mut left: BTreeMap<i64, usize> = BTreeMap::new();
            all.iter().for_each(|portion| *left.entry(portion.file).or_default() += 1);
            let gone = beyond(all, most);
            let own: BTreeSet<i64> =
                gone.iter().filter(|portion| portion.pusher.is_none()).map(|portion| portion.file).collect();
            let waiting = pushes::waiting_in(&moment, &own.into_iter().collect::<Vec<_>>())?;
            let mut done = Pruned {
                waited: waiting.iter().map(|(.., numbers)| numbers.len() as u64).sum(),
                bytes: gone.iter().map(|portion| portion.bytes).sum::<f64>().round() as u64,
                ..Pruned::default()
            };
            let count = "SELECT count(*) FROM tests WHERE file = ?1 AND \
                         (SELECT value FROM tags WHERE test = number AND key = 'collected-from') IS ?2";
            let mut count = moment.prepare(count)?;
            for portion in &gone {
                done.packets_of +=
                    count.query_row(params![portion.file, portion.pusher], |row| unsigned(row, 0))?;
                left.entry(portion.file).and_modify(|portions| *portions -= 1);
            }
            done.files = left.values().filter(|portions| **portions == 0).count() as u64;
            Ok(done)
        };
        run().map_err(self.sql("reading"))
    }

    /// Removes files without tests, and writes files again that have packets of tests which were removed.
    fn drop_unused(&self, done: &mut Pruned) -> Result<(), ArchiveError> {
        let query = "SELECT id, name, bytes, (SELECT coalesce(sum(packets), 0) FROM tests WHERE file = f.id), \
                     (SELECT count(*) FROM tests WHERE file = f.id) FROM files f \
                     WHERE (SELECT coalesce(sum(packets), 0) FROM tests WHERE file = f.id) \
                     < (SELECT coalesce(sum(rows), 0) FROM row_groups WHERE file = f.id) \
                     OR NOT EXISTS (SELECT 1 FROM tests WHERE file = f.id)";
        let take = |row: &rusqlite::Row<'_>| Ok((SmallFile::read(row)?, unsigned(row, 4)?));
        let run = || self.db.prepare(query)?.query_map([], take)?.collect();
        let found: rusqlite::Result<Vec<(SmallFile, u64)>> = run();
        for (file, tests) in found.map_err(self.sql("reading"))? {
            if tests > 0 {
                self.write_again(&[&file], &mut Compacted::default())?;
                continue;
            }
            self.transaction(|all| all.execute("DELETE FROM files WHERE id = ?", [file.id]).map(drop))?;
            self.remove_file(&file.name)?;
            done.files += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portion(file: i64, pusher: &str, bytes: f64) -> Portion {
        let pusher = (!pusher.is_empty()).then(|| pusher.to_owned());
        Portion { file, pusher, bytes, newest: file }
    }

    #[test]
    fn what_is_too_much_is_taken_from_those_that_use_most_and_the_oldest_first() {
        // Evil fills the archive; the others keep everything, although their packets are the oldest.
        let all = [
            portion(1, "", 10.0),
            portion(1, "berlin", 10.0),
            portion(2, "evil", 60.0),
            portion(3, "evil", 30.0),
            portion(4, "evil", 30.0),
        ];
        assert_eq!(beyond(all.to_vec(), 100), [all[2].clone()]);
        assert_eq!(beyond(all.to_vec(), 79), [all[2].clone(), all[3].clone()]);
        assert!(beyond(all.to_vec(), 140).is_empty());
        // Hosts that use the same lose the same; a single host keeps its newest packets.
        let all: Vec<Portion> = (0..10).flat_map(|k| [portion(k, "a", 1.0), portion(k, "b", 1.0)]).collect();
        assert_eq!(beyond(all.clone(), 10), all[..10]);
        let all: Vec<Portion> = (0..10).map(|k| portion(k, "", 1.0)).collect();
        assert_eq!(beyond(all.clone(), 4), all[..6]);
        assert_eq!(beyond(all.clone(), 0), all);
        assert!(beyond(Vec::new(), 0).is_empty());
    }
}

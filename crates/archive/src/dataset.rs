//! [`analyse`]: analyses the packets of many tests again, in parallel.
//!
//! Tests in the same row group are read in the order of its rows, so that the row group is opened only once. The
//! largest pieces of work are distributed first: otherwise one thread might start a long test when the others have
//! finished.

use crate::error::ArchiveError;
use crate::packets::TestRows;
use crate::rows::{PacketLocation, StoredPackets};
use crate::{Archive, TestId};
use jitlat_core::analysis::Samples;
use jitlat_core::pool::Pool;
use jitlat_core::summary::Summary;
use jitlat_core::{Analyzer, Options};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Result of [`analyse`].
#[derive(Debug)]
pub struct AnalysedGroups<K> {
    /// Pools by key. Each pool contains all packets of the tests with this key.
    pub groups: BTreeMap<K, Pool>,
    /// Tests that could not be read. They are not in any pool.
    pub failed: Vec<(TestId, ArchiveError)>,
}

impl<K: Ord> AnalysedGroups<K> {
    fn merge(&mut self, other: AnalysedGroups<K>) {
        for (key, pool) in other.groups {
            match self.groups.entry(key) {
                std::collections::btree_map::Entry::Occupied(mut mine) => mine.get_mut().merge(&pool),
                std::collections::btree_map::Entry::Vacant(none) => drop(none.insert(pool)),
            }
        }
        self.failed.extend(other.failed);
    }
}

/// Tests whose packets begin in the same row group, in the order of their first rows.
struct RowGroupTests<'a, K> {
    tests: Vec<(TestId, PacketLocation, &'a K)>,
}

impl<K> RowGroupTests<'_, K> {
    fn packets(&self) -> u64 {
        self.tests.iter().map(|(_, location, _)| location.rows).sum()
    }
}

/// Analyses the packets of `tests` again, on `jobs` threads, and pools tests with the same key. `root` is the folder of
/// the archive.
///
/// # Errors
/// [`ArchiveError`] if the archive cannot be read. The error of a single test is part of the result.
pub fn analyse<K>(
    root: &Path,
    tests: &[(TestId, K)],
    jobs: usize,
    options: &Options,
) -> Result<AnalysedGroups<K>, ArchiveError>
where
    K: Ord + Clone + Send + Sync,
{
    let archive = Archive::open(root)?;
    let (units, failed) = units(&archive, tests);
    let (next, all) = (AtomicUsize::new(0), Mutex::new(AnalysedGroups { groups: BTreeMap::new(), failed }));
    let work = || -> Result<(), ArchiveError> {
        let archive = Archive::open(root)?;
        // Each thread has its own pools, so that no thread waits for another. A pool takes several hundred kilobytes.
        let mut mine = AnalysedGroups { groups: BTreeMap::new(), failed: Vec::new() };
        while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
            archive.analyse_unit(unit, options, &mut mine);
        }
        all.lock().unwrap_or_else(PoisonError::into_inner).merge(mine);
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.clamp(1, units.len().max(1))).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| match worker.join() {
            Ok(ended) => ended,
            Err(_) => Err(ArchiveError::Impossible("a thread ended early".to_owned())),
        });
        ended.collect::<Result<(), ArchiveError>>()
    })?;
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.failed.sort_by_key(|(id, _)| *id);
    Ok(all)
}

/// Returns the pieces of work, largest first, and the tests that cannot be analysed.
fn units<'a, K>(
    archive: &Archive,
    tests: &'a [(TestId, K)],
) -> (Vec<RowGroupTests<'a, K>>, Vec<(TestId, ArchiveError)>) {
    let (mut locations, mut failed) = (Vec::new(), Vec::new());
    for (id, key) in tests {
        match archive.location(*id) {
            Ok(location) => locations.push((*id, location, key)),
            Err(e) => failed.push((*id, e)),
        }
    }
    locations.sort_by_key(|(_, location, _)| (location.file, location.row_group, location.first_row));
    let mut units: Vec<RowGroupTests<'a, K>> = Vec::new();
    for test in locations {
        let begins = |location: &PacketLocation| (location.file, location.row_group);
        match units.last_mut().filter(|unit| begins(&unit.tests[0].1) == begins(&test.1)) {
            Some(unit) => unit.tests.push(test),
            None => units.push(RowGroupTests { tests: vec![test] }),
        }
    }
    units.sort_by_key(|unit| std::cmp::Reverse(unit.packets()));
    (units, failed)
}

impl Archive {
    /// Analyses the packets of a test again. Other lines of the log are ignored.
    ///
    /// # Errors
    /// Same as [`Archive::packets`].
    pub fn analyse(&self, id: TestId, options: &Options) -> Result<(Summary, Samples), ArchiveError> {
        let mut packets = self.packets(id)?;
        self.analysed(id, &mut packets, options)
    }

    fn analysed(
        &self,
        id: TestId,
        packets: &mut StoredPackets,
        options: &Options,
    ) -> Result<(Summary, Samples), ArchiveError> {
        let session = self.session(id)?;
        let mut analyzer = Analyzer::new(&session, options);
        while packets.next(|records| analyzer.push_all(records))? {}
        Ok(analyzer.finish_with_samples(&session))
    }

    fn analyse_unit<K: Ord + Clone>(
        &self,
        unit: &RowGroupTests<'_, K>,
        options: &Options,
        found: &mut AnalysedGroups<K>,
    ) {
        let mut rows: Option<TestRows> = None;
        for (id, location, key) in &unit.tests {
            let moved = rows.take().and_then(|rows| {
                rows.go_to(id.0, location.row_group, location.first_row, location.rows).ok()
            });
            // The file is opened for its first test, after an error, and after the packets were moved to another file.
            let packets = match moved {
                Some(rows) => Ok(StoredPackets { rows }),
                None => self.packets(*id),
            };
            let analysed = packets.and_then(|mut packets| {
                let (summary, samples) = self.analysed(*id, &mut packets, options)?;
                rows = Some(packets.rows);
                Ok(Pool::of(&summary, &samples))
            });
            match analysed {
                Ok(pool) => match found.groups.get_mut(*key) {
                    Some(group) => group.merge(&pool),
                    None => drop(found.groups.insert((*key).clone(), pool)),
                },
                Err(e) => found.failed.push((*id, e)),
            }
        }
    }
}

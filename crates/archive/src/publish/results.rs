//! [`ArchivedResult`]: the result of a test as other systems receive it, without its packets.

use super::{CataloguedTest, PublishedThrough, indexed};
use crate::alerts::{ENTERED, counter};
use crate::error::ArchiveError;
use crate::{Archive, PooledStream, TestId};
use jitlat_core::scalars::selectors;
use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;
use std::collections::BTreeMap;

/// Result of a test: a line of `jitlat archive stream`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArchivedResult {
    /// SHA-256 of the test's log: the same wherever and however often the result is sent.
    pub hash: String,
    /// Number of the test, 16 hexadecimal digits.
    pub id: String,
    /// Number of the test in the order in which tests were added to the archive.
    pub entered: i64,
    /// Start time, ns since 1970.
    pub started_ns: i64,
    /// The stream of the test.
    #[serde(flatten)]
    pub stream: PooledStream,
    /// Name given by the user; null without one.
    pub name: Option<String>,
    /// Name that the log had when it was added.
    pub source: String,
    /// Severity of the verdict: `good`, `fair`, `poor`, `bad` or `unknown`.
    pub severity: String,
    /// Headline of the verdict, on one line.
    pub headline: String,
    /// Tags of the test.
    pub tags: BTreeMap<String, String>,
    /// Defined figures by key, in their own units: times in ns, ratios from 0 to 1.
    pub figures: BTreeMap<String, f64>,
}

impl Archive {
    /// Returns at most `most` results of tests that were added after test `number` (-1 for all), in the order of addition.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn results_after(&self, number: i64, most: usize) -> Result<Vec<ArchivedResult>, ArchiveError> {
        let keys: Vec<String> = selectors().map(|s| s.to_string()).collect();
        let tests = self.tests_after(number, i64::MAX, &keys, most)?;
        tests.into_iter().map(|test| self.result(test, &keys)).collect()
    }

    fn result(&self, test: CataloguedTest, keys: &[String]) -> Result<ArchivedResult, ArchiveError> {
        let figures = keys.iter().zip(test.figures);
        Ok(ArchivedResult {
            tags: self.tags_of(test.id)?,
            hash: test.hash,
            id: test.id.to_string(),
            entered: test.entered,
            started_ns: test.started_ns,
            stream: test.stream,
            name: test.name,
            source: test.source,
            severity: test.severity,
            headline: test.headline,
            figures: figures.filter_map(|(key, value)| Some((key.clone(), value?))).collect(),
        })
    }

    /// Returns true if `through` is a test of this archive that was, or may have been, added as that number. It is false
    /// for another archive, and after the catalogue was rebuilt, because that numbers tests again from 1.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn has_entered(&self, through: &PublishedThrough) -> Result<bool, ArchiveError> {
        let PublishedThrough { entered, test } = through;
        let query = "SELECT id FROM tests WHERE entered = ?1 AND (entered > 0 OR id = ?2)";
        let id = i64::from_str_radix(test, 16).unwrap_or(-1);
        let take = |row: &Row<'_>| row.get(0).map(TestId);
        let found = self.db.query_row(query, params![entered, id], take).optional();
        let found = found.map_err(self.sql("reading"))?;
        let newest = counter(&self.db, ENTERED).map_err(self.sql("reading"))?.unwrap_or(0);
        // The test may have been pruned.
        Ok(*entered <= newest && found.is_none_or(|found| found.to_string() == *test))
    }

    /// Returns the test that was added last; `None` if there is none, or only tests of early versions, which have no number of addition.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn newest_entered(&self) -> Result<Option<PublishedThrough>, ArchiveError> {
        let query = format!(
            "SELECT entered, id FROM tests WHERE entered > ?1{} ORDER BY entered DESC, number DESC LIMIT 1",
            indexed(0)
        );
        let take = |row: &Row<'_>| {
            Ok(PublishedThrough { entered: row.get(0)?, test: TestId(row.get(1)?).to_string() })
        };
        self.db.query_row(&query, [0], take).optional().map_err(self.sql("reading"))
    }
}

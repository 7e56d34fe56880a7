//! [`Archive::slots`]: counts of the outcomes of a monitor's slots.

use crate::Archive;
use crate::alerts::count;
use crate::error::ArchiveError;
use rusqlite::Row;

/// Prefix of the names of slot counters in the catalogue.
const PREFIX: &str = "slot\t";

/// Key of a count of slots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotFilter {
    /// Name of the test.
    pub test: String,
    /// Host that starts the test.
    pub client: String,
    /// Host that answers the test.
    pub server: String,
    /// Outcome of the slot: `measured`, `unreachable`, `this host was late` …
    pub ending: String,
}

impl Archive {
    /// Counts slots that have ended.
    ///
    /// # Errors
    /// [`ArchiveError`]; no slot is then counted.
    pub fn count_slots(&self, ended: &[(SlotFilter, u64)]) -> Result<(), ArchiveError> {
        self.transaction(|all| {
            ended.iter().try_for_each(|(slots, n)| {
                let SlotFilter { test, client, server, ending } = slots;
                let name = format!("{PREFIX}{test}\t{client}\t{server}\t{ending}");
                count(all, &name, i64::try_from(*n).unwrap_or(i64::MAX)).map(drop)
            })
        })
    }

    /// Returns the total number of ended slots per key.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn slots(&self) -> Result<Vec<(SlotFilter, u64)>, ArchiveError> {
        if self.is_united() {
            return self.united_slots();
        }
        let run = || {
            let query = "SELECT name, value FROM counters WHERE substr(name, 1, 5) = ?";
            let mut counters = self.db.prepare_cached(query)?;
            let take = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, crate::catalogue::unsigned(row, 1)?));
            counters.query_map([PREFIX], take)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        let slots = |(name, n): (String, u64)| {
            let mut parts = name.split('\t').skip(1).map(str::to_owned);
            let mut next = || parts.next();
            Some((SlotFilter { test: next()?, client: next()?, server: next()?, ending: next()? }, n))
        };
        Ok(run().map_err(self.sql("reading"))?.into_iter().filter_map(slots).collect())
    }
}

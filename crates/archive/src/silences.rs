//! [`Silence`]: a period in which no message about certain alerts is sent. The alerts are recorded as always; those
//! that still fire at the end of the silence are notified then.

use crate::Archive;
use crate::alerts::AlertAbout;
use crate::error::ArchiveError;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::Serialize;

/// A period in which no message about certain alerts is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Silence {
    /// Number of the silence in this archive.
    pub id: i64,
    /// Name of the rule; null for all rules.
    pub alert: Option<String>,
    /// Name of the test; null for all tests.
    pub test: Option<String>,
    /// Host at an end of the path, or that the alert is about; null for all hosts.
    pub host: Option<String>,
    /// Site of such a host, or that the alert is about; null for all sites.
    pub site: Option<String>,
    /// Start, ns since 1970.
    pub from_ns: i64,
    /// End, ns since 1970.
    pub until_ns: i64,
    /// Name of the person who made it.
    pub author: String,
    /// Reason.
    pub note: String,
}

/// Maximum number of silences that are retained after their end.
const MAX_ENDED: i64 = 1000;

/// SQL condition that is true if the silence `s` covers the alert `a`.
const COVERS: &str = "(s.alert IS NULL OR s.alert = a.alert) AND (s.test IS NULL OR s.test = a.test) \
    AND (s.host IS NULL OR (s.host IN (a.src, a.dst) AND a.scope <> 'site')) \
    AND (s.site IS NULL OR (a.scope = 'site' AND a.src = s.site) OR (a.scope <> 'site' AND EXISTS \
        (SELECT 1 FROM host_labels l WHERE l.host IN (a.src, a.dst) AND l.name = 'site' AND l.value = s.site)))";

/// Returns the number and the end (ns since 1970) of the silence that covers an alert at the time `at_ns`; if several
/// do, of the one that ends last. `None` if none does.
pub(crate) fn covering(
    all: &Transaction<'_>,
    about: &AlertAbout,
    at_ns: i64,
) -> rusqlite::Result<Option<(i64, i64)>> {
    let query = format!(
        "WITH a(alert, scope, test, src, dst) AS (VALUES (?1, ?2, ?3, ?4, ?5)) \
         SELECT s.id, s.until_ns FROM silences s, a WHERE s.from_ns <= ?6 AND s.until_ns > ?6 AND {COVERS} \
         ORDER BY s.until_ns DESC LIMIT 1"
    );
    let AlertAbout { alert, scope, test, src, dst } = about;
    let found = params![alert, scope, test, src, dst, at_ns];
    all.prepare_cached(&query)?.query_row(found, |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

impl Archive {
    /// Returns the silences, those that end last first; at most `most`.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn silences(&self, most: usize) -> Result<Vec<Silence>, ArchiveError> {
        if self.is_united() {
            return self.all_of(|member| member.silences(most));
        }
        let run = || {
            let query = "SELECT id, alert, test, host, site, from_ns, until_ns, author, note FROM silences \
                         ORDER BY until_ns DESC, id DESC LIMIT ?";
            let take = |row: &Row<'_>| {
                Ok(Silence {
                    id: row.get(0)?,
                    alert: row.get(1)?,
                    test: row.get(2)?,
                    host: row.get(3)?,
                    site: row.get(4)?,
                    from_ns: row.get(5)?,
                    until_ns: row.get(6)?,
                    author: row.get(7)?,
                    note: row.get(8)?,
                })
            };
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let mut list = self.db.prepare_cached(query)?;
            list.query_map([most], take)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        run().map_err(self.sql("reading"))
    }

    /// Adds a silence, and returns its number; `id` of `silence` is ignored. Messages about alerts that it covers, and that were not
    /// sent yet, are held if it has begun.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn add_silence(&self, silence: &Silence) -> Result<i64, ArchiveError> {
        let Silence { alert, test, host, site, from_ns, until_ns, author, note, .. } = silence;
        self.transaction(|all| {
            let insert = "INSERT INTO silences(alert, test, host, site, from_ns, until_ns, author, note) \
                          VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
            all.execute(insert, params![alert, test, host, site, from_ns, until_ns, author, note])?;
            let id = all.last_insert_rowid();
            let hold = format!(
                "UPDATE alert_messages SET held_ns = ?2, silence = ?1 WHERE resolved = 0 AND held_ns < ?2 AND alert IN \
                 (SELECT a.id FROM alerts a, silences s WHERE s.id = ?1 AND a.resolved_ns IS NULL AND {COVERS})"
            );
            if *from_ns <= crate::add::now() {
                all.execute(&hold, [id, *until_ns])?;
            }
            let delete = "DELETE FROM silences WHERE until_ns < ?1 AND id <= (SELECT max(id) FROM silences) - ?2";
            all.execute(delete, [*from_ns, MAX_ENDED])?;
            Ok(id)
        })
    }

    /// Ends a silence: messages that it holds are sent. Returns false if there is no such silence, or if it is over.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn end_silence(&self, id: i64, now_ns: i64) -> Result<bool, ArchiveError> {
        self.transaction(|all| {
            let end = "UPDATE silences SET until_ns = max(from_ns, ?2) WHERE id = ?1 AND until_ns > ?2";
            let ended = all.execute(end, [id, now_ns])? > 0;
            let release = "UPDATE alert_messages SET held_ns = min(held_ns, ?2) WHERE silence = ?1";
            all.execute(release, [id, now_ns])?;
            Ok(ended)
        })
    }
}

//! Alerts of a monitor: [`Archive::entered_after`] returns the tests to be judged, [`Archive::note`] stores the results
//! in one transaction, and [`Archive::alerts`] lists current and past alerts.
//!
//! Tests are numbered in the order in which they are added to the archive. The alert evaluation stores the number of
//! the last test that it judged in the same transaction as all consequences: the states of its rules, alerts that fire
//! or are resolved, and messages still to be sent. Each test is therefore judged exactly once, even if the process is
//! killed. A message is removed after its delivery. If a crash occurs between delivery and removal, the message is sent
//! again with the same number.
//!
//! An alert is about a path, two hosts, a host or a site, and lists its paths. Its message may be held for a while, to find what its
//! paths have in common, or by a [silence](crate::Silence). If it is resolved meanwhile, no message is sent.

use crate::catalogue::{figure_columns, unsigned};
use crate::error::ArchiveError;
use crate::{Archive, TestId, silences};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of resolved alerts that are retained.
const MAX_RESOLVED_ALERTS: i64 = 10_000;

/// A test that was added to the archive.
#[derive(Clone, Debug, PartialEq)]
pub struct Entered {
    /// Number of the test, from 1, in the order of addition to the archive.
    pub number: i64,
    /// Identifier of the test.
    pub test: TestId,
    /// Number of the test's stream.
    pub stream_id: i64,
    /// Name of the sender, or its address.
    pub src: String,
    /// Name of the receiver, or its address.
    pub dst: String,
    /// Direction: `up`, `down`, `both` for round trips, `-` if unknown.
    pub direction: String,
    /// Start time, ns since 1970.
    pub started_ns: i64,
    /// Severity of the verdict: `good`, `fair`, `poor`, `bad` or `unknown`.
    pub severity: String,
    /// Grade of the hosts: `good`, `fair`, `poor`, `bad` or `unknown`; `None` if they were not judged.
    pub host: Option<String>,
    /// Headline of the verdict, on one line.
    pub headline: String,
    /// Tags of the test. A monitor sets `test`, `client` and `server`.
    pub tags: BTreeMap<String, String>,
    /// Figures of the test by selector, each in its own unit; undefined figures are absent.
    pub figures: BTreeMap<String, f64>,
}

/// An alert: a condition that a rule found on a path. It fires until it is resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alert {
    /// Number of the alert in this archive.
    pub id: i64,
    /// Name of the rule.
    pub alert: String,
    /// Severity of the alert: `critical`, `warning` or `info`.
    pub severity: String,
    /// Subject of the alert: `path`, `pair` (two hosts), `host` or `site`.
    pub scope: String,
    /// Name of the test; empty for several tests.
    pub test: String,
    /// Sender, host or site, named as in the monitor's file.
    pub src: String,
    /// Receiver, named as in the monitor's file; empty for a host and a site.
    pub dst: String,
    /// Number of paths that the alert is about; while it is firing, those on which it still is.
    pub paths: u64,
    /// Start of the first test that led to the alert, ns since 1970. For alerts about missing results, start of the
    /// last result.
    pub since_ns: i64,
    /// Time at which the alert fired, ns since 1970.
    pub fired_ns: i64,
    /// Time at which the alert was resolved, ns since 1970; null while it is firing.
    pub resolved_ns: Option<i64>,
    /// Condition found when the alert fired, as text.
    pub reason: String,
    /// Reason why the alert was resolved, as text; null while it is firing.
    pub resolution: Option<String>,
    /// Time at which somebody acknowledged the alert, ns since 1970; null if nobody did.
    pub acknowledged_ns: Option<i64>,
    /// Name of the person who acknowledged it.
    pub acknowledged_by: Option<String>,
    /// Note of that person.
    pub note: Option<String>,
}

/// Subject of an alert, and its rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertAbout {
    /// Name of the rule.
    pub alert: String,
    /// Same as [`Alert::scope`].
    pub scope: String,
    /// Same as [`Alert::test`].
    pub test: String,
    /// Same as [`Alert::src`].
    pub src: String,
    /// Same as [`Alert::dst`].
    pub dst: String,
}

/// A path that belongs to an alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlertPath {
    /// Name of the test.
    pub test: String,
    /// Sender, named as in the monitor's file.
    pub src: String,
    /// Receiver, named as in the monitor's file.
    pub dst: String,
    /// Start of the first test that contributed, ns since 1970; for missing results, start of the last result.
    pub since_ns: i64,
    /// Time at which the path was good again, ns since 1970; null if it is not.
    pub ended_ns: Option<i64>,
}

/// An alert that starts firing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// Subject of the alert.
    pub about: AlertAbout,
    /// Severity of the alert: `critical`, `warning` or `info`.
    pub severity: String,
    /// First path of the alert: test, sender and receiver.
    pub path: [String; 3],
    /// Same as [`Alert::since_ns`].
    pub since_ns: i64,
    /// Same as [`Alert::fired_ns`].
    pub fired_ns: i64,
    /// Time until which the message is held, ns since 1970.
    pub held_until_ns: i64,
    /// Same as [`Alert::reason`].
    pub reason: String,
}

/// A change of an alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertUpdate {
    /// An alert started to fire.
    Fired(Fired),
    /// A further path belongs to an alert.
    Joined {
        /// The alert.
        about: AlertAbout,
        /// Test, sender and receiver.
        path: [String; 3],
        /// Same as [`AlertPath::since_ns`].
        since_ns: i64,
    },
    /// A path no longer belongs to an alert, but others do.
    Left {
        /// The alert.
        about: AlertAbout,
        /// Test, sender and receiver.
        path: [String; 3],
        /// Same as [`AlertPath::ended_ns`].
        at_ns: i64,
    },
    /// An alert turned out to have a larger subject.
    Widened {
        /// The alert as it was.
        from: AlertAbout,
        /// Its new subject.
        about: AlertAbout,
        /// Same as [`Alert::reason`].
        reason: String,
    },
    /// An alert is resolved.
    Resolved {
        /// The alert.
        about: AlertAbout,
        /// Time until which the message is held, ns since 1970.
        held_until_ns: i64,
        /// Time at which the alert was resolved, ns since 1970.
        at_ns: i64,
        /// Reason why the alert was resolved, as text.
        reason: String,
    },
}

/// Changes that are stored in one transaction.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// Number of the last test that was judged; `None` leaves the stored number unchanged.
    pub judged: Option<i64>,
    /// States of rules by key, as text; `None` removes the state of a rule.
    pub states: Vec<(String, Option<String>)>,
    /// Alerts that fire or are resolved, in the order in which the changes are applied.
    pub changes: Vec<AlertUpdate>,
    /// Channels to which each change is sent.
    pub channels: Vec<String>,
    /// Maximum number of messages that may wait per channel. Older messages are dropped and counted.
    pub most_waiting: u64,
}

/// Result of [`Archive::note`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredChanges {
    /// Alerts that fired or were resolved, in their current state.
    pub alerts: Vec<Alert>,
    /// Number of messages that were dropped because too many were waiting.
    pub dropped: u64,
}

/// A notification that an alert fired or was resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertMessage {
    /// Number of the message. It stays the same when the message is sent again.
    pub id: i64,
    /// The alert as it was when the message was created.
    pub alert: Alert,
    /// Number of failed attempts to send the message.
    pub tries: u32,
}

/// Name of the counter of tests added to the archive.
pub(crate) const ENTERED: &str = "entered";
/// Name of the counter of tests that were judged.
const JUDGED: &str = "judged";
/// Name of the counter of messages that were dropped.
const DROPPED: &str = "alerts-dropped";

/// Returns the number of the next test.
pub(crate) fn next_number(all: &Transaction<'_>) -> rusqlite::Result<i64> {
    count(all, ENTERED, 1)
}

/// Adds `by` to a counter and returns its new value.
pub(crate) fn count(db: &Connection, name: &str, by: i64) -> rusqlite::Result<i64> {
    let add = "INSERT INTO counters(name, value) VALUES (?1, ?2) ON CONFLICT(name) DO UPDATE SET value = value + ?2 RETURNING value";
    db.prepare_cached(add)?.query_row(params![name, by], |row| row.get(0))
}

pub(crate) fn counter(db: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT value FROM counters WHERE name = ?")?
        .query_row([name], |row| row.get(0))
        .optional()
}

/// Marks all tests as judged.
pub(crate) fn judge_from_here(all: &Transaction<'_>) -> rusqlite::Result<()> {
    let entered = counter(all, ENTERED)?.unwrap_or(0);
    all.execute("UPDATE counters SET value = ? WHERE name = ?", params![entered, JUDGED]).map(drop)
}

const ALERT: &str = "a.id, a.alert, a.severity, a.test, a.src, a.dst, a.since_ns, a.fired_ns, a.resolved_ns, a.reason, \
                     a.resolution, a.scope, a.acknowledged_ns, a.acknowledged_by, a.note, (SELECT count(*) FROM alert_paths p WHERE \
                     p.alert = a.id AND (p.ended_ns IS NULL OR a.resolved_ns IS NOT NULL))";

fn alert(row: &Row<'_>) -> rusqlite::Result<Alert> {
    Ok(Alert {
        id: row.get(0)?,
        alert: row.get(1)?,
        severity: row.get(2)?,
        test: row.get(3)?,
        src: row.get(4)?,
        dst: row.get(5)?,
        since_ns: row.get(6)?,
        fired_ns: row.get(7)?,
        resolved_ns: row.get(8)?,
        reason: row.get(9)?,
        resolution: row.get(10)?,
        scope: row.get(11)?,
        acknowledged_ns: row.get(12)?,
        acknowledged_by: row.get(13)?,
        note: row.get(14)?,
        paths: unsigned(row, 15)?,
    })
}

impl Archive {
    /// Returns at most `most` alerts: firing alerts, then resolved ones, each newest first.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn alerts(&self, most: usize) -> Result<Vec<Alert>, ArchiveError> {
        if self.is_united() {
            return self.united_alerts(most);
        }
        let run = || {
            let query = format!(
                "SELECT {ALERT} FROM alerts a ORDER BY resolved_ns IS NOT NULL, coalesce(resolved_ns, fired_ns) DESC, id DESC LIMIT ?"
            );
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let mut alerts = self.db.prepare_cached(&query)?;
            alerts.query_map([most], alert)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        run().map_err(self.sql("reading"))
    }

    /// Returns the paths of an alert, those that are still bad first; at most `most`.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn alert_paths(&self, alert: i64, most: usize) -> Result<Vec<AlertPath>, ArchiveError> {
        if self.is_united() {
            return match self.member_of(alert) {
                Some((member, alert)) => member.alert_paths(alert, most),
                None => Ok(Vec::new()),
            };
        }
        let run = || {
            let query = "SELECT test, src, dst, since_ns, ended_ns FROM alert_paths WHERE alert = ? \
                         ORDER BY ended_ns IS NOT NULL, since_ns, src, dst LIMIT ?";
            let take = |row: &Row<'_>| {
                Ok(AlertPath {
                    test: row.get(0)?,
                    src: row.get(1)?,
                    dst: row.get(2)?,
                    since_ns: row.get(3)?,
                    ended_ns: row.get(4)?,
                })
            };
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let mut paths = self.db.prepare_cached(query)?;
            paths.query_map([alert, most], take)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        run().map_err(self.sql("reading"))
    }

    /// Records that the person `by` has seen an alert, with a note. Returns false if there is no such alert.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn acknowledge(&self, alert: i64, by: &str, note: &str, now_ns: i64) -> Result<bool, ArchiveError> {
        let update = "UPDATE alerts SET acknowledged_ns = ?, acknowledged_by = ?, note = ? WHERE id = ?";
        self.transaction(|all| Ok(all.execute(update, params![now_ns, by, note, alert])? > 0))
    }

    /// Returns the number of tests added to the archive since the archive began to count them.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn entered(&self) -> Result<i64, ArchiveError> {
        if self.is_united() {
            return Ok(self.entered_counts()?.into_iter().sum());
        }
        Ok(counter(&self.db, ENTERED).map_err(self.sql("reading"))?.unwrap_or(0))
    }

    /// Returns the number of the last judged test; `None` before the first one.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn judged(&self) -> Result<Option<i64>, ArchiveError> {
        if self.is_united() {
            return Ok(self.all_of(|member| Ok(member.judged()?.into_iter().collect()))?.into_iter().max());
        }
        counter(&self.db, JUDGED).map_err(self.sql("reading"))
    }

    /// Returns the total number of messages that were given up, or dropped because too many were waiting.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn dropped_messages(&self) -> Result<u64, ArchiveError> {
        if self.is_united() {
            return Ok(self.all_of(|member| Ok(vec![member.dropped_messages()?]))?.into_iter().sum());
        }
        let dropped = counter(&self.db, DROPPED).map_err(self.sql("reading"))?;
        Ok(dropped.unwrap_or(0).unsigned_abs())
    }

    /// Returns at most `most` tests that were added after test `number`, in the order of addition.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn entered_after(&self, number: i64, most: usize) -> Result<Vec<Entered>, ArchiveError> {
        self.entered_tests(number, most).map_err(self.sql("reading"))
    }

    fn entered_tests(&self, number: i64, most: usize) -> rusqlite::Result<Vec<Entered>> {
        let query = "SELECT t.entered, t.id, t.stream, coalesce(a.name, a.address), coalesce(b.name, b.address), s.direction, \
                     t.started_ns, t.severity, t.headline, t.host \
                     FROM tests t JOIN streams s ON s.id = t.stream JOIN hosts a ON a.id = s.src JOIN hosts b ON b.id = s.dst \
                     WHERE t.entered > ? ORDER BY t.entered LIMIT ?";
        let take = |row: &Row<'_>| {
            Ok(Entered {
                number: row.get(0)?,
                test: TestId(row.get(1)?),
                stream_id: row.get(2)?,
                src: row.get(3)?,
                dst: row.get(4)?,
                direction: row.get(5)?,
                started_ns: row.get(6)?,
                severity: row.get(7)?,
                headline: row.get(8)?,
                host: row.get(9)?,
                tags: BTreeMap::new(),
                figures: BTreeMap::new(),
            })
        };
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut tests = self.db.prepare_cached(query)?;
        let mut list = tests.query_map(params![number, most], take)?.collect::<rusqlite::Result<Vec<_>>>()?;
        if list.is_empty() {
            return Ok(list);
        }
        let columns: Vec<String> = figure_columns(&self.db)?.into_iter().collect();
        let names: Vec<String> = columns.iter().map(|name| format!("\"{name}\"")).collect();
        let query = format!(
            "SELECT {} FROM figures WHERE test = (SELECT number FROM tests WHERE id = ?)",
            names.join(", ")
        );
        let mut figures = self.db.prepare_cached(&query)?;
        let mut tags = self.db.prepare_cached(
            "SELECT key, value FROM tags WHERE test = (SELECT number FROM tests WHERE id = ?)",
        )?;
        for entered in &mut list {
            let id = [entered.test.0];
            let pair = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
            entered.tags = tags.query_map(id, pair)?.collect::<rusqlite::Result<_>>()?;
            let found = |row: &Row<'_>| {
                let value = |(k, name): (usize, &String)| {
                    row.get::<_, Option<f64>>(k)
                        .map(|value| value.map(|value| (name.clone(), value)))
                        .transpose()
                };
                columns.iter().enumerate().filter_map(value).collect::<rusqlite::Result<BTreeMap<_, _>>>()
            };
            entered.figures = figures.query_row(id, found).optional()?.unwrap_or_default();
        }
        Ok(list)
    }

    /// Returns the states of rules whose keys begin with `prefix`.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn rule_states(&self, prefix: &str) -> Result<BTreeMap<String, String>, ArchiveError> {
        let run = || {
            let query = "SELECT key, state FROM alert_states WHERE substr(key, 1, length(?1)) = ?1";
            let mut states = self.db.prepare_cached(query)?;
            states.query_map([prefix], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let states: rusqlite::Result<BTreeMap<String, String>> = run();
        states.map_err(self.sql("reading"))
    }

    /// Stores the results of judged tests in one transaction. A change that was already applied has no effect.
    ///
    /// # Errors
    /// [`ArchiveError`]; nothing is then changed.
    pub fn note(&self, note: &Note) -> Result<StoredChanges, ArchiveError> {
        self.transaction(|all| {
            if let Some(judged) = note.judged {
                let set = "INSERT INTO counters(name, value) VALUES (?1, ?2) ON CONFLICT(name) DO UPDATE SET value = ?2";
                all.execute(set, params![JUDGED, judged])?;
            }
            for (key, state) in &note.states {
                match state {
                    Some(state) => all
                        .prepare_cached("INSERT OR REPLACE INTO alert_states(key, state) VALUES (?, ?)")?
                        .execute([key, state])?,
                    None => all.execute("DELETE FROM alert_states WHERE key = ?", [key])?,
                };
            }
            let mut noted = StoredChanges::default();
            for change in &note.changes {
                let Some(changed) = apply(all, change)? else { continue };
                add_messages(all, change, &changed, &note.channels)?;
                noted.alerts.push(changed);
            }
            if !noted.alerts.is_empty() {
                noted.dropped = make_room(all, note)?;
            }
            Ok(noted)
        })
    }

    /// Returns at most `most` messages that may be sent to a channel at `now_ns`, in the order of their numbers. A
    /// message that waits for its next attempt after a failure delays the messages after it; a held message does not.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn waiting(
        &self,
        channel: &str,
        now_ns: i64,
        most: usize,
    ) -> Result<Vec<AlertMessage>, ArchiveError> {
        let run = || {
            let query = format!(
                "SELECT {ALERT}, m.id, m.tries, m.due_ns, m.resolved FROM alert_messages m JOIN alerts a ON a.id = m.alert \
                 WHERE m.channel = ? AND m.held_ns <= ? ORDER BY m.id LIMIT ?"
            );
            let take = |row: &Row<'_>| {
                let tries = u32::try_from(unsigned(row, 17)?).unwrap_or(u32::MAX);
                let mut alert = alert(row)?;
                if !row.get::<_, bool>(19)? {
                    (alert.resolved_ns, alert.resolution) = (None, None);
                }
                Ok((AlertMessage { id: row.get(16)?, alert, tries }, row.get::<_, i64>(18)?))
            };
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let mut messages = self.db.prepare_cached(&query)?;
            let all = messages.query_map(params![channel, now_ns, most], take)?;
            let all = all.collect::<rusqlite::Result<Vec<_>>>()?;
            let due = all.into_iter().take_while(|(_, due_ns)| *due_ns <= now_ns);
            Ok::<_, rusqlite::Error>(due.map(|(message, _)| message).collect())
        };
        run().map_err(self.sql("reading"))
    }

    /// Returns the time at which the next message of a channel is due, in ns since 1970; `None` if no message is waiting.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn message_due(&self, channel: &str, now_ns: i64) -> Result<Option<i64>, ArchiveError> {
        let first =
            "SELECT due_ns FROM alert_messages WHERE channel = ? AND held_ns <= ? ORDER BY id LIMIT 1";
        let held =
            "SELECT held_ns FROM alert_messages WHERE channel = ? AND held_ns > ? ORDER BY held_ns LIMIT 1";
        let of = |query| self.db.query_row(query, params![channel, now_ns], |row| row.get(0)).optional();
        let both = [of(first), of(held)].map(|found| found.map_err(self.sql("reading")));
        let [first, held]: [Result<Option<i64>, ArchiveError>; 2] = both;
        Ok(first?.into_iter().chain(held?).min())
    }

    /// Gives up messages: removes them and counts them as dropped.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn give_up(&self, messages: &[i64]) -> Result<(), ArchiveError> {
        self.sent(messages)?;
        self.transaction(|all| count(all, DROPPED, messages.len() as i64).map(drop))
    }

    /// Removes messages after they were sent.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn sent(&self, messages: &[i64]) -> Result<(), ArchiveError> {
        self.transaction(|all| {
            messages.iter().try_for_each(|id| {
                all.prepare_cached("DELETE FROM alert_messages WHERE id = ?")?.execute([id]).map(drop)
            })
        })
    }

    /// Schedules messages to be sent again at `due_ns`, ns since 1970.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn not_sent(&self, messages: &[i64], due_ns: i64) -> Result<(), ArchiveError> {
        let update = "UPDATE alert_messages SET tries = tries + 1, due_ns = ? WHERE id = ?";
        self.transaction(|all| {
            messages.iter().try_for_each(|id| all.prepare_cached(update)?.execute([due_ns, *id]).map(drop))
        })
    }
}

/// Returns the number of the firing alert with this subject; `None` if there is none.
fn firing(all: &Transaction<'_>, about: &AlertAbout) -> rusqlite::Result<Option<i64>> {
    let AlertAbout { alert, scope, test, src, dst } = about;
    let query = "SELECT id FROM alerts WHERE (alert, scope, test, src, dst) = (?, ?, ?, ?, ?) AND resolved_ns IS NULL";
    all.prepare_cached(query)?.query_row([alert, scope, test, src, dst], |row| row.get(0)).optional()
}

/// Applies a change. Returns the resulting alert if it started to fire or is resolved; `None` if only its paths or its subject
/// changed, or if the change was already applied.
fn apply(all: &Transaction<'_>, change: &AlertUpdate) -> rusqlite::Result<Option<Alert>> {
    let add_path = |id: i64, path: &[String; 3], since_ns: i64| {
        let [test, src, dst] = path;
        let insert =
            "INSERT OR REPLACE INTO alert_paths(alert, test, src, dst, since_ns) VALUES (?, ?, ?, ?, ?)";
        all.prepare_cached(insert)?.execute(params![id, test, src, dst, since_ns]).map(drop)
    };
    let id = match change {
        AlertUpdate::Fired(f) => {
            if firing(all, &f.about)?.is_some() {
                return Ok(None);
            }
            let insert = "INSERT INTO alerts(alert, scope, severity, test, src, dst, since_ns, fired_ns, reason) \
                          VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
            let Fired { about, severity, since_ns, fired_ns, reason, .. } = f;
            let AlertAbout { alert, scope, test, src, dst } = about;
            all.execute(insert, params![alert, scope, severity, test, src, dst, since_ns, fired_ns, reason])?;
            let id = all.last_insert_rowid();
            add_path(id, &f.path, *since_ns)?;
            id
        }
        AlertUpdate::Joined { about, path, since_ns } => {
            if let Some(id) = firing(all, about)? {
                add_path(id, path, *since_ns)?;
            }
            return Ok(None);
        }
        AlertUpdate::Left { about, path: [test, src, dst], at_ns } => {
            if let Some(id) = firing(all, about)? {
                let end = "UPDATE alert_paths SET ended_ns = ? WHERE (alert, test, src, dst) = (?, ?, ?, ?)";
                all.prepare_cached(end)?.execute(params![at_ns, id, test, src, dst])?;
            }
            return Ok(None);
        }
        AlertUpdate::Widened { from, about, reason } => {
            if let Some(id) = firing(all, from)?
                && firing(all, about)?.is_none()
            {
                let set = "UPDATE alerts SET scope = ?, test = ?, src = ?, dst = ?, reason = ? WHERE id = ?";
                let AlertAbout { scope, test, src, dst, .. } = about;
                all.execute(set, params![scope, test, src, dst, reason, id])?;
            }
            return Ok(None);
        }
        AlertUpdate::Resolved { about, at_ns, reason, .. } => {
            let Some(id) = firing(all, about)? else { return Ok(None) };
            all.execute(
                "UPDATE alerts SET resolved_ns = ?, resolution = ? WHERE id = ?",
                params![at_ns, reason, id],
            )?;
            all.execute(
                "UPDATE alert_paths SET ended_ns = ? WHERE alert = ? AND ended_ns IS NULL",
                params![at_ns, id],
            )?;
            id
        }
    };
    all.query_row(&format!("SELECT {ALERT} FROM alerts a WHERE id = ?"), [id], alert).map(Some)
}

/// Adds the messages of an alert that started to fire or is resolved. If the first message was never sent because it was held,
/// neither is sent.
fn add_messages(
    all: &Transaction<'_>,
    change: &AlertUpdate,
    changed: &Alert,
    channels: &[String],
) -> rusqlite::Result<()> {
    let insert = "INSERT INTO alert_messages(alert, resolved, channel, tries, due_ns, held_ns, silence) VALUES (?, ?, ?, 0, 0, ?, ?)";
    for channel in channels {
        let (held_ns, silence) = match change {
            AlertUpdate::Fired(fired) => match silences::covering(all, &fired.about, fired.fired_ns)? {
                Some((silence, until_ns)) => (until_ns.max(fired.held_until_ns), Some(silence)),
                None => (fired.held_until_ns, None),
            },
            _ => {
                let delete = "DELETE FROM alert_messages WHERE alert = ? AND channel = ? AND resolved = 0 AND held_ns > ?";
                let at = changed.resolved_ns.unwrap_or(i64::MAX);
                if all.execute(delete, params![changed.id, channel, at])? > 0 {
                    continue;
                }
                match change {
                    AlertUpdate::Resolved { held_until_ns, .. } => (*held_until_ns, None),
                    _ => (0, None),
                }
            }
        };
        let is_resolved = changed.resolved_ns.is_some();
        all.prepare_cached(insert)?.execute(params![changed.id, is_resolved, channel, held_ns, silence])?;
    }
    Ok(())
}

/// Drops the oldest messages beyond the limit, and deletes alerts that were resolved long ago. Returns the number of
/// dropped messages.
fn make_room(all: &Transaction<'_>, note: &Note) -> rusqlite::Result<u64> {
    let mut dropped = 0;
    let most = i64::try_from(note.most_waiting).unwrap_or(i64::MAX);
    for channel in &note.channels {
        let delete = "DELETE FROM alert_messages WHERE id IN \
                      (SELECT id FROM alert_messages WHERE channel = ?1 ORDER BY id DESC LIMIT -1 OFFSET ?2)";
        dropped += all.execute(delete, params![channel, most])? as u64;
    }
    if dropped > 0 {
        count(all, DROPPED, dropped as i64)?;
    }
    let old = "DELETE FROM alerts WHERE resolved_ns IS NOT NULL AND id <= (SELECT max(id) FROM alerts) - ? \
               AND id NOT IN (SELECT alert FROM alert_messages)";
    all.execute(old, [MAX_RESOLVED_ALERTS])?;
    Ok(dropped)
}

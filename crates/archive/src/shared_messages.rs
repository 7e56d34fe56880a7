//! Messages about alerts if several hosts judge the same tests: a [`SharedMessage`] identifies a message for the other judges, and each
//! judge records which messages the others have sent.

use crate::Archive;
use crate::alerts::{Alert, AlertMessage};
use crate::error::ArchiveError;
use rusqlite::params;
use serde::{Deserialize, Serialize};

/// A message about an alert, in a form that another judge of the same tests recognises.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedMessage {
    /// Name of the rule.
    pub alert: String,
    /// Same as [`Alert::since_ns`].
    pub since_ns: i64,
    /// True for the message that the alert is resolved; false for the message that it fires.
    pub resolved: bool,
    /// Paths of the alert, at most [`MAX_SHARED_PATHS`]: test, sender and receiver.
    pub paths: Vec<[String; 3]>,
}

/// Maximum number of paths of a [`SharedMessage`].
pub const MAX_SHARED_PATHS: usize = 16;
/// Maximum difference between the start times that two judges record for the same alert, in ns.
const SHARED_SPREAD_NS: i64 = 60_000_000_000;

/// Time for which a message of another judge is remembered, in ns: a day.
const SENT_ELSEWHERE_NS: i64 = 86_400_000_000_000;

impl Archive {
    /// Returns a message in the form that another judge recognises.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn shared(&self, message: &AlertMessage) -> Result<SharedMessage, ArchiveError> {
        let Alert { id, alert, since_ns, resolved_ns, .. } = &message.alert;
        let paths = self.alert_paths(*id, MAX_SHARED_PATHS)?;
        Ok(SharedMessage {
            alert: alert.clone(),
            since_ns: *since_ns,
            resolved: resolved_ns.is_some(),
            paths: paths.into_iter().map(|path| [path.test, path.src, path.dst]).collect(),
        })
    }

    /// True if no other channel waits for the same message.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn is_last_channel(&self, message: &AlertMessage) -> Result<bool, ArchiveError> {
        let query = "SELECT 1 FROM alert_messages WHERE alert = ? AND resolved = ? AND id <> ?";
        let alert = &message.alert;
        let asked = params![alert.id, alert.resolved_ns.is_some(), message.id];
        let found = self.db.prepare_cached(query).and_then(|mut others| others.exists(asked));
        found.map(|others| !others).map_err(self.sql("reading"))
    }

    /// True if the message was sent from here, or if a judge has reported that it sent the message. This may be the judge that asks,
    /// if it was killed before it recorded that itself.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn knows_sent(&self, message: &SharedMessage) -> Result<bool, ArchiveError> {
        Ok(self.has_sent(message)? || self.was_sent_elsewhere(message)?)
    }

    /// True if this archive has the alert of another judge's message, and has sent that message to all channels.
    fn has_sent(&self, message: &SharedMessage) -> Result<bool, ArchiveError> {
        let query = "SELECT 1 FROM alerts a JOIN alert_paths p ON p.alert = a.id \
                     WHERE a.alert = ?1 AND abs(a.since_ns - ?2) <= ?3 AND (NOT ?4 OR a.resolved_ns IS NOT NULL) \
                     AND (p.test, p.src, p.dst) = (?5, ?6, ?7) AND NOT EXISTS \
                     (SELECT 1 FROM alert_messages m WHERE m.alert = a.id AND m.resolved = ?4)";
        let run = || {
            let mut found = self.db.prepare_cached(query)?;
            for [test, src, dst] in message.paths.iter().take(MAX_SHARED_PATHS) {
                let SharedMessage { alert, since_ns, resolved, .. } = message;
                let asked = params![alert, since_ns, SHARED_SPREAD_NS, resolved, test, src, dst];
                if found.exists(asked)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        run().map_err(self.sql("reading"))
    }

    /// Records messages that another judge has sent, also those about alerts that this archive does not have yet. They are not sent
    /// from here again. Records older than a day are removed.
    ///
    /// # Errors
    /// [`ArchiveError`]; nothing is then recorded.
    pub fn record_sent_elsewhere(&self, messages: &[SharedMessage], now_ns: i64) -> Result<(), ArchiveError> {
        self.transaction(|all| {
            all.execute("DELETE FROM sent_elsewhere WHERE sent_ns < ?", [now_ns.saturating_sub(SENT_ELSEWHERE_NS)])?;
            let insert = "INSERT OR REPLACE INTO sent_elsewhere(alert, resolved, test, src, dst, since_ns, sent_ns) \
                          VALUES (?, ?, ?, ?, ?, ?, ?)";
            let mut insert = all.prepare_cached(insert)?;
            for SharedMessage { alert, since_ns, resolved, paths } in messages {
                for [test, src, dst] in paths.iter().take(MAX_SHARED_PATHS) {
                    insert.execute(params![alert, resolved, test, src, dst, since_ns, now_ns])?;
                }
            }
            Ok(())
        })
    }

    /// True if another judge has reported that it sent the message: see [`Archive::record_sent_elsewhere`].
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn was_sent_elsewhere(&self, message: &SharedMessage) -> Result<bool, ArchiveError> {
        let query = "SELECT 1 FROM sent_elsewhere WHERE (alert, resolved, test, src, dst) = (?, ?, ?, ?, ?) \
                     AND abs(since_ns - ?) <= ?";
        let run = || {
            let mut found = self.db.prepare_cached(query)?;
            let SharedMessage { alert, since_ns, resolved, paths } = message;
            for [test, src, dst] in paths.iter().take(MAX_SHARED_PATHS) {
                let asked = params![alert, resolved, test, src, dst, since_ns, SHARED_SPREAD_NS];
                if found.exists(asked)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        run().map_err(self.sql("reading"))
    }
}

//! [`ReportedSlot`]: the newest report of each path about a slot without a result; and the
//! [labels](Archive::set_labels) of hosts.

use crate::Archive;
use crate::alerts::count;
use crate::error::ArchiveError;
use rusqlite::{Row, params};
use serde::Serialize;
use std::collections::BTreeMap;

/// Report of the host that starts a test about a slot without a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportedSlot {
    /// Name of the test.
    pub test: String,
    /// Host that starts the test.
    pub client: String,
    /// Host that answers the test.
    pub server: String,
    /// Start of the slot, ns since 1970.
    pub at_ns: i64,
    /// Start of the first slot in a row without a result for the same reason, ns since 1970.
    pub since_ns: i64,
    /// Cause of the loss: `path`, `own` (the host that starts the test) or `not stored` (that host measured it).
    pub fault: String,
    /// Reason, as text.
    pub reason: String,
}

/// Name of the counter of reports.
const REPORTED: &str = "reported";

impl Archive {
    /// Stores reports of one host, each in place of the earlier one about the same path. `most` is the maximum number
    /// of paths: beyond it, the reports that were stored first are removed.
    ///
    /// # Errors
    /// [`ArchiveError`]; nothing is then stored.
    pub fn record_reports(&self, reports: &[ReportedSlot], most: u32) -> Result<(), ArchiveError> {
        self.transaction(|all| {
            for report in reports {
                let number = count(all, REPORTED, 1)?;
                let insert = "INSERT OR REPLACE INTO slot_reports(test, client, server, number, at_ns, since_ns, fault, reason) \
                              VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
                let ReportedSlot { test, client, server, at_ns, since_ns, fault, reason } = report;
                let row = params![test, client, server, number, at_ns, since_ns, fault, reason];
                all.prepare_cached(insert)?.execute(row)?;
            }
            if let Some(last) = reports.last() {
                let surplus = "DELETE FROM slot_reports WHERE client = ?1 AND number <= \
                               (SELECT number FROM slot_reports WHERE client = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)";
                all.prepare_cached(surplus)?.execute(params![last.client, most])?;
            }
            Ok(())
        })
    }

    /// Returns the reports that were stored after report `number`, with their numbers, in order.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn reports_after(&self, number: i64) -> Result<Vec<(i64, ReportedSlot)>, ArchiveError> {
        if self.is_united() {
            return self.all_of(|member| member.reports_after(number));
        }
        let run = || {
            let query = "SELECT number, test, client, server, at_ns, since_ns, fault, reason FROM slot_reports \
                         WHERE number > ? ORDER BY number";
            let take = |row: &Row<'_>| {
                let report = ReportedSlot {
                    test: row.get(1)?,
                    client: row.get(2)?,
                    server: row.get(3)?,
                    at_ns: row.get(4)?,
                    since_ns: row.get(5)?,
                    fault: row.get(6)?,
                    reason: row.get(7)?,
                };
                Ok((row.get(0)?, report))
            };
            let mut reports = self.db.prepare_cached(query)?;
            reports.query_map([number], take)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        run().map_err(self.sql("reading"))
    }

    /// Replaces the labels of all hosts; `hosts` has the values by name of the host and name of the label.
    ///
    /// # Errors
    /// [`ArchiveError`]; nothing is then changed.
    pub fn set_labels(&self, hosts: &BTreeMap<String, BTreeMap<String, String>>) -> Result<(), ArchiveError> {
        if self.labels()? == *hosts {
            return Ok(());
        }
        self.transaction(|all| {
            all.execute("DELETE FROM host_labels", [])?;
            let mut insert = all.prepare("INSERT INTO host_labels(host, name, value) VALUES (?, ?, ?)")?;
            for (host, labels) in hosts {
                for (name, value) in labels {
                    insert.execute([host, name, value])?;
                }
            }
            Ok(())
        })
    }

    /// Returns the labels of all hosts that have any, by name of the host and name of the label. A monitor sets them;
    /// `site` is one of them.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn labels(&self) -> Result<BTreeMap<String, BTreeMap<String, String>>, ArchiveError> {
        if self.is_united() {
            return self.united_map(Archive::labels);
        }
        let run = || {
            let mut labels = self.db.prepare_cached("SELECT host, name, value FROM host_labels")?;
            let take = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            labels.query_map([], take)?.collect::<rusqlite::Result<Vec<(String, String, String)>>>()
        };
        let mut hosts: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (host, name, value) in run().map_err(self.sql("reading"))? {
            hosts.entry(host).or_default().insert(name, value);
        }
        Ok(hosts)
    }
}

//! [`measure`]: one test, of the timetable or one that somebody asked for, measured and put into the archive.

use super::{Equipment, TestSite};
use crate::agenda::Failure;
use crate::file::Asked;
use jitlat_archive::{Added, Archive, Error as ArchiveError, Prepared, TestId};
use jitlat_core::observer::{Observer, Unobserved};
use jitlat_instruments::{Error, RecordCollector, Stop};
use jitlat_net::client::ClientError;
use jitlat_proto::jitlat::Failure as Conversation;
use std::path::Path;

/// Measures until the end or `stop`, and puts what was found into the archive, if there is one; returns its tests there. `watcher` observes
/// the test while it runs.
///
/// # Errors
/// Why there is no result.
pub fn measure(
    equipment: &dyn Equipment,
    asked: &Asked<'_>,
    site: &TestSite<'_>,
    watcher: Option<&mut dyn Observer>,
    stop: &Stop,
    archive: Option<&Path>,
) -> Result<Vec<TestId>, (Failure, String)> {
    let test = equipment.test(asked, site).map_err(|wrong| (Failure::Other, wrong.message))?;
    let (mut collected, mut nobody) = (RecordCollector::default(), Unobserved);
    let watcher = watcher.unwrap_or(&mut nobody);
    let run = test.run(stop, &mut [&mut collected as &mut dyn Observer, watcher]);
    let sessions = run.map_err(|e| (kind(&e), e.to_string()))?.sessions;
    let Some(root) = archive else { return Ok(Vec::new()) };
    let mut tests = Vec::with_capacity(sessions.len());
    for (stream, session) in sessions.iter().enumerate() {
        let records = collected.records.get(stream).map_or(&[][..], Vec::as_slice);
        let tcp = collected.tcp.get(stream).map_or(&[][..], Vec::as_slice);
        tests.push(Prepared::measured(session, records, tcp).map_err(|e| not_kept(root, &e))?);
    }
    let added = Archive::make(root).and_then(|archive| archive.add_all(&mut tests));
    let added = added.and_then(|added| added.into_iter().collect::<Result<Vec<Added>, _>>());
    let added = added.map_err(|e| not_kept(root, &e))?;
    Ok(added.into_iter().map(|(Added::New(id) | Added::Known(id))| id).collect())
}

fn not_kept(root: &Path, why: &ArchiveError) -> (Failure, String) {
    (Failure::NotKept, format!("archive {}: {why}", root.display()))
}

/// Kind of failure that an error is.
fn kind(error: &Error) -> Failure {
    match error {
        Error::OneWay(ClientError::Failed { failure, .. }) => match failure {
            Conversation::Refused(_) | Conversation::Authentication(_) => Failure::Refused,
            Conversation::Closed { .. } | Conversation::Timeout { .. } => Failure::Unreachable,
            _ => Failure::Other,
        },
        Error::OneWay(ClientError::Start(_)) => Failure::Other,
        Error::OneWay(_)
        | Error::Conversation(_)
        | Error::Lookup { .. }
        | Error::Address { .. }
        | Error::Ping(_)
        | Error::TwampControl(_) => Failure::Unreachable,
        Error::While { source, .. } => kind(source),
        _ => Failure::Other,
    }
}

/// Puts the log of a capture's period into the archive at `root`, which is made if there is none.
pub fn add_log(root: &Path, log: &Path) -> Result<TestId, ArchiveError> {
    let (Added::New(id) | Added::Known(id)) = Archive::make(root)?.add(log, &[])?;
    Ok(id)
}

//! [`measure`]: runs one test of the timetable or on demand, and adds its result to the archive.

use super::{Equipment, TestSite};
use crate::agenda::SlotFailure;
use crate::file::DeclaredTest;
use jitlat_archive::{AddOutcome, Archive, ArchiveError, PreparedTest, TestId};
use jitlat_core::observer::{Observer, Unobserved};
use jitlat_instruments::{Error, RecordCollector, Stop};
use jitlat_net::client::ClientError;
use jitlat_proto::jitlat::ConversationFailure;
use std::path::Path;

/// Runs a test until it ends or `stop` is requested, and adds the results to `archive`, if there is one. Returns the
/// identifiers of the results in the archive. `watcher` observes the test while it runs.
///
/// # Errors
/// The reason why there is no result.
pub fn measure(
    equipment: &dyn Equipment,
    asked: &DeclaredTest<'_>,
    site: &TestSite<'_>,
    watcher: Option<&mut dyn Observer>,
    stop: &Stop,
    archive: Option<&Path>,
) -> Result<Vec<TestId>, (SlotFailure, String)> {
    let test = equipment.test(asked, site).map_err(|wrong| (SlotFailure::Other, wrong.message))?;
    let (mut collected, mut nobody) = (RecordCollector::default(), Unobserved);
    let watcher = watcher.unwrap_or(&mut nobody);
    let run = test.run(stop, &mut [&mut collected as &mut dyn Observer, watcher]);
    let sessions = run.map_err(|e| (kind(&e), e.to_string()))?.sessions;
    let Some(root) = archive else { return Ok(Vec::new()) };
    let mut tests = Vec::with_capacity(sessions.len());
    for (stream, session) in sessions.iter().enumerate() {
        let records = collected.records.get(stream).map_or(&[][..], Vec::as_slice);
        let tcp = collected.tcp.get(stream).map_or(&[][..], Vec::as_slice);
        tests.push(PreparedTest::measured(session, records, tcp).map_err(|e| not_stored(root, &e))?);
    }
    let added = Archive::make(root).and_then(|archive| archive.add_all(&mut tests));
    let added = added.and_then(|added| added.into_iter().collect::<Result<Vec<AddOutcome>, _>>());
    let added = added.map_err(|e| not_stored(root, &e))?;
    Ok(added.into_iter().map(|(AddOutcome::New(id) | AddOutcome::Known(id))| id).collect())
}

fn not_stored(root: &Path, why: &ArchiveError) -> (SlotFailure, String) {
    (SlotFailure::NotStored, format!("archive {}: {why}", root.display()))
}

/// Returns the kind of failure that `error` represents.
fn kind(error: &Error) -> SlotFailure {
    match error {
        Error::OneWay(ClientError::Failed { failure, .. }) => match failure {
            ConversationFailure::Refused(_) | ConversationFailure::Authentication(_) => SlotFailure::Refused,
            ConversationFailure::Closed { .. } | ConversationFailure::Timeout { .. } => {
                SlotFailure::Unreachable
            }
            _ => SlotFailure::Other,
        },
        Error::OneWay(ClientError::Start(_)) => SlotFailure::Other,
        Error::OneWay(_)
        | Error::Conversation(_)
        | Error::Resolve(_)
        | Error::Ping(_)
        | Error::TwampControl(_) => SlotFailure::Unreachable,
        Error::While { source, .. } => kind(source),
        _ => SlotFailure::Other,
    }
}

/// Adds the log of a capture's period to the archive at `root`; creates the archive if it does not exist.
pub fn add_log(root: &Path, log: &Path) -> Result<TestId, ArchiveError> {
    let (AddOutcome::New(id) | AddOutcome::Known(id)) = Archive::make(root)?.add(log, &[])?;
    Ok(id)
}

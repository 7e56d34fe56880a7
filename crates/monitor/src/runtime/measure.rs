//! [`measure`]: runs one test of the timetable or on demand, and adds its result to the archive; [`measure_under_load`]:
//! runs one on demand twice, idle and under load.

use super::{Equipment, TestSite};
use crate::agenda::SlotFailure;
use crate::file::{DeclaredTest, EntryError};
use jitlat_archive::{AddOutcome, Archive, ArchiveError, PreparedTest, TestId};
use jitlat_core::Session;
use jitlat_core::analysis::Options;
use jitlat_core::observer::{Event, Observer, Unobserved};
use jitlat_instruments::load::Phases;
use jitlat_instruments::{Error, RecordCollector, Stop};
use jitlat_net::client::ClientError;
use jitlat_proto::jitlat::ConversationFailure;
use jitlat_web::RunFeed;
use std::cell::RefCell;
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
    add(root, prepared(&sessions, &collected).map_err(|e| not_stored(root, &e))?)
}

/// Runs a test twice, idle and under the load `text`, and adds the results to the archive at `root`: first those of the
/// idle streams. `feed` observes both.
///
/// # Errors
/// The reason why there is no result.
pub fn measure_under_load(
    equipment: &dyn Equipment,
    (asked, text): (&DeclaredTest<'_>, &str),
    site: &TestSite<'_>,
    feed: &mut RunFeed,
    stop: &Stop,
    root: &Path,
) -> Result<Vec<TestId>, (SlotFailure, String)> {
    let wrong = |wrong: EntryError| (SlotFailure::Other, wrong.message);
    let (test, load) =
        (equipment.test(asked, site).map_err(wrong)?, equipment.load(text, site).map_err(wrong)?);
    let (mut idle, mut loaded) = (Collected::default(), Collected::default());
    let feed = RefCell::new(feed);
    let mut of_idle = |event: &Event<'_>| {
        idle.event(event);
        feed.borrow_mut().event(event);
        if let Event::Finished(_) = event {
            feed.borrow().under_load();
        }
    };
    let mut of_loaded = |event: &Event<'_>| {
        loaded.event(event);
        feed.borrow_mut().event(event);
    };
    let observers: [&mut dyn Observer; 2] = [&mut of_idle, &mut of_loaded];
    Phases::measure(&*test, &load, &Options::default(), stop, observers)
        .map_err(|e| (kind(&e), e.to_string()))?;
    let mut tests = Vec::new();
    for Collected { sessions, records } in [&idle, &loaded] {
        tests.extend(prepared(sessions, records).map_err(|e| not_stored(root, &e))?);
    }
    add(root, tests)
}

/// Records of a phase, and its sessions with the load.
#[derive(Default)]
struct Collected {
    sessions: Vec<Session>,
    records: RecordCollector,
}

impl Observer for Collected {
    fn event(&mut self, event: &Event<'_>) {
        self.records.event(event);
        if let Event::Finished(sessions) = event {
            self.sessions = sessions.to_vec();
        }
    }
}

/// Prepares the streams of a test for the archive.
fn prepared(sessions: &[Session], collected: &RecordCollector) -> Result<Vec<PreparedTest>, ArchiveError> {
    let stream = |(stream, session): (usize, &Session)| {
        let records = collected.records.get(stream).map_or(&[][..], Vec::as_slice);
        let tcp = collected.tcp.get(stream).map_or(&[][..], Vec::as_slice);
        PreparedTest::measured(session, records, tcp)
    };
    sessions.iter().enumerate().map(stream).collect()
}

/// Adds tests to the archive at `root`; creates the archive if it does not exist.
fn add(root: &Path, mut tests: Vec<PreparedTest>) -> Result<Vec<TestId>, (SlotFailure, String)> {
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

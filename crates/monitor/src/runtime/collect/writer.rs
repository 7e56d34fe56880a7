//! The thread that adds the tests of all hosts to the archive, in batches.

use super::{
    CollectorState, IntakeJob, IntakeResult, MAX_TESTS_PER_BATCH, QUIET, RETRY_PAUSES, outcome, stopping,
};
use jitlat_archive::{Archive, ArchiveError, PreparedTest};
use jitlat_web::NotNow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::time::{Duration, Instant};

/// Maximum time that a test waits for room in the archive's queue.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// Passes `job` to the thread that adds tests to the archive, as soon as its queue has room.
pub(super) fn queue(jobs: &SyncSender<IntakeJob>, mut job: IntakeJob) -> Result<(), NotNow> {
    let begun = Instant::now();
    loop {
        match jobs.try_send(job) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Disconnected(_)) => return Err(stopping()),
            Err(TrySendError::Full(_)) if begun.elapsed() >= QUEUE_TIMEOUT => {
                return Err(NotNow { why: "its archive is busy".to_owned(), wait: RETRY_PAUSES.1 });
            }
            Err(TrySendError::Full(back)) => job = back,
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Adds tests to the archive as they arrive; all waiting tests are added in one batch.
pub(super) fn enter(archive: &Archive, jobs: &Receiver<IntakeJob>, shared: &CollectorState) {
    loop {
        let first = match jobs.recv_timeout(QUIET.1) {
            Ok(first) => first,
            Err(RecvTimeoutError::Timeout) => {
                shared.resolve(archive);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let mut batch = vec![first];
        batch.extend(jobs.try_iter().take(MAX_TESTS_PER_BATCH - 1));
        let (mut answers, mut tests) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for IntakeJob { place, test, to } in batch {
            answers.push((place, to));
            tests.push(test);
        }
        let results = enter_batch(archive, &mut tests, shared);
        for ((place, to), result) in answers.into_iter().zip(results) {
            // A host that has disconnected sends the test again.
            let _ = to.send((place, result));
        }
    }
}

/// Adds `tests` to the archive and returns the result of each.
pub(super) fn enter_batch(
    archive: &Archive,
    tests: &mut [PreparedTest],
    shared: &CollectorState,
) -> Vec<IntakeResult> {
    match archive.add_all(tests) {
        Ok(added) => {
            shared.works();
            added.into_iter().map(|added| Ok(outcome(added))).collect()
        }
        // The archive currently accepts no tests.
        Err(e @ (ArchiveError::Io { .. } | ArchiveError::Full { .. } | ArchiveError::Busy { .. })) => {
            vec![Err(shared.fails(&e)); tests.len()]
        }
        // One test failed, for example because a stored summary is damaged: add the tests one by one.
        Err(_) if tests.len() > 1 => {
            tests.chunks_mut(1).flat_map(|one| enter_batch(archive, one, shared)).collect()
        }
        Err(e) => vec![Err(shared.fails(&e))],
    }
}

//! [`RunQueue`]: tests on demand from a monitor's web page. The web server's thread adds them; the monitor fits
//! each into a gap of the timetable, and accepts or refuses it.

use super::Equipment;
use super::on_demand::{DemandedTest, TestPlacement, profiles};
use crate::Model;
use crate::extra::{MAX_WAIT, NoGap};
use crate::file::text_of;
use jitlat_archive::Archive;
use jitlat_net::wake::Waker;
use jitlat_web::{HostOffer, Planned, RunFeed, RunOffer, RunRefusal, RunRequest, Runner};
use std::collections::BTreeSet;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time for which the web server's thread waits for the monitor's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Queue through which the web server passes demanded tests to the monitor.
#[derive(Debug)]
pub struct RunQueue {
    equipment: Arc<dyn Equipment>,
    /// The model, and the index of this host.
    now: Mutex<(Arc<Model>, usize)>,
    queue: Mutex<Vec<QueuedRun>>,
    /// Wakes the monitor.
    waker: Waker,
}

/// A demanded test.
#[derive(Debug)]
pub struct QueuedRun {
    pub demand: DemandedTest,
    pub host: HostOffer,
    pub feed: RunFeed,
    /// Channel for the answer: accepted, or the reason for the refusal.
    pub answer: SyncSender<Result<(), RunRefusal>>,
}

impl RunQueue {
    /// Creates the queue of the host with index `host` in the file.
    pub fn new(model: Arc<Model>, host: usize, equipment: Arc<dyn Equipment>, waker: Waker) -> RunQueue {
        RunQueue { equipment, now: Mutex::new((model, host)), queue: Mutex::default(), waker }
    }

    /// Applies a new version of the file.
    pub fn follow(&self, model: Arc<Model>, host: usize) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = (model, host);
    }

    /// Returns the tests that were demanded since the last call.
    pub fn take(&self) -> Vec<QueuedRun> {
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Runner for RunQueue {
    fn offer(&self, _: &Archive) -> Result<RunOffer, jitlat_archive::ArchiveError> {
        let (model, own) = &*self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let others = model.hosts.iter().enumerate().filter(|(k, _)| k != own).map(|(_, host)| HostOffer {
            name: host.name.clone(),
            address: host.address.clone(),
            only_answers: false,
        });
        let targets: BTreeSet<&String> = model.tests.iter().flat_map(|test| &test.pairs.targets).collect();
        let targets = targets.into_iter().filter(|name| model.host(name).is_none()).map(|name| HostOffer {
            name: name.clone(),
            address: name.clone(),
            only_answers: true,
        });
        let from = model.hosts.get(*own).map_or_else(String::new, |host| host.name.clone());
        Ok(RunOffer {
            from,
            any_host: false,
            hosts: others.chain(targets).collect(),
            tests: DemandedTest::offered(),
            profiles: profiles(),
        })
    }

    fn plan(&self, request: &RunRequest, host: &HostOffer) -> Result<Planned, RunRefusal> {
        Ok(DemandedTest::of(request, host, &*self.equipment)?.planned())
    }

    fn start(&self, request: &RunRequest, host: &HostOffer, feed: RunFeed) -> Result<(), RunRefusal> {
        let demand = DemandedTest::of(request, host, &*self.equipment)?;
        let stop = feed.stop();
        let (answer, answered) = sync_channel(1);
        let demanded = QueuedRun { demand, host: host.clone(), feed, answer };
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(demanded);
        self.waker.wake();
        answered.recv_timeout(ANSWER_TIMEOUT).unwrap_or_else(|_| {
            stop.store(true, std::sync::atomic::Ordering::SeqCst);
            Err(RunRefusal::Busy("the monitor did not answer within 5 s".to_owned()))
        })
    }
}

impl QueuedRun {
    /// True if the test was cancelled.
    pub fn is_stopped(&self) -> bool {
        self.feed.stop().load(std::sync::atomic::Ordering::SeqCst)
    }

    /// Returns the name of the far host; `None` if it is not in the file.
    pub fn far(&self) -> Option<&str> {
        (!self.host.only_answers).then_some(self.host.name.as_str())
    }

    /// Runs the test.
    pub fn measure(self, equipment: &dyn Equipment, place: &TestPlacement<'_>) {
        self.demand.measure(equipment, place, self.feed);
    }
}

/// Returns the reason, in words, why a test does not fit into the timetable.
pub fn refused(gap: NoGap) -> String {
    let within = text_of(MAX_WAIT.0);
    match gap {
        NoGap::TooShort(Some(most)) => {
            let most = most.0 / 1_000_000_000;
            format!(
                "no gap within {within} is long enough to run it without disturbing other tests of both \
                 hosts; the longest gap has room for a test of {most} s"
            )
        }
        NoGap::TooShort(None) => {
            format!(
                "no gap within {within} is long enough to run it without disturbing other tests of either host"
            )
        }
        NoGap::NoHost => "the monitor's file no longer contains the far host".to_owned(),
    }
}

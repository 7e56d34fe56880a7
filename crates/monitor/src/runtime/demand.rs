//! [`RunQueue`]: tests that somebody asks for on the page of a monitor. The thread of the page leaves them here; the monitor fits each
//! into a gap of the timetable, and says when, or that there is none.

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

/// How long the thread of the page waits for the monitor, which it wakes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// What is asked for, on its way to the monitor.
#[derive(Debug)]
pub struct RunQueue {
    equipment: Arc<dyn Equipment>,
    /// The file, and this host's place in it.
    now: Mutex<(Arc<Model>, usize)>,
    queue: Mutex<Vec<QueuedRun>>,
    /// Wakes the monitor.
    waker: Waker,
}

/// A test that somebody asks for.
#[derive(Debug)]
pub struct QueuedRun {
    pub demand: DemandedTest,
    pub host: HostOffer,
    pub feed: RunFeed,
    /// Whether it is made.
    pub answer: SyncSender<Result<(), RunRefusal>>,
}

impl RunQueue {
    /// Of the host at this place of the file.
    pub fn new(model: Arc<Model>, host: usize, equipment: Arc<dyn Equipment>, waker: Waker) -> RunQueue {
        RunQueue { equipment, now: Mutex::new((model, host)), queue: Mutex::default(), waker }
    }

    /// Follows a new file.
    pub fn follow(&self, model: Arc<Model>, host: usize) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = (model, host);
    }

    /// What was asked for since the last call.
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
            hosts: others.chain(targets).collect(),
            tests: DemandedTest::offered(),
            profiles: profiles(),
        })
    }

    fn plan(&self, wish: &RunRequest, host: &HostOffer) -> Result<Planned, RunRefusal> {
        Ok(DemandedTest::of(wish, host, &*self.equipment)?.planned())
    }

    fn start(&self, wish: &RunRequest, host: &HostOffer, feed: RunFeed) -> Result<(), RunRefusal> {
        let demand = DemandedTest::of(wish, host, &*self.equipment)?;
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
    /// Whether it is not wanted any more.
    pub fn is_stopped(&self) -> bool {
        self.feed.stop().load(std::sync::atomic::Ordering::SeqCst)
    }

    /// The far host, if it is one of the file.
    pub fn far(&self) -> Option<&str> {
        (!self.host.only_answers).then_some(self.host.name.as_str())
    }

    /// Measures it.
    pub fn measure(self, equipment: &dyn Equipment, place: &TestPlacement<'_>) {
        self.demand.measure(equipment, place, self.feed);
    }
}

/// Why there is no time for a test.
pub fn refused(gap: NoGap) -> String {
    let within = text_of(MAX_WAIT.0);
    match gap {
        NoGap::TooShort(Some(most)) => {
            let most = most.0 / 1_000_000_000;
            format!(
                "the timetable has no gap for it within {within}, in which it would disturb no other test of both hosts; the longest one \
                 has room for a test of {most} s"
            )
        }
        NoGap::TooShort(None) => {
            format!(
                "the timetable has no gap within {within}, in which it would disturb no other test of both hosts"
            )
        }
        NoGap::NoHost => "the file does not have the far host any more".to_owned(),
    }
}

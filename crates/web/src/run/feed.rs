//! [`RunFeed`]: passes the events of a test to the clients that watch it.
//!
//! The thread that runs the test stores copies of the events in the feed and never blocks; watchers fetch them
//! periodically. If there are too many unfetched packets, further ones are only counted.

use super::watched::WatchedRun;
use super::{Planned, RunRequest};
use crate::events::Watchers;
use jitlat_archive::TestId;
use jitlat_core::observer::{Event, Observer, StreamProgress};
use jitlat_core::so_far::ReceivedSoFar;
use jitlat_core::{Direction, PacketRecord, Session, SteadyTime};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Maximum number of stored packets. Each takes 64 bytes.
const MAX_WAITING_PACKETS: usize = 1 << 18;

/// Progress of a test, without its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// The test was requested.
    Asked,
    /// The test will start at this time, ns since 1970.
    Waiting(i64),
    /// The test has started.
    Running,
    /// The test was measured idle, and is repeated under load.
    UnderLoad,
    /// The test has ended; its results are in the archive under these numbers.
    Ended(Vec<TestId>),
    /// The test has no result, for this reason.
    Failed(String),
}

impl RunStatus {
    fn is_over(&self) -> bool {
        matches!(self, RunStatus::Ended(_) | RunStatus::Failed(_))
    }
}

/// A test that was requested.
#[derive(Debug)]
pub struct LiveRun {
    pub id: String,
    pub wanted_test: RunRequest,
    pub planned: Planned,
    /// Time of the request, ns since 1970.
    pub created_ns: i64,
    stop: Arc<AtomicBool>,
    begun: Instant,
    news: Mutex<FeedNews>,
    pub watched: Mutex<WatchedRun>,
    pub watchers: Watchers,
}

/// Events that the watchers have not fetched yet.
#[derive(Debug)]
struct FeedNews {
    status: RunStatus,
    events: Vec<(SteadyTime, Happened)>,
    packets: usize,
    /// For each stream, true if its packets arrive at this host and are therefore known before the end of the test.
    here: Vec<bool>,
}

/// A stored event.
#[derive(Clone, Debug)]
enum Happened {
    Connecting(SocketAddr),
    Unanswered(SocketAddr),
    Probing {
        done: u32,
        of: u32,
    },
    Started(Vec<Session>),
    Progress(Vec<StreamProgress>),
    Arrived {
        stream: usize,
        records: Vec<PacketRecord>,
    },
    /// Records of a stream that arrived at the far host.
    Records {
        stream: usize,
        records: Vec<PacketRecord>,
    },
    Missed {
        stream: usize,
        packets: u64,
    },
    FarReceived {
        stream: usize,
        so_far: Box<ReceivedSoFar>,
    },
    Collecting {
        stream: usize,
        done: u64,
        of: u64,
    },
    Concluding(Vec<Session>),
    Finished(Vec<Session>),
}

impl Happened {
    /// Copies an event; `None` if watchers do not need it.
    fn of(event: &Event<'_>) -> Option<Happened> {
        Some(match *event {
            Event::Connecting(address) => Happened::Connecting(address),
            Event::Unanswered(address) => Happened::Unanswered(address),
            Event::Probing { done, of } => Happened::Probing { done, of },
            Event::Started(sessions) => Happened::Started(sessions.to_vec()),
            Event::Progress(progress) => Happened::Progress(progress.to_vec()),
            Event::Arrived { stream, records } => Happened::Arrived { stream, records: records.to_vec() },
            Event::Records { stream, records, .. } => Happened::Records { stream, records: records.to_vec() },
            Event::Missed { stream, packets } => Happened::Missed { stream, packets },
            Event::FarReceived { stream, so_far } => {
                Happened::FarReceived { stream, so_far: Box::new(*so_far) }
            }
            Event::Collecting { stream, done, of } => Happened::Collecting { stream, done, of },
            Event::Concluding(sessions) => Happened::Concluding(sessions.to_vec()),
            Event::Finished(sessions) => Happened::Finished(sessions.to_vec()),
            _ => return None,
        })
    }

    fn event(&self) -> Event<'_> {
        match self {
            Happened::Connecting(address) => Event::Connecting(*address),
            Happened::Unanswered(address) => Event::Unanswered(*address),
            Happened::Probing { done, of } => Event::Probing { done: *done, of: *of },
            Happened::Started(sessions) => Event::Started(sessions),
            Happened::Progress(progress) => Event::Progress(progress),
            Happened::Arrived { stream, records } => Event::Arrived { stream: *stream, records },
            Happened::Records { stream, records } => Event::Records { stream: *stream, records, tcp: &[] },
            Happened::Missed { stream, packets } => Event::Missed { stream: *stream, packets: *packets },
            Happened::FarReceived { stream, so_far } => Event::FarReceived { stream: *stream, so_far },
            Happened::Collecting { stream, done, of } => {
                Event::Collecting { stream: *stream, done: *done, of: *of }
            }
            Happened::Concluding(sessions) => Event::Concluding(sessions),
            Happened::Finished(sessions) => Event::Finished(sessions),
        }
    }
}

impl LiveRun {
    pub fn new(wanted_test: &RunRequest, planned: Planned, created_ns: i64) -> Arc<LiveRun> {
        Arc::new(LiveRun {
            id: identity(created_ns),
            watched: Mutex::new(WatchedRun::new(&wanted_test.host)),
            wanted_test: wanted_test.clone(),
            planned,
            created_ns,
            stop: Arc::default(),
            begun: Instant::now(),
            news: Mutex::new(FeedNews {
                status: RunStatus::Asked,
                events: Vec::new(),
                packets: 0,
                here: Vec::new(),
            }),
            watchers: Watchers::default(),
        })
    }

    fn news(&self) -> MutexGuard<'_, FeedNews> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn status(&self) -> RunStatus {
        self.news().status.clone()
    }

    pub fn is_over(&self) -> bool {
        self.news().status.is_over()
    }

    /// Requests the test to end. A second request also gives up results that the far host has not sent yet.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Returns the time since the request.
    pub fn now(&self) -> SteadyTime {
        SteadyTime(i64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(i64::MAX))
    }

    /// Returns the state, updated with all events so far.
    pub fn look(&self) -> MutexGuard<'_, WatchedRun> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let events = {
            let mut news = self.news();
            news.packets = 0;
            std::mem::take(&mut news.events)
        };
        events.iter().for_each(|(at, happened)| watched.event(&happened.event(), *at));
        watched
    }
}

/// Handle through which the runner of a test reports its progress. If it is dropped before [`RunFeed::ended`], the test has
/// failed.
#[derive(Debug)]
pub struct RunFeed(Arc<LiveRun>);

impl RunFeed {
    pub(super) fn new(run: Arc<LiveRun>) -> RunFeed {
        RunFeed(run)
    }

    /// Returns the id of the test.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Returns the flag that is set when the test should end.
    pub fn stop(&self) -> Arc<AtomicBool> {
        self.0.stop.clone()
    }

    /// Reports that the test starts at this time, ns since 1970.
    pub fn waits(&self, until_ns: i64) {
        self.0.news().status = RunStatus::Waiting(until_ns);
    }

    /// Reports that the test has started.
    pub fn started(&self) {
        self.0.news().status = RunStatus::Running;
    }

    /// Reports that the test was measured idle, and is repeated under load.
    pub fn under_load(&self) {
        self.0.news().status = RunStatus::UnderLoad;
    }

    /// Reports the end: the numbers of the results in the archive, or the reason why there are none.
    pub fn ended(&self, result: Result<Vec<TestId>, String>) {
        self.0.news().status = match result {
            Ok(tests) => RunStatus::Ended(tests),
            Err(why) => RunStatus::Failed(why),
        };
    }
}

impl Observer for RunFeed {
    fn event(&mut self, event: &Event<'_>) {
        let now = self.0.now();
        let mut news = self.0.news();
        if let Event::Started(sessions) = *event {
            let arrives = |s: &Session| s.two_way.is_some() || s.spec.direction() == Direction::Down;
            news.here = sessions.iter().map(arrives).collect();
        }
        // Watchers already have the packets of streams that arrive here.
        if let Event::Records { stream, .. } = *event
            && news.here.get(stream).copied().unwrap_or(true)
        {
            return;
        }
        let Some(mut happened) = Happened::of(event) else { return };
        if let Happened::Arrived { stream, records } | Happened::Records { stream, records } = &happened {
            if news.packets + records.len() > MAX_WAITING_PACKETS {
                // Nobody fetches the events: count the packets instead.
                happened = Happened::Missed { stream: *stream, packets: records.len() as u64 };
            } else {
                news.packets += records.len();
            }
        }
        news.events.push((now, happened));
    }
}

impl Drop for RunFeed {
    fn drop(&mut self) {
        if !self.0.is_over() {
            self.ended(Err("its thread failed (a bug in jitlat)".to_owned()));
        }
    }
}

/// Creates a unique id.
fn identity(created_ns: i64) -> String {
    let mut bytes = [0; 6];
    // If no random numbers are available, which is unlikely, the time alone is sufficiently unique.
    if getrandom::fill(&mut bytes).is_err() {
        bytes.copy_from_slice(&created_ns.to_le_bytes()[..6]);
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

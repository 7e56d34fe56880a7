#![allow(dead_code, reason = "each test uses a part")]
//! A runner whose tests happen without a network: both directions, with every event, at times that the calling test chooses.

use jitlat_archive::{Archive, TestId};
use jitlat_core::observer::{Event, Observer, StreamProgress};
use jitlat_core::so_far::{Latest, ReceivedSoFar};
use jitlat_core::{Direction, PacketRecord, Schedule, Session, Span, TestSpec, Transport, WallTime};
use jitlat_web::{
    HostOffer, PageRuns, Planned, RunFeed, RunLimits, RunOffer, RunRefusal, RunRequest, Runner, Starters,
    TestOffer,
};
use std::sync::{Arc, Mutex};

const MS: i64 = 1_000_000;

/// Stores the feeds of the tests that were started, so that the calling test can continue them.
#[derive(Debug, Default)]
pub struct Fake {
    pub any_host: bool,
    pub started: Mutex<Vec<(RunRequest, RunFeed)>>,
}

impl Runner for Fake {
    fn offer(&self, _: &Archive) -> Result<RunOffer, jitlat_archive::ArchiveError> {
        let host = |name: &str, address: &str, only_answers| HostOffer {
            name: name.to_owned(),
            address: address.to_owned(),
            only_answers,
        };
        let test =
            |id: &str, name: &str, one_way| TestOffer { id: id.to_owned(), name: name.to_owned(), one_way };
        Ok(RunOffer {
            from: "rome".to_owned(),
            hosts: vec![host("oslo", "10.0.0.2", false), host("192.0.2.1", "192.0.2.1", true)],
            any_host: self.any_host,
            tests: vec![test("udp", "one way, over UDP", true), test("icmp", "round trips, ICMP", false)],
            profiles: vec![("voice".to_owned(), "a call".to_owned())],
        })
    }

    fn plan(&self, wanted_test: &RunRequest, host: &HostOffer) -> Result<Planned, RunRefusal> {
        let wrong =
            |_| RunRefusal::Field("packets".to_owned(), format!("'{}' is no number", wanted_test.packets));
        let packets: u64 =
            if wanted_test.packets.is_empty() { 500 } else { wanted_test.packets.parse().map_err(wrong)? };
        Ok(Planned {
            about: format!("one way with {}", host.name),
            duration_ns: packets as i64 * 20 * MS,
            packets: packets * 2,
            bits_per_second: 50_000,
        })
    }

    fn start(&self, wanted_test: &RunRequest, _: &HostOffer, feed: RunFeed) -> Result<(), RunRefusal> {
        if wanted_test.period == "never" {
            return Err(RunRefusal::Busy("the timetable has no gap of 12 s within 10 min".to_owned()));
        }
        self.started.lock().unwrap().push((wanted_test.clone(), feed));
        Ok(())
    }
}

impl Fake {
    /// Returns the feed of the last test started.
    pub fn last(&self) -> RunFeed {
        self.started.lock().unwrap().pop().expect("a test was started").1
    }
}

/// Returns settings with this runner.
pub fn runs(fake: &Arc<Fake>, who: Starters) -> Option<PageRuns> {
    Some(PageRuns { runner: fake.clone(), who, limits: RunLimits::default() })
}

/// Sends the events of the first two seconds of a test in both directions.
pub fn two_seconds(feed: &mut RunFeed) {
    let spec = |way| TestSpec::new(way, Transport::Udp, 500, 80, Span::millis(20), Schedule::Periodic);
    let sessions = [Direction::Up, Direction::Down].map(|way| Session::new(spec(way).unwrap()));
    feed.started();
    feed.event(&Event::Connecting("10.0.0.2:2666".parse().unwrap()));
    feed.event(&Event::Probing { done: 3, of: 20 });
    feed.event(&Event::Started(&sessions));
    let records: Vec<PacketRecord> = (0..100i64)
        .filter(|k| !(40..50).contains(k))
        .map(|k| {
            let (sent, delay) = (k * 20 * MS, 5 * MS + k * 37 % 11 * MS / 10);
            PacketRecord::one_way(k, WallTime(sent), WallTime(sent + delay))
        })
        .collect();
    feed.event(&Event::Arrived { stream: 1, records: &records });
    let delays = [5, 5, 6, 7, 8, 9, 12, 30].map(|ms| ms * MS);
    let latest = Latest { received: 45, delays: Some([5 * MS, 7 * MS, 12 * MS, 30 * MS]) };
    let so_far =
        ReceivedSoFar { received: 95, missing: 5, delays: Some(delays), latest, ..ReceivedSoFar::default() };
    feed.event(&Event::FarReceived { stream: 0, so_far: &so_far });
    let progress = |sent, received| StreamProgress { packets: 500, sent, received, missing: 0 };
    feed.event(&Event::Progress(&[progress(100, 0), progress(0, 90)]));
}

/// Sends the packets of the forward direction, which the far host had.
pub fn records(feed: &mut RunFeed) {
    let record =
        |k: i64| PacketRecord::one_way(k, WallTime(k * 20 * MS), WallTime(k * 20 * MS + 6 * MS + k % 5 * MS));
    let records: Vec<PacketRecord> = (0..100).filter(|k| *k != 7 && *k != 8).map(record).collect();
    feed.event(&Event::Records { stream: 0, records: &records, tcp: &[] });
}

/// Ends the test, with the tests of `archive` as its result.
pub fn end(feed: &RunFeed, archive: &Archive) -> Vec<TestId> {
    let tests: Vec<TestId> = archive.newest().unwrap().iter().take(2).map(|newest| newest.test).collect();
    feed.ended(Ok(tests.clone()));
    tests
}

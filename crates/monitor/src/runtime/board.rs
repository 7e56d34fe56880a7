//! [`NewsBoard`]: news of this host in addition to its results, namely slots without a result and routes, for the
//! threads that push to collectors. The news is in memory only, so that it is pushed even if the disk is full.

use crate::alert::SlotReport;
use jitlat_archive::{ReportedSlot, Route};
use jitlat_net::wake::Waker;
use jitlat_proto::push::answer::{LostSlot, SeenRoute};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// News of this host, the newest of each path.
#[derive(Clone, Debug, Default)]
pub struct NewsBoard(Arc<Mutex<Board>>);

#[derive(Debug, Default)]
struct Board {
    /// Number of the last entry.
    last: u64,
    slots: BTreeMap<[String; 2], (u64, LostSlot)>,
    routes: BTreeMap<[String; 2], (u64, SeenRoute)>,
    wakers: Vec<Waker>,
}

/// News after a number, and the number to continue with.
#[derive(Debug, Default)]
pub struct News {
    pub number: u64,
    pub slots: Vec<LostSlot>,
    pub routes: Vec<SeenRoute>,
}

impl NewsBoard {
    /// Adds a waker, which is woken whenever news is added.
    pub fn wake(&self, waker: Waker) {
        self.lock().wakers.push(waker);
    }

    /// Forgets all wakers, because the threads that they wake have ended.
    pub fn forget_wakers(&self) {
        self.lock().wakers.clear();
    }

    /// Adds a report.
    pub fn report(&self, report: &SlotReport) {
        let slot = reported(report);
        let ReportedSlot { test, server, at_ns, since_ns, fault, reason, .. } = slot;
        let key = [test.clone(), server.clone()];
        self.add(|board, number| {
            let slot = LostSlot { test, server, at_ns, since_ns, fault, reason };
            board.slots.insert(key, (number, slot));
        });
    }

    /// Adds a route.
    pub fn route(&self, seen: &Route) {
        let Route { route, dst, first_ns, last_ns, hops, .. } = seen.clone();
        let key = [route.clone(), dst.clone()];
        self.add(|board, number| {
            let seen = SeenRoute { route, dst, first_ns, last_ns, hops };
            board.routes.insert(key, (number, seen));
        });
    }

    fn add(&self, change: impl FnOnce(&mut Board, u64)) {
        let mut board = self.lock();
        board.last += 1;
        let number = board.last;
        change(&mut board, number);
        board.wakers.iter().for_each(Waker::wake);
    }

    /// Returns at most `most` slots and routes that were added after `number`.
    pub fn after(&self, number: u64, most: usize) -> News {
        let board = self.lock();
        let slots = board.slots.values().map(|(number, slot)| (*number, Some(slot), None));
        let routes = board.routes.values().map(|(number, route)| (*number, None, Some(route)));
        let mut all: Vec<_> = slots.chain(routes).filter(|entry| entry.0 > number).collect();
        all.sort_unstable_by_key(|entry| entry.0);
        all.truncate(most);
        News {
            number: all.last().map_or(number, |entry| entry.0),
            slots: all.iter().filter_map(|entry| entry.1.cloned()).collect(),
            routes: all.iter().filter_map(|entry| entry.2.cloned()).collect(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Converts a report to the form in which an archive stores it.
pub fn reported(report: &SlotReport) -> ReportedSlot {
    let fault = match (report.is_own_fault, report.is_not_stored) {
        (_, true) => LostSlot::FAULTS[2],
        (true, false) => LostSlot::FAULTS[1],
        (false, false) => LostSlot::FAULTS[0],
    };
    ReportedSlot {
        test: report.test.clone(),
        client: report.client.clone(),
        server: report.server.clone(),
        at_ns: report.at_ns,
        since_ns: report.since_ns,
        fault: fault.to_owned(),
        reason: report.reason.clone(),
    }
}

/// Converts a stored report to the form that the judge takes.
pub fn report_of(stored: ReportedSlot) -> SlotReport {
    SlotReport {
        is_own_fault: stored.fault != LostSlot::FAULTS[0],
        is_not_stored: stored.fault == LostSlot::FAULTS[2],
        test: stored.test,
        client: stored.client,
        server: stored.server,
        at_ns: stored.at_ns,
        since_ns: stored.since_ns,
        reason: stored.reason,
    }
}

//! [`PathHistory`]: the hops of a path while they are probed, in bounded memory. [`PathEvent`]: an event of the probing.

use crate::distribution::{LogHistogram, Precision};
use crate::live::{DelayHistory, HistoryBucket};
use crate::path::{Label, Path, PathEnd, ProbeReply};
use crate::summary::Percent;
use crate::time::{Span, SteadyTime, WallTime};
use core::net::IpAddr;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of a flow, from 1: all probes of a flow have the same addresses and ports, so that routers which balance load by
/// these send them along one route.
pub type FlowNumber = u16;

/// A probe of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Number of the probe on this path, from 0.
    pub number: u64,
    /// TTL of the probe.
    pub ttl: u8,
    /// Flow that the probe belongs to.
    pub flow: FlowNumber,
}

/// An event while a path is probed.
#[derive(Clone, Copy, Debug)]
pub enum PathEvent<'a> {
    /// A probe was sent.
    Sent(Probe),
    /// A probe was answered within its timeout, or a router reported the destination as unreachable, also later.
    Answered(Probe, &'a ProbeReply),
    /// This many rounds are complete: each hop was probed that often.
    Round(u32),
}

/// A change of the router at a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HopChange {
    /// Time at which the change was confirmed, ns since 1970.
    pub at: WallTime,
    /// TTL of the hop.
    pub ttl: u8,
    /// Flow whose route changed, from 1.
    pub flow: FlowNumber,
    /// Router before the change.
    pub from: IpAddr,
    /// Router after the change.
    pub to: IpAddr,
}

/// Probes of a hop that were sent during an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HopInterval {
    /// Start of the interval, ns since the first probe of the path.
    pub from_ns: i64,
    /// End of the interval, ns since the first probe of the path.
    pub to_ns: i64,
    /// Number of answered probes.
    pub answered: u32,
    /// Number of probes that were not answered within the timeout.
    pub unanswered: u32,
    /// Smallest round-trip time, ns; `None` without answers.
    pub min_ns: Option<i64>,
    /// Largest round-trip time, ns; `None` without answers.
    pub max_ns: Option<i64>,
}

/// A router or host that answered at a hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HopAddress {
    /// Address of the responder.
    pub address: IpAddr,
    /// Number of its answers.
    pub answers: u64,
    /// Flows whose probes it answered.
    pub flows: BTreeSet<FlowNumber>,
}

/// Maximum number of addresses that are stored for a hop: a forged answer must not grow the memory without limit.
const MAX_ADDRESSES: usize = 16;
/// Maximum number of stored changes; the oldest are dropped first.
const MAX_CHANGES: usize = 1000;
/// Maximum number of intervals of a hop in a report.
const MAX_INTERVALS: i64 = 360;
/// Number of successive answers of another router that confirm a change of the route.
const CONFIRMING_ANSWERS: u32 = 3;
/// Precision of median and 99th percentile.
const PRECISION: Precision = Precision::FLOW;

/// A hop while it is probed.
#[derive(Clone, Debug)]
pub struct HopHistory {
    /// TTL of the probes.
    pub ttl: u8,
    /// Number of probes sent.
    pub sent: u64,
    /// Number of probes answered.
    pub answered: u64,
    /// Number of probes that were not answered within the timeout.
    pub unanswered: u64,
    /// Round-trip time of the last answer; `None` before the first.
    pub last: Option<Span>,
    /// Responders, in the order of their first answers.
    pub addresses: Vec<HopAddress>,
    /// Number of probes by the TOS octet or traffic class with which they arrived at this hop.
    pub traffic_classes: BTreeMap<u8, u64>,
    /// MPLS labels of the last answered probe at this hop, outermost first.
    pub labels: Vec<Label>,
    /// Reason why the path ends at this hop, from the last answer; `None` if it continues.
    pub end: Option<PathEnd>,
    /// Code with which the router of this hop reports that the destination is unreachable, about probes of later hops; `None` if
    /// it does not, or if a later hop has answered since.
    pub report: Option<u8>,
    /// Round-trip times and missing answers by time since the first probe of the path.
    pub history: DelayHistory,
    delays: LogHistogram,
    /// Probes that may still be answered, in the order of sending.
    waiting: VecDeque<(u64, SteadyTime)>,
}

impl HopHistory {
    fn new(ttl: u8) -> HopHistory {
        HopHistory {
            ttl,
            sent: 0,
            answered: 0,
            unanswered: 0,
            last: None,
            addresses: Vec::new(),
            traffic_classes: BTreeMap::new(),
            labels: Vec::new(),
            end: None,
            report: None,
            history: DelayHistory::default(),
            delays: LogHistogram::new(PRECISION),
            waiting: VecDeque::new(),
        }
    }

    /// Returns the reason why the path ends at this hop, from its own answers or its router's reports about later hops; `None` if it
    /// continues.
    pub fn ending(&self) -> Option<PathEnd> {
        self.end.or(self.report.map(PathEnd::Unreachable))
    }

    /// Returns the share of unanswered probes, in percent. Probes that may still be answered are not counted; `None` without
    /// any other probe.
    pub fn unanswered_pct(&self) -> Option<f64> {
        let all = self.answered + self.unanswered;
        (all > 0).then(|| 100.0 * self.unanswered as f64 / all as f64)
    }

    /// Returns the smallest round-trip time, in ns; `None` before the first answer.
    pub fn best(&self) -> Option<i64> {
        self.delays.min()
    }

    /// Returns the median round-trip time, in ns; `None` before the first answer.
    pub fn median(&self) -> Option<i64> {
        self.delays.quantiles().edf(Percent(50_000))
    }

    /// Returns the 99th percentile of the round-trip time, in ns; `None` before the first answer.
    pub fn p99(&self) -> Option<i64> {
        self.delays.quantiles().edf(Percent(99_000))
    }

    /// Returns the difference between the 99th percentile and the smallest round-trip time, in ns; `None` before the first
    /// answer.
    pub fn jitter(&self) -> Option<i64> {
        Some(self.p99()?.saturating_sub(self.best()?))
    }

    /// Returns the most frequent responder; `None` before the first answer.
    pub fn main_address(&self) -> Option<&HopAddress> {
        // `max_by_key` returns the last maximum. The order is reversed so that the earliest of several equally frequent
        // responders is chosen, and a live view does not alternate between them.
        self.addresses.iter().rev().max_by_key(|responder| responder.answers)
    }

    fn answer(&mut self, flow: FlowNumber, reply: &ProbeReply) {
        self.answered += 1;
        self.last = Some(reply.rtt);
        self.delays.add(reply.rtt.0);
        self.labels.clone_from(&reply.labels);
        self.end = reply.end;
        if let Some(octet) = reply.traffic_class {
            *self.traffic_classes.entry(octet).or_default() += 1;
        }
        let has_room = self.addresses.len() < MAX_ADDRESSES;
        match self.addresses.iter_mut().find(|responder| responder.address == reply.from) {
            Some(known) => {
                known.answers += 1;
                known.flows.insert(flow);
            }
            None if has_room => {
                self.addresses.push(HopAddress { address: reply.from, answers: 1, flows: [flow].into() });
            }
            None => {}
        }
    }
}

/// Router of a flow at a hop, and another one that may replace it.
#[derive(Clone, Copy, Debug)]
struct RouterOfFlow {
    address: IpAddr,
    other: Option<(IpAddr, u32)>,
}

/// The hops of a path while they are probed.
#[derive(Clone, Debug)]
pub struct PathHistory {
    /// Changes of the route, in the order in which they were confirmed.
    pub changes: VecDeque<HopChange>,
    /// Number of complete rounds.
    pub rounds: u32,
    timeout: Span,
    /// Time of the first probe; `None` before it.
    start: Option<SteadyTime>,
    hops: Vec<HopHistory>,
    /// TTL at which the route of a flow ends.
    ends: BTreeMap<FlowNumber, u8>,
    routers: BTreeMap<(FlowNumber, u8), RouterOfFlow>,
}

impl PathHistory {
    /// Creates the history of a path before its first probe; `timeout` is the time after which a probe
    /// counts as unanswered.
    pub fn new(timeout: Span) -> PathHistory {
        PathHistory {
            changes: VecDeque::new(),
            rounds: 0,
            timeout,
            start: None,
            hops: Vec::new(),
            ends: BTreeMap::new(),
            routers: BTreeMap::new(),
        }
    }

    /// Updates the history with an event that happened at `now`; `at` is the same moment on the wall clock.
    pub fn event(&mut self, event: &PathEvent<'_>, now: SteadyTime, at: WallTime) {
        match *event {
            PathEvent::Round(rounds) => self.rounds = rounds,
            PathEvent::Sent(probe) => {
                self.start.get_or_insert(now);
                let ttl = probe.ttl.max(1);
                while self.hops.len() < usize::from(ttl) {
                    self.hops.push(HopHistory::new(self.hops.len() as u8 + 1));
                }
                let hop = &mut self.hops[usize::from(ttl) - 1];
                hop.sent += 1;
                hop.waiting.push_back((probe.number, now));
                self.expire(now);
            }
            PathEvent::Answered(probe, reply) => self.answered(probe, reply, at),
        }
    }

    fn answered(&mut self, probe: Probe, reply: &ProbeReply, at: WallTime) {
        let Some(start) = self.start else { return };
        if let Some(ttl) = reply.reported_by {
            // The probe has no answer of its hop, and counts as unanswered after its timeout.
            let router = usize::from(ttl).checked_sub(1).and_then(|k| self.hops.get_mut(k));
            if let (Some(router), Some(PathEnd::Unreachable(code))) = (router, reply.end) {
                router.report = Some(code);
            }
            return;
        }
        let Some(hop) = usize::from(probe.ttl).checked_sub(1).and_then(|k| self.hops.get_mut(k)) else {
            return;
        };
        let Some(k) = hop.waiting.iter().position(|(number, _)| *number == probe.number) else { return };
        let Some((_, sent)) = hop.waiting.remove(k) else { return };
        hop.history.received((sent - start).0, reply.rtt.0);
        hop.answer(probe.flow, reply);
        // Something behind these routers answers again.
        self.hops.iter_mut().take(usize::from(probe.ttl) - 1).for_each(|earlier| earlier.report = None);
        match (reply.end, self.ends.get(&probe.flow).copied()) {
            (Some(PathEnd::Destination), known) if known.is_none_or(|known| probe.ttl < known) => {
                self.ends.insert(probe.flow, probe.ttl);
            }
            (Some(PathEnd::Unreachable(_)), None) => drop(self.ends.insert(probe.flow, probe.ttl)),
            // A router answers at the hop where the path ended before: the path has become longer.
            (None, Some(known)) if probe.ttl >= known => drop(self.ends.remove(&probe.flow)),
            _ => {}
        }
        if self.ends.get(&probe.flow).is_none_or(|end| probe.ttl <= *end) {
            self.follow_route(probe, reply.from, at);
        }
    }

    /// Compares the responder of a hop with the earlier one, and records a change once it is confirmed.
    fn follow_route(&mut self, probe: Probe, from: IpAddr, at: WallTime) {
        let router = self
            .routers
            .entry((probe.flow, probe.ttl))
            .or_insert(RouterOfFlow { address: from, other: None });
        if router.address == from {
            router.other = None;
            return;
        }
        let answers = router.other.filter(|(other, _)| *other == from).map_or(1, |(_, answers)| answers + 1);
        if answers < CONFIRMING_ANSWERS {
            router.other = Some((from, answers));
            return;
        }
        let change = HopChange { at, ttl: probe.ttl, flow: probe.flow, from: router.address, to: from };
        *router = RouterOfFlow { address: from, other: None };
        if self.changes.len() == MAX_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
    }

    /// Counts probes as unanswered whose timeout is over at `now`.
    pub fn expire(&mut self, now: SteadyTime) {
        let Some(start) = self.start else { return };
        for hop in &mut self.hops {
            while let Some((_, sent)) =
                hop.waiting.front().copied().filter(|(_, sent)| now - *sent > self.timeout)
            {
                hop.waiting.pop_front();
                hop.unanswered += 1;
                let at = (sent - start).0;
                hop.history.missing([at, at], 1);
            }
        }
    }

    /// Returns the hops up to the end of the longest route, or to the last hop that answered.
    pub fn hops(&self) -> &[HopHistory] {
        let answered = self.hops.iter().rposition(|hop| hop.answered > 0).map_or(0, |k| k + 1);
        let is_open = self.routers.keys().any(|(flow, _)| !self.ends.contains_key(flow));
        let end = self.ends.values().max().filter(|_| !is_open).map_or(answered, |end| usize::from(*end));
        &self.hops[..end.min(self.hops.len())]
    }

    /// Number of hops beyond the last one shown that are still probed without an answer.
    pub fn silent_hops(&self) -> usize {
        if self.is_reached() { 0 } else { self.hops.len() - self.hops().len() }
    }

    /// True if the destination, or a router that reports it as unreachable, answered.
    pub fn is_reached(&self) -> bool {
        !self.ends.is_empty() || self.hops.iter().any(|hop| hop.report.is_some())
    }

    /// Adds the changes of the route, and the history of each hop until `now`, to the report of the same probes.
    pub fn complete(mut self, path: &mut Path, now: SteadyTime) {
        self.expire(now);
        const SECOND: i64 = 1_000_000_000;
        // Whole seconds, because a period is usually one second or more.
        let covered = self.covered(now) / SECOND + 1;
        let step = (covered / MAX_INTERVALS + 1) * SECOND;
        let intervals = covered * SECOND / step + 1;
        for (hop, seen) in path.hops.iter_mut().zip(&self.hops) {
            let columns = seen.history.columns([0, intervals * step], intervals as usize);
            let interval = |(k, column): (i64, &HistoryBucket)| HopInterval {
                from_ns: k * step,
                to_ns: (k + 1) * step,
                answered: column.received,
                unanswered: column.missing,
                min_ns: (column.received > 0).then_some(column.low),
                max_ns: (column.received > 0).then_some(column.high),
            };
            let with_probes = (0..).zip(&columns).filter(|(_, c)| c.received + c.missing > 0);
            hop.history = with_probes.map(interval).collect();
        }
        path.changes = self.changes.into();
    }

    /// Time since the first probe, in ns; at least one second, so that a time axis has a length.
    pub fn covered(&self, now: SteadyTime) -> i64 {
        self.start.map_or(0, |start| (now - start).0).max(1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Span = Span::seconds(2);
    const FAR: u8 = 99;

    fn at(ms: i64) -> SteadyTime {
        SteadyTime(0) + Span::millis(ms)
    }

    /// A history, with probes that are answered by a router of this number after 10 ms.
    struct Trial {
        path: PathHistory,
        now: i64,
        number: u64,
    }

    impl Trial {
        fn new() -> Trial {
            Trial { path: PathHistory::new(TIMEOUT), now: 0, number: 0 }
        }

        fn probe(&mut self, flow: FlowNumber, ttl: u8, router: Option<u8>) {
            let probe = Probe { number: self.number, ttl, flow };
            self.number += 1;
            self.path.event(&PathEvent::Sent(probe), at(self.now), WallTime(0));
            let Some(last) = router else { return };
            let reply = ProbeReply {
                from: [192, 0, 2, last].into(),
                flow,
                rtt: Span::millis(10),
                traffic_class: Some(0xb8),
                labels: Vec::new(),
                end: (last == FAR).then_some(PathEnd::Destination),
                reported_by: None,
            };
            let answered = PathEvent::Answered(probe, &reply);
            self.path.event(&answered, at(self.now + 10), WallTime(self.now));
            // A repeated answer does not count.
            self.path.event(&answered, at(self.now + 11), WallTime(self.now));
        }

        /// One round over `routers`.
        fn round(&mut self, routers: &[Option<u8>]) {
            for (ttl, router) in (1..).zip(routers) {
                self.probe(1, ttl, *router);
            }
            self.now += 1000;
        }
    }

    #[test]
    fn hops_behind_a_router_that_reports_unreachable_are_counted_until_they_answer_again() {
        let mut trial = Trial::new();
        trial.round(&[Some(1), Some(2), Some(FAR)]);
        for _ in 0..3 {
            trial.round(&[Some(1), Some(2)]);
            // The router at hop 2 answers for the destination.
            let probe = Probe { number: trial.number, ttl: 3, flow: 1 };
            trial.number += 1;
            trial.path.event(&PathEvent::Sent(probe), at(trial.now), WallTime(0));
            let reply = ProbeReply {
                from: [192, 0, 2, 2].into(),
                flow: 1,
                rtt: Span::millis(10),
                traffic_class: None,
                labels: Vec::new(),
                end: Some(PathEnd::Unreachable(1)),
                reported_by: Some(2),
            };
            trial.path.event(&PathEvent::Answered(probe, &reply), at(trial.now + 10), WallTime(0));
            trial.now += 3000;
        }
        trial.path.expire(at(trial.now));
        let hops = trial.path.hops();
        let far = &hops[2];
        assert_eq!((hops.len(), far.sent, far.answered, far.unanswered), (3, 4, 1, 3));
        assert_eq!(hops[1].ending(), Some(PathEnd::Unreachable(1)));
        trial.round(&[Some(1), Some(2), Some(FAR)]);
        assert_eq!(trial.path.hops()[1].ending(), None);
    }

    #[test]
    fn a_probe_counts_as_unanswered_only_after_its_timeout() {
        let mut trial = Trial::new();
        trial.round(&[Some(1), None, Some(FAR), Some(FAR), Some(FAR)]);
        let hops = trial.path.hops();
        assert_eq!(hops.len(), 3, "probes that went beyond the destination are not hops");
        assert_eq!(hops[1].unanswered_pct(), None);
        assert_eq!((hops[2].answered, hops[2].median()), (1, Some(10_000_000)));
        trial.path.expire(at(2001));
        assert_eq!(trial.path.hops()[1].unanswered_pct(), Some(100.0));
        assert_eq!(trial.path.hops()[0].unanswered_pct(), Some(0.0));
        assert!(trial.path.is_reached());
    }

    #[test]
    fn a_change_is_confirmed_and_one_answer_of_another_router_is_not() {
        let mut trial = Trial::new();
        let usual = [Some(1), Some(2), Some(FAR)];
        trial.round(&usual);
        trial.round(&[Some(1), Some(3), Some(FAR)]);
        trial.round(&usual);
        assert!(trial.path.changes.is_empty());
        for _ in 0..CONFIRMING_ANSWERS {
            trial.round(&[Some(1), Some(3), Some(FAR)]);
        }
        let [change] = trial.path.changes.make_contiguous() else { panic!() };
        assert_eq!((change.ttl, change.flow, change.at), (2, 1, WallTime(5000)));
        assert_eq!((change.from, change.to), ([192, 0, 2, 2].into(), [192, 0, 2, 3].into()));
        let addresses: Vec<u64> = trial.path.hops()[1].addresses.iter().map(|a| a.answers).collect();
        assert_eq!(addresses, [2, 4]);
    }

    #[test]
    fn a_report_has_the_hops_over_time_in_a_bounded_number_of_intervals() {
        let mut trial = Trial::new();
        for round in 0..1000 {
            trial.round(&[Some(1), if round < 500 { Some(FAR) } else { None }]);
        }
        let replies = [crate::path::HopReplies::default(), crate::path::HopReplies::default()];
        let ends = [[192, 0, 2, 100].into(), [192, 0, 2, FAR].into()];
        let reply = |last| ProbeReply {
            from: [192, 0, 2, last].into(),
            flow: 1,
            rtt: Span::millis(10),
            traffic_class: None,
            labels: Vec::new(),
            end: (last == FAR).then_some(PathEnd::Destination),
            reported_by: None,
        };
        let [mut one, mut two] = replies;
        one.add(&reply(1));
        two.add(&reply(FAR));
        let probes = (crate::Transport::Udp, 33_434, crate::Dscp::default());
        let mut path = Path::new(ends, probes, &[one, two]);
        trial.path.complete(&mut path, at(1_000_000 + 3000));
        let history = &path.hops[1].history;
        assert!(history.len() <= MAX_INTERVALS as usize, "{}", history.len());
        let sum = |of: fn(&HopInterval) -> u32| history.iter().map(of).sum::<u32>();
        assert_eq!((sum(|i| i.answered), sum(|i| i.unanswered)), (500, 500));
        let first = history.first().unwrap();
        assert_eq!((first.from_ns, first.min_ns, first.unanswered), (0, Some(10_000_000), 0));
        assert_eq!(history.last().unwrap().max_ns, None);
    }

    #[test]
    fn a_path_that_becomes_longer_is_shown_to_its_new_end() {
        let mut trial = Trial::new();
        trial.round(&[Some(1), Some(FAR)]);
        assert_eq!(trial.path.hops().len(), 2);
        trial.round(&[Some(1), Some(2), Some(FAR)]);
        assert_eq!(trial.path.hops().len(), 3);
        trial.round(&[Some(1), Some(FAR), Some(FAR)]);
        assert_eq!(trial.path.hops().len(), 2);
    }

    #[test]
    fn routers_of_several_flows_are_told_apart() {
        let mut trial = Trial::new();
        for _ in 0..6 {
            for (flow, router) in [(1, 2), (2, 3)] {
                trial.probe(flow, 1, Some(1));
                trial.probe(flow, 2, Some(router));
                trial.probe(flow, 3, Some(FAR));
            }
            trial.now += 1000;
        }
        assert!(trial.path.changes.is_empty(), "{:?}", trial.path.changes);
        let hop = &trial.path.hops()[1];
        let flows: Vec<Vec<u16>> = hop.addresses.iter().map(|a| a.flows.iter().copied().collect()).collect();
        assert_eq!(flows, [[1], [2]]);
        assert_eq!(hop.main_address().unwrap().address, IpAddr::from([192, 0, 2, 2]));
    }

    #[test]
    fn forged_answers_take_bounded_memory() {
        let mut trial = Trial::new();
        for k in 0..20_000u64 {
            trial.probe(1, 1, Some((k % 90) as u8));
        }
        assert_eq!(trial.path.hops()[0].addresses.len(), MAX_ADDRESSES);
        assert!(trial.path.changes.len() <= MAX_CHANGES);
    }
}

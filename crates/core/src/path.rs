//! [`Path`]: the routers between two hosts, and the delay, DSCP, marks (ECN) and MPLS labels at each.

use crate::distribution::histogram::Bins;
use crate::distribution::percentile::{DEFAULT_PERCENTS, Method};
use crate::distribution::{Distribution, DistributionRequest, LogHistogram, Precision};
use crate::ecn::{ByMark, Ecn};
use crate::metrics::moments::Moments;
use crate::path_history::{FlowNumber, HopChange, HopInterval};
use crate::spec::{Dscp, Transport};
use crate::time::Span;
use crate::units::eng4;
use core::net::IpAddr;
use serde::Serialize;
use std::collections::BTreeMap;

/// An entry of an MPLS label stack (RFC 3032).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Label {
    /// The label, 20 bits.
    pub label: u32,
    /// Traffic class, 0…7.
    pub traffic_class: u8,
    /// True if the label is the last entry of its stack.
    pub bottom: bool,
    /// Time to live of the label.
    pub ttl: u8,
}

/// Reason why a path ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PathEnd {
    /// The destination answered.
    Destination,
    /// A router reported that the destination is unreachable, with this ICMP or ICMPv6 code.
    Unreachable(u8),
}

/// Describes the code of an ICMP (RFC 792, RFC 1812) or ICMPv6 (RFC 4443) message "destination unreachable" from the
/// router `from`: `no route to the host (code 0)`.
pub fn unreachable_in_words(from: IpAddr, code: u8) -> String {
    let known = match (from.to_canonical(), code) {
        (IpAddr::V4(_), 0 | 6) | (IpAddr::V6(_), 0) => "no route to the host",
        (IpAddr::V4(_), 1 | 7) | (IpAddr::V6(_), 3) => "the last router cannot reach the host",
        (IpAddr::V4(_), 2) => "the host does not have the protocol",
        (IpAddr::V4(_), 3) | (IpAddr::V6(_), 4) => "nothing listens at the port",
        (IpAddr::V4(_), 4) => "the packet is too large",
        (IpAddr::V4(_), 9 | 10 | 13) | (IpAddr::V6(_), 1) => "this traffic is prohibited",
        (IpAddr::V6(_), 2) => "the host is beyond the scope of the source address",
        (IpAddr::V6(_), 5) => "the source address is prohibited",
        (IpAddr::V6(_), 6) => "the route is rejected",
        _ => "no known reason",
    };
    format!("{known} (code {code})")
}

/// An answer to a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReply {
    /// The sender of the answer.
    pub from: IpAddr,
    /// Flow of the probe, from 1.
    pub flow: FlowNumber,
    /// Time from the probe to the answer.
    pub rtt: Span,
    /// TOS octet or traffic class that the probe had when it arrived at this hop; `None` if the answer does not quote
    /// the probe's IP header.
    pub traffic_class: Option<u8>,
    /// MPLS labels of the probe at this hop, outermost first.
    pub labels: Vec<Label>,
    /// Reason why the path ends at this responder; `None` if the path continues.
    pub end: Option<PathEnd>,
    /// TTL of the responder, if it is a router at an earlier hop which reports that the destination is unreachable. The probe then
    /// has no answer of the hop at which it would expire. `None` for all other answers.
    pub reported_by: Option<u8>,
}

/// A router or host that answered at a hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Responder {
    /// Address of the responder.
    pub address: IpAddr,
    /// Number of answers from this responder.
    pub answers: u64,
    /// Flows whose probes it answered, from 1.
    pub flows: Vec<FlowNumber>,
    /// Name of the address; `None` if it is unknown or was not asked for.
    pub name: Option<String>,
    /// Autonomous system that announces the address, such as AS64500; `None` if it is unknown or was not asked for.
    pub origin: Option<String>,
}

impl Responder {
    fn new(address: IpAddr) -> Responder {
        Responder { address, answers: 0, flows: Vec::new(), name: None, origin: None }
    }
}

/// A hop: the point at which packets with a given TTL expire.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hop {
    /// TTL of the probes.
    pub ttl: u8,
    /// Number of probes sent.
    pub sent: u64,
    /// Number of probes answered.
    pub answered: u64,
    /// Routers that answered, most frequent first; several if packets take different routes.
    pub responders: Vec<Responder>,
    /// Round-trip times of answered probes, in ns.
    pub rtt: Distribution,
    /// Number of probes that arrived at this hop, by their DSCP on arrival; empty if no answer quotes a DSCP.
    pub dscp: BTreeMap<u8, u64>,
    /// Number of probes that arrived at this hop, by their mark (ECN field) on arrival; `None` if no answer quotes it.
    pub ecn: Option<ByMark<u64>>,
    /// MPLS labels that the last answered probe had when it arrived at this hop, outermost first.
    pub labels: Vec<Label>,
    /// Reason why the path ends at this hop; `None` if the path continues.
    pub end: Option<PathEnd>,
    /// Number of probes of later hops for which this router reported that the destination is unreachable.
    pub unreachable: u64,
    /// The hop over time, in intervals of equal length; intervals without a probe are left out.
    pub history: Vec<HopInterval>,
}

/// A change of the DSCP from one hop to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rewrite {
    /// TTL of the last hop at which packets arrive unchanged; 0 is this host.
    pub after_ttl: u8,
    /// TTL of the first hop at which packets arrive changed.
    pub at_ttl: u8,
    /// DSCP before the change.
    pub from: u8,
    /// DSCP after the change.
    pub to: u8,
}

/// A change of the mark (ECN field) from one hop to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MarkChange {
    /// TTL of the last hop at which packets arrive unchanged; 0 is this host.
    pub after_ttl: u8,
    /// TTL of the first hop at which packets arrive changed.
    pub at_ttl: u8,
    /// Mark before the change.
    pub from: Ecn,
    /// Mark after the change.
    pub to: Ecn,
    /// Number of answers of the first changed hop that quote the mark after the change.
    pub answers: u64,
    /// Number of answers of that hop that quote a mark.
    pub of_answers: u64,
}

/// The routers between this host and the destination.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Path {
    /// Address of this host.
    pub source: IpAddr,
    /// Address of the far host.
    pub destination: IpAddr,
    /// Protocol of the probes: 17 UDP, 6 TCP.
    pub proto: u8,
    /// Destination port of the probes.
    pub port: u16,
    /// DSCP of the probes.
    pub dscp: u8,
    /// True if the destination answered.
    pub reached: bool,
    /// Hops by TTL, up to the destination or to the last hop that answered.
    pub hops: Vec<Hop>,
    /// Changes of the DSCP along the path.
    pub rewrites: Vec<Rewrite>,
    /// Changes of the routers during the examination, each confirmed by several answers.
    pub changes: Vec<HopChange>,
    /// Mark (ECN field) of the probes.
    pub mark: Ecn,
    /// Changes of the mark along the path.
    pub mark_changes: Vec<MarkChange>,
    /// Notes about requested settings that could not be applied.
    pub notes: Vec<String>,
    /// Largest TTL of the probes; `None` if it is unknown.
    #[serde(skip)]
    pub max_hops: Option<u8>,
}

/// Maximum number of routers that are stored for a hop: forged answers must not grow the memory without limit.
const MAX_RESPONDERS: usize = 64;
/// Precision of the round-trip times: exact for the first ten thousand answers of a hop, in bounded memory.
const PRECISION: Precision = Precision { exact: 10_000, bits: 7 };

/// Probes of one hop so far, and their answers, in bounded memory.
#[derive(Clone, Debug)]
pub struct HopReplies {
    sent: u64,
    answered: u64,
    responders: Vec<Responder>,
    dscp: BTreeMap<u8, u64>,
    ecn: Option<ByMark<u64>>,
    labels: Vec<Label>,
    delays: LogHistogram,
    moments: Moments,
    end: Option<PathEnd>,
    /// For each flow, true if its latest answer ended the route.
    ended: BTreeMap<FlowNumber, bool>,
    /// Number of reports that the destination is unreachable about probes of later hops, and the code of the last one.
    reports: (u64, Option<u8>),
}

impl Default for HopReplies {
    fn default() -> HopReplies {
        HopReplies {
            sent: 0,
            answered: 0,
            responders: Vec::new(),
            dscp: BTreeMap::new(),
            ecn: None,
            labels: Vec::new(),
            delays: LogHistogram::new(PRECISION),
            moments: Moments::default(),
            end: None,
            ended: BTreeMap::new(),
            reports: (0, None),
        }
    }
}

impl HopReplies {
    /// Counts a probe that was sent.
    pub fn count_probe(&mut self) {
        self.sent += 1;
    }

    /// Adds the answer of a router or host at this hop.
    pub fn add(&mut self, reply: &ProbeReply) {
        self.answered += 1;
        let known = self.responders.iter().position(|responder| responder.address == reply.from);
        let has_room = self.responders.len() < MAX_RESPONDERS;
        let known = known.or_else(|| {
            has_room.then(|| {
                self.responders.push(Responder::new(reply.from));
                self.responders.len() - 1
            })
        });
        if let Some(responder) = known.and_then(|k| self.responders.get_mut(k)) {
            responder.answers += 1;
            if let Err(k) = responder.flows.binary_search(&reply.flow) {
                responder.flows.insert(k, reply.flow);
            }
        }
        if let Some(octet) = reply.traffic_class {
            *self.dscp.entry(octet >> 2).or_default() += 1;
            self.ecn.get_or_insert_default()[Ecn::of_bits(octet)] += 1;
        }
        self.labels.clone_from(&reply.labels);
        self.delays.add(reply.rtt.0);
        self.moments.add_all(&[reply.rtt.0]);
        self.ended.insert(reply.flow, reply.end.is_some());
        let is_destination = reply.end == Some(PathEnd::Destination);
        self.end = if is_destination { reply.end } else { self.end.or(reply.end) };
    }

    /// Counts a report of this hop's router, about a probe of a later hop, that the destination is unreachable.
    pub fn count_report(&mut self, code: u8) {
        self.reports = (self.reports.0 + 1, Some(code));
    }

    /// True if the router or host at `address` has answered at this hop.
    pub fn has(&self, address: IpAddr) -> bool {
        self.responders.iter().any(|responder| responder.address == address)
    }

    /// True if anything has answered at this hop.
    pub fn is_answered(&self) -> bool {
        self.answered > 0
    }
}

impl Hop {
    fn new(ttl: u8, replies: &HopReplies) -> Hop {
        let mut responders = replies.responders.clone();
        responders.sort_by_key(|r| core::cmp::Reverse(r.answers));
        let wanted =
            DistributionRequest { percents: &DEFAULT_PERCENTS, method: Method::Edf, bins: Bins::default() };
        Hop {
            ttl,
            sent: replies.sent,
            answered: replies.answered,
            responders,
            rtt: replies.delays.distribution(&replies.moments, wanted),
            dscp: replies.dscp.clone(),
            ecn: replies.ecn,
            labels: replies.labels.clone(),
            end: replies.end,
            unreachable: replies.reports.0,
            history: Vec::new(),
        }
    }

    /// Describes the hop: responder, smallest round-trip time, and the DSCP and labels of packets on arrival at this
    /// hop.
    fn in_words(&self) -> String {
        let Some(responder) = self.responders.first() else {
            return format!("no answer to {} probes", self.sent);
        };
        let mut words = format!("{}, {} of {} answered", responder.address, self.answered, self.sent);
        if let Some(min) = self.rtt.min {
            words += &format!(", {} at least", eng4(min));
        }
        if let Some(dscp) = self.usual_dscp() {
            words += &format!(", DSCP {dscp}");
        }
        for label in &self.labels {
            words += &format!(", MPLS label {}", label.label);
        }
        match self.end {
            Some(PathEnd::Destination) => words += ", the destination",
            Some(PathEnd::Unreachable(code)) => words += &format!(", unreachable (code {code})"),
            None => {}
        }
        words
    }

    /// Returns the most frequent mark of probes that arrived at this hop; `None` if no answer quotes it.
    pub fn usual_mark(&self) -> Option<Ecn> {
        let ecn = self.ecn?;
        Ecn::ALL.into_iter().rev().max_by_key(|mark| ecn[*mark])
    }

    /// Returns the most frequent DSCP of probes that arrived at this hop; `None` if no answer quotes a DSCP.
    pub fn usual_dscp(&self) -> Option<u8> {
        self.dscp.iter().max_by_key(|(_, n)| **n).map(|(dscp, _)| *dscp)
    }
}

impl Path {
    /// Describes the hops as tags of a test, one per hop: `hop.1`, `hop.2`…
    pub fn tags(&self) -> Vec<(String, String)> {
        self.hops.iter().map(|hop| (format!("hop.{}", hop.ttl), hop.in_words())).collect()
    }

    /// Creates a path from the replies to the probes of each TTL, starting at TTL 1.
    pub fn new(
        [source, destination]: [IpAddr; 2],
        (transport, port, dscp): (Transport, u16, Dscp),
        replies: &[HopReplies],
    ) -> Path {
        let mut hops: Vec<Hop> =
            (1..=u8::MAX).zip(replies).map(|(ttl, replies)| Hop::new(ttl, replies)).collect();
        let last = end_of_routes(replies).or_else(|| hops.iter().rposition(|h| h.answered > 0));
        hops.truncate(last.map_or(0, |k| k + 1));
        // The path ends at the router that reports so, unless the destination answered at another time.
        if let Some((hop, replies)) = hops.last_mut().zip(last.and_then(|k| replies.get(k))) {
            hop.end = hop.end.or(replies.reports.1.map(PathEnd::Unreachable));
        }
        let mut rewrites = Vec::new();
        let mut before = (0, dscp.value());
        for (ttl, seen) in hops.iter().filter_map(|h| Some((h.ttl, h.usual_dscp()?))) {
            if seen != before.1 {
                rewrites.push(Rewrite { after_ttl: before.0, at_ttl: ttl, from: before.1, to: seen });
            }
            before = (ttl, seen);
        }
        Path {
            source,
            destination,
            proto: transport.number(),
            port,
            dscp: dscp.value(),
            reached: hops.last().is_some_and(|h| h.end == Some(PathEnd::Destination)),
            hops,
            rewrites,
            changes: Vec::new(),
            mark: Ecn::NotEct,
            mark_changes: Vec::new(),
            notes: Vec::new(),
            max_hops: None,
        }
    }

    /// Returns the path with the changes of the mark of its probes, which were sent with `mark`.
    #[must_use]
    pub fn of_probes_with(mut self, mark: Ecn) -> Path {
        let all = ByMark::of(|sent| u64::from(sent == mark));
        let mut before = (0, mark, all);
        self.mark_changes.clear();
        for hop in &self.hops {
            let Some((seen, usual)) = hop.ecn.zip(hop.usual_mark()) else { continue };
            let (after_ttl, from, earlier) = before;
            // A changed mark counts if no answer quoted it before this hop, even if only a part of the probes has it, or if it is now the
            // usual one.
            let is_change = |to: &Ecn| *to != from && seen[*to] > 0 && (earlier[*to] == 0 || *to == usual);
            let change = |to| MarkChange {
                after_ttl,
                at_ttl: hop.ttl,
                from,
                to,
                answers: seen[to],
                of_answers: seen.total(),
            };
            self.mark_changes.extend(Ecn::ALL.into_iter().filter(is_change).map(change));
            before = (hop.ttl, usual, seen);
        }
        self.mark = mark;
        self
    }
}

/// Returns the index of the hop at which the longest route ends: for each flow, the first hop whose latest answer ended the
/// route. `None` if no flow's route has a known end.
fn end_of_routes(replies: &[HopReplies]) -> Option<usize> {
    let mut ends: BTreeMap<FlowNumber, usize> = BTreeMap::new();
    for (hop, replies) in replies.iter().enumerate() {
        for (flow, _) in replies.ended.iter().filter(|(_, is_end)| **is_end) {
            ends.entry(*flow).or_insert(hop);
        }
    }
    ends.into_values().max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(last: u8, ms: i64, dscp: Option<u8>, end: Option<PathEnd>) -> ProbeReply {
        ProbeReply {
            from: [192, 0, 2, last].into(),
            flow: 1,
            rtt: Span::millis(ms),
            traffic_class: dscp.map(|d| d << 2 | 1),
            labels: Vec::new(),
            end,
            reported_by: None,
        }
    }

    /// The replies to three probes of a hop.
    fn hop(replies: &[ProbeReply]) -> HopReplies {
        let mut hop = HopReplies::default();
        (0..3).for_each(|_| hop.count_probe());
        replies.iter().for_each(|reply| hop.add(reply));
        hop
    }

    #[test]
    fn codes_depend_on_the_family() {
        let words = |from: &str, code| unreachable_in_words(from.parse().unwrap(), code);
        assert_eq!(words("10.1.1.2", 0), "no route to the host (code 0)");
        assert_eq!(words("10.1.4.2", 13), "this traffic is prohibited (code 13)");
        assert_eq!(words("2001:db8::1", 1), "this traffic is prohibited (code 1)");
        assert_eq!(words("10.1.4.2", 200), "no known reason (code 200)");
    }

    #[test]
    fn a_code_point_changes_between_the_hops_that_tell() {
        let ends = [[192, 0, 2, 100].into(), [192, 0, 2, 9].into()];
        let hop = |replies: Vec<ProbeReply>| hop(&replies);
        let replies = [
            hop(vec![reply(1, 1, Some(46), None), reply(1, 3, Some(46), None), reply(2, 2, Some(46), None)]),
            hop(vec![]),
            hop(vec![reply(3, 5, Some(0), None)]),
            hop(vec![reply(9, 7, Some(0), Some(PathEnd::Destination))]),
            hop(vec![reply(9, 7, Some(0), Some(PathEnd::Destination))]),
        ];
        let probe = (Transport::Udp, 33_434, "EF".parse().unwrap());
        let path = Path::new(ends, probe, &replies);
        assert_eq!((path.hops.len(), path.reached), (4, true), "what lies behind the destination is no hop");
        assert_eq!(path.rewrites, [Rewrite { after_ttl: 1, at_ttl: 3, from: 46, to: 0 }]);
        let tags: Vec<String> =
            path.tags().into_iter().map(|(key, words)| format!("{key}: {words}")).collect();
        assert_eq!(
            tags,
            [
                "hop.1: 192.0.2.1, 3 of 3 answered, 1.000 ms at least, DSCP 46",
                "hop.2: no answer to 3 probes",
                "hop.3: 192.0.2.3, 1 of 3 answered, 5.000 ms at least, DSCP 0",
                "hop.4: 192.0.2.9, 1 of 3 answered, 7.000 ms at least, DSCP 0, the destination",
            ]
        );
        // The quoted octets have the mark ECT(1).
        assert_eq!(path.clone().of_probes_with(Ecn::Ect1).mark_changes, []);
        let change = |(after_ttl, at_ttl), (from, to), (answers, of_answers)| MarkChange {
            after_ttl,
            at_ttl,
            from,
            to,
            answers,
            of_answers,
        };
        let all = change((0, 1), (Ecn::Ect0, Ecn::Ect1), (3, 3));
        assert_eq!(path.clone().of_probes_with(Ecn::Ect0).mark_changes, [all]);
        let mut bleached = path.clone();
        bleached.hops[2].ecn = Some(ByMark { not_ect: 2, ect1: 1, ..ByMark::default() });
        bleached.hops[3].ecn = None;
        let most = change((1, 3), (Ecn::Ect1, Ecn::NotEct), (2, 3));
        assert_eq!(bleached.clone().of_probes_with(Ecn::Ect1).mark_changes, [most]);
        // A router that changes a part of the probes is named, too, and the next hop is not.
        bleached.hops[2].ecn = Some(ByMark { not_ect: 1, ect1: 2, ..ByMark::default() });
        bleached.hops[3].ecn = Some(ByMark { not_ect: 1, ect1: 2, ..ByMark::default() });
        let few = change((1, 3), (Ecn::Ect1, Ecn::NotEct), (1, 3));
        assert_eq!(bleached.clone().of_probes_with(Ecn::Ect1).mark_changes, [few]);
        // The next router changes the rest.
        bleached.hops[3].ecn = Some(ByMark { not_ect: 3, ..ByMark::default() });
        let rest = change((3, 4), (Ecn::Ect1, Ecn::NotEct), (3, 3));
        assert_eq!(bleached.of_probes_with(Ecn::Ect1).mark_changes, [few, rest]);
        let first = &path.hops[0];
        let expected = Responder { answers: 2, flows: vec![1], ..Responder::new([192, 0, 2, 1].into()) };
        assert_eq!(first.responders[0], expected);
        assert_eq!((first.rtt.median, first.rtt.max), (Some(2e6), Some(3_000_000)));
        assert_eq!((path.hops[1].answered, path.hops[1].rtt.n, path.hops[1].usual_dscp()), (0, 0, None));

        let silent = Path::new(ends, probe, &replies[..3]);
        assert_eq!((silent.hops.len(), silent.reached), (3, false));
        assert_eq!(Path::new(ends, probe, &[]).hops, []);
    }

    #[test]
    fn a_router_that_reports_the_destination_as_unreachable_is_one_hop() {
        let ends = [[192, 0, 2, 100].into(), [192, 0, 2, 9].into()];
        let probe = (Transport::Udp, 33_434, Dscp::default());
        let mut replies = [hop(&[reply(1, 1, None, None)]), hop(&[reply(2, 1, None, None)]), hop(&[])];
        replies[1].count_report(1);
        let path = Path::new(ends, probe, &replies);
        let of = |k: usize| (path.hops[k].end, path.hops[k].unreachable);
        assert_eq!((path.hops.len(), path.reached), (2, false));
        assert_eq!((of(0), of(1)), ((None, 0), (Some(PathEnd::Unreachable(1)), 1)));
        // The destination has answered before: it is the end, and its missing answers count.
        replies[2] = hop(&[reply(9, 1, None, Some(PathEnd::Destination))]);
        let path = Path::new(ends, probe, &replies);
        assert_eq!((path.hops.len(), path.reached), (3, true));
        assert_eq!((path.hops[1].end, path.hops[1].unreachable), (None, 1));
        assert_eq!((path.hops[2].sent, path.hops[2].answered), (3, 1));
    }

    #[test]
    fn the_memory_of_a_hop_is_bounded_and_its_extremes_are_exact() {
        let mut replies = HopReplies::default();
        for k in 0..30_000u32 {
            let from = IpAddr::from([10, 0, (k >> 8) as u8, k as u8]);
            replies.count_probe();
            replies.add(&ProbeReply {
                from,
                rtt: Span(1_000_000 + i64::from(k)),
                ..reply(1, 1, Some(0), None)
            });
        }
        let hop = Hop::new(1, &replies);
        assert_eq!((hop.sent, hop.answered, hop.responders.len()), (30_000, 30_000, MAX_RESPONDERS));
        assert_eq!((hop.rtt.n, hop.rtt.min, hop.rtt.max), (30_000, Some(1_000_000), Some(1_029_999)));
        let median = hop.rtt.median.unwrap();
        assert!((median - 1_015_000.0).abs() < 1000.0 && hop.rtt.approx, "{median}");
    }

    #[test]
    fn a_path_has_the_hops_of_its_longest_flow() {
        let ends = [[192, 0, 2, 100].into(), [192, 0, 2, 9].into()];
        let of_flows = |replies: Vec<(FlowNumber, u8)>| {
            let reply = |(flow, last)| {
                let end = (last == 9).then_some(PathEnd::Destination);
                ProbeReply { flow, ..reply(last, 1, None, end) }
            };
            hop(&replies.into_iter().map(reply).collect::<Vec<_>>())
        };
        let replies = [
            of_flows(vec![(1, 1), (2, 1)]),
            of_flows(vec![(1, 9), (2, 3)]),
            of_flows(vec![(1, 9), (2, 9)]),
            of_flows(vec![(1, 9), (2, 9)]),
        ];
        let path = Path::new(ends, (Transport::Udp, 33_434, Dscp::default()), &replies);
        assert_eq!(path.hops.len(), 3);
        let flows: Vec<&[FlowNumber]> = path.hops[1].responders.iter().map(|r| &r.flows[..]).collect();
        assert_eq!(flows, [&[1][..], &[2]]);
        // The route of a flow has become longer: the latest answer counts.
        let longer = [of_flows(vec![(1, 1)]), of_flows(vec![(1, 9), (1, 2)]), of_flows(vec![(1, 9), (1, 9)])];
        assert_eq!(Path::new(ends, (Transport::Udp, 33_434, Dscp::default()), &longer).hops.len(), 3);
    }
}

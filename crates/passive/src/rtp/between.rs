//! [`between`]: one-way delays of RTP packets between two capture points. A packet is recognised by its source, sequence
//! number and timestamp, which address translation does not change.

use super::figures::RtpResult;
use crate::clocks::{ClockComparison, ClockDifference};
use crate::pairing::Record;
use crate::pipeline::{OffsetSteps, PointStep};
use crate::streams::DirectionFacts;
use crate::{CapturePoint, Sides};
use foldhash::fast::RandomState;
use jitlat_core::record::{Moment, PacketRecord};
use jitlat_core::session::Session;
use jitlat_core::spec::Direction;
use jitlat_core::time::{Stamp, StampSource, WallTime};
use std::collections::HashMap;

/// Minimum number of common packets of a stream.
const MIN_COMMON: usize = 8;
/// Maximum number of packets of a stream that are remembered for the comparison with the other point.
pub(super) const MAX_SEEN: usize = if cfg!(test) { 400 } else { 1 << 20 };

/// A packet of a stream, as one capture point saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointPacket {
    /// Time of capture.
    pub at: WallTime,
    /// Extended sequence number in the stream at this point.
    pub number: i64,
    /// Sequence number.
    pub sequence: u16,
    /// Timestamp.
    pub timestamp: u32,
    /// Length of the IP packet, in bytes.
    pub length: u16,
    /// TTL or hop limit.
    pub ttl: u8,
}

/// A stream that both points saw.
#[derive(Clone, Debug)]
pub struct StreamBetween {
    /// Index of the stream at each point.
    pub streams: [usize; 2],
    /// Point that is nearer to the sender.
    pub near: CapturePoint,
    /// True if `near` was assumed: the packets have the same TTL at both points.
    pub near_assumed: bool,
    /// Records of the packets that passed both points, with their times at both, in order of arrival at the farther
    /// point.
    pub records: Vec<PacketRecord>,
    /// Session of the records.
    pub session: Session,
}

/// Streams between two points, and the difference between the points' clocks.
#[derive(Clone, Debug, Default)]
pub struct BetweenPoints {
    /// Streams that both points saw, in their order at the first point.
    pub streams: Vec<StreamBetween>,
    /// Clock steps of both points that only the packets of both points together show. Times after a step are corrected
    /// by its size.
    pub steps: Vec<PointStep>,
    /// Clock of the second point compared with that of the first.
    pub clocks: ClockDifference,
}

/// A stream at the first point, and the stream at the second point that has the same source.
struct Pair {
    streams: [usize; 2],
    /// Common packets: index at each point, in their order at the first.
    common: Vec<[usize; 2]>,
    near: Option<CapturePoint>,
}

/// Recognises the streams of `first` in `second`. `None` if they have none in common.
pub fn between(first: &RtpResult, second: &RtpResult) -> Option<BetweenPoints> {
    let mut pairs: Vec<Pair> = (0..first.streams.len()).filter_map(|k| pair(first, second, k)).collect();
    if pairs.is_empty() {
        return None;
    }
    // Without routers between the points, the first one is assumed to be nearer to the end that was seen first.
    let assumed = |k: usize| {
        let of = first.calls.iter().flat_map(|call| &call.streams).find(|s| s.stream == k);
        match of.map_or(Direction::Up, |s| s.direction) {
            Direction::Up => CapturePoint::Reference,
            Direction::Down => CapturePoint::Monitor,
        }
    };
    let near: Vec<CapturePoint> =
        pairs.iter().map(|p| p.near.unwrap_or_else(|| assumed(p.streams[0]))).collect();
    let mut clocks = ClockComparison::default();
    let mut all: Vec<Record> =
        pairs.iter().zip(&near).flat_map(|(p, near)| records(first, second, p, *near)).collect();
    all.sort_by_key(|r| r.reference);
    let steps = OffsetSteps::of(&all);
    let corrected = (!steps.is_empty()).then(|| [first, second].map(Clone::clone)).map(|mut points| {
        steps.iter().for_each(|step| correct(&mut points[step.point as usize], step));
        points
    });
    let [first, second] = corrected.as_ref().map_or([first, second], |[first, second]| [first, second]);
    if corrected.is_some() {
        all = pairs.iter().zip(&near).flat_map(|(p, near)| records(first, second, p, *near)).collect();
        all.sort_by_key(|r| r.reference);
    }
    all.iter().for_each(|r| clocks.push(r));
    // A round trip of 0 or less means that a clock was set between the packets: then the difference is unknown.
    let is_possible = |c: &ClockDifference| c.offset_bound_ns.is_none_or(|bound| bound > 0.0);
    let clocks = Some(clocks.difference()).filter(is_possible).unwrap_or_default();
    let streams =
        pairs.drain(..).zip(near).map(|(p, near)| stream(first, second, &p, near, &clocks)).collect();
    Some(BetweenPoints { streams, steps, clocks })
}

/// Corrects the times of a point's packets after a step of its clock.
fn correct(point: &mut RtpResult, step: &PointStep) {
    let packets = point.seen.iter_mut().flatten().filter(|packet| packet.at >= step.at);
    packets.for_each(|packet| packet.at = packet.at - step.by_ns);
}

/// Finds the stream of the second point that has most packets in common with stream `k` of the first point; `None` if
/// none has enough.
fn pair(first: &RtpResult, second: &RtpResult, k: usize) -> Option<Pair> {
    let (own, seen) = (first.streams.get(k)?, first.seen.get(k)?);
    let mut known: HashMap<(u16, u32), usize, RandomState> = HashMap::default();
    for (n, p) in seen.iter().enumerate() {
        known.entry((p.sequence, p.timestamp)).or_insert(n);
    }
    let candidates = second.streams.iter().enumerate().filter(|(_, s)| s.ssrc == own.ssrc);
    let matched = candidates.filter_map(|(other, _)| {
        let theirs = second.seen.get(other)?;
        let mut common: Vec<[usize; 2]> = Vec::new();
        let mut taken = vec![false; seen.len()];
        for (n, p) in theirs.iter().enumerate() {
            if let Some(own) = known.get(&(p.sequence, p.timestamp))
                && !std::mem::replace(&mut taken[*own], true)
            {
                common.push([*own, n]);
            }
        }
        Some((other, common))
    });
    let (other, mut common) = matched.max_by_key(|(_, common)| common.len())?;
    if common.len() < MIN_COMMON {
        return None;
    }
    common.sort_unstable();
    let [a, b] = *common.first()?;
    let ttl = [seen[a].ttl, second.seen[other][b].ttl];
    let near = match ttl[0].cmp(&ttl[1]) {
        std::cmp::Ordering::Greater => Some(CapturePoint::Reference),
        std::cmp::Ordering::Less => Some(CapturePoint::Monitor),
        std::cmp::Ordering::Equal => None,
    };
    Some(Pair { streams: [k, other], common, near })
}

/// Returns the direction of packets between the points; `near` is the point that is nearer to their sender.
fn direction(near: CapturePoint) -> Direction {
    match near {
        CapturePoint::Reference => Direction::Up,
        CapturePoint::Monitor => Direction::Down,
    }
}

fn records<'a>(
    first: &'a RtpResult,
    second: &'a RtpResult,
    p: &'a Pair,
    near: CapturePoint,
) -> impl Iterator<Item = Record> + 'a {
    let [own, other] = [&first.seen[p.streams[0]], &second.seen[p.streams[1]]];
    p.common.iter().map(move |[a, b]| Record {
        direction: direction(near),
        reference: own[*a].at,
        monitor: other[*b].at,
        length: own[*a].length.into(),
        flow: 0,
    })
}

/// Makes the records of a stream. Packets before the first and after the last common one do not count, because the farther
/// capture may not have covered them.
fn stream(
    first: &RtpResult,
    second: &RtpResult,
    p: &Pair,
    near: CapturePoint,
    clocks: &ClockDifference,
) -> StreamBetween {
    let results = [first, second];
    let (at_near, at_far) = (near as usize, 1 - near as usize);
    let [near_seen, far_seen] = [at_near, at_far].map(|point| &results[point].seen[p.streams[point]]);
    let common: HashMap<usize, usize, RandomState> =
        p.common.iter().map(|c| (c[at_near], c[at_far])).collect();
    // Packets at the nearer point in the order in which they were sent.
    let mut sent: Vec<usize> = (0..near_seen.len()).collect();
    sent.sort_by_key(|n| near_seen[*n].number);
    sent.dedup_by_key(|n| near_seen[*n].number);
    let covered = |n: &usize| common.contains_key(n);
    let from = sent.iter().position(covered).unwrap_or(0);
    let to = sent.iter().rposition(covered).map_or(from, |n| n + 1);
    let mut facts = DirectionFacts::default();
    let mut records: Vec<(WallTime, PacketRecord)> = Vec::new();
    for (number, n) in (0i64..).zip(&sent[from..to]) {
        let packet = &near_seen[*n];
        facts.sent += 1;
        facts.saw(packet.at);
        let Some(far) = common.get(n).and_then(|far| far_seen.get(*far)) else { continue };
        facts.arrived += 1;
        facts.bytes += u64::from(packet.length);
        let mut record = PacketRecord::new(number);
        record.set(Moment::Sent, Stamp { at: packet.at, source: StampSource::Wire });
        record.set(Moment::Arrived, Stamp { at: far.at, source: StampSource::Wire });
        record.set_size(Some(packet.length));
        record.set_ttl(Some(far.ttl));
        records.push((far.at, record));
    }
    records.sort_by_key(|(at, _)| *at);
    let mut session = facts.session(direction(near), &<[Sides; 2]>::default(), clocks);
    let own = &results[at_near].streams[p.streams[at_near]];
    (session.src, session.dst) = (Some(own.from.ip()), Some(own.to.ip()));
    (session.spec.src_port, session.spec.dst_port) = (own.from.port(), own.to.port());
    StreamBetween {
        streams: p.streams,
        near,
        near_assumed: p.near.is_none(),
        records: records.into_iter().map(|(_, record)| record).collect(),
        session,
    }
}

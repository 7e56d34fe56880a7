//! One direction of a connection, as seen by the capture point.

use super::carriage::{Carried, Course, REMEMBERED};
use super::gaps::{Gap, Gaps};
use super::segment::{FIN, RST, SYN, Segment};
use super::{Event, EventKind};
use crate::passive::SpreadFigures;
use crate::passive::coarse::Modest;
use crate::time::{Span, WallTime};
use serde::Serialize;
use std::collections::VecDeque;

/// Segments in flight that are remembered.
const IN_FLIGHT: usize = 1 << 16;
/// The same where no acknowledgement is seen, so that nothing tells when they have arrived.
const UNACKNOWLEDGED: usize = 1 << 12;
/// Time stamps that wait for their echo.
const ECHOES: usize = 1 << 12;
/// What fills a gap this soon was overtaken, where no round trip is known.
const OVERTAKEN: i64 = 3_000_000;
/// The least retransmission timeout in use (Linux).
const MIN_TIMEOUT: i64 = 200_000_000;
/// Duplicate acknowledgements that call for a fast retransmission (RFC 5681).
const DUPLICATE_ACKS: u32 = 3;

/// What happened to the data of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LaneFigures {
    /// Segments seen.
    pub segments: u64,
    /// Segments with payload.
    pub data_segments: u64,
    /// Payload bytes, retransmissions included.
    pub bytes: u64,
    /// Payload bytes, each counted once.
    pub unique_bytes: u64,
    /// Segments sent again, for whatever reason.
    pub retransmissions: u64,
    /// Of those: after three duplicate acknowledgements, or a SACK above them.
    pub fast: u64,
    /// Of those: after silence for a retransmission timeout.
    pub timeouts: u64,
    /// Of those: for nothing, the original had arrived.
    pub spurious: u64,
    /// Segments overtaken by later ones before the capture point.
    pub out_of_order: u64,
    /// The same packet seen twice (same IP identification).
    pub duplicates: u64,
    /// Segments lost before the capture point: gaps that a retransmission filled.
    pub lost_before: u64,
    /// Segments lost after the capture point: seen here, sent again, and not for nothing.
    pub lost_after: u64,
    /// Gaps never filled, as far as the capture goes: mostly packets the capture missed.
    pub unfilled_gaps: u64,
    /// Probes of an idle connection.
    pub keep_alives: u64,
    /// Duplicate acknowledgements sent this way.
    pub duplicate_acks: u64,
    /// Times the receiver's window closed (advertised this way).
    pub zero_windows: u64,
    /// How long it was closed altogether, in ns.
    pub zero_window_ns: Span,
    /// Segments that filled the advertised window to the brim.
    pub window_full: u64,
    /// For how long altogether it then waited for room, in ns.
    pub window_full_ns: Span,
    /// How long the data of fast retransmissions had waited since it was sent before, in ns, added up.
    pub fast_wait_ns: Span,
    /// The same of retransmissions after a timeout.
    pub timeout_wait_ns: Span,
    /// The longest such wait.
    pub longest_wait_ns: Span,
    /// Most bytes in flight.
    pub max_in_flight: u64,
    /// Round trip from the capture point to the receiver and back, by acknowledgements (Karn: never of data
    /// sent twice). Includes delayed acknowledgements. Quantiles of more than 2048 are within 1.6 %.
    pub rtt_ack_ns: Option<SpreadFigures>,
    /// The same by the timestamp option.
    pub rtt_timestamp_ns: Option<SpreadFigures>,
}

impl LaneFigures {
    fn waited(&mut self, kind: EventKind, span: Span) {
        let sum = match kind {
            EventKind::Fast => &mut self.fast_wait_ns,
            EventKind::Timeout => &mut self.timeout_wait_ns,
            _ => return,
        };
        *sum = *sum + span;
        self.longest_wait_ns = self.longest_wait_ns.max(span);
    }
}

/// How one direction stands after a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Bytes sent and not acknowledged, as far as the capture point sees.
    pub in_flight: Option<u64>,
    /// The window the receiver advertised last, in bytes.
    pub window: Option<u64>,
    /// A round trip that this very segment told by its acknowledgement.
    pub rtt_ack: Option<Span>,
    /// A round trip that it told by its timestamp.
    pub rtt_timestamp: Option<Span>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    start: u64,
    end: u64,
    first: i64,
    last: i64,
    again: bool,
    /// Why it was sent again last.
    why: Option<EventKind>,
    ident: u32,
    timestamp: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) figures: LaneFigures,
    /// Sequence number after the highest byte seen, unwrapped; `None` before the first segment.
    next: Option<u64>,
    /// Highest acknowledgement of this direction's data, unwrapped.
    acked: Option<u64>,
    duplicate_acks: u32,
    /// Highest sequence number selectively acknowledged.
    sacked: u64,
    /// Segments sent and not acknowledged, in the order of the stream; none overlaps another.
    pub(super) flight: VecDeque<Sent>,
    pub(super) gaps: Gaps,
    pub(super) echoes: VecDeque<(u32, i64)>,
    /// First sequence number as it stands in the SYN.
    isn: Option<u32>,
    /// Sequence number after the FIN, unwrapped.
    end: Option<u64>,
    /// The connection is over: nothing more is measured, only counted.
    over: bool,
    rtt_ack: Modest,
    rtt_timestamp: Modest,
    least_rtt: Option<i64>,
    smoothed: Option<(f64, f64)>,
    /// Scale, value in bytes and last field of the window this side advertises, and when it closed.
    scale: u8,
    window: Option<u64>,
    closed: Option<i64>,
    field: Option<u16>,
    /// Since when the peer's window has been full.
    full: Option<i64>,
    /// The newest round trip by acknowledgement and by timestamp, with when it was learnt.
    newest: [Option<(i64, i64)>; 2],
    /// What was carried, where it is to be remembered.
    memory: Option<Memory>,
}

/// The course of a direction as it is remembered.
#[derive(Debug, Default)]
struct Memory {
    /// Sequence number of the stream's first byte, unwrapped; missing where the SYN was.
    begin: Option<u64>,
    carried: Vec<Carried>,
    /// When the peer's window was full, and when one's own was closed.
    full: Vec<(WallTime, WallTime)>,
    closed: Vec<(WallTime, WallTime)>,
}

impl Memory {
    fn keep(&mut self, x: &Sent) {
        if let Some(begin) = self.begin
            && x.end > begin
            && self.carried.len() < REMEMBERED
        {
            let (first, last) = (WallTime(x.first), WallTime(x.last));
            self.carried.push(Carried { end: x.end - begin, first, last, why: x.why });
        }
    }
}

/// Unwraps a sequence number near a known one.
fn unwrap(near: u64, seq: u32) -> u64 {
    near.wrapping_add_signed(i64::from(seq.wrapping_sub(near as u32) as i32))
}

impl Lane {
    /// One that remembers what it carried.
    pub(super) fn remembering() -> Lane {
        Lane { memory: Some(Memory::default()), ..Lane::default() }
    }

    /// What was carried, given the lane of the other direction; `None` if it was not to be remembered, or the
    /// beginning was not seen.
    pub(super) fn course(&self, peer: &Lane) -> Option<Course> {
        let known = self.memory.as_ref()?;
        let begin = known.begin?;
        let open = Memory { begin: Some(begin), ..Memory::default() };
        let open = self.flight.iter().fold(open, |mut m, x| {
            m.keep(x);
            m
        });
        let segments = [&known.carried[..], &open.carried].concat();
        let closed = peer.memory.iter().flat_map(|m| &m.closed);
        let mut held_up: Vec<_> = known.full.iter().chain(closed).copied().collect();
        held_up.sort_unstable();
        // A window that is full may close as well: no time counts twice.
        held_up.dedup_by(|later, earlier| {
            let overlap = later.0 <= earlier.1;
            if overlap {
                earlier.1 = earlier.1.max(later.1);
            }
            overlap
        });
        Some(Course { segments, held_up })
    }

    /// Takes a segment that this side sends; `peer_window` is what the other side last advertised.
    pub(super) fn sends(
        &mut self,
        at: WallTime,
        s: &Segment,
        peer_window: Option<u64>,
        events: &mut Vec<Event>,
    ) {
        let f = &mut self.figures;
        f.segments += 1;
        self.advertises(at, s, events);
        if s.payload > 0 {
            self.figures.data_segments += 1;
            self.figures.bytes += u64::from(s.payload);
        }
        if s.length() == 0 || s.has(RST) {
            return;
        }
        // Start far from zero, so that unwrapping never goes below it.
        let next = *self.next.get_or_insert(u64::from(s.seq) + (1 << 40));
        let start = unwrap(next, s.seq);
        let end = start + u64::from(s.length());
        if let (Some((value, _)), true) = (s.timestamps, end > next && !self.over) {
            if self.echoes.back().is_none_or(|(v, _)| *v != value) {
                self.echoes.push_back((value, at.0));
            }
            if self.echoes.len() > ECHOES {
                self.echoes.pop_front();
            }
        }
        if let Some(m) = self.memory.as_mut().filter(|_| s.has(SYN)) {
            m.begin.get_or_insert(start + 1);
        }
        if s.has(SYN) {
            self.isn.get_or_insert(s.seq);
        }
        if s.has(FIN) {
            self.end.get_or_insert(end);
        }
        if start >= next {
            if start > next {
                self.gaps.open(Gap { start: next, end: start, opened: at });
            }
            self.next = Some(end);
            self.figures.unique_bytes += u64::from(s.payload);
            self.launched(at, s, start, end);
        } else if s.payload <= 1 && end == next && start + 1 == next && self.acked.is_some_and(|a| a >= next)
        {
            self.figures.keep_alives += 1;
        } else {
            self.seen_in_part(at, s, (start, end), next, events);
        }
        self.measure_flight(at, s, peer_window, events);
    }

    /// A segment that begins before `next`: parts of it, or all, may have been seen before.
    fn seen_in_part(
        &mut self,
        at: WallTime,
        s: &Segment,
        (start, end): (u64, u64),
        next: u64,
        events: &mut Vec<Event>,
    ) {
        let filled = self.gaps.fill(start, end);
        // SYN and FIN take a number, and are no payload.
        let first = start + u64::from(s.has(SYN));
        let payload =
            |from: u64, to: u64| to.min(first + u64::from(s.payload)).saturating_sub(from.max(first));
        self.figures.unique_bytes += filled.iter().map(|g| payload(g.start, g.end)).sum::<u64>();
        if !filled.is_empty() {
            self.fills(&filled, at, s, (start, end.min(next)), events);
        } else if end > next {
            // Old and new bytes in one segment: sent again in another cut.
            self.again(at, s, start, next, events);
        } else if self.is_copy(at, s, start) {
            self.figures.duplicates += 1;
            events.push(Event { at, kind: EventKind::Duplicate, bytes: s.payload, waited: None });
        } else {
            self.again(at, s, start, end, events);
        }
        if end > next {
            self.figures.unique_bytes += payload(next, end);
            self.next = Some(end);
            self.launched(at, s, next, end);
        }
    }

    /// Bytes that were never sent before are on their way.
    fn launched(&mut self, at: WallTime, s: &Segment, start: u64, end: u64) {
        self.flies(Sent {
            start,
            end,
            first: at.0,
            last: at.0,
            again: false,
            why: None,
            ident: s.ident,
            timestamp: s.timestamps.map(|t| t.0),
        });
    }

    fn flies(&mut self, sent: Sent) {
        if self.over {
            return;
        }
        let room = if self.acked.is_some() { IN_FLIGHT } else { UNACKNOWLEDGED };
        if self.flight.len() >= room {
            self.flight.pop_front();
        }
        let i = match self.flight.back() {
            Some(last) if last.start > sent.start => self.flight.partition_point(|x| x.start < sent.start),
            _ => self.flight.len(),
        };
        self.flight.insert(i, sent);
    }

    /// The segment, of which `range` was passed before, fills gaps: overtaken on the way here, or sent again
    /// because it was lost on the way here.
    fn fills(
        &mut self,
        filled: &[Gap],
        at: WallTime,
        s: &Segment,
        (start, end): (u64, u64),
        events: &mut Vec<Event>,
    ) {
        let opened = filled.iter().map(|g| g.opened).min().unwrap_or(at);
        let waited = Span(at.0.saturating_sub(opened.0));
        let soon = self.least_rtt.map_or(OVERTAKEN, |r| r.min(MIN_TIMEOUT));
        // What brings bytes once more that were here already was not overtaken.
        let wholly_new = filled.iter().map(|g| g.end - g.start).sum::<u64>() == end - start;
        let kind = if wholly_new && waited.0 < soon && self.duplicate_acks < DUPLICATE_ACKS {
            self.figures.out_of_order += 1;
            EventKind::OutOfOrder
        } else {
            self.figures.retransmissions += 1;
            self.figures.lost_before += 1;
            let timeout =
                self.duplicate_acks < DUPLICATE_ACKS && self.sacked <= end && waited.0 >= self.timeout();
            if timeout {
                self.figures.timeouts += 1;
                EventKind::Timeout
            } else {
                self.figures.fast += 1;
                EventKind::Fast
            }
        };
        self.figures.waited(kind, waited);
        events.push(Event { at, kind, bytes: s.payload, waited: Some(waited) });
        self.sent_again(at, (start, end), kind);
        for gap in filled {
            // It has been sent before, unseen here: no round trip can be told from it.
            self.flies(Sent {
                start: gap.start,
                end: gap.end,
                first: gap.opened.0,
                last: at.0,
                again: true,
                why: Some(kind),
                ident: s.ident,
                timestamp: None,
            });
        }
    }

    /// Notes of what is in flight between two sequence numbers that it was sent once more.
    fn sent_again(&mut self, at: WallTime, (start, end): (u64, u64), why: EventKind) {
        let from = self.flight.partition_point(|x| x.end <= start);
        for x in self.flight.iter_mut().skip(from).take_while(|x| x.start < end) {
            (x.last, x.again, x.why) = (at.0, true, Some(why));
        }
    }

    fn is_copy(&self, at: WallTime, s: &Segment, start: u64) -> bool {
        let i = self.flight.partition_point(|x| x.start < start);
        self.flight.get(i).is_some_and(|x| {
            x.start == start
                && x.ident == s.ident
                && s.ident != 0
                && x.timestamp == s.timestamps.map(|t| t.0)
                && at.0.saturating_sub(x.last) < MIN_TIMEOUT
        })
    }

    /// Bytes seen here before are sent again.
    fn again(&mut self, at: WallTime, s: &Segment, start: u64, end: u64, events: &mut Vec<Event>) {
        self.figures.retransmissions += 1;
        if self.acked.is_some_and(|a| end <= a) {
            self.figures.spurious += 1;
            events.push(Event { at, kind: EventKind::Spurious, bytes: s.payload, waited: None });
            return;
        }
        let from = self.flight.partition_point(|x| x.end <= start);
        let touched = self.flight.iter().skip(from).take_while(|x| x.start < end);
        let waited = touched.map(|x| at.0.saturating_sub(x.last)).max();
        self.figures.lost_after += 1;
        let signalled = self.duplicate_acks >= DUPLICATE_ACKS || self.sacked > end;
        let kind = if signalled {
            self.figures.fast += 1;
            EventKind::Fast
        } else if waited.is_none_or(|w| w >= self.timeout()) {
            self.figures.timeouts += 1;
            EventKind::Timeout
        } else {
            EventKind::Probe
        };
        self.sent_again(at, (start, end), kind);
        let waited = waited.map(Span);
        self.figures.waited(kind, waited.unwrap_or_default());
        events.push(Event { at, kind, bytes: s.payload, waited });
    }

    /// The least time after which silence may be a timeout: nine tenths of RFC 6298's, which the sender
    /// computes of round trips a little different from ours.
    fn timeout(&self) -> i64 {
        self.smoothed.map_or(MIN_TIMEOUT, |(s, v)| (0.9 * (s + 4.0 * v)) as i64).max(MIN_TIMEOUT * 9 / 10)
    }

    fn measure_flight(&mut self, at: WallTime, s: &Segment, window: Option<u64>, events: &mut Vec<Event>) {
        let (Some(next), Some(acked)) = (self.next, self.acked) else { return };
        let flight = next.saturating_sub(acked);
        self.figures.max_in_flight = self.figures.max_in_flight.max(flight);
        if s.payload > 0 && window.is_some_and(|w| w > 0 && flight >= w) {
            self.figures.window_full += 1;
            self.full.get_or_insert(at.0);
            events.push(Event { at, kind: EventKind::WindowFull, bytes: s.payload, waited: None });
        }
    }

    /// Takes an acknowledgement that the other side sends for this side's data; `same_window` if it advertises
    /// what the one before did. Returns whether it is a duplicate.
    pub(super) fn is_acknowledged(&mut self, at: WallTime, s: &Segment, same_window: bool) -> bool {
        if let Some((_, echo)) = s.timestamps
            && let Some(i) = self.echoes.iter().position(|(v, _)| *v == echo)
        {
            let sent = self.echoes[i].1;
            self.echoes.drain(..=i);
            self.rtt_timestamp.push(at.0.saturating_sub(sent));
            self.newest[1] = Some((at.0, at.0.saturating_sub(sent)));
            self.heard(at.0.saturating_sub(sent));
        }
        let (Some(next), Some(ack)) = (self.next, s.ack) else { return false };
        let ack = unwrap(next, ack);
        if ack > next + (1 << 30) {
            return false;
        }
        if let Some((_, right)) = s.sack {
            let right = unwrap(next, right);
            if right <= next {
                self.sacked = self.sacked.max(right);
            }
        }
        let advanced = match self.acked {
            None => true,
            Some(known) if ack < known => return false,
            Some(known) => ack > known,
        };
        if !advanced {
            let duplicate = s.payload == 0
                && s.flags & (SYN | FIN | RST) == 0
                && next > ack
                && same_window
                && !self.flight.is_empty();
            if duplicate {
                self.duplicate_acks += 1;
            }
            return duplicate;
        }
        self.acked = Some(ack);
        self.duplicate_acks = 0;
        if let Some(since) = self.full.take() {
            self.figures.window_full_ns =
                self.figures.window_full_ns + Span(at.0.saturating_sub(since).max(0));
            if let Some(m) = self.memory.as_mut().filter(|m| m.full.len() < REMEMBERED) {
                m.full.push((WallTime(since), at));
            }
        }
        let mut newest = None;
        let mut clean = true;
        while let Some(x) = self.flight.front().copied().filter(|x| x.end <= ack) {
            self.flight.pop_front();
            if let Some(m) = &mut self.memory {
                m.keep(&x);
            }
            clean &= !x.again;
            newest = Some(x);
            // Eifel: the echo is that of the original, not of what was sent again.
            if let (true, Some((_, echo)), Some(own)) = (x.again, s.timestamps, x.timestamp)
                && echo == own
                && x.last > x.first
                && self.figures.lost_after > 0
            {
                self.figures.spurious += 1;
                self.figures.lost_after -= 1;
            }
        }
        if let (Some(x), true) = (newest, clean) {
            let rtt = at.0.saturating_sub(x.first);
            self.rtt_ack.push(rtt);
            self.newest[0] = Some((at.0, rtt));
            self.heard(rtt);
        }
        self.gaps.acknowledge(ack);
        false
    }

    fn heard(&mut self, rtt: i64) {
        self.least_rtt = Some(self.least_rtt.map_or(rtt, |r| r.min(rtt)));
        let r = rtt as f64;
        self.smoothed = Some(match self.smoothed {
            None => (r, r / 2.0),
            Some((s, v)) => (0.875 * s + 0.125 * r, 0.75 * v + 0.25 * (s - r).abs()),
        });
    }

    /// Keeps account of the window this side advertises.
    fn advertises(&mut self, at: WallTime, s: &Segment, events: &mut Vec<Event>) {
        if let Some(scale) = s.window_scale {
            self.scale = scale;
        }
        self.field = Some(s.window);
        if s.has(RST) || s.ack.is_none() {
            return;
        }
        let window = if s.has(SYN) { u64::from(s.window) } else { u64::from(s.window) << self.scale };
        self.window = Some(window);
        match (self.closed, window) {
            (None, 0) => {
                self.closed = Some(at.0);
                self.figures.zero_windows += 1;
                events.push(Event { at, kind: EventKind::ZeroWindow, bytes: 0, waited: None });
            }
            (Some(since), w) if w > 0 => {
                self.closed = None;
                let waited = Span(at.0.saturating_sub(since));
                self.figures.zero_window_ns = self.figures.zero_window_ns + waited;
                if let Some(m) = self.memory.as_mut().filter(|m| m.closed.len() < REMEMBERED) {
                    m.closed.push((WallTime(since), at));
                }
                events.push(Event { at, kind: EventKind::WindowOpens, bytes: 0, waited: Some(waited) });
            }
            _ => {}
        }
    }

    /// Whether a segment of this side leaves its window as it was.
    pub(super) fn keeps_window(&self, s: &Segment) -> bool {
        self.field == Some(s.window)
    }

    /// How things stand at `at`, given the window the other side advertised last.
    pub(super) fn standing(&self, at: WallTime, window: Option<u64>) -> Standing {
        let fresh = |k: usize| self.newest[k].filter(|n| n.0 == at.0).map(|n| Span(n.1));
        let in_flight = self.next.zip(self.acked).map(|(n, a)| n.saturating_sub(a));
        Standing { in_flight, window, rtt_ack: fresh(0), rtt_timestamp: fresh(1) }
    }

    /// The window this side advertised last, in bytes.
    pub(super) fn window(&self) -> Option<u64> {
        self.window
    }

    /// Whether everything up to the FIN has been acknowledged.
    pub(super) fn is_finished(&self) -> bool {
        self.end.zip(self.acked).is_some_and(|(end, acked)| acked >= end)
    }

    /// Whether a reset with this sequence number is this side's, as far as its numbers are known.
    pub(super) fn may_reset(&self, seq: u32) -> bool {
        self.next.is_none_or(|next| (self.acked.unwrap_or(next)..=next).contains(&unwrap(next, seq)))
    }

    /// The sequence number of the SYN, if one was seen.
    pub(super) fn isn(&self) -> Option<u32> {
        self.isn
    }

    /// The connection is over: keeps the figures and lets go of everything else.
    pub(super) fn close(&mut self) {
        self.figures = self.finish();
        (self.rtt_ack, self.rtt_timestamp) = Default::default();
        if let Some(m) = &mut self.memory {
            self.flight.iter().for_each(|x| m.keep(x));
        }
        (self.flight, self.echoes) = Default::default();
        self.over = true;
    }

    pub(super) fn finish(&self) -> LaneFigures {
        LaneFigures {
            unfilled_gaps: self.gaps.unfilled(),
            rtt_ack_ns: self.rtt_ack.figures().or(self.figures.rtt_ack_ns),
            rtt_timestamp_ns: self.rtt_timestamp.figures().or(self.figures.rtt_timestamp_ns),
            ..self.figures.clone()
        }
    }
}

//! [`DirectionState`]: one direction of a connection at the capture point.

use super::delay_causes::DeliveryHistory;
use super::event::{EventKind, TcpEvent};
use super::figures::{DirectionFigures, DirectionStatus};
use super::flight::{Flight, InFlight};
use super::gaps::{OpenGaps, SequenceGap};
use super::history::DeliveredSegments;
use super::round_trip_history::RoundTripHistory;
use super::round_trips::{MIN_TIMEOUT, RoundTrips};
use super::segment::{FIN, RST, SYN, TcpSegment};
use super::window::{TcpWindow, WindowChange, lasted};
use crate::recording::CopyKind;
use jitlat_core::time::{Span, WallTime};
use std::collections::VecDeque;

/// Maximum time within which a filled gap is attributed to reordering while no round trip is known.
const MAX_REORDERING_DELAY: Span = Span::millis(3);
/// Number of duplicate acknowledgements that trigger a fast retransmission (RFC 5681).
const DUPLICATE_ACKS: u32 = 3;
/// Maximum distance, in bytes, of an acknowledgement beyond the highest byte seen. Acknowledgements farther ahead are
/// damaged, or belong to another connection, and are ignored.
const MAX_ACK_LEAD: u64 = 1 << 30;
/// Maximum number of retransmissions stored in case the receiver reports a duplicate.
const MAX_UNPROVEN: usize = 64;

/// Data of one side, its acknowledgements, and the window that this side advertises for the other's data.
#[derive(Debug, Default)]
pub(super) struct DirectionState {
    figures: DirectionFigures,
    /// Sequence number after the highest byte seen, unwrapped; `None` before the first segment.
    next: Option<u64>,
    /// Highest acknowledgement of this direction's data, unwrapped.
    acked: Option<u64>,
    /// True if the byte at `next` was sent as a probe of a closed window. The receiver need not accept it, so
    /// it counts as sent only once it is acknowledged or followed by the next byte.
    probed: bool,
    /// Number of consecutive duplicate acknowledgements so far.
    duplicate_acks: u32,
    /// Highest sequence number selectively acknowledged, unwrapped.
    sacked: u64,
    /// Latest retransmissions that seem to repair a loss, until the receiver reports both copies (RFC 2883).
    unproven: VecDeque<(u64, u64)>,
    flight: Flight,
    gaps: OpenGaps,
    round_trips: RoundTrips,
    window: TcpWindow,
    /// Time since which the peer's window has been full; `None` if it is not.
    full: Option<WallTime>,
    /// Initial sequence number, as in the SYN.
    isn: Option<u32>,
    /// Sequence number after the FIN, unwrapped.
    end: Option<u64>,
    /// True if the connection is over: segments are only counted.
    over: bool,
    /// Delivered data; `None` if not recorded.
    history: Option<DeliveredSegments>,
    /// Number of packets that were recorded again without any difference soon afterwards.
    same: u64,
}

/// Smallest share of packets recorded again without any difference, as 1 in this many, for which the recording is
/// assumed to have made the copies: paths rarely duplicate packets, and a mirror duplicates all.
const SYSTEMATIC_COPIES: u64 = 5;
/// Minimum number of copies for the same assumption if the share includes packets recorded again some time later.
const MIN_COPIES: u64 = 5;

/// True if the packet with IP identification `ident` was sent before the one with `than`, by a host that
/// numbers its packets: `ident` is slightly smaller, modulo 2¹⁶. A retransmission gets a new, larger
/// identification.
fn is_older(ident: u32, than: u32) -> bool {
    const WINDOW: u16 = 256;
    let behind = (than as u16).wrapping_sub(ident as u16);
    ident != 0 && than != 0 && ident <= u32::from(u16::MAX) && (1..=WINDOW).contains(&behind)
}

/// Unwraps a sequence number near a known one.
fn unwrap(near: u64, seq: u32) -> u64 {
    near.wrapping_add_signed(i64::from(seq.wrapping_sub(near as u32) as i32))
}

impl DirectionState {
    /// Creates a state that records deliveries.
    pub(super) fn with_history() -> DirectionState {
        DirectionState { history: Some(DeliveredSegments::default()), ..DirectionState::default() }
    }

    /// Handles a segment sent by this side; `peer_window` is the window that the other side last advertised.
    pub(super) fn take_segment(
        &mut self,
        at: WallTime,
        s: &TcpSegment,
        peer_window: &TcpWindow,
        events: &mut Vec<TcpEvent>,
    ) {
        self.figures.segments += 1;
        self.note_window(at, s, events);
        if s.payload > 0 {
            self.figures.data_segments += 1;
            self.figures.bytes += u64::from(s.payload);
        }
        if s.length() == 0 || s.has(RST) {
            self.note_empty_probe(s);
            return;
        }
        // Start far from zero, so that unwrapping never goes below it.
        let mut next = *self.next.get_or_insert(u64::from(s.seq) + (1 << 40));
        let start = unwrap(next, s.seq);
        let end = start + u64::from(s.length());
        // Data after the probed byte shows that the receiver accepted it.
        if start > next && self.take_probed_byte(next + 1) {
            next += 1;
        }
        let acknowledged = self.acked.is_some_and(|a| a >= next);
        // A window probe: one byte beyond the closed window.
        if peer_window.is_closed() && acknowledged && start == next && s.payload == 1 && s.length() == 1 {
            self.figures.keep_alives += 1;
            self.probed = true;
            return;
        }
        if let (Some((value, _)), true) = (s.timestamps, end > next && !self.over) {
            self.round_trips.note_sent(at, value);
        }
        if s.has(SYN) {
            self.isn.get_or_insert(s.seq);
            self.history.iter_mut().for_each(|h| h.begin(start + 1));
        }
        if s.has(FIN) {
            self.end.get_or_insert(end);
        }
        if start >= next {
            self.probed = false;
            if start > next {
                self.gaps.open(SequenceGap { start: next, end: start, opened: at, opener: s.ident });
            }
            self.next = Some(end);
            self.figures.unique_bytes += u64::from(s.payload);
            self.add_to_flight(InFlight::new(at, s, (start, end)));
        } else if s.payload <= 1 && end == next && start + 1 == next && acknowledged {
            self.figures.keep_alives += 1;
        } else {
            self.take_overlapping(at, s, (start, end), next, events);
        }
        self.measure_flight(at, s, peer_window.bytes(), events);
    }

    /// Counts the byte of a probe as sent if the receiver has acknowledged everything before `end`, and
    /// therefore accepted the byte. Returns true in that case.
    fn take_probed_byte(&mut self, end: u64) -> bool {
        let Some(next) = self.next.filter(|next| self.probed && end > *next) else { return false };
        self.probed = false;
        self.next = Some(next + 1);
        self.figures.unique_bytes += 1;
        true
    }

    /// Counts a probe of an idle connection or of a closed window, as sent by Linux and others: a segment
    /// without data that has the last byte's sequence number after all data was acknowledged.
    fn note_empty_probe(&mut self, s: &TcpSegment) {
        let Some(next) = self.next else { return };
        let probes = unwrap(next, s.seq) + 1 == next && self.acked.is_some_and(|a| a >= next);
        self.figures.keep_alives += u64::from(probes && s.flags & (SYN | FIN | RST) == 0);
    }

    /// Counts a packet that was recorded again.
    pub(super) fn copied(&mut self, kind: CopyKind) {
        match kind {
            CopyKind::Elsewhere => self.figures.copies += 1,
            CopyKind::Same => self.same += 1,
        }
    }

    /// Notes that the clock was set: nothing is measured across this moment.
    pub(super) fn clock_set(&mut self) {
        self.round_trips.forget_sent();
        self.flight.forget_times();
    }

    /// Handles a segment that begins before `next`: some or all of it may have been seen before.
    fn take_overlapping(
        &mut self,
        at: WallTime,
        s: &TcpSegment,
        (start, end): (u64, u64),
        next: u64,
        events: &mut Vec<TcpEvent>,
    ) {
        let filled = self.gaps.fill(start, end);
        // SYN and FIN use a sequence number but are not payload.
        let first = start + u64::from(s.has(SYN));
        let last = first + u64::from(s.payload);
        let payload = |from: u64, to: u64| to.min(last).saturating_sub(from.max(first));
        self.figures.unique_bytes += filled.iter().map(|g| payload(g.start, g.end)).sum::<u64>();
        let passed = (start, end.min(next));
        if !filled.is_empty() && s.is_late {
            // Only the recording is out of order.
            for gap in filled {
                self.add_to_flight(InFlight::new(at, s, (gap.start, gap.end)));
            }
        } else if !filled.is_empty() {
            self.note_filled(at, s, passed, &filled, events);
        } else if end <= next && self.flight.holds_packet(at, s, start, MIN_TIMEOUT) {
            self.figures.duplicates += 1;
            events.push(TcpEvent { at, kind: EventKind::Duplicate, bytes: s.payload, waited: None });
        } else {
            self.note_retransmission(at, s, passed, events);
        }
        if end > next {
            self.figures.unique_bytes += payload(next, end);
            self.next = Some(end);
            self.add_to_flight(InFlight::new(at, s, (next, end)));
        }
    }

    fn add_to_flight(&mut self, new: InFlight) {
        // Data that was recorded after its acknowledgement gives no measurement.
        if !self.over && self.acked.is_none_or(|acked| acked < new.end) {
            self.flight.add(new, self.acked.is_some());
        }
    }

    /// Handles a segment that fills gaps; `passed` is its range below `next`. Either the segment was reordered before
    /// the capture point, or it is a retransmission because the original was lost there.
    fn note_filled(
        &mut self,
        at: WallTime,
        s: &TcpSegment,
        passed: (u64, u64),
        filled: &[SequenceGap],
        events: &mut Vec<TcpEvent>,
    ) {
        let opened = filled.iter().map(|g| g.opened).min().unwrap_or(at);
        let waited = at - opened;
        // A retransmission takes at least a round trip, so what comes sooner was only reordered.
        let soon = self.round_trips.least().map_or(MAX_REORDERING_DELAY, |r| r.min(MIN_TIMEOUT));
        let signalled = self.duplicate_acks >= DUPLICATE_ACKS;
        // A segment with bytes that were already seen is a retransmission, not reordered.
        let wholly_new = filled.iter().map(|g| g.end - g.start).sum::<u64>() == passed.1 - passed.0;
        let older = filled.iter().all(|g| is_older(s.ident, g.opener)) && waited < MIN_TIMEOUT;
        let kind = if wholly_new && (older || waited < soon && !signalled) {
            self.figures.out_of_order += 1;
            EventKind::OutOfOrder
        } else {
            self.figures.retransmissions += 1;
            self.figures.lost_before += 1;
            // Neither duplicate acknowledgements nor SACK requested the retransmission.
            if !signalled && self.sacked <= passed.1 && waited >= self.round_trips.timeout() {
                self.figures.timeouts += 1;
                EventKind::Timeout
            } else {
                self.figures.fast += 1;
                EventKind::Fast
            }
        };
        self.figures.add_wait(kind, waited);
        events.push(TcpEvent { at, kind, bytes: s.payload, waited: Some(waited) });
        self.flight.mark_sent_again(at, passed, kind);
        for gap in filled {
            self.add_to_flight(InFlight::late(at, s, (gap.start, gap.end), gap.opened, kind));
        }
    }

    /// Handles a retransmission of bytes seen here before.
    fn note_retransmission(
        &mut self,
        at: WallTime,
        s: &TcpSegment,
        range: (u64, u64),
        events: &mut Vec<TcpEvent>,
    ) {
        self.figures.retransmissions += 1;
        // The receiver had already acknowledged these bytes.
        if self.acked.is_some_and(|a| range.1 <= a) {
            self.figures.spurious += 1;
            events.push(TcpEvent { at, kind: EventKind::Spurious, bytes: s.payload, waited: None });
            return;
        }
        let waited = self.flight.waited(at, range);
        self.figures.lost_after += 1;
        if self.unproven.len() == MAX_UNPROVEN {
            self.unproven.pop_front();
        }
        self.unproven.push_back(range);
        let kind = if self.duplicate_acks >= DUPLICATE_ACKS || self.sacked > range.1 {
            self.figures.fast += 1;
            EventKind::Fast
        } else if waited.is_none_or(|w| w >= self.round_trips.timeout()) {
            self.figures.timeouts += 1;
            EventKind::Timeout
        } else {
            EventKind::Probe
        };
        self.flight.mark_sent_again(at, range, kind);
        self.figures.add_wait(kind, waited.unwrap_or_default());
        events.push(TcpEvent { at, kind, bytes: s.payload, waited });
    }

    fn measure_flight(
        &mut self,
        at: WallTime,
        s: &TcpSegment,
        window: Option<u64>,
        events: &mut Vec<TcpEvent>,
    ) {
        let (Some(next), Some(acked)) = (self.next, self.acked) else { return };
        let flight = next.saturating_sub(acked);
        self.figures.max_in_flight = self.figures.max_in_flight.max(flight);
        if s.payload > 0 && window.is_some_and(|w| w > 0 && flight >= w) {
            self.figures.window_full += 1;
            // The wait begins with the first segment that fills the window.
            self.full.get_or_insert(at);
            events.push(TcpEvent { at, kind: EventKind::WindowFull, bytes: s.payload, waited: None });
        }
    }

    /// Handles the other side's acknowledgement of this side's data; `same_window` is true if it advertises
    /// the same window as the previous one. Returns true if it is a duplicate.
    pub(super) fn take_acknowledgement(&mut self, at: WallTime, s: &TcpSegment, same_window: bool) -> bool {
        if let Some((_, echo)) = s.timestamps {
            let opens = self.acked.is_none() && self.isn.is_some();
            self.round_trips.note_echo(at, echo, opens);
        }
        let (Some(next), Some(ack)) = (self.next, s.ack) else { return false };
        let ack = unwrap(next, ack);
        if ack > next + MAX_ACK_LEAD {
            return false;
        }
        let next = if self.take_probed_byte(ack) { next + 1 } else { next };
        if let Some((left, right)) = s.sack {
            let (left, right) = (unwrap(next, left), unwrap(next, right));
            if right <= ack {
                // A first SACK block below the acknowledgement reports that these bytes arrived twice (RFC 2883
                // §4).
                self.find_spurious((left, right));
            } else if right <= next {
                self.sacked = self.sacked.max(right);
            }
        }
        match self.acked {
            Some(known) if ack < known => false,
            Some(known) if ack == known => {
                // The conditions of RFC 5681 §2.
                let duplicate = s.payload == 0
                    && s.flags & (SYN | FIN | RST) == 0
                    && next > ack
                    && same_window
                    && !s.is_late
                    && !self.flight.is_empty();
                self.duplicate_acks += u32::from(duplicate);
                duplicate
            }
            _ => {
                self.advance(at, s, ack);
                false
            }
        }
    }

    /// Reclassifies the latest retransmission that overlaps this range as spurious: the original arrived, so nothing
    /// was lost.
    fn find_spurious(&mut self, (start, end): (u64, u64)) {
        if let Some(i) = self.unproven.iter().rposition(|r| r.0 < end && start < r.1) {
            self.unproven.remove(i);
            self.figures.spurious += 1;
            self.figures.lost_after -= 1;
        }
    }

    /// Records that all data before `ack` has arrived.
    fn advance(&mut self, at: WallTime, s: &TcpSegment, ack: u64) {
        self.acked = Some(ack);
        self.duplicate_acks = 0;
        if let Some(since) = self.full.take() {
            self.figures.window_full_ns = self.figures.window_full_ns + lasted(since, at);
            self.history.iter_mut().for_each(|h| h.keep_full(since, at));
        }
        // Karn's rule: data sent twice gives no measurement, and neither does data acknowledged together with
        // it.
        let (mut newest, mut clean) = (None, true);
        while let Some(x) = self.flight.take_acknowledged(ack) {
            self.history.iter_mut().for_each(|h| h.keep(&x));
            clean &= x.again.is_none() && x.is_timed;
            newest = Some(x.first);
            // Eifel detection: the echo belongs to the original, not to the retransmission.
            if let (Some(_), Some((_, echo)), Some(own)) = (x.again, s.timestamps, x.timestamp)
                && echo == own
            {
                self.find_spurious((x.start, x.end));
            }
        }
        let carries = s.payload > 0 || s.flags & (SYN | FIN) != 0;
        // The acknowledgement of the SYN alone does not show how this side acknowledges data.
        let opens = self.isn.is_some_and(|isn| s.ack == Some(isn.wrapping_add(1)));
        if !carries && !opens {
            self.round_trips.bound();
        }
        if let (Some(sent), true) = (newest, clean) {
            self.round_trips.note_acknowledged(at, sent, opens);
        }
        self.gaps.acknowledge(ack);
    }

    /// Tracks the window that this side advertises.
    fn note_window(&mut self, at: WallTime, s: &TcpSegment, events: &mut Vec<TcpEvent>) {
        match self.window.note(at, s) {
            None => {}
            Some(WindowChange::Closed) => {
                self.figures.zero_windows += 1;
                events.push(TcpEvent { at, kind: EventKind::ZeroWindow, bytes: 0, waited: None });
            }
            Some(WindowChange::Opened(since)) => {
                let waited = at - since;
                self.figures.zero_window_ns = self.figures.zero_window_ns + waited;
                self.history.iter_mut().for_each(|h| h.keep_closed(since, at));
                events.push(TcpEvent { at, kind: EventKind::WindowOpens, bytes: 0, waited: Some(waited) });
            }
        }
    }

    /// Counts a duplicate acknowledgement sent by this side.
    pub(super) fn count_duplicate_ack(&mut self) {
        self.figures.duplicate_acks += 1;
    }

    /// Window that this side advertises.
    pub(super) fn window(&self) -> &TcpWindow {
        &self.window
    }

    /// Returns the state at `at`, given the window that the other side advertised last.
    pub(super) fn status(&self, at: WallTime, window: Option<u64>) -> DirectionStatus {
        let [rtt_ack, rtt_timestamp] = self.round_trips.learnt_at(at);
        let in_flight = self.next.zip(self.acked).map(|(n, a)| n.saturating_sub(a));
        DirectionStatus { in_flight, window, rtt_ack, rtt_timestamp }
    }

    /// Returns the delivery history, given the other direction; `None` if it was not recorded, or if the
    /// beginning was not seen.
    pub(super) fn delivery_history(&self, peer: &DirectionState) -> Option<DeliveryHistory> {
        self.history.as_ref()?.delivered(self.flight.iter(), peer.history.as_ref())
    }

    /// True if everything up to the FIN has been acknowledged.
    pub(super) fn is_finished(&self) -> bool {
        self.end.zip(self.acked).is_some_and(|(end, acked)| acked >= end)
    }

    /// True if a reset with this sequence number can come from this side: the number is plausible, or this
    /// side's numbers are unknown.
    pub(super) fn may_reset(&self, seq: u32) -> bool {
        self.next.is_none_or(|next| (self.acked.unwrap_or(next)..=next).contains(&unwrap(next, seq)))
    }

    /// Sequence number of the SYN; `None` if none was seen.
    pub(super) fn isn(&self) -> Option<u32> {
        self.isn
    }

    /// Ends the direction: retains the statistics and frees everything else.
    pub(super) fn close(&mut self) {
        let same = self.same;
        self.same = 0;
        self.figures = self.finish();
        self.same = same;
        self.round_trips = RoundTrips::default();
        self.history.iter_mut().for_each(|h| self.flight.iter().for_each(|x| h.keep(x)));
        self.flight = Flight::default();
        self.over = true;
    }

    /// Returns the statistics so far.
    pub(super) fn finish(&self) -> DirectionFigures {
        let [by_ack, by_timestamp] = self.round_trips.figures();
        let twice = self.same + self.figures.duplicates;
        let is_share = |n: u64| n * SYSTEMATIC_COPIES >= self.figures.segments;
        let is_systematic = is_share(self.same) || twice >= MIN_COPIES && is_share(twice);
        let [made, met] = if is_systematic { [twice, 0] } else { [0, twice] };
        let history = self.round_trips.history();
        let changes = history.map_or_else(|| self.figures.rtt_changes.clone(), RoundTripHistory::changes);
        let above =
            history.filter(|_| !changes.is_empty()).map(|history| Span(history.above_levels(&changes)));
        DirectionFigures {
            copies: self.figures.copies + made,
            duplicates: met,
            unfilled_gaps: self.gaps.unfilled(),
            rtt_ack_ns: by_ack.or(self.figures.rtt_ack_ns),
            rtt_timestamp_ns: by_timestamp.or(self.figures.rtt_timestamp_ns),
            rtt_changes: changes,
            rtt_above_changes_ns: above.or(self.figures.rtt_above_changes_ns),
            ..self.figures.clone()
        }
    }

    /// Number of segments in flight and number of open gaps.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> (usize, usize) {
        (self.flight.iter().count(), self.gaps.list().len())
    }
}

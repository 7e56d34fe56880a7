//! Grouping of streams into calls: by their signalling, otherwise by the two ports between which they are sent.

use super::figures::{CallStream, PayloadTypeFigures, RtpCall, RtpStream};
use super::signalling::SignalledCalls;
use crate::tcp::TcpEndpoint as Endpoint;
use core::net::SocketAddr;
use jitlat_core::answer::Severity;
use jitlat_core::prefix::bits;
use jitlat_core::spec::Direction;
use jitlat_core::time::{Span, WallTime};
use std::collections::HashMap;

/// Silence between two ports after which streams belong to another call, if the calls are not signalled.
const MAX_PAUSE: Span = Span::seconds(30);
/// Shortest time without packets in one direction, at the beginning or end of a call, that is reported.
const MIN_ONE_SIDED: Span = Span::seconds(5);

/// Key that is the same for all streams of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CallKey {
    /// Number of the signalled call.
    Signalled(u64),
    /// The two ports, the smaller first, and the number of the call between them.
    Between(Endpoint, Endpoint, u32),
}

fn end(a: SocketAddr) -> Endpoint {
    (bits(a.ip()), a.port())
}

impl RtpCall {
    /// Returns the name of the packets of the stream at `position` between two points.
    pub fn label_between(&self, position: usize) -> String {
        format!("{}, between", self.label(position))
    }

    /// Returns the direction without packets of a call that was answered and has packets in the other direction; `None`
    /// if there is none.
    pub fn silent_direction(&self) -> Option<Direction> {
        let signalled = self.signalling.as_ref()?;
        let answered = signalled.answered?;
        // A description may announce that one side only receives.
        if signalled.holds.iter().any(|hold| hold.from <= answered && hold.to.is_none()) {
            return None;
        }
        let has = |direction: Direction| self.streams.iter().any(|s| s.direction == direction);
        match (has(Direction::Up), has(Direction::Down)) {
            (true, false) => Some(Direction::Down),
            (false, true) => Some(Direction::Up),
            _ => None,
        }
    }

    /// Returns the times at the beginning and end of the call in which `direction` has no packets although the other
    /// direction has some, if they last 5 s or more. Time before the call is answered, and time on hold, do not count.
    pub fn one_sided(&self, direction: Direction, streams: &[RtpStream]) -> Vec<OneSided> {
        let span = |wanted: bool| {
            let of = || {
                let own = self.streams.iter().filter(move |s| (s.direction == direction) == wanted);
                own.filter_map(|s| streams.get(s.stream))
            };
            Some((of().map(|s| s.first).min()?, of().map(|s| s.last).max()?))
        };
        let Some(((first, last), (other_first, other_last))) = span(true).zip(span(false)) else {
            return Vec::new();
        };
        let answered = self.signalling.as_ref().and_then(|s| s.answered);
        let expected = answered.map_or(other_first, |at| other_first.max(at));
        let parts = [(expected, first, false), (last, other_last, true)];
        let one = |(from, to, is_end): (WallTime, WallTime, bool)| {
            let missing = Span((to - from).0.max(0)) - self.on_hold(from, to);
            let severity =
                self.severity_of_missing(direction, (missing, is_end), other_last - expected, streams);
            (missing >= MIN_ONE_SIDED).then_some(OneSided { from, missing, is_end, severity })
        };
        parts.into_iter().filter_map(one).collect()
    }

    /// Returns the time between `from` and `to` in which the call is on hold.
    fn on_hold(&self, from: WallTime, to: WallTime) -> Span {
        let holds = self.signalling.iter().flat_map(|s| &s.holds);
        let within = holds.map(|hold| hold.to.map_or(to, |end| end.min(to)) - hold.from.max(from));
        within.fold(Span::ZERO, |sum, part| sum + Span(part.0.max(0)))
    }

    /// Returns the severity of a time in which a direction has no packets. A sender may fall silent: it is a fault only
    /// if an answered call expects packets, and nothing shows that the sender suppresses silence or has ended.
    fn severity_of_missing(
        &self,
        direction: Direction,
        (missing, is_end): (Span, bool),
        call: Span,
        streams: &[RtpStream],
    ) -> Severity {
        let own = || {
            let own = self.streams.iter().filter(move |s| s.direction == direction);
            own.filter_map(|s| streams.get(s.stream))
        };
        let is_answered = self.signalling.as_ref().is_some_and(|s| s.answered.is_some());
        let suppresses =
            own().any(|s| s.silences > 0 || s.payload_types.iter().any(PayloadTypeFigures::is_noise));
        let has_ended = is_end && own().all(|s| s.has_ended);
        match is_answered && !suppresses && !has_ended {
            false => Severity::Unknown,
            true if missing.0 >= call.0 / 2 => Severity::Bad,
            true => Severity::Poor,
        }
    }
}

/// Time at the beginning or end of a call in which one direction has no packets although the other has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneSided {
    /// Beginning.
    pub from: WallTime,
    /// Duration, without the time on hold.
    pub missing: Span,
    /// True at the end of the call, false at its beginning.
    pub is_end: bool,
    /// Severity; unknown if the sender may have had nothing to send.
    pub severity: Severity,
}

/// Groups `streams` into calls. The streams are in the order of their first packets.
pub(super) fn calls(streams: &[RtpStream], signalled: &SignalledCalls) -> Vec<RtpCall> {
    let mut calls: Vec<(RtpCall, Endpoint)> = Vec::new();
    let mut known: HashMap<CallKey, usize> = HashMap::new();
    // Call of the streams that a participant sends from one host to another, and time of their last packet.
    let mut participants: HashMap<(u64, u128, u128), (CallKey, WallTime)> = HashMap::new();
    // Number of the latest call between two ports, and its last packet.
    let mut pairs: HashMap<(Endpoint, Endpoint), (u32, WallTime)> = HashMap::new();
    for (n, stream) in streams.iter().enumerate() {
        let (from, to) = (end(stream.from), end(stream.to));
        // The receiver's end is in its own session description; the sender usually sends from the same port.
        let media = signalled.end(to).map(|m| (m.call, !m.is_callers));
        let media = media.or_else(|| signalled.end(from).map(|m| (m.call, m.is_callers)));
        let key = match media {
            Some((call, _)) => CallKey::Signalled(call),
            None => {
                let pair = if from <= to { (from, to) } else { (to, from) };
                let (number, last) = pairs.entry(pair).or_insert((0, stream.last));
                if stream.first - *last > MAX_PAUSE {
                    *number += 1;
                }
                *last = (*last).max(stream.last);
                CallKey::Between(pair.0, pair.1, *number)
            }
        };
        // Audio and video of a participant are sent between other ports, at the same time.
        let participant = stream.rtcp.participant.filter(|_| media.is_none());
        let key = participant.map_or(key, |name| {
            let (same, last) = participants.entry((name, from.0, to.0)).or_insert((key, stream.last));
            if stream.first - *last > MAX_PAUSE {
                *same = key;
            }
            *last = (*last).max(stream.last);
            *same
        });
        let index = *known.entry(key).or_insert_with(|| {
            let signalling = media.and_then(|(call, _)| signalled.call(call).cloned());
            calls.push((
                RtpCall { signalling, streams: Vec::new(), ssrc_changes: 0, round_trip_ns: None },
                from,
            ));
            calls.len() - 1
        });
        let Some((call, first)) = calls.get_mut(index) else { continue };
        // Other streams of a participant come from other ports of the same host.
        let is_first = from == *first || from.0 == first.0 && from.0 != to.0;
        let is_up = media.map_or(is_first, |(_, from_caller)| from_caller);
        let direction = if is_up { Direction::Up } else { Direction::Down };
        call.streams.push(CallStream { stream: n, direction });
    }
    calls.into_iter().map(|(call, _)| complete(call, streams)).collect()
}

/// Adds the figures that need all streams of the call.
fn complete(call: RtpCall, streams: &[RtpStream]) -> RtpCall {
    let of = |direction: Direction| {
        call.streams.iter().filter(move |s| s.direction == direction).filter_map(|s| streams.get(s.stream))
    };
    // A source that begins after another one between the same ports has ended replaces it.
    let changes = |direction: Direction| {
        let replaced = |later: &&RtpStream| {
            of(direction).any(|before| {
                before.ssrc != later.ssrc
                    && (before.from, before.to) == (later.from, later.to)
                    && before.last <= later.first
            })
        };
        of(direction).filter(replaced).count() as u64
    };
    let least =
        |direction: Direction| of(direction).filter_map(|s| s.rtcp.round_trip_ns).map(|r| r.min).min();
    let round_trip_ns =
        least(Direction::Up).zip(least(Direction::Down)).map(|(a, b)| Span(a.saturating_add(b)));
    RtpCall { ssrc_changes: changes(Direction::Up) + changes(Direction::Down), round_trip_ns, ..call }
}

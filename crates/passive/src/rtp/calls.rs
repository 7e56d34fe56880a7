//! Grouping of streams into calls: by their signalling, otherwise by the two ports between which they are sent.

use super::figures::{CallStream, RtpCall, RtpStream};
use super::signalling::SignalledCalls;
use crate::tcp::TcpEndpoint as Endpoint;
use core::net::SocketAddr;
use jitlat_core::prefix::bits;
use jitlat_core::spec::Direction;
use jitlat_core::time::{Span, WallTime};
use std::collections::HashMap;

/// Silence between two ports after which streams belong to another call, if the calls are not signalled.
const MAX_PAUSE: Span = Span::seconds(30);

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
        self.signalling.as_ref()?.answered?;
        let has = |direction: Direction| self.streams.iter().any(|s| s.direction == direction);
        match (has(Direction::Up), has(Direction::Down)) {
            (true, false) => Some(Direction::Down),
            (false, true) => Some(Direction::Up),
            _ => None,
        }
    }

    /// Returns the time before the first and after the last packet of `direction` while the other direction had packets.
    /// The time before the answer does not count. 0 if a direction has no packets.
    pub fn one_sided(&self, direction: Direction, streams: &[RtpStream]) -> [Span; 2] {
        let span = |wanted: bool| {
            let of = || {
                let own = self.streams.iter().filter(move |s| (s.direction == direction) == wanted);
                own.filter_map(|s| streams.get(s.stream))
            };
            Some((of().map(|s| s.first).min()?, of().map(|s| s.last).max()?))
        };
        let Some(((first, last), (other_first, other_last))) = span(true).zip(span(false)) else {
            return [Span(0); 2];
        };
        let answered = self.signalling.as_ref().and_then(|s| s.answered);
        let expected = answered.map_or(other_first, |at| other_first.max(at));
        [(first - expected).max(Span(0)), (other_last - last).max(Span(0))]
    }
}

/// Groups `streams` into calls. The streams are in the order of their first packets.
pub(super) fn calls(streams: &[RtpStream], signalled: &SignalledCalls) -> Vec<RtpCall> {
    let mut calls: Vec<(RtpCall, Endpoint)> = Vec::new();
    let mut known: HashMap<CallKey, usize> = HashMap::new();
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
        let index = *known.entry(key).or_insert_with(|| {
            let signalling = media.and_then(|(call, _)| signalled.call(call).cloned());
            calls.push((
                RtpCall { signalling, streams: Vec::new(), ssrc_changes: 0, round_trip_ns: None },
                from,
            ));
            calls.len() - 1
        });
        let Some((call, first)) = calls.get_mut(index) else { continue };
        let is_up = media.map_or(from == *first, |(_, from_caller)| from_caller);
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

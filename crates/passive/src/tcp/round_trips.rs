//! [`RoundTrips`]: round trips between capture point and receiver, by acknowledgements and by timestamps.

use super::round_trip_history::RoundTripHistory;
use crate::{SpanSpread, SpreadFigures};
use jitlat_core::time::{Span, WallTime};
use std::collections::VecDeque;

/// Maximum number of timestamps stored until their echo is seen.
const MAX_PENDING_ECHOES: usize = 1 << 12;
/// Smallest retransmission timeout in use (Linux).
pub(super) const MIN_TIMEOUT: Span = Span::millis(200);

/// Longest retransmission timeout of a sender that has not measured a round trip yet (RFC 6298 §2.1, RFC 2988).
const FIRST_TIMEOUT: Span = Span::seconds(3);
/// Shortest timeout that every sender may use after its first measurement.
const ANY_TIMEOUT: Span = Span::seconds(1);

/// Round trips of one direction's data.
///
/// An acknowledgement that is sent with data may have waited for this data. The wait is known to be short only if the
/// receiver is seen to acknowledge without data; otherwise only the handshake gives a round trip. Times above the
/// retransmission timeout are not round trips: the sender would have sent again, so it had an acknowledgement that the
/// capture does not contain.
#[derive(Debug)]
pub(super) struct RoundTrips {
    by_ack: SpanSpread,
    by_timestamp: SpanSpread,
    /// Round trips by both measures, in the order of time.
    history: RoundTripHistory,
    /// Timestamps of segments, and the time at which each was first sent.
    echoes: VecDeque<(u32, WallTime)>,
    least: Option<Span>,
    /// Round trips of the SYN, by acknowledgement and by timestamp; `None` if not measured.
    opening: [Option<Span>; 2],
    /// True if the receiver has acknowledged data without sending any.
    is_bounded: bool,
    /// Smoothed round trip and its variation, in ns (RFC 6298); `None` before the first measurement.
    smoothed: Option<(f64, f64)>,
    /// Latest round trips by acknowledgement and by timestamp, with the time of measurement.
    newest: [Option<(WallTime, Span)>; 2],
}

impl Default for RoundTrips {
    fn default() -> RoundTrips {
        RoundTrips {
            by_ack: SpanSpread::of_flow(),
            by_timestamp: SpanSpread::of_flow(),
            history: RoundTripHistory::default(),
            echoes: VecDeque::new(),
            least: None,
            opening: [None; 2],
            is_bounded: false,
            smoothed: None,
            newest: [None; 2],
        }
    }
}

impl RoundTrips {
    /// Records the timestamp of a segment with new data.
    pub(super) fn note_sent(&mut self, at: WallTime, value: u32) {
        if self.echoes.back().is_none_or(|(v, _)| *v != value) {
            self.echoes.push_back((value, at));
        }
        if self.echoes.len() > MAX_PENDING_ECHOES {
            self.echoes.pop_front();
        }
    }

    /// Records the echo of a timestamp; only the first echo of a value gives a measurement. `opening` is true for the
    /// echo of the SYN's timestamp.
    pub(super) fn note_echo(&mut self, at: WallTime, value: u32, opening: bool) {
        let sent = match self.echoes.front() {
            None => return,
            Some((first, sent)) if *first == value => {
                let sent = *sent;
                self.echoes.pop_front();
                sent
            }
            Some(_) => match self.take_later(value) {
                Some(sent) => sent,
                None => return,
            },
        };
        if self.is_possible(at - sent) {
            self.by_timestamp.push((at - sent).0);
            self.newest[1] = Some((at, at - sent));
            self.note(at, at - sent);
            if opening {
                self.opening[1] = Some(at - sent);
            }
        }
    }

    /// Removes the timestamp `value`, which is not the first one, and all timestamps before it. Returns the time at
    /// which `value` was sent.
    fn take_later(&mut self, value: u32) -> Option<WallTime> {
        let i = self.echoes.iter().position(|(v, _)| *v == value)?;
        self.echoes.drain(..=i).next_back().map(|(_, sent)| sent)
    }

    /// Records that data sent once, at `sent`, was acknowledged; `opening` is true for the SYN.
    pub(super) fn note_acknowledged(&mut self, at: WallTime, sent: WallTime, opening: bool) {
        if self.is_possible(at - sent) {
            self.by_ack.push((at - sent).0);
            self.newest[0] = Some((at, at - sent));
            self.note(at, at - sent);
            if opening {
                self.opening[0] = Some(at - sent);
            }
        }
    }

    /// Records that the receiver acknowledged data without sending any.
    pub(super) fn bound(&mut self) {
        self.is_bounded = true;
    }

    /// Forgets the timestamps that wait for their echo.
    pub(super) fn forget_sent(&mut self) {
        self.echoes.clear();
    }

    /// True if a time can be a round trip: not negative, and not above every timeout.
    fn is_possible(&self, rtt: Span) -> bool {
        let timeout = match self.smoothed {
            None => FIRST_TIMEOUT.0,
            Some((s, v)) => ANY_TIMEOUT.0.max((2.0 * (s + 4.0 * v)) as i64),
        };
        (0..=timeout).contains(&rtt.0)
    }

    fn note(&mut self, at: WallTime, rtt: Span) {
        self.history.push(at, rtt.0);
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        let r = rtt.0 as f64;
        self.smoothed = Some(match self.smoothed {
            None => (r, r / 2.0),
            Some((s, v)) => (0.875 * s + 0.125 * r, 0.75 * v + 0.25 * (s - r).abs()),
        });
    }

    /// Smallest round trip by either measure; `None` before the first measurement.
    pub(super) fn least(&self) -> Option<Span> {
        self.least
    }

    /// Shortest silence that is taken for a timeout: nine tenths of the timeout of RFC 6298, because the sender's round
    /// trips differ slightly from those measured at the capture point.
    pub(super) fn timeout(&self) -> Span {
        let computed = self.smoothed.map_or(MIN_TIMEOUT.0, |(s, v)| (0.9 * (s + 4.0 * v)) as i64);
        Span(computed.max(MIN_TIMEOUT.0 * 9 / 10))
    }

    /// Returns the round trips measured at `at`: by acknowledgement and by timestamp.
    pub(super) fn learnt_at(&self, at: WallTime) -> [Option<Span>; 2] {
        self.newest.map(|n| n.filter(|n| n.0 == at).map(|n| n.1))
    }

    /// Returns the round trips in the order of time; `None` if an acknowledgement may have waited for data.
    pub(super) fn history(&self) -> Option<&RoundTripHistory> {
        self.is_bounded.then_some(&self.history)
    }

    /// Statistics by acknowledgement and by timestamp.
    pub(super) fn figures(&self) -> [Option<SpreadFigures>; 2] {
        if self.is_bounded {
            return [self.by_ack.figures(0), self.by_timestamp.figures(0)];
        }
        self.opening.map(|rtt| {
            let mut spread = SpanSpread::of_flow();
            spread.push(rtt?.0);
            spread.figures(0)
        })
    }
}

#[cfg(test)]
mod tests;

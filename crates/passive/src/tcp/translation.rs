//! [`Openers`]: recognises connections that one recording contains with two pairs of addresses, because it was made on both
//! sides of an address translation (NAT).

use super::TcpEndpoint;
use super::segment::TcpSegment;
use jitlat_core::time::{Span, WallTime};
use std::collections::VecDeque;

/// Maximum number of openings that are remembered.
const REMEMBERED: usize = 64;
/// Maximum time from one side of a translation to the other.
const MAX_PASSAGE: Span = Span::millis(50);

/// First segment that was seen of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    pub(super) at: WallTime,
    pub(super) ttl: u8,
    pub(super) from: TcpEndpoint,
    pub(super) to: TcpEndpoint,
    pub(super) segment: TcpSegment,
}

impl Opening {
    /// True if both openings are the same segment, once with translated addresses. Segments without IP identification
    /// and timestamp are never the same, because scanners send equal segments to many ports. If both addresses are
    /// translated, only the numbers show that it is the same segment, so that segments without a timestamp are not
    /// matched.
    fn is_same(&self, other: &Opening) -> bool {
        let what = |o: &Opening| TcpSegment { ports: (0, 0), is_late: false, ..o.segment };
        let is_numbered = self.segment.ident != 0 || self.segment.timestamps.is_some();
        (self.at - other.at).0.saturating_abs() <= MAX_PASSAGE.0
            && match (self.from == other.from, self.to == other.to) {
                (true, true) => false,
                (false, false) => self.segment.timestamps.is_some() && self.segment.seq != 0,
                _ => true,
            }
            && self.ttl.abs_diff(other.ttl) == 1
            && is_numbered
            && what(self) == what(other)
    }
}

/// First segments of the latest connections.
#[derive(Debug, Default)]
pub(super) struct Openers {
    latest: VecDeque<Opening>,
}

impl Openers {
    /// True if `opening` belongs to a connection that is already known by other addresses; otherwise `opening` is
    /// remembered.
    pub(super) fn is_translated(&mut self, opening: &Opening) -> bool {
        if self.latest.iter().any(|known| known.is_same(opening)) {
            return true;
        }
        if self.latest.len() >= REMEMBERED {
            self.latest.pop_front();
        }
        self.latest.push_back(*opening);
        false
    }
}

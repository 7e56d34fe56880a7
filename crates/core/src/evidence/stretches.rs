//! [`StretchFindings`]: what the stretches of a stream showed, one after another, in bounded memory.

use super::KnownPackets;
use crate::answer::{Cause, CauseId};
use crate::distribution::{LogHistogram, Precision};
use crate::metrics::clock::ClockEstimate;
use crate::session::Session;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Most causes of one kind that are stored separately.
pub const MAX_CAUSES_PER_KIND: usize = 64;

/// A cause, and how severe it is, which decides the order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FoundCause {
    /// The cause.
    pub cause: Cause,
    /// Approximate share of packets affected: among causes of the same severity the larger comes first.
    pub harm: f64,
    /// It never ceases, so that no variation shows it.
    pub whole_test: bool,
}

/// What the numbers of the packets of a stretch stand for: the first few may have been shown before.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct StretchSeam {
    /// So many packets at the begin of the stretch were judged with an earlier one.
    pub again: u32,
    /// Number in the stream of the packet that follows them.
    pub first: u32,
    /// Number in the stream of the first of them.
    pub from: u32,
    /// They are as much later than they were, in ns: what lies between them and the others is left out.
    pub left_out: i64,
}

impl StretchSeam {
    /// The place in the stretch of packet `seq` of the stream; None of one that belongs to an earlier stretch.
    pub fn place(&self, seq: u32) -> Option<u32> {
        Some(seq.checked_sub(self.first)?.saturating_add(self.again))
    }

    /// The number in the stream of the packet at `place` of the stretch.
    pub fn number(&self, place: u32) -> u32 {
        match place.checked_sub(self.again) {
            Some(after) => self.first.saturating_add(after),
            None => self.from.saturating_add(place),
        }
    }

    /// The same of a 64-bit number.
    pub fn number_of(&self, place: u64) -> u64 {
        match place.checked_sub(self.again.into()) {
            Some(after) => after.saturating_add(self.first.into()),
            None => place.saturating_add(self.from.into()),
        }
    }

    /// As much of `places` as lies on one side of what is left out.
    pub fn within(&self, places: Range<u32>) -> Range<u32> {
        match self.again {
            _ if self.left_out == 0 => places,
            again if places.start + places.end < 2 * again => places.start..places.end.min(again),
            again => places.start.max(again)..places.end,
        }
    }
}

/// What the stretches so far showed. Each was judged by itself, with what lasted from
/// the one before: what only several together would show (a drift that one does not resolve) is not found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StretchFindings {
    /// Number of stretches.
    pub stretches: u64,
    /// Times and numbers are those of the stream; `harm` is in packets.
    pub found: Vec<FoundCause>,
    /// Beyond the smallest delay of each stretch, in ns.
    pub waits: LogHistogram,
    /// Packets whose fate is known.
    pub sent: u64,
    /// Those of them that were lost, outages apart.
    pub lost: u64,
    /// Burst ratios, each times the losses of its stretch.
    pub bursts: f64,
    /// Whether a clock was set.
    pub was_set: bool,
    /// Where the last stretch ended, in seconds.
    pub end: f64,
}

/// What is known of the whole stream when it has ended.
pub struct WholeStream<'a> {
    /// The session of the test.
    pub session: &'a Session,
    /// How much of it is known.
    pub known: KnownPackets,
    /// What is known of the clocks.
    pub clock: &'a ClockEstimate,
    /// Packets that came.
    pub received: u64,
    /// Smallest delay, in ns.
    pub min: Option<i64>,
    /// Number of the first packet of the last stretch if that is too short to show a law.
    pub short: Option<u32>,
    /// The delays are round trips, by one clock.
    pub round_trip: bool,
}

impl Default for StretchFindings {
    fn default() -> StretchFindings {
        StretchFindings {
            stretches: 0,
            found: Vec::new(),
            waits: LogHistogram::new(Precision::STREAM),
            sent: 0,
            lost: 0,
            bursts: 0.0,
            was_set: false,
            end: 0.0,
        }
    }
}

impl StretchFindings {
    /// Whether stretches can have shown this.
    pub fn is_possible(&self, rows: u64) -> bool {
        let finite = |f: &FoundCause| {
            [f.harm, f.cause.from_s, f.cause.to_s, f.cause.confidence].iter().all(|x| x.is_finite())
                && f.cause.magnitude.is_none_or(f64::is_finite)
        };
        self.waits.len() <= rows
            && self.waits.is_possible(self.waits.len())
            && self.found.len() <= CauseId::ALL.len() * (MAX_CAUSES_PER_KIND + 1)
            && self.found.iter().all(finite)
            && self.bursts.is_finite()
            && self.end.is_finite()
            && self.lost <= self.sent
    }
}

//! [`StretchFindings`]: findings of the stretches of a stream, in bounded memory.

use super::KnownPackets;
use crate::answer::{Cause, CauseId};
use crate::distribution::{LogHistogram, Precision};
use crate::metrics::clock::ClockEstimate;
use crate::session::Session;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Maximum number of stored causes of one kind.
pub const MAX_CAUSES_PER_KIND: usize = 64;

/// A cause with its harm, which decides the order of causes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FoundCause {
    /// The cause.
    pub cause: Cause,
    /// Approximate share of packets affected; among causes of the same severity, the larger one comes first.
    pub harm: f64,
    /// True if the cause is present all the time, so that no variation shows it.
    pub whole_test: bool,
}

/// Maps packet numbers in a stretch to numbers in the stream. The first packets of a stretch may repeat
/// packets of an earlier one.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct StretchSeam {
    /// Number of repeated packets at the start of the stretch.
    pub again: u32,
    /// Number in the stream of the first packet after the repeated packets.
    pub first: u32,
    /// Number in the stream of the first repeated packet.
    pub from: u32,
    /// Time by which the repeated packets are shifted, in ns, to close the gap between them and the packet
    /// after them.
    pub left_out: i64,
}

impl StretchSeam {
    /// Returns the position in the stretch of packet `seq` of the stream; `None` if it belongs to an earlier
    /// stretch.
    pub fn position(&self, seq: u32) -> Option<u32> {
        Some(seq.checked_sub(self.first)?.saturating_add(self.again))
    }

    /// Returns the number in the stream of the packet at `position` of the stretch.
    pub fn number(&self, position: u32) -> u32 {
        match position.checked_sub(self.again) {
            Some(after) => self.first.saturating_add(after),
            None => self.from.saturating_add(position),
        }
    }

    /// Like [`StretchSeam::number`], for 64-bit positions.
    pub fn number_of(&self, position: u64) -> u64 {
        match position.checked_sub(self.again.into()) {
            Some(after) => after.saturating_add(self.first.into()),
            None => position.saturating_add(self.from.into()),
        }
    }

    /// Restricts the range `positions` to one side of the gap after the repeated packets, if there is a gap.
    pub fn within(&self, positions: Range<u32>) -> Range<u32> {
        match self.again {
            _ if self.left_out == 0 => positions,
            again if positions.start + positions.end < 2 * again => positions.start..positions.end.min(again),
            again => positions.start.max(again)..positions.end,
        }
    }
}

/// Findings of the stretches so far. Each stretch was judged separately, with the event in progress carried
/// over from the one before. Effects that only several stretches together would show, such as a slow drift,
/// are not found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StretchFindings {
    /// Number of stretches.
    pub stretches: u64,
    /// Causes found, with times and numbers of the stream; `harm` is in packets.
    pub found: Vec<FoundCause>,
    /// Delays above the smallest of their stretch, in ns.
    pub waits: LogHistogram,
    /// Packets whose fate is known.
    pub sent: u64,
    /// Packets lost, except during outages.
    pub lost: u64,
    /// Sum of burst ratios, each weighted with the losses of its stretch.
    pub bursts: f64,
    /// Sum of design effects of loss, each weighted with the losses of its stretch.
    #[serde(default)]
    pub effects: f64,
    /// True if a clock was set.
    pub was_set: bool,
    /// End of the last stretch, in seconds.
    pub end: f64,
}

/// Facts about the whole stream that are known when it has ended.
pub struct WholeStream<'a> {
    /// The session of the test.
    pub session: &'a Session,
    /// Part of the stream whose outcome is known.
    pub known: KnownPackets,
    /// Estimate of the clocks.
    pub clock: &'a ClockEstimate,
    /// Number of packets received.
    pub received: u64,
    /// Smallest delay, in ns.
    pub min: Option<i64>,
    /// Number of the first packet of the last stretch if that is too short to be judged reliably.
    pub short: Option<u32>,
    /// True if the delays are round trips, measured with one clock.
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
            effects: 0.0,
            was_set: false,
            end: 0.0,
        }
    }
}

impl StretchFindings {
    /// Returns true if these findings can result from stretches.
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
            && self.effects.is_finite()
            && self.end.is_finite()
            && self.lost <= self.sent
    }
}

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

/// A cause with the harm that it does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FoundCause {
    /// The cause, with its times and packets.
    pub cause: Cause,
    /// Approximate share of packets affected; among causes of the same severity, the one with the larger share comes
    /// first.
    pub harm: f64,
    /// True if the cause acts during the whole test. It is then not visible as a variation.
    pub whole_test: bool,
}

/// Maps packet numbers in a stretch to sequence numbers in the stream. The first packets of a stretch may repeat
/// packets of an earlier one.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct StretchSeam {
    /// Number of repeated packets at the start of the stretch.
    pub again: u32,
    /// Sequence number of the first packet after the repeated packets.
    pub first: u32,
    /// Sequence number of the first repeated packet.
    pub from: u32,
    /// Time by which the repeated packets are shifted, in ns, to close the gap between them and the packet
    /// after them.
    pub left_out: i64,
}

impl StretchSeam {
    /// Returns the position of packet `seq` in the stretch; `None` if the packet belongs to an earlier stretch.
    pub fn position(&self, seq: u32) -> Option<u32> {
        Some(seq.checked_sub(self.first)?.saturating_add(self.again))
    }

    /// Returns the sequence number of the packet at `position` in the stretch.
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

    /// Clips the range `positions` so that it does not extend across the gap after the repeated packets, if there is
    /// one.
    pub fn within(&self, positions: Range<u32>) -> Range<u32> {
        match self.again {
            _ if self.left_out == 0 => positions,
            again if positions.start + positions.end < 2 * again => positions.start..positions.end.min(again),
            again => positions.start.max(again)..positions.end,
        }
    }
}

/// Findings of the stretches so far. Each stretch was judged separately, including an event that was in progress at the
/// end of the previous stretch. Effects that only several stretches together would show, such as a slow drift, are not
/// found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StretchFindings {
    /// Number of stretches.
    pub stretches: u64,
    /// Causes found, with times and sequence numbers of the stream; `harm` is in packets.
    pub found: Vec<FoundCause>,
    /// Delays above the smallest delay of their stretch, in ns.
    pub waits: LogHistogram,
    /// Number of packets known to be received or lost.
    pub sent: u64,
    /// Number of packets lost, without the losses during outages.
    pub lost: u64,
    /// Sum of burst ratios, each weighted by the losses of its stretch.
    pub bursts: f64,
    /// Sum of design effects of loss, each weighted by the losses of its stretch.
    #[serde(default)]
    pub effects: f64,
    /// True if a clock was set.
    pub was_set: bool,
    /// End of the last stretch, in seconds since the first packet was sent.
    pub end: f64,
}

/// Facts about the whole stream that are only known after its end.
pub struct WholeStream<'a> {
    /// The session of the test.
    pub session: &'a Session,
    /// The packets known to be received or lost.
    pub known: KnownPackets,
    /// Estimate of the clocks.
    pub clock: &'a ClockEstimate,
    /// Number of packets received.
    pub received: u64,
    /// Smallest delay, in ns.
    pub min: Option<i64>,
    /// Sequence number of the first packet of the last stretch if that stretch is too short for a reliable verdict.
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
    /// Returns true if an analysis of `rows` rows in stretches can have produced these findings.
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

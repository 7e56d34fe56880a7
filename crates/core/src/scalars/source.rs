//! [`ScalarSource`]: the part of a summary from which scalars are read.

use crate::metrics::qoo::QualityOfOutcome;
use crate::spec::Direction;
use crate::summary::{
    ClockEstimate, Corrected, Dejitter, Distribution, Ipdv, Loss, MarkFigures, Rfc3550, SkewHull,
    StampCounts, Summary, Y1541,
};
use crate::twoway::{DirectionResult, TwoWayFigures};
use std::collections::BTreeMap;

/// A whole test or one direction of a round-trip test. Its methods read the fields that both have.
#[derive(Clone, Copy, Debug)]
pub enum ScalarSource<'a> {
    /// A whole test: one-way delays, or round trips.
    Test(&'a Summary),
    /// One direction of a round-trip test.
    Direction(&'a DirectionResult),
}

impl<'a> ScalarSource<'a> {
    /// Returns one direction of `summary`; `None` if it is not a round-trip test with results for that direction.
    /// Without a `direction`, returns the whole test.
    pub fn of(summary: &'a Summary, direction: Option<Direction>) -> Option<ScalarSource<'a>> {
        let Some(direction) = direction else { return Some(ScalarSource::Test(summary)) };
        let figures = summary.two_way.as_deref()?;
        let found = match direction {
            Direction::Up => &figures.up,
            Direction::Down => &figures.down,
        };
        found.as_ref().map(ScalarSource::Direction)
    }

    /// Returns the whole test; `None` for one direction.
    pub fn test(&self) -> Option<&'a Summary> {
        match *self {
            ScalarSource::Test(summary) => Some(summary),
            ScalarSource::Direction(_) => None,
        }
    }

    /// Returns the per-direction results of a round-trip test; `None` for other tests and for one direction.
    pub fn two_way(&self) -> Option<&'a TwoWayFigures> {
        self.test()?.two_way.as_deref()
    }

    /// Returns the number of packets sent that are known to be received or lost; `None` if unknown.
    pub fn sent(&self) -> Option<u64> {
        match *self {
            ScalarSource::Test(summary) => Some(summary.counts.sent),
            ScalarSource::Direction(one) => one.sent,
        }
    }

    /// Returns the number of packets lost; `None` if unknown.
    pub fn lost(&self) -> Option<u64> {
        match *self {
            // Without a ratio, the count covers only a part of the packets.
            ScalarSource::Test(summary) => {
                let is_known = summary.loss.ratio.is_some() || !summary.counts.tail_unknown;
                (is_known && summary.counts_losses()).then_some(summary.counts.lost)
            }
            ScalarSource::Direction(one) => one.lost,
        }
    }

    /// Returns the number of duplicates; `None` if unknown.
    pub fn duplicate(&self) -> Option<u64> {
        match *self {
            ScalarSource::Test(summary) => Some(summary.counts.duplicate),
            ScalarSource::Direction(one) => one.duplicates,
        }
    }

    /// Returns the number of reordered packets; `None` if unknown.
    pub fn out_of_sequence(&self) -> Option<u64> {
        match *self {
            ScalarSource::Test(summary) => Some(summary.counts.out_of_sequence),
            ScalarSource::Direction(one) => one.reordered,
        }
    }

    /// Returns lost packets divided by packets sent; `None` if either number is unknown or nothing was sent.
    pub fn loss_ratio(&self) -> Option<f64> {
        match *self {
            ScalarSource::Test(summary) => summary.loss.ratio.filter(|_| summary.counts_losses()),
            ScalarSource::Direction(one) => one.lost_pct.map(|p| p / 100.0),
        }
    }

    /// Returns the loss figures; `None` if unknown.
    pub fn loss(&self) -> Option<&'a Loss> {
        match *self {
            ScalarSource::Test(summary) => summary.counts_losses().then_some(&summary.loss),
            ScalarSource::Direction(one) => one.loss.as_ref(),
        }
    }

    /// Returns the scores of Quality of Outcome for each profile; `None` if it was not judged.
    pub fn qoo(&self) -> Option<&'a QualityOfOutcome> {
        match *self {
            ScalarSource::Test(summary) => summary.answer.as_ref()?.qoo.as_ref(),
            ScalarSource::Direction(one) => one.qoo.as_ref(),
        }
    }

    /// Returns the marks of the packets; `None` unless they were sent with marks.
    pub fn marks(&self) -> Option<&'a MarkFigures> {
        match *self {
            ScalarSource::Test(summary) => summary.marks.as_deref(),
            ScalarSource::Direction(one) => one.marks.as_deref(),
        }
    }

    /// Returns the value of a metric that has no field of its own in the summary; `None` if it is undefined.
    pub(super) fn computed(&self, key: &str) -> Option<f64> {
        self.figures().get(key).copied().flatten()
    }

    fn figures(&self) -> &'a BTreeMap<String, Option<f64>> {
        match *self {
            ScalarSource::Test(summary) => &summary.figures,
            ScalarSource::Direction(one) => &one.figures,
        }
    }
}

/// Defines access to fields that tests and directions have in common.
macro_rules! both {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $taken:ident;)*) => {
        impl<'a> ScalarSource<'a> {
            $($(#[$doc])*
            pub fn $name(&self) -> &'a $type {
                match *self {
                    ScalarSource::Test(summary) => &summary.$taken,
                    ScalarSource::Direction(one) => &one.$taken,
                }
            })*
        }
    };
}

both! {
    /// Returns the raw delay.
    latency: Distribution = latency;
    /// Returns PDV, the delay above the smallest.
    pdv: Distribution = pdv;
    /// Returns PDV without the effect of clock skew; `None` if it was not computed.
    pdv_deskewed: Option<Distribution> = pdv_deskewed;
    /// Returns the delay corrected by the clock estimate; `None` if it was not computed.
    latency_corrected: Option<Corrected> = latency_corrected;
    /// Returns the variation between consecutive packets.
    ipdv: Ipdv = ipdv;
    /// Returns RTP jitter; `None` if it was not computed.
    rfc3550_jitter: Option<Rfc3550> = rfc3550_jitter;
    /// Returns MAPDV2, in ns; `None` if it was not computed.
    mapdv2: Option<f64> = mapdv2;
    /// Returns the relative clock skew; `None` if it was not computed.
    skew_hull: Option<SkewHull> = skew_hull;
    /// Returns the figures of play-out buffers and voice quality; `None` if they were not computed.
    dejitter: Option<Dejitter> = dejitter;
    /// Returns the service objectives; `None` if they were not evaluated.
    objectives: Option<Y1541> = objectives;
    /// Returns the clock estimate.
    clock: ClockEstimate = clock;
    /// Returns the sources of the timestamps.
    stamps: StampCounts = stamps;
}

//! [`ScalarSource`]: what scalars are read from.

use crate::spec::Direction;
use crate::summary::{
    ClockEstimate, Corrected, Dejitter, Distribution, Ipdv, Loss, Rfc3550, SkewHull, StampCounts, Summary,
    Y1541,
};
use crate::twoway::{DirectionResult, TwoWayFigures};
use std::collections::BTreeMap;

/// A whole test, or one way of a round-trip test, with what both have.
#[derive(Clone, Copy, Debug)]
pub enum ScalarSource<'a> {
    /// A whole test: one-way delays, or round trips.
    Test(&'a Summary),
    /// One way of a round-trip test.
    Way(&'a DirectionResult),
}

impl<'a> ScalarSource<'a> {
    /// One way of `summary` if it is a round-trip test with that way; with `None` the whole.
    pub fn of(summary: &'a Summary, way: Option<Direction>) -> Option<ScalarSource<'a>> {
        let Some(way) = way else { return Some(ScalarSource::Test(summary)) };
        let figures = summary.two_way.as_deref()?;
        let found = match way {
            Direction::Up => &figures.up,
            Direction::Down => &figures.down,
        };
        found.as_ref().map(ScalarSource::Way)
    }

    /// The whole test; `None` for one way.
    pub fn test(&self) -> Option<&'a Summary> {
        match *self {
            ScalarSource::Test(summary) => Some(summary),
            ScalarSource::Way(_) => None,
        }
    }

    /// What a round-trip test as a whole has in addition to its round trips; `None` for other tests.
    pub fn two_way(&self) -> Option<&'a TwoWayFigures> {
        self.test()?.two_way.as_deref()
    }

    /// Packets sent, as far as their fate is known.
    pub fn sent(&self) -> Option<u64> {
        match *self {
            ScalarSource::Test(summary) => Some(summary.counts.sent),
            ScalarSource::Way(way) => way.sent,
        }
    }

    /// Packets lost; `None` if unknown.
    pub fn lost(&self) -> Option<u64> {
        match *self {
            ScalarSource::Test(summary) => Some(summary.counts.lost),
            ScalarSource::Way(way) => way.lost,
        }
    }

    /// Duplicates; `None` if unknown.
    pub fn duplicate(&self) -> Option<u64> {
        match *self {
            ScalarSource::Test(summary) => Some(summary.counts.duplicate),
            ScalarSource::Way(way) => way.duplicates,
        }
    }

    /// Packets overtaken; `None` if unknown.
    pub fn out_of_sequence(&self) -> Option<u64> {
        match *self {
            ScalarSource::Test(summary) => Some(summary.counts.out_of_sequence),
            ScalarSource::Way(way) => way.reordered,
        }
    }

    /// Lost over sent.
    pub fn loss_ratio(&self) -> Option<f64> {
        match *self {
            ScalarSource::Test(summary) => summary.loss.ratio,
            ScalarSource::Way(way) => way.lost_pct.map(|p| p / 100.0),
        }
    }

    /// How losses cluster; `None` if unknown.
    pub fn loss(&self) -> Option<&'a Loss> {
        match *self {
            ScalarSource::Test(summary) => Some(&summary.loss),
            ScalarSource::Way(way) => way.loss.as_ref(),
        }
    }

    /// The value of a metric without a field of its own; `None` if it is undefined.
    pub(super) fn computed(&self, key: &str) -> Option<f64> {
        self.figures().get(key).copied().flatten()
    }

    fn figures(&self) -> &'a BTreeMap<String, Option<f64>> {
        match *self {
            ScalarSource::Test(summary) => &summary.figures,
            ScalarSource::Way(way) => &way.figures,
        }
    }
}

/// What a test and a way have in the same form.
macro_rules! both {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $taken:ident;)*) => {
        impl<'a> ScalarSource<'a> {
            $($(#[$doc])*
            pub fn $name(&self) -> &'a $type {
                match *self {
                    ScalarSource::Test(summary) => &summary.$taken,
                    ScalarSource::Way(way) => &way.$taken,
                }
            })*
        }
    };
}

both! {
    /// Raw delay.
    latency: Distribution = latency;
    /// Delay above the smallest.
    pdv: Distribution = pdv;
    /// PDV without the skew of the clocks.
    pdv_deskewed: Option<Distribution> = pdv_deskewed;
    /// Delay corrected by the clock estimate.
    latency_corrected: Option<Corrected> = latency_corrected;
    /// Variation between consecutive packets.
    ipdv: Ipdv = ipdv;
    /// RTP jitter.
    rfc3550_jitter: Option<Rfc3550> = rfc3550_jitter;
    /// MAPDV2, in ns.
    mapdv2: Option<f64> = mapdv2;
    /// Relative clock skew.
    skew_hull: Option<SkewHull> = skew_hull;
    /// Play-out buffers and voice quality.
    dejitter: Option<Dejitter> = dejitter;
    /// Service objectives.
    objectives: Option<Y1541> = objectives;
    /// The clocks.
    clock: ClockEstimate = clock;
    /// Sources of the time stamps.
    stamps: StampCounts = stamps;
}

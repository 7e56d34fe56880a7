//! [`StreamFacts`]: what is known of a stream that has ended before any metric is computed.

use super::clock::ClockEstimate;
use super::dejitter::ReceiverModel;
use super::periods::MeanPeriods;
use crate::analysis::Options;
use crate::analysis::tally::Tally;
use crate::distribution::{DistributionRequest, Percent};
use crate::session::Session;
use crate::twoway::TwoWayFigures;
use std::sync::OnceLock;

/// What was counted while packets arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArrivalCounts {
    /// Packets sent, and whether more may have been.
    pub sent: u64,
    pub tail_unknown: bool,
    /// The packets are those with numbers below this one, but for the session's unrecorded ones.
    pub end: u64,
    pub received: u64,
    pub accepted: u64,
    pub duplicate: u64,
    pub invalid: u64,
    pub late: u64,
    pub rx_time_regressions: u64,
    /// Packets that came and have no delay.
    pub delayless: u64,
}

/// The kind of delays in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DelayKind {
    /// One-way delays between two clocks.
    OneWay,
    /// One way of a round-trip test, by the packets that came back: its other facts are not those of a test.
    Way,
    /// Round trips. Both their ends are on this host's clock, so there is no skew; and a round trip is not the delay
    /// that play-out buffers and service objectives are about.
    RoundTrips,
}

/// What is known of a stream before its metrics are computed.
pub(crate) struct StreamFacts<'a> {
    pub session: &'a Session,
    pub options: &'a Options,
    pub percents: Vec<Percent>,
    pub clock: ClockEstimate,
    pub counted: ArrivalCounts,
    pub periods: MeanPeriods,
    pub kind: DelayKind,
    pub tally: &'a Tally,
    /// Of round trips, what the test has beside them: known once its ways are.
    pub two_way: OnceLock<TwoWayFigures>,
}

impl StreamFacts<'_> {
    /// The order statistics that were asked for.
    pub fn wanted(&self) -> DistributionRequest<'_> {
        DistributionRequest { percents: &self.percents, method: self.options.method, bins: self.options.bins }
    }

    /// The receiver that plays packets out.
    pub fn receiver(&self) -> ReceiverModel<'_> {
        let Options { codec, delay_model, buffers, spurt, .. } = self.options;
        ReceiverModel { codec, model: *delay_model, buffers, spurt: *spurt }
    }

    /// Whether delays are between two clocks.
    pub fn has_two_clocks(&self) -> bool {
        self.kind != DelayKind::RoundTrips
    }
}

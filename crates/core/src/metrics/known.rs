//! [`StreamFacts`]: facts about a finished stream that are known before any metric is computed.

use super::clock::ClockEstimate;
use super::dejitter::ReceiverModel;
use super::periods::MeanPeriods;
use crate::analysis::Options;
use crate::analysis::tally::Tally;
use crate::distribution::{DistributionRequest, Percent};
use crate::session::Session;
use crate::twoway::TwoWayFigures;
use std::sync::OnceLock;

/// Counts taken while packets arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArrivalCounts {
    /// Number of packets sent that are known to be received or lost.
    pub sent: u64,
    /// True if it is unknown whether some packets were received or lost.
    pub tail_unknown: bool,
    /// End of the known packets: each packet with a lower number is known, unless the session lists it as unrecorded.
    pub end: u64,
    pub received: u64,
    pub accepted: u64,
    pub duplicate: u64,
    pub invalid: u64,
    pub late: u64,
    pub rx_time_regressions: u64,
    /// Number of received packets whose delay is unknown.
    pub delayless: u64,
}

/// Kind of delay in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DelayKind {
    /// One-way delays between two clocks.
    OneWay,
    /// One direction of a round-trip test. Only packets that returned have delays, and only metrics that apply to
    /// directions are reported.
    Direction,
    /// Round trips. Both times are read from this host's clock, so there is no skew. Play-out buffers and
    /// service objectives do not apply, because they need one-way delays.
    RoundTrips,
}

/// Facts about a stream that are known before its metrics are computed.
pub(crate) struct StreamFacts<'a> {
    pub session: &'a Session,
    pub options: &'a Options,
    pub percents: Vec<Percent>,
    pub clock: ClockEstimate,
    pub counted: ArrivalCounts,
    pub periods: MeanPeriods,
    pub kind: DelayKind,
    pub tally: &'a Tally,
    /// Per-direction results of a round-trip test; set after its directions have been analysed.
    pub two_way: OnceLock<TwoWayFigures>,
}

impl StreamFacts<'_> {
    /// Returns the order statistics to compute.
    pub fn wanted(&self) -> DistributionRequest<'_> {
        DistributionRequest { percents: &self.percents, method: self.options.method, bins: self.options.bins }
    }

    /// Returns the model of the receiver with its play-out buffer.
    pub fn receiver(&self) -> ReceiverModel<'_> {
        let Options { codec, delay_model, buffers, spurt, .. } = self.options;
        ReceiverModel { codec, model: *delay_model, buffers, spurt: *spurt }
    }

    /// Returns true if delays are measured between two clocks.
    pub fn has_two_clocks(&self) -> bool {
        self.kind != DelayKind::RoundTrips
    }
}

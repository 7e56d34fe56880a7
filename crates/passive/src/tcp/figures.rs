//! [`DirectionFigures`]: the final figures of one direction's data; [`DirectionStatus`]: its current state.

use super::event::EventKind;
use crate::SpreadFigures;
use jitlat_core::time::Span;
use serde::{Deserialize, Serialize};

/// What happened to the data of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirectionFigures {
    /// Segments seen.
    pub segments: u64,
    /// Segments with payload.
    pub data_segments: u64,
    /// Payload bytes, retransmissions included.
    pub bytes: u64,
    /// Payload bytes, each counted once.
    pub unique_bytes: u64,
    /// Segments retransmitted, for any reason.
    pub retransmissions: u64,
    /// Of those: after three duplicate acknowledgements, or a SACK above them.
    pub fast: u64,
    /// Of those: after silence for a retransmission timeout.
    pub timeouts: u64,
    /// Of those: unnecessary, the original had arrived.
    pub spurious: u64,
    /// Segments overtaken by later ones before the capture point.
    pub out_of_order: u64,
    /// The same packet seen twice (same IP identification).
    pub duplicates: u64,
    /// Segments lost before the capture point: gaps that a retransmission filled.
    pub lost_before: u64,
    /// Segments lost after the capture point: seen here, and retransmitted necessarily.
    pub lost_after: u64,
    /// Gaps never filled within the capture: mostly packets that the capture missed.
    pub unfilled_gaps: u64,
    /// Probes of an idle connection or of a closed window, all data being acknowledged: the last byte's number again, or one
    /// byte beyond a closed window.
    pub keep_alives: u64,
    /// Duplicate acknowledgements sent this way.
    pub duplicate_acks: u64,
    /// Times the receiver's window closed (advertised this way).
    pub zero_windows: u64,
    /// How long it was closed in total, in ns.
    pub zero_window_ns: Span,
    /// Segments that filled the advertised window completely.
    pub window_full: u64,
    /// How long it then waited for room in total, in ns.
    pub window_full_ns: Span,
    /// Total time between the transmissions of data retransmitted by fast retransmission, in ns.
    pub fast_wait_ns: Span,
    /// The same of retransmissions after a timeout.
    pub timeout_wait_ns: Span,
    /// The longest such wait.
    pub longest_wait_ns: Span,
    /// Most bytes in flight.
    pub max_in_flight: u64,
    /// Round trip from the capture point to the receiver and back, by acknowledgements (Karn: never of data sent
    /// twice). Includes delayed acknowledgements. Quantiles of more than 2048 values are within 1.6 %.
    pub rtt_ack_ns: Option<SpreadFigures>,
    /// The same by the timestamp option.
    pub rtt_timestamp_ns: Option<SpreadFigures>,
}

impl DirectionFigures {
    /// Adds how long data had waited when it was retransmitted for this reason.
    pub(super) fn add_wait(&mut self, kind: EventKind, span: Span) {
        let sum = match kind {
            EventKind::Fast => &mut self.fast_wait_ns,
            EventKind::Timeout => &mut self.timeout_wait_ns,
            _ => return,
        };
        *sum = *sum + span;
        self.longest_wait_ns = self.longest_wait_ns.max(span);
    }
}

/// The state of one direction after a segment. `None`: unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectionStatus {
    /// Bytes sent and not acknowledged, as far as the capture point sees.
    pub in_flight: Option<u64>,
    /// The window the receiver advertised last, in bytes.
    pub window: Option<u64>,
    /// A round trip measured by this segment's acknowledgement.
    pub rtt_ack: Option<Span>,
    /// A round trip measured by this segment's timestamp.
    pub rtt_timestamp: Option<Span>,
}

//! [`DirectionFigures`]: final statistics of one direction's data; [`DirectionStatus`]: its current state.

use super::event::EventKind;
use super::round_trip_history::RoundTripChange;
use crate::SpreadFigures;
use jitlat_core::time::Span;
use serde::{Deserialize, Serialize};

/// Statistics of the data in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirectionFigures {
    /// Number of segments seen.
    pub segments: u64,
    /// Number of segments with payload.
    pub data_segments: u64,
    /// Payload bytes, including retransmissions.
    pub bytes: u64,
    /// Payload bytes, each counted once.
    pub unique_bytes: u64,
    /// Number of segments retransmitted, for any reason.
    pub retransmissions: u64,
    /// Number of retransmissions after three duplicate acknowledgements, or after a SACK of later data.
    pub fast: u64,
    /// Number of retransmissions after a silence as long as a retransmission timeout.
    pub timeouts: u64,
    /// Number of unnecessary retransmissions: the original had arrived.
    pub spurious: u64,
    /// Number of segments that reached the capture point after segments sent later.
    pub out_of_order: u64,
    /// Number of packets seen twice (same IP identification), duplicated by the path.
    pub duplicates: u64,
    /// Number of packets recorded again, because the recording was made at several points of one host or switch. No
    /// other count includes these copies.
    #[serde(default)]
    pub copies: u64,
    /// Number of segments lost before the capture point: gaps that a retransmission filled.
    pub lost_before: u64,
    /// Number of segments lost after the capture point: seen here, then retransmitted because they did not
    /// arrive.
    pub lost_after: u64,
    /// Number of gaps not filled within the capture, mostly because the capture missed packets.
    pub unfilled_gaps: u64,
    /// Number of probes of an idle connection or of a closed window, sent after all data was acknowledged:
    /// segments with the last byte's sequence number, or with one byte beyond a closed window.
    pub keep_alives: u64,
    /// Number of duplicate acknowledgements sent in this direction.
    pub duplicate_acks: u64,
    /// Number of times the receiver's window, advertised in this direction, closed.
    pub zero_windows: u64,
    /// Total time for which the receiver's window was closed, in ns.
    pub zero_window_ns: Span,
    /// Number of segments that filled the advertised window completely.
    pub window_full: u64,
    /// Total time for which the sender could not send because the window was full, in ns.
    pub window_full_ns: Span,
    /// Total time from transmission to fast retransmission, over all fast retransmissions, in ns.
    pub fast_wait_ns: Span,
    /// Total time from transmission to retransmission after a timeout, over all timeouts, in ns.
    pub timeout_wait_ns: Span,
    /// Longest time from transmission to retransmission, in ns.
    pub longest_wait_ns: Span,
    /// Maximum number of bytes in flight.
    pub max_in_flight: u64,
    /// Round trips between capture point and receiver, by acknowledgements of data that was sent once (Karn's rule).
    /// Includes delayed acknowledgements. Quantiles of more than 2048 values are within 1.6 %. `None` if not measured.
    pub rtt_ack_ns: Option<SpreadFigures>,
    /// Round trips between capture point and receiver, by the timestamp option; `None` if not measured.
    pub rtt_timestamp_ns: Option<SpreadFigures>,
    /// Lasting changes of the smallest round trip, in order of time: the path became longer or shorter. At most eight.
    #[serde(default)]
    pub rtt_changes: Vec<RoundTripChange>,
    /// Median, over time, of the mean time that round trips take above the smallest one between two changes, in ns; null
    /// without changes.
    #[serde(default)]
    pub rtt_above_changes_ns: Option<Span>,
}

impl DirectionFigures {
    /// Adds the time for which data had waited when it was retransmitted for the reason `kind`.
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

/// State of one direction after a segment. Unknown values are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectionStatus {
    /// Number of bytes that passed the capture point and are not acknowledged.
    pub in_flight: Option<u64>,
    /// Window that the receiver advertised last, in bytes.
    pub window: Option<u64>,
    /// Round trip measured by this segment's acknowledgement.
    pub rtt_ack: Option<Span>,
    /// Round trip measured by this segment's timestamp.
    pub rtt_timestamp: Option<Span>,
}

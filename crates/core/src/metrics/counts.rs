//! How many packets were sent, received, duplicated, damaged and lost (metrics §1).

use serde::{Deserialize, Serialize};

/// Packet counts. `received = unique_valid + duplicate + invalid` and `lost = sent − unique_valid`,
/// always.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Counts {
    /// Packets the sender sent: N of every loss figure.
    pub sent: u64,
    /// Rows of the log: datagrams that arrived, whatever they were.
    pub received: u64,
    /// First clean copies; the packets all other figures are about.
    pub unique_valid: u64,
    /// Further copies of an accepted packet.
    pub duplicate: u64,
    /// Sequence number out of range, anomaly flagged, or times missing or not subtractable.
    pub invalid: u64,
    /// Sent but not accepted.
    pub lost: u64,
    /// Of the lost packets, those that arrived clean but after the waiting time (only if one is set).
    pub late: u64,
    /// Accepted, but overtaken by a later packet (RFC 4737).
    pub out_of_sequence: u64,
    /// Lost packets, in percent of those sent.
    pub lost_pct: Option<f64>,
    /// Invalid packets, in percent of those received.
    pub duplicate_pct: Option<f64>,
    /// Duplicates, in percent of those received.
    pub invalid_pct: Option<f64>,
    /// Overtaken packets, in percent of those accepted.
    pub out_of_sequence_pct: Option<f64>,
    /// Rows whose receive time precedes the row before: the receiver's clock stepped back.
    pub rx_time_regressions: u64,
    /// What became of the packets after the last arrival, or of others that the log does not cover, is not known: they
    /// count neither as sent nor as lost.
    pub tail_unknown: bool,
}
